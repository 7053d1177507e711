/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files: whole maps and exact ranges. Only regular files are taken, so that a directory, a
 * pipe or a device gives an error and never a hang. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rlx_status system_failure(const char *path, const char *what, int code) {
    rlx_status status = RLX_FAIL(RLX_IO, "%s: cannot %s: %s", path, what, strerror(code));
    rlx_error_detail_edit()->os_error = code;
    return status;
}

/* Opens a regular file. `*out_bytes` is its size now. */
static rlx_status open_regular(const char *path, int *out_descriptor, uint64_t *out_bytes) {
    struct stat facts;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return system_failure(path, "open", errno);
    if (fstat(descriptor, &facts) != 0) {
        rlx_status status = system_failure(path, "examine", errno);
        close(descriptor);
        return status;
    }
    if (!S_ISREG(facts.st_mode)) {
        close(descriptor);
        return RLX_FAIL(RLX_IO, "%s: is %s, not a regular file", path,
                        S_ISDIR(facts.st_mode) ? "a directory" : "a device, pipe or socket");
    }
    *out_descriptor = descriptor;
    *out_bytes = (uint64_t)facts.st_size;
    return RLX_OK;
}

rlx_status rlx_file_map_open(const char *path, rlx_file_map *out_map) {
    rlx_status status = RLX_OK;
    rlx_file_map map = {0};
    void *data;
    int descriptor;
    RLX_TRY(open_regular(path, &descriptor, &map.bytes));
    if (map.bytes > PTRDIFF_MAX) {
        status = RLX_FAIL(RLX_IO, "%s: %" PRIu64 " bytes are too many to map", path, map.bytes);
    } else if (map.bytes != 0) {
        data = mmap(NULL, (size_t)map.bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED) status = system_failure(path, "map", errno);
        map.data = data;
    }
    close(descriptor); /* the map keeps the file */
    if (status == RLX_OK) *out_map = map;
    return status;
}

/* Address space for all, then each range over its part of it. */
rlx_status rlx_file_map_ranges(int descriptor, const char *path, const rlx_file_range *ranges,
                               uint32_t count, rlx_file_map *out_map) {
    rlx_file_map map = {0};
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        map.bytes += ranges[i].bytes;
    if (map.bytes == 0) return RLX_OK;
    if (map.bytes > PTRDIFF_MAX) {
        return RLX_FAIL(RLX_IO, "%s: %" PRIu64 " bytes are too many to map", path, map.bytes);
    }
    uint8_t *data = mmap(NULL, (size_t)map.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return system_failure(path, "map", errno);
    map.data = data;
    for (uint32_t i = 0; i < count; i++) {
        void *placed = mmap(data + at, (size_t)ranges[i].bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                            descriptor, (off_t)ranges[i].offset);
        if (placed == MAP_FAILED) {
            rlx_status status = system_failure(path, "map", errno);
            rlx_file_map_close(&map);
            return status;
        }
        at += ranges[i].bytes;
    }
    *out_map = map;
    return RLX_OK;
}

void rlx_file_map_forget(const rlx_file_map *map) {
    void *data;
    if (map->data == NULL) return;
    memcpy(&data, &map->data, sizeof data); /* the system call takes no const */
    (void)madvise(data, (size_t)map->bytes, MADV_DONTNEED);
}

void rlx_file_map_close(rlx_file_map *map) {
    /* The bytes are const for readers; munmap wants the same address back. */
    if (map->data != NULL) munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    *map = (rlx_file_map){0};
}

static rlx_status read_all(int descriptor, const char *path, uint64_t offset, uint64_t bytes,
                           unsigned char *out) {
    while (bytes != 0) {
        size_t wanted = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
        ssize_t got = pread(descriptor, out, wanted, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_failure(path, "read", errno);
        if (got == 0) {
            return RLX_FAIL(RLX_IO, "%s: ends at byte %" PRIu64 ", %" PRIu64 " bytes early", path,
                            offset, bytes);
        }
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
        out += got;
    }
    return RLX_OK;
}

rlx_status rlx_file_read_range(const char *path, uint64_t offset, uint64_t bytes, void *out) {
    rlx_status status;
    uint64_t file_bytes;
    int descriptor;
    RLX_TRY(open_regular(path, &descriptor, &file_bytes));
    if (bytes > file_bytes || offset > file_bytes - bytes) {
        status = RLX_FAIL(RLX_IO, "%s: offset %" PRIu64 " + bytes %" PRIu64 " > file %" PRIu64,
                          path, offset, bytes, file_bytes);
        *rlx_error_detail_edit() =
            (rlx_error_detail){.offset = offset, .bytes = bytes, .limit = file_bytes};
    } else {
        status = read_all(descriptor, path, offset, bytes, out);
    }
    close(descriptor);
    return status;
}
