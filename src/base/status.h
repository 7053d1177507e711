/* SPDX-License-Identifier: Apache-2.0 */
/* How functions fail: RLX_FAIL writes the fact into the thread's record and yields the status;
 * RLX_TRY hands a failure on; RLX_TRY_WITH hands it on and says where ("where: fact"). */
#ifndef RLX_BASE_STATUS_H
#define RLX_BASE_STATUS_H

#include <rlx/base.h>

#include <inttypes.h>

/* Longest text that is kept; a longer one is cut with "...". */
enum { RLX_ERROR_TEXT_BYTES = 1024 };

/* Replaces the thread's record by this text and empty details; returns `status`. */
rlx_status rlx_fail(rlx_status status, const char *format, ...) RLX_PRINTF(2, 3);

/* Puts "context: " before the text of the record; returns `status`. */
rlx_status rlx_fail_context(rlx_status status, const char *format, ...) RLX_PRINTF(2, 3);

/* The details of the record, to be filled in right after rlx_fail. */
rlx_error_detail *rlx_error_detail_edit(void);

/* Copies the record out and back in, for work that fails on another thread. */
typedef struct rlx_error_record {
    rlx_error_detail detail;
    char text[RLX_ERROR_TEXT_BYTES];
} rlx_error_record;
void rlx_error_save(rlx_error_record *out_record);
void rlx_error_restore(const rlx_error_record *record);

#define RLX_FAIL(status, ...) rlx_fail((status), __VA_ARGS__)

#define RLX_TRY(call)                                          \
    do {                                                       \
        rlx_status rlx_try_status_ = (call);                   \
        if (rlx_try_status_ != RLX_OK) return rlx_try_status_; \
    } while (0)

#define RLX_TRY_WITH(call, ...)                                                               \
    do {                                                                                      \
        rlx_status rlx_try_status_ = (call);                                                  \
        if (rlx_try_status_ != RLX_OK) return rlx_fail_context(rlx_try_status_, __VA_ARGS__); \
    } while (0)

/* States an invariant of ours. On in debug and CI builds (RLX_ENABLE_ASSERT), gone in release. */
#if defined(RLX_ENABLE_ASSERT)
#include <assert.h>
#define RLX_ASSERT(condition) assert(condition)
#else
#define RLX_ASSERT(condition) ((void)sizeof(condition))
#endif

#endif
