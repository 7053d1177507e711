/* SPDX-License-Identifier: Apache-2.0 */
/* Memory through the allocator hook, and the scratch arena that a compile or an import owns. */
#ifndef RLX_BASE_ALLOC_H
#define RLX_BASE_ALLOC_H

#include "base/status.h"

/* `allocator` NULL means the default. `*out` is written only on success; bytes 0 gives NULL. */
RLX_WARN_UNUSED rlx_status rlx_alloc(const rlx_allocator *allocator, uint64_t bytes, void **out);
RLX_WARN_UNUSED rlx_status rlx_alloc_zero(const rlx_allocator *allocator, uint64_t bytes,
                                          void **out);
RLX_WARN_UNUSED rlx_status rlx_alloc_aligned(const rlx_allocator *allocator, uint64_t bytes,
                                             uint64_t alignment, void **out);
/* count * size, overflow-checked, zeroed. */
RLX_WARN_UNUSED rlx_status rlx_alloc_array(const rlx_allocator *allocator, uint64_t count,
                                           uint64_t element_bytes, void **out);
void rlx_free(const rlx_allocator *allocator, void *memory); /* NULL is fine */
/* Gives pages of freed memory back to the system where the allocator is the default one and the C
 * library can: after much small work, before something large that stays. */
void rlx_alloc_trim(const rlx_allocator *allocator);

/* A bump allocator over chunks: everything that is allocated from it is freed at once by
 * rlx_scratch_reset. A zeroed struct with `allocator` set is an empty scratch. */
typedef struct rlx_scratch_chunk rlx_scratch_chunk;
typedef struct rlx_scratch {
    const rlx_allocator *allocator; /* borrowed; NULL: default */
    rlx_scratch_chunk *head;        /* owned */
} rlx_scratch;

/* Zeroed memory, aligned to 16; bytes 0 gives NULL. */
RLX_WARN_UNUSED rlx_status rlx_scratch_alloc(rlx_scratch *scratch, uint64_t bytes, void **out);
RLX_WARN_UNUSED rlx_status rlx_scratch_array(rlx_scratch *scratch, uint64_t count,
                                             uint64_t element_bytes, void **out);
/* A copy of text[0, length) with a terminating zero. */
RLX_WARN_UNUSED rlx_status rlx_scratch_text(rlx_scratch *scratch, const char *text, size_t length,
                                            const char **out);
RLX_WARN_UNUSED rlx_status rlx_scratch_printf(rlx_scratch *scratch, const char **out,
                                              const char *format, ...) RLX_PRINTF(3, 4);
void rlx_scratch_reset(rlx_scratch *scratch);

/* Addresses that nothing else in the process has, without memory behind them: names for memory that
 * cannot be mapped. Whoever follows one is killed. */
RLX_WARN_UNUSED rlx_status rlx_addresses_reserve(uint64_t bytes, void **out_first);
void rlx_addresses_release(void *first, uint64_t bytes); /* NULL is fine */

/* Asks for large pages below memory that will be used as a whole: fewer address lookups. A wish; it
 * changes neither contents nor size. */
void rlx_prefer_large_pages(void *memory, uint64_t bytes);
/* Gives the whole pages inside back to the system, if it takes them. What they held is lost. */
void rlx_forget_pages(void *memory, uint64_t bytes);

#endif
