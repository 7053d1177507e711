/* SPDX-License-Identifier: Apache-2.0 */
/* The vector evaluator of elementwise ops, from inside: shared by the elementwise*.c files of one
 * level only.
 *
 * It is the evaluator of ref/elementwise.c with faster parts. Every op is an instruction on tiles.
 * A tile holds cells: floats of up to 32 bits and blocks as f32, 4-bit integers as 8-bit ones,
 * everything else as it lies in memory; a bool is true where its byte is not 0. What has no vector
 * loop is done by the instructions of scalar C, so every op and dtype runs here and a chain gives
 * the bits of its ops one by one. */
#ifndef RLX_BACKEND_CPU_VEC_ELEMENTWISE_H
#define RLX_BACKEND_CPU_VEC_ELEMENTWISE_H

#include "backend/cpu/vec/vec.h"
#include "ir/dtype.h"

/* Inputs of a chain (as many as the compiler makes), and elements of a tile at most. */
enum { VEC_INPUTS = 32, VEC_TILE = 1024 };

typedef struct vec_step vec_step;
/* Does `count` cells. `out` may be an operand itself. */
typedef void (*vec_run)(const vec_step *step, const void *const *in, void *out, int64_t count);

struct vec_step {
    vec_run run;
    const rlx_kernel_args *args; /* for faults */
    rlx_op op;
    rlx_dtype dtype; /* of the result */
    rlx_dtype operands[3];
    double alpha, beta;
    uint32_t in_count;
    uint16_t in[3], out; /* where the cells lie: an input, or VEC_INPUTS + a register */
};

/* What cells of a dtype are. */
VEC_INLINE rlx_dtype vec_cell_of(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    if (row->class_ == RLX_CLASS_BLOCK) return RLX_DTYPE_F32;
    if (row->class_ == RLX_CLASS_FLOAT) return dtype == RLX_DTYPE_F64 ? dtype : RLX_DTYPE_F32;
    if (dtype == RLX_DTYPE_I4) return RLX_DTYPE_I8;
    return dtype == RLX_DTYPE_U4 ? RLX_DTYPE_U8 : dtype;
}

/* The loop for an instruction: by what it does and the dtypes of step->operands and step->dtype.
 * NULL where this file has none. */
#define vec_choose_f32     VEC_SYMBOL(elementwise_choose_f32)
#define vec_choose_cast    VEC_SYMBOL(elementwise_choose_cast)
#define vec_choose_integer VEC_SYMBOL(elementwise_choose_integer)
#define vec_choose_f64     VEC_SYMBOL(elementwise_choose_f64)
vec_run vec_choose_f32(const vec_step *step);
vec_run vec_choose_cast(const vec_step *step);
vec_run vec_choose_integer(const vec_step *step);
vec_run vec_choose_f64(const vec_step *step);

/* The loop of scalar C: takes everything. */
#define vec_run_scalar VEC_SYMBOL(elementwise_run_scalar)
void vec_run_scalar(const vec_step *step, const void *const *in, void *out, int64_t count);

/* Cells become what the dtype can hold. */
#define vec_round_cells VEC_SYMBOL(elementwise_round)
void vec_round_cells(rlx_dtype dtype, void *cells, int64_t count);

/* How all operands are stepped through together: dims of 1 are left out, the others sorted so that
 * the output is written in the order of memory, neighbours merged where all operands allow it. */
typedef struct vec_sweep {
    uint32_t rank; /* at least 1 */
    int64_t dims[RLX_MAX_RANK];
} vec_sweep;

/* An input or the output as the sweep sees it. */
typedef struct vec_operand {
    const rlx_tensor *tensor;
    rlx_dtype cell;
    uint32_t bytes; /* of an element; 0: f8, blocks and 4-bit integers */
    bool is_flat;   /* element i of the sweep is element i in memory */
    bool is_number; /* one element for all */
    bool has_cells; /* its memory holds cells */
    char *cells;    /* room for a tile; NULL: not needed */
    int64_t strides[RLX_MAX_RANK];
} vec_operand;

/* `count` elements of the operand from coordinates `at` on, to and from cells. */
#define vec_load_cells  VEC_SYMBOL(elementwise_load)
#define vec_store_cells VEC_SYMBOL(elementwise_store)
void vec_load_cells(const vec_sweep *sweep, const vec_operand *x, const int64_t *at, int64_t count,
                    void *cells);
void vec_store_cells(const vec_sweep *sweep, const vec_operand *y, const int64_t *at, int64_t count,
                     const void *cells);
/* f16 and bf16 side by side, from and to f32. */
#define vec_widen  VEC_SYMBOL(elementwise_widen)
#define vec_narrow VEC_SYMBOL(elementwise_narrow)
void vec_widen(rlx_dtype dtype, float *to, const void *from, int64_t count);
void vec_narrow(rlx_dtype dtype, void *to, const float *from, int64_t count);
/* Copies past the caches. */
#define vec_copy_past VEC_SYMBOL(elementwise_copy_past)
void vec_copy_past(void *to, const void *from, int64_t bytes);

#endif
