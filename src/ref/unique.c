/* SPDX-License-Identifier: Apache-2.0 */
/* The different elements, or slices along an axis, of a tensor. One item: everything hangs on a
 * sort of all of them, which is done on places in the workspace. Of equals the lower place is
 * first. */
#include "ref/kernel.h"
#include "ref/order.h"

/* What is sorted: `count` slices of `elements` each, one element apart by `stride` of x. */
typedef struct slices {
    const rlx_tensor *x;
    bool is_flat;
    int64_t count, elements, stride;
    uint32_t rank; /* of one slice */
    int64_t dims[RLX_MAX_RANK], strides[RLX_MAX_RANK];
} slices;

static slices slices_of(const rlx_tensor *x, const rlx_unique_attrs *attrs) {
    slices all = {.x = x, .is_flat = !attrs->by_axis, .elements = 1};
    if (all.is_flat) {
        all.count = rlx_tensor_elements(x);
        return all;
    }
    uint32_t axis = (uint32_t)(attrs->axis < 0 ? attrs->axis + (int64_t)x->rank : attrs->axis);
    all.count = x->dims[axis];
    all.stride = x->strides[axis];
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i == axis) continue;
        all.dims[all.rank] = x->dims[i];
        all.strides[all.rank++] = x->strides[i];
        all.elements = rlx_ref_cost(all.elements, x->dims[i]);
    }
    return all;
}

static uint64_t key_of(const slices *all, int64_t slice, int64_t element) {
    const rlx_tensor *x = all->x;
    int64_t offset = all->is_flat ? rlx_ref_offset(x->rank, x->dims, x->strides, slice)
                                  : slice * all->stride +
                                        rlx_ref_offset(all->rank, all->dims, all->strides, element);
    return rlx_ref_key(x, offset, UINT64_MAX);
}

/* Below 0: a comes first; 0: they are equal. */
static int compare(const slices *all, int64_t a, int64_t b) {
    for (int64_t i = 0; i < all->elements; i++) {
        uint64_t x = key_of(all, a, i), y = key_of(all, b, i);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

static bool comes_later(const slices *all, int64_t a, int64_t b) {
    int order = compare(all, a, b);
    return order != 0 ? order > 0 : a > b;
}

static void sift_down(const slices *all, int64_t *heap, int64_t count, int64_t at) {
    int64_t item = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_later(all, heap[child + 1], heap[child])) child++;
        if (!comes_later(all, heap[child], item)) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static void sort(const slices *all, int64_t *order) {
    for (int64_t i = 0; i < all->count; i++)
        order[i] = i;
    for (int64_t i = all->count / 2; i-- > 0;)
        sift_down(all, order, all->count, i);
    for (int64_t left = all->count; left-- > 1;) {
        int64_t last = order[0];
        order[0] = order[left];
        order[left] = last;
        sift_down(all, order, left, 0);
    }
}

/* group[i]: in which group of equals slice i is, groups numbered as they are sorted. */
static int64_t find_groups(const slices *all, const int64_t *order, int64_t *group) {
    int64_t groups = 0;
    for (int64_t i = 0; i < all->count; i++) {
        if (i == 0 || compare(all, order[i - 1], order[i]) != 0) groups++;
        group[order[i]] = groups - 1;
    }
    return groups;
}

/* place[g]: where group g goes. */
static void find_places(const slices *all, const int64_t *group, int64_t groups, bool unsorted,
                        int64_t *place) {
    int64_t next = 0;
    for (int64_t g = 0; g < groups; g++)
        place[g] = unsorted ? -1 : g;
    for (int64_t i = 0; i < all->count && unsorted; i++) {
        if (place[group[i]] < 0) place[group[i]] = next++;
    }
}

static void store(const rlx_tensor *tensor, int64_t index, int64_t value) {
    if (tensor->data == NULL) return;
    rlx_store_i64(RLX_DTYPE_I64, tensor->data, tensor->rank == 0 ? 0 : index * tensor->strides[0],
                  value);
}

/* Copies slice `from` of x to slice `to` of the values. */
static void copy_slice(const rlx_kernel_args *args, const slices *all, int64_t from, int64_t to) {
    const rlx_tensor *x = all->x, *y = &args->out[0];
    slices out = slices_of(y, args->attrs);
    if (y->data == NULL) return;
    if (all->is_flat) {
        rlx_ref_copy_element(y, to * y->strides[0], x,
                             rlx_ref_offset(x->rank, x->dims, x->strides, from));
        return;
    }
    for (int64_t i = 0; i < all->elements; i++) {
        int64_t source = rlx_ref_offset(all->rank, all->dims, all->strides, i);
        int64_t target = rlx_ref_offset(out.rank, out.dims, out.strides, i);
        rlx_ref_copy_element(y, to * out.stride + target, x, from * all->stride + source);
    }
}

static void run_unique(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_unique_attrs *attrs = args->attrs;
    slices all = slices_of(&args->in[0], attrs);
    if (begin >= end) return;
    if (all.count == 0) {
        store(&args->out[4], 0, 0);
        return;
    }
    int64_t *order = args->workspace, *group = order + all.count, *place = group + all.count;
    sort(&all, order);
    int64_t groups = find_groups(&all, order, group);
    find_places(&all, group, groups, attrs->unsorted, place);
    for (int64_t first = 0, i = 1; i <= all.count; i++) {
        if (i < all.count && group[order[i]] == group[order[first]]) continue;
        int64_t to = place[group[order[first]]];
        copy_slice(args, &all, order[first], to);
        store(&args->out[1], to, order[first]);
        store(&args->out[3], to, i - first);
        first = i;
    }
    for (int64_t i = 0; i < all.count; i++)
        store(&args->out[2], i, place[group[i]]);
    store(&args->out[4], 0, groups);
}

static int64_t unique_items(const rlx_kernel_args *args) {
    (void)args;
    return 1;
}

static int64_t unique_cost(const rlx_kernel_args *args) {
    return rlx_ref_cost(rlx_tensor_elements(&args->in[0]), 64);
}

static uint64_t unique_workspace(const rlx_kernel_args *args) {
    slices all = slices_of(&args->in[0], args->attrs);
    return rlx_ref_bytes((uint64_t)all.count, 3 * sizeof(int64_t));
}

const rlx_ref_row rlx_ref_unique_rows[] = {
    {RLX_OP_UNIQUE, {"unique_scalar", run_unique, unique_items, unique_cost, unique_workspace}},
};
const uint32_t rlx_ref_unique_count = sizeof rlx_ref_unique_rows / sizeof rlx_ref_unique_rows[0];
