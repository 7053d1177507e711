/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs of this processor against the portable ones, bit for bit: every 16-bit and 8-bit
 * pattern, both ends of every rounding range, samples in between, every alignment and odd length,
 * and results so large that they go past the caches. */
#include "base/cpu.h"
#include "dtype_ranges.h"
#include "support/support.h"

#include <stdlib.h>

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static rlx_dtype_codec codec_at(rlx_dtype dtype, int level) {
    return rlx_dtype_codec_for(dtype, level == 0 ? 0 : rlx_cpu_flags());
}

static bool is_block(int dtype) {
    return rlx_dtype_row_of((rlx_dtype)dtype)->class_ == RLX_CLASS_BLOCK;
}

static void *taken(uint64_t bytes) {
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    return memory;
}

/* First and last of each range and one within, for both signs. */
static uint64_t range_samples(const half_format *f, rlx_test_random *random, uint32_t *patterns,
                              uint32_t *codes) {
    uint64_t count = 0;
    for (uint32_t code = 0; code <= half_infinity(f) + 1; code++) {
        uint32_t begin = half_begin(f, code), end = half_end(f, code);
        uint32_t inside = begin + (uint32_t)rlx_test_below(random, end - begin);
        const uint32_t samples[] = {begin, inside, end - 1};
        for (size_t i = 0; i < 6; i++) {
            patterns[count] = samples[i / 2] | (i % 2 == 0 ? 0 : 0x80000000u);
            codes[count++] = code;
        }
    }
    return count;
}

static void both_ends_of_every_range_round_to_it(void **state) {
    enum { MOST = 6 * 32770 };
    rlx_test_random random = rlx_test_seed(17);
    uint32_t *patterns = taken(sizeof(uint32_t) * MOST), *codes = taken(sizeof(uint32_t) * MOST);
    uint16_t *got = taken(sizeof(uint16_t) * MOST);
    (void)state;
    for (int k = 0; k < 2; k++) {
        const half_format *f = &half_formats[k];
        uint64_t count = range_samples(f, &random, patterns, codes);
        for (int level = 0; level < 2; level++) {
            codec_at(f->dtype, level).encode(got, (const float *)(void *)patterns, count);
            for (uint64_t i = 0; i < count; i++) {
                if (!half_is_right(f, codes[i], patterns[i], got[i])) {
                    fail_msg("%s, level %d: 0x%08x became 0x%04x, not 0x%04x",
                             rlx_dtype_name(f->dtype), level, patterns[i], got[i], codes[i]);
                }
            }
        }
    }
    free(patterns);
    free(codes);
    free(got);
}

/* Patterns as raw memory of any dtype: every 16-bit number, or random ones. */
static void every_pattern_decodes_the_same_on_every_level(void **state) {
    enum { COUNT = 65536 };
    rlx_test_random random = rlx_test_seed(23);
    uint8_t *codes = taken(COUNT * 8);
    float *portable = taken(COUNT * sizeof(float)), *fast = taken(COUNT * sizeof(float));
    (void)state;
    for (int dtype = 0; dtype < RLX_DTYPE_COUNT; dtype++) {
        uint32_t bytes = rlx_dtype_block_bytes((rlx_dtype)dtype);
        if (is_block(dtype)) continue;
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t code = bytes > 2 ? rlx_test_next(&random) : i;
            memcpy(codes + (size_t)i * bytes, &code, bytes);
        }
        codec_at((rlx_dtype)dtype, 0).decode(portable, codes, COUNT);
        codec_at((rlx_dtype)dtype, 1).decode(fast, codes, COUNT);
        assert_memory_equal(portable, fast, COUNT * sizeof(float));
    }
    free(codes);
    free(portable);
    free(fast);
}

static uint64_t encoded_bytes(int dtype, uint64_t count) {
    uint64_t bytes = 0;
    assert_ok(rlx_dtype_bytes((rlx_dtype)dtype, count, &bytes));
    return bytes;
}

/* A stride through all of f32 that meets every exponent, and the neighbours of each power of two
 * and of each half, where integers and small floats turn. */
static uint64_t f32_samples(float *values) {
    uint64_t count = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 40961)
        values[count++] = float_of_bits((uint32_t)bits);
    for (int exponent = -150; exponent < 128; exponent++) {
        for (int i = -2; i <= 2; i++) {
            float near = float_of_bits(half_bits(ldexpf(1, exponent)) + (uint32_t)i);
            values[count++] = near;
            values[count++] = -near;
        }
    }
    for (int i = -70000; i < 70000; i++) {
        values[count++] = (float)i / 2;
        values[count++] = nextafterf((float)i / 2, INFINITY);
    }
    return count;
}

static void every_number_encodes_the_same_on_every_level(void **state) {
    enum { MOST = 500000 };
    float *values = taken(MOST * sizeof(float));
    uint8_t *portable = taken(MOST * 8), *fast = taken(MOST * 8);
    uint64_t count = f32_samples(values);
    (void)state;
    assert_true(count <= MOST);
    for (int dtype = 0; dtype < RLX_DTYPE_COUNT; dtype++) {
        uint64_t bytes = encoded_bytes(dtype, count);
        if (is_block(dtype)) continue;
        memset(portable, 0, bytes);
        memset(fast, 0, bytes);
        codec_at((rlx_dtype)dtype, 0).encode(portable, values, count);
        codec_at((rlx_dtype)dtype, 1).encode(fast, values, count);
        assert_memory_equal(portable, fast, bytes);
    }
    free(values);
    free(portable);
    free(fast);
}

/* Lengths around the size of a vector loop, both sides at every distance from a line; the bytes
 * around the result stay. */
static void lengths_and_alignments_do_not_matter(void **state) {
    enum { MOST = 100, ROOM = MOST * 8 + 256 };
    rlx_test_random random = rlx_test_seed(29);
    _Alignas(64) uint8_t source[ROOM], fast[ROOM], portable[ROOM];
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int dtype = (int)rlx_test_below(&random, RLX_DTYPE_COUNT);
        uint64_t count = rlx_test_below(&random, MOST), from = rlx_test_below(&random, 65);
        uint64_t to = rlx_test_below(&random, 65);
        bool decodes = rlx_test_below(&random, 2) == 0;
        if (is_block(dtype)) continue;
        for (size_t i = 0; i < ROOM; i++)
            source[i] = (uint8_t)rlx_test_next(&random);
        memset(fast, 0x5a, ROOM);
        memset(portable, 0x5a, ROOM);
        for (int level = 0; level < 2; level++) {
            rlx_dtype_codec codec = codec_at((rlx_dtype)dtype, level);
            uint8_t *result = (level == 0 ? portable : fast) + to;
            if (decodes) {
                codec.decode((float *)(void *)result, source + from, count);
            } else {
                codec.encode(result, (const float *)(void *)(source + from), count);
            }
        }
        assert_memory_equal(portable, fast, ROOM);
    }
}

/* Past the caches: from 8 MiB of result on; with NaNs here and there, and off a line. */
static void large_results_are_the_same(void **state) {
    enum { COUNT = (9 << 20) / 2 + 77 };
    static const uint64_t shifts[] = {0, 1, 2, 36};
    rlx_test_random random = rlx_test_seed(31);
    uint8_t *source = taken((uint64_t)COUNT * 4), *fast = taken((uint64_t)COUNT * 4 + 128);
    uint8_t *portable = taken((uint64_t)COUNT * 4);
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)rlx_test_next(&random);
        memcpy(source + 4 * i, &bits, 4);
    }
    for (int k = 0; k < 4; k++) {
        rlx_dtype dtype = half_formats[k / 2].dtype;
        bool decodes = k % 2 == 0;
        uint64_t bytes = COUNT * (decodes ? UINT64_C(4) : UINT64_C(2));
        for (int level = 0; level < 2; level++) {
            rlx_dtype_codec codec = codec_at(dtype, level);
            for (size_t i = 0; i < (level == 0 ? 1 : 4); i++) {
                uint8_t *result = level == 0 ? portable : fast + shifts[i];
                if (decodes) {
                    codec.decode((float *)(void *)result, source, COUNT);
                } else {
                    codec.encode(result, (const float *)(void *)source, COUNT);
                }
                if (level != 0 && memcmp(portable, result, bytes) != 0) {
                    fail_msg("%s differs, shift %d", rlx_dtype_name(dtype), (int)shifts[i]);
                }
            }
        }
    }
    free(source);
    free(fast);
    free(portable);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_of_every_range_round_to_it),
        cmocka_unit_test(every_pattern_decodes_the_same_on_every_level),
        cmocka_unit_test(every_number_encodes_the_same_on_every_level),
        cmocka_unit_test(lengths_and_alignments_do_not_matter),
        cmocka_unit_test(large_results_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
