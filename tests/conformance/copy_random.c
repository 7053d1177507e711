/* SPDX-License-Identifier: Apache-2.0 */
/* Random issues, waits, polls and destructions of copy engines against a model: see copy_suite.h.
 */
#include "conformance/copy_suite.h"

#include "support/support.h"

#include <stdlib.h>

enum { MODEL_COPIES = 64, MODEL_BYTES = 9000, MODEL_OFFSETS = 100000 };

static const copy_maker *maker;
static uint8_t content[MODEL_OFFSETS + MODEL_BYTES]; /* of the file */

/* The model: each copy has a destination of its own; after it was seen done, its bytes are there
 * and stay. */
typedef struct model {
    rlx_copy_engine *engine;
    rlx_copy_file *file;
    rlx_test_random random;
    uint64_t issued, checked;
    rlx_copy_token tokens[MODEL_COPIES];
    uint64_t offsets[MODEL_COPIES], bytes[MODEL_COPIES];
    bool is_done[MODEL_COPIES];
    uint8_t *room; /* MODEL_COPIES x MODEL_BYTES */
} model;

static void make_content(model *self, rlx_test_folder *folder) {
    for (size_t i = 0; i < sizeof content; ++i) {
        content[i] = (uint8_t)rlx_test_next(&self->random);
    }
    rlx_test_folder_create(folder);
    rlx_test_write_file(rlx_test_path(folder, "data"), content, sizeof content);
    assert_ok(rlx_copy_file_open(NULL, rlx_test_path(folder, "data"), &self->file));
}

static void model_open(model *self) {
    rlx_copy_options options = {.size = sizeof options, .flags = maker->flags};
    options.inline_bytes = rlx_test_below(&self->random, 2) == 0 ? 1 : 4096;
    options.threads = 1 + (uint32_t)rlx_test_below(&self->random, 2);
    options.depth = MODEL_COPIES >> rlx_test_below(&self->random, 4);
    assert_ok(maker->create(NULL, &options, &self->engine));
    self->issued = 0;
}

static void model_seen_done(model *self, uint64_t copy) {
    self->is_done[copy] = true;
    self->checked++;
    assert_memory_equal(self->room + copy * MODEL_BYTES, content + self->offsets[copy],
                        self->bytes[copy]);
}

static void model_close(model *self) {
    rlx_copy_engine_destroy(self->engine);
    for (uint64_t i = 0; i < self->issued; ++i) {
        model_seen_done(self, i);
    }
}

static void model_issue(model *self) {
    uint64_t copy = self->issued;
    uint64_t offset = rlx_test_below(&self->random, MODEL_OFFSETS);
    uint64_t bytes = rlx_test_below(&self->random, MODEL_BYTES);
    bool is_file = rlx_test_below(&self->random, 4) == 0;
    rlx_copy_source source = {.memory = is_file ? NULL : content + offset,
                              .file = is_file ? self->file : NULL,
                              .offset = offset};
    rlx_status status;
    if (copy == MODEL_COPIES) {
        model_close(self);
        model_open(self);
        return;
    }
    status = rlx_copy_issue(self->engine, source, self->room + copy * MODEL_BYTES, bytes,
                            &self->tokens[copy]);
    if (status == RLX_BUSY) return; /* some older copy is pending: allowed at any time */
    assert_ok(status);
    assert_int_equal(self->tokens[copy].sequence, copy + 1);
    self->offsets[copy] = offset;
    self->bytes[copy] = bytes;
    self->is_done[copy] = false;
    self->issued++;
}

static void model_look(model *self, uint64_t copy) {
    rlx_copy_token token = self->tokens[copy];
    bool done = true;
    switch (rlx_test_below(&self->random, 4)) {
    case 0:
        assert_ok(rlx_copy_wait(self->engine, token));
        break;
    case 1: {
        rlx_status status = rlx_copy_wait_for(self->engine, token, 2000);
        done = status == RLX_OK;
        if (!done) assert_status(RLX_TIMEOUT, status);
        break;
    }
    case 2:
        assert_ok(rlx_copy_poll(self->engine, token, &done));
        break;
    default:
        token.sequence = self->issued + 1 + rlx_test_below(&self->random, 3);
        assert_status(RLX_INVALID_ARGUMENT, rlx_copy_wait(self->engine, token));
        return;
    }
    if (done) model_seen_done(self, copy);
    assert_true(done || !self->is_done[copy]);
}

uint64_t copy_suite_random(const copy_maker *which, uint64_t seed, uint64_t count) {
    model self = {.random = rlx_test_seed(seed)};
    rlx_test_folder folder;
    maker = which;
    make_content(&self, &folder);
    self.room = malloc((size_t)MODEL_COPIES * MODEL_BYTES);
    assert_non_null(self.room);
    model_open(&self);
    for (uint64_t step = 0; step < count; ++step) {
        uint64_t roll = rlx_test_below(&self.random, 100);
        if (roll == 0) {
            model_close(&self);
            model_open(&self);
        } else if (roll < 50 || self.issued == 0) {
            model_issue(&self);
        } else {
            model_look(&self, rlx_test_below(&self.random, self.issued));
        }
    }
    model_close(&self);
    free(self.room);
    rlx_copy_file_close(self.file);
    rlx_test_folder_remove(&folder);
    return self.checked;
}
