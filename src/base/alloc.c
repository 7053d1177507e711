/* SPDX-License-Identifier: Apache-2.0 */
/* Memory through the allocator hook. Every failure says how many bytes were wanted, and says it
 * without allocating. */
#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <string.h>
#include <sys/mman.h>

/* What malloc gives on every platform we run on. */
enum { PLAIN_ALIGNMENT = 16 };

static void *default_allocate(void *user, size_t bytes, size_t alignment) {
    void *memory = NULL;
    (void)user;
    if (alignment <= PLAIN_ALIGNMENT) return malloc(bytes);
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void default_release(void *user, void *memory) {
    (void)user;
    free(memory);
}

static const rlx_allocator default_allocator = {default_allocate, default_release, NULL};

const rlx_allocator *rlx_default_allocator(void) {
    return &default_allocator;
}

static rlx_status out_of_memory(uint64_t bytes) {
    rlx_status status = RLX_FAIL(RLX_OUT_OF_MEMORY, "out of memory: %" PRIu64 " bytes", bytes);
    rlx_error_detail_edit()->bytes = bytes;
    return status;
}

rlx_status rlx_alloc_aligned(const rlx_allocator *allocator, uint64_t bytes, uint64_t alignment,
                             void **out) {
    void *memory = NULL;
    if (allocator == NULL) allocator = &default_allocator;
    RLX_ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
    if (bytes != 0) {
        /* PTRDIFF_MAX is the largest object C knows. */
        if (bytes > PTRDIFF_MAX || alignment > PTRDIFF_MAX) return out_of_memory(bytes);
        memory = allocator->allocate(allocator->user, (size_t)bytes, (size_t)alignment);
        if (memory == NULL) return out_of_memory(bytes);
    }
    *out = memory;
    return RLX_OK;
}

rlx_status rlx_alloc(const rlx_allocator *allocator, uint64_t bytes, void **out) {
    return rlx_alloc_aligned(allocator, bytes, PLAIN_ALIGNMENT, out);
}

/* calloc leaves fresh pages untouched, which matters for large arenas. */
static rlx_status default_alloc_zero(uint64_t bytes, void **out) {
    void *memory = bytes > PTRDIFF_MAX ? NULL : calloc(1, (size_t)bytes);
    if (memory == NULL) return out_of_memory(bytes);
    *out = memory;
    return RLX_OK;
}

rlx_status rlx_alloc_zero(const rlx_allocator *allocator, uint64_t bytes, void **out) {
    void *memory = NULL;
    if (allocator == NULL) allocator = &default_allocator;
    if (bytes != 0 && allocator->allocate == default_allocate) {
        return default_alloc_zero(bytes, out);
    }
    RLX_TRY(rlx_alloc(allocator, bytes, &memory));
    if (memory != NULL) memset(memory, 0, (size_t)bytes);
    *out = memory;
    return RLX_OK;
}

rlx_status rlx_alloc_array(const rlx_allocator *allocator, uint64_t count, uint64_t element_bytes,
                           void **out) {
    uint64_t bytes;
    if (!rlx_mul_u64(count, element_bytes, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY,
                        "out of memory: %" PRIu64 " elements of %" PRIu64 " bytes", count,
                        element_bytes);
    }
    return rlx_alloc_zero(allocator, bytes, out);
}

void rlx_free(const rlx_allocator *allocator, void *memory) {
    if (memory == NULL) return;
    if (allocator == NULL) allocator = &default_allocator;
    allocator->release(allocator->user, memory);
}

rlx_status rlx_addresses_reserve(uint64_t bytes, void **out_first) {
    void *first = bytes > SIZE_MAX ? MAP_FAILED
                                   : mmap(NULL, (size_t)bytes, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (first == MAP_FAILED) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "no %" PRIu64 " addresses in a row are free", bytes);
    }
    *out_first = first;
    return RLX_OK;
}

void rlx_addresses_release(void *first, uint64_t bytes) {
    if (first != NULL) (void)munmap(first, (size_t)bytes);
}

void rlx_prefer_large_pages(void *memory, uint64_t bytes) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t page = 4096, large = (uintptr_t)2 << 20;
    /* With the pages at both ends: advice on a part of a mapping would cut it in two. */
    uintptr_t before = (uintptr_t)memory & (page - 1);
    uint64_t whole = (bytes + before + page - 1) & ~(uint64_t)(page - 1);
    if (bytes >= large && whole >= bytes && whole <= SIZE_MAX)
        (void)madvise((char *)memory - before, (size_t)whole, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

void rlx_forget_pages(void *memory, uint64_t bytes) {
    const uintptr_t page = 4096;
    uintptr_t first = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) & ~(page - 1);
    if (end > first)
        (void)madvise((char *)memory + (first - (uintptr_t)memory), end - first, MADV_DONTNEED);
}

void rlx_alloc_trim(const rlx_allocator *allocator) {
    if (allocator != NULL && allocator->allocate != default_allocate) return;
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}
