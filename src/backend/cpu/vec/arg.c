/* SPDX-License-Identifier: Apache-2.0 */
/* arg_max and arg_min of f32. Along the last axis the lanes take turns and are joined at the end;
 * along another one each lane has a line of its own, and an item is a strip of lines. NaN wins; of
 * equals the first, or the last where that is asked for. */
#include "backend/cpu/vec/rows.h"

enum { STRIP = 16 * VF };

typedef struct arg {
    const rlx_tensor *x, *y;
    int64_t length, inner, outer; /* x is [outer][length][inner] */
    bool is_largest, is_last;
} arg;

static arg arg_of(const rlx_kernel_args *args) {
    const rlx_arg_attrs *attrs = args->attrs;
    arg self = {.x = &args->in[0],
                .y = &args->out[0],
                .is_largest = args->op == RLX_OP_ARG_MAX,
                .is_last = attrs->select_last};
    uint32_t axis = vec_axis(attrs->axis, self.x->rank);
    self.length = self.x->dims[axis];
    self.outer = vec_product(self.x->dims, 0, axis);
    self.inner = vec_product(self.x->dims, axis + 1, self.x->rank);
    return self;
}

static bool fits(const arg *self) {
    return vec_is_dense(self->x, 0) && vec_is_dense(self->y, 0) && self->length > 0 &&
           self->length <= INT32_MAX &&
           (self->inner == 1 ? self->length >= 2 * VF : self->inner >= VF);
}

/* `is_largest` and `is_last` are constants. */
VEC_INLINE void improve(bool is_largest, bool is_last, vf x, vi at, vf *best, vi *where) {
    vi nan = x != x, better;
    if (is_largest) {
        better = is_last ? x >= *best : x > *best;
    } else {
        better = is_last ? x <= *best : x < *best;
    }
    if (!is_last) nan &= *best == *best;
    better |= nan;
    *best = vf_select(better, x, *best);
    *where = (vi)vf_select(better, (vf)at, (vf)*where);
}

/* Whether candidate (x, at) is preferred to (best, where). */
static bool is_better(const arg *self, float x, int32_t at, float best, int32_t where) {
    bool is_equal = x == best || (x != x && best != best);
    if (is_equal) return self->is_last ? at > where : at < where;
    if (x != x || best != best) return x != x;
    return self->is_largest ? x > best : x < best;
}

/* The preferred of all lanes. Without NaN and with places that are floats too no lane is asked by
 * itself: what it would answer is hard to foresee. */
static int64_t join_lanes(const arg *self, vf best, vi where) {
    enum { EXACT = 1 << 24 };
    if (vi_all(best == best) && self->length <= EXACT) {
        vf most = vf_set(self->is_largest ? vf_highest(best) : vf_lowest(best));
        vf none = vf_set(self->is_last ? -1.0f : (float)EXACT);
        vf places = vf_select(best == most, vf_of(where), none);
        return (int64_t)(self->is_last ? vf_highest(places) : vf_lowest(places));
    }
    float value = best[0];
    int32_t found = where[0];
    for (int k = 1; k < VF; k++) {
        if (is_better(self, best[k], where[k], value, found)) value = best[k], found = where[k];
    }
    return found;
}

/* The last vector may lie over the one before it. */
VEC_INLINE int64_t along(bool is_largest, bool is_last, const arg *self, const float *x) {
    vi lanes = {0};
    for (int i = 0; i < VF; i++)
        lanes[i] = i;
    vf best = vf_load(x);
    vi where = lanes;
    for (int64_t i = VF; i < self->length; i += VF) {
        int64_t first = rlx_ref_least(i, self->length - VF);
        improve(is_largest, is_last, vf_load(x + first), lanes + (int32_t)first, &best, &where);
    }
    return join_lanes(self, best, where);
}

/* `count` lines side by side; the last vector of a strip may lie over the one before it. */
VEC_INLINE void across(bool is_largest, bool is_last, const arg *self, const float *x,
                       int64_t count, int64_t *y) {
    for (int64_t k = 0; k < count; k += VF) {
        int64_t first = rlx_ref_least(k, count - VF);
        vf best = vf_load(x + first);
        vi where = vi_set(0);
        for (int64_t i = 1; i < self->length; i++) {
            improve(is_largest, is_last, vf_load(x + i * self->inner + first), vi_set((int32_t)i),
                    &best, &where);
        }
        for (int lane = 0; lane < VF; lane++)
            y[first + lane] = where[lane];
    }
}

/* A strip has at least a vector of lines: the last takes what is left beside it. */
static int64_t strips_of(const arg *self) {
    int64_t strips = self->inner / STRIP;
    return strips == 0 ? 1 : strips;
}

VEC_INLINE void run_kind(bool is_largest, bool is_last, const arg *self, int64_t begin,
                         int64_t end) {
    const float *x = self->x->data;
    int64_t *y = self->y->data, strips = strips_of(self);
    for (int64_t item = begin; item < end; item++) {
        if (self->inner == 1) {
            y[item] = along(is_largest, is_last, self, x + item * self->length);
            continue;
        }
        int64_t outer = item / strips, strip = item % strips, first = strip * STRIP;
        int64_t count = strip + 1 == strips ? self->inner - first : STRIP;
        across(is_largest, is_last, self, x + outer * self->length * self->inner + first, count,
               y + outer * self->inner + first);
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    arg self = arg_of(args);
    if (!fits(&self)) {
        vec_scalar_run(args, begin, end);
    } else if (self.is_largest) {
        self.is_last ? run_kind(true, true, &self, begin, end)
                     : run_kind(true, false, &self, begin, end);
    } else {
        self.is_last ? run_kind(false, true, &self, begin, end)
                     : run_kind(false, false, &self, begin, end);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    arg self = arg_of(args);
    if (!fits(&self)) return vec_scalar_items(args);
    return self.inner == 1 ? self.outer : self.outer * strips_of(&self);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    arg self = arg_of(args);
    return rlx_ref_cost(self.length, rlx_ref_least(self.inner, STRIP)) / 2 + 16;
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    if (query->in[0].rank == 0 || query->in[0].dtype != RLX_DTYPE_F32) return false;
    arg self = arg_of(&args);
    return fits(&self);
}

const rlx_cpu_override VEC_SYMBOL(arg)[] = {
    {RLX_OP_ARG_MAX, 0, takes, {VEC_NAME("arg_max"), run, items, item_cost, NULL}},
    {RLX_OP_ARG_MIN, 0, takes, {VEC_NAME("arg_min"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
