/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a program file: the header with everything that must agree before a byte of the plan is
 * looked at, then the plan section, then the verifier. Weights are left where they are. */
#include "base/size.h"
#include "plan/file.h"

static uint64_t get_u64(const uint8_t *at) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint32_t get_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

bool rlx_is_program_file(const void *data, uint64_t bytes) {
    return bytes >= RLX_FILE_AT_VERSION && memcmp(data, RLX_FILE_MAGIC, RLX_FILE_AT_VERSION) == 0;
}

/* What must agree before the checksum means anything: another version may have it elsewhere. */
static rlx_status check_format(const uint8_t *data, uint64_t bytes) {
    uint32_t order;
    if (!rlx_is_program_file(data, bytes)) {
        return RLX_FAIL(RLX_PARSE, "not a program file: it does not begin with the mark of one");
    }
    if (bytes < RLX_FILE_HEADER_BYTES) {
        return RLX_FAIL(RLX_PARSE, "cut short: %" PRIu64 " bytes, the header has %u", bytes,
                        RLX_FILE_HEADER_BYTES);
    }
    uint32_t version = get_u32(data + RLX_FILE_AT_VERSION);
    if (version != RLX_FILE_VERSION) {
        return RLX_FAIL(RLX_UNSUPPORTED, "format version %u, this build reads %u", version,
                        RLX_FILE_VERSION);
    }
    if (get_u64(data + RLX_FILE_AT_CHECKSUM) != rlx_file_checksum(data, RLX_FILE_AT_CHECKSUM)) {
        return RLX_FAIL(RLX_PARSE, "damaged: the checksum of the header does not match");
    }
    memcpy(&order, data + RLX_FILE_AT_ORDER, sizeof order);
    if (order != RLX_FILE_BYTE_ORDER) {
        return RLX_FAIL(RLX_UNSUPPORTED, "byte order %08x, this machine has %08x", order,
                        (unsigned)RLX_FILE_BYTE_ORDER);
    }
    uint64_t page = get_u64(data + RLX_FILE_AT_PAGE);
    if (page != RLX_FILE_PAGE_BYTES) {
        return RLX_FAIL(RLX_UNSUPPORTED, "page size %" PRIu64 ", this build reads %u", page,
                        RLX_FILE_PAGE_BYTES);
    }
    return RLX_OK;
}

static rlx_status check_ranges(const uint8_t *data, uint64_t bytes, const rlx_file_header *header) {
    uint64_t plan_at = get_u64(data + RLX_FILE_AT_PLAN), end, weights_at;
    if (plan_at != RLX_FILE_HEADER_BYTES || header->plan_bytes > bytes - RLX_FILE_HEADER_BYTES) {
        return RLX_FAIL(RLX_PARSE,
                        "cut short: plan at %" PRIu64 " + %" PRIu64 " bytes, file of %" PRIu64,
                        plan_at, header->plan_bytes, bytes);
    }
    if (!rlx_align_u64(RLX_FILE_HEADER_BYTES + header->plan_bytes, RLX_FILE_PAGE_BYTES,
                       &weights_at) ||
        weights_at != header->weights_offset) {
        return RLX_FAIL(RLX_PARSE,
                        "damaged: weights at %" PRIu64 " after a plan of %" PRIu64 " bytes",
                        header->weights_offset, header->plan_bytes);
    }
    if (!rlx_add_u64(header->weights_offset, header->weights_bytes, &end) || end > bytes) {
        return RLX_FAIL(RLX_PARSE,
                        "cut short: weights at %" PRIu64 " + %" PRIu64 " bytes, file of %" PRIu64,
                        header->weights_offset, header->weights_bytes, bytes);
    }
    if (end != bytes) {
        return RLX_FAIL(RLX_PARSE, "%" PRIu64 " bytes after its end at %" PRIu64, bytes - end, end);
    }
    return RLX_OK;
}

rlx_status rlx_file_header_decode(const uint8_t *data, uint64_t bytes,
                                  rlx_file_header *out_header) {
    rlx_file_header header = {0};
    RLX_TRY(check_format(data, bytes));
    header.plan_bytes = get_u64(data + RLX_FILE_AT_PLAN + 8);
    header.plan_checksum = get_u64(data + RLX_FILE_AT_PLAN + 16);
    header.weights_offset = get_u64(data + RLX_FILE_AT_WEIGHTS);
    header.weights_bytes = get_u64(data + RLX_FILE_AT_WEIGHTS + 8);
    header.state_hash = get_u64(data + RLX_FILE_AT_STATE);
    header.packing_count = get_u32(data + RLX_FILE_AT_PACKINGS);
    memcpy(header.target, data + RLX_FILE_AT_TARGET, RLX_FILE_TARGET_BYTES);
    if (header.packing_count > RLX_FILE_PACKINGS || header.target[RLX_FILE_TARGET_BYTES - 1] != 0) {
        return RLX_FAIL(RLX_PARSE, "damaged: the header has %u packed layouts or an endless target",
                        header.packing_count);
    }
    for (uint32_t i = 0; i < header.packing_count; i++)
        header.packings[i] = get_u32(data + RLX_FILE_AT_PACKINGS + 4 * (i + 1));
    RLX_TRY(check_ranges(data, bytes, &header));
    *out_header = header;
    return RLX_OK;
}

/* What the header promises about the plan. */
static rlx_status check_agreement(const rlx_file_header *header, const rlx_plan *plan) {
    if (strcmp(header->target, plan->target) != 0) {
        return RLX_FAIL(RLX_PARSE, "damaged: target '%.63s' in the header, '%.63s' in the plan",
                        header->target, plan->target);
    }
    if (header->weights_bytes != plan->segment_bytes[RLX_SEGMENT_WEIGHTS]) {
        return RLX_FAIL(RLX_PARSE, "damaged: %" PRIu64 " bytes of weights, the plan has %" PRIu64,
                        header->weights_bytes, plan->segment_bytes[RLX_SEGMENT_WEIGHTS]);
    }
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        uint32_t layout = (uint32_t)plan->slots.items[i].layout, found = 0;
        while (found < header->packing_count && header->packings[found] != layout)
            found++;
        if (layout != 0 && found == header->packing_count) {
            return RLX_FAIL(RLX_PARSE, "damaged: the plan has layout %u, the header does not",
                            layout);
        }
    }
    if (header->state_hash != plan->state_hash) {
        return RLX_FAIL(RLX_PARSE, "damaged: state hash %016" PRIx64 ", the plan has %016" PRIx64,
                        header->state_hash, plan->state_hash);
    }
    return RLX_OK;
}

/* Layouts are numbered in the order in which they were added. */
static rlx_status check_packings(const rlx_file_header *header) {
    for (uint32_t i = 0; i < header->packing_count; i++) {
        if (header->packings[i] != 0 && header->packings[i] < RLX_LAYOUT_COUNT) continue;
        return RLX_FAIL(RLX_UNSUPPORTED, "packed layout %u, this build knows 1 to %u",
                        header->packings[i], RLX_LAYOUT_COUNT - 1);
    }
    return RLX_OK;
}

rlx_status rlx_plan_load(const rlx_allocator *allocator, const rlx_file_map *map,
                         const char *target, rlx_plan **out_plan, uint64_t *out_weights_offset) {
    rlx_file_header header;
    rlx_plan *plan = NULL;
    rlx_status status = RLX_OK;
    if (map == NULL || out_plan == NULL || out_weights_offset == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    RLX_TRY(rlx_file_header_decode(map->data, map->bytes, &header));
    if (target != NULL && strcmp(target, header.target) != 0) {
        return RLX_FAIL(RLX_MISMATCH, "made for target '%.63s', this is '%.63s'", header.target,
                        target);
    }
    RLX_TRY(check_packings(&header));
    const uint8_t *section = map->data + RLX_FILE_HEADER_BYTES;
    if (rlx_file_checksum(section, header.plan_bytes) != header.plan_checksum) {
        return RLX_FAIL(RLX_PARSE, "damaged: the checksum of the plan does not match");
    }
    RLX_TRY(rlx_plan_decode(allocator, section, header.plan_bytes, &plan));
    status = check_agreement(&header, plan);
    if (status == RLX_OK) status = rlx_plan_verify(plan);
    if (status != RLX_OK) {
        rlx_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    *out_weights_offset = header.weights_offset;
    return RLX_OK;
}
