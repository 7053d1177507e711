/* SPDX-License-Identifier: Apache-2.0 */
/* A program as one file. Loading maps it: the weights are used where they lie, so a second start
 * reads no model and compiles nothing. The format is src/plan/file.h. */
#include "base/options.h"
#include "driver/copy.h"
#include "plan/file.h"
#include "runtime/program.h"

#include <string.h>

/* Hands out the weights piece by piece, and asks before each whether to go on. */
typedef struct saving {
    const rlx_program *program;
    const rlx_program_options *options;
    const rlx_plan *plan;
    const uint8_t *weights;
} saving;

static rlx_status next_piece(void *user, uint64_t offset, uint64_t bytes, void *out) {
    const saving *self = user;
    uint64_t total = self->plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    const rlx_program_options *options = self->options;
    if (options->progress != NULL && !options->progress(options->user, offset, total)) {
        return RLX_FAIL(RLX_CANCELLED, "cancelled with %" PRIu64 " of %" PRIu64 " bytes written",
                        offset, total);
    }
    memcpy(out, self->weights + offset, (size_t)bytes);
    return RLX_OK;
}

/* The whole file for as long as its plan is read; only address space, unless it is looked at. */
static rlx_status map_whole(const rlx_program *program, rlx_file_map *out_map) {
    const rlx_copy_file *file = program->file;
    rlx_file_range all = {0, file->bytes};
    return rlx_file_map_ranges(file->descriptor, file->path, &all, 1, out_map);
}

/* A program under a weights budget has neither the plan nor all weights: its file does. */
static rlx_status save_file(saving *self, const char *path) {
    rlx_file_map map = {0};
    rlx_plan *plan = NULL;
    uint64_t offset = 0;
    RLX_TRY(map_whole(self->program, &map));
    rlx_status status = rlx_plan_load(&self->program->allocator, &map, NULL, &plan, &offset);
    if (status == RLX_OK) {
        self->plan = plan;
        self->weights = map.data + offset;
        status = rlx_plan_save_stream(plan, next_piece, self, path);
    }
    rlx_plan_destroy(plan);
    rlx_file_map_close(&map);
    return status;
}

rlx_status rlx_program_save_watched(const rlx_program *program, const char *path,
                                    const rlx_program_options *options) {
    rlx_program_options full = {.size = sizeof full};
    saving self = {.program = program, .options = &full};
    if (program == NULL || path == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "program or path is NULL");
    }
    RLX_TRY(rlx_options_read(options, sizeof full, "program", &full));
    if (rlx_plan_is_streamed(program->plan)) return save_file(&self, path);
    self.plan = program->plan;
    self.weights = program->weights;
    return rlx_plan_save_stream(self.plan, next_piece, &self, path);
}

rlx_status rlx_program_save(const rlx_program *program, const char *path) {
    return rlx_program_save_watched(program, path, NULL);
}

/* The map stays open as long as the program; its weights are never written. */
static void take_weights(rlx_program *program, uint64_t offset) {
    union {
        const uint8_t *read_only;
        void *address;
    } weights;
    if (program->plan->segment_bytes[RLX_SEGMENT_WEIGHTS] == 0) return;
    if (program->map.data == NULL) return; /* all of them are streamed */
    weights.read_only = program->map.data + offset;
    program->weights = weights.address;
}

static rlx_status load(rlx_program *program, const char *path) {
    uint64_t offset = 0;
    RLX_TRY(rlx_file_map_open(path, &program->map));
    RLX_TRY(rlx_plan_load(&program->allocator, &program->map, NULL, &program->plan, &offset));
    RLX_TRY(rlx_program_check(program->device, program->plan));
    take_weights(program, offset);
    return RLX_OK;
}

static rlx_status map_resident(rlx_program *program) {
    const rlx_plan_stream *stream = &program->plan->stream;
    const rlx_copy_file *file = program->file;
    rlx_file_range *ranges = NULL;
    rlx_status status;
    if (stream->pieces.count == 0) return RLX_OK;
    RLX_TRY(rlx_alloc_array(&program->allocator, stream->pieces.count, sizeof *ranges,
                            (void **)&ranges));
    for (uint32_t i = 0; i < stream->pieces.count; i++) {
        const rlx_plan_piece *piece = &stream->pieces.items[i];
        ranges[i] = (rlx_file_range){program->weights_offset + piece->source_offset, piece->bytes};
    }
    status = rlx_file_map_ranges(file->descriptor, file->path, ranges, stream->pieces.count,
                                 &program->map);
    rlx_free(&program->allocator, ranges);
    return status;
}

/* The file is opened once, so that plan, resident weights and reads are of the same one. */
static rlx_status load_for_budget(rlx_program *program, const char *path, uint64_t budget) {
    rlx_file_map map = {0};
    rlx_status status;
    RLX_TRY(rlx_copy_file_open(&program->allocator, path, &program->file));
    RLX_TRY(map_whole(program, &map));
    status =
        rlx_plan_load(&program->allocator, &map, NULL, &program->plan, &program->weights_offset);
    if (status == RLX_OK) status = rlx_plan_stream_weights(program->plan, budget);
    if (status == RLX_OK && !rlx_plan_is_streamed(program->plan)) {
        program->map = map;
        rlx_copy_file_close(program->file);
        program->file = NULL;
        RLX_TRY(rlx_program_check(program->device, program->plan));
        take_weights(program, program->weights_offset);
        return RLX_OK;
    }
    rlx_file_map_close(&map);
    if (status == RLX_OK) status = rlx_program_check(program->device, program->plan);
    if (status == RLX_OK) status = map_resident(program);
    if (status == RLX_OK) take_weights(program, 0);
    return status;
}

rlx_status rlx_program_load(rlx_device *device, const char *path,
                            const rlx_program_options *options, rlx_program **out_program) {
    rlx_program_options full = {.size = sizeof full};
    rlx_program *program = NULL;
    rlx_status status;
    if (device == NULL || path == NULL || out_program == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device, path or out_program is NULL");
    }
    RLX_TRY(rlx_options_read(options, sizeof full, "program", &full));
    RLX_TRY(rlx_program_new(device, &full, &program));
    status = full.weights_budget == 0 ? load(program, path)
                                      : load_for_budget(program, path, full.weights_budget);
    if (status != RLX_OK) {
        rlx_program_release(program);
        return rlx_fail_context(status, "%.300s", path);
    }
    *out_program = program;
    return RLX_OK;
}

bool rlx_program_probe(const char *path) {
    rlx_file_map map = {0};
    if (path == NULL || rlx_file_map_open(path, &map) != RLX_OK) return false;
    bool is_program = rlx_is_program_file(map.data, map.bytes);
    rlx_file_map_close(&map);
    return is_program;
}

rlx_status rlx_program_read_plan(const rlx_allocator *allocator, const char *path,
                                 rlx_plan **out_plan) {
    rlx_file_map map = {0};
    uint64_t weights_offset;
    if (path == NULL || out_plan == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "path or out_plan is NULL");
    }
    RLX_TRY(rlx_file_map_open(path, &map));
    rlx_status status = rlx_plan_load(allocator, &map, NULL, out_plan, &weights_offset);
    rlx_file_map_close(&map);
    return status == RLX_OK ? RLX_OK : rlx_fail_context(status, "%s", path);
}
