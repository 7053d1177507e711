/* SPDX-License-Identifier: Apache-2.0 */
/* One hash for tables, checksums and keys: FNV-1a of 64 bits. The same bytes give the same number
 * on every machine; it is no defence against somebody who wants two to be equal. */
#ifndef RLX_BASE_HASH_H
#define RLX_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define RLX_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* The hash of what `hash` stands for with these bytes behind it. */
static inline uint64_t rlx_hash(uint64_t hash, const void *data, size_t bytes) {
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
