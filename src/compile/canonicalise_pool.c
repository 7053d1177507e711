/* SPDX-License-Identifier: Apache-2.0 */
/* Pools with one window that is the whole image are reductions over its axes. */
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

rlx_status rlx_canonicalise_pool(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_op op = rlx_rewrite_op(rewrite, root);
    if ((op != RLX_OP_MAX_POOL && op != RLX_OP_AVERAGE_POOL) || !is_global(rewrite, root))
        return RLX_OK;
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    rlx_reduce_attrs attrs = {.keep_dims = true};
    attrs.axes.count = rlx_rewrite_type(rewrite, x)->shape.rank - 2;
    for (uint32_t i = 0; i < attrs.axes.count; i++)
        attrs.axes.items[i] = 2 + i;
    return rlx_rewrite_node(rewrite, root,
                            op == RLX_OP_MAX_POOL ? RLX_OP_REDUCE_MAX : RLX_OP_REDUCE_MEAN, &attrs,
                            &x, 1, NULL);
}
