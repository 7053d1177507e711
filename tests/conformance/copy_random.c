/* SPDX-License-Identifier: Apache-2.0 */
/* Random issues, waits, polls and destructions of copy engines against a model: see copy_suite.h.
 */
#include "conformance/copy_suite.h"

#include "support/support.h"

#include <errno.h>
#include <stdlib.h>

enum { MODEL_COPIES = 24, MODEL_STEPS = 40, MODEL_BYTES = 9000, MODEL_OFFSETS = 100000 };

static const copy_maker *maker;
static uint8_t content[MODEL_OFFSETS + MODEL_BYTES]; /* of the file */

void *copy_room(const copy_maker *of, size_t bytes) {
    return of->room != NULL ? of->room(bytes) : malloc(bytes);
}

void copy_room_free(const copy_maker *of, void *room) {
    if (of->room == NULL) free(room);
    if (of->room != NULL) (void)of->room(0);
}

void copy_room_fill(const copy_maker *of, void *room, uint8_t value, size_t bytes) {
    uint8_t *values = of->put != NULL ? malloc(bytes) : room;
    if (values == NULL) return;
    memset(values, value, bytes);
    if (of->put == NULL) return;
    of->put(room, values, bytes);
    free(values);
}

bool copy_room_holds(const copy_maker *of, const void *room, const void *expected, size_t bytes) {
    uint8_t *seen = of->look != NULL ? malloc(bytes + 1) : NULL;
    bool is_equal;
    if (of->look == NULL) return memcmp(room, expected, bytes) == 0;
    if (seen == NULL) return false;
    of->look(room, seen, bytes);
    is_equal = memcmp(seen, expected, bytes) == 0;
    free(seen);
    return is_equal;
}

/* What a disk does wrong in one sequence: a range that cannot be read, and reads that end early. */
typedef struct faults {
    uint64_t bad_from, bad_to;
    int64_t most; /* bytes of one read; 0: no limit */
} faults;

/* The model: each copy has a destination of its own; after it was seen done, its bytes are there
 * and stay, or (it touches what cannot be read) every wait says so. */
typedef struct model {
    rlx_copy_engine *engine;
    rlx_copy_file *file;
    rlx_test_random random;
    faults faults;
    uint64_t issued, checked;
    rlx_copy_token tokens[MODEL_COPIES];
    uint64_t offsets[MODEL_COPIES], bytes[MODEL_COPIES];
    bool is_done[MODEL_COPIES], is_bad[MODEL_COPIES];
    uint8_t *room; /* MODEL_COPIES x MODEL_BYTES */
} model;

static int64_t inject(void *user, uint64_t offset, uint64_t bytes, int64_t result) {
    const faults *wanted = user;
    if (offset < wanted->bad_to && offset + bytes > wanted->bad_from) return -EIO;
    return wanted->most != 0 && result > wanted->most ? wanted->most : result;
}

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
    rlx_copy_hooks hooks = {.result = inject, .user = &self->faults};
    options.inline_bytes = rlx_test_below(&self->random, 2) == 0 ? 1 : 4096;
    options.threads = 1 + (uint32_t)rlx_test_below(&self->random, 2);
    options.depth = 32u >> rlx_test_below(&self->random, 5);
    self->faults = (faults){0};
    if (rlx_test_below(&self->random, 2) == 0) {
        self->faults.bad_from = rlx_test_below(&self->random, MODEL_OFFSETS);
        self->faults.bad_to = self->faults.bad_from + rlx_test_below(&self->random, 20000);
        self->faults.most = (int64_t)rlx_test_below(&self->random, 5000);
    }
    assert_ok(maker->create(NULL, &options, &self->engine));
    rlx_copy_set_hooks(self->engine, &hooks);
    self->issued = 0;
}

static void model_seen_done(model *self, uint64_t copy) {
    self->is_done[copy] = true;
    self->checked++;
    if (self->is_bad[copy]) return; /* its bytes may be anything */
    assert_true(copy_room_holds(maker, self->room + copy * MODEL_BYTES,
                                content + self->offsets[copy], self->bytes[copy]));
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
    if (copy == MODEL_COPIES) return;
    status = rlx_copy_issue(self->engine, source, self->room + copy * MODEL_BYTES, bytes,
                            &self->tokens[copy]);
    if (status == RLX_BUSY) return; /* some older copy is pending: allowed at any time */
    assert_ok(status);
    assert_int_equal(self->tokens[copy].sequence, copy + 1);
    self->offsets[copy] = offset;
    self->bytes[copy] = bytes;
    self->is_done[copy] = false;
    self->is_bad[copy] = is_file && bytes != 0 && offset < self->faults.bad_to &&
                         offset + bytes > self->faults.bad_from;
    self->issued++;
}

static void model_wait(model *self, uint64_t copy, uint64_t timeout_ns, bool *out_done) {
    rlx_status status = rlx_copy_wait_for(self->engine, self->tokens[copy], timeout_ns);
    *out_done = status != RLX_TIMEOUT;
    if (!*out_done) {
        assert_true(timeout_ns != UINT64_MAX);
    } else if (self->is_bad[copy]) {
        assert_status(RLX_IO, status);
        assert_error_has(strerror(EIO));
    } else {
        assert_ok(status);
    }
}

static void model_look(model *self, uint64_t copy) {
    rlx_copy_token token = self->tokens[copy];
    bool done = true;
    switch (rlx_test_below(&self->random, 4)) {
    case 0:
        model_wait(self, copy, UINT64_MAX, &done);
        break;
    case 1:
        model_wait(self, copy, 2000, &done);
        break;
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

/* One engine from its creation to its end, with work in flight or without. */
static void model_sequence(model *self) {
    uint64_t steps = rlx_test_below(&self->random, MODEL_STEPS);
    model_open(self);
    for (uint64_t step = 0; step < steps; ++step) {
        if (self->issued == 0 || rlx_test_below(&self->random, 2) == 0) {
            model_issue(self);
        } else {
            model_look(self, rlx_test_below(&self->random, self->issued));
        }
    }
    model_close(self);
}

uint64_t copy_suite_random(const copy_maker *which, uint64_t seed, uint64_t count) {
    model self = {.random = rlx_test_seed(seed)};
    rlx_test_folder folder;
    maker = which;
    make_content(&self, &folder);
    self.room = copy_room(maker, (size_t)MODEL_COPIES * MODEL_BYTES);
    assert_non_null(self.room);
    for (uint64_t i = 0; i < count; ++i) {
        model_sequence(&self);
    }
    copy_room_free(maker, self.room);
    rlx_copy_file_close(self.file);
    rlx_test_folder_remove(&folder);
    return self.checked;
}
