/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator that fails the n-th time. Each block carries its size in front, so that live bytes
 * are known and fresh memory can be poisoned. */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
    void *start; /* what free() wants */
    size_t bytes;
} block_header;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool count_allocation(rlx_test_failing_allocator *failing, size_t bytes) {
    bool grant;
    pthread_mutex_lock(&lock);
    grant = failing->call_count++ != failing->fail_at;
    if (grant) {
        ++failing->live_count;
        failing->live_bytes += bytes;
        if (failing->live_bytes > failing->peak_bytes) failing->peak_bytes = failing->live_bytes;
    }
    pthread_mutex_unlock(&lock);
    return grant;
}

static void *failing_allocate(void *user, size_t bytes, size_t alignment) {
    unsigned char *start, *memory;
    block_header header;
    if (!count_allocation(user, bytes)) return NULL;
    start = malloc(sizeof header + alignment + bytes);
    if (start == NULL) abort(); /* the test machine itself is out of memory */
    memory = start + sizeof header;
    memory += (alignment - (uintptr_t)memory % alignment) % alignment;
    header = (block_header){start, bytes};
    memcpy(memory - sizeof header, &header, sizeof header);
    memset(memory, 0xa5, bytes); /* nobody may count on zeros */
    return memory;
}

static void failing_release(void *user, void *memory) {
    rlx_test_failing_allocator *failing = user;
    block_header header;
    memcpy(&header, (unsigned char *)memory - sizeof header, sizeof header);
    pthread_mutex_lock(&lock);
    --failing->live_count;
    failing->live_bytes -= header.bytes;
    pthread_mutex_unlock(&lock);
    free(header.start);
}

void rlx_test_failing_allocator_init(rlx_test_failing_allocator *failing, uint64_t fail_at) {
    *failing = (rlx_test_failing_allocator){.fail_at = fail_at};
    failing->allocator = (rlx_allocator){failing_allocate, failing_release, failing};
}

static void check_failed_run(const rlx_test_failing_allocator *failing, rlx_status status) {
    if (status == RLX_OUT_OF_MEMORY && failing->live_count == 0 && rlx_last_error()[0] != '\0') {
        return;
    }
    print_error("with allocation %" PRIu64 " failing: status \"%s\", %" PRIu64
                " blocks leaked, text \"%s\"\n",
                failing->fail_at, rlx_status_text(status), failing->live_count, rlx_last_error());
    fail();
}

uint64_t rlx_test_every_allocation_fails(rlx_test_body body, void *argument) {
    for (uint64_t n = 0;; ++n) {
        rlx_test_failing_allocator failing;
        rlx_status status;
        rlx_test_failing_allocator_init(&failing, n);
        status = body(&failing.allocator, argument);
        if (failing.call_count > n) {
            check_failed_run(&failing, status);
            continue;
        }
        assert_ok(status);
        assert_int_equal(failing.live_count, 0);
        return n;
    }
}
