/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar state_write: rows go to their place in a state, which is in[0] and out[0] at once, so
 * nothing else is touched. out[0] has the capacity in its dims: the extent is this step's result.
 */
#include "ref/strided.h"

typedef struct write_job {
    const rlx_tensor *rows, *state;
    uint32_t axis;
    int64_t row_count; /* along the axis */
    int64_t capacity;
    int64_t inner; /* elements after the axis */
    int64_t position;
    bool wraps;
} write_job;

static write_job job_of(const rlx_kernel_args *args) {
    const rlx_state_write_attrs *attrs = args->attrs;
    const rlx_tensor *rows = &args->in[1], *state = &args->out[0];
    uint32_t axis = rlx_axis_of(attrs->axis, state->rank);
    return (write_job){
        .rows = rows,
        .state = state,
        .axis = axis,
        .row_count = rows->dims[axis],
        .capacity = state->dims[axis],
        .inner = rlx_dims_product(rows->dims + axis + 1, rows->rank - axis - 1),
        .wraps = attrs->wrap,
    };
}

/* At least one, so that the length is always written. */
static int64_t write_items(const rlx_kernel_args *args) {
    write_job job = job_of(args);
    int64_t items =
        rlx_row_items(job.state->dtype, rlx_dims_product(job.rows->dims, job.axis + 1), job.inner);
    return items > 0 ? items : 1;
}

static int64_t write_cost(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->in[1]) / write_items(args) + 1;
}

/* Whether the rows fit, and the length after the write; rows that do not fit change nothing. */
static bool measure(const write_job *job, int64_t *out_length) {
    bool is_inside = job->position >= 0 && job->position <= job->capacity - job->row_count;
    if (is_inside) {
        *out_length = job->position + job->row_count;
        return true;
    }
    *out_length = job->position < 0 ? 0 : job->capacity;
    if (job->wraps && job->position >= 0) return true;
    if (job->position >= 0 && job->position < job->capacity) *out_length = job->position;
    return false;
}

/* Rows of (outer, axis) in row-major order. */
static void write_rows(const write_job *job, int64_t first, int64_t last) {
    const rlx_tensor *rows = job->rows, *state = job->state;
    uint32_t after = job->axis + 1;
    int64_t outer_strides[RLX_MAX_RANK] = {0};
    rlx_walk outer, source, to, from;
    for (uint32_t i = 0; i < job->axis; i++)
        outer_strides[i] = state->strides[i];
    rlx_walk_init(&outer, RLX_DTYPE_U8, NULL, 0, after, rows->dims, outer_strides);
    rlx_walk_init(&source, RLX_DTYPE_U8, NULL, 0, after, rows->dims, rows->strides);
    rlx_walk_seek(&outer, first);
    rlx_walk_seek(&source, first);
    rlx_walk_init(&to, state->dtype, state->data, 0, rows->rank - after, rows->dims + after,
                  state->strides + after);
    rlx_walk_init(&from, rows->dtype, rows->data, 0, rows->rank - after, rows->dims + after,
                  rows->strides + after);
    int64_t start = job->position % job->capacity;
    for (int64_t row = first; row < last; row++) {
        int64_t place = start + row % job->row_count;
        if (place >= job->capacity) place -= job->capacity;
        rlx_walk_restart(&to, outer.offset + place * state->strides[job->axis]);
        rlx_walk_restart(&from, source.offset);
        if (to.dtype == from.dtype) {
            rlx_walk_copy(&to, &from, job->inner);
        } else {
            rlx_walk_convert(&to, &from, job->inner);
        }
        rlx_walk_step(&outer);
        rlx_walk_step(&source);
    }
}

static void write_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    write_job job = job_of(args);
    int64_t rows = rlx_dims_product(job.rows->dims, job.axis + 1), length, first, last;
    job.position = rlx_index_at(RLX_DTYPE_I64, args->in[2].data, 0);
    bool fits = measure(&job, &length);
    if (begin == 0 && end > 0 && args->out[1].data != NULL)
        __builtin_memcpy(args->out[1].data, &length, sizeof length);
    if (!fits) {
        rlx_fault_raise(args, RLX_FAULT_CAPACITY, job.position);
        return;
    }
    rlx_item_rows(job.state->dtype, rows, job.inner, begin, end, &first, &last);
    if (first < last && job.inner > 0) write_rows(&job, first, last);
}

const rlx_ref_row rlx_ref_state_rows[] = {
    {RLX_OP_STATE_WRITE, {"state_write_scalar", write_run, write_items, write_cost, NULL}},
};
const uint32_t rlx_ref_state_count = sizeof rlx_ref_state_rows / sizeof rlx_ref_state_rows[0];
