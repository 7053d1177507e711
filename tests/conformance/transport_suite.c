/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite of transports: see transport_suite.h. */
#include "conformance/transport_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool transport_check(transport_view *view, bool holds, const char *what, const char *file,
                     int line) {
    if (holds) return true;
    if (!view->has_failed) {
        snprintf(view->text, sizeof view->text, "%s:%d: rank %u of %u: not so: %s (last error: %s)",
                 file, line, view->rank, view->count, what, rlx_last_error());
    }
    view->has_failed = true;
    return false;
}

/* getters and one-sided copies --------------------------------------------------------------- */

static void a_fresh_heap_is_zero_and_the_getters_agree(transport_view *view) {
    rlx_transport *t = view->transport;
    const uint8_t *heap = rlx_transport_address(t, view->rank);
    CHECK(rlx_transport_rank(t) == view->rank);
    CHECK(rlx_transport_rank_count(t) == view->count);
    CHECK(rlx_transport_heap_bytes(t) == TRANSPORT_HEAP_BYTES);
    CHECK(rlx_transport_name(t)[0] != '\0');
    CHECK(heap != NULL && (uintptr_t)heap % 4096 == 0);
    CHECK(rlx_transport_address(t, view->count) == NULL);
    for (uint32_t i = 0; i < TRANSPORT_HEAP_BYTES; ++i)
        CHECK(heap[i] == 0);
    CHECK(rlx_transport_rank(NULL) == 0 && rlx_transport_address(NULL, 0) == NULL);
    CHECK_OK(rlx_transport_check(t));
}

static void what_is_put_is_what_is_got(transport_view *view) {
    enum { BYTES = 70000 };
    rlx_transport *t = view->transport;
    uint32_t next = (view->rank + 1) % view->count;
    uint8_t *data = malloc(BYTES), *back = malloc(BYTES);
    CHECK(data != NULL && back != NULL);
    for (uint32_t i = 0; i < BYTES; ++i)
        data[i] = (uint8_t)(i * 7 + view->rank);
    CHECK_OK(rlx_transport_put(t, (rlx_symmetric_buffer){next, 128, BYTES}, data, BYTES));
    CHECK_OK(rlx_transport_get(t, (rlx_symmetric_buffer){next, 128, BYTES}, back, BYTES));
    CHECK(memcmp(data, back, BYTES) == 0);
    CHECK_OK(rlx_transport_put_start(t, (rlx_symmetric_buffer){next, 200000, 99}, data, 99));
    CHECK_OK(rlx_transport_fence(t));
    CHECK_OK(rlx_transport_quiet(t));
    CHECK_OK(rlx_transport_barrier(t));
    for (uint32_t r = 0; r < view->count; ++r) {
        uint32_t from = (r + view->count - 1) % view->count;
        memset(back, 0, BYTES);
        CHECK_OK(rlx_transport_get_start(t, (rlx_symmetric_buffer){r, 128, BYTES}, back, BYTES));
        CHECK_OK(rlx_transport_quiet(t));
        for (uint32_t i = 0; i < BYTES; ++i)
            CHECK(back[i] == (uint8_t)(i * 7 + from));
        CHECK_OK(rlx_transport_get(t, (rlx_symmetric_buffer){r, 200000, 99}, back, 99));
        CHECK(back[98] == (uint8_t)(98 * 7 + from));
    }
    free(data);
    free(back);
}

static void nothing_at_the_end_of_the_heap_is_legal(transport_view *view) {
    rlx_transport *t = view->transport;
    rlx_symmetric_buffer end = {.offset = TRANSPORT_HEAP_BYTES};
    CHECK_OK(rlx_transport_put(t, end, NULL, 0));
    CHECK_OK(rlx_transport_get(t, end, NULL, 0));
}

static void wrong_buffers_are_refused_in_order_with_their_facts(transport_view *view) {
    rlx_transport *t = view->transport;
    const rlx_error_detail *detail;
    uint8_t room[8] = {0};
    const uint64_t heap = TRANSPORT_HEAP_BYTES;
    CHECK_STATUS(RLX_UNKNOWN_RANK,
                 rlx_transport_put(t, (rlx_symmetric_buffer){view->count, heap, 9}, room, 8));
    detail = rlx_last_error_detail();
    CHECK(detail->rank == view->count && detail->rank_count == view->count);
    CHECK_STATUS(RLX_OUT_OF_BOUNDS,
                 rlx_transport_put(t, (rlx_symmetric_buffer){0, heap - 4, 9}, room, 8));
    detail = rlx_last_error_detail();
    CHECK(detail->rank == 0 && detail->offset == heap - 4 && detail->bytes == 9 &&
          detail->limit == heap);
    CHECK(strstr(rlx_last_error(), "offset 1048572 + bytes 9 > heap 1048576") != NULL);
    CHECK_STATUS(RLX_OUT_OF_BOUNDS,
                 rlx_transport_get(t, (rlx_symmetric_buffer){0, UINT64_MAX, 8}, room, 8));
    CHECK_STATUS(RLX_OUT_OF_BOUNDS,
                 rlx_transport_get(t, (rlx_symmetric_buffer){0, 8, UINT64_MAX - 4}, room, 8));
    CHECK_STATUS(RLX_LENGTH_MISMATCH,
                 rlx_transport_get(t, (rlx_symmetric_buffer){0, 0, 7}, room, 8));
    detail = rlx_last_error_detail();
    CHECK(detail->expected == 7 && detail->got == 8);
    CHECK_STATUS(RLX_INVALID_ARGUMENT,
                 rlx_transport_get(t, (rlx_symmetric_buffer){0, 0, 8}, NULL, 8));
    CHECK_STATUS(RLX_INVALID_ARGUMENT,
                 rlx_transport_put(NULL, (rlx_symmetric_buffer){0, 0, 8}, room, 8));
    CHECK_STATUS(RLX_INVALID_ARGUMENT,
                 rlx_transport_atomic_add(t, (rlx_symmetric_buffer){0, 4, 8}, 1));
    CHECK_STATUS(RLX_LENGTH_MISMATCH,
                 rlx_transport_atomic_add(t, (rlx_symmetric_buffer){0, 8, 4}, 1));
    CHECK_STATUS(RLX_OUT_OF_BOUNDS, rlx_transport_wait_until(t, heap, RLX_COMPARE_EQ, 0, NULL));
}

/* Numbers near every edge, against the rule itself. */
static void any_buffer_is_taken_or_refused_by_the_rule(transport_view *view) {
    static const uint64_t edges[] = {
        0, 1, 8, TRANSPORT_HEAP_BYTES, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
    enum { EDGES = sizeof edges / sizeof *edges };
    uint8_t *room = calloc(1, TRANSPORT_HEAP_BYTES + 16);
    uint64_t state = 1 + view->rank;
    CHECK(room != NULL);
    for (uint32_t i = 0; i < 20000; ++i) {
        uint64_t numbers[2];
        for (int k = 0; k < 2; ++k) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            numbers[k] = edges[(state >> 33) % EDGES] + (state >> 40) % 17 - 8;
        }
        uint32_t rank = (uint32_t)(state >> 50) % (view->count + 2);
        rlx_symmetric_buffer buffer = {rank, numbers[0], numbers[1]};
        bool fits = buffer.bytes <= TRANSPORT_HEAP_BYTES &&
                    buffer.offset <= TRANSPORT_HEAP_BYTES - buffer.bytes;
        rlx_status expected = rank >= view->count ? RLX_UNKNOWN_RANK
                              : !fits             ? RLX_OUT_OF_BOUNDS
                                                  : RLX_OK;
        CHECK_STATUS(expected, rlx_transport_get(view->transport, buffer, room, buffer.bytes));
    }
    free(room);
}

/* signals and atomics -------------------------------------------------------------------------- */

static void a_signal_shows_the_bytes_put_before_it(transport_view *view) {
    enum { ROUNDS = 200, BYTES = 4096, SIGNAL = 8, DATA = 4096 };
    rlx_transport *t = view->transport;
    uint32_t next = (view->rank + 1) % view->count;
    const uint8_t *mine = (const uint8_t *)rlx_transport_address(t, view->rank) + DATA;
    uint8_t data[BYTES];
    uint64_t seen = 0;
    for (uint32_t round = 1; round <= ROUNDS; ++round) {
        memset(data, (int)(round + view->rank), BYTES);
        CHECK_OK(rlx_transport_put_signal(t, (rlx_symmetric_buffer){next, DATA, BYTES}, data, BYTES,
                                          SIGNAL, round % 2 ? RLX_SIGNAL_SET : RLX_SIGNAL_ADD,
                                          round % 2 ? round : 1));
        CHECK_OK(rlx_transport_wait_until(t, SIGNAL, RLX_COMPARE_GE, round, &seen));
        CHECK(seen == round);
        uint8_t from = (uint8_t)(round + (view->rank + view->count - 1) % view->count);
        for (uint32_t i = 0; i < BYTES; ++i)
            CHECK(mine[i] == from);
        CHECK_OK(rlx_transport_barrier(t));
    }
}

static void every_comparison_waits_for_what_it_says(transport_view *view) {
    rlx_transport *t = view->transport;
    rlx_symmetric_buffer own = {view->rank, 64, 8};
    CHECK_OK(rlx_transport_atomic_add(t, own, 5));
    CHECK_OK(rlx_transport_wait_until(t, 64, RLX_COMPARE_EQ, 5, NULL));
    CHECK_OK(rlx_transport_wait_until(t, 64, RLX_COMPARE_NE, 4, NULL));
    CHECK_OK(rlx_transport_wait_until(t, 64, RLX_COMPARE_GT, 4, NULL));
    CHECK_OK(rlx_transport_wait_until(t, 64, RLX_COMPARE_GE, 5, NULL));
    CHECK_OK(rlx_transport_wait_until(t, 64, RLX_COMPARE_LT, 6, NULL));
    CHECK_OK(rlx_transport_wait_until(t, 64, RLX_COMPARE_LE, 5, NULL));
    CHECK_STATUS(RLX_INVALID_ARGUMENT, rlx_transport_wait_until(t, 64, (rlx_compare)17, 5, NULL));
    rlx_transport_set_timeout_ns(t, 20000000);
    CHECK(rlx_transport_timeout_ns(t) == 20000000);
    CHECK_STATUS(RLX_TIMEOUT, rlx_transport_wait_until(t, 64, RLX_COMPARE_GT, 5, NULL));
    rlx_transport_set_timeout_ns(t, 0);
    CHECK_OK(rlx_transport_barrier(t)); /* the group has not failed */
}

static void atomics_lose_nothing(transport_view *view) {
    enum { ROUNDS = 500 };
    rlx_transport *t = view->transport;
    rlx_symmetric_buffer sum = {0, 0, 8}, tickets = {0, 8, 8}, owner = {0, 16, 8};
    uint64_t before = 0, last = 0, total = 0;
    for (uint32_t i = 0; i < ROUNDS; ++i) {
        CHECK_OK(rlx_transport_atomic_add(t, sum, view->rank + 1));
        CHECK_OK(rlx_transport_fetch_add(t, tickets, 1, &before));
        CHECK(i == 0 || before > last);
        last = before;
    }
    CHECK_OK(rlx_transport_compare_swap(t, owner, 0, view->rank + 1, &before));
    if (before == 0)
        CHECK_OK(rlx_transport_fetch_add(t, (rlx_symmetric_buffer){0, 24, 8}, 1, &before));
    CHECK_OK(rlx_transport_barrier(t));
    CHECK_OK(rlx_transport_get(t, sum, &total, 8));
    CHECK(total == (uint64_t)ROUNDS * view->count * (view->count + 1) / 2);
    CHECK_OK(rlx_transport_get(t, tickets, &total, 8));
    CHECK(total == (uint64_t)ROUNDS * view->count);
    CHECK_OK(rlx_transport_get(t, (rlx_symmetric_buffer){0, 24, 8}, &total, 8));
    CHECK(total == 1);
    CHECK_STATUS(RLX_INVALID_ARGUMENT, rlx_transport_fetch_add(t, sum, 1, NULL));
}

static void barriers_can_be_used_again_and_again(transport_view *view) {
    rlx_transport *t = view->transport;
    for (uint64_t round = 1; round <= 300; ++round) {
        uint64_t seen = 0;
        CHECK_OK(rlx_transport_put(t, (rlx_symmetric_buffer){view->rank, 0, 8}, &round, 8));
        CHECK_OK(rlx_transport_barrier(t));
        CHECK_OK(rlx_transport_get(
            t, (rlx_symmetric_buffer){(uint32_t)((view->rank + round) % view->count), 0, 8}, &seen,
            8));
        CHECK(seen == round);
        CHECK_OK(rlx_transport_barrier(t));
    }
}

/* the symmetric allocator -----------------------------------------------------------------------
 */

static void symmetric_memory_is_at_one_offset_for_all(transport_view *view) {
    rlx_transport *t = view->transport;
    uint64_t a = 0, b = 0, c = 0, mine[3], all[3 * RLX_RANKS_MOST];
    CHECK_OK(rlx_symmetric_allocate(t, 1000, 0, &a));
    CHECK_OK(rlx_symmetric_allocate(t, 100, 4096, &b));
    CHECK_OK(rlx_symmetric_allocate(t, 0, 0, &c));
    CHECK(a % 64 == 0 && b % 4096 == 0 && a != b && b != c);
    CHECK(b >= a + 1000 || a >= b + 100);
    mine[0] = a, mine[1] = b, mine[2] = c;
    CHECK_OK(rlx_all_gather(t, mine, all, 3, RLX_DTYPE_I64));
    for (uint32_t r = 0; r < view->count; ++r)
        CHECK(memcmp(all + 3 * r, mine, sizeof mine) == 0);
    CHECK_OK(rlx_symmetric_free(t, a));
    CHECK_STATUS(RLX_NOT_FOUND, rlx_symmetric_free(t, a));
    CHECK_OK(rlx_symmetric_allocate(t, 900, 0, &c));
    CHECK(c == a);
    CHECK_STATUS(RLX_DOES_NOT_FIT, rlx_symmetric_allocate(t, TRANSPORT_HEAP_BYTES, 0, &c));
    CHECK(rlx_last_error_detail()->bytes == TRANSPORT_HEAP_BYTES);
    CHECK(rlx_last_error_detail()->limit < TRANSPORT_HEAP_BYTES);
    CHECK_STATUS(RLX_DOES_NOT_FIT, rlx_symmetric_allocate(t, UINT64_MAX, 64, &c));
    CHECK_STATUS(RLX_INVALID_ARGUMENT, rlx_symmetric_allocate(t, 8, 3, &c));
    if (view->count > 1) {
        CHECK_STATUS(RLX_MISMATCH, rlx_symmetric_allocate(t, 8 + view->rank, 0, &c));
    }
    for (uint32_t i = 0; i < 40; ++i)
        CHECK_OK(rlx_symmetric_allocate(t, 64, 64, &c));
}

/* collectives ------------------------------------------------------------------------------------
 */

/* Operands of a case: bytes between guards, private or at the same offset of every heap. */
static uint8_t *operand(transport_view *view, bool is_symmetric, uint64_t offset, uint8_t *room) {
    uint8_t *heap = rlx_transport_address(view->transport, view->rank);
    return is_symmetric ? heap + offset : room + offset;
}

static void run_and_compare(transport_view *view, rlx_collective_request *request,
                            const void *expected, uint64_t bytes, bool starts, bool has_guard) {
    uint8_t *after = (uint8_t *)request->output + bytes, guard[64];
    if (has_guard) memset(after, 0xa5, sizeof guard);
    memset(guard, 0xa5, sizeof guard);
    if (starts) {
        uint64_t token = 0;
        CHECK_OK(rlx_collective_start(view->transport, request, &token));
        CHECK_OK(rlx_collective_wait(view->transport, token));
    } else {
        CHECK_OK(rlx_collective_run(view->transport, request));
    }
    if (memcmp(request->output, expected, bytes) != 0) {
        char text[160];
        uint64_t at = 0;
        while (((const uint8_t *)request->output)[at] == ((const uint8_t *)expected)[at])
            ++at;
        snprintf(text, sizeof text, "%s %s %s of %llu: byte %llu of %llu",
                 rlx_collective_kind_name(request->kind), rlx_reduction_name(request->reduction),
                 rlx_dtype_name(request->dtype), (unsigned long long)request->count,
                 (unsigned long long)at, (unsigned long long)bytes);
        transport_check(view, false, text, __FILE__, __LINE__);
        return;
    }
    CHECK(!has_guard || memcmp(after, guard, sizeof guard) == 0);
}

void transport_try(transport_view *view, rlx_collective_request request, transport_place place,
                   uint64_t seed, bool starts) {
    uint32_t element = rlx_dtype_block_bytes(request.dtype);
    uint64_t in_count = transport_input_count(&request, view->count), in_bytes, bytes, first, part;
    bool is_symmetric = place >= TRANSPORT_SYMMETRIC;
    bool in_place = place == TRANSPORT_PRIVATE_IN_PLACE || place == TRANSPORT_SYMMETRIC_IN_PLACE;
    void *expected = transport_expected(&request, view->rank, view->count, seed, &bytes);
    uint64_t half = TRANSPORT_HEAP_BYTES / 2;
    bool has_guard = true;
    in_bytes = in_count * element;
    /* Private operands lie as far apart as they need, those in the heap in its halves. */
    uint64_t apart = is_symmetric ? half : (in_bytes + bytes + 128) & ~UINT64_C(63);
    uint8_t *room = is_symmetric ? NULL : calloc(1, 2 * apart);
    request.output = operand(view, is_symmetric, 0, room);
    uint8_t *input = operand(view, is_symmetric, apart, room);
    if (in_place && request.kind == RLX_COLLECTIVE_REDUCE_SCATTER) {
        rlx_collective_part(request.count, view->count, view->rank, &first, &part);
        input = request.output;
        request.output = input + first * element;
        has_guard = false; /* it would lie in the input */
    } else if (in_place) {
        input = request.output;
        if (request.kind == RLX_COLLECTIVE_ALL_GATHER) input += view->rank * in_bytes;
    }
    if (request.kind == RLX_COLLECTIVE_BROADCAST) input = request.output;
    bool fits = in_bytes + 64 <= half && bytes + 64 <= half;
    if (!fits || (room == NULL && !is_symmetric) || expected == NULL) {
        transport_check(view, false, "the case fits", __FILE__, __LINE__);
    } else {
        transport_fill(input, request.dtype, in_count,
                       request.kind == RLX_COLLECTIVE_BROADCAST && view->rank != request.root
                           ? RLX_RANKS_MOST
                           : view->rank,
                       seed);
        request.input = input;
        run_and_compare(view, &request, expected, bytes, starts, has_guard);
    }
    free(room);
    free(expected);
}

static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16,
                                   RLX_DTYPE_I32, RLX_DTYPE_I64, RLX_DTYPE_U8};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool reduces(rlx_collective_kind kind) {
    return kind == RLX_COLLECTIVE_ALL_REDUCE || kind == RLX_COLLECTIVE_REDUCE_SCATTER;
}

static void every_collective_of_every_dtype_gives_the_same_bits(transport_view *view) {
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 64, 65, 1000};
    uint64_t seed = 1;
    for (int kind = 0; kind < RLX_COLLECTIVE_KIND_COUNT; ++kind) {
        for (int d = 0; d < DTYPES; ++d) {
            for (int op = 0; op < (reduces((rlx_collective_kind)kind) ? RLX_REDUCTION_COUNT : 1);
                 ++op) {
                for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
                    rlx_collective_request request = {.kind = (rlx_collective_kind)kind,
                                                      .reduction = (rlx_reduction)op,
                                                      .dtype = dtypes[d],
                                                      .count = counts[c],
                                                      .root = (uint32_t)(seed % view->count)};
                    transport_try(view, request, (transport_place)(seed % TRANSPORT_PLACES), seed,
                                  seed % 3 == 0);
                    if (view->has_failed) return;
                    ++seed;
                }
            }
        }
    }
}

static void every_size_of_every_place_gives_the_same_bits(transport_view *view) {
    static const uint64_t counts[] = {500, 515, 517, 519, 530, 2049, 16384, 25001};
    uint64_t seed = 1000;
    for (int kind = 0; kind < RLX_COLLECTIVE_KIND_COUNT; ++kind) {
        for (int place = 0; place < TRANSPORT_PLACES; ++place) {
            for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
                rlx_collective_request request = {.kind = (rlx_collective_kind)kind,
                                                  .reduction = RLX_REDUCTION_MEAN,
                                                  .dtype = c % 2 ? RLX_DTYPE_F32 : RLX_DTYPE_BF16,
                                                  .count = counts[c],
                                                  .root = (uint32_t)(seed % view->count)};
                if (kind == RLX_COLLECTIVE_ALL_TO_ALL || kind == RLX_COLLECTIVE_ALL_GATHER) {
                    request.count = counts[c] / view->count;
                }
                transport_try(view, request, (transport_place)place, seed++, false);
                if (view->has_failed) return;
            }
        }
    }
}

static void a_nan_reaches_everybody(transport_view *view) {
    for (int d = 0; d < 4; ++d) {
        for (int op = 0; op < RLX_REDUCTION_COUNT; ++op) {
            float values[70], back[70];
            uint64_t room[70];
            for (int i = 0; i < 70; ++i)
                values[i] = i == 3 || i == 69 ? (float)(view->rank + 1) : 2.0f;
            if (view->rank == view->count - 1) values[3] = 0.0f / 0.0f * 1.0f;
            if (view->rank == 0) values[69] = 0.0f / 0.0f * 1.0f;
            if (dtypes[d] == RLX_DTYPE_F64) {
                for (int i = 0; i < 70; ++i)
                    ((double *)room)[i] = (double)values[i];
            } else {
                CHECK_OK(rlx_convert_from_f32(dtypes[d], room, values, 70));
            }
            CHECK_OK(rlx_all_reduce(view->transport, room, room, 70, dtypes[d], (rlx_reduction)op));
            for (int i = 0; i < 70; ++i) {
                if (dtypes[d] == RLX_DTYPE_F64) {
                    back[i] = (float)((double *)room)[i];
                } else if (i == 0) {
                    CHECK_OK(rlx_convert_to_f32(dtypes[d], back, room, 70));
                }
            }
            CHECK(back[3] != back[3] && back[69] != back[69] && back[4] == back[4]);
        }
    }
}

static void started_collectives_are_finished_by_wait(transport_view *view) {
    enum { MANY = 16 };
    rlx_transport *t = view->transport;
    int32_t values[MANY][600];
    uint64_t tokens[MANY], extra;
    for (uint32_t i = 0; i < MANY; ++i) {
        for (uint32_t k = 0; k < 600; ++k)
            values[i][k] = (int32_t)(i * 1000 + k + view->rank);
        const rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_REDUCE,
                                                .dtype = RLX_DTYPE_I32,
                                                .count = i % 2 ? 600 : 5,
                                                .input = values[i],
                                                .output = values[i]};
        CHECK_OK(rlx_collective_start(t, &request, &tokens[i]));
        CHECK(tokens[i] != 0);
    }
    {
        const rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_REDUCE,
                                                .dtype = RLX_DTYPE_I32};
        CHECK_STATUS(RLX_BUSY, rlx_collective_start(t, &request, &extra));
    }
    for (uint32_t i = MANY; i-- > 0;) {
        int32_t n = (int32_t)view->count, last = i % 2 ? 599 : 4;
        CHECK_OK(rlx_collective_wait(t, tokens[i]));
        CHECK(values[i][last] == n * (int32_t)(i * 1000) + n * last + n * (n - 1) / 2);
        CHECK_STATUS(RLX_NOT_FOUND, rlx_collective_wait(t, tokens[i]));
    }
    CHECK_STATUS(RLX_NOT_FOUND, rlx_collective_wait(t, 0));
    CHECK_STATUS(RLX_NOT_FOUND, rlx_collective_wait(t, 12345));
    {
        /* A blocking one finishes what was started; its outcome stays. */
        const rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_REDUCE,
                                                .dtype = RLX_DTYPE_I32,
                                                .count = 3,
                                                .input = values[0],
                                                .output = values[0]};
        CHECK_OK(rlx_collective_start(t, &request, &extra));
        CHECK_OK(rlx_transport_barrier(t));
        CHECK_OK(rlx_collective_wait(t, extra));
    }
}

/* disagreement ------------------------------------------------------------------------------------
 */

/* All ranks get the same error, and the group goes on. */
static void check_mismatch(transport_view *view, const rlx_collective_request *request,
                           const char *part) {
    int32_t one = 1;
    rlx_status status = rlx_collective_run(view->transport, request);
    if (view->count == 1) return;
    CHECK_STATUS(RLX_MISMATCH, status);
    CHECK(strstr(rlx_last_error(), part) != NULL);
    CHECK(rlx_last_error_detail()->rank == view->count - 1);
    CHECK_OK(rlx_all_reduce(view->transport, &one, &one, 1, RLX_DTYPE_I32, RLX_REDUCTION_SUM));
    CHECK(one == (int32_t)view->count);
}

static void ranks_that_disagree_all_get_the_same_error(transport_view *view) {
    static _Thread_local float own_room[8192];
    uint8_t *heap = rlx_transport_address(view->transport, view->rank);
    bool is_last = view->rank + 1 == view->count;
    static const uint64_t counts[] = {2, 10,
                                      4000}; /* in the line of a slot, in a slot, where it is */
    for (uint32_t i = 0; i < 3; ++i) {
        const uint64_t count = counts[i];
        const rlx_collective_request base = {.kind = RLX_COLLECTIVE_ALL_REDUCE,
                                             .dtype = RLX_DTYPE_F32,
                                             .count = count,
                                             .input = own_room,
                                             .output = own_room};
        rlx_collective_request request = base;
        if (is_last) request.kind = RLX_COLLECTIVE_BROADCAST;
        check_mismatch(view, &request, "calls broadcast, rank 0 all_reduce");
        request = base;
        if (is_last) request.dtype = RLX_DTYPE_I32;
        check_mismatch(view, &request, "has dtype i32, rank 0 f32");
        request = base;
        if (is_last) request.reduction = RLX_REDUCTION_MAX;
        check_mismatch(view, &request, "takes the max, rank 0 the sum");
        request = base;
        if (is_last) request.count = count + 1;
        check_mismatch(view, &request, "has count");
        CHECK(view->count == 1 || rlx_last_error_detail()->expected == count);
        request = base;
        request.kind = RLX_COLLECTIVE_BROADCAST;
        request.root = is_last ? view->rank : 0;
        check_mismatch(view, &request, "has root");
        request = base;
        request.input = request.output = heap + (is_last ? 256 : 0);
        check_mismatch(view, &request, "has its output at offset 256, rank 0 at offset 0");
        request = base;
        request.input = heap + (is_last ? 512 : 0);
        check_mismatch(view, &request, "has its input at offset 512");
        if (is_last) request.input = own_room;
        check_mismatch(view, &request, "has its input at the place of the other operand");
        if (view->has_failed) return;
    }
    if (view->count == 1) return;
    rlx_status status = is_last ? rlx_transport_barrier(view->transport)
                                : rlx_all_gather(view->transport, NULL, NULL, 0, RLX_DTYPE_U8);
    CHECK_STATUS(RLX_MISMATCH, status);
    CHECK(strstr(rlx_last_error(), "calls barrier, rank 0 all_gather") != NULL);
    status = is_last ? rlx_transport_barrier(view->transport)
                     : rlx_all_reduce(view->transport, own_room, own_room, 2, RLX_DTYPE_F32,
                                      RLX_REDUCTION_SUM);
    CHECK_STATUS(RLX_MISMATCH, status);
    CHECK(strstr(rlx_last_error(), "calls barrier, rank 0 all_reduce") != NULL);
}

/* What is wrong with an all_reduce of a few f32, and what the rank gets that called so. */
static rlx_status spoil(rlx_collective_request *request, int fault, float *values, uint8_t *heap) {
    switch (fault) {
    case 0:
        request->input = NULL;
        return RLX_INVALID_ARGUMENT;
    case 1:
        request->dtype = RLX_DTYPE_I8;
        return RLX_INVALID_ARGUMENT;
    case 2:
        request->output = values + 1; /* overlaps */
        return RLX_INVALID_ARGUMENT;
    case 3:
        request->reduction = (rlx_reduction)77;
        return RLX_INVALID_ARGUMENT;
    case 4:
        request->count = UINT64_MAX / 2;
        return RLX_OUT_OF_BOUNDS;
    case 5:
        request->output = heap + TRANSPORT_HEAP_BYTES - 4;
        return RLX_OUT_OF_BOUNDS;
    case 6:
        request->input = (uint8_t *)(values + 8) + 1;
        return RLX_INVALID_ARGUMENT;
    default:
        request->input = (const void *)(UINTPTR_MAX - 3); /* wraps around */
        return RLX_OUT_OF_BOUNDS;
    }
}

static void wrong_arguments_of_one_rank_fail_the_call_for_all(transport_view *view) {
    rlx_transport *t = view->transport;
    float values[16] = {1.0f};
    int32_t one;
    bool is_last = view->rank + 1 == view->count;
    for (int fault = 0; fault < 16; ++fault) {
        rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_REDUCE,
                                          .dtype = RLX_DTYPE_F32,
                                          .count = fault < 8 ? 7 : 2,
                                          .input = values,
                                          .output = values};
        rlx_status expected = RLX_MISMATCH;
        uint8_t *heap = rlx_transport_address(t, view->rank);
        if (is_last) expected = spoil(&request, fault % 8, values, heap);
        CHECK_STATUS(expected, rlx_collective_run(t, &request));
        if (!is_last) CHECK(rlx_last_error_detail()->rank == view->count - 1);
        one = 1;
        CHECK_OK(rlx_all_reduce(t, &one, &one, 1, RLX_DTYPE_I32, RLX_REDUCTION_SUM));
        CHECK(one == (int32_t)view->count);
    }
}

/* sub-groups
 * --------------------------------------------------------------------------------------- */

static void sub_groups_work_beside_the_whole(transport_view *view) {
    rlx_transport *t = view->transport, *half = NULL, *again = NULL;
    uint32_t colour = view->rank % 2, members = (view->count + 1 - colour) / 2;
    /* Keys turn the order round. */
    CHECK_OK(rlx_transport_split(t, colour, 100 - view->rank, &half));
    CHECK(half != NULL && rlx_transport_rank_count(half) == members);
    CHECK(rlx_transport_rank(half) == members - 1 - view->rank / 2);
    CHECK(rlx_transport_address(half, rlx_transport_rank(half)) ==
          rlx_transport_address(t, view->rank));
    for (uint32_t round = 0; round < 50; ++round) {
        int32_t sum = (int32_t)view->rank, all = 1;
        CHECK_OK(rlx_all_reduce(half, &sum, &sum, 1, RLX_DTYPE_I32, RLX_REDUCTION_SUM));
        CHECK(sum == (int32_t)(members * (members - 1) + members * colour));
        if (round % 5 == 0) {
            CHECK_OK(rlx_all_reduce(t, &all, &all, 1, RLX_DTYPE_I32, RLX_REDUCTION_SUM));
            CHECK(all == (int32_t)view->count);
        }
    }
    uint64_t offset = 0;
    CHECK_STATUS(RLX_UNSUPPORTED, rlx_symmetric_allocate(half, 8, 8, &offset));
    CHECK_STATUS(RLX_UNKNOWN_RANK,
                 rlx_transport_get(half, (rlx_symmetric_buffer){members, 0, 8}, &offset, 8));
    CHECK_OK(rlx_transport_split(half, 0, 0, &again));
    CHECK(rlx_transport_rank_count(again) == members);
    CHECK_OK(rlx_transport_barrier(again));
    rlx_transport_destroy(again);
    rlx_transport_destroy(half);
    for (uint32_t i = 0; i < 20; ++i) {
        uint32_t some = view->rank == i % view->count ? RLX_COLOUR_NONE : 3;
        CHECK_OK(rlx_transport_split(t, some, 0, &half));
        CHECK((half == NULL) == (some == RLX_COLOUR_NONE));
        if (half != NULL) CHECK_OK(rlx_transport_barrier(half));
        rlx_transport_destroy(half);
    }
}

static void too_many_sub_groups_are_refused_for_all(transport_view *view) {
    rlx_transport *made[8] = {0};
    for (uint32_t i = 0; i < 7; ++i)
        CHECK_OK(rlx_transport_split(view->transport, 0, 0, &made[i]));
    CHECK_STATUS(RLX_BUSY, rlx_transport_split(view->transport, 0, 0, &made[7]));
    CHECK(made[7] == NULL);
    CHECK_OK(rlx_transport_barrier(made[6]));
    for (uint32_t i = 0; i < 7; ++i)
        rlx_transport_destroy(made[i]);
    CHECK_OK(rlx_transport_split(view->transport, 0, 0, &made[7]));
    CHECK_OK(rlx_transport_barrier(made[7]));
    rlx_transport_destroy(made[7]);
}

#define CASE(name) \
    { #name, name }
const transport_case transport_cases[] = {
    CASE(a_fresh_heap_is_zero_and_the_getters_agree),
    CASE(what_is_put_is_what_is_got),
    CASE(nothing_at_the_end_of_the_heap_is_legal),
    CASE(wrong_buffers_are_refused_in_order_with_their_facts),
    CASE(any_buffer_is_taken_or_refused_by_the_rule),
    CASE(a_signal_shows_the_bytes_put_before_it),
    CASE(every_comparison_waits_for_what_it_says),
    CASE(atomics_lose_nothing),
    CASE(barriers_can_be_used_again_and_again),
    CASE(symmetric_memory_is_at_one_offset_for_all),
    CASE(every_collective_of_every_dtype_gives_the_same_bits),
    CASE(every_size_of_every_place_gives_the_same_bits),
    CASE(a_nan_reaches_everybody),
    CASE(started_collectives_are_finished_by_wait),
    CASE(ranks_that_disagree_all_get_the_same_error),
    CASE(wrong_arguments_of_one_rank_fail_the_call_for_all),
    CASE(sub_groups_work_beside_the_whole),
    CASE(too_many_sub_groups_are_refused_for_all),
};
const uint32_t transport_case_count = sizeof transport_cases / sizeof *transport_cases;
