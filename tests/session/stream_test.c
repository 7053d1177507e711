/* SPDX-License-Identifier: Apache-2.0 */
/* Weights under a budget: results have the bits of the resident run for every model and every
 * budget, and the split is what docs/streaming.md says.
 *
 *     test_session_stream [FIRST COUNT]     other seeds, to look for more
 */
#include "plan/plan.h"
#include "session/stream_model.h"
#include "session/subject.h"

#include <stdio.h>
#include <stdlib.h>

static rlx_test_folder folder;
static rlx_device *device;
static uint64_t first_seed = 1, seed_count = 60;

/* The smallest budget that the program takes, and the bytes of its weights. */
static uint64_t least_budget(const char *path, uint64_t *out_weights) {
    rlx_plan *plan = NULL;
    uint64_t least = 0;
    assert_ok(rlx_program_read_plan(NULL, path, &plan));
    *out_weights = rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS);
    if (*out_weights != 0) {
        rlx_status status = rlx_plan_stream_weights(plan, 0);
        if (status == RLX_DOES_NOT_FIT) least = rlx_last_error_detail()->bytes;
    }
    rlx_plan_destroy(plan);
    return least;
}

/* A budget too small by a byte is refused with both numbers. */
static void refuse_less(const char *path, uint64_t least) {
    rlx_program_options options = {.size = sizeof options, .weights_budget = least - 1};
    rlx_program *program = NULL;
    char number[64];
    assert_status(RLX_DOES_NOT_FIT, rlx_program_load(device, path, &options, &program));
    snprintf(number, sizeof number, "budget of %llu bytes", (unsigned long long)least - 1);
    assert_error_has(number);
    snprintf(number, sizeof number, "has %llu", (unsigned long long)least);
    assert_error_has(number);
}

static bool agrees(subject *self, const outcome *expected, uint64_t budget, bool poison) {
    const char *path = rlx_test_path(&folder, "program");
    manner how = {
        .device = device, .through_file = path, .weights_budget = budget, .poison = poison};
    outcome actual;
    char what[64];
    snprintf(what, sizeof what, "resident and a budget of %llu", (unsigned long long)budget);
    subject_run(self, &how, &actual);
    bool is_good = outcomes_equal(self, expected, &actual, what);
    if (!is_good) print_error("%s: %s\n", self->name, actual.text);
    outcome_free(&actual);
    return is_good;
}

static bool check_budgets(subject *self, rlx_test_random *random, uint32_t random_budgets) {
    const char *path = rlx_test_path(&folder, "program");
    manner how = {.device = device, .through_file = path};
    outcome expected;
    uint64_t weights = 0;
    subject_run(self, &how, &expected);
    assert_int_equal(expected.status, RLX_OK);
    uint64_t least = least_budget(path, &weights);
    bool is_good = true;
    if (least > 1 && least <= weights) {
        refuse_less(path, least);
        is_good = agrees(self, &expected, least, true) &&
                  agrees(self, &expected, least + (weights - least) / 2, false);
        for (uint32_t i = 0; i < random_budgets && is_good; i++) {
            uint64_t budget = least + rlx_test_below(random, weights - least + 4096);
            is_good = agrees(self, &expected, budget, (i & 1) != 0);
        }
    }
    outcome_free(&expected);
    return is_good;
}

static void random_models_give_the_same_bits_under_random_budgets(void **state) {
    unsigned bad = 0;
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seed_count && bad < 3; seed++) {
        char name[32], *text = stream_model(seed);
        rlx_test_random random = rlx_test_seed(seed ^ 0xb00b5);
        subject self;
        snprintf(name, sizeof name, "stream %u", (unsigned)seed);
        subject_open_text(&self, name, text);
        if (!check_budgets(&self, &random, 3)) {
            fprintf(stderr, "%s\n", text); /* longer than cmocka prints */
            bad++;
        }
        subject_close(&self);
        free(text);
    }
    assert_int_equal(bad, 0);
}

static void visit_graph(subject *self, void *user) {
    rlx_test_random random = rlx_test_seed(7);
    unsigned *bad = user;
    *bad += !check_budgets(self, &random, 2);
}

static void every_graph_gives_the_same_bits_under_a_budget(void **state) {
    unsigned bad = 0;
    (void)state;
    subject_for_each_graph(visit_graph, &bad);
    assert_int_equal(bad, 0);
}

/* Layers of one matrix [width][width] and a bias; `again` layers at the end use the first ones'
 * weights again. No weight is ever read: these models are only planned. */
static rlx_plan *plan_layers(unsigned layers, unsigned width, unsigned again) {
    size_t room = 4096 + (size_t)(layers + again) * 512, at = 0;
    char *text = malloc(room);
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    assert_non_null(text);
    at += (size_t)sprintf(text + at, "rlx 1\ninput x0 : f32[2, %u]\n", width);
    for (unsigned i = 0; i < layers; i++) {
        at += (size_t)sprintf(text + at,
                              "param w%u : f32[%u, %u] = seeded(%u, 1)\n"
                              "param b%u : f32[%u] = seeded(%u, 1)\n",
                              i, width, width, i, i, width, i);
    }
    for (unsigned i = 0; i < layers + again; i++) {
        at += (size_t)sprintf(text + at, "m%u = matmul(x%u, w%u)\nx%u = add(m%u, b%u)\n", i, i,
                              i % layers, i + 1, i, i % layers);
    }
    sprintf(text + at, "output x%u\n", layers + again);
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_session_plan(session, "cpu:scalar", 1, NULL, &plan));
    rlx_session_destroy(session);
    free(text);
    return plan;
}

static rlx_stream_info split(rlx_plan *plan, uint64_t budget) {
    rlx_stream_info info;
    assert_ok(rlx_plan_stream_weights(plan, budget));
    assert_ok(rlx_plan_verify(plan));
    assert_ok(rlx_plan_stream_info(plan, &info));
    assert_true(info.resident_bytes + info.tiles_bytes <= budget);
    assert_int_equal(info.resident_bytes, rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS));
    assert_int_equal(info.tiles_bytes, rlx_plan_segment_bytes(plan, RLX_SEGMENT_TILES));
    return info;
}

static void small_tensors_are_read_together(void **state) {
    rlx_plan *plan = plan_layers(256, 256, 0); /* 256 KiB each, 64 MiB */
    rlx_stream_info info = split(plan, UINT64_C(32) << 20);
    rlx_stream_entry_info entry;
    (void)state;
    assert_ok(rlx_plan_stream_entry(plan, 0, &entry));
    assert_true(entry.read_bytes >= info.weights_bytes - info.resident_bytes);
    assert_int_equal(entry.read_count, info.tile_count);
    assert_int_equal(entry.loop_bytes, 0);
    for (uint32_t i = 0; i + 1 < info.tile_count; i++) {
        rlx_tile_info tile;
        assert_ok(rlx_plan_tile_at(plan, i, &tile));
        assert_true(tile.bytes >= UINT64_C(4) << 20);
        assert_true(tile.read_step < tile.wait_step && tile.wait_step < tile.last_step);
        assert_int_equal(tile.offset % 4096, 0);
    }
    rlx_plan_destroy(plan);
}

/* More tiles than two are wanted only where a quarter of the budget is more. */
static void as_many_layers_as_fit_stay_resident(void **state) {
    const uint64_t layer = (UINT64_C(4) << 20) + 4096;
    (void)state;
    for (unsigned fit = 2; fit <= 7; fit++) {
        rlx_plan *plan = plan_layers(16, 1024, 0);
        rlx_stream_info info = split(plan, fit * (layer + (128 << 10)));
        /* Two layers of tiles, and the rest resident, in whole pages of the file. */
        assert_true(info.tiles_bytes >= 2 * layer);
        assert_true(info.resident_bytes >= (fit - 2) * layer);
        rlx_weight_info first, last;
        assert_ok(rlx_plan_weight_at(plan, 0, &first));
        assert_ok(rlx_plan_weight_at(plan, info.weight_count - 1, &last));
        assert_int_equal(first.read_count, fit > 2 ? 0 : 1);
        assert_int_equal(last.read_count, 1);
        rlx_plan_destroy(plan);
    }
}

static void the_next_tile_is_read_while_one_is_used(void **state) {
    rlx_plan *plan = plan_layers(16, 1024, 0);
    rlx_stream_info info = split(plan, UINT64_C(17) << 20);
    rlx_tile_info before, tile;
    (void)state;
    assert_ok(rlx_plan_tile_at(plan, 0, &before));
    assert_int_equal(before.read_step, 0); /* with the first step of the run */
    for (uint32_t i = 1; i < info.tile_count; i++) {
        assert_ok(rlx_plan_tile_at(plan, i, &tile));
        assert_true(tile.read_step < before.last_step);
        before = tile;
    }
    rlx_plan_destroy(plan);
}

static void a_tensor_used_twice_is_pinned_or_read_twice(void **state) {
    rlx_plan *roomy = plan_layers(16, 1024, 2), *tight = plan_layers(16, 1024, 2);
    rlx_weight_info weight;
    (void)state;
    split(roomy, UINT64_C(24) << 20);
    assert_ok(rlx_plan_weight_at(roomy, 0, &weight));
    assert_string_equal(weight.name, "w0");
    assert_int_equal(weight.use_count, 2);
    assert_int_equal(weight.read_count, 0);
    assert_true(weight.is_pinned);
    split(tight, UINT64_C(9) << 20);
    assert_ok(rlx_plan_weight_at(tight, 0, &weight));
    assert_int_equal(weight.read_count, 2);
    assert_false(weight.is_pinned);
    assert_status(RLX_NOT_FOUND, rlx_plan_weight_at(tight, 999, &weight));
    rlx_plan_destroy(tight);
    rlx_plan_destroy(roomy);
}

static void a_budget_for_all_changes_nothing(void **state) {
    rlx_plan *plan = plan_layers(4, 64, 0), *same = plan_layers(4, 64, 0);
    char *before = NULL, *after = NULL;
    rlx_stream_info info;
    (void)state;
    assert_ok(rlx_plan_stream_weights(plan, rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS)));
    assert_ok(rlx_plan_stream_info(plan, &info));
    assert_int_equal(info.budget_bytes, 0);
    assert_int_equal(info.resident_bytes, info.weights_bytes);
    assert_ok(rlx_plan_print(plan, &after));
    assert_ok(rlx_plan_print(same, &before));
    assert_string_equal(before, after);
    rlx_string_free(NULL, before);
    rlx_string_free(NULL, after);
    rlx_plan_destroy(same);
    rlx_plan_destroy(plan);
}

static void a_plan_is_split_once_and_not_saved(void **state) {
    rlx_plan *plan = plan_layers(4, 64, 0);
    rlx_program *program = NULL;
    (void)state;
    split(plan, 40000);
    assert_status(RLX_INVALID_ARGUMENT, rlx_plan_stream_weights(plan, 40000));
    assert_error_has("split already, for 40000 bytes");
    assert_status(RLX_UNSUPPORTED, rlx_program_create(device, plan, NULL, &program));
    assert_error_has("needs a saved program");
    rlx_plan_destroy(plan);
    assert_status(RLX_INVALID_ARGUMENT, rlx_plan_stream_weights(NULL, 1));
}

/* What a hostile or broken split could do, and what the verifier says to it. */
static rlx_plan_buffer *tile_buffer(rlx_plan *plan, uint32_t tile) {
    return &plan->buffers.items[plan->slots.items[plan->stream.tiles.items[tile].slot].buffer];
}

static void use_early(rlx_plan *plan) { /* the wait comes after the kernel */
    uint32_t wait = plan->stream.tiles.items[1].wait_step;
    rlx_plan_step step = plan->steps.items[wait];
    plan->steps.items[wait] = plan->steps.items[wait + 1];
    plan->steps.items[wait + 1] = step;
    plan->stream.tiles.items[1].wait_step = wait + 1;
    plan->stretches.items[1].first_step = wait;
}

static void read_over_a_live_tile(rlx_plan *plan) {
    tile_buffer(plan, 1)->offset = tile_buffer(plan, 0)->offset;
    tile_buffer(plan, 1)->first_step = plan->stream.tiles.items[1].read_step;
}

static void read_past_the_file(rlx_plan *plan) {
    plan->stream.tiles.items[0].source_offset = plan->stream.source_bytes;
}

static void forget_the_wait(rlx_plan *plan) {
    plan->steps.items[plan->stream.tiles.items[0].wait_step].target = 1;
}

static void live_from_before_the_read(rlx_plan *plan) {
    tile_buffer(plan, 1)->first_step--;
}

static void share_a_buffer(rlx_plan *plan) {
    plan->stream.tiles.items[1].slot = plan->stream.tiles.items[0].slot;
}

static void write_into_a_tile(rlx_plan *plan) {
    rlx_plan_step *step = &plan->steps.items[plan->stream.tiles.items[0].wait_step + 1];
    uint32_t *operands = &plan->operands.items[step->operands_at];
    plan->slots.items[operands[step->input_count]].buffer =
        plan->slots.items[plan->stream.tiles.items[1].slot].buffer;
}

static void claim_more_than_is_mapped(rlx_plan *plan) {
    plan->segment_bytes[RLX_SEGMENT_WEIGHTS] += 64;
}

static void the_verifier_refuses_a_broken_split(void **state) {
    static const struct {
        void (*breaks)(rlx_plan *plan);
        const char *says;
    } rows[] = {{use_early, "is there after step"},
                {read_over_a_live_tile, "overlap in segment 4"},
                {read_past_the_file, "> weights"},
                {forget_the_wait, "neither the read"},
                {live_from_before_the_read, "its buffer lives"},
                {share_a_buffer, "tile 1"},
                {write_into_a_tile, "must not write"},
                {claim_more_than_is_mapped, "resident pieces of"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rlx_plan *plan = plan_layers(6, 64, 0);
        split(plan, 60000);
        assert_true(plan->stream.tiles.count >= 3);
        rows[i].breaks(plan);
        assert_status(RLX_INVALID_PLAN, rlx_plan_verify(plan));
        assert_error_has(rows[i].says);
        rlx_plan_destroy(plan);
    }
}

static rlx_status split_with(const rlx_allocator *allocator, void *argument) {
    const char *path = argument;
    rlx_plan *plan = NULL;
    rlx_status status = rlx_program_read_plan(allocator, path, &plan);
    if (status == RLX_OK) status = rlx_plan_stream_weights(plan, 70000);
    rlx_plan_destroy(plan);
    return status;
}

static rlx_status run_with(const rlx_allocator *allocator, void *argument) {
    rlx_program_options options = {
        .size = sizeof options, .allocator = allocator, .weights_budget = 70000};
    rlx_exec_options exec_options = {.size = sizeof exec_options, .allocator = allocator};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL, *twin = NULL;
    rlx_status status = rlx_program_load(device, argument, &options, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, &exec_options, &exec);
    if (status == RLX_OK) status = rlx_exec_clone(exec, 0, &twin);
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    return status;
}

static void every_allocation_may_fail(void **state) {
    char *text = stream_model(3);
    const char *path = rlx_test_path(&folder, "failing");
    subject self;
    outcome out;
    manner how = {.device = device, .through_file = path};
    (void)state;
    subject_open_text(&self, "failing", text);
    subject_run(&self, &how, &out);
    assert_true(rlx_test_every_allocation_fails(split_with, (void *)(uintptr_t)path) > 10);
    assert_true(rlx_test_every_allocation_fails(run_with, (void *)(uintptr_t)path) > 20);
    outcome_free(&out);
    subject_close(&self);
    free(text);
}

static int set_up(void **state) {
    (void)state;
    device = subject_device("cpu", 2);
    rlx_test_folder_create(&folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rlx_test_folder_remove(&folder);
    rlx_device_release(device);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models_give_the_same_bits_under_random_budgets),
        cmocka_unit_test(every_graph_gives_the_same_bits_under_a_budget),
        cmocka_unit_test(small_tensors_are_read_together),
        cmocka_unit_test(as_many_layers_as_fit_stay_resident),
        cmocka_unit_test(the_next_tile_is_read_while_one_is_used),
        cmocka_unit_test(a_tensor_used_twice_is_pinned_or_read_twice),
        cmocka_unit_test(a_budget_for_all_changes_nothing),
        cmocka_unit_test(a_plan_is_split_once_and_not_saved),
        cmocka_unit_test(the_verifier_refuses_a_broken_split),
        cmocka_unit_test(every_allocation_may_fail),
    };
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
