/* SPDX-License-Identifier: Apache-2.0 */
/* Making subjects: from op cases, files and text. */
#include "session/subject.h"

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/source.h"
#include "ops/case.h"
#include "support/agree.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t input_types(const rlx_graph *graph, rlx_type *out_types) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        if (graph->values.items[i].kind != RLX_VALUE_INPUT) continue;
        assert_true(count < SUBJECT_ARRAYS);
        out_types[count++] = graph->values.items[i].type;
    }
    return count;
}

static int64_t *bound_size(subject *self, const char *symbol) {
    uint32_t at = 0;
    while (at < self->binding_count && strcmp(self->bindings[at].symbol, symbol) != 0)
        at++;
    if (at == self->binding_count) {
        assert_true(at < SUBJECT_SYMBOLS);
        self->bindings[self->binding_count++] = (rlx_binding){symbol, 0};
    }
    return &self->bindings[at].value;
}

/* Each symbol takes the size that an input has in its place. */
static void bind_by_inputs(subject *self, const rlx_type *types) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        for (uint32_t d = 0; d < types[i].shape.rank; d++) {
            const char *symbol = rlx_graph_dim_symbol(self->graph, types[i].shape.dims[d]);
            if (symbol != NULL) *bound_size(self, symbol) = self->inputs[0][i].shape.dims[d];
        }
    }
}

static void make_session(subject *self) {
    rlx_graph *copy = NULL;
    assert_ok(rlx_graph_clone(self->graph, NULL, &copy));
    assert_ok(rlx_session_create(NULL, copy, &self->session));
}

void subject_open_case(subject *self, const char *folder) {
    rlx_case op_case;
    rlx_type types[SUBJECT_ARRAYS];
    assert_ok(rlx_case_open(folder, &op_case));
    *self = (subject){.relative = op_case.relative,
                      .absolute = op_case.absolute,
                      .has_tolerance = op_case.has_tolerance};
    snprintf(self->name, sizeof self->name, "%s", folder);
    if (op_case.model != NULL) {
        self->graph = op_case.model; /* parameters written in the text stay its memory */
        op_case.model = NULL;
        self->input_count = input_types(self->graph, types);
        for (uint32_t run = 0; run < SUBJECT_RUNS; run++) {
            if (run > 0 && self->input_count == 0) break;
            rlx_status status =
                rlx_case_arrays(&op_case, true, run, types, self->input_count, self->inputs[run]);
            if (status == RLX_NOT_FOUND && run > 0) break;
            assert_ok(status);
            self->run_count++;
        }
        bind_by_inputs(self, types);
        make_session(self);
    }
    rlx_case_close(&op_case);
}

static void bind_by_comments(subject *self, const char *text) {
    for (uint32_t i = 0; i < rlx_graph_symbol_count(self->graph); i++) {
        char comment[128];
        const char *symbol = rlx_graph_symbol_name(self->graph, i);
        snprintf(comment, sizeof comment, "# bind %s=", symbol);
        const char *found = strstr(text, comment);
        *bound_size(self, symbol) = found == NULL ? 4 : atoll(found + strlen(comment));
    }
}

static void make_inputs(subject *self) {
    rlx_type types[SUBJECT_ARRAYS];
    self->input_count = input_types(self->graph, types);
    self->run_count = 3;
    for (uint32_t run = 0; run < self->run_count; run++) {
        for (uint32_t i = 0; i < self->input_count; i++) {
            rlx_test_array *array = &self->inputs[run][i];
            *array = (rlx_test_array){.dtype = types[i].dtype, .shape = types[i].shape};
            for (uint32_t d = 0; d < array->shape.rank; d++) {
                const char *symbol = rlx_graph_dim_symbol(self->graph, array->shape.dims[d]);
                if (symbol != NULL) array->shape.dims[d] = *bound_size(self, symbol);
            }
            rlx_test_fill(array, run * 1000 + i + 1);
        }
    }
}

static void finish(subject *self, const char *name, const char *text) {
    const char *tolerance = strstr(text, "# tolerance ");
    self->has_tolerance = tolerance != NULL && sscanf(tolerance, "# tolerance %lf %lf",
                                                      &self->relative, &self->absolute) == 2;
    snprintf(self->name, sizeof self->name, "%s", name);
    bind_by_comments(self, text);
    make_inputs(self);
}

void subject_open_text(subject *self, const char *name, const char *text) {
    *self = (subject){0};
    rlx_status status = rlx_graph_parse(NULL, text, strlen(text), &self->graph);
    if (status != RLX_OK) print_error("%s: %s\n%s", name, rlx_last_error(), text);
    assert_ok(status);
    finish(self, name, text);
    make_session(self);
}

void subject_open_file(subject *self, const char *path) {
    char *text = rlx_test_read_file(path, NULL);
    *self = (subject){0};
    assert_ok(rlx_session_open(NULL, path, &self->session));
    assert_ok(rlx_graph_clone(rlx_session_graph(self->session), NULL, &self->graph));
    finish(self, path, text);
    free(text);
}

void subject_close(subject *self) {
    for (uint32_t run = 0; run < self->run_count; run++) {
        for (uint32_t i = 0; i < self->input_count; i++)
            rlx_test_array_free(&self->inputs[run][i]);
    }
    rlx_session_destroy(self->session);
    rlx_graph_destroy(self->graph);
    *self = (subject){0};
}

/* The walk over the tree of tests; programs run in tests/session. */
typedef struct walk {
    void (*visit)(subject *self, void *user);
    void *user;
} walk;

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void visit_cases(const walk *self, const char *folder) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        char path[600], model[640];
        snprintf(path, sizeof path, "%s/%.255s", folder, entries[i]->d_name);
        snprintf(model, sizeof model, "%s/model.rlx", path);
        bool is_folder = entries[i]->d_name[0] != '.' && entries[i]->d_type == DT_DIR;
        free(entries[i]);
        if (!is_folder) continue;
        if (access(model, R_OK) != 0) {
            visit_cases(self, path);
            continue;
        }
        subject one;
        subject_open_case(&one, path);
        if (one.graph != NULL) self->visit(&one, self->user); /* some must not even parse */
        subject_close(&one);
    }
    free(entries);
}

static void visit_files(const walk *self, const char *folder) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    assert_true(count > 2);
    for (int i = 0; i < count; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%.255s", folder, entries[i]->d_name);
        free(entries[i]);
        if (!ends_with(path, ".rlx")) continue;
        subject one;
        subject_open_file(&one, path);
        self->visit(&one, self->user);
        subject_close(&one);
    }
    free(entries);
}

void subject_for_each_graph(void (*visit)(subject *self, void *user), void *user) {
    walk self = {visit, user};
    visit_files(&self, "graphs");
}

void subject_for_each(void (*visit)(subject *self, void *user), void *user) {
    static const char *const golden[] = {
        "canonicalise", "fuse_attention", "fuse_batch_norm", "fuse_chain",    "fuse_epilogue",
        "fuse_norm",    "fuse_quantised", "split_groups",    "split_strides", "fold_depth"};
    walk self = {visit, user};
    visit_cases(&self, "../ops/cases");
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "../golden/%s", golden[i]);
        visit_files(&self, folder);
    }
    visit_files(&self, "graphs");
}
