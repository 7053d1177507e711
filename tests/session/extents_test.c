/* SPDX-License-Identifier: Apache-2.0 */
/* Every test graph, and some of each family of kernels, with sizes that only a run knows, 0 and 1
 * among them: compiled, on one and three threads and on scalar C, against the oracle.
 *
 *     test_session_extents [SEEDS]     so many random models too
 */
#include "kernels/extents.h"
#include "kernels/families.h"
#include "session/random_model.h"
#include "session/subject.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEVICES = 3, MOST_RUNS = SUBJECT_RUNS, FAMILY_STEP = 40 * RLX_TEST_SHARE };
static rlx_device *devices[DEVICES];
static uint64_t seeds = 200 / RLX_TEST_SHARE;
static uint32_t graphs, bad;

/* The graph as a subject whose runs have these sizes; a fault ends them, so the smallest, which may
 * make indices wrong, come last. */
static void open_made(subject *self, const subject *from, const extents_graph *made) {
    uint32_t step = (made->run_count + MOST_RUNS - 1) / MOST_RUNS;
    rlx_graph *copy = NULL;
    *self = *from;
    self->graph = NULL;
    assert_ok(rlx_graph_clone(made->graph, NULL, &self->graph));
    assert_ok(rlx_graph_clone(made->graph, NULL, &copy));
    assert_ok(rlx_session_create(NULL, copy, &self->session));
    self->input_count = made->input_count + made->size_count;
    self->run_count = 0;
    for (uint32_t run = 0; run < made->run_count; run += step) {
        rlx_test_array *inputs = extents_inputs(made, run);
        assert_non_null(inputs);
        memcpy(self->inputs[self->run_count++], inputs, self->input_count * sizeof *inputs);
        free(inputs);
    }
}

static void close_made(subject *self) {
    rlx_session_destroy(self->session); /* inputs are others' */
    rlx_graph_destroy(self->graph);
}

static bool check_made(subject *self) {
    outcome expected, first = {0}, other;
    subject_run_oracle(self, &expected);
    bool is_good = true;
    for (uint32_t i = 0; i < DEVICES; i++) {
        manner how = {.device = devices[i], .poison = i != 0};
        subject_run(self, &how, &other);
        is_good = outcomes_close(self, &expected, &other, "oracle and device") && is_good;
        if (i == 1) is_good = outcomes_equal(self, &first, &other, "1 and 3 threads") && is_good;
        if (i == 0) {
            first = other;
        } else {
            outcome_free(&other);
        }
    }
    outcome_free(&first);
    outcome_free(&expected);
    return is_good;
}

static void visit_made(void *user, const extents_graph *made) {
    subject *self = calloc(1, sizeof *self);
    assert_non_null(self);
    if (made->input_count + made->size_count <= SUBJECT_ARRAYS) {
        open_made(self, user, made);
        graphs++;
        if (!check_made(self)) {
            bad++;
            for (uint32_t i = 0; i < made->size_count; i++)
                fprintf(stderr, "  last size %u is %d\n", i,
                        (int)made->sizes[made->run_count - 1][i]);
            fprintf(stderr, "  %s: %u runs\n", self->name, self->run_count);
        }
        close_made(self);
    }
    free(self);
}

static void visit(subject *self, void *user) {
    extents_visitor visitor = {visit_made, self};
    (void)user;
    if (self->graph == NULL || self->run_count == 0) return;
    extents_for_each(&visitor, self->graph, self->inputs[0], self->input_count);
}

static void open_devices(void) {
    devices[0] = subject_device("cpu", 1);
    devices[1] = subject_device("cpu", 3);
    devices[2] = subject_device("cpu:scalar", 2);
}

static void close_devices(void) {
    for (uint32_t i = 0; i < DEVICES; i++)
        rlx_device_release(devices[i]);
    print_message("%u graphs\n", graphs);
    assert_int_equal(bad, 0);
}

static void any_sizes_of_a_run_agree_with_the_oracle(void **state) {
    (void)state;
    open_devices();
    subject_for_each(visit, NULL);
    close_devices();
}

static void visit_text(const char *name, const char *text) {
    subject self;
    subject_open_text(&self, name, text);
    visit(&self, NULL);
    subject_close(&self);
}

static void any_sizes_of_random_models_agree_with_the_oracle(void **state) {
    (void)state;
    open_devices();
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        char name[32];
        char *text = seed % 4 == 0 ? random_images(seed) : random_model(seed);
        snprintf(name, sizeof name, "random %u", (unsigned)seed);
        visit_text(name, text);
        free(text);
    }
    close_devices();
}

/* Larger than the others: there is work for three threads. */
static void any_sizes_of_each_family_agree_with_the_oracle(void **state) {
    (void)state;
    open_devices();
    for (uint32_t f = 0; kernel_families[f] != NULL; f++) {
        const kernel_family *family = kernel_families[f];
        for (uint32_t i = f % FAMILY_STEP; i < family->count; i += FAMILY_STEP) {
            char name[64], text[8192];
            snprintf(name, sizeof name, "%s case %u", family->name, i);
            family->write(i, text, sizeof text);
            visit_text(name, text);
        }
    }
    close_devices();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_sizes_of_a_run_agree_with_the_oracle),
        cmocka_unit_test(any_sizes_of_random_models_agree_with_the_oracle),
        cmocka_unit_test(any_sizes_of_each_family_agree_with_the_oracle)};
    if (argc > 1) seeds = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
