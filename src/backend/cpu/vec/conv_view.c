/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a convolution as its kernels see them, and how the outputs are cut into items:
 * what is worked out once per step, apart from what runs often. */
#include "backend/cpu/vec/conv_view.h"

conv_view conv_view_of(const rlx_kernel_args *args) {
    const rlx_conv_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    uint32_t spatial = w->rank - 2;
    rlx_windows windows = {0};
    conv_view view = {.batch = y->dims[0],
                      .groups = attrs->groups == 0 ? 1 : attrs->groups,
                      .merged = attrs->merged == 0 ? 1 : attrs->merged,
                      .is_blocked = x->rank > w->rank,
                      .in_channels = w->dims[1],
                      .activation = attrs->activation};
    rlx_status status = rlx_windows_conv(attrs, spatial, x->dims + 2, w->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    view.out_channels = w->dims[0] / view.groups;
    conv_set_axes(&windows, &view.h, &view.w);
    view.x = conv_image_of(x, spatial);
    view.y = conv_image_of(y, spatial);
    if (args->in_count > 2 && args->in[2].data != NULL) {
        view.bias = args->in[2].data;
        view.bias_stride = args->in[2].strides[0];
    }
    if (args->in_count > 3 && args->in[3].data != NULL) {
        view.residual = conv_image_of(&args->in[3], spatial);
    }
    return view;
}

void conv_join_rows(conv_view *view) {
    const conv_image *images[] = {&view->x, &view->y, &view->residual};
    rlx_window *h = &view->h, *w = &view->w;
    if (h->kernel != 1 || w->kernel != 1 || h->stride != 1 || w->stride != 1) return;
    if (conv_is_padded(h) || conv_is_padded(w) || h->in != h->out || w->in != w->out) return;
    for (int i = 0; i < 3; i++) {
        if (images[i]->data != NULL && images[i]->row != w->in * images[i]->column) return;
    }
    w->in = w->out = h->in * w->in;
    h->in = h->out = 1;
}

conv_cut conv_cut_of(const conv_view *view, int64_t most, int64_t panel_unit) {
    int64_t height = view->h.out, width = view->w.out;
    conv_cut cut = {.panels = conv_divide_up(view->out_channels, PANEL), .panel_unit = panel_unit};
    int64_t units = conv_divide_up(cut.panels, panel_unit);
    most += most / 4;
    cut.row_items = conv_even(conv_divide_up(height, most / width > 1 ? most / width : 1), height);
    cut.column_items = conv_even(conv_divide_up(width, most), width);
    int64_t others = view->batch * view->groups * cut.row_items * cut.column_items;
    cut.panel_items = conv_least(units, conv_divide_up(CONV_ITEMS, others > 0 ? others : 1));
    cut.rows = conv_divide_up(height, cut.row_items);
    cut.columns = conv_divide_up(width, cut.column_items);
    cut.item_panels = conv_least(cut.panels, conv_divide_up(units, cut.panel_items) * panel_unit);
    cut.stage_rows = conv_reach(&view->h, cut.rows);
    cut.stage_columns = conv_reach(&view->w, cut.columns);
    return cut;
}
