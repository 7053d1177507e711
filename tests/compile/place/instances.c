/* SPDX-License-Identifier: Apache-2.0 */
/* See instances.h. */
#include "instances.h"

void random_items(rlx_test_random *random, rlx_place_item *items, uint32_t count, uint64_t times,
                  uint64_t longest, uint64_t largest) {
    for (uint32_t i = 0; i < count; ++i) {
        items[i].lower = rlx_test_below(random, times);
        items[i].upper = items[i].lower + 1 + rlx_test_below(random, longest);
        items[i].bytes = 1 + rlx_test_below(random, largest);
    }
}

void cut_items(rlx_test_random *random, rlx_place_item *items, uint32_t count, uint64_t side) {
    uint32_t made = 1;
    items[0] = (rlx_place_item){0, side, side};
    while (made < count) {
        rlx_place_item *piece = &items[rlx_test_below(random, made)];
        rlx_place_item other = *piece;
        if (rlx_test_below(random, 2) == 0) {
            uint64_t length = piece->upper - piece->lower;
            if (length < 2) continue;
            piece->upper = piece->lower + 1 + rlx_test_below(random, length - 1);
            other.lower = piece->upper;
        } else {
            if (piece->bytes < 2) continue;
            piece->bytes = 1 + rlx_test_below(random, piece->bytes - 1);
            other.bytes -= piece->bytes;
        }
        items[made++] = other;
    }
}

uint64_t peak_of(const rlx_place_item *items, uint32_t count, const uint64_t *offsets) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count; ++i) {
        bool takes_memory = items[i].bytes != 0 && items[i].lower < items[i].upper;
        if (takes_memory && offsets[i] + items[i].bytes > peak) peak = offsets[i] + items[i].bytes;
    }
    return peak;
}
