/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar kernel that brings a value into a layout, or back. An item is a piece of the output's
 * memory, or of its elements where it has strides. Which layouts there are is ir/layout.h's. */
#include "ir/dtype.h"
#include "ir/layout.h"
#include "ref/access.h"
#include "ref/strided.h"

enum { PACK_PIECE = 4096 };

static int64_t pack_elements(const rlx_tensor *out) {
    if (out->layout == RLX_LAYOUT_PLAIN) return rlx_tensor_elements(out);
    return rlx_layout_map_of(out).elements;
}

static int64_t pack_items(const rlx_kernel_args *args) {
    int64_t elements = pack_elements(&args->out[0]);
    if (rlx_unit_is_nibble(args->out[0].dtype)) return elements > 0;
    return elements / PACK_PIECE + (elements % PACK_PIECE != 0);
}

static int64_t pack_cost(const rlx_kernel_args *args) {
    return rlx_ref_least(PACK_PIECE, pack_elements(&args->out[0])) * 8;
}

static void index_of(const rlx_tensor *tensor, int64_t number, int64_t *index) {
    for (uint32_t i = tensor->rank; i-- > 0;) {
        index[i] = number % tensor->dims[i];
        number /= tensor->dims[i];
    }
}

static void pack_piece(const rlx_tensor *in, const rlx_tensor *out, int64_t first, int64_t last) {
    rlx_layout_map from = rlx_layout_map_of(in), to = rlx_layout_map_of(out);
    bool is_packed = out->layout != RLX_LAYOUT_PLAIN;
    size_t bytes = rlx_dtype_block_bytes(out->dtype);
    int64_t index[RLX_MAX_RANK];
    for (int64_t at = first; at < last; at++) {
        bool is_element = true;
        int64_t place = at;
        if (is_packed) {
            is_element = rlx_layout_index(&to, at, index);
        } else {
            index_of(out, at, index);
            place = rlx_layout_offset(&to, index);
        }
        char *target = (char *)out->data + place * (int64_t)bytes;
        if (is_element) {
            memcpy(target,
                   (const char *)in->data + rlx_layout_offset(&from, index) * (int64_t)bytes,
                   bytes);
        } else {
            memset(target, 0, bytes);
        }
    }
}

/* One step of the loops outside the innermost one. */
static void next_run(const rlx_layout_map *to, int64_t *at) {
    for (uint32_t i = to->loop_count - 1; i-- > 0;) {
        if (++at[i] < to->loops[i].count) return;
        at[i] = 0;
    }
}

/* Elements `step` apart in `from`, side by side in `to`. */
static void copy_run(char *to, const char *from, int64_t step, int64_t count, size_t bytes) {
    if (bytes == 4) {
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * 4, from + i * step * 4, 4);
    } else if (bytes == 1) {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * step];
    } else {
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * (int64_t)bytes, from + i * step * (int64_t)bytes, bytes);
    }
}

/* From strides into a layout, by runs of the innermost loop: weights are large, and the place of an
 * element costs more than the element. Pieces are whole runs. */
static void pack_runs(const rlx_tensor *in, const rlx_tensor *out, int64_t first, int64_t last) {
    const rlx_layout_map to = rlx_layout_map_of(out);
    const rlx_layout_loop *inner = &to.loops[to.loop_count - 1];
    size_t bytes = rlx_dtype_block_bytes(out->dtype);
    int64_t at[RLX_LAYOUT_LOOPS], step = in->strides[inner->axis] * inner->divisor;
    for (uint32_t i = 0; i < to.loop_count; i++)
        at[i] = first / to.loops[i].stride % to.loops[i].count;
    for (int64_t place = first; place < last; place += inner->count, next_run(&to, at)) {
        int64_t index[RLX_MAX_RANK] = {0}, source = 0, count = inner->count;
        for (uint32_t i = 0; i + 1 < to.loop_count; i++)
            index[to.loops[i].axis] += at[i] * to.loops[i].divisor;
        int64_t left = out->dims[inner->axis] - index[inner->axis];
        left = left <= 0 ? 0 : (left - 1) / inner->divisor + 1;
        if (count > left) count = left;
        for (uint32_t i = 0; i < to.rank; i++) {
            if (index[i] >= out->dims[i]) count = 0;
            source += index[i] * in->strides[i];
        }
        char *target = (char *)out->data + place * (int64_t)bytes;
        if (count > 0)
            copy_run(target, (const char *)in->data + source * (int64_t)bytes, step, count, bytes);
        if (count < inner->count)
            memset(target + count * (int64_t)bytes, 0, (size_t)(inner->count - count) * bytes);
    }
}

/* Whether pieces end where runs of the innermost loop do. */
static bool has_whole_runs(const rlx_tensor *out) {
    const rlx_layout_map to = rlx_layout_map_of(out);
    return to.loop_count > 1 && PACK_PIECE % to.loops[to.loop_count - 1].count == 0;
}

static void pack_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    int64_t elements = pack_elements(out);
    if (in->layout == RLX_LAYOUT_PLAIN && out->layout == RLX_LAYOUT_PLAIN) {
        rlx_walk to, from; /* any dtype: a copy */
        if (begin > 0 || end <= 0) return;
        rlx_walk_init(&to, out->dtype, out->data, 0, out->rank, out->dims, out->strides);
        rlx_walk_init(&from, in->dtype, in->data, 0, in->rank, in->dims, in->strides);
        rlx_walk_copy(&to, &from, elements / rlx_unit_elements(out->dtype));
        return;
    }
    int64_t first = begin * PACK_PIECE, last = rlx_ref_least(end * PACK_PIECE, elements);
    if (in->layout == RLX_LAYOUT_PLAIN && has_whole_runs(out)) {
        pack_runs(in, out, first, last);
    } else {
        pack_piece(in, out, first, last);
    }
}

const rlx_ref_row rlx_ref_pack_rows[] = {
    {RLX_OP_PACK, {"pack_scalar", pack_run, pack_items, pack_cost, NULL}},
};
const uint32_t rlx_ref_pack_count = sizeof rlx_ref_pack_rows / sizeof rlx_ref_pack_rows[0];
