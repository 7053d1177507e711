/* SPDX-License-Identifier: Apache-2.0 */
/* Casts: between f32 and i8, u8, i32 by vectors, between those, i64, bool and f64 by loops that the
 * compiler turns into them. Float to integer truncates, saturates, and gives 0 for NaN. What would
 * round twice (wide integers and f64 to 16 bits and less) is left to scalar C. */
#include "backend/cpu/vec/elementwise.h"
#include "ref/elementwise.h"

VEC_INLINE vi cut_i32(vf x) {
    /* 2^31 - 1 is no f32: what is too large becomes it afterwards. */
    vi whole = vec_cut(x, -0x1p31f, 0x1.fffffep30f), is_large = x >= 0x1p31f;
    return (whole & ~is_large) | (is_large & INT32_MAX);
}

static void f32_to_i32(const vec_step *step, const void *const *in, void *out, int64_t n) {
    const float *a = in[0];
    int32_t *d = out;
    int64_t i = 0;
    (void)step;
    for (; i + VF <= n; i += VF) {
        vi whole = cut_i32(vf_load(a + i));
        memcpy(d + i, &whole, sizeof whole);
    }
    if (i < n) {
        vi whole = cut_i32(vf_load_n(a + i, n - i));
        memcpy(d + i, &whole, (size_t)(n - i) * 4);
    }
}

static int64_t saturate_i64(float x) {
    if (x != x) return 0;
    if (x >= 0x1p63f) return INT64_MAX;
    return x < -0x1p63f ? INT64_MIN : (int64_t)x;
}

/* Through i32 where all of a vector fit; what does not is rare. */
static void f32_to_i64(const vec_step *step, const void *const *in, void *out, int64_t n) {
    const float *a = in[0];
    int64_t *d = out, i = 0;
    (void)step;
    for (; i + VF <= n; i += VF) {
        vf x = vf_load(a + i);
        int32_t whole[VF];
        vi w = cut_i32(x);
        memcpy(whole, &w, sizeof w);
        for (int64_t j = 0; j < VF; j++)
            d[i + j] = whole[j];
        if (vi_all((x > -0x1p31f) & (x < 0x1p31f))) continue;
        for (int64_t j = 0; j < VF; j++)
            d[i + j] = saturate_i64(a[i + j]);
    }
    for (; i < n; i++)
        d[i] = saturate_i64(a[i]);
}

/* Through a few i32, which the compiler packs. */
#define NARROW(name, T, least, most)                                                               \
    static void f32_to_##name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const float *a = in[0];                                                                    \
        T *d = out;                                                                                \
        (void)step;                                                                                \
        for (int64_t i = 0; i < n; i += 64) {                                                      \
            int32_t whole[64];                                                                     \
            int64_t left = n - i < 64 ? n - i : 64;                                                \
            for (int64_t j = 0; j < left; j += VF) {                                               \
                vf x = left - j < VF ? vf_load_n(a + i + j, left - j) : vf_load(a + i + j);        \
                vi w = vec_cut(x, least, most);                                                    \
                memcpy(whole + j, &w, sizeof w);                                                   \
            }                                                                                      \
            for (int64_t j = 0; j < left; j++)                                                     \
                d[i + j] = (T)whole[j];                                                            \
        }                                                                                          \
    }
NARROW(i8, int8_t, -128.0f, 127.0f)
NARROW(u8, uint8_t, 0.0f, 255.0f)

#define CONVERT(name, S, T, expression)                                                   \
    static void name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const S *a = in[0];                                                               \
        T *d = out;                                                                       \
        (void)step;                                                                       \
        RLX_TILE_LOOP for (int64_t i = 0; i < n; i++) {                                   \
            S x = a[i];                                                                   \
            d[i] = (T)(expression);                                                       \
        }                                                                                 \
    }

#define INTEGERS(ROW) ROW(i8, int8_t) ROW(u8, uint8_t) ROW(i32, int32_t) ROW(i64, int64_t)

#define ROW(name, S)                            \
    CONVERT(name##_to_f32, S, float, x)         \
    CONVERT(name##_to_f64, S, double, x)        \
    CONVERT(name##_to_bool, S, uint8_t, x != 0) \
    CONVERT(name##_to_1, S, uint8_t, x)         \
    CONVERT(name##_to_2, S, uint16_t, x)        \
    CONVERT(name##_to_4, S, uint32_t, x)        \
    CONVERT(name##_to_8, S, uint64_t, x)
INTEGERS(ROW)
#undef ROW
CONVERT(bool_to_1, uint8_t, uint8_t, x != 0)
CONVERT(bool_to_2, uint8_t, uint16_t, x != 0)
CONVERT(bool_to_4, uint8_t, uint32_t, x != 0)
CONVERT(bool_to_8, uint8_t, uint64_t, x != 0)
CONVERT(bool_to_f32, uint8_t, float, x != 0)
CONVERT(bool_to_f64, uint8_t, double, x != 0)
CONVERT(f32_to_f32, float, float, x)
CONVERT(f32_to_f64, float, double, x)
CONVERT(f32_to_bool, float, uint8_t, x != 0)
CONVERT(f64_to_f32, double, float, x)
CONVERT(f64_to_f64, double, double, x)
CONVERT(f64_to_bool, double, uint8_t, x != 0)

static vec_run choose_from_float(rlx_dtype from, rlx_dtype to) {
    bool is_f32 = from == RLX_DTYPE_F32;
    switch (to) {
    case RLX_DTYPE_F32:
        return is_f32 ? f32_to_f32 : f64_to_f32;
    case RLX_DTYPE_F64:
        return is_f32 ? f32_to_f64 : f64_to_f64;
    case RLX_DTYPE_BOOL:
        return is_f32 ? f32_to_bool : f64_to_bool;
    case RLX_DTYPE_I8:
        return is_f32 ? f32_to_i8 : NULL;
    case RLX_DTYPE_U8:
        return is_f32 ? f32_to_u8 : NULL;
    case RLX_DTYPE_I32:
        return is_f32 ? f32_to_i32 : NULL;
    case RLX_DTYPE_I64:
        return is_f32 ? f32_to_i64 : NULL;
    default:
        return NULL;
    }
}

#define TARGETS(name)                      \
    switch (to) {                          \
    case RLX_DTYPE_F32:                    \
        return name##_to_f32;              \
    case RLX_DTYPE_F64:                    \
        return name##_to_f64;              \
    case RLX_DTYPE_BOOL:                   \
        return name##_to_bool;             \
    default:                               \
        return bytes == 1   ? name##_to_1  \
               : bytes == 2 ? name##_to_2  \
               : bytes == 4 ? name##_to_4  \
                            : name##_to_8; \
    }

static vec_run choose_from_integer(rlx_dtype from, rlx_dtype to) {
    uint32_t bytes = rlx_dtype_block_bytes(to);
    switch (from) {
    case RLX_DTYPE_I8:
        TARGETS(i8)
    case RLX_DTYPE_U8:
        TARGETS(u8)
    case RLX_DTYPE_I32:
        TARGETS(i32)
    case RLX_DTYPE_I64:
        TARGETS(i64)
    case RLX_DTYPE_BOOL: {
#define bool_to_bool bool_to_1
        TARGETS(bool)
#undef bool_to_bool
    }
    default:
        return NULL;
    }
}

vec_run vec_choose_cast(const vec_step *step) {
    rlx_dtype from = vec_cell_of(step->operands[0]), to = vec_cell_of(step->dtype);
    bool rounds = to != step->dtype; /* narrow floats and 4-bit integers: once more later */
    if (from == RLX_DTYPE_F32) {
        bool saturates = rounds && to != RLX_DTYPE_F32;
        return saturates ? NULL : choose_from_float(from, to);
    }
    bool is_exact = rlx_dtype_block_bytes(from) <= 2 || to != RLX_DTYPE_F32;
    if (rounds && !is_exact) return NULL;
    if (from == RLX_DTYPE_F64) return rounds ? NULL : choose_from_float(from, to);
    return choose_from_integer(from, to);
}
