/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_elements: a copy of the data, then updates in the order of their index, so that of two
 * for one place the later counts. An item is what the updates of one line along the axis can reach;
 * where the axis is not the last one, of some neighbouring lines. Elements of any size are
 * replaced; sums, products and extremes are of f32. An index outside writes nothing and raises a
 * fault. */
#include "backend/cpu/vec/rows.h"

#include "ref/strided.h"

enum { COLUMNS = 256 /* neighbouring lines of an item at most */ };

typedef struct scatter {
    const rlx_kernel_args *args;
    const rlx_tensor *in, *index, *updates, *out;
    rlx_scatter_mode mode;
    uint32_t axis, last, outer_rank;
    int64_t outer[RLX_MAX_RANK]; /* the axes that number the items, and their dims */
    uint32_t outer_axis[RLX_MAX_RANK];
    int64_t outers, cuts; /* an item: one of each */
    int64_t unit;
} scatter;

static scatter scatter_of(const rlx_kernel_args *args) {
    const rlx_scatter_attrs *attrs = args->attrs;
    scatter self = {.args = args,
                    .in = &args->in[0],
                    .index = &args->in[1],
                    .updates = &args->in[2],
                    .out = &args->out[0],
                    .mode = attrs->mode,
                    .outers = 1,
                    .cuts = 1};
    self.last = self.out->rank - 1;
    self.axis = vec_axis(attrs->axis, self.out->rank);
    self.unit = rlx_dtype_block_bytes(self.out->dtype);
    for (uint32_t i = 0; i < self.last; i++) {
        if (i == self.axis) continue;
        self.outer_axis[self.outer_rank] = i;
        self.outer[self.outer_rank++] = self.out->dims[i];
        self.outers *= self.out->dims[i];
    }
    if (self.axis != self.last) self.cuts = rlx_ref_divide_up(self.out->dims[self.last], COLUMNS);
    return self;
}

/* Offsets, in elements, of an item's first line. */
typedef struct place {
    int64_t in, index, updates, out;
    bool has_updates; /* the index may cover less than the data */
} place;

static place place_of(const scatter *self, int64_t number) {
    place p = {.has_updates = true};
    for (uint32_t i = self->outer_rank; i-- > 0; number /= self->outer[i]) {
        uint32_t axis = self->outer_axis[i];
        int64_t at = number % self->outer[i];
        p.in += at * self->in->strides[axis];
        p.index += at * self->index->strides[axis];
        p.updates += at * self->updates->strides[axis];
        p.out += at * self->out->strides[axis];
        p.has_updates = p.has_updates && at < self->index->dims[axis];
    }
    return p;
}

/* Columns [first, first + columns) of `count` rows; `rows`: the strides of a row on both sides. */
static void copy_data(const scatter *self, const place *p, int64_t first, int64_t columns) {
    const int64_t unit = self->unit, to_step = self->out->strides[self->last];
    const int64_t from_step = self->in->strides[self->last];
    int64_t rows = self->axis == self->last ? 1 : self->out->dims[self->axis];
    for (int64_t r = 0; r < rows; r++) {
        int64_t to_row = rows == 1 ? 0 : r * self->out->strides[self->axis];
        int64_t from_row = rows == 1 ? 0 : r * self->in->strides[self->axis];
        char *to = (char *)self->out->data + (p->out + to_row + first * to_step) * unit;
        const char *from =
            (const char *)self->in->data + (p->in + from_row + first * from_step) * unit;
        if (to_step == 1 && from_step == 1) {
            memcpy(to, from, (size_t)(columns * unit));
            continue;
        }
        for (int64_t i = 0; i < columns; i++)
            memcpy(to + i * to_step * unit, from + i * from_step * unit, (size_t)unit);
    }
}

/* A row of updates: element i goes to out + i * step + index[i] * axis_stride. */
typedef struct line {
    int64_t pick, pick_step, from, from_step, to, step, axis_stride, dim, count;
} line;

VEC_INLINE float combine(rlx_scatter_mode mode, float old, float update) {
    if (mode == RLX_SCATTER_ADD) return old + update;
    if (mode == RLX_SCATTER_MUL) return old * update;
    if (mode == RLX_SCATTER_MIN) return old != old || old < update ? old : update;
    return old != old || old > update ? old : update;
}

/* `mode` and `unit` are constants. */
VEC_INLINE void update(const scatter *self, rlx_scatter_mode mode, int64_t unit, const line *by) {
    const char *from = (const char *)self->updates->data + by->from * unit;
    char *to = (char *)self->out->data + by->to * unit;
    for (int64_t i = 0; i < by->count; i++) {
        int64_t wanted =
            rlx_index_at(self->index->dtype, self->index->data, by->pick + i * by->pick_step);
        int64_t at = rlx_index_check(self->args, wanted, by->dim);
        if (at < 0) continue;
        char *here = to + (i * by->step + at * by->axis_stride) * unit;
        if (mode == RLX_SCATTER_SET) {
            memcpy(here, from + i * by->from_step * unit, (size_t)unit);
        } else {
            float old, more;
            memcpy(&old, here, sizeof old);
            memcpy(&more, from + i * by->from_step * unit, sizeof more);
            old = combine(mode, old, more);
            memcpy(here, &old, sizeof old);
        }
    }
}

static void update_line(const scatter *self, const line *by) {
    switch (self->mode) {
    case RLX_SCATTER_ADD:
        update(self, RLX_SCATTER_ADD, 4, by);
        break;
    case RLX_SCATTER_MUL:
        update(self, RLX_SCATTER_MUL, 4, by);
        break;
    case RLX_SCATTER_MIN:
        update(self, RLX_SCATTER_MIN, 4, by);
        break;
    case RLX_SCATTER_MAX:
        update(self, RLX_SCATTER_MAX, 4, by);
        break;
    default:
        if (self->unit == 1) update(self, RLX_SCATTER_SET, 1, by);
        if (self->unit == 2) update(self, RLX_SCATTER_SET, 2, by);
        if (self->unit == 4) update(self, RLX_SCATTER_SET, 4, by);
        if (self->unit == 8) update(self, RLX_SCATTER_SET, 8, by);
    }
}

static void run_item(const scatter *self, int64_t item) {
    const rlx_tensor *index = self->index, *updates = self->updates, *out = self->out;
    uint32_t axis = self->axis, last = self->last;
    place p = place_of(self, item / self->cuts);
    int64_t first = 0, columns = out->dims[last], rows = 1;
    line by = {.pick_step = index->strides[last],
               .from_step = updates->strides[last],
               .axis_stride = out->strides[axis],
               .dim = out->dims[axis],
               .count = index->dims[last]};
    if (axis != last) {
        first = item % self->cuts * COLUMNS;
        columns = rlx_ref_least(COLUMNS, columns - first);
        by.count = rlx_ref_least(columns, index->dims[last] - first);
        by.step = out->strides[last];
        rows = index->dims[axis];
    }
    if (self->in->data != out->data) copy_data(self, &p, first, columns);
    if (!p.has_updates) return;
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = axis == last ? 0 : r; /* the axis of the row is walked by the line */
        by.pick = p.index + row * index->strides[axis] + first * by.pick_step;
        by.from = p.updates + row * updates->strides[axis] + first * by.from_step;
        by.to = p.out + first * by.step;
        update_line(self, &by);
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    scatter self = scatter_of(args);
    for (int64_t item = begin; item < end; item++)
        run_item(&self, item);
}

static int64_t items(const rlx_kernel_args *args) {
    scatter self = scatter_of(args);
    if (rlx_tensor_elements(self.out) == 0) return 0;
    return self.outers * self.cuts;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    scatter self = scatter_of(args);
    int64_t lines = rlx_ref_cost(self.outers, self.cuts);
    if (lines == 0) return 0;
    return rlx_tensor_elements(self.out) / lines + 4 * rlx_tensor_elements(self.index) / lines + 16;
}

static bool takes(const rlx_target_query *query) {
    const rlx_scatter_attrs *attrs = query->attrs;
    rlx_dtype dtype = query->in[0].dtype;
    if (query->in[0].rank == 0 || rlx_unit_bytes(dtype) == 0 || rlx_unit_elements(dtype) != 1)
        return false;
    return attrs->mode == RLX_SCATTER_SET || dtype == RLX_DTYPE_F32;
}

const rlx_cpu_override VEC_SYMBOL(scatter)[] = {
    {RLX_OP_SCATTER_ELEMENTS,
     0,
     takes,
     {VEC_NAME("scatter_elements"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
