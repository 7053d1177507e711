/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share a symmetric heap: as many equal regions of zeroed bytes as there are ranks, so
 * that (rank, offset, bytes) names memory anywhere. One-sided copies, signals, atomics, barriers
 * and sub-groups; rlx/collective.h has the collectives on top.
 *
 * Facts of an error are in rlx_last_error_detail(), checked in this order:
 *   RLX_UNKNOWN_RANK     rank, rank_count
 *   RLX_OUT_OF_BOUNDS    rank, offset, bytes, limit (the heap's bytes)
 *   RLX_LENGTH_MISMATCH  expected, got
 *   RLX_TRANSPORT        rank (which peer is gone), rank_count, os_error
 *   RLX_TIMEOUT          rank (which peer did not come), rank_count
 * After RLX_TRANSPORT or RLX_TIMEOUT the group has failed: every further call on it that needs a
 * peer fails at once with the same facts. RLX_MISMATCH (ranks that disagree) fails one call. */
#ifndef RLX_TRANSPORT_H
#define RLX_TRANSPORT_H

#include <rlx/env.h>

RLX_BEGIN_DECLS

/* Memory of one rank. The same offset and bytes are valid on every rank; 0 bytes and an offset
 * equal to the heap's size are legal. A plain value: copy it freely. */
typedef struct rlx_symmetric_buffer {
    uint32_t rank;
    uint64_t offset;
    uint64_t bytes;
} rlx_symmetric_buffer;

/* One rank's endpoint. Used by one thread at a time; different ranks run in parallel. */
typedef struct rlx_transport rlx_transport;

enum { RLX_RANKS_MOST = 256 };

typedef struct rlx_transport_options {
    size_t size;         /* sizeof(rlx_transport_options) */
    uint64_t timeout_ns; /* how long a call waits for a peer; 0: 30 s; UINT64_MAX: for ever */
    uint32_t groups;     /* sub-groups that may exist at once per rank; 0: 7; at most 31 */
    bool network;        /* mpi: messages also between ranks of one host; on any rank is enough */
} rlx_transport_options;

/* `local`: ranks are threads of this process. Makes all `rank_count` endpoints of one heap at once;
 * each is owned and may be used, alone, to reach every rank. `allocator` and `options` may be NULL;
 * the allocator is copied. RLX_INVALID_ARGUMENT: no ranks or too many; RLX_OUT_OF_MEMORY. */
RLX_CALL rlx_status rlx_transport_create_local(const rlx_allocator *allocator, uint32_t rank_count,
                                               uint64_t heap_bytes,
                                               const rlx_transport_options *options,
                                               rlx_transport **out_endpoints);

/* `shm`: ranks are processes of this host, started by `rlx launch` or forked after
 * rlx_ranks_create. Every rank calls it with the same heap_bytes and returns when all have; the
 * memory is there from then on (no later SIGBUS), and nothing of it has a name in the system.
 * `who` is borrowed for the call; several heaps may be made one after the other. A rank count of 1
 * needs no launcher. RLX_DOES_NOT_FIT has limit (bytes free), bytes (wanted). */
RLX_CALL rlx_status rlx_transport_create_shm(const rlx_allocator *allocator, const rlx_rank *who,
                                             uint64_t heap_bytes,
                                             const rlx_transport_options *options,
                                             rlx_transport **out_transport);

/* `mpi`: ranks that an MPI launcher started (mpirun, mpiexec, srun), on one host or several. MPI-3
 * is a plugin (librlx_mpi_openmpi.so, librlx_mpi_mpich.so) that is opened here and starts MPI
 * unless the program has; MPI ends with the process. Every rank calls it with the same heap_bytes.
 *
 * Ranks of one host share memory as in `shm`. Between hosts all goes over messages, and no rank's
 * heap is mapped by another. There, one-sided calls are answered by their target while it is inside
 * any call of this transport (rlx_transport_check is one that never waits): a target that only
 * computes keeps its peers waiting, up to their timeout. Nothing relies on progress behind the
 * program's back. When a rank dies, the launcher ends the others; a rank whose group has failed
 * ends the whole job when it exits. RLX_UNSUPPORTED: no plugin for this MPI, with the reason. */
RLX_CALL rlx_status rlx_transport_create_mpi(const rlx_allocator *allocator, const rlx_rank *who,
                                             uint64_t heap_bytes,
                                             const rlx_transport_options *options,
                                             rlx_transport **out_transport);

/* What fits how this process was started (rlx_env_rank): `shm` under `rlx launch` and alone; `mpi`
 * under mpirun. */
RLX_CALL rlx_status rlx_transport_create(const rlx_allocator *allocator, const rlx_rank *who,
                                         uint64_t heap_bytes, const rlx_transport_options *options,
                                         rlx_transport **out_transport);

/* Releases the endpoint. Peers that wait for it afterwards get an error at once; nothing is waited
 * for here. Sub-groups are destroyed before the endpoint they came from. NULL is fine. */
RLX_API void rlx_transport_destroy(rlx_transport *transport);

/* Getters never fail; NULL gives 0 or "". */
RLX_API const char *rlx_transport_name(const rlx_transport *transport); /* "local", "shm", "mpi" */
RLX_API uint32_t rlx_transport_rank(const rlx_transport *transport);
RLX_API uint32_t rlx_transport_rank_count(const rlx_transport *transport);
RLX_API uint64_t rlx_transport_heap_bytes(const rlx_transport *transport);
/* Where a rank's heap begins in this process, aligned to a page; NULL for an unknown rank and where
 * it is not mapped. The own heap always has an address. Valid as long as the endpoint. */
RLX_API void *rlx_transport_address(const rlx_transport *transport, uint32_t rank);
/* RLX_OK, or why this group has failed. Looks once and never waits. */
RLX_CALL rlx_status rlx_transport_check(rlx_transport *transport);

RLX_API uint64_t rlx_transport_timeout_ns(const rlx_transport *transport);
/* 0: back to 30 s; UINT64_MAX: for ever. Of this endpoint only. */
RLX_API void rlx_transport_set_timeout_ns(rlx_transport *transport, uint64_t timeout_ns);

/* Memory of the heap for everybody: a collective call with the same arguments on every rank, and
 * the same offset for all of them. `alignment` is a power of two, 0: 64. Freed memory is used again
 * and keeps its bytes. RLX_DOES_NOT_FIT: no gap of that size (bytes, limit = the largest gap);
 * RLX_MISMATCH: the ranks' arguments differ; RLX_UNSUPPORTED on a sub-group. */
RLX_CALL rlx_status rlx_symmetric_allocate(rlx_transport *transport, uint64_t bytes,
                                           uint64_t alignment, uint64_t *out_offset);
/* RLX_NOT_FOUND: nothing was allocated there. */
RLX_CALL rlx_status rlx_symmetric_free(rlx_transport *transport, uint64_t offset);

/* Copies `bytes` bytes from `src` into `dst`; on return they are visible to dst.rank. `src` is
 * borrowed for the call and may lie in a heap. RLX_LENGTH_MISMATCH: bytes != dst.bytes. */
RLX_CALL rlx_status rlx_transport_put(rlx_transport *transport, rlx_symmetric_buffer dst,
                                      const void *src, uint64_t bytes);
/* Copies from `src` into `dst`, complete on return. */
RLX_CALL rlx_status rlx_transport_get(rlx_transport *transport, rlx_symmetric_buffer src, void *dst,
                                      uint64_t bytes);
/* The same, done at the latest when quiet returns; the caller's memory stays the transport's until
 * then. */
RLX_CALL rlx_status rlx_transport_put_start(rlx_transport *transport, rlx_symmetric_buffer dst,
                                            const void *src, uint64_t bytes);
RLX_CALL rlx_status rlx_transport_get_start(rlx_transport *transport, rlx_symmetric_buffer src,
                                            void *dst, uint64_t bytes);
/* Puts started before are seen by each rank before puts, signals and atomics after it. */
RLX_CALL rlx_status rlx_transport_fence(rlx_transport *transport);
/* Everything started by this endpoint is complete, everywhere. */
RLX_CALL rlx_status rlx_transport_quiet(rlx_transport *transport);

/* Signals and atomics work on 8-byte words of the heap (an unaligned offset is
 * RLX_INVALID_ARGUMENT): `where` is {rank, offset, 8}. */
typedef enum rlx_signal { RLX_SIGNAL_SET = 0, RLX_SIGNAL_ADD = 1 } rlx_signal;
typedef enum rlx_compare {
    RLX_COMPARE_EQ = 0,
    RLX_COMPARE_NE,
    RLX_COMPARE_GT,
    RLX_COMPARE_GE,
    RLX_COMPARE_LT,
    RLX_COMPARE_LE
} rlx_compare;

/* Puts, then sets or adds to the word at {dst.rank, signal_offset}: whoever sees the word changed
 * sees the bytes. */
RLX_CALL rlx_status rlx_transport_put_signal(rlx_transport *transport, rlx_symmetric_buffer dst,
                                             const void *src, uint64_t bytes,
                                             uint64_t signal_offset, rlx_signal kind,
                                             uint64_t value);
/* Waits until the own word at `offset` compares as asked (unsigned) with `value`; *out_seen (may be
 * NULL) is the word then. RLX_TIMEOUT does not fail the group: nobody in particular was late. A
 * peer that died does. */
RLX_CALL rlx_status rlx_transport_wait_until(rlx_transport *transport, uint64_t offset,
                                             rlx_compare compare, uint64_t value,
                                             uint64_t *out_seen);

RLX_CALL rlx_status rlx_transport_atomic_add(rlx_transport *transport, rlx_symmetric_buffer where,
                                             uint64_t value);
RLX_CALL rlx_status rlx_transport_fetch_add(rlx_transport *transport, rlx_symmetric_buffer where,
                                            uint64_t value, uint64_t *out_before);
/* *out_before == expected: the word is now `desired`. */
RLX_CALL rlx_status rlx_transport_compare_swap(rlx_transport *transport, rlx_symmetric_buffer where,
                                               uint64_t expected, uint64_t desired,
                                               uint64_t *out_before);

/* Returns when every rank has arrived; what was put before it is seen after it. */
RLX_CALL rlx_status rlx_transport_barrier(rlx_transport *transport);

/* Cuts the group: a collective call in which ranks of the same colour get an endpoint of their own,
 * numbered by (key, old rank), over the same heap with the same offsets. RLX_COLOUR_NONE gives
 * NULL. The new endpoint is owned, and belongs to the thread of the one it came from, which it must
 * not outlive. RLX_BUSY: `groups` sub-groups exist already on a rank. */
#define RLX_COLOUR_NONE UINT32_MAX
RLX_CALL rlx_status rlx_transport_split(rlx_transport *transport, uint32_t colour, uint32_t key,
                                        rlx_transport **out_transport);

RLX_END_DECLS

#endif
