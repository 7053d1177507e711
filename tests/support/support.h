/* SPDX-License-Identifier: Apache-2.0 */
/* The few test helpers of our own, on top of cmocka: status checks, an allocator that fails the
 * n-th time, seeded numbers, ulp comparison, guard bytes, temporary folders. Include this instead
 * of cmocka.h. cmocka leaves a failed test by longjmp, so every check runs on the test's own
 * thread. */
#ifndef RLX_TESTS_SUPPORT_H
#define RLX_TESTS_SUPPORT_H

#include "base/alloc.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Compares a status and, on a difference, prints both by name and the error text. */
#define assert_status(expected, call) rlx_test_assert_status((expected), (call), __FILE__, __LINE__)
#define assert_ok(call)               assert_status(RLX_OK, (call))
void rlx_test_assert_status(rlx_status expected, rlx_status actual, const char *file, int line);

/* The error text of this thread contains `part`. */
#define assert_error_has(part) rlx_test_assert_error_has((part), __FILE__, __LINE__)
void rlx_test_assert_error_has(const char *part, const char *file, int line);

/* `text` contains `part`. */
#define assert_text_has(text, part) rlx_test_assert_text_has((text), (part), __FILE__, __LINE__)
void rlx_test_assert_text_has(const char *text, const char *part, const char *file, int line);

/* An allocator that counts, and fails the allocation number `fail_at` (from 0) and only that one.
 * Pass &failing->allocator. Thread-safe. */
typedef struct rlx_test_failing_allocator {
    rlx_allocator allocator;
    uint64_t fail_at;    /* UINT64_MAX: never */
    uint64_t call_count; /* allocations asked for so far */
    uint64_t live_count; /* blocks not yet released: a leak when it is not 0 at the end */
    uint64_t live_bytes;
    uint64_t peak_bytes;
} rlx_test_failing_allocator;
void rlx_test_failing_allocator_init(rlx_test_failing_allocator *failing, uint64_t fail_at);

/* Runs `body` with the n-th allocation failing, for n = 0, 1, ... until it needs no more. Each
 * failing run must return RLX_OUT_OF_MEMORY, have a text and leak nothing; the last must succeed
 * and leak nothing either. `body` makes and destroys its objects and returns the first failure.
 * Returns how many allocations a whole run makes. */
typedef rlx_status (*rlx_test_body)(const rlx_allocator *allocator, void *argument);
uint64_t rlx_test_every_allocation_fails(rlx_test_body body, void *argument);

/* Seeded numbers: the same on every machine. */
typedef struct rlx_test_random {
    uint64_t state;
} rlx_test_random;
rlx_test_random rlx_test_seed(uint64_t seed);
uint64_t rlx_test_next(rlx_test_random *random);
uint64_t rlx_test_below(rlx_test_random *random, uint64_t limit);       /* [0, limit), limit > 0 */
float rlx_test_uniform(rlx_test_random *random, float low, float high); /* [low, high) */
void rlx_test_fill_f32(rlx_test_random *random, float *out, size_t count, float low, float high);

/* Steps between two floats on the number line (-0 and +0 are the same point, two NaNs agree);
 * UINT64_MAX between a NaN and a number. */
uint64_t rlx_test_ulp_f32(float a, float b);
uint64_t rlx_test_ulp_f64(double a, double b);

/* |expected - actual| <= absolute + relative * |expected| for each element; NaN matches NaN,
 * infinity its like. The message names the first element that differs most. */
#define assert_close_f32(expected, actual, count, absolute, relative)                          \
    rlx_test_assert_close_f32((expected), (actual), (count), (absolute), (relative), __FILE__, \
                              __LINE__)
void rlx_test_assert_close_f32(const float *expected, const float *actual, size_t count,
                               double absolute, double relative, const char *file, int line);

/* Each element within `ulps` steps. */
#define assert_ulp_f32(expected, actual, count, ulps) \
    rlx_test_assert_ulp_f32((expected), (actual), (count), (ulps), __FILE__, __LINE__)
void rlx_test_assert_ulp_f32(const float *expected, const float *actual, size_t count,
                             uint64_t ulps, const char *file, int line);

/* Memory (64-byte aligned, filled with a pattern) between two zones of guard bytes; freeing it
 * fails the test when a guard byte was changed. */
void *rlx_test_guarded(size_t bytes);
bool rlx_test_guards_intact(const void *memory);
#define rlx_test_guarded_free(memory) rlx_test_guarded_release((memory), __FILE__, __LINE__)
void rlx_test_guarded_release(void *memory, const char *file, int line);

/* A fresh folder below $TMPDIR or /tmp, and its removal with everything in it. */
typedef struct rlx_test_folder {
    char path[256];
} rlx_test_folder;
void rlx_test_folder_create(rlx_test_folder *folder);
void rlx_test_folder_remove(rlx_test_folder *folder);
/* "folder/name" in one of four rotating buffers. */
const char *rlx_test_path(const rlx_test_folder *folder, const char *name);
void rlx_test_write_file(const char *path, const void *data, size_t bytes);
/* The whole file with a zero after it; owned, released with free(). */
char *rlx_test_read_file(const char *path, size_t *out_bytes);
/* How many entries a folder has. */
unsigned rlx_test_entry_count(const char *path);

#endif
