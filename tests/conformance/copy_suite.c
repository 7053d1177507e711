/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite of copy engines: see copy_suite.h. */
#include "conformance/copy_suite.h"

#include "support/support.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BYTES = (9 << 20) + 1234, BIG = (1 << 20) + 77 };

static const copy_maker *maker;
static rlx_test_folder folder;
static uint8_t *content; /* of the file */
static const uint64_t long_ns = UINT64_C(30) * 1000000000;

static int make_file(void **state) {
    rlx_test_random random = rlx_test_seed(7);
    (void)state;
    content = malloc(FILE_BYTES);
    if (content == NULL) return -1;
    for (size_t i = 0; i < FILE_BYTES; ++i) {
        content[i] = (uint8_t)rlx_test_next(&random);
    }
    rlx_test_folder_create(&folder);
    rlx_test_write_file(rlx_test_path(&folder, "data"), content, FILE_BYTES);
    return 0;
}

static int remove_file(void **state) {
    (void)state;
    rlx_test_folder_remove(&folder);
    free(content);
    return 0;
}

static void assert_arrived(const void *room, const void *expected, size_t bytes) {
    assert_true(copy_room_holds(maker, room, expected, bytes));
}

/* inline_bytes 1: everything goes the long way. */
static rlx_copy_engine *make_engine(const rlx_copy_hooks *hooks) {
    rlx_copy_options options = {
        .size = sizeof options, .inline_bytes = 1, .depth = 8, .flags = maker->flags};
    rlx_copy_engine *engine = NULL;
    assert_ok(maker->create(NULL, &options, &engine));
    if (hooks != NULL) rlx_copy_set_hooks(engine, hooks);
    return engine;
}

static rlx_copy_file *open_file(const char *name) {
    rlx_copy_file *file = NULL;
    assert_ok(rlx_copy_file_open(NULL, rlx_test_path(&folder, name), &file));
    return file;
}

static rlx_copy_source from(const void *memory) {
    return (rlx_copy_source){.memory = memory};
}

static rlx_copy_source from_file(rlx_copy_file *file, uint64_t offset) {
    return (rlx_copy_source){.file = file, .offset = offset};
}

static void memory_of_every_size_arrives(void **state) {
    static const uint64_t sizes[] = {1, 63, 4096, 65537, BIG, 3 * BIG};
    rlx_copy_engine *engine = make_engine(NULL);
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        uint8_t *destination =
            maker->room == NULL ? rlx_test_guarded((size_t)sizes[i]) : copy_room(maker, 4 * BIG);
        rlx_copy_token token;
        assert_ok(rlx_copy_issue(engine, from(content + i), destination, sizes[i], &token));
        assert_int_equal(token.sequence, i + 1);
        assert_ok(rlx_copy_wait(engine, token));
        assert_arrived(destination, content + i, sizes[i]);
        if (maker->room == NULL) rlx_test_guarded_free(destination);
        if (maker->room != NULL) copy_room_free(maker, destination);
    }
    rlx_copy_engine_destroy(engine);
}

/* Offsets and addresses on a page, off it together, and apart; across the engine's own pieces. */
static void file_ranges_of_every_alignment_arrive(void **state) {
    static const uint64_t offsets[] = {0, 1, 4095, 4096, 4097, 123456, FILE_BYTES - 1};
    static const uint64_t sizes[] = {1, 4096, 70001, BIG, 5 << 20, FILE_BYTES};
    static const uint64_t shifts[] = {0, 1, 4095};
    rlx_copy_engine *engine = make_engine(NULL);
    rlx_copy_file *file = open_file("data");
    static const uint8_t guard = 0x5a;
    uint8_t *whole = copy_room(maker, FILE_BYTES + 3 * 4096), *room = whole;
    (void)state;
    assert_int_equal(rlx_copy_file_bytes(file), FILE_BYTES);
    room += (4096 - (uintptr_t)room % 4096) % 4096;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; ++i) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; ++j) {
            for (size_t k = 0; k < sizeof shifts / sizeof shifts[0]; ++k) {
                uint64_t bytes =
                    sizes[j] < FILE_BYTES - offsets[i] ? sizes[j] : FILE_BYTES - offsets[i];
                uint8_t *destination = room + shifts[k] + 1;
                rlx_copy_token token;
                if (k == 0) destination = room + offsets[i] % 4096;
                copy_room_fill(maker, destination + bytes, guard, 1);
                assert_ok(rlx_copy_issue(engine, from_file(file, offsets[i]), destination, bytes,
                                         &token));
                assert_ok(rlx_copy_wait(engine, token));
                assert_arrived(destination, content + offsets[i], bytes);
                assert_arrived(destination + bytes, &guard, 1);
            }
        }
    }
    copy_room_free(maker, whole);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
}

static void zero_bytes_are_legal_and_done(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    rlx_copy_file *file = open_file("data");
    rlx_copy_token token;
    (void)state;
    assert_ok(rlx_copy_issue(engine, from(NULL), NULL, 0, &token));
    assert_ok(rlx_copy_wait(engine, token));
    assert_ok(rlx_copy_issue(engine, from(content), content, 0, &token));
    assert_ok(rlx_copy_wait(engine, token));
    assert_ok(rlx_copy_issue(engine, from_file(file, FILE_BYTES), NULL, 0, &token));
    assert_ok(rlx_copy_wait_for(engine, token, 0));
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
}

static void waiting_again_and_again_is_allowed(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    uint8_t room[64];
    rlx_copy_token tokens[100];
    bool done = false;
    (void)state;
    for (int i = 0; i < 100; ++i) {
        assert_ok(rlx_copy_issue(engine, from(content), room, sizeof room, &tokens[i]));
        assert_ok(rlx_copy_wait_for(engine, tokens[i], long_ns));
        assert_ok(rlx_copy_wait(engine, tokens[i]));
    }
    for (int i = 0; i < 100; ++i) {
        assert_ok(rlx_copy_wait(engine, tokens[i]));
        assert_ok(rlx_copy_poll(engine, tokens[i], &done));
        assert_true(done);
    }
    rlx_copy_engine_destroy(engine);
}

static void check_refused(rlx_copy_engine *engine, rlx_copy_token token, const char *text) {
    bool done;
    assert_status(RLX_INVALID_ARGUMENT, rlx_copy_wait(engine, token));
    assert_error_has(text);
    assert_status(RLX_INVALID_ARGUMENT, rlx_copy_wait_for(engine, token, 0));
    assert_status(RLX_INVALID_ARGUMENT, rlx_copy_poll(engine, token, &done));
}

static void tokens_that_were_not_given_are_refused(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    rlx_copy_engine *other = make_engine(NULL);
    rlx_copy_token token, foreign;
    uint8_t room[8];
    (void)state;
    check_refused(engine, (rlx_copy_token){0}, "zero token");
    assert_ok(rlx_copy_issue(engine, from(content), room, sizeof room, &token));
    assert_ok(rlx_copy_issue(other, from(content), room, 0, &foreign));
    check_refused(engine, foreign, "given to engine");
    check_refused(engine, (rlx_copy_token){token.engine, token.sequence + 1}, "never issued");
    check_refused(engine, (rlx_copy_token){token.engine, UINT64_MAX}, "never issued");
    check_refused(engine, (rlx_copy_token){token.engine, 0}, "never issued");
    check_refused(engine, (rlx_copy_token){UINT64_MAX, 1}, "given to engine");
    check_refused(NULL, token, "null");
    assert_ok(rlx_copy_wait(engine, token));
    rlx_copy_engine_destroy(engine);
    rlx_copy_engine_destroy(other);
}

static void bad_ranges_are_refused_at_issue(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    rlx_copy_file *file = open_file("data");
    uint8_t room[64] = {0};
    rlx_copy_token token = {0};
    rlx_copy_source both = {.memory = content, .file = file};
    (void)state;
#define REFUSED(status, source, destination, bytes) \
    assert_status((status), rlx_copy_issue(engine, (source), (destination), (bytes), &token))
    REFUSED(RLX_INVALID_ARGUMENT, from(room), room, 1);
    assert_error_has("overlap");
    REFUSED(RLX_INVALID_ARGUMENT, from(room), room + 31, 32);
    REFUSED(RLX_INVALID_ARGUMENT, from(room + 31), room, 32);
    REFUSED(RLX_INVALID_ARGUMENT, from(NULL), room, 1);
    REFUSED(RLX_INVALID_ARGUMENT, from(content), NULL, 1);
    REFUSED(RLX_INVALID_ARGUMENT, both, room, 1);
    REFUSED(RLX_OUT_OF_BOUNDS, from(content), room, UINT64_MAX);
    REFUSED(RLX_OUT_OF_BOUNDS, from_file(file, FILE_BYTES), room, 1);
    assert_error_has("> file");
    REFUSED(RLX_OUT_OF_BOUNDS, from_file(file, UINT64_MAX), room, 1);
    REFUSED(RLX_OUT_OF_BOUNDS, from_file(file, UINT64_MAX - 7), room, 16);
    REFUSED(RLX_OUT_OF_BOUNDS, from_file(file, UINT64_MAX), NULL, 0);
    REFUSED(RLX_OUT_OF_BOUNDS, from_file(file, 1), room, UINT64_MAX);
    assert_int_equal(token.sequence, 0);
    /* Side by side is fine. */
    assert_ok(rlx_copy_issue(engine, from(room), room + 32, 32, &token));
    assert_int_equal(token.sequence, 1);
    assert_status(RLX_INVALID_ARGUMENT, rlx_copy_issue(NULL, from(room), room + 32, 32, &token));
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
}

/* A gate that holds workers until it is opened. */
typedef struct gate {
    _Atomic uint32_t open;
} gate;

static void stand_at_gate(void *user) {
    gate *held = user;
    while (atomic_load(&held->open) == 0) {
        rlx_futex_wait(&held->open, 0, UINT64_MAX);
    }
}

static void open_gate(gate *held) {
    atomic_store(&held->open, 1);
    rlx_futex_wake(&held->open, UINT32_MAX);
}

static void issue_returns_while_the_worker_is_blocked(void **state) {
    gate held = {0};
    rlx_copy_engine *engine = make_engine(&(rlx_copy_hooks){.gate = stand_at_gate, .user = &held});
    rlx_copy_file *file = open_file("data");
    uint8_t *room = copy_room(maker, 2 * BIG);
    rlx_copy_token memory, read;
    bool done = true;
    (void)state;
    if (!maker->has_workers) {
        open_gate(&held);
    }
    assert_ok(rlx_copy_issue(engine, from(content), room, BIG, &memory));
    assert_ok(rlx_copy_issue(engine, from_file(file, 5), room + BIG, BIG, &read));
    if (maker->has_workers) {
        assert_ok(rlx_copy_poll(engine, memory, &done));
        assert_false(done);
        assert_ok(rlx_copy_poll(engine, read, &done));
        assert_false(done);
        assert_status(RLX_TIMEOUT, rlx_copy_wait_for(engine, read, 0));
        assert_status(RLX_TIMEOUT, rlx_copy_wait_for(engine, memory, 1000000));
        assert_error_has("still pending");
    }
    if (maker->helps) {
        assert_ok(rlx_copy_wait(engine, memory)); /* the waiter moved them */
        assert_arrived(room, content, BIG);
    }
    open_gate(&held);
    assert_ok(rlx_copy_wait(engine, read));
    assert_ok(rlx_copy_wait(engine, memory));
    assert_arrived(room, content, BIG);
    assert_arrived(room + BIG, content + 5, BIG);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

static void more_than_its_depth_is_refused_until_the_oldest_is_done(void **state) {
    gate held = {0};
    rlx_copy_engine *engine = make_engine(&(rlx_copy_hooks){.gate = stand_at_gate, .user = &held});
    uint8_t room[9 * 64];
    rlx_copy_token tokens[9];
    (void)state;
    for (int i = 0; i < 8; ++i) {
        assert_ok(rlx_copy_issue(engine, from(content), room + 64 * i, 64, &tokens[i]));
    }
    if (maker->has_workers) {
        assert_status(RLX_BUSY,
                      rlx_copy_issue(engine, from(content), room + 64 * 8, 64, &tokens[8]));
        assert_error_has("copy 1 is pending");
    }
    open_gate(&held);
    assert_ok(rlx_copy_wait(engine, tokens[0]));
    assert_ok(rlx_copy_issue(engine, from(content), room + 64 * 8, 64, &tokens[8]));
    assert_ok(rlx_copy_wait(engine, tokens[8]));
    rlx_copy_engine_destroy(engine);
}

static void destroy_finishes_what_was_issued(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    rlx_copy_file *file = open_file("data");
    uint8_t *room = copy_room(maker, 8 * (size_t)BIG);
    (void)state;
    for (uint64_t i = 0; i < 8; ++i) {
        rlx_copy_token token;
        rlx_copy_source source = i % 2 == 0 ? from(content + i) : from_file(file, i);
        assert_ok(rlx_copy_issue(engine, source, room + i * BIG, BIG, &token));
    }
    rlx_copy_engine_destroy(engine);
    for (uint64_t i = 0; i < 8; ++i) {
        assert_arrived(room + i * BIG, content + i, BIG);
    }
    rlx_copy_engine_destroy(NULL);
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

/* Faults by file offset. */
typedef struct faults {
    uint64_t bad_from, bad_to; /* reads that touch this range fail with `code` */
    int code;
    uint64_t most; /* a read gives no more than this; 0: no limit */
    _Atomic uint32_t refusals;
} faults;

static int64_t inject(void *user, uint64_t offset, uint64_t bytes, int64_t result) {
    faults *wanted = user;
    if (offset < wanted->bad_to && offset + bytes > wanted->bad_from) return -wanted->code;
    if (wanted->most != 0 && result > (int64_t)wanted->most) return (int64_t)wanted->most;
    return result;
}

static void an_input_error_surfaces_at_wait_with_its_cause(void **state) {
    faults wanted = {.bad_from = 1 << 20, .bad_to = (1 << 20) + 1, .code = EIO};
    rlx_copy_engine *engine = make_engine(&(rlx_copy_hooks){.result = inject, .user = &wanted});
    rlx_copy_file *file = open_file("data");
    uint8_t *room = copy_room(maker, FILE_BYTES);
    rlx_copy_token bad, good;
    bool done = false;
    (void)state;
    assert_ok(rlx_copy_issue(engine, from_file(file, 0), room, 8 << 20, &bad));
    for (int i = 0; i < 3; ++i) {
        assert_status(RLX_IO, rlx_copy_wait(engine, bad));
        assert_error_has("cannot read");
        assert_error_has("data");
        assert_error_has(strerror(EIO));
        assert_int_equal(rlx_last_error_detail()->os_error, EIO);
    }
    assert_ok(rlx_copy_poll(engine, bad, &done));
    assert_true(done);
    /* The engine goes on, and the failure is not forgotten. */
    for (int i = 0; i < 20; ++i) {
        assert_ok(rlx_copy_issue(engine, from_file(file, 5 << 20), room, 4096, &good));
        assert_ok(rlx_copy_wait(engine, good));
        assert_arrived(room, content + (5 << 20), 4096);
    }
    assert_status(RLX_IO, rlx_copy_wait_for(engine, bad, 0));
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

static void an_engine_that_fails_too_often_says_so(void **state) {
    faults wanted = {.bad_to = UINT64_MAX, .code = EIO};
    rlx_copy_engine *engine = make_engine(&(rlx_copy_hooks){.result = inject, .user = &wanted});
    rlx_copy_file *file = open_file("data");
    uint8_t room[16];
    rlx_copy_token token = {0};
    (void)state;
    for (int i = 0; i < 32; ++i) {
        assert_ok(rlx_copy_issue(engine, from_file(file, 0), room, sizeof room, &token));
        assert_status(RLX_IO, rlx_copy_wait(engine, token));
    }
    assert_status(RLX_IO, rlx_copy_issue(engine, from(content), room, sizeof room, &token));
    assert_error_has("32 copies of this engine failed, the first: ");
    assert_error_has(strerror(EIO));
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
}

static void short_and_interrupted_reads_are_continued(void **state) {
    static const uint64_t most[] = {4096, 5000, 65536};
    rlx_copy_file *file = open_file("data");
    uint8_t *room = copy_room(maker, BIG);
    (void)state;
    for (size_t i = 0; i < 3; ++i) {
        faults wanted = {.most = most[i]};
        rlx_copy_engine *engine = make_engine(&(rlx_copy_hooks){.result = inject, .user = &wanted});
        rlx_copy_token token;
        copy_room_fill(maker, room, 0, BIG);
        assert_ok(rlx_copy_issue(engine, from_file(file, 777 * i), room, BIG, &token));
        assert_ok(rlx_copy_wait(engine, token));
        assert_arrived(room, content + 777 * i, BIG);
        rlx_copy_engine_destroy(engine);
    }
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

static int64_t refuse_direct(void *user, uint64_t offset, uint64_t bytes, int64_t result) {
    (void)offset;
    if (bytes >= 65536 && atomic_fetch_add(&((faults *)user)->refusals, 1) == 0) return -EINVAL;
    return atomic_load(&((faults *)user)->refusals) == 2 ? -EINTR : result;
}

/* For engines that do not read past the page cache EINVAL is an error. */
static void a_refused_direct_read_goes_through_the_page_cache(void **state) {
    faults wanted = {0};
    rlx_copy_engine *engine =
        make_engine(&(rlx_copy_hooks){.result = refuse_direct, .user = &wanted});
    rlx_copy_file *file = open_file("data");
    uint8_t *room = copy_room(maker, BIG);
    rlx_copy_token token;
    (void)state;
    assert_ok(rlx_copy_issue(engine, from_file(file, 3), room, BIG, &token));
    if (maker->reads_past_cache && (maker->flags & RLX_COPY_BUFFERED) == 0) {
        assert_ok(rlx_copy_wait(engine, token));
        assert_arrived(room, content + 3, BIG);
    } else {
        assert_status(RLX_IO, rlx_copy_wait(engine, token));
    }
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

static void a_file_that_shrank_is_an_error_at_wait(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    uint8_t *room = copy_room(maker, BIG);
    rlx_copy_file *file;
    rlx_copy_token token;
    (void)state;
    rlx_test_write_file(rlx_test_path(&folder, "short"), content, BIG);
    file = open_file("short");
    assert_int_equal(truncate(rlx_test_path(&folder, "short"), 100001), 0);
    assert_ok(rlx_copy_issue(engine, from_file(file, 0), room, BIG, &token));
    assert_status(RLX_IO, rlx_copy_wait(engine, token));
    assert_error_has("ends at byte 100001");
    assert_ok(rlx_copy_issue(engine, from_file(file, 0), room, 100001, &token));
    assert_ok(rlx_copy_wait(engine, token));
    assert_arrived(room, content, 100001);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

/* The worker stands still between the issue, which saw the whole file, and its read. */
static void a_file_that_shrinks_under_a_read_is_an_error_at_wait(void **state) {
    gate held = {0};
    rlx_copy_engine *engine = make_engine(&(rlx_copy_hooks){.gate = stand_at_gate, .user = &held});
    uint8_t *room = copy_room(maker, 5 * (size_t)BIG), after[4999];
    rlx_copy_file *file;
    rlx_copy_token tokens[2];
    (void)state;
    rlx_test_write_file(rlx_test_path(&folder, "shrinks"), content, 5 * (size_t)BIG);
    file = open_file("shrinks");
    if (maker->has_workers) {
        assert_ok(rlx_copy_issue(engine, from_file(file, 0), room, 5 * (uint64_t)BIG, &tokens[0]));
    }
    assert_int_equal(truncate(rlx_test_path(&folder, "shrinks"), sizeof after), 0);
    if (!maker->has_workers) {
        assert_ok(rlx_copy_issue(engine, from_file(file, 0), room, 5 * (uint64_t)BIG, &tokens[0]));
    }
    assert_ok(rlx_copy_issue(engine, from_file(file, 0), after, sizeof after, &tokens[1]));
    open_gate(&held);
    assert_status(RLX_IO, rlx_copy_wait(engine, tokens[0]));
    assert_error_has("shrinks: ends at byte ");
    assert_ok(rlx_copy_wait(engine, tokens[1]));
    assert_memory_equal(after, content, sizeof after);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    copy_room_free(maker, room);
}

/* Nobody waits: the failures of reads in flight have nowhere to go, and nothing leaks or hangs. */
static void destroy_finishes_reads_that_fail(void **state) {
    gate held = {0};
    faults wanted = {.bad_to = UINT64_MAX, .code = EIO};
    uint8_t *room = copy_room(maker, 8 * (size_t)BIG);
    (void)state;
    for (int round = 0; round < 2; ++round) {
        rlx_copy_hooks failing = {.result = inject, .user = &wanted};
        rlx_copy_hooks waiting = {.gate = stand_at_gate, .user = &held};
        rlx_copy_engine *engine = make_engine(round == 0 ? &failing : &waiting);
        rlx_copy_file *file = open_file("data");
        for (uint64_t i = 0; i < 8; ++i) {
            rlx_copy_token token;
            if (!maker->has_workers) open_gate(&held);
            assert_ok(rlx_copy_issue(engine, from_file(file, i), room + i * BIG, BIG, &token));
        }
        open_gate(&held);
        rlx_copy_engine_destroy(engine);
        rlx_copy_file_close(file);
    }
    assert_arrived(room, content, BIG);
    copy_room_free(maker, room);
}

static rlx_status create_and_copy(const rlx_allocator *allocator, void *argument) {
    rlx_copy_options options = {.size = sizeof options, .threads = 2, .flags = maker->flags};
    rlx_copy_engine *engine = NULL;
    rlx_copy_file *file = NULL;
    rlx_copy_token token;
    uint8_t *room = argument;
    rlx_status status = maker->create(allocator, &options, &engine);
    if (status == RLX_OK) {
        status = rlx_copy_file_open(allocator, rlx_test_path(&folder, "data"), &file);
    }
    if (status == RLX_OK) status = rlx_copy_issue(engine, from_file(file, 9), room, BIG, &token);
    if (status == RLX_OK) status = rlx_copy_wait(engine, token);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    return status;
}

static void every_allocation_may_fail(void **state) {
    uint8_t *room = copy_room(maker, BIG);
    (void)state;
    assert_true(rlx_test_every_allocation_fails(create_and_copy, room) >= 3);
    copy_room_free(maker, room);
}

static void impossible_options_are_refused(void **state) {
    rlx_copy_engine *engine = NULL;
    rlx_copy_options options = {.size = sizeof options, .depth = 5000};
    (void)state;
    assert_status(RLX_INVALID_ARGUMENT, maker->create(NULL, &options, &engine));
    options = (rlx_copy_options){.size = sizeof options, .threads = 65};
    assert_status(RLX_INVALID_ARGUMENT, maker->create(NULL, &options, &engine));
    options = (rlx_copy_options){.size = sizeof options, .flags = 64};
    assert_status(RLX_INVALID_ARGUMENT, maker->create(NULL, &options, &engine));
    assert_error_has("0x40");
    options = (rlx_copy_options){.size = 1};
    assert_status(RLX_INVALID_ARGUMENT, maker->create(NULL, &options, &engine));
    assert_status(RLX_INVALID_ARGUMENT, maker->create(NULL, NULL, NULL));
    assert_null(engine);
}

/* Four threads on one engine; each returns what it saw. */
typedef struct client {
    rlx_copy_engine *engine;
    rlx_copy_file *file;
    uint8_t *room;
    uint64_t seed, wrong;
} client;

static void *use_engine(void *argument) {
    client *self = argument;
    rlx_test_random random = rlx_test_seed(self->seed);
    uint8_t *room = self->room;
    for (int i = 0; i < 200 && room != NULL; ++i) {
        uint64_t offset = rlx_test_below(&random, 1 << 20);
        uint64_t bytes = rlx_test_below(&random, i % 16 == 0 ? 400000 : 5000);
        rlx_copy_source source =
            i % 3 == 0 ? from_file(self->file, offset) : from(content + offset);
        rlx_copy_token token;
        rlx_status status = rlx_copy_issue(self->engine, source, room, bytes, &token);
        if (status == RLX_BUSY) continue;
        if (status == RLX_OK && i % 5 == 0) {
            while (rlx_copy_wait_for(self->engine, token, 1000) == RLX_TIMEOUT) {
            }
        }
        if (status == RLX_OK) status = rlx_copy_wait(self->engine, token);
        if (status != RLX_OK || !copy_room_holds(maker, room, content + offset, bytes)) {
            self->wrong++;
        }
    }
    return NULL;
}

static void several_threads_share_an_engine(void **state) {
    rlx_copy_engine *engine = make_engine(NULL);
    rlx_copy_file *file = open_file("data");
    client clients[4];
    pthread_t threads[4];
    uint8_t *room = copy_room(maker, 4 * 400000);
    (void)state;
    for (uint64_t i = 0; i < 4; ++i) {
        clients[i] = (client){engine, file, room + i * 400000, i, 0};
        assert_ok(rlx_thread_start(&threads[i], use_engine, &clients[i]));
    }
    for (uint64_t i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    for (uint64_t i = 0; i < 4; ++i) {
        assert_int_equal(clients[i].wrong, 0);
    }
    copy_room_free(maker, room);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
}

static void random_sequences_agree_with_the_model(void **state) {
    (void)state;
    uint64_t count = maker->sequences / RLX_TEST_SHARE;
    assert_true(copy_suite_random(maker, 11, count) > count);
}

int copy_suite_run(const copy_maker *which) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_every_size_arrives),
        cmocka_unit_test(file_ranges_of_every_alignment_arrive),
        cmocka_unit_test(zero_bytes_are_legal_and_done),
        cmocka_unit_test(waiting_again_and_again_is_allowed),
        cmocka_unit_test(tokens_that_were_not_given_are_refused),
        cmocka_unit_test(bad_ranges_are_refused_at_issue),
        cmocka_unit_test(issue_returns_while_the_worker_is_blocked),
        cmocka_unit_test(more_than_its_depth_is_refused_until_the_oldest_is_done),
        cmocka_unit_test(destroy_finishes_what_was_issued),
        cmocka_unit_test(an_input_error_surfaces_at_wait_with_its_cause),
        cmocka_unit_test(an_engine_that_fails_too_often_says_so),
        cmocka_unit_test(short_and_interrupted_reads_are_continued),
        cmocka_unit_test(a_refused_direct_read_goes_through_the_page_cache),
        cmocka_unit_test(a_file_that_shrank_is_an_error_at_wait),
        cmocka_unit_test(a_file_that_shrinks_under_a_read_is_an_error_at_wait),
        cmocka_unit_test(destroy_finishes_reads_that_fail),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(several_threads_share_an_engine),
        cmocka_unit_test(random_sequences_agree_with_the_model),
    };
    int failed;
    maker = which;
    failed = cmocka_run_group_tests_name(which->name, tests, make_file, remove_file);
    content = NULL;
    return failed;
}
