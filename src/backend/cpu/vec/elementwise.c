/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of every elementwise op and of chains on a vector level: one pass over memory, tile by
 * tile. A tile stays in the first-level cache between the instructions of a chain. Operands that
 * lie as the loops want them are read where they are; others are brought into a tile first. What
 * is to be done is a program, made ahead (elementwise_program.c). */
#include "backend/cpu/vec/elementwise.h"

#include "ref/access.h"
#include "ref/elementwise.h"

enum { SLOTS = VEC_INPUTS + RLX_CHAIN_MOST, ITEM_ELEMENTS = 4096 };

/* An operand's lanes as scalar C wants them: cells as they are, or widened into `room`. */
static const void *lanes_of(rlx_dtype dtype, const void *cells, int64_t at, int64_t count,
                            void *room) {
    rlx_dtype cell = vec_cell_of(dtype);
    const char *from = (const char *)cells + at * rlx_dtype_block_bytes(cell);
    if (cell == RLX_DTYPE_F32) return from;
    rlx_tile_decode(cell, from, count, room);
    return room;
}

void vec_run_scalar(const vec_step *step, const void *const *in, void *out, int64_t count) {
    _Alignas(64) char lanes[3][RLX_TILE_BYTES], result[RLX_TILE_BYTES];
    rlx_dtype cell = vec_cell_of(step->dtype);
    rlx_tile_op op = {.args = step->args,
                      .op = step->op,
                      .dtype = step->dtype,
                      .alpha = step->alpha,
                      .beta = step->beta,
                      .out = result};
    memcpy(op.operands, step->operands, sizeof op.operands);
    for (int64_t i = 0; i < count; i += RLX_TILE) {
        int64_t left = count - i < RLX_TILE ? count - i : RLX_TILE;
        op.count = (uint32_t)left;
        for (uint32_t k = 0; k < step->in_count; k++)
            op.in[k] = lanes_of(step->operands[k], in[k], i, left, lanes[k]);
        rlx_tile_run(&op);
        rlx_tile_encode(cell, (char *)out + i * rlx_dtype_block_bytes(cell), left, result);
    }
}

static char *tile_of(const vec_frame *frame, const vec_operand *x) {
    return frame->memory + x->cells_at;
}

static void load_numbers(const vec_frame *frame, int64_t most) {
    static const int64_t origin[RLX_MAX_RANK];
    const vec_program *self = frame->program;
    int64_t count = most < self->tile ? most : self->tile;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (x->is_number && x->cells_at >= 0)
            vec_load_cells(&self->sweep, x, origin, count, tile_of(frame, x));
    }
}

static int64_t offset_of(const vec_sweep *sweep, const vec_operand *x, const int64_t *at) {
    int64_t offset = 0;
    for (uint32_t d = 0; d < sweep->rank; d++)
        offset += at[d] * x->strides[d];
    return offset;
}

static const void *input_cells(const vec_frame *frame, const vec_operand *x, int64_t index,
                               const int64_t *at, int64_t count) {
    const char *data = x->tensor->data;
    const vec_sweep *sweep = &frame->program->sweep;
    if (x->cells_at < 0) {
        int64_t offset = x->is_flat ? index : offset_of(sweep, x, at);
        return data + offset * x->bytes;
    }
    char *cells = tile_of(frame, x);
    if (x->is_number) return cells;
    if (x->is_turned && frame->turned_at >= 0)
        return cells + frame->turned_at * rlx_dtype_block_bytes(x->cell);
    if (x->is_flat && x->bytes == 2) {
        vec_widen(x->tensor->dtype, (float *)(void *)cells, data + index * 2, count);
    } else {
        vec_load_cells(sweep, x, at, count, cells);
    }
    return cells;
}

/* The last result to memory. */
static void store_result(const vec_program *self, int64_t index, const int64_t *at, int64_t count,
                         const void *cells) {
    const vec_operand *y = &self->output;
    uint16_t halves[VEC_TILE];
    char *to = (char *)y->tensor->data + index * y->bytes;
    if (!self->writes_output) {
        vec_store_cells(&self->sweep, y, at, count, cells);
    } else if (!y->has_cells && self->is_past_caches) {
        vec_narrow(y->tensor->dtype, halves, cells, count);
        vec_copy_past(to, halves, count * 2);
    } else if (!y->has_cells) {
        vec_narrow(y->tensor->dtype, to, cells, count);
    } else {
        vec_copy_past(to, cells, count * y->bytes);
    }
}

static void run_tile(const vec_frame *frame, int64_t index, const int64_t *at, int64_t count) {
    const vec_program *self = frame->program;
    const void *cells[SLOTS];
    const vec_operand *y = &self->output;
    char *result = frame->memory + self->result_at;
    for (uint32_t i = 0; i < self->input_count; i++)
        cells[i] = input_cells(frame, &self->inputs[i], index, at, count);
    for (uint32_t r = 0; r < self->register_count; r++)
        cells[VEC_INPUTS + r] = frame->memory + r * self->register_bytes;
    for (uint32_t s = 0; s < self->step_count; s++) {
        const vec_step *step = &self->steps[s];
        const void *in[3];
        for (uint32_t k = 0; k < step->in_count; k++)
            in[k] = cells[step->in[k]];
        if (s + 1 < self->step_count) {
            void *out = frame->memory + (step->out - VEC_INPUTS) * self->register_bytes;
            step->run(step, in, out, count);
            vec_round_cells(step->dtype, out, count);
        } else if (y->has_cells && y->is_flat && !self->is_past_caches) {
            step->run(step, in, (char *)y->tensor->data + index * y->bytes, count);
        } else {
            step->run(step, in, result, count);
            store_result(self, index, at, count, result);
        }
    }
}

/* To `index`, `count` elements on. The end of a row needs no division. */
static void seek_on(const vec_sweep *sweep, int64_t index, int64_t count, int64_t *at) {
    uint32_t d = sweep->rank - 1;
    at[d] += count;
    if (at[d] > sweep->dims[d]) {
        vec_seek(sweep, index, at);
        return;
    }
    for (; d > 0 && at[d] == sweep->dims[d]; d--)
        at[d] = 0, at[d - 1]++;
}

/* Whole rows from here on that vec_run_rows may do. */
static int64_t rows_here(const vec_program *self, int64_t left, const int64_t *at) {
    uint32_t last = self->sweep.rank - 1;
    bool is_possible = self->has_code && self->tile == INT64_MAX && !self->is_past_caches &&
                       last > 0 && at[last] == 0 && self->sweep.dims[last] >= VEC_BLOCK;
    if (!is_possible) return 0;
    int64_t rows = self->sweep.dims[last - 1] - at[last - 1], most = left / self->sweep.dims[last];
    return rows < most ? rows : most;
}

/* A tile, or what is left of a row or of the range; returns how many elements. */
static int64_t run_piece(const vec_frame *frame, int64_t index, const int64_t *at, int64_t left) {
    const vec_program *self = frame->program;
    int64_t count = left < self->tile ? left : self->tile;
    if (self->keeps_rows) {
        uint32_t last = self->sweep.rank - 1;
        int64_t row_left = self->sweep.dims[last] - at[last];
        if (row_left < count) count = row_left;
    }
    if (self->has_code) {
        vec_run_code(frame, index, at, count);
        if (!self->writes_output)
            store_result(self, index, at, count, frame->memory + self->result_at);
    } else {
        run_tile(frame, index, at, count);
    }
    return count;
}

/* Asks for rows and columns of a turned input from `at` on. */
static void ask_for_turned(const vec_sweep *sweep, const vec_operand *x, const int64_t *at,
                           int64_t rows, int64_t width) {
    int64_t apart = x->strides[sweep->rank - 1] * x->bytes, bytes = rows * x->bytes;
    const char *from = (const char *)x->tensor->data + offset_of(sweep, x, at) * x->bytes;
    for (int64_t column = 0; column < width; column++, from += apart) {
        for (int64_t at_byte = 0; at_byte < bytes; at_byte += 64)
            __builtin_prefetch(from + at_byte);
        __builtin_prefetch(from + bytes - 1);
    }
}

/* A rectangle whose turned inputs are in their tiles. */
static void run_rectangle(vec_frame *frame, int64_t index, const int64_t *at, int64_t rows,
                          int64_t width) {
    const vec_program *self = frame->program;
    uint32_t last = self->sweep.rank - 1;
    int64_t here[RLX_MAX_RANK];
    frame->turned_at = 0;
    if (self->runs_turned && width >= VEC_BLOCK && vec_run_rows(frame, index, at, rows, width))
        return;
    memcpy(here, at, self->sweep.rank * sizeof *at);
    for (int64_t r = 0; r < rows; r++, here[last - 1]++, index += self->sweep.dims[last]) {
        frame->turned_at = r * width;
        run_piece(frame, index, here, width);
    }
}

/* Some rows, piece by piece of all of them: a column of a turned input is a line of memory, which
 * they share. Returns how many elements; 0: no two whole rows begin here. */
static int64_t run_turned(const vec_frame *frame, int64_t index, const int64_t *at, int64_t left) {
    const vec_program *self = frame->program;
    const vec_sweep *sweep = &self->sweep;
    uint32_t last = sweep->rank - 1;
    int64_t row = sweep->dims[last], rows = rlx_ref_least(self->turned_rows, left / row);
    int64_t here[RLX_MAX_RANK], width = self->turned_width;
    vec_frame rectangle = *frame;
    rows = rlx_ref_least(rows, sweep->dims[last - 1] - at[last - 1]);
    if (rows < 2 || at[last] != 0) return 0;
    memcpy(here, at, sweep->rank * sizeof *at);
    for (int64_t from = 0; from < row; from += width) {
        width = rlx_ref_least(width, row - from);
        for (uint32_t i = 0; i < self->input_count; i++) {
            const vec_operand *x = &self->inputs[i];
            if (!x->is_turned) continue;
            here[last] = from;
            vec_load_turned(x, offset_of(sweep, x, here), x->strides[last], rows, width,
                            tile_of(frame, x));
            here[last] = from + width;
            ask_for_turned(sweep, x, here, rows, rlx_ref_least(width, row - here[last]));
        }
        here[last] = from;
        run_rectangle(&rectangle, index + from, here, rows, width);
    }
    return rows * row;
}

static void run_range(const vec_frame *frame, int64_t index, int64_t end) {
    const vec_program *self = frame->program;
    int64_t at[RLX_MAX_RANK], count;
    vec_seek(&self->sweep, index, at);
    for (; index < end; index += count, seek_on(&self->sweep, index, count, at)) {
        int64_t rows = rows_here(self, end - index, at);
        count = self->turned_rows > 0 ? run_turned(frame, index, at, end - index) : 0;
        if (count > 0) continue;
        if (rows > 1 &&
            vec_run_rows(frame, index, at, rows, self->sweep.dims[self->sweep.rank - 1])) {
            count = rows * self->sweep.dims[self->sweep.rank - 1];
        } else {
            count = run_piece(frame, index, at, end - index);
        }
    }
}

/* The longest equal parts of whole spans from `index` on; returns where they end. */
static __attribute__((noinline)) int64_t run_abreast(const vec_program *self, int64_t index,
                                                     int64_t end) {
    _Alignas(64) char memory[VEC_ABREAST][VEC_ABREAST_FRAME];
    vec_link links[VEC_ABREAST][VEC_ABREAST_LINKS];
    vec_frame frames[VEC_ABREAST];
    int64_t length = (end - index) / (VEC_ABREAST * self->abreast) * self->abreast;
    for (int k = 0; k < VEC_ABREAST; k++) {
        frames[k] = (vec_frame){self, memory[k], links[k], VEC_BLOCK * 4, -1};
        memcpy(links[k], self->links, self->link_count * sizeof *self->links);
    }
    if (length > 0) vec_run_abreast(frames, index, length);
    return index + VEC_ABREAST * length;
}

static void run_items(const vec_frame *frame, int64_t begin, int64_t end) {
    const vec_program *self = frame->program;
    int64_t first = begin * self->item - (begin > 0 ? self->sooner : 0);
    int64_t past = end * self->item - self->sooner;
    if (past + self->sooner >= self->elements) past = self->elements;
    if (VF >= 16 && self->abreast != 0 && first % self->abreast == 0)
        first = run_abreast(self, first, past);
    memcpy(frame->links, self->links, self->link_count * sizeof *self->links);
    if (!self->has_code) load_numbers(frame, past - first);
    run_range(frame, first, past);
    if (self->is_past_caches) vec_stream_end();
}

/* Frames of two sizes: what the stack has to be grown by costs more than a small step. */
static __attribute__((noinline)) void run_large(const vec_program *self, int64_t begin,
                                                int64_t end) {
    _Alignas(64) char memory[VEC_FRAME_MOST];
    vec_link links[VEC_LINKS];
    run_items(&(vec_frame){self, memory, links, VEC_AHEAD, -1}, begin, end);
}
static void run_program(const vec_program *self, int64_t begin, int64_t end) {
    enum { SMALL_FRAME = 1536, SMALL_LINKS = 24 };
    _Alignas(64) char memory[SMALL_FRAME];
    vec_link links[SMALL_LINKS];
    if (self->frame_bytes > SMALL_FRAME || self->link_count > SMALL_LINKS) {
        run_large(self, begin, end);
        return;
    }
    run_items(&(vec_frame){self, memory, links, VEC_AHEAD, -1}, begin, end);
}

/* Nobody made the program ahead. */
static __attribute__((noinline)) void run_unprepared(const rlx_kernel_args *args, int64_t begin,
                                                     int64_t end) {
    _Alignas(64) char memory[sizeof(vec_program) + VEC_INPUTS * sizeof(vec_operand) +
                             RLX_CHAIN_MOST * sizeof(vec_step) +
                             VEC_LINKS * (sizeof(vec_link) + sizeof(uint16_t))];
    run_program(vec_program_make(args, memory), begin, end);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    if (args->prepared != NULL) {
        run_program(args->prepared, begin, end);
    } else {
        run_unprepared(args, begin, end);
    }
}

static void prepare(const rlx_kernel_args *args, void *memory) {
    (void)vec_program_make(args, memory);
}

const rlx_cpu_preparation VEC_SYMBOL(elementwise_preparation) = {
    .run = run, .bytes = vec_program_bytes, .make = prepare};

/* About how many plain operations on memory an element costs. */
static int64_t op_cost(rlx_op op) {
    if (op >= RLX_OP_EXP && op <= RLX_OP_MISH) return 4;
    return op == RLX_OP_POW || op == RLX_OP_MOD || op == RLX_OP_FMOD ? 16 : 1;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    int64_t elements = rlx_tensor_elements(&args->out[0]), cost = 0,
            count = vec_program_items(args);
    if (args->op == RLX_OP_CHAIN) {
        rlx_list code = ((const rlx_chain_attrs *)args->attrs)->code;
        for (uint32_t i = 0; i < rlx_chain_count(code); i++)
            cost += op_cost(rlx_chain_at(code, i).op);
    } else {
        cost = op_cost(args->op);
    }
    return count == 0 ? 0 : (elements < ITEM_ELEMENTS ? elements : elements / count) * cost;
}

static bool takes(const rlx_target_query *query) {
    bool is_plain = query->out[0].layout == RLX_LAYOUT_PLAIN;
    for (uint32_t i = 0; i < query->in_count; i++)
        is_plain &= query->in[i].layout == RLX_LAYOUT_PLAIN;
    return is_plain && query->in_count <= VEC_INPUTS;
}

/* identity alone stays with scalar C: it moves bytes whatever the dtype. */
#define ROW(op, name)                                               \
    {                                                               \
        RLX_OP_##op, 0, takes, {                                    \
            VEC_NAME(name), run, vec_program_items, item_cost, NULL \
        }                                                           \
    }
const rlx_cpu_override VEC_SYMBOL(elementwise)[] = {
    ROW(ABS, "abs"),
    ROW(NEG, "neg"),
    ROW(SIGN, "sign"),
    ROW(FLOOR, "floor"),
    ROW(CEIL, "ceil"),
    ROW(ROUND, "round"),
    ROW(SQRT, "sqrt"),
    ROW(RSQRT, "rsqrt"),
    ROW(RECIPROCAL, "reciprocal"),
    ROW(SQUARE, "square"),
    ROW(EXP, "exp"),
    ROW(LOG, "log"),
    ROW(SIN, "sin"),
    ROW(COS, "cos"),
    ROW(TAN, "tan"),
    ROW(ASIN, "asin"),
    ROW(ACOS, "acos"),
    ROW(ATAN, "atan"),
    ROW(SINH, "sinh"),
    ROW(COSH, "cosh"),
    ROW(TANH, "tanh"),
    ROW(ASINH, "asinh"),
    ROW(ACOSH, "acosh"),
    ROW(ATANH, "atanh"),
    ROW(ERF, "erf"),
    ROW(SIGMOID, "sigmoid"),
    ROW(RELU, "relu"),
    ROW(LEAKY_RELU, "leaky_relu"),
    ROW(ELU, "elu"),
    ROW(CELU, "celu"),
    ROW(SELU, "selu"),
    ROW(GELU, "gelu"),
    ROW(GELU_TANH, "gelu_tanh"),
    ROW(SILU, "silu"),
    ROW(MISH, "mish"),
    ROW(HARD_SIGMOID, "hard_sigmoid"),
    ROW(HARD_SWISH, "hard_swish"),
    ROW(SOFTPLUS, "softplus"),
    ROW(SOFTSIGN, "softsign"),
    ROW(THRESHOLDED_RELU, "thresholded_relu"),
    ROW(SHRINK, "shrink"),
    ROW(CLIP, "clip"),
    ROW(NOT, "not"),
    ROW(BIT_NOT, "bit_not"),
    ROW(IS_NAN, "is_nan"),
    ROW(IS_INF, "is_inf"),
    ROW(CAST, "cast"),
    ROW(ADD, "add"),
    ROW(SUB, "sub"),
    ROW(MUL, "mul"),
    ROW(DIV, "div"),
    ROW(MOD, "mod"),
    ROW(FMOD, "fmod"),
    ROW(POW, "pow"),
    ROW(MIN, "min"),
    ROW(MAX, "max"),
    ROW(PRELU, "prelu"),
    ROW(AND, "and"),
    ROW(OR, "or"),
    ROW(XOR, "xor"),
    ROW(BIT_AND, "bit_and"),
    ROW(BIT_OR, "bit_or"),
    ROW(BIT_XOR, "bit_xor"),
    ROW(SHIFT_LEFT, "shift_left"),
    ROW(SHIFT_RIGHT, "shift_right"),
    ROW(EQUAL, "equal"),
    ROW(NOT_EQUAL, "not_equal"),
    ROW(LESS, "less"),
    ROW(LESS_EQUAL, "less_equal"),
    ROW(GREATER, "greater"),
    ROW(GREATER_EQUAL, "greater_equal"),
    ROW(WHERE, "where"),
    ROW(CHAIN, "chain"),
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
