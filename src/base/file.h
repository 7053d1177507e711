/* SPDX-License-Identifier: Apache-2.0 */
/* Files: read-only maps, positioned reads, and writes that appear whole or not at all. Errors name
 * the path and what the system said; detail.os_error has errno. */
#ifndef RLX_BASE_FILE_H
#define RLX_BASE_FILE_H

#include "base/alloc.h"

/* A whole file mapped read-only. bytes 0 gives data NULL. */
typedef struct rlx_file_map {
    const uint8_t *data;
    uint64_t bytes;
} rlx_file_map;
RLX_WARN_UNUSED rlx_status rlx_file_map_open(const char *path, rlx_file_map *out_map);
/* Ranges of an open file, mapped one behind the other: offsets are multiples of the system's page
 * size, and so are sizes but for the last. Nothing else of the file is mapped. */
typedef struct rlx_file_range {
    uint64_t offset, bytes;
} rlx_file_range;
RLX_WARN_UNUSED rlx_status rlx_file_map_ranges(int descriptor, const char *path,
                                               const rlx_file_range *ranges, uint32_t count,
                                               rlx_file_map *out_map);
void rlx_file_map_close(rlx_file_map *map); /* zeroed struct is fine */
/* Gives back the memory that reading the map took; what is read later comes from the file again. */
void rlx_file_map_forget(const rlx_file_map *map);

/* Reads exactly [offset, offset + bytes) into memory; a shorter file is RLX_IO. */
RLX_WARN_UNUSED rlx_status rlx_file_read_range(const char *path, uint64_t offset, uint64_t bytes,
                                               void *out);

/* A file that is written beside its target (path.tmp-PID-N) and renamed over it by commit; abandon
 * (or a failed commit) removes it, so nothing half-written stays. A target that exists and is not a
 * regular file (a device, a folder) is refused. */
typedef struct rlx_file_writer rlx_file_writer;
RLX_WARN_UNUSED rlx_status rlx_file_writer_open(const rlx_allocator *allocator, const char *path,
                                                rlx_file_writer **out_writer);
RLX_WARN_UNUSED rlx_status rlx_file_writer_append(rlx_file_writer *writer, const void *data,
                                                  uint64_t bytes);
uint64_t rlx_file_writer_offset(const rlx_file_writer *writer);
RLX_WARN_UNUSED rlx_status rlx_file_writer_commit(rlx_file_writer *writer); /* consumes */
void rlx_file_writer_abandon(rlx_file_writer *writer);                      /* NULL is fine */

#endif
