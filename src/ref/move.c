/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar movement kernels: views as copies, concat, tile, pad, nonzero. Elements move by
 * bytes and are never looked at, except by nonzero. Work items are chunks of units in row-major
 * order. */
#include "ref/strided.h"

#include "ir/dtype.h"
#include "ir/view.h"
#include "ref/access.h"
#include "ref/pad.h"

static int64_t units(const rlx_tensor *tensor) {
    return rlx_tensor_elements(tensor) / rlx_unit_elements(tensor->dtype);
}

static int64_t chunk_items(const rlx_tensor *tensor) {
    return rlx_row_items(tensor->dtype, units(tensor), 1);
}

/* Items [begin, end) of the copy of all of `from` to all of `to`. */
static void copy_items(rlx_walk *to, rlx_walk *from, int64_t all, int64_t begin, int64_t end) {
    int64_t first, last;
    rlx_item_rows(to->dtype, all, 1, begin, end, &first, &last);
    if (first >= last) return;
    rlx_walk_seek(to, first);
    rlx_walk_seek(from, first);
    rlx_walk_copy(to, from, last - first);
}

static void walk_all(rlx_walk *walk, const rlx_tensor *tensor, int64_t offset) {
    rlx_walk_init(walk, tensor->dtype, tensor->data, offset, tensor->rank, tensor->dims,
                  tensor->strides);
}

/* Views. Output k's items follow those of output k - 1 (only split has more than one). */

static int64_t view_items(const rlx_kernel_args *args) {
    int64_t items = 0;
    for (uint32_t k = 0; k < args->out_count; k++)
        items += chunk_items(&args->out[k]);
    return items;
}

static void view_output(const rlx_kernel_args *args, uint32_t output, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[output];
    rlx_tensor seen = *out;
    int64_t offset = 0;
    rlx_walk to, from;
    if (out->data == NULL) return;
    if (rlx_view_map(args->op, args->attrs, output, args->out_count, in, &seen, &offset)) {
        seen.data = in->data;
    } else {
        seen = *in; /* a reshape across holes, or a plain copy: the order is the same */
    }
    walk_all(&to, out, 0);
    walk_all(&from, &seen, offset);
    copy_items(&to, &from, units(out), begin, end);
}

static void view_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    for (uint32_t k = 0; k < args->out_count && begin < end; k++) {
        int64_t items = chunk_items(&args->out[k]), last = end < items ? end : items;
        if (begin < items) view_output(args, k, begin, last);
        begin = begin < items ? 0 : begin - items;
        end -= items;
    }
}

/* Concat: input k's items follow those of input k - 1. Nibbles of two inputs may meet in one byte,
 * so 4-bit types are one item in all. */

static int64_t concat_items(const rlx_kernel_args *args) {
    int64_t items = 0;
    if (rlx_unit_is_nibble(args->out[0].dtype)) return rlx_tensor_elements(&args->out[0]) > 0;
    for (uint32_t k = 0; k < args->in_count; k++)
        items += chunk_items(&args->in[k]);
    return items;
}

static void concat_input(const rlx_kernel_args *args, uint32_t input, int64_t place, int64_t begin,
                         int64_t end) {
    const rlx_tensor *in = &args->in[input], *out = &args->out[0];
    rlx_walk to, from;
    walk_all(&from, in, 0);
    rlx_walk_init(&to, out->dtype, out->data, place, in->rank, in->dims, out->strides);
    copy_items(&to, &from, units(in), begin, end);
}

static void concat_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_axis_attrs *attrs = args->attrs;
    const rlx_tensor *out = &args->out[0];
    uint32_t axis = rlx_axis_of(attrs->axis, out->rank);
    bool is_nibble = rlx_unit_is_nibble(out->dtype);
    int64_t place = 0;
    for (uint32_t k = 0; k < args->in_count && begin < end; k++) {
        int64_t items = chunk_items(&args->in[k]), last = end < items ? end : items;
        if (begin < items) concat_input(args, k, place, begin, is_nibble ? items : last);
        place += args->in[k].dims[axis] * out->strides[axis];
        if (is_nibble) continue;
        begin = begin < items ? 0 : begin - items;
        end -= items;
    }
}

/* Tile: every axis of the output is (repeats, dim), and the input does not move along repeats. */
static void tile_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    int64_t dims[RLX_WALK_RANK], strides[RLX_WALK_RANK];
    rlx_walk to, from;
    for (uint32_t i = 0; i < in->rank; i++) {
        dims[2 * i] = in->dims[i] > 0 ? out->dims[i] / in->dims[i] : 0;
        dims[2 * i + 1] = in->dims[i];
        strides[2 * i] = 0;
        strides[2 * i + 1] = in->strides[i];
    }
    walk_all(&to, out, 0);
    rlx_walk_init(&from, in->dtype, in->data, 0, 2 * in->rank, dims, strides);
    copy_items(&to, &from, units(out), begin, end);
}

/* Pad. Negative pads crop first; the rest is added around what is left. */

static int64_t last_dim(const rlx_tensor *tensor) {
    return tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;
}

static int64_t pad_rows(const rlx_tensor *out) {
    return out->rank > 0 ? rlx_dims_product(out->dims, out->rank - 1) : 1;
}

static int64_t pad_items(const rlx_kernel_args *args) {
    const rlx_tensor *out = &args->out[0];
    return rlx_row_items(out->dtype, pad_rows(out), last_dim(out));
}

typedef struct pad_job {
    const rlx_kernel_args *args;
    rlx_pad_mode mode;
    rlx_ref_pad axes[RLX_MAX_RANK];
    uint8_t value[8]; /* the constant, as element 0 */
} pad_job;

static void pad_prepare(pad_job *job, const rlx_kernel_args *args) {
    const rlx_pad_attrs *attrs = args->attrs;
    const rlx_tensor *in = &args->in[0];
    *job = (pad_job){.args = args, .mode = attrs->mode};
    for (uint32_t i = 0; i < in->rank; i++)
        job->axes[i] = rlx_ref_pad_axis(attrs, in->rank, i, in->dims[i]);
    rlx_ref_pad_value(in->dtype, attrs->value, job->value);
}

/* Where an output row lies, and the input row it comes from; false: it is all constant. */
static bool pad_row_source(const pad_job *job, int64_t row, int64_t *out_offset,
                           int64_t *in_offset) {
    const rlx_tensor *in = &job->args->in[0], *out = &job->args->out[0];
    bool is_inside = true;
    *out_offset = *in_offset = 0;
    for (uint32_t i = out->rank - 1; i-- > 0;) {
        int64_t place = row % out->dims[i];
        int64_t source = rlx_ref_pad_source(&job->axes[i], job->mode, place);
        row /= out->dims[i];
        *out_offset += place * out->strides[i];
        is_inside = is_inside && source >= 0;
        *in_offset += source * in->strides[i];
    }
    return is_inside;
}

/* Output places [first, last) of a row, all outside the input; `from`: the row of the input. */
static void pad_margin(const pad_job *job, rlx_walk *to, int64_t from, int64_t first,
                       int64_t last) {
    const rlx_tensor *in = &job->args->in[0];
    uint32_t inner = in->rank - 1;
    if (job->mode == RLX_PAD_CONSTANT) {
        rlx_walk_fill(to, job->value, 0, last - first);
        return;
    }
    for (int64_t place = first; place < last; place++) {
        int64_t source = rlx_ref_pad_source(&job->axes[inner], job->mode, place);
        rlx_walk_fill(to, in->data, from + source * in->strides[inner], 1);
    }
}

static void pad_row(const pad_job *job, int64_t row) {
    const rlx_tensor *in = &job->args->in[0], *out = &job->args->out[0];
    uint32_t inner = in->rank - 1;
    const rlx_ref_pad *axis = &job->axes[inner];
    int64_t out_offset, from;
    bool is_inside = pad_row_source(job, row, &out_offset, &from);
    int64_t width = out->dims[inner], end = axis->lead + axis->size;
    rlx_walk to, source;
    rlx_walk_init(&to, out->dtype, out->data, out_offset, 1, &width, &out->strides[inner]);
    if (!is_inside) {
        rlx_walk_fill(&to, job->value, 0, width);
        return;
    }
    pad_margin(job, &to, from, 0, axis->lead);
    rlx_walk_init(&source, in->dtype, in->data, from + axis->start * in->strides[inner], 1,
                  &axis->size, &in->strides[inner]);
    rlx_walk_copy(&to, &source, axis->size);
    pad_margin(job, &to, from, end, width);
}

static void pad_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *out = &args->out[0];
    pad_job job;
    int64_t first, last;
    if (out->rank == 0) {
        view_run(args, begin, end); /* nothing to pad */
        return;
    }
    pad_prepare(&job, args);
    rlx_item_rows(out->dtype, pad_rows(out), last_dim(out), begin, end, &first, &last);
    for (int64_t row = first; row < last; row++)
        pad_row(&job, row);
}

/* Nonzero: one item, because where an entry goes depends on all before it. out[0].dims[1] may not
 * be the count yet, so only its stride is read. */

static int64_t one_item(const rlx_kernel_args *args) {
    (void)args;
    return 1;
}

static int64_t input_cost(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->in[0]);
}

static bool is_nonzero(const rlx_tensor *tensor, int64_t offset) {
    if (rlx_dtype_row_of(tensor->dtype)->class_ == RLX_CLASS_FLOAT)
        return rlx_load_f64(tensor->dtype, tensor->data, offset) != 0;
    return rlx_load_i64(tensor->dtype, tensor->data, offset) != 0;
}

static void nonzero_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    int64_t at[RLX_MAX_RANK] = {0}, offset = 0, found = 0;
    if (begin >= end) return;
    for (int64_t left = rlx_tensor_elements(in); left > 0; left--) {
        if (is_nonzero(in, offset)) {
            for (uint32_t i = 0; i < in->rank && out->data != NULL; i++) {
                int64_t place = i * out->strides[0] + found * out->strides[1];
                rlx_store_i64(RLX_DTYPE_I64, out->data, place, at[i]);
            }
            found++;
        }
        for (uint32_t i = in->rank; i-- > 0;) {
            offset += in->strides[i];
            if (++at[i] < in->dims[i]) break;
            offset -= in->dims[i] * in->strides[i];
            at[i] = 0;
        }
    }
    if (args->out[1].data != NULL) rlx_store_i64(RLX_DTYPE_I64, args->out[1].data, 0, found);
}

const rlx_ref_row rlx_ref_move_rows[] = {
    {RLX_OP_SLICE, {"slice_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_CONCAT, {"concat_scalar", concat_run, concat_items, NULL, NULL}},
    {RLX_OP_SPLIT, {"split_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_PAD, {"pad_scalar", pad_run, pad_items, NULL, NULL}},
    {RLX_OP_TRANSPOSE, {"transpose_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_RESHAPE, {"reshape_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_SQUEEZE, {"squeeze_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_UNSQUEEZE, {"unsqueeze_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_FLATTEN, {"flatten_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_EXPAND, {"expand_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_LIMIT, {"limit_scalar", view_run, view_items, NULL, NULL}},
    {RLX_OP_TILE, {"tile_scalar", tile_run, view_items, NULL, NULL}},
    {RLX_OP_NONZERO, {"nonzero_scalar", nonzero_run, one_item, input_cost, NULL}},
    {RLX_OP_COPY, {"copy_scalar", view_run, view_items, NULL, NULL}},
    /* Collectives of one rank. */
    {RLX_OP_ALL_REDUCE, {"all_reduce_alone", view_run, view_items, NULL, NULL}},
    {RLX_OP_ALL_GATHER, {"all_gather_alone", view_run, view_items, NULL, NULL}},
    {RLX_OP_REDUCE_SCATTER, {"reduce_scatter_alone", view_run, view_items, NULL, NULL}},
    {RLX_OP_BROADCAST, {"broadcast_alone", view_run, view_items, NULL, NULL}},
    {RLX_OP_ALL_TO_ALL, {"all_to_all_alone", view_run, view_items, NULL, NULL}},
};
const uint32_t rlx_ref_move_count = sizeof rlx_ref_move_rows / sizeof rlx_ref_move_rows[0];
