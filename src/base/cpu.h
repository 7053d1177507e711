/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction sets the processor has and the system lets us use, and who made it. Whoever
 * picks kernels masks these flags further; nothing here chooses. */
#ifndef RLX_BASE_CPU_H
#define RLX_BASE_CPU_H

#include <stddef.h>
#include <stdint.h>

typedef enum rlx_cpu_flag {
    RLX_CPU_AVX2 = 1u << 0,   /* AVX2 and FMA */
    RLX_CPU_F16C = 1u << 1,   /* half <-> float conversion */
    RLX_CPU_AVX512 = 1u << 2, /* AVX-512 F, BW, VL and DQ; implies RLX_CPU_AVX2 */
    RLX_CPU_VNNI = 1u << 3,   /* AVX-512 VNNI; implies RLX_CPU_AVX512 */
    RLX_CPU_NEON = 1u << 4,   /* always there on aarch64 */
    RLX_CPU_INTEL = 1u << 5   /* made by Intel: what is fast there may be slow elsewhere */
} rlx_cpu_flag;

/* The rlx_cpu_flag bits of this machine; the same in every call. */
uint32_t rlx_cpu_flags(void);

/* Writes the names of `flags` ("avx2 f16c avx512"), or "scalar" for none, into `out`; cut to fit.
 */
void rlx_cpu_flags_text(uint32_t flags, char *out, size_t out_bytes);

#endif
