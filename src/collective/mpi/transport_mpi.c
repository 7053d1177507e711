/* SPDX-License-Identifier: Apache-2.0 */
/* `mpi`: ranks that an MPI launcher started. MPI is a plugin (rlx/spi/messenger.h) that carries
 * messages. Ranks of one host find each other with it and then share memory as `shm` does; between
 * hosts, or when asked to, everything goes over messages (collective/net). */
#include "collective/mpi/mpi.h"

#include "base/memory_limit.h"
#include "collective/net/net.h"
#include "collective/shm/shm.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* The end of the process shall not wait for a rank that is missing. */
static const rlx_messenger *_Atomic opened;
static void note_failure(const rlx_transport *base) {
    const rlx_messenger *messenger = atomic_load(&opened);
    (void)base;
    messenger->mark_failed(messenger->context);
}

static const rlx_transport_ops mapped_ops = RLX_MAPPED_OPS("mpi", note_failure);
static const rlx_transport_ops message_ops = RLX_NET_OPS("mpi");

/* What each rank tells rank 0 before there is a transport; rank 0 answers with its own. */
typedef struct greeting {
    uint64_t status; /* rlx_status of getting this far */
    uint64_t heap_bytes, groups, transport_number, wants_network;
    rlx_host host;
    rlx_meeting_point meeting; /* of rank 0, where all share a host */
    uint64_t shares_host;      /* in rank 0's answer */
} greeting;

enum { TAG_GREETING = 1, TAG_ANSWER = 2 }; /* below those of transports */

static rlx_status await(const rlx_messenger *messenger, rlx_message *message, uint32_t peer,
                        uint64_t timeout_ns) {
    uint64_t start = rlx_now_ns();
    for (uint32_t round = 0;; ++round) {
        bool is_done = false;
        int code = messenger->test(messenger->context, message, &is_done, NULL, NULL);
        if (code != 0) {
            char text[160];
            messenger->text(messenger->context, code, text, sizeof text);
            return RLX_FAIL(RLX_TRANSPORT, "%s: %s", messenger->library, text);
        }
        if (is_done) return RLX_OK;
        if (rlx_now_ns() - start >= timeout_ns) {
            messenger->cancel(messenger->context, message);
            messenger->mark_failed(messenger->context);
            rlx_fail(RLX_TIMEOUT, "rank %u did not come to make the heap", peer);
            *rlx_error_detail_edit() =
                (rlx_error_detail){.rank = peer, .rank_count = messenger->rank_count};
            return RLX_TIMEOUT;
        }
        usleep(round < 100 ? 20 : 500);
    }
}

static rlx_status send(const rlx_messenger *messenger, const greeting *text, uint32_t to,
                       uint32_t tag, uint64_t timeout_ns) {
    rlx_message message = {0};
    int code = messenger->send(messenger->context, text, sizeof *text, to, tag, &message);
    if (code != 0) return RLX_FAIL(RLX_TRANSPORT, "%s cannot send", messenger->library);
    return await(messenger, &message, to, timeout_ns);
}

static rlx_status receive(const rlx_messenger *messenger, greeting *out_text, uint32_t from,
                          uint32_t tag, uint64_t timeout_ns) {
    rlx_message message = {0};
    int code =
        messenger->receive(messenger->context, out_text, sizeof *out_text, from, tag, &message);
    if (code != 0) return RLX_FAIL(RLX_TRANSPORT, "%s cannot receive", messenger->library);
    return await(messenger, &message, from, timeout_ns);
}

static rlx_status compare(const greeting *first, const greeting *other, uint32_t rank) {
    if (other->status != RLX_OK) {
        return RLX_FAIL(RLX_TRANSPORT, "rank %u could not join: %s", rank,
                        rlx_status_text((rlx_status)other->status));
    }
    if (first->heap_bytes == other->heap_bytes && first->groups == other->groups) return RLX_OK;
    rlx_fail(RLX_MISMATCH,
             "rank 0 makes a heap of %" PRIu64 " bytes with %" PRIu64
             " sub-groups, rank %u one of %" PRIu64 " with %" PRIu64,
             first->heap_bytes, first->groups, rank, other->heap_bytes, other->groups);
    *rlx_error_detail_edit() =
        (rlx_error_detail){.rank = rank, .expected = first->heap_bytes, .got = other->heap_bytes};
    return RLX_MISMATCH;
}

/* Rank 0 hears everybody, decides, and tells everybody, also that it failed. */
static rlx_status agree_as_first(const rlx_messenger *messenger, greeting *text,
                                 rlx_meeting *meeting, uint64_t timeout_ns) {
    rlx_status status = (rlx_status)text->status;
    bool is_one_host = text->wants_network == 0;
    for (uint32_t i = 1; i < messenger->rank_count; ++i) {
        greeting other;
        RLX_TRY(receive(messenger, &other, i, TAG_GREETING, timeout_ns));
        if (status == RLX_OK) status = compare(text, &other, i);
        if (other.transport_number > text->transport_number) {
            text->transport_number = other.transport_number;
        }
        is_one_host = is_one_host && other.wants_network == 0 &&
                      memcmp(&other.host, &text->host, sizeof other.host) == 0;
    }
    if (status == RLX_OK && is_one_host) {
        is_one_host = rlx_meeting_open(meeting, &text->meeting) == RLX_OK;
    }
    text->status = (uint64_t)status;
    text->shares_host = is_one_host;
    for (uint32_t i = 1; i < messenger->rank_count; ++i) {
        rlx_error_record record;
        rlx_error_save(&record);
        rlx_status sent = send(messenger, text, i, TAG_ANSWER, timeout_ns);
        if (status == RLX_OK) {
            status = sent;
        } else {
            rlx_error_restore(&record);
        }
    }
    return status;
}

static rlx_status agree_as_other(const rlx_messenger *messenger, greeting *text,
                                 uint64_t timeout_ns) {
    greeting first;
    rlx_error_record record;
    rlx_error_save(&record);
    RLX_TRY(send(messenger, text, 0, TAG_GREETING, timeout_ns));
    RLX_TRY(receive(messenger, &first, 0, TAG_ANSWER, timeout_ns));
    if (text->status != RLX_OK) {
        rlx_error_restore(&record);
        return (rlx_status)text->status;
    }
    if (first.status != RLX_OK) {
        RLX_TRY(compare(&first, text, messenger->rank));
        return RLX_FAIL((rlx_status)first.status, "rank 0 refuses: %s",
                        rlx_status_text((rlx_status)first.status));
    }
    *text = first;
    return RLX_OK;
}

static rlx_status create_mapped(const rlx_allocator *allocator, const rlx_messenger *messenger,
                                const greeting *agreed, rlx_meeting *meeting,
                                const rlx_transport_options *options,
                                rlx_transport **out_transport) {
    rlx_rank who = {.launcher = RLX_LAUNCHER_MPI,
                    .rank = messenger->rank,
                    .rank_count = messenger->rank_count,
                    .socket = -1};
    rlx_status status =
        messenger->rank == 0
            ? rlx_meeting_host(meeting, messenger->rank_count, options->timeout_ns, &who.socket)
            : rlx_meeting_join(&agreed->meeting, options->timeout_ns, &who.socket);
    if (status == RLX_OK) {
        status = rlx_shm_create(&mapped_ops, allocator, &who, agreed->heap_bytes, options,
                                out_transport);
    }
    if (who.socket >= 0) close(who.socket);
    return status;
}

static rlx_status check_free(uint64_t heap_bytes) {
    uint64_t left = rlx_memory_free("/proc/self/cgroup", "/sys/fs/cgroup", "/proc/meminfo");
    if (heap_bytes <= left) return RLX_OK;
    rlx_fail(RLX_DOES_NOT_FIT, "a heap of %" PRIu64 " bytes, and %" PRIu64 " are free", heap_bytes,
             left);
    *rlx_error_detail_edit() = (rlx_error_detail){.bytes = heap_bytes, .limit = left};
    return RLX_DOES_NOT_FIT;
}

/* All meet, and learn which of them are processes that they can see: MPI does not tell when one of
 * those dies. */
static rlx_status watch_neighbours(rlx_transport *made) {
    struct neighbour {
        rlx_host host;
        uint64_t process;
    } mine = {.process = (uint64_t)getpid()}, all[RLX_RANKS_MOST];
    uint32_t count = rlx_transport_rank_count(made);
    rlx_host_find(&mine.host);
    RLX_TRY(rlx_all_gather(made, &mine, all, sizeof mine, RLX_DTYPE_U8));
    for (uint32_t i = 0; i < count; ++i) {
        if (i == rlx_transport_rank(made)) continue;
        if (memcmp(&all[i].host, &mine.host, sizeof mine.host) != 0) continue;
        rlx_net_watch(made, i, (int32_t)all[i].process);
    }
    return RLX_OK;
}

/* Messages: every rank makes its heap, and all meet. */
static rlx_status create_network(const rlx_allocator *allocator, const rlx_messenger *messenger,
                                 const greeting *agreed, const rlx_transport_options *options,
                                 bool shares_processors, rlx_transport **out_transport) {
    rlx_transport *made = NULL;
    rlx_status status;
    RLX_TRY(rlx_net_create(&message_ops, allocator, messenger, agreed->heap_bytes, options,
                           (uint32_t)agreed->transport_number, shares_processors, &made));
    status = watch_neighbours(made);
    if (status != RLX_OK) {
        rlx_transport_destroy(made);
        return status;
    }
    *out_transport = made;
    return RLX_OK;
}

static rlx_status create(const rlx_allocator *allocator, const rlx_rank *who, uint64_t heap_bytes,
                         const rlx_transport_options *options, rlx_transport **out_transport) {
    static _Atomic uint32_t transports; /* made by this process */
    const rlx_messenger *messenger = NULL;
    rlx_meeting meeting = {.socket = -1};
    greeting text = {
        .heap_bytes = heap_bytes, .groups = options->groups, .wants_network = options->network};
    rlx_status status;
    RLX_TRY(rlx_mpi_open(who, &messenger));
    atomic_store(&opened, messenger);
    if (messenger->rank_count > RLX_RANKS_MOST) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%u ranks; 1 to %d are possible",
                        messenger->rank_count, RLX_RANKS_MOST);
    }
    text.transport_number = atomic_fetch_add(&transports, 1);
    text.status = (uint64_t)check_free(heap_bytes);
    rlx_host_find(&text.host);
    status = messenger->rank == 0 ? agree_as_first(messenger, &text, &meeting, options->timeout_ns)
                                  : agree_as_other(messenger, &text, options->timeout_ns);
    if (status == RLX_OK && text.shares_host != 0) {
        status = create_mapped(allocator, messenger, &text, &meeting, options, out_transport);
    } else if (status == RLX_OK) {
        status = create_network(allocator, messenger, &text, options,
                                messenger->rank_count > rlx_cpu_count(), out_transport);
    }
    rlx_meeting_close(&meeting);
    return status;
}

rlx_status rlx_transport_create_mpi(const rlx_allocator *allocator, const rlx_rank *who,
                                    uint64_t heap_bytes, const rlx_transport_options *options,
                                    rlx_transport **out_transport) {
    rlx_transport_options full;
    rlx_status status;
    if (who == NULL || out_transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "mpi: null");
    RLX_TRY(rlx_transport_read_options(options, &full));
    status = create(allocator, who, heap_bytes, &full, out_transport);
    if (status != RLX_OK) rlx_fail_context(status, "mpi heap on rank %u", who->rank);
    return status;
}
