/* SPDX-License-Identifier: Apache-2.0 */
/* The list of families, and the numbers that their cases are made of. */
#include "kernels/families.h"

const kernel_family *const kernel_families[] = {
#define FAMILY(name) &kernel_##name,
#include "kernels/families.def"
#undef FAMILY
    NULL};

int64_t kernel_pick(uint32_t index, uint32_t what, int64_t low, int64_t high) {
    uint64_t x = ((uint64_t)index << 32 | what) * 0x9e3779b97f4a7c15u + 0x7f4a7c15u;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return low + (int64_t)(x % (uint64_t)(high - low + 1));
}
