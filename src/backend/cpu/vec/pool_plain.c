/* SPDX-License-Identifier: Apache-2.0 */
/* max_pool and average_pool of plain f32, f16 and bf16, without indices. An item is one row of
 * outputs, as in scalar C. The rows of inputs that its windows meet are joined to columns, between
 * their padding in the workspace; then neighbouring columns are joined, vector by vector, and those
 * between two windows left out: the first of equals stays, NaN wins. Where a row has one output (a
 * global pool) the vectors go along the window instead. */
#include "backend/cpu/vec/convert.h"
#include "backend/cpu/vec/rows.h"

#include "ir/window.h"

#include <math.h>

enum { X = RLX_MAX_SPATIAL - 1, TOGETHER = 8 /* rows of inputs that are joined in one pass */ };

/* Spatial axes are always 3; missing ones in front are 1 wide. */
typedef struct pool {
    const rlx_tensor *x, *y;
    rlx_window axes[RLX_MAX_SPATIAL];
    int64_t strides[RLX_MAX_SPATIAL]; /* of x */
    bool is_max, counts_pad;
    int64_t wide; /* of a row before it is thinned out by the stride */
    int64_t span; /* of a padded row */
} pool;

static pool pool_of(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    pool self = {.x = &args->in[0],
                 .y = &args->out[0],
                 .is_max = args->op == RLX_OP_MAX_POOL,
                 .counts_pad = attrs->count_include_pad};
    uint32_t count = self.x->rank - 2, missing = RLX_MAX_SPATIAL - count;
    rlx_windows windows = {0};
    rlx_status status = rlx_windows_pool(attrs, count, self.x->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    for (uint32_t i = 0; i < RLX_MAX_SPATIAL; i++) {
        bool is_real = i >= missing;
        self.axes[i] =
            is_real ? windows.axes[i - missing]
                    : (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
        self.strides[i] = is_real ? self.x->strides[2 + i - missing] : 0;
    }
    const rlx_window *w = &self.axes[X];
    self.wide = w->out > 0 ? (w->out - 1) * w->stride + 1 : 0;
    self.span = self.wide + (w->kernel - 1) * w->dilation;
    return self;
}

/* Taps start, start + dilation, .. of a window that lie in [0, limit). */
static int64_t taps_within(const rlx_window *w, int64_t start, int64_t limit, int64_t *first) {
    bool is_dense = w->dilation == 1; /* and then nothing has to be divided */
    int64_t missing = start < 0 ? -start : 0;
    int64_t skipped = is_dense ? missing : (missing + w->dilation - 1) / w->dilation;
    *first = start + skipped * w->dilation;
    if (skipped >= w->kernel || *first >= limit) return 0;
    int64_t left = limit - 1 - *first;
    return rlx_ref_least(w->kernel - skipped, (is_dense ? left : left / w->dilation) + 1);
}

/* What an average along one axis divides by. */
static int64_t divisor(const pool *self, int axis, int64_t at) {
    const rlx_window *w = &self->axes[axis];
    int64_t unused, start = at * w->stride;
    return self->counts_pad ? taps_within(w, start, w->begin + w->in + w->end, &unused)
                            : taps_within(w, start - w->begin, w->in, &unused);
}

/* `is_max` is a constant. */
VEC_INLINE vf join(bool is_max, vf old, vf x) {
    return is_max ? vf_select(x != x, x, vf_max(x, old)) : old + x;
}
VEC_INLINE float nothing(bool is_max) {
    return is_max ? -INFINITY : 0;
}

/* Inputs side by side as f32: those in memory, or converted into `row`. */
static const float *inputs(const pool *self, int64_t from, int64_t count, float *row) {
    if (self->x->dtype == RLX_DTYPE_F32) return (const float *)self->x->data + from;
    vec_read_f32(self->x, from, 1, count, row);
    return row;
}

/* Joins a row of inputs to `column`. */
VEC_INLINE void join_inputs(bool is_max, const float *from, int64_t count, float *column) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        vf_store(column + i, join(is_max, vf_load(column + i), vf_load(from + i)));
    if (i < count) {
        vf x = join(is_max, vf_load(column + i), vf_load_n(from + i, count - i));
        vf_store_n(column + i, x, count - i);
    }
}

/* VF columns of n rows. */
VEC_INLINE vf joined_at(bool is_max, const float *const *rows, int64_t n, int64_t i) {
    vf best = vf_load(rows[0] + i);
    for (int64_t k = 1; k < n; k++)
        best = join(is_max, best, vf_load(rows[k] + i));
    return best;
}
/* The columns of n rows of at least a vector; the last one may meet the one before. */
VEC_INLINE void join_n(bool is_max, const float *const *rows, int64_t n, int64_t count,
                       float *column) {
    for (int64_t i = 0; i + VF <= count; i += VF)
        vf_store(column + i, joined_at(is_max, rows, n, i));
    vf_store(column + count - VF, joined_at(is_max, rows, n, count - VF));
}
/* Three is what most windows have: a loop of its own. */
VEC_INLINE void join_rows(bool is_max, const float *const *rows, int64_t n, int64_t count,
                          float *column) {
    if (n == 3) {
        const float *three[3] = {rows[0], rows[1], rows[2]};
        join_n(is_max, three, 3, count, column);
    } else {
        join_n(is_max, rows, n, count, column);
    }
}

/* Joins the columns under each window; `joined` may have a vector more than it needs. */
VEC_INLINE void join_taps(bool is_max, const float *columns, int64_t taps, int64_t dilation,
                          int64_t wide, float *joined) {
    for (int64_t i = 0; i < wide; i += VF) {
        vf best = vf_load(columns + i);
        for (int64_t k = 1; k < taps; k++)
            best = join(is_max, best, vf_load(columns + i + k * dilation));
        vf_store(joined + i, best);
    }
}
VEC_INLINE void join_columns(bool is_max, const pool *self, const float *columns, float *joined) {
    int64_t taps = self->axes[X].kernel, dilation = self->axes[X].dilation;
    if (taps == 3) {
        join_taps(is_max, columns, 3, dilation, self->wide, joined);
    } else {
        join_taps(is_max, columns, taps, dilation, self->wide, joined);
    }
}

/* Every second lane of two vectors. */
VEC_INLINE vf every_second(vf a, vf b) {
#if RLX_VEC_BYTES == 32
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}
/* The windows that are wanted, side by side. */
static void thin_out(float *joined, int64_t stride, int64_t count) {
    int64_t i = 0;
    for (; stride == 2 && i + VF <= count; i += VF)
        vf_store(joined + i, every_second(vf_load(joined + 2 * i), vf_load(joined + 2 * i + VF)));
    for (; stride > 1 && i < count; i++)
        joined[i] = joined[i * stride];
}

/* All taps of the one window of a row of inputs. */
VEC_INLINE vf join_window(bool is_max, const float *from, int64_t count, vf best) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        best = join(is_max, best, vf_load(from + i));
    if (i == count) return best;
    vf x = vf_load_n(from + i, count - i);
    return join(is_max, best, is_max ? vec_lanes_or(x, count - i, nothing(true)) : x);
}

/* An output row: where it stands, and its rows of inputs. */
typedef struct spot {
    int64_t base; /* of the plane in x */
    int64_t first[2], count[2];
    float divisor; /* of the axes before the last */
} spot;

static int64_t row_offset(const pool *self, const spot *s, int64_t number) {
    int64_t z = s->count[0] == 1 ? 0 : number / s->count[1], y = number - z * s->count[1];
    return s->base + (s->first[0] + z * self->axes[0].dilation) * self->strides[0] +
           (s->first[1] + y * self->axes[1].dilation) * self->strides[1];
}

/* The first zero of the window that begins at `first`: -0 and +0 are equal. */
static float first_zero(const pool *self, const spot *s, int64_t first, int64_t count) {
    for (int64_t r = 0; r < s->count[0] * s->count[1]; r++) {
        for (int64_t i = 0; i < count; i++) {
            float x;
            vec_read_f32(self->x, row_offset(self, s, r) + first + i, 1, 1, &x);
            if (x == 0) return x;
        }
    }
    return 0;
}

/* A row of one output. */
VEC_INLINE void pool_one(bool is_max, const pool *self, const spot *s, int64_t to, float *row,
                         const float *by) {
    const rlx_window *w = &self->axes[X];
    int64_t first, count = taps_within(w, -w->begin, w->in, &first);
    int64_t rows = s->count[0] * s->count[1], run = count;
    vf best = vf_set(nothing(is_max));
    /* Rows of f32 that follow each other are one. */
    if (self->x->dtype == RLX_DTYPE_F32 && count == self->strides[1] && s->count[0] == 1 &&
        self->axes[1].dilation == 1)
        run *= rows, rows = rows > 0;
    for (int64_t r = 0; r < rows; r++) {
        const float *from = inputs(self, row_offset(self, s, r) + first, run, row);
        best = join_window(is_max, from, run, best);
    }
    float value = vf_sum(best), divide = s->divisor * by[0];
    if (is_max) {
        value = best[0];
        for (int i = 1; i < VF; i++)
            if (best[i] > value || best[i] != best[i]) value = best[i];
        if (value == 0) value = first_zero(self, s, first, count);
    } else {
        value = divide == 0 ? 0 : value / divide;
    }
    vec_write_f32(self->y, to, 1, 1, &value);
}

/* Workspace: columns with their padding, a row that is converted, joined windows, and what each
 * output divides by. */
VEC_INLINE void pool_row(bool is_max, const pool *self, const spot *s, int64_t to, float *columns,
                         float *row, float *joined, const float *by) {
    const rlx_window *w = &self->axes[X];
    int64_t lead = rlx_ref_least(w->begin, self->span);
    int64_t count = rlx_ref_least(w->in, self->span - lead), rows = s->count[0] * s->count[1];
    const float *together[TOGETHER];
    int64_t r = 0;
    if (self->x->dtype == RLX_DTYPE_F32 && count >= VF && rows > 0) {
        for (; r < rlx_ref_least(rows, TOGETHER); r++)
            together[r] = (const float *)self->x->data + row_offset(self, s, r);
        join_rows(is_max, together, r, count, columns + lead);
    } else {
        for (int64_t i = 0; i < count; i++)
            columns[lead + i] = nothing(is_max);
    }
    for (; r < rows; r++) {
        const float *from = inputs(self, row_offset(self, s, r), count, row);
        join_inputs(is_max, from, count, columns + lead);
    }
    join_columns(is_max, self, columns, joined);
    thin_out(joined, w->stride, w->out);
    for (int64_t i = 0; !is_max && i < w->out; i += VF) {
        vf divide = vf_load(by + i) * s->divisor;
        vf_store(joined + i, vf_select(divide > 0.0f, vf_load(joined + i) / divide, vf_set(0)));
    }
    if (self->y->dtype == RLX_DTYPE_F32) {
        memcpy((float *)self->y->data + to, joined, (size_t)w->out * sizeof *joined);
    } else {
        vec_write_f32(self->y, to, 1, w->out, joined);
    }
}

static spot spot_of(const pool *self, int64_t base, const int64_t *at) {
    spot s = {.base = base, .divisor = 1};
    for (int i = 0; i < 2; i++) {
        const rlx_window *w = &self->axes[i];
        s.count[i] = taps_within(w, at[i] * w->stride - w->begin, w->in, &s.first[i]);
        if (!self->is_max) s.divisor *= (float)divisor(self, i, at[i]);
    }
    return s;
}

static int64_t room(int64_t count) { /* elements of a part of the workspace */
    return (count + 2 * VF - 1) / VF * VF;
}

/* Rows of outputs [begin, end) of one plane. */
VEC_INLINE void run_plane(bool is_max, const pool *self, int64_t plane, int64_t begin, int64_t end,
                          float *columns, const float *by) {
    const rlx_tensor *x = self->x, *y = self->y;
    float *row = columns + room(self->span), *joined = row + room(self->span);
    bool is_single = self->axes[X].out == 1 && self->axes[X].dilation == 1;
    int64_t channel = plane % x->dims[1], batch = plane / x->dims[1];
    int64_t at[2] = {begin / self->axes[1].out, begin % self->axes[1].out};
    int64_t base = batch * x->strides[0] + channel * x->strides[1];
    int64_t to = batch * y->strides[0] + channel * y->strides[1], strides[2] = {0, 0};
    for (uint32_t i = 2; i + 1 < y->rank; i++)
        strides[i + 3 - y->rank] = y->strides[i];
    for (int64_t item = begin; item < end; item++) {
        spot s = spot_of(self, base, at);
        int64_t place = to + at[0] * strides[0] + at[1] * strides[1];
        if (is_single) {
            pool_one(is_max, self, &s, place, row, by);
        } else {
            pool_row(is_max, self, &s, place, columns, row, joined, by);
        }
        if (++at[1] == self->axes[1].out) at[1] = 0, at[0]++;
    }
}

VEC_INLINE void run_kind(bool is_max, const rlx_kernel_args *args, const pool *self, int64_t begin,
                         int64_t end) {
    float *columns = args->workspace;
    float *by = columns + 2 * room(self->span) + room(self->wide);
    int64_t rows = self->axes[0].out * self->axes[1].out;
    for (int64_t i = 0; i < room(self->span); i++)
        columns[i] = nothing(is_max);
    for (int64_t i = 0; !is_max && i < self->axes[X].out; i++)
        by[i] = (float)divisor(self, X, i);
    while (begin < end) {
        int64_t plane = begin / rows, first = begin % rows;
        int64_t past = rlx_ref_least(rows, first + end - begin);
        run_plane(is_max, self, plane, first, past, columns, by);
        begin += past - first;
    }
}

static bool fits(const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    return vec_is_float(x->dtype) && y->dtype == x->dtype && x->strides[x->rank - 1] == 1 &&
           y->strides[y->rank - 1] == 1 && (args->out_count < 2 || args->out[1].data == NULL);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    pool self = pool_of(args);
    if (self.is_max) {
        run_kind(true, args, &self, begin, end);
    } else {
        run_kind(false, args, &self, begin, end);
    }
}

static uint64_t workspace(const rlx_kernel_args *args) {
    pool self = pool_of(args);
    uint64_t floats = 2 * (uint64_t)room(self.span) + (uint64_t)room(self.wide) +
                      (uint64_t)room(self.axes[X].out);
    return rlx_ref_bytes(floats, sizeof(float));
}

static int64_t item_cost(const rlx_kernel_args *args) {
    pool self = pool_of(args);
    int64_t rows = rlx_ref_least(self.axes[0].kernel, self.axes[0].in) *
                   rlx_ref_least(self.axes[1].kernel, self.axes[1].in);
    int64_t taps = rlx_ref_least(self.axes[X].kernel, self.axes[X].in);
    return rlx_ref_cost(rows, rlx_ref_cost(self.wide, taps / 4 + 1)) + 16;
}

/* Rows that a worker can keep near; a window far wider than its input is none of ours. */
static bool takes(const rlx_target_query *query) {
    enum { MOST = 1 << 16 };
    const rlx_pool_attrs *attrs = query->attrs;
    rlx_kernel_args args = vec_args_of(query);
    if (attrs->kernel.count + 2 != query->in[0].rank) return false; /* channels in blocks */
    if (query->in[0].rank < 3 || query->in[0].rank > 2 + RLX_MAX_SPATIAL || !fits(&args))
        return false;
    pool self = pool_of(&args);
    return self.axes[X].kernel < MOST && self.axes[X].dilation < MOST && self.wide < MOST &&
           self.span < MOST;
}

const rlx_cpu_override VEC_SYMBOL(pool_plain)[] = {
    {RLX_OP_MAX_POOL,
     0,
     takes,
     {VEC_NAME("max_pool_plain"), run, vec_scalar_items, item_cost, workspace}},
    {RLX_OP_AVERAGE_POOL,
     0,
     takes,
     {VEC_NAME("average_pool_plain"), run, vec_scalar_items, item_cost, workspace}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
