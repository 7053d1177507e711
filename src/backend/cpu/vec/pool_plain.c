/* SPDX-License-Identifier: Apache-2.0 */
/* max_pool and average_pool of plain f32, f16 and bf16, without indices. An item is one row of
 * outputs, as in scalar C; as many as a cache holds are a band. The rows of inputs that its windows
 * meet lie between their padding in the workspace, one after the other, so that rows are joined to
 * columns and neighbouring columns to windows in long loops, however short a row is; wide rows are
 * joined where they are. Windows between two that are wanted are left out in the end. Where a row
 * has one output (a global pool) the vectors go along the window instead. The first of equals
 * stays. NaN wins, but a maximum of vectors does not know that: each band is asked for NaN once,
 * and one that has it is scalar C's. */
#include "backend/cpu/vec/convert.h"
#include "backend/cpu/vec/rows.h"

#include "ir/window.h"

#include <math.h>

enum { X = RLX_MAX_SPATIAL - 1, NEAR = 6144 /* floats of a band */, WIDE = 96 };

/* to[i] = from[i], from[i + step], .. joined, n of them, for `count` cells: at least a vector. */
typedef void (*joiner)(const float *from, int64_t n, int64_t step, int64_t count, float *to);

/* Spatial axes are always 3; missing ones in front are 1 wide. */
typedef struct pool {
    const rlx_tensor *x, *y;
    rlx_window axes[RLX_MAX_SPATIAL];
    int64_t strides[RLX_MAX_SPATIAL]; /* of x */
    bool is_max, counts_pad;
    bool is_whole; /* rows without padding, one after the other: a band lies in x as it is */
    joiner join;
    int64_t wide;        /* of a row before it is thinned out by the stride */
    int64_t span;        /* of a padded row, at least a vector */
    int64_t lead, count; /* its padding in front, its inputs */
    int64_t rows;        /* of a band */
    int64_t high;        /* rows of inputs that a band is copied from; 0: it is not copied */
    int64_t inner[2];    /* rows of outputs with all their taps */
} pool;

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
static int64_t divisor_of(const pool *self, int axis, int64_t at) {
    const rlx_window *w = &self->axes[axis];
    int64_t unused, start = at * w->stride;
    return self->counts_pad ? taps_within(w, start, w->begin + w->in + w->end, &unused)
                            : taps_within(w, start - w->begin, w->in, &unused);
}

/* `is_max` is a constant. Of numbers: NaN is lost. */
VEC_INLINE vf join(bool is_max, vf old, vf x) {
    return is_max ? vf_max(x, old) : old + x;
}
VEC_INLINE vf join_any(bool is_max, vf old, vf x) {
    return is_max ? vf_select(x != x, x, vf_max(x, old)) : old + x;
}
VEC_INLINE float nothing(bool is_max) {
    return is_max ? -INFINITY : 0;
}

/* The first n lanes, nothing in others. */
VEC_INLINE vf some_lanes(bool is_max, vf x, int64_t n) {
    vi numbers;
    for (int i = 0; i < VF; i++)
        numbers[i] = i;
    return vf_select(numbers < vi_set((int32_t)n), x, vf_set(nothing(is_max)));
}

static bool has_nan(const float *x, int64_t count) {
    vi good = vi_set(-1);
    int64_t i = 0;
    for (; i + 2 * VF <= count; i += 2 * VF)
        good &= vf_are_numbers(vf_load(x + i), vf_load(x + i + VF));
    for (; i < count; i += VF) {
        vf last = vf_load_n(x + i, rlx_ref_least(VF, count - i));
        good &= last == last;
    }
    return !vi_all(good);
}

/* Inputs side by side as f32: those in memory, or converted into `row`. */
static const float *inputs(const pool *self, int64_t from, int64_t count, float *row) {
    if (self->x->dtype == RLX_DTYPE_F32) return (const float *)self->x->data + from;
    vec_read_f32(self->x, from, 1, count, row);
    return row;
}

/* Four vectors of n lines, those beyond `last` in its place: they may meet others. */
VEC_INLINE void join_four(bool is_max, const float *from, int64_t n, int64_t step, int64_t last,
                          float *to) {
    const int64_t zero = rlx_ref_least(0, last), one = rlx_ref_least(VF, last),
                  two = rlx_ref_least(2 * VF, last), three = rlx_ref_least(3 * VF, last);
    vf a = vf_load(from + zero), b = vf_load(from + one), c = vf_load(from + two),
       d = vf_load(from + three);
    for (int64_t k = 1; k < n; k++) {
        from += step;
        a = join(is_max, a, vf_load(from + zero));
        b = join(is_max, b, vf_load(from + one));
        c = join(is_max, c, vf_load(from + two));
        d = join(is_max, d, vf_load(from + three));
    }
    vf_store(to + zero, a);
    vf_store(to + one, b);
    vf_store(to + two, c);
    vf_store(to + three, d);
}
VEC_INLINE void join_lines(bool is_max, const float *from, int64_t n, int64_t step, int64_t count,
                           float *to) {
    int64_t i = 0;
    for (; i + 4 * VF <= count; i += 4 * VF)
        join_four(is_max, from + i, n, step, 4 * VF, to + i);
    if (i < count) join_four(is_max, from + i, n, step, count - i - VF, to + i);
}
static void join_largest(const float *from, int64_t n, int64_t step, int64_t count, float *to) {
    join_lines(true, from, n, step, count, to);
}
static void join_sums(const float *from, int64_t n, int64_t step, int64_t count, float *to) {
    join_lines(false, from, n, step, count, to);
}

/* One window along a row. */
static bool is_single(const pool *self) {
    return self->axes[X].out == 1 && self->axes[X].dilation == 1;
}

/* Rows of inputs of a window. */
static int64_t reach(const pool *self) {
    const rlx_window *h = &self->axes[1];
    return rlx_ref_least(h->in, (h->kernel - 1) * h->dilation + 1);
}

/* Rows of f32 of one depth, of a vector at least. */
static bool is_flat(const pool *self) {
    return self->x->dtype == RLX_DTYPE_F32 && self->axes[0].in == 1 && self->axes[0].kernel == 1 &&
           self->count >= VF;
}

/* How many rows of outputs a band has, at most `most`, and whether its rows of inputs are copied:
 * all in all NEAR floats, and 2 + reach rows more. */
static void set_band(pool *self, int64_t most) {
    const rlx_window *h = &self->axes[1];
    int64_t last = h->in - 1 - (h->kernel - 1) * h->dilation + h->begin;
    bool is_wide = is_flat(self) && (self->is_whole || self->count * h->stride >= WIDE);
    self->rows = rlx_ref_least(most, 1 + NEAR / (self->span * (2 + h->stride)));
    self->high = rlx_ref_least(h->in, (self->rows - 1) * h->stride + reach(self));
    if (is_wide || is_single(self) || most == 0) self->high = 0;
    self->inner[0] = rlx_ref_divide_up(h->begin, h->stride);
    self->inner[1] = last < 0 ? 0 : last / h->stride + 1;
}

static pool pool_of(const rlx_kernel_args *args) {
    const rlx_pool_attrs *attrs = args->attrs;
    pool self = {.x = &args->in[0],
                 .y = &args->out[0],
                 .is_max = args->op == RLX_OP_MAX_POOL,
                 .join = args->op == RLX_OP_MAX_POOL ? join_largest : join_sums,
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
    self.lead = rlx_ref_least(w->begin, self.span);
    self.count = rlx_ref_least(w->in, self.span - self.lead);
    self.is_whole =
        is_flat(&self) && w->begin == 0 && self.span <= w->in && self.strides[1] == w->in;
    if (self.is_whole) self.span = self.count = w->in;
    if (self.span < VF) self.span = VF;
    set_band(&self, self.axes[1].out);
    return self;
}

/* Every second lane of two vectors. */
VEC_INLINE vf every_second(vf a, vf b) {
#if RLX_VEC_BYTES == 32
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}
/* All taps of the one window of a row of inputs. */
VEC_INLINE vf join_window(bool is_max, const float *from, int64_t count, vf best) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        best = join_any(is_max, best, vf_load(from + i));
    if (i == count) return best;
    return join_any(is_max, best, some_lanes(is_max, vf_load_n(from + i, count - i), count - i));
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
static void pool_one(const pool *self, const spot *s, int64_t to, float *row, const float *by) {
    const rlx_window *w = &self->axes[X];
    const bool is_max = self->is_max;
    int64_t first, count = taps_within(w, -w->begin, w->in, &first);
    int64_t rows = s->count[0] * s->count[1], run = count;
    vf best = vf_set(nothing(is_max));
    /* Rows of f32 that follow each other are one. */
    if (self->x->dtype == RLX_DTYPE_F32 && count == self->strides[1] && s->count[0] == 1 &&
        self->axes[1].dilation == 1)
        run *= rows, rows = rows > 0;
    for (int64_t r = 0; r < rows; r++) {
        const float *from = inputs(self, row_offset(self, s, r) + first, run, row);
        best = is_max ? join_window(true, from, run, best) : join_window(false, from, run, best);
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

static spot spot_of(const pool *self, int64_t base, const int64_t *at) {
    spot s = {.base = base, .divisor = 1};
    for (int i = 0; i < 2; i++) {
        const rlx_window *w = &self->axes[i];
        s.count[i] = taps_within(w, at[i] * w->stride - w->begin, w->in, &s.first[i]);
        if (!self->is_max) s.divisor *= (float)divisor_of(self, i, at[i]);
    }
    return s;
}

/* Parts of the workspace: rows of inputs with their padding, columns, windows, what each output
 * of a row divides by, what it is multiplied with in rows of this divisor, and a row that is
 * converted. */
typedef struct parts {
    float *inputs, *columns, *windows, *by, *factors, *row;
    int64_t divisor; /* -1: no row yet */
} parts;

static int64_t room(int64_t count) { /* elements of a part */
    return (count + 3 * VF - 1) / VF * VF;
}
static int64_t windows_room(const pool *self) { /* the last may be thinned out */
    return room(self->rows * self->span) + 2 * VF;
}
static parts parts_of(const pool *self, float *workspace) {
    parts p = {.inputs = workspace, .divisor = -1};
    p.columns = p.inputs + room(self->high * self->span);
    p.windows = p.columns + room(self->rows * self->span);
    p.by = p.windows + windows_room(self);
    p.factors = p.by + room(self->axes[X].out);
    p.row = p.factors + room(self->axes[X].out);
    return p;
}

/* Rows [low, high) of inputs at `base` between their padding. */
static void copy_rows(const pool *self, int64_t base, int64_t low, int64_t high, float *to) {
    const int64_t count = self->count;
    base += low * self->strides[1];
    to += self->lead;
    for (int64_t r = low; r < high; r++, base += self->strides[1], to += self->span) {
        const float *from = (const float *)self->x->data + base;
        if (self->x->dtype != RLX_DTYPE_F32) {
            vec_read_f32(self->x, base, 1, count, to);
        } else if (count >= VF) {
            for (int64_t i = 0; i + VF < count; i += VF)
                vf_store(to + i, vf_load(from + i));
            vf_store(to + count - VF, vf_load(from + count - VF));
        } else {
            vf_store(to, some_lanes(self->is_max, vf_load_n(from, count), count));
        }
    }
}

/* Columns of the rows of outputs [first, end) from rows of inputs of which `from` is row `low`,
 * `down` apart; `count` cells of each. */
static void join_down(const pool *self, int64_t first, int64_t end, const float *from, int64_t low,
                      int64_t down, int64_t count, float *to) {
    const rlx_window *h = &self->axes[1];
    for (int64_t r = first, rows; r < end; r += rows, to += rows * self->span) {
        int64_t start = r * h->stride - h->begin, taps = h->kernel, cells = count;
        bool is_inner = r >= self->inner[0] && r < self->inner[1];
        rows = 1;
        if (!is_inner) taps = taps_within(h, start, h->in, &start);
        if (is_inner && h->stride == 1 && down == self->span) {
            rows = rlx_ref_least(end, self->inner[1]) - r;
            cells = rows * self->span;
        }
        for (int64_t i = 0; taps == 0 && i < count; i++)
            to[i] = nothing(self->is_max);
        if (taps > 0) self->join(from + (start - low) * down, taps, h->dilation * down, cells, to);
    }
}

/* The columns of one depth of a band; false: NaN. */
static bool find_columns(const pool *self, int64_t base, int64_t first, int64_t end, const parts *p,
                         float *to) {
    const rlx_window *h = &self->axes[1];
    int64_t low = first * h->stride - h->begin;
    int64_t high = (end - 1) * h->stride - h->begin + (h->kernel - 1) * h->dilation + 1;
    if (low < 0) low = 0;
    high = rlx_ref_least(high, h->in);
    if (self->high > 0) {
        copy_rows(self, base, low, high, p->inputs);
        if (self->is_max && high > low && has_nan(p->inputs, (high - low) * self->span))
            return false;
        join_down(self, first, end, p->inputs, low, self->span, self->span, to);
        return true;
    }
    const float *from = (const float *)self->x->data + base + low * self->strides[1];
    int64_t lines = self->is_whole ? 1 : high - low; /* that are asked for NaN */
    int64_t cells = self->is_whole ? (high - low) * self->span : self->count;
    for (int64_t r = 0; self->is_max && r < lines; r++) {
        if (has_nan(from + r * self->strides[1], cells)) return false;
    }
    join_down(self, first, end, from, low, self->strides[1], self->count, to + self->lead);
    return true;
}

/* The windows of a row that are wanted, side by side. */
static void thin_out(const float *from, int64_t stride, int64_t count, float *to) {
    int64_t i = 0;
    for (; stride == 1 && i + VF <= count; i += VF)
        vf_store(to + i, vf_load(from + i));
    for (; stride == 2 && i + VF <= count; i += VF)
        vf_store(to + i, every_second(vf_load(from + 2 * i), vf_load(from + 2 * i + VF)));
    if (stride == 1) vf_store_n(to + i, vf_load(from + i), count - i);
    for (; stride > 1 && i < count; i++)
        to[i] = from[i * stride];
}

/* VF of them, of which n are wanted. What lies behind them may be read. */
VEC_INLINE vf thinned(const float *from, int64_t stride, int64_t n) {
    float some[VF];
    if (stride == 1) return vf_load(from);
    if (stride == 2) return every_second(vf_load(from), vf_load(from + VF));
    for (int64_t i = 0; i < n; i++)
        some[i] = from[i * stride];
    return vf_load_n(some, n);
}

/* What sums are multiplied with: dividing every one took most of the time of small windows. */
static void set_factors(parts *p, int64_t divisor, int64_t count) {
    if (p->divisor == divisor) return;
    p->divisor = divisor;
    for (int64_t i = 0; i < count; i += VF) {
        vf divide = vf_load(p->by + i) * (float)divisor;
        vf_store(p->factors + i, vf_select(divide > 0.0f, 1.0f / divide, vf_set(0)));
    }
}

/* Averages are made before they are stored: what was stored in part is slow to load. */
static void put_row(const pool *self, const float *windows, const parts *p, int64_t to) {
    const rlx_window *w = &self->axes[X];
    float *out = self->y->dtype == RLX_DTYPE_F32 ? (float *)self->y->data + to : p->row;
    int64_t i = 0;
    if (self->is_max) thin_out(windows, w->stride, w->out, out);
    for (; !self->is_max && i + VF <= w->out; i += VF)
        vf_store(out + i,
                 thinned(windows + i * w->stride, w->stride, VF) * vf_load(p->factors + i));
    if (!self->is_max && i < w->out) {
        vf x = thinned(windows + i * w->stride, w->stride, w->out - i);
        vf_store_n(out + i, x * vf_load(p->factors + i), w->out - i);
    }
    if (out == p->row) vec_write_f32(self->y, to, 1, w->out, out);
}

/* Rows of outputs [first, end) at depth `deep` of the plane at `base`; false: NaN. */
static bool pool_band(const pool *self, int64_t base, int64_t deep, int64_t first, int64_t end,
                      parts *p, int64_t to, int64_t to_row) {
    const rlx_window *d = &self->axes[0], *w = &self->axes[X];
    const int64_t rows = end - first, cells = rows * self->span;
    int64_t z, depths = taps_within(d, deep * d->stride - d->begin, d->in, &z);
    float *windows = w->kernel == 1 ? p->columns : p->windows;
    for (int64_t i = 0; depths == 0 && i < cells; i++)
        p->columns[i] = nothing(self->is_max);
    for (int64_t k = 0; k < depths; k++) {
        int64_t at = base + (z + k * d->dilation) * self->strides[0];
        if (!find_columns(self, at, first, end, p, k == 0 ? p->columns : p->windows)) return false;
        if (k > 0) {
            self->join(p->columns, 2, p->windows - p->columns, (cells + VF - 1) / VF * VF,
                       p->columns);
        }
    }
    if (w->kernel > 1) {
        self->join(p->columns, w->kernel, w->dilation,
                   cells - self->span + (self->wide < VF ? VF : self->wide), windows);
    }
    int64_t divisor = self->is_max ? 1 : divisor_of(self, 0, deep);
    for (int64_t r = first; r < end; r++, windows += self->span, to += to_row) {
        if (!self->is_max) set_factors(p, divisor * divisor_of(self, 1, r), w->out);
        put_row(self, windows, p, to);
    }
    return true;
}

/* Rows of outputs [begin, end) of one plane, all of one depth; `number` is the item of `begin`. */
static void run_plane(const rlx_kernel_args *args, const pool *self, int64_t plane, int64_t deep,
                      int64_t begin, int64_t end, int64_t number, parts *p) {
    const rlx_tensor *x = self->x, *y = self->y;
    int64_t channel = plane % x->dims[1], batch = plane / x->dims[1];
    int64_t base = batch * x->strides[0] + channel * x->strides[1];
    int64_t to = batch * y->strides[0] + channel * y->strides[1], strides[2] = {0, 0};
    for (uint32_t i = 2; i + 1 < y->rank; i++)
        strides[i + 3 - y->rank] = y->strides[i];
    to += deep * strides[0];
    for (int64_t r = begin, past; r < end; r = past) {
        past = rlx_ref_least(end, is_single(self) ? r + 1 : r + self->rows);
        if (is_single(self)) {
            spot s = spot_of(self, base, (const int64_t[]){deep, r});
            pool_one(self, &s, to + r * strides[1], p->row, p->by);
        } else if (!pool_band(self, base, deep, r, past, p, to + r * strides[1], strides[1])) {
            vec_scalar_run(args, number + r - begin, number + past - begin);
        }
    }
}

static bool fits(const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *y = &args->out[0];
    return vec_is_float(x->dtype) && y->dtype == x->dtype && x->strides[x->rank - 1] == 1 &&
           y->strides[y->rank - 1] == 1 && (args->out_count < 2 || args->out[1].data == NULL);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    pool self = pool_of(args);
    int64_t rows = self.axes[1].out, depths = self.axes[0].out;
    if (end - begin < rows) set_band(&self, end - begin);
    parts p = parts_of(&self, args->workspace);
    for (float *at = p.inputs; begin < end && at < p.windows; at += VF)
        vf_store(at, vf_set(nothing(self.is_max)));
    for (int64_t i = 0; !self.is_max && begin < end && i < self.axes[X].out; i++)
        p.by[i] = (float)divisor_of(&self, X, i);
    while (begin < end) {
        int64_t line = begin / rows, first = begin % rows;
        int64_t past = rlx_ref_least(rows, first + end - begin);
        run_plane(args, &self, line / depths, line % depths, first, past, begin, &p);
        begin += past - first;
    }
}

/* Sizes at run time may be smaller, and bands then have more rows: the most there can be. */
static uint64_t workspace(const rlx_kernel_args *args) {
    pool self = pool_of(args);
    const rlx_window *h = &self.axes[1], *w = &self.axes[X];
    int64_t near = rlx_ref_least(NEAR, rlx_ref_cost(h->out, self.span * (2 + h->stride)));
    int64_t floats = near + self.span * (2 + reach(&self)) + 16 * VF + 2 * room(w->out) +
                     room(w->in > w->out ? w->in : w->out);
    return rlx_ref_bytes((uint64_t)floats, sizeof(float));
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
    enum { MOST = 1 << 16, LARGEST = 1 << 18 };
    const rlx_pool_attrs *attrs = query->attrs;
    rlx_kernel_args args = vec_args_of(query);
    if (attrs->kernel.count + 2 != query->in[0].rank) return false; /* channels in blocks */
    if (query->in[0].rank < 3 || query->in[0].rank > 2 + RLX_MAX_SPATIAL || !fits(&args))
        return false;
    pool self = pool_of(&args);
    return self.axes[X].kernel < MOST && self.axes[X].dilation < MOST && self.wide < MOST &&
           self.span < MOST && (is_single(&self) || self.span * reach(&self) < LARGEST);
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
