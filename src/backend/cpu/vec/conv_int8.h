/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of conv_quantised have in common: bytes as lanes, and the way from sums to
 * outputs. Strides of a conv_view are in elements here too, its data pointers are not floats. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_INT8_H
#define RLX_BACKEND_CPU_VEC_CONV_INT8_H

#include "backend/cpu/vec/conv_view.h"
#include "backend/cpu/vec/vec_bytes.h"
#include "ref/access.h"

/* VF 16-bit integers as lanes. */
VEC_INLINE vi vi_of_shorts(const int16_t *from) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    return (vi)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
#elif defined(__AVX512F__) && RLX_VEC_BYTES == 64
    return (vi)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
#else
    typedef int16_t vs __attribute__((vector_size(RLX_VEC_BYTES / 2)));
    vs shorts;
    memcpy(&shorts, from, sizeof shorts);
    return __builtin_convertvector(shorts, vi);
#endif
}

/* In every lane the product of the low halves plus that of the high halves, as signed 16 bits. */
VEC_INLINE vi vi_pair_products(vi a, vi b) {
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    union {
        vi v;
        __m256i n[RLX_VEC_BYTES / 32];
    } x = {a}, y = {b}, r;
    for (int p = 0; p < RLX_VEC_BYTES / 32; p++)
        r.n[p] = _mm256_madd_epi16(x.n[p], y.n[p]);
    return r.v;
#else
    return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

/* The view of a conv_quantised, and what its outputs are made with. */
typedef struct int8_conv {
    conv_view view;
    const rlx_conv_quantised_attrs *attrs;
    const rlx_tensor *scale, *bias;
    int32_t zero; /* of x as an unsigned byte */
    uint8_t flip; /* what makes bytes of x unsigned */
    uint8_t residual_flip;
} int8_conv;

static inline const rlx_tensor *int8_input(const rlx_kernel_args *args, uint32_t index) {
    return index < args->in_count && args->in[index].data != NULL ? &args->in[index] : NULL;
}

static inline int8_conv int8_conv_of(const rlx_kernel_args *args) {
    rlx_kernel_args dense = *args;
    const rlx_tensor *zero = int8_input(args, 4), *residual = int8_input(args, 5);
    int8_conv conv = {.attrs = args->attrs};
    dense.in_count = 2; /* conv has other inputs behind w */
    conv.view = conv_view_of(&dense);
    conv.view.activation.op = RLX_OP_NONE;
    if (residual != NULL) conv.view.residual = conv_image_of(residual, args->in[1].rank - 2);
    conv.scale = int8_input(args, 2);
    conv.bias = int8_input(args, 3);
    conv.flip = args->in[0].dtype == RLX_DTYPE_I8 ? 0x80 : 0;
    conv.zero = conv.flip;
    if (zero != NULL) conv.zero = *(const uint8_t *)zero->data ^ conv.flip;
    if (residual != NULL) conv.residual_flip = residual->dtype == RLX_DTYPE_I8 ? 0x80 : 0;
    return conv;
}

/* Scale and bias of `count` channels from `first` on; 0 past the last. */
static inline void int8_factors(const int8_conv *conv, int64_t first, int64_t count, int64_t last,
                                float *scale, float *bias) {
    for (int64_t i = 0; i < count; i++) {
        const rlx_tensor *s = conv->scale, *b = conv->bias;
        int64_t at = first + i;
        scale[i] = bias[i] = 0;
        if (at >= last) continue;
        scale[i] = s == NULL ? 1 : ((const float *)s->data)[s->rank == 0 ? 0 : at * s->strides[0]];
        if (b != NULL) bias[i] = ((const float *)b->data)[b->rank == 0 ? 0 : at * b->strides[0]];
    }
}

/* What a store does, in registers: bytes may alias everything that the attributes are. */
typedef struct int8_store {
    bool is_float, has_residual;
    vf scale, bias, least, most, inner, outer, y_scale, y_least, y_most;
    vi zero, residual_flip, residual_zero;
} int8_store;

VEC_INLINE int8_store int8_store_of(const int8_conv *conv, const float *scale, const float *bias) {
    const rlx_conv_quantised_attrs *attrs = conv->attrs;
    const int32_t residual_zero = (int32_t)attrs->residual_zero + conv->residual_flip;
    return (int8_store){.is_float = attrs->to == RLX_DTYPE_F32,
                        .has_residual = conv->view.residual.data != NULL,
                        .scale = vf_load(scale),
                        .bias = vf_load(bias),
                        .least = vf_set((float)attrs->least),
                        .most = vf_set((float)attrs->most),
                        .inner = vf_set((float)attrs->inner_scale),
                        .outer = vf_set((float)attrs->residual_scale),
                        .y_scale = vf_set((float)attrs->y_scale),
                        .y_least = vf_set((float)attrs->y_least),
                        .y_most = vf_set((float)attrs->y_most),
                        .zero = vi_set((int32_t)attrs->y_zero),
                        .residual_flip = vi_set(conv->residual_flip),
                        .residual_zero = vi_set(residual_zero)};
}

VEC_INLINE vf int8_value(const int8_store *by, vi sums, const uint8_t *residual, bool is_float,
                         bool has_residual) {
    vf v = vf_fma(vf_of(sums), by->scale, by->bias);
    if (!is_float || has_residual) v = vf_round(v);
    v = vf_min(vf_max(v, by->least), by->most);
    if (!has_residual) return v;
    vi other = (vi_of_bytes(residual) ^ by->residual_flip) - by->residual_zero;
    v = v * by->inner + vf_of(other) * by->outer;
    if (!is_float) v = vf_round(v / by->y_scale);
    return vf_min(vf_max(v, by->y_least), by->y_most);
}

/* Bytes of `count` positions. */
VEC_INLINE void int8_store_bytes(const int8_store *by, const int32_t *sums, int64_t step,
                                 int64_t count, const uint8_t *residual, int64_t residual_step,
                                 uint8_t *to, int64_t to_step, bool has_residual) {
    const int8_store local = *by;
    const vi low = vi_set(0xff);
    for (int64_t i = 0; i < count; i++, sums += step, residual += residual_step, to += to_step) {
        vf v = int8_value(&local, vi_load(sums), residual, false, has_residual);
        vi_store_bytes(to, (vi_of(v) + local.zero) & low);
    }
}

/* `count` positions of one row from sums `step` apart: lanes [0, VF) of a block, y and residual in
 * elements from their start. */
static inline void int8_finish(const int8_conv *conv, const int32_t *sums, int64_t step,
                               int64_t count, const float *scale, const float *bias,
                               int64_t residual_at, int64_t y_at) {
    const conv_view *view = &conv->view;
    const int8_store by = int8_store_of(conv, scale, bias);
    const uint8_t *residual = (const uint8_t *)view->residual.data;
    const int64_t y_step = view->y.column;
    const int64_t residual_step = by.has_residual ? view->residual.column : 0;
    uint8_t *bytes = (uint8_t *)view->y.data + y_at;
    if (by.has_residual) residual += residual_at;
    if (conv->attrs->to == RLX_DTYPE_I32) {
        int32_t *to = (int32_t *)(void *)view->y.data + y_at;
        for (int64_t i = 0; i < count; i++)
            vi_store(to + i * y_step, vi_load(sums + i * step));
    } else if (by.is_float) {
        for (int64_t i = 0; i < count; i++)
            vf_store(view->y.data + y_at + i * y_step,
                     int8_value(&by, vi_load(sums + i * step), residual + i * residual_step, true,
                                by.has_residual));
    } else if (by.has_residual) {
        int8_store_bytes(&by, sums, step, count, residual, residual_step, bytes, y_step, true);
    } else {
        int8_store_bytes(&by, sums, step, count, bytes, 0, bytes, y_step, false);
    }
}

/* One operand in blocks: absent, or [..][BLOCK] with the block side by side. */
static inline bool int8_is_blocked(const rlx_tensor *tensor, uint32_t spatial) {
    uint32_t last = 2 + spatial;
    if (tensor->data == NULL) return true;
    return tensor->layout == RLX_LAYOUT_PLAIN && tensor->rank == last + 1 &&
           tensor->dims[last] == BLOCK && tensor->strides[last] == 1;
}

/* What both kernels need: at most two spatial axes, nothing empty, y and residual in blocks. */
static inline bool int8_takes(const rlx_target_query *query) {
    const rlx_tensor *w = &query->in[1];
    const rlx_conv_quantised_attrs *attrs = query->attrs;
    uint32_t spatial = w->rank - 2;
    if (spatial > 2 || attrs->conv.channel_block != BLOCK) return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i] == 0 || query->out[0].dims[i] == 0) return false;
    }
    if (query->in_count > 5 && !int8_is_blocked(&query->in[5], spatial)) return false;
    return int8_is_blocked(&query->out[0], spatial);
}

#endif
