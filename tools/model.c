/* SPDX-License-Identifier: Apache-2.0 */
/* Opening what the user names: bindings, entries and passes from the arguments; plans and programs
 * from a model file or a saved program. */
#include "progress.h"
#include "signals.h"
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tool_is_program(const char *path) {
    return rlx_program_probe(path);
}

/* Blocks in a chain, so that a leak checker finds them. */
typedef struct kept_block {
    struct kept_block *next;
    max_align_t data[];
} kept_block;

void *tool_keep(size_t bytes) {
    static kept_block *first;
    kept_block *block = calloc(1, sizeof *block + bytes);
    if (block == NULL) return NULL;
    block->next = first;
    first = block;
    return block->data;
}

static char *copy_text(const char *text, size_t length) {
    char *copy = tool_keep(length + 1);
    if (copy != NULL) memcpy(copy, text, length);
    return copy;
}

bool tool_split(const char *text, const char **out_name, const char **out_value) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) return false;
    *out_name = copy_text(text, (size_t)(equals - text));
    *out_value = equals + 1;
    return *out_name != NULL;
}

/* One SYM=N of the option named. */
static bool read_binding(const char *verb, const char *option, const char *text,
                         rlx_binding *out_binding) {
    const char *name, *value;
    char *end = NULL;
    if (!tool_split(text, &name, &value) || value[0] == 0) {
        fprintf(stderr, "rlx %s: %s wants SYM=N, got '%s'\n", verb, option, text);
        return false;
    }
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != 0 || errno != 0) {
        fprintf(stderr, "rlx %s: %s %s: '%s' is no size\n", verb, option, name, value);
        return false;
    }
    *out_binding = (rlx_binding){name, number};
    return true;
}

bool tool_bindings(const char *verb, const char *option, const tool_list *list,
                   rlx_binding *out_bindings, uint32_t *out_count) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (!read_binding(verb, option, list->items[i], &out_bindings[i])) return false;
    }
    *out_count = list->count;
    return true;
}

bool tool_disable(const char *verb, const tool_list *passes, rlx_compile_options *options) {
    for (uint32_t i = 0; i < passes->count; i++) {
        uint32_t pass = 0;
        if (strcmp(passes->items[i], "all") == 0) {
            options->disabled_passes |= (UINT64_C(1) << rlx_pass_count()) - 1;
            continue;
        }
        while (pass < rlx_pass_count() && strcmp(rlx_pass_name(pass), passes->items[i]) != 0)
            pass++;
        if (pass == rlx_pass_count()) {
            fprintf(stderr, "rlx %s: no pass is called '%s'; there are:", verb, passes->items[i]);
            for (pass = 0; pass < rlx_pass_count(); pass++) {
                fprintf(stderr, " %s", rlx_pass_name(pass));
            }
            fputc('\n', stderr);
            return false;
        }
        options->disabled_passes |= UINT64_C(1) << pass;
    }
    return true;
}

rlx_status tool_read_npy(const char *path, const rlx_npy_info *info, void **out_data) {
    void *data = malloc(info->bytes == 0 ? 1 : info->bytes);
    FILE *file = data == NULL ? NULL : fopen(path, "rb");
    bool is_read = file != NULL && fseek(file, (long)info->offset, SEEK_SET) == 0 &&
                   fread(data, 1, info->bytes, file) == info->bytes;
    if (file != NULL) fclose(file);
    if (is_read) {
        *out_data = data;
        return RLX_OK;
    }
    free(data);
    return tool_error(RLX_IO, "cannot read the %s of '%s'", tool_bytes(info->bytes), path);
}

enum { MOST_GIVEN_BYTES = 64 * 1024 };

rlx_status tool_give(tool_model *model, const char *name, const char *path) {
    rlx_npy_info info;
    void *data = NULL;
    rlx_status status = rlx_npy_read_header(path, &info);
    if (status != RLX_OK) return tool_error(status, "input '%s': %s", name, rlx_last_error());
    if (model->given_count == 2 * TOOL_LIST_MOST)
        return tool_error(RLX_INVALID_ARGUMENT, "more than %d values are given", TOOL_LIST_MOST);
    rlx_given_value *given = &model->given[model->given_count];
    *given = (rlx_given_value){.name = name, .dtype = info.dtype, .shape = info.shape};
    if (info.bytes <= MOST_GIVEN_BYTES) {
        status = tool_read_npy(path, &info, &data);
        void *kept = status == RLX_OK ? tool_keep(info.bytes + 1) : NULL;
        if (kept != NULL) memcpy(kept, data, info.bytes);
        free(data);
        given->data = kept;
        given->bytes = kept == NULL ? 0 : info.bytes;
    }
    if (status == RLX_OK) model->given_count++;
    return status;
}

static bool read_givens(const char *verb, tool_model *model) {
    for (uint32_t i = 0; i < model->givens.count; i++) {
        const char *name, *path;
        if (!tool_split(model->givens.items[i], &name, &path) || path[0] == 0) {
            fprintf(stderr, "rlx %s: --given wants NAME=F.npy, got '%s'\n", verb,
                    model->givens.items[i]);
            return false;
        }
        rlx_status status = tool_give(model, name, path);
        if (status == RLX_OK) continue;
        tool_fail(verb, status);
        return false;
    }
    return true;
}

/* "NAME:SYM=N,SYM=N" with the bindings of --bind after its own. */
static bool read_entry(const char *verb, const tool_model *model, const char *text,
                       rlx_entry_spec *out_entry) {
    size_t name_length = strcspn(text, ":");
    const char *at = text[name_length] == 0 ? text + name_length : text + name_length + 1;
    rlx_binding *bindings = tool_keep((strlen(text) + model->binds.count + 1) * sizeof *bindings);
    const char *name = copy_text(text, name_length);
    uint32_t count = 0;
    if (name_length == 0 || bindings == NULL || name == NULL) {
        fprintf(stderr, "rlx %s: --entry wants NAME:SYM=N,SYM=N, got '%s'\n", verb, text);
        return false;
    }
    while (*at != 0) {
        size_t length = strcspn(at, ",");
        const char *one = copy_text(at, length);
        if (one == NULL || !read_binding(verb, "--entry", one, &bindings[count])) return false;
        count++;
        at += at[length] == 0 ? length : length + 1;
    }
    for (uint32_t i = 0; i < model->binds.count; i++)
        bindings[count++] = model->bindings[i];
    *out_entry = (rlx_entry_spec){.name = name,
                                  .bindings = bindings,
                                  .binding_count = count,
                                  .given = model->given,
                                  .given_count = model->given_count,
                                  .growing = model->growing,
                                  .growing_count = model->growing_count};
    return true;
}

static bool read_entries(const char *verb, tool_model *model) {
    model->entry.name = "main";
    model->entry.bindings = model->bindings;
    model->entry.given = model->given;
    model->entry.given_count = model->given_count;
    model->entry.growing = model->growing;
    model->entry.growing_count = model->growing_count;
    model->options.entries = &model->entry;
    model->options.entry_count = 1;
    if (model->entries.count == 0) return true;
    model->listed = tool_keep(model->entries.count * sizeof *model->listed);
    if (model->listed == NULL) return false;
    for (uint32_t i = 0; i < model->entries.count; i++) {
        if (!read_entry(verb, model, model->entries.items[i], &model->listed[i])) return false;
        for (uint32_t before = 0; before < i; before++) {
            if (strcmp(model->listed[before].name, model->listed[i].name) != 0) continue;
            fprintf(stderr, "rlx %s: two entries are called '%s'\n", verb, model->listed[i].name);
            return false;
        }
    }
    model->options.entries = model->listed;
    model->options.entry_count = model->entries.count;
    return true;
}

/* A saved program is compiled already: options that would shape it are refused, not ignored. */
static bool check_program(const char *verb, const tool_model *model) {
    const char *given = model->binds.count != 0      ? "--bind"
                        : model->growths.count != 0  ? "--grow"
                        : model->entries.count != 0  ? "--entry NAME:SYM=N"
                        : model->givens.count != 0   ? "--given"
                        : model->disabled.count != 0 ? "--disable"
                        : model->search_ms != 0      ? "--search-ms"
                        : model->without_reuse       ? "--without-reuse"
                        : model->keep_inputs         ? "--keep-inputs"
                        : model->ranks > 1           ? "--ranks"
                                                     : NULL;
    if (given == NULL || model->path == NULL || !tool_is_program(model->path)) return true;
    fprintf(stderr, "rlx %s: '%s' is a compiled program: %s comes too late for it\n", verb,
            model->path, given);
    return false;
}

bool tool_model_begin(const char *verb, tool_model *model, int *out_code) {
    rlx_env_settings settings;
    rlx_status status = rlx_env_options(&settings);
    *out_code = TOOL_USAGE;
    if (status != RLX_OK) {
        tool_fail(verb, status);
        return false;
    }
    if (model->device == NULL) model->device = settings.device;
    if (model->threads == 0) model->threads = settings.threads;
    if (model->threads > 4096) {
        fprintf(stderr, "rlx %s: --threads %" PRIu64 " is more than 4096\n", verb, model->threads);
        return false;
    }
    if (model->ranks > RLX_RANKS_MOST) {
        fprintf(stderr, "rlx %s: --ranks %" PRIu64 " is more than %d\n", verb, model->ranks,
                RLX_RANKS_MOST);
        return false;
    }
    if (model->search_ms > UINT64_MAX / 1000000) {
        fprintf(stderr, "rlx %s: --search-ms %" PRIu64 " is too long\n", verb, model->search_ms);
        return false;
    }
    model->options = (rlx_compile_options){.size = sizeof model->options,
                                           .without_reuse = model->without_reuse,
                                           .keep_inputs = model->keep_inputs,
                                           .search_ns = model->search_ms * 1000000,
                                           .rank_count = (uint32_t)model->ranks};
    if (!tool_disable(verb, &model->disabled, &model->options) ||
        !tool_bindings(verb, "--bind", &model->binds, model->bindings,
                       &model->entry.binding_count) ||
        !tool_bindings(verb, "--grow", &model->growths, model->growing, &model->growing_count) ||
        !read_givens(verb, model) || !read_entries(verb, model) || !check_program(verb, model)) {
        return false;
    }
    *out_code = TOOL_OK;
    return true;
}

/* $XDG_CACHE_HOME/rlx or ~/.cache/rlx, made when it is not there; NULL: there is no place. */
static const char *cache_folder(void) {
    static char folder[400];
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool has_base = base != NULL && base[0] == '/';
    if (!has_base && (home == NULL || home[0] != '/')) return NULL;
    int length = has_base ? snprintf(folder, sizeof folder - 8, "%s", base)
                          : snprintf(folder, sizeof folder - 8, "%s/.cache", home);
    if (length <= 0 || (size_t)length >= sizeof folder - 8) return NULL;
    (void)mkdir(folder, 0700);
    memcpy(folder + length, "/rlx", 5);
    return mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0 ? folder : NULL;
}

rlx_status tool_open_device(const tool_model *model, rlx_device **out_device) {
    rlx_device_options options = {.size = sizeof options, .threads = (uint32_t)model->threads};
    if (model->device != NULL && strncmp(model->device, "vulkan", 6) == 0) {
        options.cache_folder = cache_folder();
    }
    return rlx_device_open(model->device, &options, out_device);
}

static rlx_status check_limit(const tool_model *model, const rlx_plan *plan) {
    uint64_t bytes = rlx_plan_arena_bytes(plan);
    if (model->memory_limit == 0 || bytes <= model->memory_limit) return RLX_OK;
    return tool_error(RLX_DOES_NOT_FIT,
                      "%s: the arena has %" PRIu64 " bytes (weights %" PRIu64 ", state %" PRIu64
                      ", scratch %" PRIu64 "), the limit is %" PRIu64,
                      model->path, bytes,
                      rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS) +
                          rlx_plan_segment_bytes(plan, RLX_SEGMENT_TILES),
                      rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE),
                      rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH), model->memory_limit);
}

/* The weights are split first: the limit is for what is in memory. */
static rlx_status split_weights(const tool_model *model, rlx_plan *plan) {
    rlx_status status = RLX_OK;
    if (model->weights_budget != 0) status = rlx_plan_stream_weights(plan, model->weights_budget);
    return status == RLX_OK ? check_limit(model, plan) : status;
}

/* The plan stays with the caller also when it is too large. */
static rlx_status plan_session(const tool_model *model, rlx_session *session, rlx_plan **out_plan) {
    rlx_status status = rlx_session_plan(session, model->device, (uint32_t)model->threads,
                                         &model->options, out_plan);
    return status == RLX_OK ? split_weights(model, *out_plan) : status;
}

rlx_status tool_open_plan(tool_model *model, rlx_plan **out_plan) {
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    rlx_status status;
    if (tool_is_program(model->path)) {
        status = rlx_program_read_plan(NULL, model->path, &plan);
        if (status == RLX_OK) status = split_weights(model, plan);
    } else {
        status = rlx_session_open(NULL, model->path, &session);
        if (status == RLX_OK) status = plan_session(model, session, &plan);
        rlx_session_destroy(session);
    }
    if (status == RLX_OK) {
        *out_plan = plan;
    } else {
        rlx_plan_destroy(plan);
    }
    return status;
}

/* Loading maps the file, so the limit is checked on the plan alone, before. */
static rlx_status load_program(tool_model *model, rlx_device *device, rlx_program **out_program) {
    rlx_program_options options = {.size = sizeof options, .weights_budget = model->weights_budget};
    rlx_plan *plan = NULL;
    if (model->memory_limit != 0) {
        rlx_status status = tool_open_plan(model, &plan);
        rlx_plan_destroy(plan);
        if (status != RLX_OK) return status;
    }
    return rlx_program_load(device, model->path, &options, out_program);
}

rlx_status tool_open_program(tool_model *model, rlx_device *device, rlx_program **out_program) {
    rlx_program_options options = {.size = sizeof options, .progress = tool_progress_bytes};
    rlx_session *session = NULL; /* outlives the creation: sources may lie in its graph */
    rlx_plan *plan = NULL;
    if (tool_is_program(model->path)) return load_program(model, device, out_program);
    if (model->weights_budget != 0) {
        return tool_error(RLX_INVALID_ARGUMENT,
                          "%s: --weights-budget needs a saved program, whose file the weights are "
                          "read from; rlx compile %s -o OUT makes one",
                          model->path, model->path);
    }
    rlx_status status = rlx_session_open(NULL, model->path, &session);
    if (status == RLX_OK) status = plan_session(model, session, &plan);
    if (status == RLX_OK) {
        tool_progress_begin("reading weights");
        tool_hold_interrupts(NULL);
        status = rlx_program_create(device, plan, &options, out_program);
        tool_release_interrupts();
        tool_progress_end();
    }
    if (status != RLX_OK) rlx_plan_destroy(plan); /* consumed on success */
    rlx_session_destroy(session);
    return status;
}
