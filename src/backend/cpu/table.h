/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel does which op: scalar C by default, overridden per instruction set. Pure data. */
#ifndef RLX_BACKEND_CPU_TABLE_H
#define RLX_BACKEND_CPU_TABLE_H

#include "plan/target.h"
#include "ref/kernel.h"

typedef struct rlx_cpu_override rlx_cpu_override;

/* What a kernel does beside its items. What it can work out once for all runs, since it depends on
 * no data, is made when a stretch is prepared, again whenever dims have changed, and handed over as
 * args->prepared. */
typedef struct rlx_cpu_preparation {
    rlx_kernel_fn run; /* of the kernels that look at it */
    uint64_t size;     /* bytes that are made; 0: none */
    /* Bytes where they hang on the step, whatever its dims are; NULL: `size`. */
    uint64_t (*bytes)(const rlx_kernel_args *args);
    /* `memory` is aligned to 64 bytes; `args` live as long as it and do not move. */
    void (*make)(const rlx_kernel_args *args, void *memory);
    /* Into how many parts the work falls where out[0] lies in the memory of in[0], from dims alone;
     * 0, or NULL: it must not lie there. */
    int64_t (*overwrites)(const rlx_kernel_args *args);
    /* Before the items of every run, on the caller: makes args->common ready. NULL: nothing. */
    void (*start)(const rlx_kernel_args *args);
} rlx_cpu_preparation;

/* An instruction-set level that can be forced by the device name "cpu:NAME". */
typedef struct rlx_cpu_level {
    const char *name;                            /* "scalar", "avx2" */
    const char *device;                          /* "cpu:scalar" */
    const char *target;                          /* "cpu/scalar" */
    uint32_t flags;                              /* rlx_cpu_flag bits that it needs and may use */
    const rlx_cpu_override *const *families;     /* lists of faster kernels; NULL ends them */
    uint64_t flops_per_second, bytes_per_second; /* rough, of one thread */
    uint32_t channel_block; /* of the vector kernels of conv and pools; 0: there are none */
    const rlx_cpu_preparation *const *preparations; /* NULL: none; NULL ends them */
} rlx_cpu_level;

/* From the plainest to the best. */
extern const rlx_cpu_level rlx_cpu_levels[];
extern const uint32_t rlx_cpu_level_count;
/* The best level that this machine has. */
const rlx_cpu_level *rlx_cpu_best_level(void);
/* The level of a device name ("cpu": the best one); NULL: no such name. */
const rlx_cpu_level *rlx_cpu_find_level(const char *device);

/* A faster kernel for some of an op's cases. */
struct rlx_cpu_override {
    rlx_op op;                                    /* RLX_OP_NONE ends a list */
    uint32_t flags;                               /* rlx_cpu_flag bits that it needs */
    bool (*takes)(const rlx_target_query *query); /* NULL: every case of the op */
    rlx_kernel kernel;
};

/* The kernel for a step on this level: the first override that takes it, else scalar C; NULL for
 * ops that are no kernels. */
const rlx_kernel *rlx_cpu_choose(const rlx_cpu_level *level, const rlx_target_query *query);
/* Bytes of what it makes for a step; 0: nothing. */
static inline uint64_t rlx_cpu_prepared_bytes(const rlx_cpu_preparation *self,
                                              const rlx_kernel_args *args) {
    return self->bytes != NULL ? self->bytes(args) : self->size;
}
/* How a kernel of this level is prepared; NULL: not at all. */
const rlx_cpu_preparation *rlx_cpu_preparation_of(const rlx_cpu_level *level,
                                                  const rlx_kernel *kernel);
/* Into how many parts the work of a kernel of this level falls where out[0] lies in the memory of
 * in[0]; 0: it must not lie there. */
int64_t rlx_cpu_overwrite_parts(const rlx_cpu_level *level, const rlx_kernel *kernel,
                                const rlx_kernel_args *args);
/* In which layouts the kernels of this level would rather have the inputs of a step (wants.c); left
 * alone where they are fine. `in_layouts` has RLX_TARGET_LAYOUTS of them. */
void rlx_cpu_wanted_layouts(const rlx_cpu_level *level, const rlx_target_query *query,
                            rlx_layout *in_layouts);
/* The kernel of that name, if this level has it and it takes the step; else NULL. */
const rlx_kernel *rlx_cpu_find_kernel(const rlx_cpu_level *level, const rlx_target_query *query,
                                      const char *name);

#endif
