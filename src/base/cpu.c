/* SPDX-License-Identifier: Apache-2.0 */
/* Asks cpuid, and xgetbv for the registers that the system saves. */
#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Register sets that the system saves on a switch (XCR0). */
enum { SAVES_AVX = 0x6, SAVES_AVX512 = 0xe6 };

static uint32_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint32_t detect(void) {
    const uint32_t avx512_needs =
        bit_AVX512F | bit_AVX512BW | (uint32_t)bit_AVX512VL | bit_AVX512DQ;
    uint32_t a, b = 0, c, d, leaf1_c, saved, flags = 0;
    if (__get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx) flags |= RLX_CPU_INTEL;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d)) return flags;
    if (!(leaf1_c & bit_OSXSAVE) || !(leaf1_c & bit_AVX)) return flags;
    saved = saved_registers();
    if ((saved & SAVES_AVX) != SAVES_AVX) return flags;
    if (leaf1_c & bit_F16C) flags |= RLX_CPU_F16C;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return flags;
    if (!(b & bit_AVX2) || !(leaf1_c & bit_FMA)) return flags;
    flags |= RLX_CPU_AVX2;
    if ((saved & SAVES_AVX512) != SAVES_AVX512 || (b & avx512_needs) != avx512_needs) return flags;
    flags |= RLX_CPU_AVX512;
    if (c & bit_AVX512VNNI) flags |= RLX_CPU_VNNI;
    return flags;
}
#elif defined(__aarch64__)
static uint32_t detect(void) {
    return RLX_CPU_NEON;
}
#else
static uint32_t detect(void) {
    return 0;
}
#endif

/* Asked once: cpuid leaves a virtual machine, which takes microseconds. */
uint32_t rlx_cpu_flags(void) {
    static const uint32_t is_known = 1u << 31;
    static _Atomic uint32_t known;
    uint32_t flags = atomic_load_explicit(&known, memory_order_relaxed);
    if (flags == 0) {
        flags = detect() | is_known; /* by several threads at once, with one result */
        atomic_store_explicit(&known, flags, memory_order_relaxed);
    }
    return flags & ~is_known;
}

static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = {
    {RLX_CPU_AVX2, "avx2"}, {RLX_CPU_F16C, "f16c"}, {RLX_CPU_AVX512, "avx512"},
    {RLX_CPU_VNNI, "vnni"}, {RLX_CPU_NEON, "neon"}, {RLX_CPU_INTEL, "intel"},
};

static size_t append(char *out, size_t used, size_t out_bytes, const char *text) {
    while (*text != '\0' && used + 1 < out_bytes)
        out[used++] = *text++;
    return used;
}

void rlx_cpu_flags_text(uint32_t flags, char *out, size_t out_bytes) {
    size_t used = 0;
    if (out_bytes == 0) return;
    for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; ++i) {
        if (!(flags & flag_names[i].flag)) continue;
        if (used != 0) used = append(out, used, out_bytes, " ");
        used = append(out, used, out_bytes, flag_names[i].name);
    }
    if (used == 0) used = append(out, used, out_bytes, "scalar");
    out[used] = '\0';
}
