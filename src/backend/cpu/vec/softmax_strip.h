/* SPDX-License-Identifier: Apache-2.0 */
/* softmax and log_softmax of lines that lie side by side, lanes being lines: a strip of them at a
 * time. */
#ifndef RLX_BACKEND_CPU_VEC_SOFTMAX_STRIP_H
#define RLX_BACKEND_CPU_VEC_SOFTMAX_STRIP_H

#include "backend/cpu/vec/rows.h"
#include "backend/cpu/vec/vec_exp.h"
#include "backend/cpu/vec/vec_math.h"

enum { KEPT = 4096, STRIP = 4 * VF, WIDE_STRIP = 16 * VF, GROUP = 4, EXP_BIAS = 24 };

/* One copy, whoever calls it. */
#define OUTLINE static __attribute__((noinline))

/* e^x 2^24: the bias keeps subnormal results whole until they are divided by the sum. Below -104 it
 * is as good as nothing. */
VEC_INLINE exp_parts biased_begin(vf x) {
    return exp_begin(x, -104.0f, EXP_BIAS);
}
VEC_INLINE vf exp_biased(vf x) {
    exp_parts parts = biased_begin(x);
    return exp_end(parts.r, parts.scale);
}

/* The logarithms of sums of them. */
OUTLINE vf log_biased(vf sum) {
    return vf_log(sum * (1.0f / (1 << EXP_BIAS)));
}

/* How many lines side by side are an item. Lines whose exponentials fit into the buffer go as far
 * to the side as it allows: longer pieces of memory at a time. */
static int64_t strip_width(int64_t length) {
    int64_t width = length < 1 ? STRIP : KEPT / length / STRIP * STRIP;
    return width < STRIP ? STRIP : width > WIDE_STRIP ? WIDE_STRIP : width;
}

/* Lines side by side: `width` of them, `step` bytes from one element of a line to the next. */
typedef struct strip {
    rlx_dtype dtype;
    const char *x;
    char *y;
    int64_t length, x_step, y_step, width;
    bool streams; /* whole lines of the cache, past it */
} strip;

/* Fewer lanes than a vector has. */
OUTLINE vf get_few(rlx_dtype dtype, const void *from, int64_t at, int64_t n) {
    return vec_get_n(dtype, from, at, n);
}
OUTLINE void put_few(rlx_dtype dtype, void *to, int64_t at, vf x, int64_t n) {
    vec_put_n(dtype, to, at, x, n);
}

/* The vector number v of a strip at x (or y); lanes beyond the width are 0. */
VEC_INLINE vf strip_get(rlx_dtype dtype, const void *from, int64_t v, int64_t width) {
    int64_t left = width - v * VF;
    return left >= VF ? vec_get(dtype, from, v * VF) : get_few(dtype, from, v * VF, left);
}
VEC_INLINE void strip_put(rlx_dtype dtype, void *to, int64_t v, int64_t width, vf value) {
    int64_t left = width - v * VF;
    if (left >= VF) {
        vec_put(dtype, to, v * VF, value);
    } else {
        put_few(dtype, to, v * VF, value, left);
    }
}

/* `count` vectors of a strip (a constant), from `v` on: their maxima, sums and results.
 * Exponentials are computed twice rather than kept: that is cheaper than a round through memory. */
VEC_INLINE void strip_vectors(rlx_dtype dtype, const strip *s, int64_t v, const int count,
                              bool is_log) {
    vf most[2], sum[2], factor[2];
    VEC_UNROLLED for (int k = 0; k < count; k++) most[k] = vf_set(-VEC_INFINITY), sum[k] = (vf){0};
    for (int64_t i = 0; i < s->length; i++) {
        VEC_UNROLLED for (int k = 0; k < count; k++) most[k] =
            vf_max(strip_get(dtype, s->x + i * s->x_step, v + k, s->width), most[k]);
    }
    for (int64_t i = 0; i < s->length; i++) {
        VEC_UNROLLED for (int k = 0; k < count; k++) sum[k] +=
            exp_biased(strip_get(dtype, s->x + i * s->x_step, v + k, s->width) - most[k]);
    }
    VEC_UNROLLED for (int k = 0; k < count; k++) {
        factor[k] = 1.0f / sum[k];
        if (is_log) sum[k] = log_biased(sum[k]);
    }
    for (int64_t i = 0; i < s->length; i++) {
        VEC_UNROLLED for (int k = 0; k < count; k++) {
            vf x = strip_get(dtype, s->x + i * s->x_step, v + k, s->width) - most[k];
            strip_put(dtype, s->y + i * s->y_step, v + k, s->width,
                      is_log ? x - sum[k] : exp_biased(x) * factor[k]);
        }
    }
}

/* A long strip; the dtype is looked at for every vector, which exponentials hide. */
OUTLINE void do_long_strip(const strip *s, bool is_log) {
    int64_t v = 0;
    for (; (v + 2) * VF <= s->width; v += 2)
        strip_vectors(s->dtype, s, v, 2, is_log);
    for (; v * VF < s->width; v++)
        strip_vectors(s->dtype, s, v, 1, is_log);
}

/* Whole strips whose exponentials fit into the buffer. Lines are often a page apart, so that all of
 * a strip falls into few sets of the first-level cache; in the buffer it stays there. `count`
 * vectors (a constant) of every line at a time: what is kept for them stays in registers. */
VEC_INLINE void take_some(rlx_dtype dtype, const strip *s, float *room, const int count, int64_t at,
                          vf *out_most) {
    vf most[GROUP];
    VEC_UNROLLED for (int k = 0; k < count; k++) most[k] = vf_set(-VEC_INFINITY);
    for (int64_t i = 0; i < s->length; i++) {
        const char *x = s->x + i * s->x_step;
        VEC_UNROLLED for (int k = 0; k < count; k++) {
            vf value = vec_get(dtype, x, at + k * VF);
            vf_store(room + i * s->width + at + k * VF, value);
            most[k] = vf_max(value, most[k]);
        }
    }
    VEC_UNROLLED for (int k = 0; k < count; k++) out_most[k] = most[k];
}
VEC_INLINE void take_strip(rlx_dtype dtype, const strip *s, float *room, vf *most) {
    int64_t at = 0;
    for (; at + GROUP * VF <= s->width; at += GROUP * VF)
        take_some(dtype, s, room, GROUP, at, most + at / VF);
    for (; at < s->width; at += VF)
        take_some(dtype, s, room, 1, at, most + at / VF);
}

/* Exponentials of `count` vectors of every line of a strip (a constant), from `at` on, into `to`.
 * While one line is brought to its end the next one begins, as in row_exp. */
VEC_INLINE void strip_exp_some(const strip *s, const float *room, float *to, const int count,
                               int64_t at, const vf *most, vf *sum) {
    exp_parts part[GROUP];
    int64_t bytes = vec_bytes(s->dtype), width = s->width;
    const char *next = s->x + (at + width) * bytes; /* the next strip */
    for (int k = 0; k < count; k++) {
        part[k] = biased_begin(vf_load(room + at + k * VF) - most[k]);
        sum[k] = (vf){0};
    }
    for (int64_t i = 0; i < s->length; i++) {
        const float *more = room + (i + 1 < s->length ? i + 1 : i) * width + at;
        float *kept = to + i * width + at;
        __builtin_prefetch(next + i * s->x_step);
        __builtin_prefetch(next + i * s->x_step + (count * VF * bytes - 1) / 64 * 64);
        VEC_UNROLLED for (int k = 0; k < count; k++) {
            vf e = exp_end(part[k].r, part[k].scale);
            part[k] = biased_begin(vf_load(more + k * VF) - most[k]);
            vf_store(kept + k * VF, e);
            sum[k] += e;
        }
    }
}
OUTLINE void strip_exp(const strip *s, const float *room, float *to, const vf *most, vf *sum) {
    int64_t at = 0;
    for (; at + GROUP * VF <= s->width; at += GROUP * VF)
        strip_exp_some(s, room, to, GROUP, at, most + at / VF, sum + at / VF);
    for (; at < s->width; at += VF)
        strip_exp_some(s, room, to, 1, at, most + at / VF, sum + at / VF);
}

VEC_INLINE void put_strip(rlx_dtype dtype, const strip *s, const float *room, const vf *sum) {
    vf factor[WIDE_STRIP / VF];
    int vectors = (int)(s->width / VF);
    for (int k = 0; k < vectors; k++)
        factor[k] = 1.0f / sum[k];
    for (int64_t i = 0; i < s->length; i++) {
        char *y = s->y + i * s->y_step;
        for (int k = 0; k < vectors; k++) {
            vf value = vf_load(room + i * s->width + k * VF) * factor[k];
            if (dtype == RLX_DTYPE_F32 && s->streams) {
                vf_stream((float *)(void *)y + k * VF, value);
            } else {
                vec_put(dtype, y, k * VF, value);
            }
        }
    }
}

static void do_strip(const strip *s, bool is_log, float *room) {
    vf most[WIDE_STRIP / VF], sum[WIDE_STRIP / VF];
    if (is_log || s->width % VF != 0 || s->width * s->length > KEPT) {
        do_long_strip(s, is_log);
        return;
    }
    VEC_BY_DTYPE(s->dtype, take_strip, s, room, most);
    strip_exp(s, room, room, most, sum);
    VEC_BY_DTYPE(s->dtype, put_strip, s, room, sum);
}

#endif
