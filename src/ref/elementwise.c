/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of every elementwise op and of chains: one evaluator runs instructions tile by tile, and
 * an op alone is a chain of one. A tile stays in cache between the instructions of a chain, and
 * each result is rounded to its dtype, so a chain gives the bits of its ops one by one. */
#include "ref/elementwise.h"

#include "ir/chain.h"
#include "ref/strided.h"

/* Elements of an item: enough to be worth handing to a thread. A multiple of RLX_TILE, so that
 * items never share a byte of 4-bit outputs nor a block. */
enum { ITEM_ELEMENTS = 4096 };

/* Memory for results of a chain that are still needed. With more of them the tiles get smaller:
 * RLX_CHAIN_MOST results still have tiles of 32. */
enum { REGISTER_BYTES = 32 * RLX_TILE_BYTES, LEAST_TILE = 32 };
_Static_assert(RLX_CHAIN_MOST *LEAST_TILE * 8 <= REGISTER_BYTES, "results of a chain fit");

typedef struct tile_program {
    const rlx_kernel_args *args;
    rlx_sweep sweep;
    rlx_list code;                /* of a chain */
    rlx_chain_instruction single; /* of an op alone */
    uint32_t count;               /* instructions */
    uint32_t tile;                /* elements per tile */
    uint16_t registers[RLX_CHAIN_MOST];
} tile_program;

typedef struct tile_memory {
    _Alignas(64) char operands[3][RLX_TILE_BYTES]; /* inputs that had to be loaded */
    _Alignas(64) char result[RLX_TILE_BYTES];
    _Alignas(64) char registers[REGISTER_BYTES];
    bool is_ready[3]; /* an op alone: the operand is one number, and its tile is filled with it */
} tile_memory;

static rlx_chain_instruction instruction_at(const tile_program *program, uint32_t index) {
    return program->count == 1 && program->code.items == NULL ? program->single
                                                              : rlx_chain_at(program->code, index);
}

/* Gives each result a register from its instruction to its last use. Returns how many are needed.
 */
static uint32_t assign_registers(tile_program *program) {
    uint16_t last_use[RLX_CHAIN_MOST], spare[RLX_CHAIN_MOST];
    uint32_t spare_count = 0, used = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        rlx_chain_instruction instruction = instruction_at(program, i);
        last_use[i] = (uint16_t)i;
        for (uint32_t k = 0; k < 3; k++) {
            int64_t operand = instruction.operands[k];
            if (operand < 0 && operand != RLX_CHAIN_NONE) last_use[-1 - operand] = (uint16_t)i;
        }
    }
    for (uint32_t i = 0; i < program->count; i++) {
        rlx_chain_instruction instruction = instruction_at(program, i);
        /* Taken before the operands' are given back: lanes of other widths must not overlap. */
        program->registers[i] = spare_count > 0 ? spare[--spare_count] : (uint16_t)used++;
        if (last_use[i] == i) spare[spare_count++] = program->registers[i];
        for (uint32_t k = 0; k < 3; k++) {
            int64_t operand = instruction.operands[k];
            if (operand >= 0 || operand == RLX_CHAIN_NONE) continue;
            uint32_t result = (uint32_t)(-1 - operand);
            if (last_use[result] != i) continue;
            spare[spare_count++] = program->registers[result];
            last_use[result] = UINT16_MAX; /* given back once, even if used twice here */
        }
    }
    return used;
}

static void load_chain(tile_program *program) {
    const rlx_chain_attrs *attrs = program->args->attrs;
    program->code = attrs->code;
    program->count = rlx_chain_count(attrs->code);
    uint32_t registers = assign_registers(program);
    while (registers * program->tile * 8 > REGISTER_BYTES)
        program->tile /= 2;
}

static void load_single(tile_program *program) {
    const rlx_kernel_args *args = program->args;
    rlx_chain_instruction single = {.op = args->op, .dtype = args->out[0].dtype};
    for (uint32_t i = 0; i < 3; i++)
        single.operands[i] = i < args->in_count ? (int64_t)i : RLX_CHAIN_NONE;
    if (args->in_count == 1 && args->attrs != NULL && args->op != RLX_OP_CAST) {
        const rlx_unary_attrs *attrs = args->attrs;
        single.alpha = attrs->alpha;
        single.beta = attrs->beta;
    }
    program->single = single;
    program->count = 1;
}

static void *register_of(const tile_program *program, tile_memory *tiles, uint32_t result) {
    return tiles->registers + (size_t)program->registers[result] * program->tile * 8;
}

/* One number for the whole output. */
static bool is_single_number(const rlx_sweep *sweep, const rlx_tensor *tensor) {
    for (uint32_t dim = 0; dim < sweep->rank; dim++) {
        if (rlx_sweep_stride(sweep, tensor, dim) != 0) return false;
    }
    return true;
}

static const void *input_lanes(const tile_program *program, tile_memory *tiles, const int64_t *at,
                               uint32_t count, uint32_t input, uint32_t place) {
    const rlx_tensor *tensor = &program->args->in[input];
    if (program->count == 1 && tiles->is_ready[place]) return tiles->operands[place];
    const void *lanes = rlx_tile_load(&program->sweep, at, tensor, count, tiles->operands[place]);
    /* Tiles only get shorter, so one that was filled serves to the end. */
    tiles->is_ready[place] =
        lanes == tiles->operands[place] && is_single_number(&program->sweep, tensor);
    return lanes;
}

static void run_instruction(const tile_program *program, tile_memory *tiles, const int64_t *at,
                            uint32_t count, uint32_t index) {
    rlx_chain_instruction instruction = instruction_at(program, index);
    rlx_tile_op op = {.args = program->args,
                      .op = instruction.op,
                      .dtype = instruction.dtype,
                      .alpha = instruction.alpha,
                      .beta = instruction.beta,
                      .count = count};
    for (uint32_t i = 0; i < 3 && instruction.operands[i] != RLX_CHAIN_NONE; i++) {
        int64_t operand = instruction.operands[i];
        if (operand >= 0) {
            op.operands[i] = program->args->in[operand].dtype;
            op.in[i] = input_lanes(program, tiles, at, count, (uint32_t)operand, i);
        } else {
            op.operands[i] = instruction_at(program, (uint32_t)(-1 - operand)).dtype;
            op.in[i] = register_of(program, tiles, (uint32_t)(-1 - operand));
        }
    }
    if (index + 1 < program->count) {
        op.out = register_of(program, tiles, index);
        rlx_tile_run(&op);
        rlx_tile_round(op.dtype, op.out, count);
        return;
    }
    const rlx_tensor *out = &program->args->out[0];
    op.out = rlx_tile_target(&program->sweep, at, out, count);
    bool is_direct = op.out != NULL;
    if (!is_direct) op.out = tiles->result;
    rlx_tile_run(&op);
    if (!is_direct) rlx_tile_store(&program->sweep, at, out, count, op.out);
}

static void run_tiles(const tile_program *program, int64_t begin, int64_t end) {
    const rlx_sweep *sweep = &program->sweep;
    int64_t at[RLX_MAX_RANK];
    tile_memory tiles;
    memset(tiles.is_ready, 0, sizeof tiles.is_ready);
    for (int64_t index = begin; index < end; index += program->tile) {
        uint32_t count = (uint32_t)(end - index < program->tile ? end - index : program->tile);
        rlx_sweep_seek(sweep, index, at);
        for (uint32_t i = 0; i < program->count; i++)
            run_instruction(program, &tiles, at, count, i);
    }
}

/* How items lie on the sweep: whole short rows, or pieces of a long one. */
typedef struct partition {
    int64_t rows;
    int64_t row_elements;
    int64_t rows_per_item; /* 0: rows are longer than an item */
    int64_t items_per_row;
} partition;

static partition partition_of(const rlx_kernel_args *args, const rlx_sweep *sweep) {
    partition parts = {.rows = 1, .row_elements = sweep->dims[sweep->rank - 1]};
    for (uint32_t dim = 0; dim + 1 < sweep->rank; dim++)
        parts.rows *= sweep->dims[dim];
    const rlx_dtype_row *row = rlx_dtype_row_of(args->out[0].dtype);
    bool has_nibbles = row->block_elements == 2;
    if (has_nibbles && sweep->rank > 1) { /* rows may share a byte: one item does them all */
        parts.rows_per_item = parts.rows;
    } else if (parts.row_elements <= ITEM_ELEMENTS) {
        parts.rows_per_item = parts.row_elements > 0 ? ITEM_ELEMENTS / parts.row_elements : 1;
    } else {
        parts.items_per_row = (parts.row_elements + ITEM_ELEMENTS - 1) / ITEM_ELEMENTS;
    }
    return parts;
}

static int64_t items(const rlx_kernel_args *args) {
    if (rlx_tensor_elements(&args->out[0]) == 0) return 0;
    rlx_sweep sweep = rlx_sweep_make(args);
    partition parts = partition_of(args, &sweep);
    if (parts.rows_per_item == 0) return parts.rows * parts.items_per_row;
    return (parts.rows + parts.rows_per_item - 1) / parts.rows_per_item;
}

/* Flat elements [begin, end) of one item. */
static void item_range(const partition *parts, int64_t item, int64_t *begin, int64_t *end) {
    if (parts->rows_per_item == 0) {
        int64_t row = item / parts->items_per_row, piece = item % parts->items_per_row;
        int64_t row_end = (row + 1) * parts->row_elements;
        *begin = row * parts->row_elements + piece * ITEM_ELEMENTS;
        *end = *begin + ITEM_ELEMENTS < row_end ? *begin + ITEM_ELEMENTS : row_end;
        return;
    }
    int64_t row = item * parts->rows_per_item, row_end = row + parts->rows_per_item;
    if (row_end > parts->rows) row_end = parts->rows;
    *begin = row * parts->row_elements;
    *end = row_end * parts->row_elements;
}

static void run_items(const tile_program *program, const partition *parts, int64_t begin,
                      int64_t end) {
    for (int64_t item = begin; item < end; item++) {
        int64_t first, past;
        item_range(parts, item, &first, &past);
        run_tiles(program, first, past);
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    tile_program program = {.args = args, .tile = RLX_TILE};
    program.sweep = rlx_sweep_make(args);
    partition parts = partition_of(args, &program.sweep);
    if (args->op == RLX_OP_CHAIN) {
        load_chain(&program);
    } else {
        load_single(&program);
    }
    run_items(&program, &parts, begin, end);
}

static void init_walk(rlx_walk *walk, const rlx_sweep *sweep, const rlx_tensor *tensor) {
    int64_t strides[RLX_MAX_RANK];
    for (uint32_t dim = 0; dim < sweep->rank; dim++)
        strides[dim] = rlx_sweep_stride(sweep, tensor, dim);
    rlx_walk_init(walk, tensor->dtype, tensor->data, 0, sweep->rank, sweep->dims, strides);
}

/* Raw bits, whatever the dtype. */
static void run_identity(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *out = &args->out[0], *in = &args->in[0];
    rlx_sweep sweep = rlx_sweep_make(args);
    partition parts = partition_of(args, &sweep);
    int64_t unit = rlx_unit_elements(out->dtype);
    rlx_walk to, from;
    if (in->data == out->data) return; /* in place */
    init_walk(&to, &sweep, out);
    init_walk(&from, &sweep, in);
    for (int64_t item = begin; item < end; item++) {
        int64_t first, past;
        item_range(&parts, item, &first, &past);
        rlx_walk_seek(&to, first / unit);
        rlx_walk_seek(&from, first / unit);
        rlx_walk_copy(&to, &from, (past - first) / unit);
    }
}

/* About how many plain operations an element costs. */
static int64_t op_cost(rlx_op op) {
    if (op >= RLX_OP_EXP && op <= RLX_OP_SIGMOID) return 16;
    if (op >= RLX_OP_ELU && op <= RLX_OP_MISH) return 16;
    switch (op) {
    case RLX_OP_SOFTPLUS:
    case RLX_OP_POW:
    case RLX_OP_MOD:
    case RLX_OP_FMOD:
        return 16;
    case RLX_OP_RSQRT:
    case RLX_OP_CAST:
        return 4;
    default:
        return 1;
    }
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
    return count == 0 ? 0 : elements / count * cost;
}

#define ROW(op, name, function)                    \
    {                                              \
        RLX_OP_##op, {                             \
            name, function, items, item_cost, NULL \
        }                                          \
    }
#define TILES(op, name) ROW(op, name, run)
const rlx_ref_row rlx_ref_elementwise_rows[] = {
    ROW(IDENTITY, "identity_scalar", run_identity),
    TILES(ABS, "abs_scalar"),
    TILES(NEG, "neg_scalar"),
    TILES(SIGN, "sign_scalar"),
    TILES(FLOOR, "floor_scalar"),
    TILES(CEIL, "ceil_scalar"),
    TILES(ROUND, "round_scalar"),
    TILES(SQRT, "sqrt_scalar"),
    TILES(RSQRT, "rsqrt_scalar"),
    TILES(RECIPROCAL, "reciprocal_scalar"),
    TILES(SQUARE, "square_scalar"),
    TILES(EXP, "exp_scalar"),
    TILES(LOG, "log_scalar"),
    TILES(SIN, "sin_scalar"),
    TILES(COS, "cos_scalar"),
    TILES(TAN, "tan_scalar"),
    TILES(ASIN, "asin_scalar"),
    TILES(ACOS, "acos_scalar"),
    TILES(ATAN, "atan_scalar"),
    TILES(SINH, "sinh_scalar"),
    TILES(COSH, "cosh_scalar"),
    TILES(TANH, "tanh_scalar"),
    TILES(ASINH, "asinh_scalar"),
    TILES(ACOSH, "acosh_scalar"),
    TILES(ATANH, "atanh_scalar"),
    TILES(ERF, "erf_scalar"),
    TILES(SIGMOID, "sigmoid_scalar"),
    TILES(RELU, "relu_scalar"),
    TILES(LEAKY_RELU, "leaky_relu_scalar"),
    TILES(ELU, "elu_scalar"),
    TILES(CELU, "celu_scalar"),
    TILES(SELU, "selu_scalar"),
    TILES(GELU, "gelu_scalar"),
    TILES(GELU_TANH, "gelu_tanh_scalar"),
    TILES(SILU, "silu_scalar"),
    TILES(MISH, "mish_scalar"),
    TILES(HARD_SIGMOID, "hard_sigmoid_scalar"),
    TILES(HARD_SWISH, "hard_swish_scalar"),
    TILES(SOFTPLUS, "softplus_scalar"),
    TILES(SOFTSIGN, "softsign_scalar"),
    TILES(THRESHOLDED_RELU, "thresholded_relu_scalar"),
    TILES(SHRINK, "shrink_scalar"),
    TILES(CLIP, "clip_scalar"),
    TILES(NOT, "not_scalar"),
    TILES(BIT_NOT, "bit_not_scalar"),
    TILES(IS_NAN, "is_nan_scalar"),
    TILES(IS_INF, "is_inf_scalar"),
    TILES(CAST, "cast_scalar"),
    TILES(ADD, "add_scalar"),
    TILES(SUB, "sub_scalar"),
    TILES(MUL, "mul_scalar"),
    TILES(DIV, "div_scalar"),
    TILES(MOD, "mod_scalar"),
    TILES(FMOD, "fmod_scalar"),
    TILES(POW, "pow_scalar"),
    TILES(MIN, "min_scalar"),
    TILES(MAX, "max_scalar"),
    TILES(PRELU, "prelu_scalar"),
    TILES(AND, "and_scalar"),
    TILES(OR, "or_scalar"),
    TILES(XOR, "xor_scalar"),
    TILES(BIT_AND, "bit_and_scalar"),
    TILES(BIT_OR, "bit_or_scalar"),
    TILES(BIT_XOR, "bit_xor_scalar"),
    TILES(SHIFT_LEFT, "shift_left_scalar"),
    TILES(SHIFT_RIGHT, "shift_right_scalar"),
    TILES(EQUAL, "equal_scalar"),
    TILES(NOT_EQUAL, "not_equal_scalar"),
    TILES(LESS, "less_scalar"),
    TILES(LESS_EQUAL, "less_equal_scalar"),
    TILES(GREATER, "greater_scalar"),
    TILES(GREATER_EQUAL, "greater_equal_scalar"),
    TILES(WHERE, "where_scalar"),
    TILES(CHAIN, "chain_scalar"),
};
const uint32_t rlx_ref_elementwise_count =
    sizeof rlx_ref_elementwise_rows / sizeof rlx_ref_elementwise_rows[0];
