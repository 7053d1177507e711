/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of every elementwise op and of chains on a vector level: one pass over memory, tile by
 * tile. A tile stays in the first-level cache between the instructions of a chain. Operands that
 * lie as the loops want them are read where they are; others are brought into a tile first. */
#include "backend/cpu/vec/elementwise.h"

#include "ref/elementwise.h"

enum {
    /* Cells of all registers and loaded inputs; most of it is never touched. */
    CELL_MEMORY = 96 * 1024,
    CACHED_CELLS = 24 * 1024, /* what tiles are made small for */
    LEAST_TILE = 32,
    LONG_ROW = 512, /* from here on tiles end with their row and need not be gathered */
    ITEM_ELEMENTS = 4096,
    LARGE_ITEM = 16384,     /* of outputs from LARGE_OUTPUT elements on */
    LARGE_OUTPUT = 1 << 20, /* elements */
    PAST_CACHES = 24 << 20, /* bytes of output that are written past the caches */
    SLOTS = VEC_INPUTS + RLX_CHAIN_MOST
};
_Static_assert((RLX_CHAIN_MOST + VEC_INPUTS + 1) * LEAST_TILE * 8 <= CELL_MEMORY, "tiles fit");

static vec_run choose_run(const vec_step *step) {
    vec_run run = NULL;
    rlx_dtype cell = vec_cell_of(step->operands[0]);
    if (step->op == RLX_OP_WHERE || step->op == RLX_OP_IDENTITY) {
        run = vec_choose_integer(step);
    } else if (step->op == RLX_OP_CAST) {
        run = vec_choose_cast(step);
    } else if (cell == RLX_DTYPE_F32) {
        bool is_mixed = step->op == RLX_OP_POW && vec_cell_of(step->operands[1]) != RLX_DTYPE_F32;
        run = is_mixed ? NULL : vec_choose_f32(step);
    } else if (cell == RLX_DTYPE_F64) {
        run = vec_choose_f64(step);
    } else {
        run = vec_choose_integer(step);
    }
    return run != NULL ? run : vec_run_scalar;
}

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

/* The sweep: dims of the output but 1s, by falling stride, merged. Strides of all operands are kept
 * in step; `axes` are the output's. */
static int64_t axis_stride(const rlx_tensor *tensor, uint32_t out_rank, uint32_t out_axis) {
    uint32_t missing = out_rank - tensor->rank;
    if (out_axis < missing || tensor->dims[out_axis - missing] == 1) return 0;
    return tensor->strides[out_axis - missing];
}

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* The output's axes in the order of its memory. Axes of equal stride keep their order. */
static uint32_t sort_axes(const rlx_tensor *out, uint32_t *axes) {
    uint32_t count = 0;
    for (uint32_t axis = 0; axis < out->rank; axis++) {
        uint32_t at = count;
        if (out->dims[axis] == 1) continue;
        for (; at > 0 && magnitude(out->strides[axes[at - 1]]) < magnitude(out->strides[axis]);
             at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
        count++;
    }
    return count;
}

static void place_operand(const vec_program *self, vec_operand *operand, const rlx_tensor *tensor,
                          const uint32_t *axes, uint32_t count) {
    operand->tensor = tensor;
    for (uint32_t d = 0; d < count; d++)
        operand->strides[d] = axis_stride(tensor, self->args->out[0].rank, axes[d]);
}

static bool dims_merge(const vec_program *self, uint32_t outer, uint32_t inner, int64_t dim) {
    if (self->output.strides[outer] != self->output.strides[inner] * dim) return false;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const int64_t *strides = self->inputs[i].strides;
        if (strides[outer] != strides[inner] * dim) return false;
    }
    return true;
}

static void move_dim(vec_program *self, uint32_t to, uint32_t from) {
    if (to == from) return;
    self->output.strides[to] = self->output.strides[from];
    for (uint32_t i = 0; i < self->input_count; i++)
        self->inputs[i].strides[to] = self->inputs[i].strides[from];
}

static void make_sweep(vec_program *self) {
    const rlx_kernel_args *args = self->args;
    const rlx_tensor *out = &args->out[0];
    uint32_t axes[RLX_MAX_RANK], count = sort_axes(out, axes);
    self->input_count = args->in_count;
    place_operand(self, &self->output, out, axes, count);
    for (uint32_t i = 0; i < args->in_count; i++)
        place_operand(self, &self->inputs[i], &args->in[i], axes, count);
    vec_sweep *sweep = &self->sweep;
    sweep->rank = 0;
    for (uint32_t d = 0; d < count; d++) {
        int64_t dim = out->dims[axes[d]];
        if (sweep->rank > 0 && dims_merge(self, sweep->rank - 1, d, dim)) {
            sweep->dims[sweep->rank - 1] *= dim;
            move_dim(self, sweep->rank - 1, d);
        } else {
            move_dim(self, sweep->rank, d);
            sweep->dims[sweep->rank++] = dim;
        }
    }
    if (sweep->rank > 0) return;
    sweep->rank = 1, sweep->dims[0] = 1;
    self->output.strides[0] = 1;
    for (uint32_t i = 0; i < args->in_count; i++)
        self->inputs[i].strides[0] = 1;
}

static void describe(const vec_sweep *sweep, vec_operand *operand) {
    rlx_dtype dtype = operand->tensor->dtype;
    int64_t expected = 1;
    operand->cell = vec_cell_of(dtype);
    operand->has_cells = operand->cell == dtype;
    bool is_half = dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
    operand->bytes = operand->has_cells || is_half ? rlx_dtype_block_bytes(dtype) : 0;
    operand->is_flat = operand->is_number = true;
    for (uint32_t d = sweep->rank; d-- > 0;) {
        operand->is_flat &= operand->strides[d] == expected;
        operand->is_number &= operand->strides[d] == 0;
        expected *= sweep->dims[d];
    }
    operand->cells = NULL;
}

static int64_t sweep_elements(const vec_sweep *sweep) {
    int64_t count = 1;
    for (uint32_t d = 0; d < sweep->rank; d++)
        count *= sweep->dims[d];
    return count;
}

/* The cells of an input are where its memory is. */
static bool is_direct(const vec_program *self, const vec_operand *x) {
    if (!x->has_cells) return false;
    return x->is_flat || (self->keeps_rows && x->strides[self->sweep.rank - 1] == 1);
}

static void load_step(vec_program *self, uint32_t index, const rlx_chain_instruction *instruction) {
    vec_step *step = &self->steps[index];
    step->args = self->args;
    step->op = instruction->op;
    step->dtype = instruction->dtype;
    step->alpha = instruction->alpha;
    step->beta = instruction->beta;
    step->in_count = 0;
    for (uint32_t k = 0; k < 3 && instruction->operands[k] != RLX_CHAIN_NONE; k++) {
        int64_t operand = instruction->operands[k];
        step->operands[k] =
            operand >= 0 ? self->args->in[operand].dtype : self->steps[-1 - operand].dtype;
        /* Results are named by their instruction until registers are given out. */
        step->in[k] = (uint16_t)(operand >= 0 ? operand : VEC_INPUTS - 1 - operand);
        step->in_count++;
    }
    step->run = choose_run(step);
}

/* Gives each result a register from its instruction to its last use. An operand's is not taken
 * over by the result: cells of other widths must not overlap. */
static void give_registers(vec_program *self) {
    uint16_t last_use[RLX_CHAIN_MOST], given[RLX_CHAIN_MOST], spare[RLX_CHAIN_MOST];
    uint32_t spare_count = 0, used = 0;
    for (uint32_t i = 0; i < self->step_count; i++) {
        last_use[i] = (uint16_t)i;
        for (uint32_t k = 0; k < self->steps[i].in_count; k++) {
            if (self->steps[i].in[k] >= VEC_INPUTS)
                last_use[self->steps[i].in[k] - VEC_INPUTS] = (uint16_t)i;
        }
    }
    for (uint32_t i = 0; i < self->step_count; i++) {
        vec_step *step = &self->steps[i];
        given[i] = spare_count > 0 ? spare[--spare_count] : (uint16_t)used++;
        step->out = (uint16_t)(VEC_INPUTS + given[i]);
        for (uint32_t k = 0; k < step->in_count; k++) {
            if (step->in[k] < VEC_INPUTS) continue;
            uint32_t result = step->in[k] - VEC_INPUTS;
            step->in[k] = (uint16_t)(VEC_INPUTS + given[result]);
            if (last_use[result] == i) {
                spare[spare_count++] = given[result];
                last_use[result] = UINT16_MAX; /* given back once, even if used twice here */
            }
        }
        if (last_use[i] == i) spare[spare_count++] = given[i];
    }
    self->register_count = used;
}

static void load_steps(vec_program *self) {
    const rlx_kernel_args *args = self->args;
    if (args->op == RLX_OP_CHAIN) {
        rlx_list code = ((const rlx_chain_attrs *)args->attrs)->code;
        self->step_count = rlx_chain_count(code);
        for (uint32_t i = 0; i < self->step_count; i++) {
            rlx_chain_instruction instruction = rlx_chain_at(code, i);
            load_step(self, i, &instruction);
        }
        give_registers(self);
        return;
    }
    rlx_chain_instruction single = {.op = args->op, .dtype = args->out[0].dtype};
    for (uint32_t i = 0; i < 3; i++)
        single.operands[i] = i < args->in_count ? (int64_t)i : RLX_CHAIN_NONE;
    if (args->in_count == 1 && args->attrs != NULL && args->op != RLX_OP_CAST &&
        args->op != RLX_OP_IDENTITY) {
        const rlx_unary_attrs *attrs = args->attrs;
        single.alpha = attrs->alpha;
        single.beta = attrs->beta;
    }
    self->step_count = self->register_count = 1;
    load_step(self, 0, &single);
    self->steps[0].out = VEC_INPUTS;
}

/* Whether the output is large enough to be written past the caches, and may be. */
static bool passes_caches(const vec_program *self, int64_t elements) {
    const vec_operand *y = &self->output;
    if (!y->is_flat || y->bytes == 0 || elements < PAST_CACHES / (int64_t)y->bytes) return false;
    if ((uintptr_t)y->tensor->data % 64 != 0) return false;
    for (uint32_t i = 0; i < self->input_count; i++) {
        if (self->inputs[i].tensor->data == y->tensor->data) return false;
    }
    return true;
}

/* The size of tiles, and where the cells of registers and loaded inputs lie. */
static void lay_out(vec_program *self, int64_t elements, char *memory) {
    bool needs_cells[VEC_INPUTS];
    int64_t tiles = self->register_count + 1, biggest = 8;
    self->keeps_rows = self->sweep.rank == 1 || self->sweep.dims[self->sweep.rank - 1] >= LONG_ROW;
    for (uint32_t i = 0; i < self->input_count; i++) {
        needs_cells[i] = !is_direct(self, &self->inputs[i]);
        tiles += needs_cells[i];
    }
    self->is_past_caches = passes_caches(self, elements);
    self->has_code = vec_make_code(self);
    bool is_in_memory = self->step_count == 1 && tiles == 2 && self->output.has_cells &&
                        self->output.is_flat && !self->is_past_caches;
    self->tile = VEC_TILE;
    while (self->tile > LEAST_TILE && tiles * self->tile * 4 > CACHED_CELLS &&
           (tiles * self->tile * biggest > CELL_MEMORY || self->tile > 256))
        self->tile /= 2;
    while (tiles * self->tile * biggest > CELL_MEMORY)
        self->tile /= 2;
    int64_t bytes = self->tile_bytes = self->tile * biggest;
    self->registers = memory, memory += bytes * self->register_count;
    self->result = memory, memory += bytes;
    for (uint32_t i = 0; i < self->input_count; i++) {
        if (needs_cells[i]) self->inputs[i].cells = memory, memory += bytes;
    }
    if (self->has_code) is_in_memory = vec_reads_in_place(self);
    if (is_in_memory) self->tile = INT64_MAX; /* one loop over everything */
}

static void load_numbers(vec_program *self, int64_t most) {
    static const int64_t origin[RLX_MAX_RANK];
    int64_t count = most < self->tile ? most : self->tile;
    for (uint32_t i = 0; i < self->input_count; i++) {
        vec_operand *x = &self->inputs[i];
        if (x->is_number && x->cells != NULL)
            vec_load_cells(&self->sweep, x, origin, count, x->cells);
    }
}

static int64_t offset_of(const vec_sweep *sweep, const vec_operand *x, const int64_t *at) {
    int64_t offset = 0;
    for (uint32_t d = 0; d < sweep->rank; d++)
        offset += at[d] * x->strides[d];
    return offset;
}

static const void *input_cells(const vec_program *self, const vec_operand *x, int64_t index,
                               const int64_t *at, int64_t count) {
    const char *data = x->tensor->data;
    if (x->cells == NULL) {
        int64_t offset = x->is_flat ? index : offset_of(&self->sweep, x, at);
        return data + offset * x->bytes;
    }
    if (x->is_number) return x->cells;
    if (x->is_flat && x->bytes == 2) {
        vec_widen(x->tensor->dtype, (float *)(void *)x->cells, data + index * 2, count);
    } else {
        vec_load_cells(&self->sweep, x, at, count, x->cells);
    }
    return x->cells;
}

/* The last result to memory. */
static void store_result(const vec_program *self, int64_t index, const int64_t *at, int64_t count,
                         const void *cells) {
    const vec_operand *y = &self->output;
    uint16_t halves[VEC_TILE];
    char *to = (char *)y->tensor->data + index * y->bytes;
    if (!y->is_flat || y->bytes == 0) {
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

static void run_tile(const vec_program *self, int64_t index, const int64_t *at, int64_t count) {
    const void *cells[SLOTS];
    const vec_operand *y = &self->output;
    for (uint32_t i = 0; i < self->input_count; i++)
        cells[i] = input_cells(self, &self->inputs[i], index, at, count);
    for (uint32_t r = 0; r < self->register_count; r++)
        cells[VEC_INPUTS + r] = self->registers + r * self->tile_bytes;
    for (uint32_t s = 0; s < self->step_count; s++) {
        const vec_step *step = &self->steps[s];
        const void *in[3];
        for (uint32_t k = 0; k < step->in_count; k++)
            in[k] = cells[step->in[k]];
        if (s + 1 < self->step_count) {
            void *out = self->registers + (step->out - VEC_INPUTS) * self->tile_bytes;
            step->run(step, in, out, count);
            vec_round_cells(step->dtype, out, count);
        } else if (y->has_cells && y->is_flat && !self->is_past_caches) {
            step->run(step, in, (char *)y->tensor->data + index * y->bytes, count);
        } else {
            step->run(step, in, self->result, count);
            store_result(self, index, at, count, self->result);
        }
    }
}

static void seek(const vec_sweep *sweep, int64_t index, int64_t *at) {
    for (uint32_t d = sweep->rank; d-- > 1;) {
        at[d] = index % sweep->dims[d];
        index /= sweep->dims[d];
    }
    at[0] = index;
}

static void run_range(vec_program *self, int64_t index, int64_t end) {
    int64_t at[RLX_MAX_RANK];
    while (index < end) {
        int64_t count = end - index < self->tile ? end - index : self->tile;
        seek(&self->sweep, index, at);
        if (self->keeps_rows) {
            uint32_t last = self->sweep.rank - 1;
            int64_t left = self->sweep.dims[last] - at[last];
            if (left < count) count = left;
        }
        if (self->has_code) {
            vec_run_code(self, index, at, count);
            if (!vec_writes_output(self)) store_result(self, index, at, count, self->result);
        } else {
            run_tile(self, index, at, count);
        }
        index += count;
    }
}

/* Items are runs of the sweep. 4-bit outputs with gaps are one item: neighbours share a byte. */
static int64_t item_elements(const vec_program *self, int64_t elements) {
    const vec_operand *y = &self->output;
    bool has_nibbles = rlx_dtype_block_elements(y->tensor->dtype) == 2;
    if (has_nibbles && !y->is_flat) return elements;
    return elements >= LARGE_OUTPUT ? LARGE_ITEM : ITEM_ELEMENTS;
}

static void prepare(vec_program *self, const rlx_kernel_args *args) {
    self->args = args;
    make_sweep(self);
    describe(&self->sweep, &self->output);
    for (uint32_t i = 0; i < self->input_count; i++)
        describe(&self->sweep, &self->inputs[i]);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    _Alignas(64) char memory[CELL_MEMORY];
    vec_program self;
    prepare(&self, args);
    load_steps(&self);
    int64_t elements = sweep_elements(&self.sweep), size = item_elements(&self, elements);
    lay_out(&self, elements, memory);
    int64_t first = begin * size, past = end * size < elements ? end * size : elements;
    if (!self.has_code) load_numbers(&self, past - first);
    run_range(&self, first, past);
    if (self.is_past_caches) vec_stream_end();
}

static int64_t items(const rlx_kernel_args *args) {
    vec_program self;
    if (rlx_tensor_elements(&args->out[0]) == 0) return 0;
    prepare(&self, args);
    int64_t elements = sweep_elements(&self.sweep), size = item_elements(&self, elements);
    return (elements - 1) / size + 1;
}

/* About how many plain operations on memory an element costs. */
static int64_t op_cost(rlx_op op) {
    if (op >= RLX_OP_EXP && op <= RLX_OP_MISH) return 4;
    return op == RLX_OP_POW || op == RLX_OP_MOD || op == RLX_OP_FMOD ? 16 : 1;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    int64_t elements = rlx_tensor_elements(&args->out[0]), cost = 0, count = items(args);
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
#define ROW(op, name)                                   \
    {                                                   \
        RLX_OP_##op, 0, takes, {                        \
            VEC_NAME(name), run, items, item_cost, NULL \
        }                                               \
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
