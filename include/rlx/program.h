/* SPDX-License-Identifier: Apache-2.0 */
/* A program: a plan, the device it runs on, and its weights in memory. Immutable and retained; any
 * number of threads may make executables of one program. It comes from a model
 * (rlx_session_compile), from a plan (rlx_program_create) or from a file (rlx_program_load). */
#ifndef RLX_PROGRAM_H
#define RLX_PROGRAM_H

#include <rlx/device.h>
#include <rlx/plan.h>

RLX_BEGIN_DECLS

typedef struct rlx_program rlx_program;

typedef struct rlx_program_options {
    size_t size;                    /* sizeof(rlx_program_options) */
    const rlx_allocator *allocator; /* NULL: the default; copied */
    /* Called every few megabytes while weights are read, and between the stretches that prepare
     * them; false cancels (RLX_CANCELLED). May be NULL. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
    /* rlx_program_load: weights take at most so many bytes of memory; 0: as many as they have. What
     * does not fit is read from the file during each run (rlx_plan_stream_weights). */
    uint64_t weights_budget;
} rlx_program_options;

/* Reads the weights and runs the prepare steps. `plan` is consumed; `device` is retained; `options`
 * may be NULL. RLX_MISMATCH: the plan was made for another kind of device (a plan for "cpu/avx2"
 * also runs on "cpu:scalar"); RLX_IO, RLX_NOT_FOUND: a weight's source, named; RLX_FAULT: a prepare
 * step met data that it cannot take; RLX_CANCELLED; RLX_OUT_OF_MEMORY. */
RLX_CALL rlx_status rlx_program_create(rlx_device *device, rlx_plan *plan,
                                       const rlx_program_options *options,
                                       rlx_program **out_program);
RLX_API rlx_program *rlx_program_retain(rlx_program *program);
RLX_API void rlx_program_release(rlx_program *program); /* NULL is allowed */

/* Borrowed as long as the program lives. */
RLX_API const rlx_plan *rlx_program_plan(const rlx_program *program);
RLX_API rlx_device *rlx_program_device(const rlx_program *program);
/* Bytes of weights in memory (tiles not counted), and whether they are a mapped file. */
RLX_API uint64_t rlx_program_weights_bytes(const rlx_program *program);
RLX_API bool rlx_program_is_mapped(const rlx_program *program);

/* By name; RLX_NOT_FOUND lists what there is. NULL as entry name: the first. */
RLX_CALL rlx_status rlx_program_find_entry(const rlx_program *program, const char *name,
                                           uint32_t *out_entry);
RLX_CALL rlx_status rlx_program_find_input(const rlx_program *program, uint32_t entry,
                                           const char *name, uint32_t *out_index);
RLX_CALL rlx_status rlx_program_find_output(const rlx_program *program, uint32_t entry,
                                            const char *name, uint32_t *out_index);

/* A named input or output of an entry; an output's slot may have another name. */
typedef struct rlx_port_info {
    const char *name; /* borrowed */
    rlx_dtype dtype;
    rlx_shape shape; /* planned: true sizes of outputs can be smaller */
    uint64_t elements, bytes;
    uint32_t slot;
    bool survives; /* inputs: need not be set again before the next run */
} rlx_port_info;
RLX_CALL rlx_status rlx_program_input(const rlx_program *program, uint32_t entry, uint32_t index,
                                      rlx_port_info *out_info);
RLX_CALL rlx_status rlx_program_output(const rlx_program *program, uint32_t entry, uint32_t index,
                                       rlx_port_info *out_info);

/* One file: plan and packed weights, mapped as it is by load. It appears whole or not at all. */
RLX_CALL rlx_status rlx_program_save(const rlx_program *program, const char *path);
/* The same with the options' progress callback (per megabyte of weights written); it can cancel,
 * and then nothing is left. `options` may be NULL. */
RLX_CALL rlx_status rlx_program_save_watched(const rlx_program *program, const char *path,
                                             const rlx_program_options *options);
/* Maps a saved program. With options->weights_budget, executables of it read the rest of the
 * weights while they run, each by an engine of its own; the file must stay as it is. Errors are
 * those of reading the plan (RLX_PARSE, RLX_UNSUPPORTED, RLX_INVALID_PLAN, RLX_MISMATCH, RLX_IO),
 * and RLX_DOES_NOT_FIT for a budget smaller than the largest tile. */
RLX_CALL rlx_status rlx_program_load(rlx_device *device, const char *path,
                                     const rlx_program_options *options, rlx_program **out_program);

/* Whether a file begins like a program file. False also when it cannot be read. */
RLX_API bool rlx_program_probe(const char *path);
/* The plan of a saved program alone, for any target and without a device. Owned by the caller. */
RLX_CALL rlx_status rlx_program_read_plan(const rlx_allocator *allocator, const char *path,
                                          rlx_plan **out_plan);

RLX_END_DECLS

#endif
