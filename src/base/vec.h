/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays: RLX_VEC(type) declares the struct, rlx_vec_push appends, items are contiguous.
 *
 *     RLX_VEC(uint32_t) ids = {0};
 *     RLX_TRY(rlx_vec_push(allocator, &ids, 7u));   // status: out of memory
 *     ids.items[0]; ids.count;
 *     rlx_vec_free(allocator, &ids);
 */
#ifndef RLX_BASE_VEC_H
#define RLX_BASE_VEC_H

#include "base/alloc.h"

#include <string.h>

#define RLX_VEC(type)      \
    struct {               \
        type *items;       \
        uint32_t count;    \
        uint32_t capacity; \
    }

/* Makes room for `count` items in all; the pointer and capacity are updated through the vec. */
RLX_WARN_UNUSED rlx_status rlx_vec_grow(const rlx_allocator *allocator, void **items,
                                        uint32_t *capacity, uint32_t used, uint32_t count,
                                        size_t item_bytes);

#define rlx_vec_reserve(allocator, vec, wanted)                                              \
    ((wanted) <= (vec)->capacity                                                             \
         ? RLX_OK                                                                            \
         : rlx_vec_grow((allocator), (void **)&(vec)->items, &(vec)->capacity, (vec)->count, \
                        (wanted), sizeof *(vec)->items))

/* The value may be made from vec->count: it is read before the count moves on. */
#define rlx_vec_push(allocator, vec, ...)                                          \
    ((rlx_vec_reserve((allocator), (vec), (vec)->count + 1) == RLX_OK)             \
         ? ((vec)->items[(vec)->count] = (__VA_ARGS__), (vec)->count += 1, RLX_OK) \
         : RLX_OUT_OF_MEMORY)

#define rlx_vec_free(allocator, vec)         \
    do {                                     \
        rlx_free((allocator), (vec)->items); \
        (vec)->items = NULL;                 \
        (vec)->count = (vec)->capacity = 0;  \
    } while (0)

#endif
