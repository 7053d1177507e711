/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of a feature map as roi_align sees them, for scalar C and for kernels that are faster. */
#ifndef RLX_REF_REGION_H
#define RLX_REF_REGION_H

#include "ref/kernel.h"

/* One region: where it begins, how large a bin is, how many points each has. */
typedef struct rlx_ref_region {
    double x0, y0, bin_width, bin_height;
    int64_t columns, rows; /* points per bin */
    int64_t batch;         /* -1: outside */
} rlx_ref_region;

/* Region `index` of a roi_align; what is wrong with it becomes a fault. */
rlx_ref_region rlx_ref_region_load(const rlx_kernel_args *args, int64_t index);

/* One side of a linear interpolation: two places and how much each counts. */
typedef struct rlx_ref_side {
    int64_t low, high;
    double low_part, high_part;
} rlx_ref_side;

/* The side of a point between 0 and `length`. False: it is outside. */
bool rlx_ref_region_side(double at, int64_t length, rlx_ref_side *out_side);

#endif
