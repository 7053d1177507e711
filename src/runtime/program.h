/* SPDX-License-Identifier: Apache-2.0 */
/* A program from inside. Immutable once made. */
#ifndef RLX_RUNTIME_PROGRAM_H
#define RLX_RUNTIME_PROGRAM_H

#include "base/file.h"
#include "driver/device.h"

#include <rlx/program.h>

struct rlx_program {
    rlx_allocator allocator;
    _Atomic uint32_t owners;
    rlx_device *device; /* retained */
    rlx_plan *plan;     /* owned */
    void *weights;      /* NULL when there are none */
    void *owned;        /* owned: the memory of the weights, unless they are mapped */
    rlx_file_map map;   /* owned: the program file, if they are mapped; under a weights budget the
                           resident parts of it */
    struct rlx_copy_file *file; /* owned: the program file, under a weights budget; else NULL */
    uint64_t weights_offset;    /* in the file */
};

/* program.c: an empty program on a device; whether a plan may run there (verified in full). */
RLX_WARN_UNUSED rlx_status rlx_program_new(rlx_device *device, const rlx_program_options *options,
                                           rlx_program **out_program);
RLX_WARN_UNUSED rlx_status rlx_program_check(const rlx_device *device, const rlx_plan *plan);

/* weights.c: fills program->weights from the plan's sources and runs the prepare steps. */
RLX_WARN_UNUSED rlx_status rlx_program_fill_weights(rlx_program *program,
                                                    const rlx_program_options *options);

/* The port of an entry; RLX_NOT_FOUND names both numbers. */
RLX_WARN_UNUSED rlx_status rlx_program_port(const rlx_program *program, uint32_t entry,
                                            uint32_t index, bool is_output, uint32_t *out_port);

/* Turns a fault record (step, code, value) into RLX_FAULT with the node's name. */
RLX_WARN_UNUSED rlx_status rlx_report_fault(const rlx_plan *plan, uint32_t step, uint32_t code,
                                            int64_t value);

#endif
