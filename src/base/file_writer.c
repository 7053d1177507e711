/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file that appears whole or not at all: the bytes go to a new file beside the target,
 * which commit makes durable and renames over it. Small appends are gathered. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 64 << 10,
    NAME_EXTRA_BYTES = 48, /* ".tmp-" + two numbers */
    NAME_TRIES = 100,
};

struct rlx_file_writer {
    const rlx_allocator *allocator; /* borrowed */
    char *path;                     /* owned, followed by... */
    char *temporary_path;           /* ...this one in the same block */
    size_t temporary_bytes;
    int descriptor; /* -1 when closed */
    uint64_t offset;
    size_t buffered;
    unsigned char buffer[BUFFER_BYTES];
};

static rlx_status writer_failure(const char *path, const char *what, int code) {
    rlx_status status = RLX_FAIL(RLX_IO, "%s: cannot %s: %s", path, what, strerror(code));
    rlx_error_detail_edit()->os_error = code;
    return status;
}

/* Renaming over a device would replace the device itself. */
static rlx_status check_target(const char *path) {
    struct stat facts;
    if (stat(path, &facts) != 0 || S_ISREG(facts.st_mode)) return RLX_OK;
    return RLX_FAIL(RLX_IO, "%s: exists and is %s, not a regular file", path,
                    S_ISDIR(facts.st_mode) ? "a directory" : "a device, pipe or socket");
}

/* Never opens a file that is there already: it may belong to another writer, or be a trap. */
static rlx_status create_temporary(rlx_file_writer *writer) {
    static atomic_uint serial;
    for (int i = 0; i < NAME_TRIES; ++i) {
        unsigned number = atomic_fetch_add(&serial, 1);
        (void)snprintf(writer->temporary_path, writer->temporary_bytes, "%s.tmp-%ld-%u",
                       writer->path, (long)getpid(), number);
        writer->descriptor =
            open(writer->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor >= 0) return RLX_OK;
        if (errno != EEXIST) break;
    }
    return writer_failure(writer->path, "create", errno);
}

static void free_writer(rlx_file_writer *writer) {
    rlx_free(writer->allocator, writer->path);
    rlx_free(writer->allocator, writer);
}

rlx_status rlx_file_writer_open(const rlx_allocator *allocator, const char *path,
                                rlx_file_writer **out_writer) {
    rlx_status status = RLX_OK;
    rlx_file_writer *self = NULL;
    size_t path_bytes = strlen(path) + 1;

    RLX_TRY(check_target(path));
    RLX_TRY_WITH(rlx_alloc_zero(allocator, sizeof *self, (void **)&self), "%s", path);
    self->allocator = allocator;
    self->descriptor = -1;
    self->temporary_bytes = path_bytes + NAME_EXTRA_BYTES;
    status = rlx_alloc(allocator, path_bytes + self->temporary_bytes, (void **)&self->path);
    if (status != RLX_OK) goto fail;
    memcpy(self->path, path, path_bytes);
    self->temporary_path = self->path + path_bytes;
    status = create_temporary(self);
    if (status != RLX_OK) goto fail;
    *out_writer = self;
    return RLX_OK;
fail:
    free_writer(self);
    return status;
}

static rlx_status write_all(rlx_file_writer *writer, const unsigned char *data, uint64_t bytes) {
    while (bytes != 0) {
        size_t wanted = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
        ssize_t done = write(writer->descriptor, data, wanted);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return writer_failure(writer->path, "write", errno);
        data += done;
        bytes -= (uint64_t)done;
    }
    return RLX_OK;
}

static rlx_status flush_buffer(rlx_file_writer *writer) {
    size_t buffered = writer->buffered;
    writer->buffered = 0;
    return write_all(writer, writer->buffer, buffered);
}

rlx_status rlx_file_writer_append(rlx_file_writer *writer, const void *data, uint64_t bytes) {
    if (bytes > BUFFER_BYTES - writer->buffered) RLX_TRY(flush_buffer(writer));
    if (bytes >= BUFFER_BYTES) {
        RLX_TRY(write_all(writer, data, bytes));
    } else if (bytes != 0) {
        memcpy(writer->buffer + writer->buffered, data, (size_t)bytes);
        writer->buffered += (size_t)bytes;
    }
    writer->offset += bytes;
    return RLX_OK;
}

uint64_t rlx_file_writer_offset(const rlx_file_writer *writer) {
    return writer->offset;
}

rlx_status rlx_file_writer_commit(rlx_file_writer *writer) {
    rlx_status status = flush_buffer(writer);
    if (status == RLX_OK && fsync(writer->descriptor) != 0) {
        status = writer_failure(writer->path, "write", errno);
    }
    /* Some file systems report a full disk only here. */
    if (close(writer->descriptor) != 0 && status == RLX_OK) {
        status = writer_failure(writer->path, "close", errno);
    }
    writer->descriptor = -1;
    if (status == RLX_OK && rename(writer->temporary_path, writer->path) != 0) {
        status = writer_failure(writer->path, "rename into place", errno);
    }
    if (status != RLX_OK) {
        rlx_file_writer_abandon(writer);
        return status;
    }
    free_writer(writer);
    return RLX_OK;
}

void rlx_file_writer_abandon(rlx_file_writer *writer) {
    if (writer == NULL) return;
    if (writer->descriptor >= 0) close(writer->descriptor);
    unlink(writer->temporary_path);
    free_writer(writer);
}
