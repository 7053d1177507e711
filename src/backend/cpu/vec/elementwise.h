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
#include "ir/chain.h"
#include "ir/dtype.h"

enum {
    VEC_INPUTS = 32,           /* of a chain: as many as the compiler makes */
    VEC_TILE = 1024,           /* elements of a tile at most */
    VEC_TURNED_WIDTH = 128,    /* columns of turned inputs that are done at a time, at most */
    VEC_BLOCK = 8 * VF,        /* elements that links hand on in registers */
    VEC_LINKS = 168,           /* of a chain at most */
    VEC_FETCHES = 8,           /* links that only ask for memory, at most */
    VEC_FETCHED = 8 << 20,     /* bytes of f32 inputs that are asked for, and more */
    VEC_AHEAD = 512 * VF,      /* bytes that inputs are asked for ahead of their use */
    VEC_ABREAST = 4,           /* spans that run side by side, if they need at most */
    VEC_ABREAST_FRAME = 4096,  /* so many bytes */
    VEC_ABREAST_LINKS = 32,    /* and links each */
    VEC_FRAME_MOST = 96 * 1024 /* bytes of tiles that a run may need; most need far less */
};

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

/* Lanes cut to [least, most], whole numbers of f32, as integers; NaN is 0. */
VEC_INLINE vi vec_cut(vf x, float least, float most) {
    x = vf_min(vf_set(most), vf_max(vf_set(least), x));
    return vi_of((vf)((vi)x & (x == x)));
}

/* The loop for an instruction: by what it does and the dtypes of step->operands and step->dtype.
 * NULL where this file has none. */
#define vec_choose_f32     VEC_SYMBOL(elementwise_choose_f32)
#define vec_choose_cast    VEC_NARROW_SYMBOL(elementwise_choose_cast)
#define vec_choose_integer VEC_NARROW_SYMBOL(elementwise_choose_integer)
#define vec_choose_f64     VEC_NARROW_SYMBOL(elementwise_choose_f64)
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

/* The coordinates of element `index`. */
VEC_INLINE void vec_seek(const vec_sweep *sweep, int64_t index, int64_t *at) {
    for (uint32_t d = sweep->rank; d-- > 1;) {
        at[d] = index % sweep->dims[d];
        index /= sweep->dims[d];
    }
    at[0] = index;
}

/* An input or the output as the sweep sees it. */
typedef struct vec_operand {
    const rlx_tensor *tensor;
    rlx_dtype cell;
    uint32_t bytes;     /* of an element; 0: f8, blocks and 4-bit integers */
    bool is_flat;       /* element i of the sweep is element i in memory */
    bool is_number;     /* one element for all */
    bool has_cells;     /* its memory holds cells */
    bool is_turned;     /* its columns lie as the rows of others do: planes of it are turned */
    bool is_spread;     /* to links: one number for all of a span */
    bool is_along;      /* to links: read where it is */
    rlx_dtype at_link;  /* dtype of what links read or write */
    int64_t link_bytes; /* of one such element */
    int64_t cells_at;   /* where in the frame its tile is; -1: it needs none */
    int64_t strides[RLX_MAX_RANK];
} vec_operand;

/* A link of the quick evaluator: does its part to eight vectors and calls the next link with them,
 * so a chain of ops on f32 cells keeps its values in registers (docs/decisions/0021). `at` counts
 * elements from where `memory` begins. The last link stores and calls none. */
typedef struct vec_link vec_link;
typedef void (*vec_link_run)(const vec_link *link, int64_t at, vf a, vf b, vf c, vf d, vf e, vf f,
                             vf g, vf h);
struct vec_link {
    vec_link_run run;
    char *memory;
    int64_t step; /* bytes that memory goes on per element; 0: it is one block */
    double alpha, beta;
};

/* Links by what they do, the numbers and the dtype of the result in a step; NULL where there is
 * none. The binary ones are value (op) memory, or memory (op) value where `is_reversed`. */
#define vec_link_of_unary  VEC_SYMBOL(elementwise_link_unary)
#define vec_link_of_binary VEC_SYMBOL(elementwise_link_binary)
vec_link_run vec_link_of_unary(const vec_step *step);
vec_link_run vec_link_of_binary(rlx_op op, bool is_reversed);
/* The binary ones with memory of one number in every lane. */
#define vec_link_of_number VEC_SYMBOL(elementwise_link_number)
vec_link_run vec_link_of_number(rlx_op op, bool is_reversed);
/* The binary ones with memory of 16-bit floats. */
#define vec_link_of_half VEC_SYMBOL(elementwise_link_half)
vec_link_run vec_link_of_half(rlx_op op, bool is_reversed, rlx_dtype dtype);
/* Memory of a dtype to the value, or to a block of f32 without touching the value (`widen`: 16-bit
 * floats only); the value rounded to a 16-bit float or a byte; kept as a block of f32; stored. */
#define vec_link_of_load  VEC_SYMBOL(elementwise_link_load)
#define vec_link_of_widen VEC_SYMBOL(elementwise_link_widen)
#define vec_link_of_round VEC_SYMBOL(elementwise_link_round)
#define vec_link_of_keep  VEC_SYMBOL(elementwise_link_keep)
#define vec_link_of_store VEC_SYMBOL(elementwise_link_store)
vec_link_run vec_link_of_load(rlx_dtype dtype);
vec_link_run vec_link_of_widen(rlx_dtype dtype);
vec_link_run vec_link_of_round(rlx_dtype dtype);
vec_link_run vec_link_of_keep(void);
/* Asks for up to four lines of memory from there on, elements of so many bytes. */
#define vec_link_of_fetch VEC_SYMBOL(elementwise_link_fetch)
vec_link_run vec_link_of_fetch(uint32_t bytes);
vec_link_run vec_link_of_store(rlx_dtype dtype, bool is_past_caches);

/* Slots of links: where a link's memory is, as in vec_step, or one of these. A widening link is
 * followed by one that only names its block. Fetching links ask for the first lines of a block to
 * come, or for the others. */
enum {
    VEC_SLOT_WIDE = 512,
    VEC_SLOT_FETCH = 640,
    VEC_SLOT_FETCH_MORE = 768,
    VEC_SLOT_OUT = 1024,
    VEC_SLOT_NONE = 1025
};

/* A kernel made ready: all that does not change from run to run. Made when a stretch is prepared,
 * or on the stack; then only read, by many threads at once. */
typedef struct vec_program {
    const rlx_kernel_args *args;
    vec_sweep sweep;
    int64_t elements, item; /* of the output, and per item */
    int64_t sooner;         /* elements that items begin before a multiple of that, but the first */
    int64_t tile;           /* elements */
    int64_t register_bytes; /* of one */
    int64_t result_at;      /* where in the frame the last result goes; registers are first */
    int64_t frame_bytes;    /* registers, the result and the tiles of inputs */
    int64_t turned_rows;    /* of a rectangle, where inputs are turned and rows long; or 0 */
    int64_t turned_width;   /* and its columns */
    uint32_t input_count, turned_count, step_count, register_count, link_count;
    bool keeps_rows;     /* tiles end with their row */
    bool is_past_caches; /* the output is written so */
    bool has_code;       /* runs links, not steps */
    bool writes_output;  /* where it is */
    bool runs_turned;    /* rectangles row by row: what is not turned needs no tiles */
    int64_t abreast;     /* elements of spans that run side by side; 0: they do not */
    vec_operand output;
    vec_operand *inputs; /* arrays that lie behind this struct */
    vec_step *steps;
    vec_link *links;
    uint16_t *slots;
} vec_program;

/* Bytes of a program with its arrays: from the op and its attributes alone. */
#define vec_program_bytes VEC_SYMBOL(elementwise_program_bytes)
uint64_t vec_program_bytes(const rlx_kernel_args *args);
/* Makes it, in memory of that size that is aligned to 64 bytes. */
#define vec_program_make VEC_SYMBOL(elementwise_program_make)
vec_program *vec_program_make(const rlx_kernel_args *args, void *memory);
/* How many items there are. */
#define vec_program_items VEC_SYMBOL(elementwise_program_items)
int64_t vec_program_items(const rlx_kernel_args *args);

/* What one run on one thread writes to: cells, and links that point to them. */
typedef struct vec_frame {
    const vec_program *program;
    char *memory; /* of frame_bytes */
    vec_link *links;
    int64_t ahead;     /* bytes that fetching links are ahead */
    int64_t turned_at; /* where in their tiles turned inputs are already; -1: not yet */
} vec_frame;

/* Makes code of the steps; false: they are not such that links can do them. */
#define vec_make_code VEC_SYMBOL(elementwise_make_code)
bool vec_make_code(vec_program *self);
/* Links that a chain of so many steps and inputs has at most; 0: too many for links. */
VEC_INLINE uint32_t vec_links_most(uint32_t steps, uint32_t inputs) {
    uint32_t most = 1 + 4 * steps + 2 * inputs + VEC_FETCHES;
    return most <= VEC_LINKS ? most : 0;
}
/* Whether no operand of the code needs a tile: spans may be of any length. */
#define vec_reads_in_place VEC_SYMBOL(elementwise_reads_in_place)
bool vec_reads_in_place(const vec_program *self);
/* Runs it on elements [index, index + count); `at` are the coordinates of the first. The result
 * goes to the output, or to the frame where the output is not flat. */
#define vec_run_code VEC_SYMBOL(elementwise_run_code)
void vec_run_code(const vec_frame *frame, int64_t index, const int64_t *at, int64_t count);
/* Runs `count` elements from `at` on of that many rows of the sweep, at least a block of each,
 * where operands need no tiles or have them already (turned_at), and stores go to the caches;
 * false: it did nothing, an input lies where the output is. */
#define vec_run_rows VEC_SYMBOL(elementwise_run_rows)
bool vec_run_rows(const vec_frame *frame, int64_t index, const int64_t *at, int64_t rows,
                  int64_t count);
/* Runs VEC_ABREAST parts of `length` elements each, whole spans of program->abreast elements, from
 * `index` on: a block of each part in turn. Operands need no tiles. */
#define vec_run_abreast VEC_SYMBOL(elementwise_run_abreast)
void vec_run_abreast(const vec_frame *frames, int64_t index, int64_t length);

/* `count` elements of the operand from coordinates `at` on, to and from cells. */
#define vec_load_cells  VEC_SYMBOL(elementwise_load)
#define vec_store_cells VEC_SYMBOL(elementwise_store)
void vec_load_cells(const vec_sweep *sweep, const vec_operand *x, const int64_t *at, int64_t count,
                    void *cells);
void vec_store_cells(const vec_sweep *sweep, const vec_operand *y, const int64_t *at, int64_t count,
                     const void *cells);
/* Rows of a turned operand from element `offset` on, whose columns are `apart`. */
#define vec_load_turned VEC_SYMBOL(elementwise_load_turned)
void vec_load_turned(const vec_operand *x, int64_t offset, int64_t apart, int64_t rows, int64_t row,
                     void *cells);
/* f16 and bf16 side by side, from and to f32. */
#define vec_widen  VEC_SYMBOL(elementwise_widen)
#define vec_narrow VEC_SYMBOL(elementwise_narrow)
void vec_widen(rlx_dtype dtype, float *to, const void *from, int64_t count);
void vec_narrow(rlx_dtype dtype, void *to, const float *from, int64_t count);
/* Copies past the caches. */
#define vec_copy_past VEC_SYMBOL(elementwise_copy_past)
void vec_copy_past(void *to, const void *from, int64_t bytes);

#endif
