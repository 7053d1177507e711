/* SPDX-License-Identifier: Apache-2.0 */
/* An executable: one arena and one running state of a program. Set inputs, run an entry, read
 * outputs; a run allocates nothing. Used by one thread at a time (a second one gets RLX_BUSY); many
 * executables may run side by side.
 *
 *     rlx_exec_create(program, NULL, &exec);
 *     rlx_exec_set_f32(exec, 0, "x", x, 64);
 *     rlx_exec_run(exec, 0);
 *     rlx_exec_read_f32(exec, 0, "y", y, 64, NULL);
 */
#ifndef RLX_EXEC_H
#define RLX_EXEC_H

#include <rlx/arena.h>
#include <rlx/program.h>

RLX_BEGIN_DECLS

typedef struct rlx_exec rlx_exec;

/* Where a run stands, between two stretches. */
typedef struct rlx_progress {
    uint32_t entry;
    uint32_t step, step_count; /* steps of the entry before which it stands, and all */
} rlx_progress;

typedef struct rlx_exec_options {
    size_t size;                    /* sizeof(rlx_exec_options) */
    const rlx_allocator *allocator; /* NULL: the default; copied */
    /* Memory of the caller for a segment (borrowed while the executable lives; zeroed by create;
     * aligned as the device says). NULL: allocated. Too few bytes or a crooked address is
     * RLX_DOES_NOT_FIT. */
    void *state_memory, *scratch_memory;
    uint64_t state_bytes, scratch_bytes;
    bool poison;           /* fill each buffer with 0xFF after its last use */
    bool single_step;      /* steps are submitted one by one: for rlx_exec_run_steps */
    bool profile;          /* times per step */
    uint32_t trace_events; /* how many step times a trace keeps; 0: 16384 */
    /* Called between stretches; false cancels the run (RLX_CANCELLED). May be NULL. */
    bool (*progress)(void *user, const rlx_progress *progress);
    void *user;
    /* For a program of several ranks, and only for such: how they reach each other (borrowed while
     * the executable lives; rlx/transport.h). State and scratch then lie in its heap
     * (rlx_plan_heap_bytes), and no memory is given for them above. Creating, cloning, running and
     * destroying are collective calls: every rank does the same, in the same order. */
    struct rlx_transport *transport;
} rlx_exec_options;

/* `program` is retained; `options` may be NULL. With several ranks: RLX_MISMATCH, on all of them,
 * names what differs (library, target, rank, collectives, layout of state and scratch) or the rank
 * that could not create its own; RLX_DOES_NOT_FIT: the heap has no room. */
RLX_CALL rlx_status rlx_exec_create(rlx_program *program, const rlx_exec_options *options,
                                    rlx_exec **out_exec);
RLX_API void rlx_exec_destroy(rlx_exec *exec); /* NULL is allowed */

/* The twin: the same program and options (caller memory is not shared: the clone allocates its
 * own), the same state, scratch and inputs. It shares the weights, or with OWN_ALL has its own. */
enum { RLX_CLONE_OWN_ALL = 1 };
RLX_CALL rlx_status rlx_exec_clone(rlx_exec *exec, uint32_t flags, rlx_exec **out_exec);

/* Borrowed as long as the executable lives. */
RLX_API rlx_program *rlx_exec_program(const rlx_exec *exec);
RLX_API rlx_arena *rlx_exec_arena(const rlx_exec *exec);

/* Inputs, by index and by name. Inputs are set for one entry at a time: setting one, or running,
 * forgets the inputs of other entries. `bytes` and `count` are the whole input
 * (RLX_LENGTH_MISMATCH otherwise). */
RLX_CALL rlx_status rlx_exec_set_input(rlx_exec *exec, uint32_t entry, uint32_t index,
                                       const void *data, uint64_t bytes);
RLX_CALL rlx_status rlx_exec_set_input_f32(rlx_exec *exec, uint32_t entry, uint32_t index,
                                           const float *data, uint64_t count);
RLX_CALL rlx_status rlx_exec_set(rlx_exec *exec, uint32_t entry, const char *name, const void *data,
                                 uint64_t bytes);
RLX_CALL rlx_status rlx_exec_set_f32(rlx_exec *exec, uint32_t entry, const char *name,
                                     const float *data, uint64_t count);
/* The input's own memory (plain, in its dtype): write it there, no copy is made. Asking counts as
 * setting. RLX_UNSUPPORTED where memory is not mapped. */
RLX_CALL rlx_status rlx_exec_input_address(rlx_exec *exec, uint32_t entry, uint32_t index,
                                           void **out_address);

/* Does what the first run of any entry would pay for besides its own work: the device's driver
 * compiles every pipeline. Computes nothing and touches no input, state or output; on the CPU there
 * is nothing to do. Once is enough for all executables of a device that run the same programs. */
RLX_CALL rlx_status rlx_exec_warm_up(rlx_exec *exec);

/* Runs an entry. Of several ranks each sets the same inputs and gets the same outputs, bit by bit;
 * a rank that fails or is cancelled makes the run fail on all of them, a rank that dies or stalls
 * is RLX_TRANSPORT or RLX_TIMEOUT. RLX_INVALID_ARGUMENT: an input is not set (named); RLX_FAULT:
 * what only data could tell, with node, code and value (detail.rank = step); RLX_CANCELLED. After a
 * failed run the outputs are not to be read, and states hold what was written so far. */
RLX_CALL rlx_status rlx_exec_run(rlx_exec *exec, uint32_t entry);
/* Makes the current or else the next run end with RLX_CANCELLED. From any thread or signal handler.
 */
RLX_API void rlx_exec_cancel(rlx_exec *exec);

/* Runs an entry step by step, for an executable made with single_step or poison. `after` is called
 * when a step is done, before any other step can overwrite its outputs, and may read the arena;
 * false cancels. */
typedef bool (*rlx_step_fn)(void *user, rlx_exec *exec, const rlx_step_info *step);
RLX_CALL rlx_status rlx_exec_run_steps(rlx_exec *exec, uint32_t entry, rlx_step_fn after,
                                       void *user);

/* Outputs of the last run, with their true sizes. They stay until the next run, or until an input
 * that shares their memory is set (then reading is RLX_INVALID_ARGUMENT). */
typedef struct rlx_output_info {
    const char *name; /* borrowed */
    rlx_dtype dtype;
    rlx_shape shape; /* of this run */
    uint64_t elements, bytes;
    uint32_t slot;
} rlx_output_info;
RLX_CALL rlx_status rlx_exec_output(rlx_exec *exec, uint32_t entry, uint32_t index,
                                    rlx_output_info *out_info);
/* Reads the whole output, row-major. `capacity` too small is RLX_OUT_OF_BOUNDS; the count (may be
 * NULL) receives bytes or elements read. */
RLX_CALL rlx_status rlx_exec_read_output(rlx_exec *exec, uint32_t entry, uint32_t index, void *out,
                                         uint64_t capacity_bytes, uint64_t *out_bytes);
RLX_CALL rlx_status rlx_exec_read_output_f32(rlx_exec *exec, uint32_t entry, uint32_t index,
                                             float *out, uint64_t capacity, uint64_t *out_count);
RLX_CALL rlx_status rlx_exec_read(rlx_exec *exec, uint32_t entry, const char *name, void *out,
                                  uint64_t capacity_bytes, uint64_t *out_bytes);
RLX_CALL rlx_status rlx_exec_read_f32(rlx_exec *exec, uint32_t entry, const char *name, float *out,
                                      uint64_t capacity, uint64_t *out_count);
/* The output's own memory; with planned strides where its true size is smaller. */
RLX_CALL rlx_status rlx_exec_output_address(rlx_exec *exec, uint32_t entry, uint32_t index,
                                            const void **out_address);

/* State: zero it, write it to a file, read it back. A file of another state layout (names, dtypes,
 * shapes, offsets) is RLX_MISMATCH and changes nothing. */
RLX_CALL rlx_status rlx_exec_reset_state(rlx_exec *exec);
RLX_CALL rlx_status rlx_exec_save_state(rlx_exec *exec, const char *path);
RLX_CALL rlx_status rlx_exec_restore_state(rlx_exec *exec, const char *path);

/* Times since creation or the last reset, one row per step of the plan. Only with `profile`;
 * otherwise the count is 0. Borrowed until the next run. */
typedef struct rlx_step_profile {
    const char *name, *kernel;
    rlx_op op;
    uint32_t entry; /* RLX_NONE: a prepare step */
    uint64_t runs, total_ns, least_ns;
    uint64_t bytes, flops; /* of one run, as planned */
} rlx_step_profile;
RLX_API const rlx_step_profile *rlx_exec_profile(const rlx_exec *exec, uint32_t *out_count);
RLX_API void rlx_exec_reset_profile(rlx_exec *exec);
/* Step times as Chrome trace JSON. The text is owned: rlx_string_free. */
RLX_CALL rlx_status rlx_exec_trace(const rlx_exec *exec, char **out_text);
/* The last run as an SVG picture: reads of weights and compute on one time axis. Only with
 * `profile`; RLX_NOT_FOUND when the trace had no room for it. Owned: rlx_string_free. */
RLX_CALL rlx_status rlx_exec_timeline(const rlx_exec *exec, const char *title, char **out_svg);

RLX_END_DECLS

#endif
