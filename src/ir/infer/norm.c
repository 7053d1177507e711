/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of the norms, attention and rope. */
#include "ir/infer/check.h"

enum { TEXT_BYTES = 128 };

/* The axes from `axis` on, as a type of their own: what scale and bias broadcast to. */
static rlx_type tail_of(const rlx_type *type, uint32_t axis) {
    rlx_type tail = rlx_type_make(type->dtype, NULL, 0);
    for (uint32_t i = axis; i < type->shape.rank; i++) {
        tail.shape.dims[tail.shape.rank] = type->shape.dims[i];
        tail.extents[tail.shape.rank++] = type->extents[i];
    }
    return tail;
}

static bool same_type(const rlx_type *a, const rlx_type *b) {
    if (a->dtype != b->dtype || !rlx_shape_equal(&a->shape, &b->shape)) return false;
    for (uint32_t i = 0; i < a->shape.rank; i++) {
        if (a->extents[i] != b->extents[i]) return false;
    }
    return true;
}

rlx_status rlx_infer_norm(rlx_infer *infer) {
    const rlx_norm_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    bool or_f32 = x->dtype != RLX_DTYPE_F64;
    uint32_t axis;
    RLX_TRY(rlx_check_float(infer, 0, "x"));
    RLX_TRY(rlx_infer_axis(attrs->axis, x->shape.rank, &axis));
    RLX_TRY(rlx_check_number("epsilon", attrs->epsilon, true));
    rlx_type tail = tail_of(x, axis);
    RLX_TRY(rlx_check_dtype(infer, 1, "scale", x->dtype, or_f32));
    RLX_TRY(rlx_check_dtype(infer, 2, "bias", x->dtype, or_f32));
    RLX_TRY(rlx_check_broadcasts_to(infer, 1, "scale", &tail));
    RLX_TRY(rlx_check_broadcasts_to(infer, 2, "bias", &tail));
    if (rlx_infer_has(infer, 3) && !same_type(infer->in[3], x)) {
        char got[TEXT_BYTES], needed[TEXT_BYTES];
        return RLX_FAIL(RLX_INVALID_GRAPH, "residual is %s, needs %s like x",
                        rlx_type_text(infer->graph, infer->in[3], got, sizeof got),
                        rlx_type_text(infer->graph, x, needed, sizeof needed));
    }
    for (uint32_t i = 0; i < infer->out_count; i++)
        infer->out[i] = *x;
    return RLX_OK;
}

rlx_status rlx_infer_channel_norm(rlx_infer *infer) {
    static const char *const names[] = {"x", "scale", "bias", "mean", "variance"};
    const rlx_norm_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    RLX_TRY(rlx_check_float(infer, 0, "x"));
    if (x->shape.rank < 2) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "x has rank %u, needs at least 2", x->shape.rank);
    }
    RLX_TRY(rlx_check_number("epsilon", attrs->epsilon, true));
    RLX_TRY(rlx_check_exact_dim(infer, 0, 1));
    for (uint32_t i = 1; i < infer->in_count && i < 5; i++) {
        RLX_TRY(rlx_check_vector(infer, i, names[i], x->shape.dims[1]));
        RLX_TRY(rlx_check_dtype(infer, i, names[i], x->dtype, x->dtype != RLX_DTYPE_F64));
    }
    int64_t groups = attrs->groups == 0 ? 1 : attrs->groups;
    if (infer->op == RLX_OP_GROUP_NORM && (groups < 1 || x->shape.dims[1] % groups != 0)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%" PRId64 " channels in %" PRId64 " groups",
                        x->shape.dims[1], attrs->groups);
    }
    infer->out[0] = *x;
    return RLX_OK;
}

static rlx_status check_attention_dtypes(const rlx_infer *infer) {
    static const char *const names[] = {"q", "k", "v", "mask"};
    rlx_dtype q = infer->in[0]->dtype;
    for (uint32_t i = 0; i < infer->in_count && i < 4; i++) {
        if (!rlx_infer_has(infer, i)) continue;
        RLX_TRY(rlx_check_float(infer, i, names[i]));
        if ((infer->in[i]->dtype == RLX_DTYPE_F64) != (q == RLX_DTYPE_F64)) {
            return RLX_FAIL(RLX_UNSUPPORTED, "attention of q %s and %s %s", rlx_dtype_name(q),
                            names[i], rlx_dtype_name(infer->in[i]->dtype));
        }
    }
    return RLX_OK;
}

/* q [B][Hq][S][D], k [B][Hk][T][D], v [B][Hk][T][Dv]. Caches of k and v are written by two nodes,
 * so their extents may be two values. */
static rlx_status check_attention_dims(const rlx_infer *infer) {
    const rlx_type *q = infer->in[0], *k = infer->in[1], *v = infer->in[2];
    char text[3][TEXT_BYTES];
    bool fits = q->shape.rank == 4 && k->shape.rank == 4 && v->shape.rank == 4;
    const int64_t *qd = q->shape.dims, *kd = k->shape.dims, *vd = v->shape.dims;
    fits = fits && qd[0] == kd[0] && kd[0] == vd[0] && kd[1] == vd[1] && kd[2] == vd[2] &&
           qd[3] == kd[3];
    fits = fits && (kd[1] == 0 ? qd[1] == 0 : qd[1] % kd[1] == 0);
    if (!fits) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "q %s, k %s and v %s are not [B, Hq, S, D], [B, Hk, T, D], [B, Hk, T, Dv]",
                        rlx_type_text(infer->graph, q, text[0], TEXT_BYTES),
                        rlx_type_text(infer->graph, k, text[1], TEXT_BYTES),
                        rlx_type_text(infer->graph, v, text[2], TEXT_BYTES));
    }
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t axis = 0; axis < 4; axis++) {
            if (axis != 2) RLX_TRY(rlx_check_exact_dim(infer, i, axis));
        }
    }
    return RLX_OK;
}

/* The mask broadcasts to [B][Hq][S][T]. It may be as long as the bound where q or k has an extent:
 * only the part that exists is read. */
static rlx_status check_mask(const rlx_infer *infer) {
    const rlx_type *q = infer->in[0], *k = infer->in[1];
    char text[TEXT_BYTES];
    if (!rlx_infer_has(infer, 3)) return RLX_OK;
    const rlx_type *mask = infer->in[3];
    int64_t scores[4] = {q->shape.dims[0], q->shape.dims[1], q->shape.dims[2], k->shape.dims[2]};
    rlx_value_id extents[4] = {RLX_NONE, RLX_NONE, q->extents[2], k->extents[2]};
    bool fits = mask->shape.rank <= 4;
    for (uint32_t i = 0; fits && i < mask->shape.rank; i++) {
        uint32_t at = mask->shape.rank - 1 - i;
        if (mask->extents[at] != RLX_NONE && mask->extents[at] != extents[3 - i]) {
            return RLX_FAIL(RLX_UNSUPPORTED,
                            "dim %u of the mask is known only at run time and comes from another "
                            "value than that of q or k",
                            at);
        }
        fits = mask->shape.dims[at] == 1 || mask->shape.dims[at] == scores[3 - i];
    }
    if (fits) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH,
                    "mask %s does not broadcast to [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                    "]",
                    rlx_type_text(infer->graph, mask, text, sizeof text), scores[0], scores[1],
                    scores[2], scores[3]);
}

rlx_status rlx_infer_attention(rlx_infer *infer) {
    const rlx_attention_attrs *attrs = infer->attrs;
    RLX_TRY(check_attention_dtypes(infer));
    RLX_TRY(check_attention_dims(infer));
    RLX_TRY(check_mask(infer));
    RLX_TRY(rlx_check_number("scale", attrs->scale, false));
    RLX_TRY(rlx_check_number("softcap", attrs->softcap, true));
    if (attrs->window < 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "window is %" PRId64, attrs->window);
    }
    if (attrs->window > 0 && !attrs->causal) {
        return RLX_FAIL(RLX_UNSUPPORTED, "a window of %" PRId64 " without causal", attrs->window);
    }
    infer->out[0] = *infer->in[0];
    infer->out[0].shape.dims[3] = infer->in[2]->shape.dims[3];
    return RLX_OK;
}

static rlx_status check_positions(const rlx_infer *infer) {
    const rlx_type *x = infer->in[0], *positions = infer->in[1];
    char text[TEXT_BYTES];
    uint32_t rank = positions->shape.rank;
    bool fits = rank == 1 || rank == 2;
    if (fits) fits = positions->shape.dims[rank - 1] == x->shape.dims[2];
    if (fits && rank == 2) fits = positions->shape.dims[0] == x->shape.dims[0];
    if (positions->dtype != RLX_DTYPE_I64 || !fits) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "positions are %s, needs i64[%" PRId64 "] or i64[%" PRId64 ", %" PRId64 "]",
                        rlx_type_text(infer->graph, positions, text, sizeof text), x->shape.dims[2],
                        x->shape.dims[0], x->shape.dims[2]);
    }
    if (positions->extents[rank - 1] != x->extents[2] ||
        (rank == 2 && positions->extents[0] != x->extents[0])) {
        return RLX_FAIL(RLX_UNSUPPORTED,
                        "x and positions have sizes that are known only at run time and come from "
                        "different values");
    }
    return RLX_OK;
}

rlx_status rlx_infer_rope(rlx_infer *infer) {
    const rlx_rope_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    RLX_TRY(rlx_check_float(infer, 0, "x"));
    if (x->shape.rank != 4) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "x has rank %u, needs [B, H, S, D]", x->shape.rank);
    }
    int64_t rotary = attrs->rotary_dim == 0 ? x->shape.dims[3] : attrs->rotary_dim;
    if (rotary < 0 || rotary % 2 != 0 || rotary > x->shape.dims[3]) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "rotary_dim is %" PRId64 ", needs an even number up to %" PRId64, rotary,
                        x->shape.dims[3]);
    }
    RLX_TRY(rlx_check_number("theta", attrs->theta, true));
    RLX_TRY(rlx_check_exact_dim(infer, 0, 3));
    RLX_TRY(check_positions(infer));
    infer->out[0] = *x;
    return RLX_OK;
}
