/* SPDX-License-Identifier: Apache-2.0 */
/* pad of elements of whole bytes: rows of the output are a margin, a copy of a row of the input and
 * a margin. Inner axes without margins are part of the row. Rows are walked in order, so nothing is
 * divided on the way. Rows of the input may have holes; those of the output may not. */
#include "backend/cpu/vec/rows.h"

#include "ref/pad.h"
#include "ref/strided.h"

enum { PIECE = 1 << 15 /* bytes of a work item, about */ };

/* Strides in bytes; `row` is the last axis, in bytes too where the mode is constant. */
typedef struct pad {
    rlx_pad_mode mode;
    uint32_t rank; /* axes before the row */
    rlx_ref_pad axes[RLX_MAX_RANK], row;
    int64_t dims[RLX_MAX_RANK], into[RLX_MAX_RANK], out_of[RLX_MAX_RANK];
    int64_t unit, width; /* bytes of an element; elements of an output row */
    int64_t step;        /* bytes from one element of an input row to the next */
    int64_t rows;
    uint8_t value[8];
    bool is_one_byte; /* all bytes of the value are the same */
    const uint8_t *from;
    uint8_t *to;
} pad;

static bool is_row(const rlx_tensor *tensor) {
    return tensor->strides[tensor->rank - 1] == 1 || tensor->dims[tensor->rank - 1] < 2;
}

static bool fits(const rlx_kernel_args *args) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    const rlx_pad_attrs *attrs = args->attrs;
    if (out->rank == 0 || rlx_unit_bytes(in->dtype) == 0 || rlx_unit_elements(in->dtype) != 1)
        return false;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (rlx_ref_pad_axis(attrs, in->rank, i, in->dims[i]).size < 0) return false;
    }
    return is_row(out);
}

static void add_axis(pad *self, const rlx_kernel_args *args, uint32_t axis) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    self->axes[axis] = rlx_ref_pad_axis(args->attrs, in->rank, axis, in->dims[axis]);
    self->dims[axis] = out->dims[axis];
    self->into[axis] = out->strides[axis] * self->unit;
    self->out_of[axis] = in->strides[axis] * self->unit;
}

/* Whether the row and the axis before it are one longer row. */
static bool joins(const pad *self, int64_t in_dim) {
    uint32_t axis = self->rank - 1;
    return self->mode == RLX_PAD_CONSTANT && self->step == self->unit && self->row.lead == 0 &&
           self->row.start == 0 && self->row.size == in_dim && self->width == in_dim &&
           self->into[axis] == in_dim * self->unit && self->out_of[axis] == in_dim * self->unit;
}

static pad pad_of(const rlx_kernel_args *args) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    const rlx_pad_attrs *attrs = args->attrs;
    pad self = {.mode = attrs->mode, .rank = in->rank - 1, .from = in->data, .to = out->data};
    self.unit = rlx_dtype_block_bytes(in->dtype);
    for (uint32_t i = 0; i < in->rank; i++)
        add_axis(&self, args, i);
    self.row = self.axes[self.rank];
    self.step = is_row(in) ? self.unit : self.out_of[self.rank];
    self.width = out->dims[self.rank];
    for (int64_t dim = in->dims[self.rank]; self.rank > 0 && joins(&self, dim);) {
        const rlx_ref_pad *outer = &self.axes[--self.rank];
        self.row = (rlx_ref_pad){outer->start * dim, outer->size * dim, outer->lead * dim};
        self.width = self.dims[self.rank] * dim;
        dim *= in->dims[self.rank];
    }
    self.rows = vec_product(self.dims, 0, self.rank);
    rlx_ref_pad_value(in->dtype, attrs->value, self.value);
    self.is_one_byte = memcmp(self.value, self.value + 1, (size_t)self.unit - 1) == 0;
    return self;
}

#define FILL_UNITS(size)                \
    for (int64_t i = 0; i < count; i++) \
    memcpy(to + i * (size), self->value, (size))

static void fill(const pad *self, uint8_t *to, int64_t count) {
    if (self->unit == 4) {
        FILL_UNITS(4);
    } else if (self->is_one_byte) {
        memset(to, self->value[0], (size_t)(count * self->unit));
    } else if (self->unit == 2) {
        FILL_UNITS(2);
    } else {
        FILL_UNITS(8);
    }
}

/* Places [first, last) of an output row, all outside the input row. */
static void margin(const pad *self, uint8_t *to, const uint8_t *from, int64_t first, int64_t last) {
    if (self->mode == RLX_PAD_CONSTANT) {
        fill(self, to + first * self->unit, last - first);
        return;
    }
    for (int64_t place = first; place < last; place++) {
        int64_t source = rlx_ref_pad_source(&self->row, self->mode, place);
        memcpy(to + place * self->unit, from + source * self->step, (size_t)self->unit);
    }
}

#define COPY_UNITS(size)                \
    for (int64_t i = 0; i < count; i++) \
    memcpy(to + i * (size), from + i * self->step, (size))

/* Elements of the input row, one behind the other. */
static void copy(const pad *self, uint8_t *to, const uint8_t *from, int64_t count) {
    if (self->step == self->unit) {
        memcpy(to, from, (size_t)(count * self->unit));
    } else if (self->unit == 4) {
        COPY_UNITS(4);
    } else if (self->unit == 2) {
        COPY_UNITS(2);
    } else if (self->unit == 1) {
        COPY_UNITS(1);
    } else {
        COPY_UNITS(8);
    }
}

static void pad_row(const pad *self, uint8_t *to, const uint8_t *from) {
    const rlx_ref_pad *row = &self->row;
    if (from == NULL) {
        fill(self, to, self->width);
        return;
    }
    margin(self, to, from, 0, row->lead);
    if (row->size > 0)
        copy(self, to + row->lead * self->unit, from + row->start * self->step, row->size);
    margin(self, to, from, row->lead + row->size, self->width);
}

/* Where a row goes, and the places of the input that it comes from; -1: none. */
typedef struct place {
    int64_t at[RLX_MAX_RANK], source[RLX_MAX_RANK];
    uint8_t *to;
} place;

static void set_axis(const pad *self, place *p, uint32_t axis, int64_t at) {
    p->to += (at - p->at[axis]) * self->into[axis];
    p->at[axis] = at;
    p->source[axis] = rlx_ref_pad_source(&self->axes[axis], self->mode, at);
}

static place place_of(const pad *self, int64_t row) {
    place p = {.to = self->to};
    for (uint32_t i = self->rank; i-- > 0; row /= self->dims[i])
        set_axis(self, &p, i, row % self->dims[i]);
    return p;
}

static void step(const pad *self, place *p) {
    for (uint32_t i = self->rank; i-- > 0;) {
        bool is_end = p->at[i] + 1 == self->dims[i];
        set_axis(self, p, i, is_end ? 0 : p->at[i] + 1);
        if (!is_end) return;
    }
}

static const uint8_t *source_of(const pad *self, const place *p) {
    const uint8_t *from = self->from;
    for (uint32_t i = 0; i < self->rank; i++) {
        if (p->source[i] < 0) return NULL;
        from += p->source[i] * self->out_of[i];
    }
    return from;
}

static int64_t rows_per_item(const pad *self) {
    int64_t bytes = self->width * self->unit;
    return bytes >= PIECE ? 1 : PIECE / (bytes > 0 ? bytes : 1);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    if (!fits(args)) {
        vec_scalar_run(args, begin, end);
        return;
    }
    pad self = pad_of(args);
    int64_t per_item = rows_per_item(&self), last = rlx_ref_least(end * per_item, self.rows);
    if (begin * per_item >= last) return;
    place p = place_of(&self, begin * per_item);
    for (int64_t row = begin * per_item; row < last; row++, step(&self, &p))
        pad_row(&self, p.to, source_of(&self, &p));
}

static int64_t items(const rlx_kernel_args *args) {
    if (!fits(args)) return vec_scalar_items(args);
    pad self = pad_of(args);
    if (self.rows == 0 || self.width == 0) return 0;
    return (self.rows - 1) / rows_per_item(&self) + 1;
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    return fits(&args);
}

const rlx_cpu_override VEC_SYMBOL(pad)[] = {
    {RLX_OP_PAD, 0, takes, {VEC_NAME("pad"), run, items, NULL, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
