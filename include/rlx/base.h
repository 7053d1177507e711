/* SPDX-License-Identifier: Apache-2.0 */
/* What every other header stands on: export macros, status codes, the error record of a thread,
 * the allocator hook, the log callback and the version.
 *
 * Ownership has four words in these headers: owned (you destroy it), borrowed (valid for the call,
 * or as long as the named object), retained (counted), consumed (yours until success, then the
 * callee's). */
#ifndef RLX_BASE_H
#define RLX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
#define RLX_BEGIN_DECLS extern "C" {
#define RLX_END_DECLS   }
#else
#define RLX_BEGIN_DECLS
#define RLX_END_DECLS
#endif

#if defined(__GNUC__)
#define RLX_API         __attribute__((visibility("default")))
#define RLX_WARN_UNUSED __attribute__((warn_unused_result))
#define RLX_PRINTF(format_index, first_index) \
    __attribute__((format(printf, format_index, first_index)))
#else
#define RLX_API
#define RLX_WARN_UNUSED
#define RLX_PRINTF(format_index, first_index)
#endif

/* RLX_API exports a function; RLX_CALL also warns when the returned status is dropped. */
#define RLX_CALL RLX_API RLX_WARN_UNUSED

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 1
#define RLX_VERSION_PATCH 0

RLX_BEGIN_DECLS

/* A status is a small enum: copy it, compare it. The text sits in a record of the calling thread
 * (rlx_last_error). */
typedef enum rlx_status {
#define RLX_STATUS(name, text) RLX_##name,
#include <rlx/status.def>
#undef RLX_STATUS
    RLX_STATUS_COUNT
} rlx_status;

/* The short fixed text of a status ("out of memory"). Never NULL. */
RLX_API const char *rlx_status_text(rlx_status status);

/* Facts of the last failure on this thread that a program may want to read. A field that the
 * failure does not have is 0. */
typedef struct rlx_error_detail {
    uint64_t expected; /* bytes, elements or a count, as the text says */
    uint64_t got;
    uint64_t offset;
    uint64_t bytes;
    uint64_t limit; /* heap bytes, slot bytes, capacity */
    uint32_t rank;  /* which rank, node, line or step, as the text says */
    uint32_t rank_count;
    uint32_t line;    /* line of a text file, from 1 */
    int32_t os_error; /* errno, where the system refused */
} rlx_error_detail;

/* The text of the last failure on this thread, with its context ("put 0 -> 1: offset 60 + ..."),
 * or "" when nothing failed yet. Borrowed until the next failing call on this thread. */
RLX_API const char *rlx_last_error(void);

/* The readable facts of the same failure. Borrowed like the text; never NULL. */
RLX_API const rlx_error_detail *rlx_last_error_detail(void);

/* Where memory comes from. `allocate` returns NULL when it cannot; `alignment` is a power of two.
 * The functions may be called from any thread. The struct and `user` must outlive every object that
 * was made with them; only where a header says "copied" the struct itself may go before. */
typedef struct rlx_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory);
    void *user;
} rlx_allocator;

/* The allocator that is used where NULL is passed: the C library's. */
RLX_API const rlx_allocator *rlx_default_allocator(void);

/* Frees a text that a function handed over as owned. `allocator` is that of the object it came from
 * (NULL: the default); NULL text is fine. */
RLX_API void rlx_string_free(const rlx_allocator *allocator, char *text);

typedef enum rlx_log_level {
    RLX_LOG_ERROR = 0,
    RLX_LOG_WARN,
    RLX_LOG_INFO,
    RLX_LOG_DEBUG,
    RLX_LOG_TRACE
} rlx_log_level;

/* Receives one message without a newline. May be called from any thread. */
typedef void (*rlx_log_fn)(void *user, rlx_log_level level, const char *message);

/* Sets the one log callback of the process (NULL: silence, the default) and the most detailed level
 * it wants. Not to be changed while other threads use rlx. */
RLX_API void rlx_log_set(rlx_log_fn callback, void *user, rlx_log_level level);

/* "0.1.0"; of the library, not of the header. */
RLX_API const char *rlx_version(void);

RLX_END_DECLS

#endif
