/* SPDX-License-Identifier: Apache-2.0 */
/* File or graph to program: load by type, compile, keep. */
#include <rlx/session.h>

#include "base/alloc.h"
#include "base/text.h"
#include "compile/compile.h"
#include "driver/device.h"
#include "import/import.h"

#include <string.h>

/* A program and what it was compiled with, as a text that is equal exactly when that is. Values
 * that were offered and that the program did not need are no part of it. */
typedef struct cached_program {
    rlx_device *device;   /* borrowed: the program keeps it */
    char *key;            /* owned */
    rlx_program *program; /* retained */
} cached_program;

struct rlx_session {
    rlx_allocator hook;             /* a copy of the caller's */
    const rlx_allocator *allocator; /* &hook */
    rlx_graph *graph;               /* owned; an outline when there is a model */
    rlx_model *model;               /* owned; NULL: the graph is all there is */
    bool is_whole;                  /* the graph of a model that needs nothing to be bound */
    RLX_VEC(cached_program) programs;
};

rlx_status rlx_session_create(const rlx_allocator *allocator, rlx_graph *graph,
                              rlx_session **out_session) {
    rlx_session *session = NULL;
    if (graph == NULL || out_session == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_graph_verify(graph));
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *session, (void **)&session));
    session->hook = *allocator;
    session->allocator = &session->hook;
    session->graph = graph;
    *out_session = session;
    return RLX_OK;
}

/* Whether a build with `entry` would give the session's graph again: nothing is bound, and what is
 * offered are inputs as they are there. */
static bool is_graph_of(const rlx_session *session, const rlx_entry_spec *entry) {
    if (!session->is_whole || entry->binding_count != 0 || entry->growing_count != 0) return false;
    for (uint32_t i = 0; i < entry->given_count; i++) {
        const rlx_given_value *given = &entry->given[i];
        rlx_value_id id;
        if (rlx_graph_find(session->graph, given->name, &id) != RLX_OK) return false;
        const rlx_value *value = &session->graph->values.items[id];
        if (value->kind != RLX_VALUE_INPUT || value->type.dtype != given->dtype ||
            !rlx_shape_equal(&value->type.shape, &given->shape))
            return false;
    }
    return true;
}

static rlx_status make_graph(void *user, const rlx_entry_spec *entry,
                             const rlx_allocator *allocator, rlx_graph **out_graph) {
    rlx_session *session = user;
    if (is_graph_of(session, entry)) return rlx_graph_share(session->graph, allocator, out_graph);
    const rlx_import_options options = {allocator, entry, rlx_fold_node};
    return session->model->ops->build(session->model, &options, out_graph);
}

static rlx_graph_maker maker_of(rlx_session *session) {
    if (session->model == NULL) return (rlx_graph_maker){.graph = session->graph};
    return (rlx_graph_maker){.make = make_graph, .user = session};
}

/* The model's graph as far as it can be known: whole when no size is missing. `model` is consumed.
 */
static rlx_status open_model(const rlx_allocator *allocator, rlx_model *model,
                             rlx_session **out_session) {
    rlx_session *session = NULL;
    if (allocator == NULL) allocator = rlx_default_allocator();
    rlx_status status = rlx_alloc_zero(allocator, sizeof *session, (void **)&session);
    if (status != RLX_OK) {
        rlx_model_destroy(model);
        return status;
    }
    session->hook = *allocator;
    session->allocator = &session->hook;
    session->model = model;
    const rlx_import_options options = {session->allocator, NULL, rlx_fold_node};
    status = model->ops->build(model, &options, &session->graph);
    session->is_whole = status == RLX_OK;
    if (status == RLX_INVALID_ARGUMENT) {
        status = model->ops->outline(model, &options, &session->graph);
    }
    if (status != RLX_OK) {
        rlx_session_destroy(session);
        return status;
    }
    *out_session = session;
    return RLX_OK;
}

rlx_status rlx_session_open(const rlx_allocator *allocator, const char *path,
                            rlx_session **out_session) {
    rlx_graph *graph = NULL;
    rlx_model *model = NULL;
    if (path == NULL || out_session == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(rlx_import(allocator, path, &graph, &model));
    if (model != NULL) {
        rlx_status opened = open_model(allocator, model, out_session);
        return opened == RLX_OK ? RLX_OK : rlx_fail_context(opened, "%s", path);
    }
    rlx_status status = rlx_session_create(allocator, graph, out_session);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return rlx_fail_context(status, "%s", path);
    }
    return RLX_OK;
}

void rlx_session_destroy(rlx_session *session) {
    if (session == NULL) return;
    const rlx_allocator hook = session->hook;
    for (uint32_t i = 0; i < session->programs.count; i++) {
        rlx_program_release(session->programs.items[i].program);
        rlx_free(session->allocator, session->programs.items[i].key);
    }
    rlx_vec_free(session->allocator, &session->programs);
    rlx_graph_destroy(session->graph);
    rlx_model_destroy(session->model);
    rlx_free(&hook, session);
}

const rlx_graph *rlx_session_graph(const rlx_session *session) {
    return session == NULL ? NULL : session->graph;
}

rlx_status rlx_session_plan(rlx_session *session, const char *device_name, uint32_t threads,
                            const rlx_compile_options *options, rlx_plan **out_plan) {
    rlx_target target;
    if (session == NULL || out_plan == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(rlx_target_of_device(device_name, threads, &target));
    const rlx_graph_maker maker = maker_of(session);
    return rlx_compile_made(&maker, &target, options, session->allocator, out_plan);
}

/* With its length, so that no name can look like something else. */
static void add_name(rlx_text *key, const char *name) {
    rlx_text_printf(key, " %zu:%s", strlen(name), name);
}

/* A value that decided shapes became a constant: the program has no such input. */
static bool is_bound(const rlx_program *program, uint32_t entry, const char *name) {
    uint32_t index;
    return rlx_program_find_input(program, entry, name, &index) != RLX_OK;
}

/* The shape always decides what is compiled, the content where it is a constant of the program. */
static void add_given(rlx_text *key, const rlx_program *program, uint32_t entry,
                      const rlx_given_value *given) {
    add_name(key, given->name);
    rlx_text_printf(key, ":%s", rlx_dtype_name(given->dtype));
    for (uint32_t i = 0; i < given->shape.rank && i < RLX_MAX_RANK; i++)
        rlx_text_printf(key, ",%" PRId64, given->shape.dims[i]);
    if (given->data == NULL || !is_bound(program, entry, given->name)) return;
    for (uint64_t i = 0; i < given->bytes; i++)
        rlx_text_printf(key, "%02x", ((const uint8_t *)given->data)[i]);
}

/* What `program` was compiled with, if it was compiled with these options. */
static rlx_status make_key(const rlx_session *session, const rlx_program *program,
                           const rlx_compile_options *options, char **out_key) {
    rlx_text key = {.allocator = session->allocator};
    rlx_text_printf(&key, "passes %" PRIx64 " reuse %d keep %d search %" PRIu64,
                    options->disabled_passes, !options->without_reuse, options->keep_inputs,
                    options->search_ns);
    rlx_text_printf(&key, " rank %u of %u", options->rank, options->rank_count);
    for (uint32_t e = 0; e < options->entry_count; e++) {
        const rlx_entry_spec *entry = &options->entries[e];
        add_name(&key, entry->name == NULL ? "main" : entry->name);
        rlx_text_printf(&key, " %" PRIu32, entry->binding_count);
        for (uint32_t b = 0; b < entry->binding_count; b++) {
            add_name(&key, entry->bindings[b].symbol);
            rlx_text_printf(&key, "=%" PRId64, entry->bindings[b].value);
        }
        for (uint32_t b = 0; b < entry->growing_count; b++) {
            add_name(&key, entry->growing[b].symbol);
            rlx_text_printf(&key, "=..%" PRId64, entry->growing[b].value);
        }
        for (uint32_t g = 0; g < entry->given_count; g++)
            add_given(&key, program, e, &entry->given[g]);
    }
    return rlx_text_finish(&key, out_key);
}

/* Keeps a program that was compiled with `options`. */
static rlx_status keep(rlx_session *session, rlx_device *device, const rlx_compile_options *options,
                       rlx_program *program) {
    cached_program cached = {.device = device, .program = program};
    RLX_TRY(make_key(session, program, options, &cached.key));
    rlx_status status = rlx_vec_push(session->allocator, &session->programs, cached);
    if (status != RLX_OK) {
        rlx_free(session->allocator, cached.key);
        return status;
    }
    rlx_program_retain(program);
    return RLX_OK;
}

/* The kept program for these options, or NULL. */
static rlx_status find(const rlx_session *session, const rlx_device *device,
                       const rlx_compile_options *options, rlx_program **out_program) {
    *out_program = NULL;
    for (uint32_t i = 0; i < session->programs.count && *out_program == NULL; i++) {
        const cached_program *cached = &session->programs.items[i];
        char *key = NULL;
        if (cached->device != device) continue;
        RLX_TRY(make_key(session, cached->program, options, &key));
        if (strcmp(cached->key, key) == 0) *out_program = cached->program;
        rlx_free(session->allocator, key);
    }
    return RLX_OK;
}

static rlx_status build(rlx_session *session, rlx_device *device,
                        const rlx_compile_options *options,
                        const rlx_program_options *program_options, rlx_program **out_program) {
    rlx_plan *plan = NULL;
    const rlx_graph_maker maker = maker_of(session);
    RLX_TRY(
        rlx_compile_made(&maker, rlx_device_target(device), options, session->allocator, &plan));
    rlx_alloc_trim(session->allocator); /* weights come next */
    rlx_status status = rlx_program_create(device, plan, program_options, out_program);
    if (status != RLX_OK) rlx_plan_destroy(plan); /* consumed only on success */
    return status;
}

rlx_status rlx_session_compile(rlx_session *session, rlx_device *device,
                               const rlx_compile_options *options,
                               const rlx_program_options *program_options,
                               rlx_program **out_program) {
    rlx_compile_options read;
    rlx_program *program = NULL;
    if (session == NULL || device == NULL || out_program == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    RLX_TRY(rlx_compile_options_read(options, &read));
    RLX_TRY(find(session, device, &read, &program));
    if (program != NULL) {
        *out_program = rlx_program_retain(program);
        return RLX_OK;
    }
    RLX_TRY(build(session, device, &read, program_options, &program));
    rlx_status status = keep(session, device, &read, program);
    if (status != RLX_OK) {
        rlx_program_release(program);
        return status;
    }
    *out_program = program;
    return RLX_OK;
}
