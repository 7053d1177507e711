/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that only a run knows, where an op wants numbers: shapes that are put together from them,
 * and axes that have them where the graph's op wants a planned size. What is planned is the bound;
 * values go to their bound and back by places that are counted at run time. */
#include "import/onnx/extent.h"
#include "import/onnx/growth.h"

#include <string.h>

rlx_value_id ox_limit(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id extent) {
    const rlx_axis_attrs attrs = {axis};
    if (!ox_ok(o) || extent == RLX_NONE || ox_type(o, x).extents[axis] == extent) return x;
    const rlx_value_id inputs[] = {x, extent};
    return ox_node(o, RLX_OP_LIMIT, &attrs, inputs, 2);
}

/* The most that a run-time size can be. */
static int64_t bound_of(ox *o, rlx_value_id extent) {
    uint32_t axis;
    if (ox_is_grown_size(o, extent)) return o->growth->most;
    rlx_value_id witness = ox_find_witness(o, extent, &axis);
    return witness == RLX_NONE ? 0 : ox_dim(o, witness, axis);
}

rlx_value_id ox_spread(ox *o, rlx_value_id x, const ox_sizes *sizes) {
    int64_t dims[RLX_MAX_RANK] = {0};
    uint32_t rank = sizes->dims.count;
    if (ox_ok(o) && rank > RLX_MAX_RANK)
        ox_unsupported(o, "a shape of %u dims; at most %d", rank, RLX_MAX_RANK);
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, x);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from = i + type.shape.rank - rank; /* wraps where x has no such axis */
        bool has_it = from < type.shape.rank && type.extents[from] != RLX_NONE;
        dims[i] = has_it ? 1 : sizes->dims.items[i];
    }
    x = ox_expand(o, x, dims, rank);
    for (uint32_t i = 0; i < rank && ox_ok(o); i++)
        x = ox_limit(o, x, ox_rank(o, x) - rank + i, sizes->extents[i]);
    return x;
}

rlx_value_id ox_places(ox *o, rlx_value_id extent) {
    if (!ox_ok(o)) return RLX_NONE;
    return ox_limit(o, ox_range(o, RLX_DTYPE_I64, bound_of(o, extent)), 0, extent);
}

/* Axis `axis` in front, or back where it was. */
static rlx_value_id turned(ox *o, rlx_value_id x, uint32_t axis, bool is_back) {
    int64_t perm[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x);
    if (axis == 0) return x;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = is_back ? (i < axis    ? i + 1
                             : i == axis ? 0
                                         : i)
                          : (i == 0      ? axis
                             : i <= axis ? i - 1
                                         : i);
    return ox_transpose(o, x, perm, rank);
}

rlx_value_id ox_to_bound(ox *o, rlx_value_id x, uint32_t axis) {
    rlx_type type = ox_type(o, x);
    const rlx_scatter_attrs attrs = {0};
    const int64_t down[] = {-1, 1};
    if (!ox_ok(o) || type.extents[axis] == RLX_NONE) return x;
    x = turned(o, x, axis, false);
    rlx_type wide = ox_type(o, x);
    rlx_value_id zeros = ox_scalar(o, type.dtype, 0);
    zeros = ox_expand(o, zeros, wide.shape.dims, wide.shape.rank);
    rlx_value_id places = ox_reshape(o, ox_places(o, type.extents[axis]), down, 2);
    const rlx_value_id inputs[] = {zeros, places, x};
    return turned(o, ox_node(o, RLX_OP_SCATTER_ND, &attrs, inputs, 3), axis, true);
}

/* The places along an axis where `keep` holds. */
static rlx_value_id places_where(ox *o, rlx_value_id keep) {
    rlx_value_id out[2];
    const int64_t flat[] = {-1};
    ox_nodes(o, RLX_OP_NONZERO, NULL, &keep, 1, out, 2);
    return ox_ok(o) ? ox_reshape(o, out[0], flat, 1) : RLX_NONE;
}

rlx_value_id ox_join(ox *o, const rlx_value_id *parts, uint32_t count, uint32_t axis) {
    rlx_value_id grown = ox_join_grown(o, parts, count, axis);
    if (grown != RLX_NONE) return grown;
    rlx_value_id *whole = ox_memory(o, count, sizeof *whole);
    rlx_value_id *keep = ox_memory(o, count, sizeof *keep);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        rlx_type type = ox_type(o, parts[i]);
        rlx_value_id places = ox_range(o, RLX_DTYPE_I64, type.shape.dims[axis]);
        rlx_value_id size = type.extents[axis];
        if (size == RLX_NONE) size = ox_scalar(o, RLX_DTYPE_I64, (double)type.shape.dims[axis]);
        keep[i] = ox_binary(o, RLX_OP_LESS, places, ox_reshape(o, size, NULL, 0));
        whole[i] = ox_to_bound(o, parts[i], axis);
    }
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id places = places_where(o, ox_concat(o, keep, count, 0));
    return ox_gather(o, ox_concat(o, whole, count, axis), places, axis);
}

/* A limit of a slice as a place: negative ones count from the end. */
static rlx_value_id limit(ox *o, rlx_value_id at, rlx_value_id size) {
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0);
    at = ox_cast(o, ox_reshape(o, at, NULL, 0), RLX_DTYPE_I64);
    rlx_value_id from_end = ox_binary(o, RLX_OP_ADD, at, size);
    return ox_where(o, ox_binary(o, RLX_OP_LESS, at, zero), from_end, at);
}

/* Which of the places 0 .. size - 1 a slice takes. */
static rlx_value_id keep_between(ox *o, rlx_value_id places, rlx_value_id size, rlx_value_id start,
                                 rlx_value_id end, int64_t step) {
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0);
    size = ox_reshape(o, size, NULL, 0);
    start = ox_binary(o, RLX_OP_MAX, limit(o, start, size), zero);
    rlx_value_id keep = ox_binary(o, RLX_OP_GREATER_EQUAL, places, start);
    rlx_value_id before = ox_binary(o, RLX_OP_LESS, places, limit(o, end, size));
    keep = ox_binary(o, RLX_OP_AND, keep, before);
    if (step == 1) return keep;
    rlx_value_id rest = ox_binary(o, RLX_OP_SUB, places, start);
    rest = ox_binary(o, RLX_OP_MOD, rest, ox_scalar(o, RLX_DTYPE_I64, (double)step));
    return ox_binary(o, RLX_OP_AND, keep, ox_binary(o, RLX_OP_EQUAL, rest, zero));
}

/* Slices that are the same are counted once: what they give has the same run-time size, so that it
 * can meet in one op. */
typedef struct cut_key {
    ox_element start, end; /* of a number: no value, and the number */
    int64_t dim, step;
    rlx_value_id extent;
    rlx_block_id block;
} cut_key;

struct ox_cut_places {
    cut_key key;
    rlx_value_id places;
    struct ox_cut_places *next;
};

static ox_element key_of(ox *o, rlx_value_id at) {
    ox_element key = {at, 0};
    for (int i = 0; i < OX_MOST_STEPS && !ox_is_constant(o, key.value) && ox_step_back(o, &key);
         i++) {
    }
    if (!ox_is_constant(o, key.value) || !ox_is_within(o, &key)) return key;
    return (ox_element){RLX_NONE, ox_number_at(o, key.value, key.index)};
}

static bool is_same_key(const cut_key *a, const cut_key *b) {
    return a->start.value == b->start.value && a->start.index == b->start.index &&
           a->end.value == b->end.value && a->end.index == b->end.index && a->dim == b->dim &&
           a->step == b->step && a->extent == b->extent && a->block == b->block;
}

static rlx_value_id cut_places(ox *o, const cut_key *key, rlx_value_id start, rlx_value_id end) {
    for (const struct ox_cut_places *cut = o->cuts; cut != NULL; cut = cut->next) {
        if (is_same_key(&cut->key, key)) return cut->places;
    }
    bool is_number = key->extent == RLX_NONE;
    rlx_value_id size = is_number ? ox_scalar(o, RLX_DTYPE_I64, (double)key->dim) : key->extent;
    rlx_value_id all = is_number ? ox_range(o, RLX_DTYPE_I64, key->dim) : ox_places(o, key->extent);
    rlx_value_id places = places_where(o, keep_between(o, all, size, start, end, key->step));
    struct ox_cut_places *cut = ox_memory(o, 1, sizeof *cut);
    if (!ox_ok(o)) return RLX_NONE;
    *cut = (struct ox_cut_places){.key = *key, .places = places, .next = o->cuts};
    o->cuts = cut;
    return places;
}

rlx_value_id ox_cut(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id start, rlx_value_id end,
                    int64_t step) {
    if (ox_ok(o) && step < 1) ox_unsupported(o, "a step of %" PRId64 " at run time", step);
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, x);
    rlx_value_id part = step == 1 ? ox_cut_grown(o, x, axis, start, end) : RLX_NONE;
    if (part != RLX_NONE) return part;
    const cut_key key = {.start = key_of(o, start),
                         .end = key_of(o, end),
                         .dim = type.shape.dims[axis],
                         .step = step,
                         .extent = type.extents[axis],
                         .block = o->graph->current};
    rlx_value_id places = cut_places(o, &key, start, end);
    return ox_ok(o) ? ox_gather(o, x, places, axis) : RLX_NONE;
}

rlx_value_id ox_to_bound_with(ox *o, rlx_value_id x, uint32_t axis, double filler) {
    rlx_type type = ox_type(o, x);
    int64_t dims[RLX_MAX_RANK];
    if (!ox_ok(o) || type.extents[axis] == RLX_NONE) return x;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        dims[i] = i == axis ? type.shape.dims[i] : 1;
    rlx_value_id places = ox_range(o, RLX_DTYPE_I64, type.shape.dims[axis]);
    places = ox_reshape(o, places, dims, type.shape.rank);
    rlx_value_id size = ox_reshape(o, type.extents[axis], NULL, 0);
    rlx_value_id is_there = ox_binary(o, RLX_OP_LESS, places, size);
    return ox_where(o, is_there, ox_to_bound(o, x, axis), ox_scalar(o, type.dtype, filler));
}

rlx_value_id ox_widen(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id before, rlx_value_id after,
                      rlx_value_id filler) {
    int64_t dims[RLX_MAX_RANK];
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, x);
    int64_t dim = type.shape.dims[axis];
    ox_bounds first = ox_bounds_of(o, before), last = ox_bounds_of(o, after);
    int64_t most = ox_plus(o, dim, ox_plus(o, first.high, last.high));
    if (first.low < 0 || last.low < 0 || most > OX_MOST_NUMBERS)
        ox_unsupported(o, "pads that only a run knows, of %" PRId64 " to %" PRId64 " elements",
                       first.low < last.low ? first.low : last.low,
                       first.high > last.high ? first.high : last.high);
    if (ox_ok(o) && dim == 0) ox_unsupported(o, "pads of nothing that only a run knows");
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0), size = type.extents[axis];
    rlx_value_id end = ox_scalar(o, RLX_DTYPE_I64, (double)(dim - 1));
    size =
        size == RLX_NONE ? ox_scalar(o, RLX_DTYPE_I64, (double)dim) : ox_reshape(o, size, NULL, 0);
    before = ox_reshape(o, before, NULL, 0);
    rlx_value_id whole = ox_binary(o, RLX_OP_ADD, ox_binary(o, RLX_OP_ADD, size, before),
                                   ox_reshape(o, after, NULL, 0));
    rlx_value_id all = ox_range(o, RLX_DTYPE_I64, most);
    rlx_value_id from = places_where(o, ox_binary(o, RLX_OP_LESS, all, whole));
    from = ox_binary(o, RLX_OP_SUB, from, before);
    rlx_value_id is_there = ox_binary(o, RLX_OP_AND, ox_binary(o, RLX_OP_GREATER_EQUAL, from, zero),
                                      ox_binary(o, RLX_OP_LESS, from, size));
    from = ox_binary(o, RLX_OP_MIN, ox_binary(o, RLX_OP_MAX, from, zero), end);
    x = ox_gather(o, ox_to_bound(o, x, axis), from, axis);
    for (uint32_t i = 0; i < type.shape.rank; i++)
        dims[i] = i == axis ? -1 : 1;
    return ox_where(o, ox_reshape(o, is_there, dims, type.shape.rank), x, filler);
}
