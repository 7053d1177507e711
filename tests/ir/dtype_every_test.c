/* SPDX-License-Identifier: Apache-2.0 */
/* All 2^32 numbers of f32: to f16 and bf16 against the ranges of their definition, on every level;
 * to the other dtypes the levels against each other. */
#include "base/cpu.h"
#include "dtype_ranges.h"
#include "support/support.h"

enum { CHUNK = 1 << 16 };

static uint32_t patterns[CHUNK];
static uint64_t portable[CHUNK], fast[CHUNK];

static void fill_patterns(uint64_t first) {
    for (uint64_t i = 0; i < CHUNK; i++)
        patterns[i] = (uint32_t)(first + i);
}

/* `code` is the range of the first pattern without sign; it moves on with them. */
static uint32_t check_chunk(const half_format *f, uint32_t code) {
    const uint16_t *got = (const uint16_t *)(void *)fast;
    for (uint32_t i = 0; i < CHUNK; i++) {
        while ((patterns[i] & 0x7fffffffu) >= half_end(f, code))
            code++;
        uint32_t stop = half_end(f, code) - (patterns[i] & 0x7fffffffu) + i;
        for (; i < CHUNK && i < stop; i++) {
            if (!half_is_right(f, code, patterns[i], got[i])) {
                fail_msg("%s: 0x%08x became 0x%04x, not 0x%04x", rlx_dtype_name(f->dtype),
                         patterns[i], got[i], code);
            }
        }
        i--;
    }
    return code;
}

static void every_f32_rounds_to_the_right_half(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        const half_format *f = &half_formats[k / 2];
        rlx_dtype_codec codec = rlx_dtype_codec_for(f->dtype, k % 2 == 0 ? 0 : rlx_cpu_flags());
        uint32_t code = 0;
        for (uint64_t first = 0; first <= UINT32_MAX; first += CHUNK) {
            if (first == UINT64_C(0x80000000)) code = 0;
            fill_patterns(first);
            codec.encode(fast, (const float *)(void *)patterns, CHUNK);
            code = check_chunk(f, code);
        }
        assert_int_equal(code, half_infinity(f) + 1);
    }
}

static void every_f32_encodes_the_same_on_every_level(void **state) {
    (void)state;
    for (int dtype = 0; dtype < RLX_DTYPE_COUNT; dtype++) {
        rlx_dtype_codec slow = rlx_dtype_codec_for((rlx_dtype)dtype, 0);
        rlx_dtype_codec quick = rlx_dtype_codec_for((rlx_dtype)dtype, rlx_cpu_flags());
        uint64_t bytes = 0;
        if (slow.encode == quick.encode) continue;
        assert_ok(rlx_dtype_bytes((rlx_dtype)dtype, CHUNK, &bytes));
        for (uint64_t first = 0; first <= UINT32_MAX; first += CHUNK) {
            fill_patterns(first);
            slow.encode(portable, (const float *)(void *)patterns, CHUNK);
            quick.encode(fast, (const float *)(void *)patterns, CHUNK);
            if (memcmp(portable, fast, bytes) != 0) {
                fail_msg("%s differs from 0x%08x on", rlx_dtype_name((rlx_dtype)dtype),
                         (uint32_t)first);
            }
        }
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f32_rounds_to_the_right_half),
        cmocka_unit_test(every_f32_encodes_the_same_on_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
