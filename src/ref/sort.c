/* SPDX-License-Identifier: Apache-2.0 */
/* arg_max, arg_min, top_k and cumsum: work along one axis, one line per item. NaN counts as larger
 * than every number in top_k, and wins in arg_max and arg_min; of equals the lower index is first.
 */
#include "ref/kernel.h"
#include "ref/lines.h"
#include "ref/order.h"

static void run_arg(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_arg_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    bool largest = args->op == RLX_OP_ARG_MAX;
    rlx_ref_lines lines = rlx_ref_lines_of(x, attrs->axis);
    for (int64_t item = begin; item < end; item++) {
        int64_t base = rlx_ref_line_offset(&lines, item), best = 0;
        uint64_t best_key = 0;
        for (int64_t i = 0; i < lines.length; i++) {
            uint64_t key = rlx_ref_key(x, base + i * lines.stride, largest ? UINT64_MAX : 0);
            if (!largest) key = ~key;
            if (i > 0 && (attrs->select_last ? key < best_key : key <= best_key)) continue;
            best_key = key;
            best = i;
        }
        /* A kept axis is 1 wide and changes nothing in the numbering. */
        ((int64_t *)y->data)[rlx_ref_offset(y->rank, y->dims, y->strides, item)] = best;
    }
}

static int64_t arg_items(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->out[0]);
}

static int64_t arg_item_cost(const rlx_kernel_args *args) {
    const rlx_arg_attrs *attrs = args->attrs;
    return rlx_ref_cost(rlx_ref_lines_of(&args->in[0], attrs->axis).length, 2);
}

/* A candidate of top_k; a larger key is better. */
typedef struct candidate {
    uint64_t key;
    int64_t index;
} candidate;

static bool is_better(candidate a, candidate b) {
    return a.key != b.key ? a.key > b.key : a.index < b.index;
}

/* Moves the item at `at` down until no child is worse: the root of the heap is the worst. */
static void sift_down(candidate *heap, int64_t count, int64_t at) {
    candidate item = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_better(heap[child], heap[child + 1])) child++;
        if (!is_better(item, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

/* The first element from `i` on that may be better than `worst`, which most of a line are not: no
 * key is made of those. NaN is left to the keys. */
static int64_t skip_worse(const float *x, int64_t stride, int64_t i, int64_t length, float worst,
                          bool smallest) {
    if (smallest) {
        while (i < length && x[i * stride] >= worst)
            i++;
    } else {
        while (i < length && x[i * stride] <= worst)
            i++;
    }
    return i;
}

/* The best `k` of a line, best first. */
static void select_best(const rlx_tensor *x, int64_t base, const rlx_ref_lines *line, int64_t k,
                        bool smallest, candidate *heap) {
    const float *numbers = x->dtype == RLX_DTYPE_F32 ? (const float *)x->data + base : NULL;
    for (int64_t i = 0; i < line->length; i++) {
        if (i >= k && numbers != NULL) {
            float worst = numbers[heap[0].index * line->stride];
            i = skip_worse(numbers, line->stride, i, line->length, worst, smallest);
            if (i == line->length) break;
        }
        uint64_t key = rlx_ref_key(x, base + i * line->stride, UINT64_MAX);
        candidate item = {smallest ? ~key : key, i};
        if (i < k) {
            heap[i] = item;
            for (int64_t j = k / 2; i == k - 1 && j-- > 0;)
                sift_down(heap, k, j);
        } else if (is_better(item, heap[0])) {
            heap[0] = item;
            sift_down(heap, k, 0);
        }
    }
    for (int64_t left = k; left-- > 1;) {
        candidate worst = heap[0];
        heap[0] = heap[left];
        heap[left] = worst;
        sift_down(heap, left, 0);
    }
}

static void run_top_k(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_top_k_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *values = &args->out[0], *indices = &args->out[1];
    rlx_ref_lines from = rlx_ref_lines_of(x, attrs->axis);
    rlx_ref_lines to = rlx_ref_lines_of(values, attrs->axis);
    rlx_ref_lines to_index = rlx_ref_lines_of(indices, attrs->axis);
    candidate *heap = args->workspace;
    if (attrs->k == 0) return;
    for (int64_t item = begin; item < end; item++) {
        int64_t base = rlx_ref_line_offset(&from, item);
        select_best(x, base, &from, attrs->k, attrs->smallest, heap);
        for (int64_t i = 0; i < attrs->k; i++) {
            if (values->data != NULL) {
                rlx_ref_copy_element(values, rlx_ref_line_offset(&to, item) + i * to.stride, x,
                                     base + heap[i].index * from.stride);
            }
            if (indices->data != NULL) {
                int64_t at = rlx_ref_line_offset(&to_index, item) + i * to_index.stride;
                ((int64_t *)indices->data)[at] = heap[i].index;
            }
        }
    }
}

static int64_t top_k_items(const rlx_kernel_args *args) {
    const rlx_top_k_attrs *attrs = args->attrs;
    return rlx_ref_lines_of(&args->in[0], attrs->axis).count;
}

static int64_t top_k_item_cost(const rlx_kernel_args *args) {
    const rlx_top_k_attrs *attrs = args->attrs;
    return rlx_ref_cost(rlx_ref_lines_of(&args->in[0], attrs->axis).length, 8);
}

static uint64_t top_k_workspace(const rlx_kernel_args *args) {
    const rlx_top_k_attrs *attrs = args->attrs;
    return top_k_items(args) == 0 ? 0 : rlx_ref_bytes((uint64_t)attrs->k, sizeof(candidate));
}

/* f32, whose elements need no look at their dtype. */
static void cumsum_f32(const rlx_cumsum_attrs *attrs, const float *x, int64_t x_stride, float *y,
                       int64_t y_stride, int64_t length) {
    double sum = 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t at = attrs->reverse ? length - 1 - i : i;
        double before = sum;
        sum += (double)x[at * x_stride];
        y[at * y_stride] = (float)(attrs->exclusive ? before : sum);
    }
}

static void run_cumsum(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_cumsum_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    rlx_ref_lines from = rlx_ref_lines_of(x, attrs->axis), to = rlx_ref_lines_of(y, attrs->axis);
    bool is_float = rlx_dtype_row_of(x->dtype)->class_ == RLX_CLASS_FLOAT;
    for (int64_t item = begin; item < end; item++) {
        int64_t in = rlx_ref_line_offset(&from, item), out = rlx_ref_line_offset(&to, item);
        double sum = 0;
        uint64_t integer_sum = 0;
        if (x->dtype == RLX_DTYPE_F32) {
            cumsum_f32(attrs, (const float *)x->data + in, from.stride, (float *)y->data + out,
                       to.stride, from.length);
            continue;
        }
        for (int64_t i = 0; i < from.length; i++) {
            int64_t at = attrs->reverse ? from.length - 1 - i : i;
            int64_t source = in + at * from.stride, target = out + at * to.stride;
            if (is_float) {
                double before = sum;
                sum += rlx_load_f64(x->dtype, x->data, source);
                rlx_store_f64(y->dtype, y->data, target, attrs->exclusive ? before : sum);
            } else {
                uint64_t before = integer_sum;
                integer_sum += (uint64_t)rlx_load_i64(x->dtype, x->data, source);
                rlx_store_i64(y->dtype, y->data, target,
                              (int64_t)(attrs->exclusive ? before : integer_sum));
            }
        }
    }
}

static int64_t cumsum_items(const rlx_kernel_args *args) {
    const rlx_cumsum_attrs *attrs = args->attrs;
    return rlx_ref_lines_of(&args->in[0], attrs->axis).count;
}

const rlx_ref_row rlx_ref_sort_rows[] = {
    {RLX_OP_ARG_MAX, {"arg_max_scalar", run_arg, arg_items, arg_item_cost, NULL}},
    {RLX_OP_ARG_MIN, {"arg_min_scalar", run_arg, arg_items, arg_item_cost, NULL}},
    {RLX_OP_TOP_K, {"top_k_scalar", run_top_k, top_k_items, top_k_item_cost, top_k_workspace}},
    {RLX_OP_CUMSUM, {"cumsum_scalar", run_cumsum, cumsum_items, NULL, NULL}},
};
const uint32_t rlx_ref_sort_count = sizeof rlx_ref_sort_rows / sizeof rlx_ref_sort_rows[0];
