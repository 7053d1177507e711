/* SPDX-License-Identifier: Apache-2.0 */
/* A fused chain has the bits of its ops run one by one, on every vector level: random chains of
 * floats of 16, 32 and 64 bits with casts, comparisons and choices among them, operands that
 * broadcast, and lengths that are no whole number of anything. NaN is NaN whatever its payload. */
#include "backend/cpu/table.h"
#include "ir/chain.h"
#include "ir/dtype.h"
#include "kernels/levels.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHAINS = 600, INPUTS = 4, MOST_STEPS = 30, MOST_ELEMENTS = 6000 };

static uint64_t random_state;
static uint32_t pick(uint32_t count) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % count;
}

/* A chain and everything that its ops leave. */
typedef struct chain {
    int64_t dims[3];
    rlx_tensor in[INPUTS];
    uint32_t in_count, step_count;
    rlx_chain_instruction steps[MOST_STEPS];
    int64_t words[MOST_STEPS * RLX_CHAIN_WORDS];
    double memory[INPUTS + MOST_STEPS + 1][MOST_ELEMENTS]; /* inputs, results, the chain's result */
} chain;

static rlx_tensor tensor_of(const chain *self, rlx_dtype dtype, uint32_t index) {
    rlx_tensor tensor = {.dtype = dtype, .rank = 3};
    int64_t stride = 1;
    for (uint32_t i = 3; i-- > 0;) {
        tensor.dims[i] = self->dims[i];
        tensor.strides[i] = stride;
        stride *= self->dims[i];
    }
    tensor.data = (void *)(uintptr_t)self->memory[index];
    return tensor;
}

static int64_t elements_of(const chain *self) {
    return self->dims[0] * self->dims[1] * self->dims[2];
}

/* Plain, or along some axes only. */
static rlx_tensor broadcast_of(const chain *self, rlx_dtype dtype, uint32_t index) {
    rlx_tensor tensor = tensor_of(self, dtype, index);
    uint32_t axes = pick(2) == 0 ? 7 : pick(8);
    int64_t stride = 1;
    for (uint32_t i = 3; i-- > 0;) {
        if ((axes >> i & 1) == 0) tensor.dims[i] = 1;
        tensor.strides[i] = stride;
        stride *= tensor.dims[i];
    }
    return tensor;
}

static void make_inputs(chain *self) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F32,  RLX_DTYPE_F32, RLX_DTYPE_F16,
                                       RLX_DTYPE_F16, RLX_DTYPE_BF16, RLX_DTYPE_F64, RLX_DTYPE_I8};
    rlx_dtype dtype = dtypes[pick(7)];
    self->in_count = 1 + pick(INPUTS);
    for (uint32_t i = 0; i < self->in_count; i++) {
        rlx_dtype own = pick(6) == 0 ? dtypes[pick(8)] : dtype;
        self->in[i] = i == 0 ? tensor_of(self, own, i) : broadcast_of(self, own, i);
        for (int64_t n = 0; n < elements_of(self); n++) {
            float value = (float)((int)pick(4001) - 2000) * (pick(9) == 0 ? 0.1f : 0.002f);
            if (pick(200) == 0) value = pick(2) == 0 ? INFINITY : -NAN;
            if (own == RLX_DTYPE_F64) {
                self->memory[i][n] = (double)value;
            } else if (own == RLX_DTYPE_I8) {
                ((int8_t *)self->memory[i])[n] = (int8_t)pick(256);
            } else {
                uint64_t bytes = rlx_dtype_block_bytes(own);
                char *to = (char *)self->memory[i] + (uint64_t)n * bytes;
                assert_status(RLX_OK, rlx_convert_from_f32(own, to, &value, 1));
            }
        }
    }
}

static rlx_dtype dtype_of(const chain *self, int64_t operand) {
    return operand >= 0 ? self->in[operand].dtype : self->steps[-1 - operand].dtype;
}

/* Mostly the last result, so that values are handed on; else anything that is there. */
static int64_t pick_operand(const chain *self) {
    uint32_t made = self->step_count;
    if (made > 0 && pick(3) > 0) return -(int64_t)made;
    uint32_t which = pick(self->in_count + made);
    return which < self->in_count ? (int64_t)which : -1 - (int64_t)(which - self->in_count);
}

static rlx_chain_instruction pick_step(const chain *self) {
    static const rlx_op ops[] = {
        RLX_OP_ADD,      RLX_OP_MUL,  RLX_OP_SUB,  RLX_OP_DIV,       RLX_OP_MIN,  RLX_OP_MAX,
        RLX_OP_PRELU,    RLX_OP_POW,  RLX_OP_LESS, RLX_OP_ADD,       RLX_OP_SUB,  RLX_OP_SIGMOID,
        RLX_OP_TANH,     RLX_OP_EXP,  RLX_OP_SILU, RLX_OP_GELU,      RLX_OP_CLIP, RLX_OP_RELU,
        RLX_OP_ABS,      RLX_OP_NEG,  RLX_OP_LOG,  RLX_OP_GELU_TANH, RLX_OP_ERF,  RLX_OP_ROUND,
        RLX_OP_SQUARE,   RLX_OP_MISH, RLX_OP_CAST, RLX_OP_CAST,      RLX_OP_SIN,  RLX_OP_LEAKY_RELU,
        RLX_OP_SOFTPLUS, RLX_OP_MOD,  RLX_OP_FMOD};
    static const rlx_dtype targets[] = {RLX_DTYPE_F32, RLX_DTYPE_F16, RLX_DTYPE_BF16, RLX_DTYPE_I8,
                                        RLX_DTYPE_U8};
    rlx_chain_instruction step = {.op = ops[pick(sizeof ops / sizeof *ops)],
                                  .alpha = -0.75,
                                  .beta = 1.25,
                                  .operands = {pick_operand(self), RLX_CHAIN_NONE, RLX_CHAIN_NONE}};
    if (step.op == RLX_OP_ADD || step.op == RLX_OP_MUL || step.op == RLX_OP_SUB ||
        step.op == RLX_OP_DIV || step.op == RLX_OP_MIN || step.op == RLX_OP_MAX ||
        step.op == RLX_OP_PRELU || step.op == RLX_OP_POW || step.op == RLX_OP_LESS ||
        step.op == RLX_OP_MOD || step.op == RLX_OP_FMOD) {
        step.operands[1] = pick_operand(self);
    }
    step.dtype = targets[pick(5)];
    return step;
}

/* The dtypes of operands; their number is returned. */
static uint32_t operand_dtypes(const chain *self, const rlx_chain_instruction *step,
                               rlx_dtype *dtypes) {
    uint32_t count = 0;
    for (; count < 3 && step->operands[count] != RLX_CHAIN_NONE; count++)
        dtypes[count] = dtype_of(self, step->operands[count]);
    return count;
}

/* Adds a step whose dtypes fit. Integer division may fault: none of it. */
static void add_step(chain *self) {
    for (;;) {
        rlx_chain_instruction step = pick_step(self);
        rlx_dtype dtypes[3], dtype;
        uint32_t count = operand_dtypes(self, &step, dtypes);
        bool is_float = rlx_dtype_row_of(dtypes[0])->class_ == RLX_CLASS_FLOAT;
        if (!is_float && step.op != RLX_OP_CAST) continue;
        if (rlx_elementwise_dtype(step.op, dtypes, count, step.dtype, &dtype) != RLX_OK) continue;
        step.dtype = dtype;
        rlx_chain_encode(&step, self->words + self->step_count * RLX_CHAIN_WORDS);
        self->steps[self->step_count++] = step;
        return;
    }
}

static void run_kernel(const rlx_cpu_level *level, rlx_op op, const void *attrs,
                       const rlx_tensor *in, uint32_t in_count, const rlx_tensor *out) {
    rlx_target_query query = {
        .op = op, .attrs = attrs, .in = in, .out = out, .in_count = in_count, .out_count = 1};
    rlx_kernel_args args = {
        .op = op, .attrs = attrs, .in = in, .out = out, .in_count = in_count, .out_count = 1};
    const rlx_kernel *kernel = rlx_cpu_choose(level, &query);
    int64_t items = kernel->items(&args), half = items / 2;
    kernel->run(&args, half, items);
    kernel->run(&args, 0, half);
}

static void run_one_by_one(const rlx_cpu_level *level, chain *self) {
    for (uint32_t s = 0; s < self->step_count; s++) {
        const rlx_chain_instruction *step = &self->steps[s];
        rlx_unary_attrs unary = {.alpha = step->alpha, .beta = step->beta};
        rlx_cast_attrs cast = {.to = step->dtype};
        rlx_tensor in[3], out = tensor_of(self, step->dtype, INPUTS + s);
        uint32_t count = 0;
        for (; count < 3 && step->operands[count] != RLX_CHAIN_NONE; count++) {
            int64_t operand = step->operands[count];
            uint32_t from = INPUTS + (uint32_t)(-1 - operand);
            in[count] =
                operand >= 0 ? self->in[operand] : tensor_of(self, dtype_of(self, operand), from);
        }
        const void *attrs = step->op == RLX_OP_CAST ? (const void *)&cast : &unary;
        run_kernel(level, step->op, count == 1 ? attrs : NULL, in, count, &out);
    }
}

static bool is_same(rlx_dtype dtype, const char *a, const char *b, int64_t i) {
    uint64_t bytes = rlx_dtype_block_bytes(dtype);
    a += (uint64_t)i * bytes, b += (uint64_t)i * bytes;
    if (memcmp(a, b, bytes) == 0) return true;
    if (dtype == RLX_DTYPE_F64) {
        double x, y;
        memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
        return x != x && y != y;
    }
    if (rlx_dtype_row_of(dtype)->class_ != RLX_CLASS_FLOAT) return false;
    float x, y;
    assert_status(RLX_OK, rlx_convert_to_f32(dtype, &x, a, 1));
    assert_status(RLX_OK, rlx_convert_to_f32(dtype, &y, b, 1));
    return x != x && y != y;
}

/* Whether the chain in one gives what its ops gave, in `out`. */
static bool check_result(const rlx_cpu_level *level, const chain *self, const rlx_tensor *out,
                         uint32_t number) {
    const char *single = (const char *)self->memory[INPUTS + self->step_count - 1];
    for (int64_t i = 0; i < elements_of(self); i++) {
        if (is_same(out->dtype, single, out->data, i)) continue;
        fprintf(stderr, "chain %u of %u steps on %s: element %lld differs\n", number,
                self->step_count, level->name, (long long)i);
        for (uint32_t s = 0; s < self->step_count; s++) {
            const rlx_chain_instruction *step = &self->steps[s];
            fprintf(stderr, "  %%%u = %s %s(%lld, %lld)\n", s, rlx_dtype_name(step->dtype),
                    rlx_op_name(step->op), (long long)step->operands[0],
                    (long long)step->operands[1]);
        }
        return false;
    }
    return true;
}

/* Once apart from its inputs, and where elements are as wide in the place of the first. */
static bool check_chain(const rlx_cpu_level *level, chain *self, uint32_t number) {
    rlx_chain_attrs attrs = {{self->step_count * RLX_CHAIN_WORDS, self->words}};
    rlx_dtype dtype = self->steps[self->step_count - 1].dtype;
    rlx_tensor out = tensor_of(self, dtype, INPUTS + MOST_STEPS), in[INPUTS];
    uint64_t bytes = rlx_dtype_block_bytes(dtype);
    run_one_by_one(level, self);
    run_kernel(level, RLX_OP_CHAIN, &attrs, self->in, self->in_count, &out);
    if (!check_result(level, self, &out, number)) return false;
    if (rlx_dtype_block_bytes(self->in[0].dtype) != bytes) return true;
    memcpy(in, self->in, sizeof in);
    memcpy(out.data, in[0].data, (uint64_t)elements_of(self) * bytes);
    in[0].data = out.data;
    run_kernel(level, RLX_OP_CHAIN, &attrs, in, self->in_count, &out);
    return check_result(level, self, &out, number);
}

static void a_chain_has_the_bits_of_its_ops(void **state) {
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t count = kernel_levels(levels), bad = 0;
    chain *self = calloc(1, sizeof *self);
    (void)state;
    assert_non_null(self);
    for (uint32_t number = 0; number < CHAINS; number++) {
        random_state = number * 2654435761u + 1;
        self->dims[0] = 1 + pick(3), self->dims[1] = 1 + pick(5);
        self->dims[2] = pick(4) == 0 ? 512 + pick(1300) / self->dims[1] : 1 + pick(400);
        while (elements_of(self) > MOST_ELEMENTS)
            self->dims[1]--;
        self->step_count = 0;
        make_inputs(self);
        uint32_t steps = 1 + pick(pick(8) == 0 ? MOST_STEPS : 9);
        for (uint32_t s = 0; s < steps; s++)
            add_step(self);
        for (uint32_t i = 0; i < count; i++)
            bad += !check_chain(levels[i], self, number);
    }
    free(self);
    assert_int_equal(bad, 0);
}

/* Rounding to bf16 adds to the bits of a number: a NaN must become neither infinity nor 0, wherever
 * it lies in a block, and its neighbours are rounded as without it. */
static void nan_stays_nan_in_bf16(void **state) {
    static const uint32_t nans[] = {0x7fffffff, 0xffffffff, 0x7f800001, 0xff80ffff, 0x7fff8000};
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t count = kernel_levels(levels);
    chain *self = calloc(1, sizeof *self);
    (void)state;
    assert_non_null(self);
    self->dims[0] = 1, self->dims[1] = 1, self->dims[2] = 301;
    self->in[0] = tensor_of(self, RLX_DTYPE_F32, 0);
    rlx_tensor out = tensor_of(self, RLX_DTYPE_BF16, INPUTS);
    rlx_cast_attrs cast = {.to = RLX_DTYPE_BF16};
    float *in = (float *)(void *)self->memory[0];
    const uint16_t *got = (const uint16_t *)out.data;
    for (uint32_t at = 0; at < 301 * count; at++) {
        uint16_t want[301];
        for (uint32_t i = 0; i < 301; i++)
            in[i] = (float)((int)pick(4001) - 2000) * 0.002f;
        memcpy(&in[at % 301], &nans[at % 5], sizeof nans[0]);
        run_kernel(levels[at / 301], RLX_OP_CAST, &cast, self->in, 1, &out);
        assert_status(RLX_OK, rlx_convert_from_f32(RLX_DTYPE_BF16, want, in, 301));
        want[at % 301] |= 0x40; /* quiet */
        assert_memory_equal(want, got, sizeof want);
    }
    free(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_chain_has_the_bits_of_its_ops),
                                       cmocka_unit_test(nan_stays_nan_in_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
