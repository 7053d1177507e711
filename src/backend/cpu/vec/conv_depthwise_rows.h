/* SPDX-License-Identifier: Apache-2.0 */
/* What the ways of doing several rows of a depthwise 3 x 3 convolution at once are told: stride 1,
 * padding of one all around, one vector of channels. Part of conv_depthwise.c. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_ROWS_H
#define RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_ROWS_H

#include "backend/cpu/vec/conv_view.h"

typedef struct depthwise_rows {
    const float *x, *w; /* the first row of the plane, or of the block of rows; the taps */
    float *y;           /* at the same row */
    const float *above; /* of a block: the input row above it; NULL: padding */
    float *kept;        /* where the last row's input is kept, as y lies in x; NULL: nowhere, of
                         * blocks of three and more rows */
    int64_t x_row, y_row;
    int64_t height, width; /* of the plane */
    vf bias, low, high;    /* what is added, and the bounds of the result */
    bool has_high;         /* `high` is one */
    bool has_last;         /* of a block: the input row below it is there */
} depthwise_rows;

#endif
