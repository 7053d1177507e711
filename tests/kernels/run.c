/* SPDX-License-Identifier: Apache-2.0 */
/* Every instruction-set level against scalar C.
 *
 *     test_kernels [--bench] [FAMILY..]   the seeded cases of the families; --bench times kernels
 *     test_kernels --graphs COUNT         random graphs
 *     test_kernels --cases FOLDER         the op cases below a folder
 *     test_kernels --values special|tiny ..  the same with infinities, NaN and subnormal numbers in
 * the inputs; or with subnormal ones alone test_kernels --extents STEP ..      every STEP-th of
 * what the rest of the line names, with sizes that only a run knows
 */
#include "base/cpu.h"
#include "ir/dtype.h"
#include "kernels/extents.h"
#include "kernels/families.h"
#include "kernels/levels.h"
#include "ops/case.h"
#include "support/agree.h"
#include "support/random_graph.h"
#include "support/support.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Every node on every level. */
static void check_once(kernel_checker *checker, const rlx_graph *graph,
                       const rlx_test_array *inputs, uint32_t input_count) {
    rlx_test_array *outputs = calloc(graph->outputs.count + 1u, sizeof *outputs);
    rlx_test_oracle *oracle = NULL;
    rlx_status status = rlx_test_oracle_create(graph, inputs, input_count, &oracle);
    if (status == RLX_OK) {
        rlx_test_oracle_watch(oracle, kernel_check, checker);
        status = rlx_test_oracle_run(oracle, inputs, input_count, outputs);
    }
    rlx_test_oracle_destroy(oracle);
    rlx_test_inputs_free(outputs, graph->outputs.count);
    if (status == RLX_OK || status == RLX_FAULT) return;
    fprintf(stderr, "%s: %s\n", checker->where, rlx_last_error());
    checker->failed++;
}

/* Every run of a graph with extents. */
static void check_sizes(void *user, const extents_graph *made) {
    kernel_checker *checker = user;
    const char *where = checker->where;
    char text[1024];
    for (uint32_t run = 0; run < made->run_count; run++) {
        rlx_test_array *inputs = extents_inputs(made, run);
        int at = snprintf(text, sizeof text, "%.800s, sizes", where);
        for (uint32_t i = 0; i < made->size_count; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, " %" PRId64, made->sizes[run][i]);
        checker->where = text;
        checker->extents_runs++;
        check_once(checker, made->graph, inputs, made->input_count + made->size_count);
        free(inputs);
    }
    checker->where = where;
}

static void check_graph(kernel_checker *checker, const rlx_graph *graph,
                        const rlx_test_array *inputs, uint32_t input_count) {
    extents_visitor visitor = {check_sizes, checker};
    if (checker->extents_step == 0) {
        check_once(checker, graph, inputs, input_count);
    } else if (checker->graphs++ % checker->extents_step == 0) {
        extents_for_each(&visitor, graph, inputs, input_count);
    }
}

/* Channels of blocks past the last, which compiled graphs keep finite: of x, and of the residual.
 */
static void settle_rest(rlx_test_array *array, int64_t channels, int64_t block) {
    const int64_t *dims = array->shape.dims;
    int64_t places = dims[2] * dims[3] * block, all = dims[0] * dims[1] * places;
    for (int64_t i = 0; i < all; i++) {
        int64_t channel = i / places % dims[1] * block + i % block;
        if (channel >= channels) rlx_store_f64(array->dtype, array->data, i, 0);
    }
}

/* Kernels for blocks that are depthwise or have few outputs leave padding out, which times infinity
 * is NaN in scalar C. */
static void settle_weights(rlx_test_array *array) {
    int64_t all = 1;
    for (uint32_t i = 0; i < array->shape.rank; i++)
        all *= array->shape.dims[i];
    for (int64_t i = 0; i < all; i++) {
        double weight = rlx_load_f64(array->dtype, array->data, i);
        if (!isfinite(weight)) rlx_store_f64(array->dtype, array->data, i, 1);
    }
}

static void settle_blocks(const rlx_graph *graph, rlx_test_array *inputs, uint32_t count) {
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        if (node->op != RLX_OP_CONV) continue;
        const rlx_conv_attrs *attrs = node->attrs;
        const int64_t *w = graph->values.items[node->inputs[1]].type.shape.dims;
        int64_t block = attrs->channel_block, in = w[1] * (attrs->groups == 0 ? 1 : attrs->groups);
        for (uint32_t i = 0; i < count && block != 0; i++) {
            const rlx_shape *shape = &inputs[i].shape;
            bool is_thin = attrs->groups > 1 ? w[1] == 1 : 2 * w[0] < block;
            if (shape->rank == 4 && is_thin) settle_weights(&inputs[i]);
            if (shape->rank != 5 || shape->dims[4] != block) continue;
            if ((in + block - 1) / block == shape->dims[1]) settle_rest(&inputs[i], in, block);
            if ((w[0] + block - 1) / block == shape->dims[1]) settle_rest(&inputs[i], w[0], block);
        }
    }
}

static void check_seeded(kernel_checker *checker, const rlx_graph *graph, uint64_t seed) {
    uint32_t count;
    rlx_test_array *inputs = rlx_test_inputs(graph, seed, &count);
    if (checker->values == VALUES_TINY) rlx_test_make_tiny(inputs, count);
    if (checker->values == VALUES_SPECIAL && count != 0)
        rlx_test_make_special(&inputs[seed % count], seed);
    if (checker->values == VALUES_SPECIAL) settle_blocks(graph, inputs, count);
    check_graph(checker, graph, inputs, count);
    rlx_test_inputs_free(inputs, count);
}

static void check_text(kernel_checker *checker, const char *text, uint64_t seed) {
    rlx_graph *graph = NULL;
    if (rlx_graph_parse(NULL, text, strlen(text), &graph) != RLX_OK) {
        fprintf(stderr, "%s: %s\n%s", checker->where, rlx_last_error(), text);
        checker->failed++;
        return;
    }
    check_seeded(checker, graph, seed);
    rlx_graph_destroy(graph);
}

/* Under an emulator one case of so many. Which ones is drawn, since dtypes and the like go by the
 * remainder of a case's number. The first is always among them. */
#if !defined(KERNELS_EVERY)
#define KERNELS_EVERY 1
#endif

static bool is_drawn(uint32_t index) {
    return index == 0 || kernel_pick(index, 1000, 1, KERNELS_EVERY) == 1;
}

static void check_family(kernel_checker *checker, const kernel_family *family) {
    char where[64], text[8192];
    uint32_t before = checker->compared;
    checker->where = where;
    checker->tolerance = family->tolerance;
    for (uint32_t i = 0; checker->is_timed && family->timed[i] != NULL; i++) {
        (void)snprintf(where, sizeof where, "%s %u", family->name, i);
        check_text(checker, family->timed[i], i + 1);
    }
    for (uint32_t i = 0; !checker->is_timed && i < family->count; i++) {
        if (!is_drawn(i)) continue;
        (void)snprintf(where, sizeof where, "%s case %u", family->name, i);
        family->write(i, text, sizeof text);
        check_text(checker, text, i + 1);
    }
    if (checker->is_timed) return;
    printf("%s: %u cases, %u kernel runs compared\n", family->name, family->count,
           checker->compared - before);
    /* NEON has no kernel for bytes, and packed operands no extents. */
    if (checker->compared == before && checker->extents_step == 0 &&
        (rlx_cpu_flags() & RLX_CPU_AVX2) != 0) {
        fprintf(stderr, "%s: no level has a kernel for these cases\n", family->name);
        checker->failed++;
    }
}

static void check_random(kernel_checker *checker, uint32_t count) {
    char where[64];
    checker->where = where;
    checker->tolerance = 1e-4;
    for (uint32_t seed = 1; seed <= count; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        (void)snprintf(where, sizeof where, "random graph %u", seed);
        check_seeded(checker, graph, seed);
        rlx_graph_destroy(graph);
    }
    printf("%u random graphs, %u kernel runs compared\n", count, checker->compared);
}

static void check_case(kernel_checker *checker, const char *folder) {
    rlx_case test = {0};
    rlx_test_array inputs[RLX_CASE_MAX_ARRAYS] = {0};
    rlx_type types[RLX_CASE_MAX_ARRAYS];
    uint32_t count = 0;
    checker->where = folder;
    if (rlx_case_open(folder, &test) != RLX_OK) return;
    for (uint32_t i = 0; i < test.model->values.count && count < RLX_CASE_MAX_ARRAYS; i++) {
        if (test.model->values.items[i].kind == RLX_VALUE_INPUT)
            types[count++] = test.model->values.items[i].type;
    }
    if (rlx_case_arrays(&test, true, 0, types, count, inputs) == RLX_OK)
        check_graph(checker, test.model, inputs, count);
    rlx_case_free_arrays(inputs, count);
    rlx_case_close(&test);
}

/* Folders with a model are cases; others hold cases. */
static void check_cases(kernel_checker *checker, const char *folder, uint32_t depth) {
    char path[1024];
    struct dirent **entries = NULL;
    int count = depth < 4 ? scandir(folder, &entries, NULL, alphasort) : 0;
    checker->tolerance = 1e-4;
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (strcmp(entries[i]->d_name, "model.rlx") == 0) check_case(checker, folder);
        if (entries[i]->d_name[0] != '.' && entries[i]->d_type == DT_DIR)
            check_cases(checker, path, depth + 1);
        free(entries[i]);
    }
    free(entries);
}

static bool is_wanted(const kernel_family *family, char **names, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], family->name) == 0) return true;
    }
    return count == 0;
}

static kernel_checker checker = {.seed = 1};

/* Says which graph ended the process. */
static void on_crash(int number) {
    const char *parts[] = {checker.where != NULL ? checker.where : "?", ": the kernel crashed\n"};
    for (uint32_t i = 0; i < 2; i++)
        if (write(2, parts[i], strlen(parts[i])) < 0) break;
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

int main(int argc, char **argv) {
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    if (kernel_levels(levels) == 0) {
        printf("this machine has no level beyond scalar: nothing to compare\n");
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--values") == 0) {
        checker.values = strcmp(argv[2], "tiny") == 0 ? VALUES_TINY : VALUES_SPECIAL;
        argv += 2, argc -= 2;
    }
    (void)signal(SIGABRT, on_crash); /* the allocator's, of memory that was overwritten */
    (void)signal(SIGFPE, on_crash);
    (void)signal(SIGSEGV, on_crash);
    if (argc > 2 && strcmp(argv[1], "--extents") == 0) {
        checker.extents_step = (uint32_t)atoi(argv[2]);
        argv += 2, argc -= 2;
    }
    if (argc == 3 && strcmp(argv[1], "--graphs") == 0) {
        check_random(&checker, (uint32_t)atoi(argv[2]));
    } else if (argc == 3 && strcmp(argv[1], "--cases") == 0) {
        check_cases(&checker, argv[2], 0);
        printf("op cases: %u kernel runs compared\n", checker.compared);
    } else {
        checker.is_timed = argc > 1 && strcmp(argv[1], "--bench") == 0;
        int skip = checker.is_timed ? 2 : 1;
        for (uint32_t i = 0; kernel_families[i] != NULL; i++) {
            if (is_wanted(kernel_families[i], argv + skip, argc - skip))
                check_family(&checker, kernel_families[i]);
        }
    }
    if (checker.extents_step != 0)
        printf("%u runs with sizes of their own\n", checker.extents_runs);
    if (checker.failed != 0) fprintf(stderr, "%u differences\n", checker.failed);
    return checker.failed != 0 || (!checker.is_timed && checker.compared == 0);
}
