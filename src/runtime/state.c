/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an executable: zero it, save it, restore it. A file has a header of four
 * little-endian words after the magic, then the bytes of the state segment. */
#include "runtime/exec.h"

#include <string.h>

enum { HEADER_BYTES = 32, VERSION = 1, STAGE_BYTES = 16384 };
static const char magic[8] = {'r', 'l', 'x', 's', 't', 'a', 't', 'e'};

static void put_u64(uint8_t *at, uint64_t value) {
    for (uint32_t i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_u64(const uint8_t *at) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

rlx_status rlx_exec_reset_state(rlx_exec *exec) {
    rlx_status status;
    RLX_TRY(rlx_exec_enter(exec));
    status =
        rlx_arena_fill(exec->arena, RLX_SEGMENT_STATE, 0, exec->arena->bytes[RLX_SEGMENT_STATE], 0);
    rlx_exec_leave(exec);
    return status;
}

static rlx_status write_state(rlx_exec *exec, rlx_file_writer *writer) {
    uint64_t bytes = exec->arena->bytes[RLX_SEGMENT_STATE];
    uint8_t header[HEADER_BYTES], stage[STAGE_BYTES];
    memcpy(header, magic, sizeof magic);
    put_u64(header + 8, VERSION);
    put_u64(header + 16, exec->program->plan->state_hash);
    put_u64(header + 24, bytes);
    RLX_TRY(rlx_file_writer_append(writer, header, sizeof header));
    if (exec->arena->address[RLX_SEGMENT_STATE] != NULL) {
        return rlx_file_writer_append(writer, exec->arena->address[RLX_SEGMENT_STATE], bytes);
    }
    for (uint64_t at = 0; at < bytes;) {
        uint64_t now = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        RLX_TRY(rlx_arena_read_segment(exec->arena, RLX_SEGMENT_STATE, at, stage, now));
        RLX_TRY(rlx_file_writer_append(writer, stage, now));
        at += now;
    }
    return RLX_OK;
}

static rlx_status save_locked(rlx_exec *exec, const char *path) {
    rlx_file_writer *writer = NULL;
    rlx_status status;
    RLX_TRY(rlx_file_writer_open(&exec->allocator, path, &writer));
    status = write_state(exec, writer);
    if (status != RLX_OK) {
        rlx_file_writer_abandon(writer);
        return status;
    }
    return rlx_file_writer_commit(writer);
}

rlx_status rlx_exec_save_state(rlx_exec *exec, const char *path) {
    rlx_status status;
    if (path == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "path is NULL");
    RLX_TRY(rlx_exec_enter(exec));
    status = save_locked(exec, path);
    rlx_exec_leave(exec);
    return status;
}

static rlx_status check_file(const rlx_exec *exec, const rlx_file_map *map) {
    uint64_t bytes = exec->arena->bytes[RLX_SEGMENT_STATE];
    uint64_t hash = exec->program->plan->state_hash;
    if (map->bytes < HEADER_BYTES || memcmp(map->data, magic, sizeof magic) != 0) {
        return RLX_FAIL(RLX_PARSE, "not a state file of rlx");
    }
    if (get_u64(map->data + 8) != VERSION) {
        return RLX_FAIL(RLX_MISMATCH, "state file version %" PRIu64 ", this library reads %d",
                        get_u64(map->data + 8), VERSION);
    }
    if (get_u64(map->data + 16) != hash || get_u64(map->data + 24) != bytes) {
        return RLX_FAIL(RLX_MISMATCH,
                        "state layout %016" PRIx64 " of %" PRIu64
                        " bytes, the program has %016" PRIx64 " of %" PRIu64,
                        get_u64(map->data + 16), get_u64(map->data + 24), hash, bytes);
    }
    if (map->bytes - HEADER_BYTES != bytes) {
        return RLX_FAIL(RLX_PARSE, "state file has %" PRIu64 " bytes, expected %" PRIu64,
                        map->bytes, bytes + HEADER_BYTES);
    }
    return RLX_OK;
}

static rlx_status restore_locked(rlx_exec *exec, const char *path) {
    rlx_file_map map = {0};
    rlx_status status;
    RLX_TRY(rlx_file_map_open(path, &map));
    status = check_file(exec, &map);
    if (status == RLX_OK) {
        status = rlx_arena_write_segment(exec->arena, RLX_SEGMENT_STATE, 0, map.data + HEADER_BYTES,
                                         map.bytes - HEADER_BYTES);
    }
    rlx_file_map_close(&map);
    if (status != RLX_OK) return rlx_fail_context(status, "%.300s", path);
    return RLX_OK;
}

rlx_status rlx_exec_restore_state(rlx_exec *exec, const char *path) {
    rlx_status status;
    if (path == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "path is NULL");
    RLX_TRY(rlx_exec_enter(exec));
    status = restore_locked(exec, path);
    rlx_exec_leave(exec);
    return status;
}
