/* SPDX-License-Identifier: Apache-2.0 */
/* Passes on text: tests/golden/<pass>/<case>.rlx goes through that one pass and must print as
 * <case>.out. Each pass has cases where it applies and cases where it nearly does. With the
 * argument
 * --update the .out files are written anew, to be read before they are committed. Each case is also
 * computed before and after the pass, on the same numbers. */
#include "compile/compile.h"
#include "ir/text.h"
#include "support/agree.h"
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_update;

typedef struct golden_case {
    char in[512], out[512];
} golden_case;

typedef struct pass {
    const char *name; /* also of the folder with its cases */
    rlx_status (*run)(rlx_pass_context *context);
    uint32_t rank_count; /* of which this is the last; its part alone computes nothing to compare */
} pass;

static const pass passes[] = {
    {"canonicalise", rlx_pass_canonicalise, 0},
    {"fuse_batch_norm", rlx_pass_fuse_batch_norm, 0},
    {"split_groups", rlx_pass_split_groups, 0},
    {"split_strides", rlx_pass_split_strides, 0},
    {"fold_depth", rlx_pass_fold_depth, 0},
    {"fuse_attention", rlx_pass_fuse_attention, 0},
    {"fuse_norm", rlx_pass_fuse_norm, 0},
    {"fuse_epilogue", rlx_pass_fuse_epilogue, 0},
    {"fuse_chain", rlx_pass_fuse_chain, 0},
    {"shard", rlx_pass_shard, 2},
    {"fuse_quantised", rlx_pass_fuse_quantised, 0},
    {"hoist", rlx_pass_hoist, 0},
};

static void run_pass(rlx_graph *graph, const pass *at) {
    rlx_compile_options options = {.size = sizeof options,
                                   .rank_count = at->rank_count,
                                   .rank = at->rank_count == 0 ? 0 : at->rank_count - 1};
    rlx_entry_spec entry = {0};
    rlx_scratch scratch = {0};
    const rlx_target target = {.channel_block = 8};
    rlx_pass_context context = {
        .graph = graph, .options = &options, .entry = &entry, .scratch = &scratch};
    if (at->run == rlx_pass_fuse_quantised || at->run == rlx_pass_fold_depth ||
        at->run == rlx_pass_fuse_epilogue)
        context.target = &target;
    assert_ok(at->run(&context));
    assert_ok(rlx_graph_verify(graph));
    rlx_scratch_reset(&scratch);
}

/* Rounding in another order, in the narrowest float of the outputs. */
static double tolerance_of(const rlx_graph *graph) {
    double tolerance = 1e-5;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        rlx_dtype dtype = graph->values.items[graph->outputs.items[i].value].type.dtype;
        if (dtype == RLX_DTYPE_F16) tolerance = 4e-3;
        if (dtype == RLX_DTYPE_BF16) tolerance = 3e-2;
    }
    return tolerance;
}

static bool computes_the_same(const rlx_graph *before, const rlx_graph *after, const char *path) {
    uint32_t index;
    double difference = rlx_test_difference(before, after, 1, &index);
    bool is_same = difference <= tolerance_of(before);
    if (!is_same) print_error("%s: output %u differs by %g\n", path, index, difference);
    return is_same;
}

static char *passed_text(const char *path, const pass *at, bool *is_same) {
    static const pass bind = {"bind", rlx_pass_bind, 0};
    rlx_graph *graph = NULL, *before = NULL;
    char *text = NULL;
    char *file = rlx_test_read_file(path, NULL);
    assert_ok(rlx_graph_parse(NULL, file, strlen(file), &graph));
    run_pass(graph, &bind);
    assert_ok(rlx_graph_clone(graph, NULL, &before));
    run_pass(graph, at);
    *is_same = at->rank_count > 1 || computes_the_same(before, graph, path);
    assert_ok(rlx_graph_print_options(graph, RLX_PRINT_TYPES, &text));
    rlx_graph_destroy(graph);
    rlx_graph_destroy(before);
    free(file);
    return text;
}

static bool agrees(const golden_case *at, const pass *with) {
    bool is_same = true;
    char *text = passed_text(at->in, with, &is_same);
    if (is_update) {
        rlx_test_write_file(at->out, text, strlen(text));
    } else {
        char *expected = rlx_test_read_file(at->out, NULL);
        bool is_equal = strcmp(expected, text) == 0;
        is_same &= is_equal;
        if (!is_equal) print_error("%s: expected\n%sgot\n%s", at->in, expected, text);
        free(expected);
    }
    rlx_string_free(NULL, text);
    return is_same;
}

/* Runs every case of one folder; returns how many there are. */
static unsigned run_folder(const pass *with, bool *all_agree) {
    char path[300];
    unsigned count = 0;
    snprintf(path, sizeof path, "../golden/%s", with->name);
    DIR *folder = opendir(path);
    if (folder == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        golden_case at;
        char *end = strstr(entry->d_name, ".rlx");
        if (end == NULL || end[4] != 0) continue;
        snprintf(at.in, sizeof at.in, "%s/%.200s", path, entry->d_name);
        snprintf(at.out, sizeof at.out, "%s/%.*s.out", path, (int)(end - entry->d_name),
                 entry->d_name);
        *all_agree &= agrees(&at, with);
        count++;
    }
    closedir(folder);
    return count;
}

static void passes_print_what_is_expected(void **state) {
    bool all_agree = true;
    (void)state;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        unsigned count = run_folder(&passes[i], &all_agree);
        /* A case where it applies and three where it nearly does. */
        if (count < 4) fail_msg("%s has %u golden cases", passes[i].name, count);
    }
    assert_true(all_agree);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_print_what_is_expected)};
    is_update = argc > 1 && strcmp(argv[1], "--update") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
