/* SPDX-License-Identifier: Apache-2.0 */
/* A recurrent layer as its kernels see it: sizes, strides, and what the attributes mean. Shared by
 * the scalar kernels and faster ones. */
#ifndef RLX_REF_RECURRENT_H
#define RLX_REF_RECURRENT_H

#include "ref/kernel.h"

typedef struct rlx_recurrent {
    const rlx_kernel_args *args;
    const rlx_recurrent_attrs *attrs;
    /* data NULL: absent */
    const rlx_tensor *x, *w, *r, *b, *lengths, *first_h, *first_c, *peepholes;
    const rlx_tensor *y, *last_h, *last_c;
    int64_t steps, batch, inputs, hidden, directions;
    int64_t gates; /* G: 4, 3 or 1 */
    int64_t x_step, x_batch, y_step, y_direction, y_batch;
} rlx_recurrent;

rlx_recurrent rlx_ref_recurrent(const rlx_kernel_args *args);
/* Offset of the row (direction, b) in a first or last state. */
int64_t rlx_ref_recurrent_state(const rlx_recurrent *self, const rlx_tensor *tensor,
                                int64_t direction, int64_t b);
/* How many steps sequence `b` has; a bad length raises a fault and is cut. */
int64_t rlx_ref_recurrent_length(const rlx_recurrent *self, int64_t b);
/* f (0), g (1) or h (2) of a direction, never DEFAULT. */
rlx_gate rlx_ref_recurrent_gate(const rlx_recurrent *self, int64_t direction, int which);
bool rlx_ref_recurrent_is_reverse(const rlx_recurrent *self, int64_t direction);

int64_t rlx_ref_recurrent_items(const rlx_kernel_args *args);     /* directions * batch */
int64_t rlx_ref_recurrent_item_cost(const rlx_kernel_args *args); /* of such an item */

#endif
