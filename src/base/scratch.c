/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch arena: a bump pointer over a list of chunks that grow geometrically. Pieces are never
 * freed one by one; rlx_scratch_reset gives all chunks back. Used by one thread at a time. */
#include "base/alloc.h"
#include "base/size.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PIECE_ALIGNMENT = 16,
    FIRST_CHUNK_BYTES = 4 << 10,
    LARGEST_CHUNK_BYTES = 1 << 20, /* a larger piece gets a chunk of its own size */
};

struct rlx_scratch_chunk {
    rlx_scratch_chunk *next; /* older chunk, owned */
    uint64_t used, capacity; /* bytes of data[] */
    _Alignas(PIECE_ALIGNMENT) unsigned char data[];
};

/* Puts a chunk with room for `bytes` in front. What was left of the old one stays unused. */
static rlx_status add_chunk(rlx_scratch *scratch, uint64_t bytes) {
    rlx_scratch_chunk *chunk = NULL;
    uint64_t capacity = FIRST_CHUNK_BYTES, chunk_bytes;
    if (scratch->head != NULL) capacity = scratch->head->capacity * 2;
    if (capacity > LARGEST_CHUNK_BYTES) capacity = LARGEST_CHUNK_BYTES;
    if (capacity < bytes) capacity = bytes;
    if (!rlx_add_u64(sizeof *chunk, capacity, &chunk_bytes)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "out of memory: %" PRIu64 " bytes of scratch", bytes);
    }
    RLX_TRY(rlx_alloc(scratch->allocator, chunk_bytes, (void **)&chunk));
    *chunk = (rlx_scratch_chunk){.next = scratch->head, .used = 0, .capacity = capacity};
    scratch->head = chunk;
    return RLX_OK;
}

rlx_status rlx_scratch_alloc(rlx_scratch *scratch, uint64_t bytes, void **out) {
    rlx_scratch_chunk *chunk = scratch->head;
    uint64_t padded;
    if (bytes == 0) {
        *out = NULL;
        return RLX_OK;
    }
    if (!rlx_align_u64(bytes, PIECE_ALIGNMENT, &padded)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "out of memory: %" PRIu64 " bytes of scratch", bytes);
    }
    if (chunk == NULL || padded > chunk->capacity - chunk->used) {
        RLX_TRY(add_chunk(scratch, padded));
        chunk = scratch->head;
    }
    *out = memset(chunk->data + chunk->used, 0, (size_t)padded);
    chunk->used += padded;
    return RLX_OK;
}

rlx_status rlx_scratch_array(rlx_scratch *scratch, uint64_t count, uint64_t element_bytes,
                             void **out) {
    uint64_t bytes;
    if (!rlx_mul_u64(count, element_bytes, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY,
                        "out of memory: %" PRIu64 " elements of %" PRIu64 " bytes", count,
                        element_bytes);
    }
    return rlx_scratch_alloc(scratch, bytes, out);
}

rlx_status rlx_scratch_text(rlx_scratch *scratch, const char *text, size_t length,
                            const char **out) {
    char *copy = NULL;
    uint64_t bytes;
    if (!rlx_add_u64(length, 1, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY, "out of memory: a text of %zu bytes", length);
    }
    RLX_TRY(rlx_scratch_alloc(scratch, bytes, (void **)&copy));
    if (length != 0) memcpy(copy, text, length);
    *out = copy;
    return RLX_OK;
}

rlx_status rlx_scratch_printf(rlx_scratch *scratch, const char **out, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return RLX_FAIL(RLX_INTERNAL, "the text \"%s\" cannot be formatted", format);

    RLX_TRY(rlx_scratch_alloc(scratch, (uint64_t)length + 1, (void **)&text));
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    *out = text;
    return RLX_OK;
}

void rlx_scratch_reset(rlx_scratch *scratch) {
    while (scratch->head != NULL) {
        rlx_scratch_chunk *chunk = scratch->head;
        scratch->head = chunk->next;
        rlx_free(scratch->allocator, chunk);
    }
}
