/* SPDX-License-Identifier: Apache-2.0 */
/* Merged groups, one by one. The compiler merges narrow groups into one that fills blocks, with
 * weights of 0 between them (compile/split_groups.c); of finite inputs these add nothing, but 0
 * times infinity is none. So a place whose inputs are not all finite is done here, output by output
 * with the channels of its own group alone. The lanes of a vector may belong to several groups. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_APART_H
#define RLX_BACKEND_CPU_VEC_CONV_APART_H

#include "backend/cpu/vec/conv_view.h"
#include "backend/cpu/vec/finite.h"

/* Small rather than fast. */
#define CONV_SELDOM static __attribute__((noinline, cold, unused))

/* Inputs [*first, *end) under `count` outputs from `at` on, and the step between those that one tap
 * sees. */
static inline int64_t conv_inputs_under(const rlx_window *window, int64_t at, int64_t count,
                                        int64_t *first, int64_t *end) {
    *first = at * window->stride - window->begin;
    *end = conv_least(window->in, *first + conv_reach(window, count));
    if (*first >= 0) return window->kernel == 1 ? window->stride : 1;
    *first = 0;
    return 1;
}

/* Whether all inputs of a place are finite. */
static __attribute__((noinline, unused)) bool conv_is_finite(const conv_view *view,
                                                             const conv_place *place) {
    int64_t top, bottom, left, right;
    int64_t row_step = conv_inputs_under(&view->h, place->row, place->rows, &top, &bottom);
    int64_t step = conv_inputs_under(&view->w, place->column, place->columns, &left, &right);
    int64_t lanes = view->is_blocked ? BLOCK : 1;
    int64_t blocks = conv_divide_up(view->in_channels, lanes);
    const float *x = view->x.data + place->n * view->x.n +
                     place->group * view->in_channels / lanes * view->x.block;
    bool is_run = step == 1 && view->x.column == lanes;
    int64_t count = is_run ? (right - left) * lanes : lanes;
    if (is_run) step = right - left;
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t row = top; row < bottom; row += row_step) {
            for (int64_t column = left; column < right; column += step) {
                const float *at = x + b * view->x.block + row * view->x.row;
                if (!vec_is_finite(at + column * view->x.column, count)) return false;
            }
        }
    }
    return true;
}

/* The lanes of output channels from `channel` on that belong to narrow group `part`. */
CONV_SELDOM vi conv_lanes_of(const conv_view *view, int64_t channel, int64_t part) {
    int64_t outputs = view->out_channels / view->merged;
    vec_parts mask = {.i = vi_set(0)};
    for (int64_t i = 0; i < VF; i++)
        mask.f[i] = (channel + i) / outputs == part ? 1.0f : 0.0f;
    return (vi)(mask.v != 0.0f);
}

/* Narrow groups [first, result) of output channels from `channel` on; none past the last. */
static inline int64_t conv_parts_of(const conv_view *view, int64_t channel, int64_t *first) {
    int64_t outputs = view->out_channels / view->merged;
    *first = channel / outputs;
    return conv_least(view->merged, (channel + VF - 1) / outputs + 1);
}

/* A vector of output channels at all positions of a place. Weights of input channel c and tap t are
 * at w + c / inputs * block + (t * inputs + c % inputs) * PANEL. */
typedef struct conv_apart {
    const conv_view *view;
    const conv_place *place;
    const float *w;
    int64_t inputs, block;
    int64_t channel; /* the first, in its group */
} conv_apart;

/* An input, or the 0 of the padding. */
CONV_SELDOM float conv_input_at(const conv_view *view, const float *x, int64_t row,
                                int64_t column) {
    if (row < 0 || row >= view->h.in || column < 0 || column >= view->w.in) return 0.0f;
    return x[row * view->x.row + column * view->x.column];
}

/* What narrow group `part` adds up at one output position. */
CONV_SELDOM vf conv_sum_apart(const conv_apart *self, int64_t part, int64_t row, int64_t column) {
    const conv_view *view = self->view;
    const int64_t inputs = view->in_channels / view->merged, taps = view->h.kernel * view->w.kernel;
    vf sum = vf_set(0.0f);
    row = row * view->h.stride - view->h.begin;
    column = column * view->w.stride - view->w.begin;
    for (int64_t c = part * inputs; c < (part + 1) * inputs; c++) {
        int64_t channel = self->place->group * view->in_channels + c;
        const float *x = view->x.data + self->place->n * view->x.n;
        const float *w = self->w + c / self->inputs * self->block + c % self->inputs * PANEL;
        x += view->is_blocked ? channel / BLOCK * view->x.block + channel % BLOCK
                              : channel * view->x.block;
        for (int64_t t = 0; t < taps; t++) {
            float one = conv_input_at(view, x, row + t / view->w.kernel * view->h.dilation,
                                      column + t % view->w.kernel * view->w.dilation);
            sum = vf_fma(vf_set(one), vf_load(w + t * self->inputs * PANEL), sum);
        }
    }
    return sum;
}

static inline vf conv_bias_of(const conv_view *view, int64_t group, int64_t channel) {
    vec_parts bias = {{0}};
    for (int64_t i = 0; view->bias != NULL && i < VF && channel + i < view->out_channels; i++)
        bias.f[i] = view->bias[(group * view->out_channels + channel + i) * view->bias_stride];
    return bias.v;
}

/* Where an output or residual is; `channel` of all groups. */
CONV_SELDOM float *conv_output_at(const conv_image *image, int64_t n, int64_t channel, int64_t row,
                                  int64_t column) {
    return image->data + n * image->n + channel / BLOCK * image->block + channel % BLOCK +
           row * image->row + column * image->column;
}

CONV_SELDOM void conv_run_apart(const conv_apart *self) {
    const conv_view *view = self->view;
    const conv_place *place = self->place;
    int64_t first, end = conv_parts_of(view, self->channel, &first);
    int64_t channel = place->group * view->out_channels + self->channel;
    const vf bias = conv_bias_of(view, place->group, self->channel);
    for (int64_t row = place->row; row < place->row + place->rows; row++) {
        for (int64_t column = place->column; column < place->column + place->columns; column++) {
            vf sum = vf_set(0.0f);
            for (int64_t part = first; part < end; part++)
                sum = vf_select(conv_lanes_of(view, self->channel, part),
                                conv_sum_apart(self, part, row, column), sum);
            sum += bias;
            if (view->residual.data != NULL)
                sum += vf_load(conv_output_at(&view->residual, place->n, channel, row, column));
            if (view->activation.op != RLX_OP_NONE)
                VEC_SYMBOL(activation)(&view->activation, &sum, 1);
            vf_store(conv_output_at(&view->y, place->n, channel, row, column), sum);
        }
    }
}

#endif
