/* SPDX-License-Identifier: Apache-2.0 */
/* One range of a file on its way into memory, as a sequence of single reads: `next` says which read
 * to make, `took` is told its result. So blocking reads and io_uring share every decision: past the
 * page cache or not, through a bounce buffer or not, what a short read means. */
#ifndef RLX_DRIVER_COPY_READ_H
#define RLX_DRIVER_COPY_READ_H

#include "driver/copy.h"

enum {
    RLX_COPY_PAGE = 4096,           /* what O_DIRECT wants aligned */
    RLX_COPY_BOUNCE_BYTES = 1 << 20 /* of the aligned buffer of each reader */
};

typedef struct rlx_copy_read {
    const rlx_copy_file *file;
    const rlx_copy_hooks *hooks;
    uint8_t *bounce; /* aligned to a page; NULL: no direct reads */
    uint8_t *destination;
    uint64_t offset, remaining;
    bool may_direct; /* past the page cache where alignment and filesystem allow */
    bool is_cached;  /* some of it went through the page cache */

    /* The read that `next` decided on. */
    int descriptor;
    uint8_t *address;
    uint64_t at, bytes;
    uint64_t skip; /* leading bytes of the bounce buffer that were not asked for */
    bool is_direct, is_bounced;
} rlx_copy_read;

/* remaining is not 0. */
void rlx_copy_read_next(rlx_copy_read *read);
/* `result` is bytes, or -errno. RLX_IO when the range cannot be had. */
RLX_WARN_UNUSED rlx_status rlx_copy_read_took(rlx_copy_read *read, int64_t result);
/* Blocking, until nothing remains. */
RLX_WARN_UNUSED rlx_status rlx_copy_read_all(rlx_copy_read *read);
/* The page cache need not keep this range. */
void rlx_copy_read_forget(const rlx_copy_file *file, uint64_t offset, uint64_t bytes);

#endif
