/* SPDX-License-Identifier: Apache-2.0 */
/* Pools with one window that is the whole image are reductions over its axes. The largest number of
 * a large window is that of its columns' largest: two pools of far fewer numbers, and the same. */
#include "compile/canonicalise.h"

#include "ir/infer.h"
#include "ir/window.h"

static bool is_global(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_pool_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    rlx_windows windows;
    if (attrs->is_blocked || rlx_rewrite_has_extent(x) || !rlx_dtype_is_float(x->dtype) ||
        rewrite->graph->nodes.items[root].output_count != 1 || x->shape.rank < 3 ||
        rlx_windows_pool(attrs, x->shape.rank - 2, x->shape.dims + 2, &windows) != RLX_OK) {
        return false;
    }
    for (uint32_t i = 0; i < windows.count; i++) {
        const rlx_window *axis = &windows.axes[i];
        if (axis->out != 1 || axis->kernel != axis->in || axis->dilation != 1 || axis->begin != 0 ||
            axis->end != 0) {
            return false;
        }
    }
    return true;
}

static int64_t item_or(const rlx_ints *list, uint32_t index, int64_t other) {
    return index < list->count ? list->items[index] : other;
}

/* Windows of which both sides are so long are taken apart. */
enum { LONG = 4 };
static bool is_large(const rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_pool_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_type *x = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, root, 0));
    return !attrs->is_blocked && x->shape.rank == 4 && attrs->kernel.count == 2 &&
           rewrite->graph->nodes.items[root].output_count == 1 && attrs->kernel.items[0] >= LONG &&
           attrs->kernel.items[1] >= LONG &&
           (attrs->auto_pad == RLX_AUTO_PAD_EXPLICIT || attrs->auto_pad == RLX_AUTO_PAD_VALID);
}

/* Along one axis alone. */
static rlx_pool_attrs along(const rlx_pool_attrs *attrs, uint32_t axis) {
    rlx_pool_attrs one = {.kernel = {2, {1, 1}},
                          .strides = {2, {1, 1}},
                          .dilations = {2, {1, 1}},
                          .pads = {4, {0}},
                          .auto_pad = attrs->auto_pad,
                          .ceil_mode = attrs->ceil_mode};
    one.kernel.items[axis] = attrs->kernel.items[axis];
    one.strides.items[axis] = item_or(&attrs->strides, axis, 1);
    one.dilations.items[axis] = item_or(&attrs->dilations, axis, 1);
    one.pads.items[axis] = item_or(&attrs->pads, axis, 0);
    one.pads.items[2 + axis] = item_or(&attrs->pads, 2 + axis, 0);
    return one;
}

static rlx_status split_window(rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_pool_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    const rlx_pool_attrs rows = along(attrs, 0), columns = along(attrs, 1);
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_MAX_POOL, &rows, &x, 1, &x));
    return rlx_rewrite_node(rewrite, root, RLX_OP_MAX_POOL, &columns, &x, 1, NULL);
}

rlx_status rlx_canonicalise_pool(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_op op = rlx_rewrite_op(rewrite, root);
    if (op != RLX_OP_MAX_POOL && op != RLX_OP_AVERAGE_POOL) return RLX_OK;
    if (!is_global(rewrite, root)) {
        return op == RLX_OP_MAX_POOL && is_large(rewrite, root) ? split_window(rewrite, root)
                                                                : RLX_OK;
    }
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    rlx_reduce_attrs attrs = {.keep_dims = true};
    attrs.axes.count = rlx_rewrite_type(rewrite, x)->shape.rank - 2;
    for (uint32_t i = 0; i < attrs.axes.count; i++)
        attrs.axes.items[i] = 2 + i;
    return rlx_rewrite_node(rewrite, root,
                            op == RLX_OP_MAX_POOL ? RLX_OP_REDUCE_MAX : RLX_OP_REDUCE_MEAN, &attrs,
                            &x, 1, NULL);
}
