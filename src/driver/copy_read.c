/* SPDX-License-Identifier: Apache-2.0 */
/* Files as sources of copies: opening, and reading a range (see copy_read.h). Knows no engine. */
#include "driver/copy_read.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECT_LEAST = 64 << 10 }; /* shorter rests go through the page cache */

static const uint64_t read_most = UINT64_C(1) << 30; /* the system reads no more at once */

static rlx_status system_failure(const char *path, const char *what, int code) {
    rlx_status status = RLX_FAIL(RLX_IO, "%s: cannot %s: %s", path, what, strerror(code));
    rlx_error_detail_edit()->os_error = code;
    return status;
}

static rlx_status examine(rlx_copy_file *file) {
    struct stat facts;
    if (fstat(file->descriptor, &facts) != 0) return system_failure(file->path, "examine", errno);
    if (!S_ISREG(facts.st_mode)) {
        return RLX_FAIL(RLX_IO, "%s: is %s, not a regular file", file->path,
                        S_ISDIR(facts.st_mode) ? "a directory" : "a device, pipe or socket");
    }
    file->bytes = (uint64_t)facts.st_size;
    return RLX_OK;
}

rlx_status rlx_copy_file_open(const rlx_allocator *allocator, const char *path,
                              rlx_copy_file **out_file) {
    rlx_copy_file *file = NULL;
    rlx_status status;
    if (path == NULL || out_file == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy file: path or result is null");
    }
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *file + strlen(path) + 1, (void **)&file));
    file->allocator = *allocator;
    memcpy(file->path, path, strlen(path) + 1);
    file->direct = -1;
    /* Not blocking: a pipe is refused, not waited for. */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    status = file->descriptor < 0 ? system_failure(path, "open", errno) : examine(file);
    if (status != RLX_OK) {
        rlx_copy_file_close(file);
        return status;
    }
    file->direct = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
    *out_file = file;
    return RLX_OK;
}

void rlx_copy_file_close(rlx_copy_file *file) {
    rlx_allocator allocator;
    if (file == NULL) return;
    if (file->descriptor >= 0) close(file->descriptor);
    if (file->direct >= 0) close(file->direct);
    allocator = file->allocator;
    rlx_free(&allocator, file);
}

uint64_t rlx_copy_file_bytes(const rlx_copy_file *file) {
    return file != NULL ? file->bytes : 0;
}

static void plan_buffered(rlx_copy_read *read, uint64_t bytes) {
    read->descriptor = read->file->descriptor;
    read->address = read->destination;
    read->at = read->offset;
    read->bytes = bytes < read_most ? bytes : read_most;
}

/* Offset and address are both on a page. */
static void plan_direct(rlx_copy_read *read) {
    plan_buffered(read, read->remaining & ~(uint64_t)(RLX_COPY_PAGE - 1));
    read->descriptor = read->file->direct;
    read->is_direct = true;
}

/* Offset and address can never be on a page together: whole pages into the bounce buffer. */
static void plan_bounced(rlx_copy_read *read) {
    uint64_t bytes;
    read->skip = read->offset % RLX_COPY_PAGE;
    bytes = read->remaining + read->skip;
    bytes = (bytes + RLX_COPY_PAGE - 1) & ~(uint64_t)(RLX_COPY_PAGE - 1);
    read->descriptor = read->file->direct;
    read->address = read->bounce;
    read->at = read->offset - read->skip;
    read->bytes = bytes < RLX_COPY_BOUNCE_BYTES ? bytes : RLX_COPY_BOUNCE_BYTES;
    read->is_direct = read->is_bounced = true;
}

void rlx_copy_read_next(rlx_copy_read *read) {
    uint64_t offset_rest = read->offset % RLX_COPY_PAGE;
    uint64_t address_rest = (uintptr_t)read->destination % RLX_COPY_PAGE;
    read->skip = 0;
    read->is_direct = read->is_bounced = false;
    if (!read->may_direct || read->file->direct < 0 || read->bounce == NULL ||
        read->remaining < DIRECT_LEAST) {
        plan_buffered(read, read->remaining);
    } else if (offset_rest != address_rest) {
        plan_bounced(read);
    } else if (offset_rest != 0) {
        plan_buffered(read, RLX_COPY_PAGE - offset_rest); /* up to the page, then direct */
    } else {
        plan_direct(read);
    }
}

static rlx_status fail_read(const rlx_copy_read *read, int code) {
    rlx_status status = RLX_FAIL(RLX_IO, "%s: cannot read %" PRIu64 " bytes at %" PRIu64 ": %s",
                                 read->file->path, read->bytes, read->at, strerror(code));
    *rlx_error_detail_edit() =
        (rlx_error_detail){.offset = read->at, .bytes = read->bytes, .os_error = code};
    return status;
}

static rlx_status fail_end(const rlx_copy_read *read) {
    rlx_status status = RLX_FAIL(RLX_IO, "%s: ends at byte %" PRIu64 ", %" PRIu64 " bytes early",
                                 read->file->path, read->offset, read->remaining);
    *rlx_error_detail_edit() = (rlx_error_detail){
        .offset = read->offset, .bytes = read->remaining, .limit = read->file->bytes};
    return status;
}

rlx_status rlx_copy_read_took(rlx_copy_read *read, int64_t result) {
    uint64_t got;
    if (read->hooks != NULL && read->hooks->result != NULL) {
        result = read->hooks->result(read->hooks->user, read->at, read->bytes, result);
    }
    if (result == -EINTR || result == -EAGAIN) return RLX_OK;
    if (read->is_direct && (result == -EINVAL || (result >= 0 && (uint64_t)result <= read->skip))) {
        read->may_direct = false; /* the page cache shall say whether it is true */
        return RLX_OK;
    }
    if (result < 0) return fail_read(read, (int)-result);
    if (result == 0) return fail_end(read);
    if (!read->is_direct) read->is_cached = true;
    got = (uint64_t)result - read->skip;
    if (got > read->remaining) got = read->remaining;
    if (read->is_bounced) memcpy(read->destination, read->bounce + read->skip, (size_t)got);
    read->destination += got;
    read->offset += got;
    read->remaining -= got;
    return RLX_OK;
}

rlx_status rlx_copy_read_all(rlx_copy_read *read) {
    while (read->remaining != 0) {
        ssize_t got;
        rlx_copy_read_next(read);
        got = pread(read->descriptor, read->address, (size_t)read->bytes, (off_t)read->at);
        RLX_TRY(rlx_copy_read_took(read, got < 0 ? -errno : got));
    }
    return RLX_OK;
}

void rlx_copy_read_forget(const rlx_copy_file *file, uint64_t offset, uint64_t bytes) {
    (void)posix_fadvise(file->descriptor, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}
