/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of absurd sizes. A plan needs no memory, so tensors of 2^40 elements are planned like any
 * other, and what no 64-bit offset can hold is refused; nothing wraps on the way. */
#include "base/size.h"
#include "support/support.h"

#include <rlx/plan.h>
#include <rlx/session.h>

#include <stdio.h>

static rlx_status plan_of(const char *body, const rlx_compile_options *options,
                          rlx_plan **out_plan) {
    char text[2048];
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    snprintf(text, sizeof text, "rlx 1\n%s", body);
    RLX_TRY(rlx_graph_parse(NULL, text, strlen(text), &graph));
    rlx_status status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    status = rlx_session_plan(session, "cpu", 2, options, out_plan);
    rlx_session_destroy(session);
    return status;
}

/* The verifier says so too; here once more by hand. */
static void assert_slots_fit(const rlx_plan *plan) {
    for (uint32_t s = 0; s < rlx_plan_slot_count(plan); s++) {
        rlx_slot_info slot;
        uint64_t end;
        assert_ok(rlx_plan_slot_at(plan, s, &slot));
        assert_true(rlx_add_u64(slot.offset, slot.bytes, &end));
        assert_true(end <= rlx_plan_segment_bytes(plan, slot.segment));
    }
}

static void assert_texts_can_be_made(const rlx_plan *plan) {
    char *text = NULL;
    assert_ok(rlx_plan_print(plan, &text));
    rlx_string_free(NULL, text);
    assert_ok(rlx_plan_html(plan, "huge", &text));
    rlx_string_free(NULL, text);
}

typedef struct planned {
    const char *what, *body;
    uint64_t least, most; /* of the arena, in bytes */
} planned;

#define T40 "1099511627776"
#define T31 "2147483648"
#define T20 "1048576"

static const planned huge[] = {
    {"elementwise",
     "input x : f32[" T40 "]\ny = exp(x)\nz = softmax(y) axis=0\nw = add(z, x)\noutput w\n",
     UINT64_C(2) << 42, UINT64_C(3) << 42},
    {"chain with broadcast",
     "input x : f32[" T20 ", 1]\ninput b : f32[" T20
     "]\ny = add(x, b)\nz = mul(y, b)\nr = reduce_sum(z) axes=[0]\noutput r\n",
     UINT64_C(1) << 42, UINT64_C(3) << 42},
    {"matmul",
     "input a : f32[" T20 ", " T20 "]\nparam b : f32[" T20 ", " T20
     "] = seeded(1, 1)\ny = matmul(a, b)\nz = relu(y)\noutput z\n",
     UINT64_C(3) << 42, UINT64_C(4) << 42},
    {"more flops than 64 bits count",
     "input a : f32[16777216, 16777216]\ninput b : f32[16777216, 16777216]\n"
     "y = matmul(a, b)\noutput y\n",
     UINT64_C(3) << 50, UINT64_C(4) << 50},
    {"conv",
     "input x : f32[1, 64, 131072, 131072]\nparam w : f32[64, 64, 3, 3] = seeded(1, 1)\n"
     "y = conv(x, w) pads=[1, 1, 1, 1]\nz = max_pool(y) kernel=[2, 2] strides=[2, 2]\noutput z\n",
     UINT64_C(1) << 42, UINT64_C(8) << 42},
    {"views",
     "input x : i8[" T20 ", " T20 "]\nt = transpose(x)\nr = reshape(t) shape=[" T40
     "]\ns = slice(r) starts=[1] ends=[" T40 "] axes=[0]\ny = neg(s)\noutput y\n",
     UINT64_C(1) << 40, UINT64_C(4) << 40},
    {"concat", "input x : i8[" T40 "]\na = abs(x)\nb = neg(x)\ny = concat(a, b) axis=0\noutput y\n",
     UINT64_C(2) << 40, UINT64_C(4) << 40},
    {"expand and tile",
     "input x : u8[1, " T20 "]\ne = expand(x) shape=[" T20 ", " T20 "]\nt = tile(x) shape=[" T20
     ", 1]\ny = add(e, t)\noutput y\n",
     UINT64_C(1) << 40, UINT64_C(3) << 40},
    {"gather and scatter",
     "input x : u8[" T40 "]\ninput i : i64[4]\ninput u : u8[4]\ng = gather(x, i) axis=0\n"
     "s = scatter_elements(x, i, u) axis=0\noutput g\noutput s\n",
     UINT64_C(1) << 40, UINT64_C(3) << 40},
    {"norms",
     "input x : f16[" T20 ", " T20 "]\na = layer_norm(x) axis=1 epsilon=0.00001\n"
     "b = rms_norm(a) axis=0 epsilon=0.00001\noutput b\n",
     UINT64_C(2) << 40, UINT64_C(6) << 40},
    {"sorting",
     "input x : f32[" T40 "]\nv, i = top_k(x) k=" T40 " axis=0\nc = cumsum(v) axis=0\n"
     "m = arg_max(c) axis=0\noutput m\noutput i\n",
     UINT64_C(3) << 42, UINT64_C(16) << 42},
    {"nonzero", "input x : u8[" T40 "]\nn, c = nonzero(x)\noutput n\noutput c\n", UINT64_C(9) << 40,
     UINT64_C(10) << 40},
    {"attention",
     "input q : f32[1, 1, " T31 ", 64]\ninput k : f32[1, 1, " T31 ", 64]\n"
     "y = attention(q, k, k)\noutput y\n",
     UINT64_C(3) << 39, UINT64_C(4) << 39},
    {"state",
     "state s : u8[" T40 "]\ninput r : u8[" T31 "]\ninput p : i64[]\n"
     "t, n = state_write(s, r, p)\ny = reduce_max(t)\noutput y\n",
     UINT64_C(1) << 40, UINT64_C(2) << 40},
    {"half a byte each", "input x : i4[" T40 "]\ny = cast(x) to=i8\noutput y\n", UINT64_C(3) << 39,
     UINT64_C(2) << 40},
    {"blocks",
     "param w : q4_0[" T20 ", " T20 "]\ninput x : f32[1, " T20
     "]\ny = matmul(x, w) transpose_b=true\noutput y\n",
     UINT64_C(9) << 36, UINT64_C(10) << 38},
};

static void tensors_of_2_to_the_40_elements_are_planned(void **state) {
    const uint64_t slack = 1 << 20; /* the fault record, scalars, workspaces */
    (void)state;
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        for (int apart = 0; apart < 2; apart++) {
            rlx_compile_options options = {.size = sizeof options, .without_reuse = apart != 0};
            rlx_plan *plan = NULL;
            rlx_status status = plan_of(huge[i].body, &options, &plan);
            if (status != RLX_OK) fail_msg("%s: %s", huge[i].what, rlx_last_error());
            assert_ok(rlx_plan_verify(plan));
            assert_slots_fit(plan);
            assert_texts_can_be_made(plan);
            uint64_t bytes = rlx_plan_arena_bytes(plan);
            if (bytes < huge[i].least || (!apart && bytes > huge[i].most + slack)) {
                fail_msg("%s: %" PRIu64 " bytes planned", huge[i].what, bytes);
            }
            rlx_plan_destroy(plan);
        }
    }
}

static void work_that_64_bits_cannot_count_does_not_wrap(void **state) {
    rlx_plan *plan = NULL;
    uint64_t flops = 0;
    (void)state;
    assert_ok(plan_of("input a : f32[16777216, 16777216]\ninput b : f32[16777216, 16777216]\n"
                      "y = matmul(a, b)\noutput y\n",
                      NULL, &plan));
    for (uint32_t s = 0; s < rlx_plan_step_count(plan); s++) {
        rlx_step_info step;
        assert_ok(rlx_plan_step_at(plan, s, &step));
        if (step.flops > flops) flops = step.flops;
    }
    assert_true(flops >= INT64_MAX);
    rlx_plan_destroy(plan);
}

#define T62 "4611686018427387904"
#define T61 "2305843009213693952"
#define MAX "9223372036854775807"

/* Each is one step too large somewhere: a dim, a product, bytes, a sum of slots. */
static const char *const too_large[] = {
    "input x : u8[9223372036854775808]\noutput x\n",
    "input x : f32[" MAX "]\ny = exp(x)\noutput y\n",
    "input x : f32[" T62 "]\ny = exp(x)\noutput y\n",
    "input x : u8[4294967296, 4294967296]\ny = abs(x)\noutput y\n",
    "input x : u8[4294967296, 1]\ninput z : u8[4294967296]\ny = add(x, z)\noutput y\n",
    "input x : u8[" T62 "]\ny = concat(x, x) axis=0\noutput y\n",
    "input x : u8[1]\ny = expand(x) shape=[" MAX ", 2]\noutput y\n",
    "input x : u8[" T62 "]\ny = tile(x) shape=[4]\noutput y\n",
    "input x : u8[4]\ny = pad(x) pads=[" MAX ", " MAX "]\noutput y\n",
    "input x : u8[" T61 "]\ny = cast(x) to=f64\noutput y\n",
    "input x : u8[" T61 "]\nn, c = nonzero(x)\noutput n\n",
    "input a : f32[2147483648, 1]\ninput b : f32[1, 4294967296]\ny = matmul(a, b)\noutput y\n",
    "input a : f32[1, 4, 1]\nparam w : f32[4, 4, 1] = seeded(1, 1)\n"
    "y = conv(a, w) pads=[" MAX ", " MAX "]\noutput y\n",
    "state a : u8[" MAX "]\nstate b : u8[" MAX "]\nstate c : u8[" MAX "]\ninput r : u8[1]\n"
    "input p : i64[]\n"
    "x, n = state_write(a, r, p)\ny, m = state_write(b, r, p)\nz, o = state_write(c, r, p)\n"
    "output n\noutput m\noutput o\n",
    "input x : f8e5m2[" MAX "]\na = reduce_max(x) axes=[0]\nb = softmax(x) axis=0\noutput b\n",
    "param w : f32[" T62 "] = seeded(1, 1)\ninput x : f32[1]\ny = add(x, w)\noutput y\n",
    "input x : u8[1152921504606846976]\nv, i = top_k(x) k=1152921504606846976 axis=0\n"
    "output v\noutput i\n",
    "param w : q4_0[4294967296, 4294967296]\ninput x : f32[1, 4294967296]\n"
    "y = matmul(x, w) transpose_b=true\noutput y\n",
};

static void sizes_past_64_bits_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof too_large / sizeof *too_large; i++) {
        rlx_plan *plan = NULL;
        rlx_status status = plan_of(too_large[i], NULL, &plan);
        if (status == RLX_OK) fail_msg("planned: %s", too_large[i]);
        if (status == RLX_INTERNAL || status == RLX_INVALID_PLAN || status == RLX_OUT_OF_MEMORY) {
            fail_msg("not refused but failed: %s%s", too_large[i], rlx_last_error());
        }
        assert_null(plan);
    }
}

/* Slots that fit one by one, and whose sum is past 2^64 when each has memory of its own. */
static void a_sum_of_slots_past_64_bits_is_refused(void **state) {
    char text[1024] = "input v0 : i8[" T62 "]\n";
    (void)state;
    for (int i = 1; i <= 8; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "v%d = cumsum(v%d) axis=0\noutput v%d\n", i,
                 i - 1, i);
    }
    rlx_plan *plan = NULL;
    rlx_status status = plan_of(text, NULL, &plan);
    assert_status(RLX_OUT_OF_BOUNDS, status);
    assert_error_has("more than 2^64 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_2_to_the_40_elements_are_planned),
        cmocka_unit_test(work_that_64_bits_cannot_count_does_not_wrap),
        cmocka_unit_test(sizes_past_64_bits_are_refused),
        cmocka_unit_test(a_sum_of_slots_past_64_bits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
