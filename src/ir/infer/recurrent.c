/* SPDX-License-Identifier: Apache-2.0 */
/* The shape rule of rnn, gru and lstm. The length of the sequence may be known only at run time. */
#include "ir/infer/check.h"

enum { TEXT_BYTES = 128 };

/* The sizes of a layer. */
typedef struct layer_sizes {
    int64_t steps, batch, inputs, hidden, rows, directions;
    uint32_t step_axis, batch_axis; /* of x */
} layer_sizes;

static int64_t gate_count(rlx_op op) {
    return op == RLX_OP_LSTM ? 4 : op == RLX_OP_GRU ? 3 : 1;
}

/* An input is absent or has exactly these dims. */
static rlx_status check_dims(const rlx_infer *infer, uint32_t input, const char *name,
                             const int64_t *dims, uint32_t rank) {
    char got[TEXT_BYTES], needed[TEXT_BYTES];
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    const rlx_type *type = infer->in[input];
    rlx_type wanted = rlx_type_make(type->dtype, dims, rank);
    RLX_TRY(rlx_infer_no_extent(infer, input));
    if (rlx_shape_equal(&type->shape, &wanted.shape)) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s is %s, needs %s", name,
                    rlx_type_text(infer->graph, type, got, sizeof got),
                    rlx_type_text(infer->graph, &wanted, needed, sizeof needed));
}

/* x is any float; weights likewise, f64 only together. */
static rlx_status check_dtypes(const rlx_infer *infer) {
    static const char *const names[] = {"x", "w", "r", "b", "lengths", "h", "c", "peepholes"};
    rlx_dtype x = infer->in[0]->dtype;
    for (uint32_t i = 0; i < infer->in_count && i < 8; i++) {
        if (!rlx_infer_has(infer, i) || i == 4) continue;
        RLX_TRY(rlx_check_float(infer, i, names[i]));
        if ((infer->in[i]->dtype == RLX_DTYPE_F64) != (x == RLX_DTYPE_F64)) {
            return RLX_FAIL(RLX_UNSUPPORTED, "%s of x %s and %s %s", rlx_op_name(infer->op),
                            rlx_dtype_name(x), names[i], rlx_dtype_name(infer->in[i]->dtype));
        }
    }
    if (rlx_infer_has(infer, 4) && infer->in[4]->dtype != RLX_DTYPE_I32 &&
        infer->in[4]->dtype != RLX_DTYPE_I64) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "lengths are %s, needs i32 or i64",
                        rlx_dtype_name(infer->in[4]->dtype));
    }
    return RLX_OK;
}

static rlx_status find_layer(const rlx_infer *infer, layer_sizes *out_layer) {
    const rlx_recurrent_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0], *r = infer->in[2];
    layer_sizes found = {.step_axis = attrs->batch_first ? 1 : 0,
                         .batch_axis = attrs->batch_first ? 0 : 1};
    char text[TEXT_BYTES];
    if (x->shape.rank != 3) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "x has rank %u, needs %s", x->shape.rank,
                        attrs->batch_first ? "[B, S, I]" : "[S, B, I]");
    }
    found.directions = attrs->direction == RLX_DIRECTION_BIDIRECTIONAL ? 2 : 1;
    found.steps = x->shape.dims[found.step_axis];
    found.batch = x->shape.dims[found.batch_axis];
    found.inputs = x->shape.dims[2];
    if (r->shape.rank == 3) {
        found.hidden = r->shape.dims[2];
        found.rows = r->shape.dims[1];
    }
    if (r->shape.rank != 3 || found.rows % gate_count(infer->op) != 0 ||
        found.rows / gate_count(infer->op) != found.hidden) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "r is %s, needs [%" PRId64 ", %" PRId64 " H, H]",
                        rlx_type_text(infer->graph, r, text, sizeof text), found.directions,
                        gate_count(infer->op));
    }
    *out_layer = found;
    return RLX_OK;
}

/* A vector per direction, `times` as long as `count`; the product is not formed: it may wrap. */
static rlx_status check_vectors(const rlx_infer *infer, uint32_t input, const char *name,
                                int64_t directions, int64_t times, int64_t count) {
    char text[TEXT_BYTES];
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    const rlx_type *type = infer->in[input];
    RLX_TRY(rlx_infer_no_extent(infer, input));
    if (type->shape.rank == 2 && type->shape.dims[0] == directions &&
        type->shape.dims[1] % times == 0 && type->shape.dims[1] / times == count) {
        return RLX_OK;
    }
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s is %s, needs [%" PRId64 ", %" PRId64 " x %" PRId64 "]",
                    name, rlx_type_text(infer->graph, type, text, sizeof text), directions, times,
                    count);
}

static rlx_status check_gate(const char *name, const rlx_gate *gate) {
    RLX_TRY_WITH(rlx_check_number("alpha", gate->alpha, false), "%s", name);
    RLX_TRY_WITH(rlx_check_number("beta", gate->beta, false), "%s", name);
    return RLX_OK;
}

static rlx_status check_numbers(const rlx_recurrent_attrs *attrs) {
    RLX_TRY(rlx_check_number("clip", attrs->clip, true));
    RLX_TRY(check_gate("f", &attrs->f));
    RLX_TRY(check_gate("g", &attrs->g));
    RLX_TRY(check_gate("h", &attrs->h));
    RLX_TRY(check_gate("back_f", &attrs->back_f));
    RLX_TRY(check_gate("back_g", &attrs->back_g));
    return check_gate("back_h", &attrs->back_h);
}

static void state_dims(const layer_sizes *layer, bool batch_first, int64_t *dims) {
    dims[0] = batch_first ? layer->batch : layer->directions;
    dims[1] = batch_first ? layer->directions : layer->batch;
    dims[2] = layer->hidden;
}

static void set_outputs(rlx_infer *infer, const layer_sizes *layer, bool batch_first) {
    const rlx_type *x = infer->in[0];
    int64_t states[3], all[4];
    state_dims(layer, batch_first, states);
    all[0] = x->shape.dims[0];
    all[1] = batch_first ? layer->steps : layer->directions;
    all[2] = batch_first ? layer->directions : layer->batch;
    all[3] = layer->hidden;
    for (uint32_t i = 0; i < infer->out_count; i++) {
        infer->out[i] =
            i == 0 ? rlx_type_make(x->dtype, all, 4) : rlx_type_make(x->dtype, states, 3);
    }
    if (infer->out_count > 0)
        infer->out[0].extents[layer->step_axis] = x->extents[layer->step_axis];
}

rlx_status rlx_infer_recurrent(rlx_infer *infer) {
    const rlx_recurrent_attrs *attrs = infer->attrs;
    layer_sizes layer = {0};
    int64_t states[3];
    RLX_TRY(check_dtypes(infer));
    RLX_TRY(find_layer(infer, &layer));
    RLX_TRY(rlx_check_exact_dim(infer, 0, layer.batch_axis));
    RLX_TRY(rlx_check_exact_dim(infer, 0, 2));
    RLX_TRY(check_dims(infer, 1, "w", (int64_t[]){layer.directions, layer.rows, layer.inputs}, 3));
    RLX_TRY(check_dims(infer, 2, "r", (int64_t[]){layer.directions, layer.rows, layer.hidden}, 3));
    RLX_TRY(check_vectors(infer, 3, "b", layer.directions, 2, layer.rows));
    RLX_TRY(rlx_check_vector(infer, 4, "lengths", layer.batch));
    state_dims(&layer, attrs->batch_first, states);
    RLX_TRY(check_dims(infer, 5, "h", states, 3));
    RLX_TRY(check_dims(infer, 6, "c", states, 3));
    RLX_TRY(check_vectors(infer, 7, "peepholes", layer.directions, 3, layer.hidden));
    RLX_TRY(check_numbers(attrs));
    set_outputs(infer, &layer, attrs->batch_first);
    return RLX_OK;
}
