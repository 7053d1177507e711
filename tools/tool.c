/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, texts, and opening models for the verbs. */
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int tool_exit_code(rlx_status status) {
    switch (status) {
    case RLX_OK:
        return TOOL_OK;
    case RLX_UNSUPPORTED:
        return TOOL_UNSUPPORTED;
    case RLX_DOES_NOT_FIT:
        return TOOL_DOES_NOT_FIT;
    case RLX_DIFFERS:
        return TOOL_DIFFERS;
    case RLX_CANCELLED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

int tool_fail(const char *verb, rlx_status status) {
    const char *text = rlx_last_error();
    fprintf(stderr, "rlx %s: %s\n", verb, text[0] == 0 ? rlx_status_text(status) : text);
    return tool_exit_code(status);
}

static void print_log(void *user, rlx_log_level level, const char *message) {
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    (void)user;
    fprintf(stderr, "rlx: %s: %s\n", names[level], message);
}

void tool_log(const tool_common *common) {
    rlx_env_settings settings;
    rlx_log_level level = RLX_LOG_WARN;
    if (rlx_env_options(&settings) == RLX_OK) level = settings.log_level;
    if (common->verbose && level < RLX_LOG_INFO) level = RLX_LOG_INFO;
    if (common->quiet) level = RLX_LOG_ERROR;
    rlx_log_set(print_log, NULL, level);
}

void tool_json_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}

/* A few buffers in turn, so that one printf can hold several texts. */
enum { TURNS = 8, TURN_BYTES = 256 };
static char *next_buffer(void) {
    static char buffers[TURNS][TURN_BYTES];
    static unsigned turn;
    return buffers[turn++ % TURNS];
}

const char *tool_bytes(uint64_t bytes) {
    char *buffer = next_buffer();
    if (bytes < 10000) {
        snprintf(buffer, TURN_BYTES, "%" PRIu64 " B", bytes);
    } else if (bytes < 1000000) {
        snprintf(buffer, TURN_BYTES, "%.1f kB", (double)bytes / 1e3);
    } else if (bytes < 1000000000) {
        snprintf(buffer, TURN_BYTES, "%.2f MB", (double)bytes / 1e6);
    } else {
        snprintf(buffer, TURN_BYTES, "%.2f GB", (double)bytes / 1e9);
    }
    return buffer;
}

const char *tool_type(const rlx_graph *graph, rlx_dtype dtype, const rlx_shape *shape) {
    char *buffer = next_buffer();
    size_t at = (size_t)snprintf(buffer, TURN_BYTES, "%s[", rlx_dtype_name(dtype));
    for (uint32_t i = 0; i < shape->rank && at < TURN_BYTES - 64; i++) {
        const char *comma = i == 0 ? "" : ", ";
        const char *symbol = rlx_graph_dim_symbol(graph, shape->dims[i]);
        if (symbol != NULL) {
            at += (size_t)snprintf(buffer + at, TURN_BYTES - at, "%s%.40s", comma, symbol);
        } else {
            at +=
                (size_t)snprintf(buffer + at, TURN_BYTES - at, "%s%" PRId64, comma, shape->dims[i]);
        }
    }
    snprintf(buffer + at, TURN_BYTES - at, "]");
    return buffer;
}

bool tool_is_program(const char *path) {
    return rlx_program_probe(path);
}

bool tool_split(const char *text, const char **out_name, const char **out_value) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) return false;
    char *name = malloc((size_t)(equals - text) + 1);
    if (name == NULL) return false;
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    *out_name = name;
    *out_value = equals + 1;
    return true;
}

bool tool_bindings(const char *verb, const tool_list *list, rlx_binding *out_bindings,
                   uint32_t *out_count) {
    for (uint32_t i = 0; i < list->count; i++) {
        const char *name, *value;
        char *end = NULL;
        if (!tool_split(list->items[i], &name, &value) || value[0] == 0) {
            fprintf(stderr, "rlx %s: --bind wants SYM=N, got '%s'\n", verb, list->items[i]);
            return false;
        }
        long long number = strtoll(value, &end, 10);
        if (*end != 0 || number < 0) {
            fprintf(stderr, "rlx %s: --bind %s: '%s' is no size\n", verb, name, value);
            return false;
        }
        out_bindings[i] = (rlx_binding){name, number};
    }
    *out_count = list->count;
    return true;
}

bool tool_disable(const char *verb, const tool_list *passes, rlx_compile_options *options) {
    for (uint32_t i = 0; i < passes->count; i++) {
        uint32_t pass = 0;
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
    model->options = (rlx_compile_options){.size = sizeof model->options,
                                           .without_reuse = model->without_reuse,
                                           .keep_inputs = model->keep_inputs,
                                           .search_ns = model->search_ms * 1000000};
    if (!tool_disable(verb, &model->disabled, &model->options)) return false;
    if (!tool_bindings(verb, &model->binds, model->bindings, &model->entry.binding_count)) {
        return false;
    }
    model->entry.name = "main";
    model->entry.bindings = model->bindings;
    model->options.entries = &model->entry;
    model->options.entry_count = 1;
    return true;
}

rlx_status tool_open_device(const tool_model *model, rlx_device **out_device) {
    rlx_device_options options = {.size = sizeof options, .threads = (uint32_t)model->threads};
    return rlx_device_open(model->device, &options, out_device);
}

rlx_status tool_open_program(tool_model *model, rlx_device *device, rlx_program **out_program) {
    rlx_session *session = NULL;
    if (tool_is_program(model->path)) {
        return rlx_program_load(device, model->path, NULL, out_program);
    }
    rlx_status status = rlx_session_open(NULL, model->path, &session);
    if (status == RLX_OK) {
        status = rlx_session_compile(session, device, &model->options, NULL, out_program);
    }
    rlx_session_destroy(session);
    return status;
}
