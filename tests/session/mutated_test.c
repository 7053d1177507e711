/* SPDX-License-Identifier: Apache-2.0 */
/* Models with something changed at random (numbers, names, lines, dtypes): each is refused with a
 * text, or compiles to a plan that runs inside its memory. Nothing ends the process.
 *
 *     test_session_mutated [FIRST COUNT]     other seeds, to look for more
 */
#include "session/random_model.h"
#include "session/subject.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t first_seed = 1, seed_count = 1500;

/* What is too large to be run here is only planned. */
enum { MOST_BYTES = 8 << 20, MOST_WORK = 20 << 20 };

typedef struct model {
    char *text;
    size_t length;
} model;

static model models[256];
static uint32_t model_count;

static void read_models(const char *folder) {
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[600];
        const char *end = strstr(entry->d_name, ".rlx");
        if (end == NULL || end[4] != 0) continue;
        snprintf(path, sizeof path, "%s/%.255s", folder, entry->d_name);
        assert_true(model_count < sizeof models / sizeof *models);
        model *one = &models[model_count++];
        one->text = rlx_test_read_file(path, &one->length);
    }
    closedir(entries);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* A random word of the text: [*first, *last). */
static void pick_word(rlx_test_random *random, const char *text, size_t length, size_t *first,
                      size_t *last) {
    *first = (size_t)rlx_test_below(random, length);
    while (*first < length && !is_word(text[*first]))
        ++*first;
    while (*first > 0 && is_word(text[*first - 1]))
        --*first;
    *last = *first;
    while (*last < length && is_word(text[*last]))
        ++*last;
}

/* `text` with [first, last) replaced; owned. */
static char *replace(const char *text, size_t first, size_t last, const char *by, size_t bytes) {
    size_t length = strlen(text);
    char *out = malloc(length - (last - first) + bytes + 1);
    assert_non_null(out);
    memcpy(out, text, first);
    memcpy(out + first, by, bytes);
    memcpy(out + first + bytes, text + last, length - last + 1);
    return out;
}

static char *change_word(rlx_test_random *random, const char *text) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "4",
                                          "5",
                                          "7",
                                          "8",
                                          "16",
                                          "-1",
                                          "-2",
                                          "-3",
                                          "31",
                                          "64",
                                          "100",
                                          "1000",
                                          "2147483648",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "0.5"};
    static const char *const dtypes[] = {"f32", "f16",  "bf16", "f64", "i8",   "i32",
                                         "i64", "bool", "u8",   "i4",  "q8_0", "f8e4m3fn"};
    size_t first, last, from, to, length = strlen(text);
    pick_word(random, text, length, &first, &last);
    for (uint32_t i = 0; i < 6 && !isdigit((unsigned char)text[first]); i++) {
        if (rlx_test_below(random, 3) == 0) break; /* numbers more often than names */
        pick_word(random, text, length, &first, &last);
    }
    bool is_number = isdigit((unsigned char)text[first]) || text[first] == '-';
    if (is_number && rlx_test_below(random, 8) != 0) {
        const char *by = numbers[rlx_test_below(random, sizeof numbers / sizeof *numbers)];
        return replace(text, first, last, by, strlen(by));
    }
    if (last - first == 3 && text[first] == 'f' && rlx_test_below(random, 2) == 0) {
        const char *by = dtypes[rlx_test_below(random, sizeof dtypes / sizeof *dtypes)];
        return replace(text, first, last, by, strlen(by));
    }
    pick_word(random, text, length, &from, &to); /* another word of the same text */
    return replace(text, first, last, text + from, to - from);
}

static char *change_op(rlx_test_random *random, const char *text) {
    const char *name = rlx_op_name((rlx_op)(1 + rlx_test_below(random, RLX_OP_COUNT - 1)));
    size_t at = (size_t)rlx_test_below(random, strlen(text));
    const char *paren = strchr(text + at, '(');
    if (paren == NULL || paren == text) return change_word(random, text);
    size_t last = (size_t)(paren - text), first = last;
    while (first > 0 && is_word(text[first - 1]))
        first--;
    return replace(text, first, last, name, strlen(name));
}

/* Leaves a line out, or says it twice. */
static char *change_line(rlx_test_random *random, const char *text) {
    size_t first = (size_t)rlx_test_below(random, strlen(text)), last;
    while (first > 0 && text[first - 1] != '\n')
        first--;
    last = first + strcspn(text + first, "\n");
    if (text[last] != 0) last++;
    if (rlx_test_below(random, 2) == 0) return replace(text, first, last, "", 0);
    return replace(text, first, first, text + first, last - first);
}

static char *mutate(rlx_test_random *random, const char *from) {
    char *text = replace(from, 0, 0, "", 0);
    for (uint64_t i = 1 + rlx_test_below(random, 3); i > 0; i--) {
        uint64_t kind = rlx_test_below(random, 8);
        char *next = kind == 0   ? change_line(random, text)
                     : kind == 1 ? change_op(random, text)
                                 : change_word(random, text);
        free(text);
        text = next;
    }
    return text;
}

static bool is_small(const rlx_plan *plan) {
    uint64_t work = 0;
    uint64_t source = rlx_plan_segment_bytes(plan, RLX_SEGMENT_SOURCE);
    if (rlx_plan_arena_bytes(plan) > MOST_BYTES || source > MOST_BYTES) return false;
    for (uint32_t i = 0; i < rlx_plan_step_count(plan); i++) {
        rlx_step_info info;
        assert_ok(rlx_plan_step_at(plan, i, &info));
        if (info.flops > MOST_WORK || info.bytes > MOST_WORK) return false;
        work += info.flops + info.bytes;
    }
    return work <= MOST_WORK;
}

/* A loop may go on for 2^62 iterations: that is what the model says. */
static bool goes_on(void *user, const rlx_progress *progress) {
    uint32_t *left = user;
    (void)progress;
    return *left != 0 && --*left != 0;
}

/* Sets every input to seeded bytes of small value and runs twice; faults are fine. */
static void run(rlx_program *program, rlx_test_random *random, uint32_t *runs) {
    static unsigned char bytes[MOST_BYTES];
    uint32_t left = 0;
    rlx_exec_options options = {
        .size = sizeof options, .poison = true, .progress = goes_on, .user = &left};
    rlx_entry_info entry;
    rlx_exec *exec = NULL;
    assert_ok(rlx_plan_entry_at(rlx_program_plan(program), 0, &entry));
    assert_ok(rlx_exec_create(program, &options, &exec));
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < entry.input_count; i++) {
            rlx_port_info port;
            assert_ok(rlx_program_input(program, 0, i, &port));
            for (uint64_t k = 0; k < port.bytes; k++)
                bytes[k] = k % 4 == 0 ? (unsigned char)rlx_test_below(random, 5) : 0;
            assert_ok(rlx_exec_set_input(exec, 0, i, bytes, port.bytes));
        }
        left = 5000;
        rlx_status status = rlx_exec_run(exec, 0);
        if (status != RLX_FAULT && status != RLX_CANCELLED) assert_ok(status);
        *runs += status == RLX_OK;
        for (uint32_t i = 0; i < entry.output_count && status == RLX_OK; i++) {
            rlx_output_info info;
            assert_ok(rlx_exec_output(exec, 0, i, &info));
            assert_true(info.bytes <= sizeof bytes);
            assert_ok(rlx_exec_read_output(exec, 0, i, bytes, sizeof bytes, NULL));
        }
    }
    rlx_exec_destroy(exec);
}

typedef struct tally {
    rlx_device *device;
    uint32_t parsed, planned, made, runs;
} tally;

static rlx_status bind_all(const rlx_graph *graph, rlx_test_random *random,
                           rlx_binding *out_bindings, uint32_t *out_count) {
    *out_count = rlx_graph_symbol_count(graph);
    if (*out_count > SUBJECT_SYMBOLS) return RLX_FAIL(RLX_UNSUPPORTED, "many symbols");
    for (uint32_t i = 0; i < *out_count; i++) {
        out_bindings[i] =
            (rlx_binding){rlx_graph_symbol_name(graph, i), (int64_t)rlx_test_below(random, 6)};
    }
    return RLX_OK;
}

static rlx_status try_model(tally *all, rlx_graph *graph, rlx_test_random *random) {
    rlx_binding bindings[SUBJECT_SYMBOLS];
    rlx_entry_spec entry = {.bindings = bindings};
    rlx_compile_options options = {
        .size = sizeof options,
        .entries = &entry,
        .entry_count = 1,
        .disabled_passes =
            rlx_test_below(random, 2) == 0 ? 0 : rlx_test_next(random) & subject_all_passes()};
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    rlx_program *program = NULL;
    rlx_status status = bind_all(graph, random, bindings, &entry.binding_count);
    if (status == RLX_OK) status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    status = rlx_session_plan(session, "cpu", 2, &options, &plan);
    all->planned += status == RLX_OK;
    if (status == RLX_OK && is_small(plan)) {
        status = rlx_session_compile(session, all->device, &options, NULL, &program);
        all->made += status == RLX_OK;
        if (status == RLX_OK) run(program, random, &all->runs);
    }
    rlx_program_release(program);
    rlx_plan_destroy(plan);
    rlx_session_destroy(session);
    return status;
}

static void check_one(tally *all, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed ^ 0x3017A7ED);
    char *base = NULL;
    uint64_t which = rlx_test_below(&random, model_count + 8);
    if (which >= model_count) base = random_model(seed);
    char *text = mutate(&random, base != NULL ? base : models[which].text);
    rlx_graph *graph = NULL;
    rlx_status status = rlx_graph_parse(NULL, text, strlen(text), &graph);
    if (status == RLX_OK) {
        all->parsed++;
        status = try_model(all, graph, &random);
    }
    /* Our own mistakes have names of their own. */
    bool is_ours = status == RLX_INTERNAL || status == RLX_INVALID_PLAN;
    if (is_ours || (status != RLX_OK && rlx_last_error()[0] == 0)) {
        fprintf(stderr, "seed %u: %s\n%s\n", (unsigned)seed, rlx_last_error(), text);
        fail();
    }
    free(base);
    free(text);
}

static void changed_models_are_refused_or_run(void **state) {
    tally all = {.device = subject_device("cpu", 2)};
    (void)state;
    read_models("graphs");
    read_models("../golden/canonicalise");
    read_models("../golden/fuse_attention");
    read_models("../golden/fuse_batch_norm");
    read_models("../golden/fuse_chain");
    read_models("../golden/fuse_epilogue");
    read_models("../golden/fuse_norm");
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++)
        check_one(&all, seed);
    print_message("%u models: %u parsed, %u planned, %u programs, %u good runs\n",
                  (unsigned)seed_count, all.parsed, all.planned, all.made, all.runs);
    if (seed_count >= 1000) assert_true(all.runs > seed_count / 8); /* else this says little */
    for (uint32_t i = 0; i < model_count; i++)
        free(models[i].text);
    rlx_device_release(all.device);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(changed_models_are_refused_or_run)};
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
