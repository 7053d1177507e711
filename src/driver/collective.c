/* SPDX-License-Identifier: Apache-2.0 */
/* The checked face of collectives: counts, dtypes, where operands lie. A call whose arguments are
 * wrong is poisoned for the peers. Knows no transport and no algorithm. */
#include "driver/transport.h"

#include "base/size.h"

static const char *const kind_names[] = {
    "all_reduce", "all_gather", "reduce_scatter",     "broadcast",
    "all_to_all", "barrier",    "symmetric_allocate", "symmetric_free",
    "split",      "wait_until", "a one-sided call",   "call with wrong arguments"};
static const char *const reduction_names[] = {"sum", "mean", "product", "min", "max"};

const char *rlx_call_name(uint32_t kind) {
    return kind <= RLX_CALL_POISON ? kind_names[kind] : "?";
}

const char *rlx_collective_kind_name(rlx_collective_kind kind) {
    return (unsigned)kind < RLX_COLLECTIVE_KIND_COUNT ? kind_names[kind] : "?";
}

const char *rlx_reduction_name(rlx_reduction reduction) {
    return (unsigned)reduction < RLX_REDUCTION_COUNT ? reduction_names[reduction] : "?";
}

void rlx_collective_part(uint64_t count, uint32_t rank_count, uint32_t part, uint64_t *out_first,
                         uint64_t *out_count) {
    uint64_t each = rank_count != 0 ? count / rank_count : 0;
    uint64_t larger = rank_count != 0 ? count % rank_count : 0;
    *out_first = each * part + (part < larger ? part : larger);
    *out_count = each + (part < larger);
}

/* Of the dtypes that collectives take; 0: not taken. */
static const uint8_t element_bytes[RLX_DTYPE_COUNT] = {
    [RLX_DTYPE_F32] = 4, [RLX_DTYPE_F64] = 8, [RLX_DTYPE_F16] = 2, [RLX_DTYPE_BF16] = 2,
    [RLX_DTYPE_I32] = 4, [RLX_DTYPE_I64] = 8, [RLX_DTYPE_U8] = 1};

static inline bool takes_dtype(rlx_dtype dtype) {
    return (unsigned)dtype < RLX_DTYPE_COUNT && element_bytes[dtype] != 0;
}

static bool reduces(rlx_collective_kind kind) {
    return kind == RLX_COLLECTIVE_ALL_REDUCE || kind == RLX_COLLECTIVE_REDUCE_SCATTER;
}

static rlx_status check_numbers(const rlx_transport *transport,
                                const rlx_collective_request *request) {
    if ((unsigned)request->kind >= RLX_COLLECTIVE_KIND_COUNT) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "there is no collective %d", (int)request->kind);
    }
    if (!takes_dtype(request->dtype)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "dtype %s; collectives take f32 f64 f16 bf16 i32 i64 u8",
                        rlx_dtype_name(request->dtype));
    }
    if (reduces(request->kind) && (unsigned)request->reduction >= RLX_REDUCTION_COUNT) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "there is no reduction %d", (int)request->reduction);
    }
    if (request->kind == RLX_COLLECTIVE_BROADCAST && request->root >= transport->rank_count) {
        rlx_status status = RLX_FAIL(RLX_UNKNOWN_RANK, "unknown root %u (have %u)", request->root,
                                     transport->rank_count);
        *rlx_error_detail_edit() =
            (rlx_error_detail){.rank = request->root, .rank_count = transport->rank_count};
        return status;
    }
    return RLX_OK;
}

/* Bytes that this rank reads and writes. */
static rlx_status measure(const rlx_transport *transport, const rlx_collective_request *request,
                          rlx_collective_call *call) {
    uint64_t bytes, all, first, part;
    call->element_bytes = element_bytes[request->dtype];
    if (!rlx_mul_u64(request->count, call->element_bytes, &bytes) ||
        !rlx_mul_u64(bytes, transport->rank_count, &all) || all > PTRDIFF_MAX) {
        rlx_status status =
            RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " elements on %u ranks are too many bytes",
                     request->count, transport->rank_count);
        rlx_error_detail_edit()->rank_count = transport->rank_count;
        return status;
    }
    call->input_bytes = request->kind == RLX_COLLECTIVE_ALL_TO_ALL ? all : bytes;
    call->output_bytes = bytes;
    switch (request->kind) {
    case RLX_COLLECTIVE_ALL_GATHER:
    case RLX_COLLECTIVE_ALL_TO_ALL:
        call->output_bytes = all;
        break;
    case RLX_COLLECTIVE_REDUCE_SCATTER:
        rlx_collective_part(request->count, transport->rank_count, transport->rank, &first, &part);
        call->output_bytes = part * call->element_bytes;
        break;
    case RLX_COLLECTIVE_BROADCAST:
        call->input_bytes = 0;
        break;
    default:
        break;
    }
    return RLX_OK;
}

static rlx_status check_memory(const void *memory, uint64_t bytes, uint32_t element,
                               const char *what) {
    if (bytes == 0) return RLX_OK;
    if (memory == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s is null", what);
    if (((uintptr_t)memory & (element - 1)) != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s is not aligned to its elements of %u bytes", what,
                        element);
    }
    if (bytes > UINTPTR_MAX - (uintptr_t)memory) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " bytes of %s wrap around", bytes, what);
    }
    return RLX_OK;
}

/* Offset in the own heap, or private. What begins inside must end inside. */
static rlx_status place(const rlx_transport *transport, const void *memory, uint64_t bytes,
                        const char *what, uint64_t *out_offset) {
    uintptr_t at = (uintptr_t)memory, heap = (uintptr_t)transport->heap;
    uint64_t offset = at - heap;
    *out_offset = RLX_OFFSET_PRIVATE;
    if (bytes == 0 || at < heap || offset >= transport->heap_bytes) return RLX_OK;
    if (bytes > transport->heap_bytes - offset) {
        rlx_status status = RLX_FAIL(RLX_OUT_OF_BOUNDS,
                                     "%s: offset %" PRIu64 " + bytes %" PRIu64 " > heap %" PRIu64,
                                     what, offset, bytes, transport->heap_bytes);
        *rlx_error_detail_edit() = (rlx_error_detail){.rank = transport->rank,
                                                      .rank_count = transport->rank_count,
                                                      .offset = offset,
                                                      .bytes = bytes,
                                                      .limit = transport->heap_bytes};
        return status;
    }
    *out_offset = offset;
    return RLX_OK;
}

/* Where input or output must lie to count as in place, as bytes from the start of the larger one.
 */
static uint64_t in_place_offset(const rlx_transport *transport,
                                const rlx_collective_request *request, uint32_t element) {
    uint64_t first, count;
    switch (request->kind) {
    case RLX_COLLECTIVE_ALL_GATHER:
        return transport->rank * request->count * element;
    case RLX_COLLECTIVE_REDUCE_SCATTER:
        rlx_collective_part(request->count, transport->rank_count, transport->rank, &first, &count);
        return first * element;
    default:
        return 0;
    }
}

static rlx_status check_overlap(const rlx_collective_call *call) {
    uintptr_t in = (uintptr_t)call->input, out = (uintptr_t)call->output;
    if (in >= out + call->output_bytes || out >= in + call->input_bytes) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_ARGUMENT,
                    "input and output overlap and are not the same: %" PRIu64 " and %" PRIu64
                    " bytes, %" PRIu64 " apart",
                    call->input_bytes, call->output_bytes,
                    (uint64_t)(in > out ? in - out : out - in));
}

static rlx_status find_places(const rlx_transport *transport, const rlx_collective_request *request,
                              rlx_collective_call *call) {
    uintptr_t in = (uintptr_t)call->input, out = (uintptr_t)call->output;
    uint64_t inner = in_place_offset(transport, request, call->element_bytes);
    RLX_TRY(place(transport, call->input, call->input_bytes, "input", &call->input_offset));
    RLX_TRY(place(transport, call->output, call->output_bytes, "output", &call->output_offset));
    if (request->kind == RLX_COLLECTIVE_REDUCE_SCATTER) {
        /* Peers never see the output, and a part may be empty. */
        call->output_offset = RLX_OFFSET_PRIVATE;
        if (out == in + inner) return RLX_OK;
    } else if (call->input_bytes != 0 && in == out + inner) {
        call->input_offset = RLX_OFFSET_IN_PLACE;
        return RLX_OK;
    }
    return check_overlap(call);
}

static rlx_status make_call(const rlx_transport *transport, const rlx_collective_request *request,
                            rlx_collective_call *call) {
    RLX_TRY(check_numbers(transport, request));
    *call = (rlx_collective_call){.kind = request->kind,
                                  .dtype = request->dtype,
                                  .count = request->count,
                                  .input = request->input,
                                  .output = request->output};
    if (reduces(request->kind)) call->reduction = request->reduction;
    if (request->kind == RLX_COLLECTIVE_BROADCAST) call->root = request->root;
    RLX_TRY(measure(transport, request, call));
    RLX_TRY(check_memory(call->input, call->input_bytes, call->element_bytes, "input"));
    RLX_TRY(check_memory(call->output, call->output_bytes, call->element_bytes, "output"));
    return find_places(transport, request, call);
}

/* Tells the peers that this rank's arguments are wrong, and keeps the reason. */
static rlx_status poison(rlx_transport *transport, const rlx_collective_request *request,
                         rlx_status cause) {
    const rlx_collective_call call = {.kind = RLX_CALL_POISON, .root = (uint32_t)cause};
    rlx_error_record record;
    rlx_fail_context(cause, "%s on rank %u", rlx_collective_kind_name(request->kind),
                     transport->rank);
    rlx_error_save(&record);
    (void)!transport->ops->run(transport, &call);
    rlx_error_restore(&record);
    return cause;
}

static rlx_status run_checked(rlx_transport *transport, const rlx_collective_request *request) {
    rlx_collective_call call;
    rlx_status status;
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "collective: null");
    status = make_call(transport, request, &call);
    if (status != RLX_OK) return poison(transport, request, status);
    return transport->ops->run(transport, &call);
}

rlx_status rlx_collective_run(rlx_transport *transport, const rlx_collective_request *request) {
    if (request == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "collective: null");
    if (request->kind == RLX_COLLECTIVE_ALL_REDUCE) {
        return rlx_all_reduce(transport, request->input, request->output, request->count,
                              request->dtype, request->reduction);
    }
    return run_checked(transport, request);
}

rlx_status rlx_collective_start(rlx_transport *transport, const rlx_collective_request *request,
                                uint64_t *out_token) {
    rlx_collective_call call;
    rlx_status status;
    if (transport == NULL || request == NULL || out_token == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "collective: null");
    }
    status = make_call(transport, request, &call);
    if (status != RLX_OK) return poison(transport, request, status);
    return transport->ops->start(transport, &call, out_token);
}

rlx_status rlx_collective_wait(rlx_transport *transport, uint64_t token) {
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "collective: null");
    return transport->ops->wait(transport, token);
}

/* Apart, so that the short way saves no registers for it. */
__attribute__((noinline)) rlx_status rlx_all_reduce_checked(rlx_transport *transport,
                                                            const void *input, void *output,
                                                            uint64_t count, rlx_dtype dtype,
                                                            rlx_reduction reduction) {
    const rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_REDUCE,
                                            .reduction = reduction,
                                            .dtype = dtype,
                                            .count = count,
                                            .input = input,
                                            .output = output};
    return run_checked(transport, &request);
}

rlx_status rlx_all_reduce(rlx_transport *transport, const void *input, void *output, uint64_t count,
                          rlx_dtype dtype, rlx_reduction reduction) {
    if (transport != NULL && transport->ops->all_reduce != NULL) {
        return transport->ops->all_reduce(transport, input, output, count, dtype, reduction);
    }
    return rlx_all_reduce_checked(transport, input, output, count, dtype, reduction);
}

rlx_status rlx_all_gather(rlx_transport *transport, const void *input, void *output, uint64_t count,
                          rlx_dtype dtype) {
    const rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_GATHER,
                                            .dtype = dtype,
                                            .count = count,
                                            .input = input,
                                            .output = output};
    return rlx_collective_run(transport, &request);
}

rlx_status rlx_reduce_scatter(rlx_transport *transport, const void *input, void *output,
                              uint64_t count, rlx_dtype dtype, rlx_reduction reduction) {
    const rlx_collective_request request = {.kind = RLX_COLLECTIVE_REDUCE_SCATTER,
                                            .reduction = reduction,
                                            .dtype = dtype,
                                            .count = count,
                                            .input = input,
                                            .output = output};
    return rlx_collective_run(transport, &request);
}

rlx_status rlx_broadcast(rlx_transport *transport, void *buffer, uint64_t count, rlx_dtype dtype,
                         uint32_t root) {
    const rlx_collective_request request = {.kind = RLX_COLLECTIVE_BROADCAST,
                                            .dtype = dtype,
                                            .root = root,
                                            .count = count,
                                            .output = buffer};
    return rlx_collective_run(transport, &request);
}

rlx_status rlx_all_to_all(rlx_transport *transport, const void *input, void *output, uint64_t count,
                          rlx_dtype dtype) {
    const rlx_collective_request request = {.kind = RLX_COLLECTIVE_ALL_TO_ALL,
                                            .dtype = dtype,
                                            .count = count,
                                            .input = input,
                                            .output = output};
    return rlx_collective_run(transport, &request);
}
