/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of a run as a summary on stdout and as .npy files. */
#include "outputs.h"

#include "signals.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 6 };

typedef struct summary {
    double least, most, sum;
    uint64_t nans, count;
    double first[SHOWN_ELEMENTS];
} summary;

static void add(summary *self, double value) {
    if (self->count < SHOWN_ELEMENTS) self->first[self->count] = value;
    self->count++;
    if (isnan(value)) {
        self->nans++;
        return;
    }
    if (value < self->least) self->least = value;
    if (value > self->most) self->most = value;
    self->sum += value;
}

/* Numbers that f32 would round are read as they are; the rest goes through f32. */
static void add_all(summary *self, rlx_dtype dtype, const void *data, uint64_t count) {
#define ADD_AS(type)                                                         \
    for (uint64_t i = 0; i < count; i++) {                                   \
        type value;                                                          \
        memcpy(&value, (const char *)data + i * sizeof value, sizeof value); \
        add(self, (double)value);                                            \
    }                                                                        \
    break
    switch (dtype) {
    case RLX_DTYPE_F64:
        ADD_AS(double);
    case RLX_DTYPE_I32:
        ADD_AS(int32_t);
    case RLX_DTYPE_U32:
        ADD_AS(uint32_t);
    case RLX_DTYPE_I64:
        ADD_AS(int64_t);
    case RLX_DTYPE_U64:
        ADD_AS(uint64_t);
    default:
        ADD_AS(float);
    }
#undef ADD_AS
}

static bool is_wide(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F64 || dtype == RLX_DTYPE_I32 || dtype == RLX_DTYPE_U32 ||
           dtype == RLX_DTYPE_I64 || dtype == RLX_DTYPE_U64;
}

static rlx_status summarise(rlx_exec *exec, uint32_t entry, uint32_t index,
                            const rlx_output_info *info, summary *out) {
    uint64_t width = is_wide(info->dtype) ? 8 : 4, count = 0;
    void *data = malloc(info->elements == 0 ? 8 : info->elements * width);
    rlx_status status;
    *out = (summary){.least = INFINITY, .most = -INFINITY};
    if (data == NULL) return tool_error(RLX_OUT_OF_MEMORY, "no memory to read '%s'", info->name);
    if (is_wide(info->dtype)) {
        status = rlx_exec_read_output(exec, entry, index, data, info->elements * width, NULL);
        count = info->elements;
    } else {
        status = rlx_exec_read_output_f32(exec, entry, index, data, info->elements, &count);
    }
    if (status == RLX_OK) add_all(out, info->dtype, data, count);
    free(data);
    return status;
}

void tool_json_number(FILE *out, const char *key, double value) {
    if (isfinite(value)) {
        fprintf(out, ",\"%s\":%.9g", key, value);
    } else {
        fprintf(out, ",\"%s\":null", key);
    }
}

static void print_json(const rlx_output_info *info, const summary *all, double mean) {
    printf("{\"output\":");
    tool_json_text(stdout, info->name);
    printf(",\"type\":");
    tool_json_text(stdout, tool_type(NULL, info->dtype, &info->shape));
    tool_json_number(stdout, "min", all->least);
    tool_json_number(stdout, "max", all->most);
    tool_json_number(stdout, "mean", mean);
    printf(",\"nan\":%" PRIu64 "}\n", all->nans);
}

static void print_text(const rlx_output_info *info, const summary *all, double mean) {
    printf("%s : %s", tool_name(info->name), tool_type(NULL, info->dtype, &info->shape));
    if (all->count == 0) {
        puts("  empty");
        return;
    }
    if (all->count > all->nans) {
        printf("  min %.6g  max %.6g  mean %.6g", all->least, all->most, mean);
    }
    if (all->nans != 0) printf("  %" PRIu64 " NaN", all->nans);
    printf("  [");
    for (uint64_t i = 0; i < all->count && i < SHOWN_ELEMENTS; i++) {
        printf("%s%.6g", i == 0 ? "" : ", ", all->first[i]);
    }
    puts(all->count > SHOWN_ELEMENTS ? ", ..]" : "]");
}

/* FOLDER/NAME.npy; what a path would trip over is written as %XX, so that names stay apart. */
static rlx_status make_path(const char *folder, const char *name, char *out, size_t bytes) {
    size_t at = (size_t)snprintf(out, bytes, "%s/", folder);
    for (const char *c = name; *c != 0 && at + 8 < bytes; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '/' || byte == '%' || byte < 0x20 || (byte == '.' && c == name)) {
            at += (size_t)snprintf(out + at, bytes - at, "%%%02X", byte);
        } else {
            out[at++] = *c;
        }
    }
    if (at + 8 >= bytes) return tool_error(RLX_IO, "the path for output '%s' is too long", name);
    memcpy(out + at, ".npy", 5);
    return RLX_OK;
}

static rlx_status write_output(rlx_exec *exec, uint32_t entry, uint32_t index,
                               const rlx_output_info *info, const char *folder, bool is_quiet) {
    char path[4096];
    void *data = malloc(info->bytes == 0 ? 1 : info->bytes);
    if (data == NULL) return tool_error(RLX_OUT_OF_MEMORY, "no memory to read '%s'", info->name);
    rlx_status status = make_path(folder, info->name, path, sizeof path);
    if (status == RLX_OK) {
        status = rlx_exec_read_output(exec, entry, index, data, info->bytes, NULL);
    }
    if (status == RLX_OK) {
        status = rlx_npy_write(path, info->dtype, &info->shape, data, info->bytes);
    }
    if (status == RLX_OK && !is_quiet) fprintf(stderr, "wrote %s\n", path);
    free(data);
    return status;
}

static rlx_status give_output(rlx_exec *exec, uint32_t entry, uint32_t index, const char *folder,
                              const tool_common *common) {
    rlx_output_info info;
    summary all;
    if (tool_was_interrupted()) return RLX_CANCELLED;
    rlx_status status = rlx_exec_output(exec, entry, index, &info);
    if (status == RLX_OK) status = summarise(exec, entry, index, &info, &all);
    if (status == RLX_OK && folder != NULL) {
        status = write_output(exec, entry, index, &info, folder, common->quiet);
    }
    if (status != RLX_OK) return status;
    double mean = all.count > all.nans ? all.sum / (double)(all.count - all.nans) : NAN;
    if (common->json) {
        print_json(&info, &all, mean);
    } else {
        print_text(&info, &all, mean);
    }
    return RLX_OK;
}

rlx_status tool_give_outputs(rlx_exec *exec, uint32_t entry, const char *folder,
                             const tool_common *common) {
    rlx_entry_info info;
    rlx_status status = rlx_plan_entry_at(rlx_program_plan(rlx_exec_program(exec)), entry, &info);
    for (uint32_t i = 0; status == RLX_OK && i < info.output_count; i++) {
        status = give_output(exec, entry, i, folder, common);
    }
    return status;
}
