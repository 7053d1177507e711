/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a program file: header, plan section, weights. The runtime hands in the weights once its
 * prepare steps have run; a program that is saved and one that runs have the same bytes. */
#include "base/hash.h"
#include "base/size.h"
#include "plan/file.h"

#include <stdio.h>

enum { PIECE_BYTES = 1 << 20 };

static void put_u64(uint8_t *at, uint64_t value) {
    for (uint32_t i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void put_u32(uint8_t *at, uint32_t value) {
    for (uint32_t i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

uint64_t rlx_file_checksum(const void *data, uint64_t bytes) {
    return rlx_hash(RLX_HASH_SEED, data, (size_t)bytes);
}

/* Weights are stored as the machine that prepared them had them: this number, written as such,
 * tells their byte order. */
static void put_byte_order(uint8_t *at) {
    uint32_t order = RLX_FILE_BYTE_ORDER;
    memcpy(at, &order, sizeof order);
}

void rlx_file_header_encode(const rlx_file_header *header, uint8_t *out_bytes) {
    memset(out_bytes, 0, RLX_FILE_HEADER_BYTES);
    memcpy(out_bytes, RLX_FILE_MAGIC, RLX_FILE_AT_VERSION);
    put_u32(out_bytes + RLX_FILE_AT_VERSION, RLX_FILE_VERSION);
    put_byte_order(out_bytes + RLX_FILE_AT_ORDER);
    put_u64(out_bytes + RLX_FILE_AT_PAGE, RLX_FILE_PAGE_BYTES);
    put_u64(out_bytes + RLX_FILE_AT_PLAN, RLX_FILE_HEADER_BYTES);
    put_u64(out_bytes + RLX_FILE_AT_PLAN + 8, header->plan_bytes);
    put_u64(out_bytes + RLX_FILE_AT_PLAN + 16, header->plan_checksum);
    put_u64(out_bytes + RLX_FILE_AT_WEIGHTS, header->weights_offset);
    put_u64(out_bytes + RLX_FILE_AT_WEIGHTS + 8, header->weights_bytes);
    put_u64(out_bytes + RLX_FILE_AT_STATE, header->state_hash);
    memcpy(out_bytes + RLX_FILE_AT_TARGET, header->target, RLX_FILE_TARGET_BYTES);
    put_u32(out_bytes + RLX_FILE_AT_PACKINGS, header->packing_count);
    for (uint32_t i = 0; i < header->packing_count; i++)
        put_u32(out_bytes + RLX_FILE_AT_PACKINGS + 4 * (i + 1), header->packings[i]);
    put_u64(out_bytes + RLX_FILE_AT_CHECKSUM, rlx_file_checksum(out_bytes, RLX_FILE_AT_CHECKSUM));
}

static rlx_status add_packing(rlx_file_header *header, uint32_t layout) {
    for (uint32_t i = 0; i < header->packing_count; i++) {
        if (header->packings[i] == layout) return RLX_OK;
    }
    if (layout == 0) return RLX_OK;
    if (header->packing_count == RLX_FILE_PACKINGS) {
        return RLX_FAIL(RLX_UNSUPPORTED, "the plan has more than %u packed layouts",
                        RLX_FILE_PACKINGS);
    }
    header->packings[header->packing_count++] = layout;
    return RLX_OK;
}

static rlx_status make_header(const rlx_plan *plan, const rlx_text *section,
                              rlx_file_header *header) {
    uint64_t end;
    size_t length = strlen(plan->target);
    *header = (rlx_file_header){
        .plan_bytes = section->length,
        .plan_checksum = rlx_file_checksum(section->data, section->length),
        .weights_bytes = plan->segment_bytes[RLX_SEGMENT_WEIGHTS],
        .state_hash = plan->state_hash,
    };
    if (length >= RLX_FILE_TARGET_BYTES) {
        return RLX_FAIL(RLX_UNSUPPORTED, "target name of %zu bytes, at most %u", length,
                        RLX_FILE_TARGET_BYTES - 1);
    }
    memcpy(header->target, plan->target, length);
    for (uint32_t i = 0; i < plan->slots.count; i++)
        RLX_TRY(add_packing(header, (uint32_t)plan->slots.items[i].layout));
    end = RLX_FILE_HEADER_BYTES + (uint64_t)section->length;
    if (!rlx_align_u64(end, RLX_FILE_PAGE_BYTES, &header->weights_offset)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the plan section has %zu bytes", section->length);
    }
    return RLX_OK;
}

static rlx_status write_zeros(rlx_file_writer *writer, uint64_t until) {
    static const uint8_t zeros[4096];
    while (rlx_file_writer_offset(writer) < until) {
        uint64_t left = until - rlx_file_writer_offset(writer);
        RLX_TRY(rlx_file_writer_append(writer, zeros, left < sizeof zeros ? left : sizeof zeros));
    }
    return RLX_OK;
}

static rlx_status write_weights(const rlx_plan *plan, rlx_file_writer *writer,
                                rlx_weights_read read, void *user) {
    uint64_t bytes = plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    void *piece = NULL;
    rlx_status status = RLX_OK;
    if (bytes == 0) return RLX_OK;
    RLX_TRY(rlx_alloc(plan->allocator, PIECE_BYTES, &piece));
    for (uint64_t at = 0; at < bytes && status == RLX_OK; at += PIECE_BYTES) {
        uint64_t count = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        status = read(user, at, count, piece);
        if (status == RLX_OK) status = rlx_file_writer_append(writer, piece, count);
    }
    rlx_free(plan->allocator, piece);
    return status;
}

static rlx_status write_all(const rlx_plan *plan, const rlx_text *section, rlx_weights_read read,
                            void *user, rlx_file_writer *writer) {
    rlx_file_header header;
    uint8_t raw[RLX_FILE_HEADER_BYTES];
    RLX_TRY(make_header(plan, section, &header));
    rlx_file_header_encode(&header, raw);
    RLX_TRY(rlx_file_writer_append(writer, raw, sizeof raw));
    RLX_TRY(rlx_file_writer_append(writer, section->data, section->length));
    RLX_TRY(write_zeros(writer, header.weights_offset));
    return write_weights(plan, writer, read, user);
}

rlx_status rlx_plan_save_stream(const rlx_plan *plan, rlx_weights_read read, void *user,
                                const char *path) {
    rlx_status status = RLX_OK;
    rlx_file_writer *writer = NULL;
    if (plan == NULL || read == NULL || path == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    if (rlx_plan_is_streamed(plan)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "%s: a plan under a weights budget lacks weights and is not saved", path);
    }
    RLX_TRY(rlx_plan_verify(plan));
    rlx_text section = {.allocator = plan->allocator};
    rlx_plan_encode(plan, &section);
    status = section.status;
    if (status != RLX_OK) {
        status = RLX_FAIL(status, "no memory for the plan section of %s", path);
    } else {
        status = rlx_file_writer_open(plan->allocator, path, &writer);
    }
    if (status == RLX_OK) status = write_all(plan, &section, read, user, writer);
    if (status == RLX_OK) {
        status = rlx_file_writer_commit(writer);
    } else {
        rlx_file_writer_abandon(writer);
    }
    rlx_text_free(&section);
    return status;
}

static rlx_status read_memory(void *user, uint64_t offset, uint64_t bytes, void *out) {
    const void *const *weights = user;
    memcpy(out, (const uint8_t *)*weights + offset, bytes);
    return RLX_OK;
}

rlx_status rlx_plan_save(const rlx_plan *plan, const void *weights, const char *path) {
    if (plan == NULL || (weights == NULL && plan->segment_bytes[RLX_SEGMENT_WEIGHTS] != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    return rlx_plan_save_stream(plan, read_memory, &weights, path);
}
