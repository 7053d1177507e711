/* SPDX-License-Identifier: Apache-2.0 */
/* Caches. A decoder takes keys and values of earlier tokens and gives them back with new rows.
 * Where the caller says that their size grows, such inputs are states: the model's concat becomes a
 * write behind the rows that are there, and a run takes no past and gives none. How many rows there
 * are is a state too; sizes that follow from it are run-time sizes, one value for each held +
 * number. */
#include "import/onnx/growth.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const rlx_binding *find_growing(const ox *o, const char *symbol, size_t length) {
    const rlx_entry_spec *entry = o->options->entry;
    for (uint32_t i = 0; i < entry->growing_count; i++) {
        const char *name = entry->growing[i].symbol;
        if (strlen(name) == length && memcmp(name, symbol, length) == 0) return &entry->growing[i];
    }
    return NULL;
}

void ox_growth_begin(ox *o) {
    const rlx_entry_spec *entry = o->options->entry;
    const char *first = NULL;
    int64_t least = INT64_MAX, most = 0;
    if (!ox_ok(o) || entry == NULL || entry->growing_count == 0) return;
    for (uint32_t i = 0; i < entry->growing_count && ox_ok(o); i++) {
        const rlx_binding *growing = &entry->growing[i];
        if (growing->value < 1 || growing->value > INT32_MAX) {
            ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT,
                                "a size that grows ('%s') needs the most that it can be, 1 to %d",
                                growing->symbol, INT32_MAX));
            return;
        }
        if (growing->value < least) first = growing->symbol;
        if (growing->value < least) least = growing->value;
        if (growing->value > most) most = growing->value;
    }
    struct ox_growth *growth = ox_memory(o, 1, sizeof *growth);
    ox_cache *caches = ox_memory(o, o->model->graph.input_count + 1u, sizeof *caches);
    if (!ox_ok(o)) return;
    *growth = (struct ox_growth){.most = most, .least = least, .caches = caches};
    const rlx_shape one = {.rank = 1, .dims = {1}};
    ox_fail(o, rlx_graph_add_state(o->graph, first, RLX_DTYPE_I64, one, &growth->state));
    rlx_value_id held = ox_reshape(o, growth->state, NULL, 0);
    if (!ox_ok(o)) return;
    growth->sizes[growth->size_count++] = (ox_grown){0, held};
    o->growth = growth;
}

/* "past + 1", "past + length": exporters name a size by what it is. */
static bool grows_by(ox *o, const char *symbol, int64_t *out_plus) {
    const char *sign = strstr(symbol, "+"), *more;
    char *end = NULL;
    if (sign == NULL) return false;
    size_t length = (size_t)(sign - symbol);
    while (length > 0 && symbol[length - 1] == ' ')
        length--;
    const rlx_binding *growing = find_growing(o, symbol, length);
    if (growing == NULL) return false;
    more = sign + 1;
    while (*more == ' ')
        more++;
    long long number = strtoll(more, &end, 10);
    bool is_known = end != more && *end == 0;
    for (uint32_t i = 0; i < o->options->entry->binding_count && !is_known; i++) {
        const rlx_binding *binding = &o->options->entry->bindings[i];
        if (strcmp(binding->symbol, more) != 0) continue;
        number = binding->value;
        is_known = true;
    }
    *out_plus = number;
    return is_known && number >= 0 && number <= o->growth->most;
}

bool ox_grows(ox *o, const char *symbol, int64_t *out_plus) {
    if (!ox_ok(o) || o->growth == NULL) return false;
    const rlx_binding *growing = find_growing(o, symbol, strlen(symbol));
    if (growing == NULL) return grows_by(o, symbol, out_plus);
    *out_plus = growing->value - o->growth->least;
    return true;
}

rlx_value_id ox_growing_input(ox *o, const char *name, rlx_dtype dtype, const rlx_shape *shape,
                              uint32_t axis, int64_t plus) {
    rlx_value_id value = RLX_NONE;
    struct ox_growth *growth = o->growth;
    if (plus != 0) {
        ox_fail(o, rlx_graph_add_input(o->graph, name, dtype, *shape, &value));
        return ox_limit(o, value, axis, ox_grown_size(o, plus));
    }
    ox_fail(o, rlx_graph_add_state(o->graph, name, dtype, *shape, &value));
    if (!ox_ok(o)) return RLX_NONE;
    ox_cache *cache = &growth->caches[growth->cache_count++];
    *cache = (ox_cache){.name = name, .state = value, .axis = axis};
    cache->held = ox_limit(o, value, axis, ox_grown_size(o, 0));
    return cache->held;
}

rlx_value_id ox_grown_size(ox *o, int64_t plus) {
    struct ox_growth *growth = o->growth;
    if (!ox_ok(o)) return RLX_NONE;
    for (uint32_t i = 0; i < growth->size_count; i++) {
        if (growth->sizes[i].plus == plus) return growth->sizes[i].value;
    }
    if (growth->size_count == OX_MOST_GROWN || o->graph->current != 0) {
        ox_unsupported(o, "a size that grows and is first met inside a body, or the %dth of them",
                       OX_MOST_GROWN);
        return RLX_NONE;
    }
    rlx_value_id more = ox_scalar(o, RLX_DTYPE_I64, (double)plus);
    rlx_value_id size = ox_binary(o, RLX_OP_ADD, growth->sizes[0].value, more);
    if (ox_ok(o)) growth->sizes[growth->size_count++] = (ox_grown){plus, size};
    return size;
}

bool ox_find_grown_size(const ox *o, rlx_value_id value, ox_sum *out) {
    for (uint32_t i = 0; o->growth != NULL && i < o->growth->size_count; i++) {
        if (o->growth->sizes[i].value != value) continue;
        *out = (ox_sum){true, o->growth->sizes[i].plus};
        return true;
    }
    return false;
}

/* The size of an axis as a sum. */
static bool axis_sum(const ox *o, rlx_value_id x, uint32_t axis, ox_sum *out) {
    rlx_type type = ox_type(o, x);
    *out = (ox_sum){false, type.shape.dims[axis]};
    return type.extents[axis] == RLX_NONE || ox_find_grown_size(o, type.extents[axis], out);
}

/* A limit of a slice as a sum within 0 .. size; false where that hangs on the run: held - 1 may be
 * below 0, which counts from the end. */
static bool slice_limit(ox *o, rlx_value_id limit, const ox_sum *size, ox_sum *out) {
    if (!ox_sum_at(o, limit, 0, out)) {
        int64_t number; /* "to the end" is a huge number */
        if (!ox_is_constant(o, limit)) return false;
        number = ox_need_int(o, limit);
        *out = (ox_sum){false, number};
        if (number < OX_MOST_NUMBERS) return false;
    }
    if (!out->has_held && out->plus < 0) *out = (ox_sum){size->has_held, size->plus + out->plus};
    if (out->has_held == size->has_held) {
        if (out->plus > size->plus) out->plus = size->plus;
        return out->plus >= 0;
    }
    if (!out->has_held && out->plus >= o->growth->most) { /* past whatever it grows to */
        *out = *size;
        return true;
    }
    if (!out->has_held) return out->plus == 0;
    return size->plus >= o->growth->most && out->plus >= 0;
}

/* Rows start .. start + count - 1. */
static rlx_value_id rows_from(ox *o, rlx_value_id x, uint32_t axis, const ox_sum *start,
                              rlx_value_id places) {
    rlx_value_id first = start->has_held ? ox_grown_size(o, start->plus)
                                         : ox_scalar(o, RLX_DTYPE_I64, (double)start->plus);
    return ox_gather(o, x, ox_binary(o, RLX_OP_ADD, places, first), axis);
}

rlx_value_id ox_cut_grown(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id start,
                          rlx_value_id end) {
    ox_sum size, first, last;
    if (!ox_ok(o) || o->growth == NULL || !axis_sum(o, x, axis, &size) ||
        !slice_limit(o, start, &size, &first) || !slice_limit(o, end, &size, &last))
        return RLX_NONE;
    if (first.has_held && !last.has_held) return RLX_NONE;
    int64_t count = last.plus - first.plus;
    if (first.has_held == last.has_held) {
        count = count < 0 ? 0 : count;
        if (!first.has_held && !size.has_held)
            return ox_slice(o, x, axis, first.plus, last.plus, 1);
        if (!first.has_held) return RLX_NONE;
        return rows_from(o, x, axis, &first, ox_range(o, RLX_DTYPE_I64, count));
    }
    if (count < 0) return RLX_NONE;
    rlx_value_id rows = ox_grown_size(o, count);
    if (first.plus != 0) return rows_from(o, x, axis, &first, ox_places(o, rows));
    if (!size.has_held) x = ox_slice(o, x, axis, 0, o->growth->most, 1);
    return ox_limit(o, x, axis, rows);
}

static ox_cache *find_cache(const ox *o, rlx_value_id held) {
    for (uint32_t i = 0; i < o->growth->cache_count; i++) {
        if (o->growth->caches[i].held == held) return &o->growth->caches[i];
    }
    return NULL;
}

/* Writes rows behind those that the cache holds; gives the cache with them. */
static rlx_value_id append_rows(ox *o, ox_cache *cache, rlx_value_id rows) {
    const rlx_state_write_attrs attrs = {.axis = cache->axis};
    struct ox_growth *growth = o->growth;
    int64_t added = ox_dim(o, rows, cache->axis);
    if (ox_ok(o) && growth->added != 0 && growth->added != added)
        ox_unsupported(o, "caches grow by %" PRId64 " and by %" PRId64 " rows", growth->added,
                       added);
    growth->added = added;
    const rlx_value_id inputs[] = {cache->state, rows, ox_grown_size(o, 0)};
    rlx_value_id out[2] = {RLX_NONE, RLX_NONE};
    const char *name = NULL;
    ox_nodes(o, RLX_OP_STATE_WRITE, &attrs, inputs, 3, out, 2);
    if (ox_ok(o)) ox_fail(o, rlx_scratch_printf(&o->memory, &name, "%s.grown", cache->name));
    rlx_value_id other;
    if (ox_ok(o) && rlx_graph_find(o->graph, name, &other) != RLX_OK)
        ox_fail(o, rlx_graph_rename(o->graph, out[0], name)); /* for messages */
    cache->is_appended = true;
    return ox_limit(o, out[0], cache->axis, ox_grown_size(o, added));
}

/* Whether rows can go behind a cache as they are. */
static bool is_append(const ox *o, const ox_cache *cache, rlx_value_id rows, uint32_t axis) {
    rlx_type type = ox_type(o, rows), wide = ox_type(o, cache->state);
    if (cache->is_appended || axis != cache->axis || type.dtype != wide.dtype ||
        o->graph->current != 0 || type.shape.rank != wide.shape.rank)
        return false;
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        bool fits = i == axis ? type.shape.dims[i] >= 1 && type.shape.dims[i] <= wide.shape.dims[i]
                              : type.shape.dims[i] == wide.shape.dims[i];
        if (!fits || type.extents[i] != RLX_NONE) return false;
    }
    return true;
}

/* One part grows, the others do not: its rows end where they end, those behind it follow. */
rlx_value_id ox_join_grown(ox *o, const rlx_value_id *parts, uint32_t count, uint32_t axis) {
    ox_sum sum = {false, 0}, size;
    int64_t before = 0;
    uint32_t grown = 0;
    if (!ox_ok(o) || o->growth == NULL) return RLX_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!axis_sum(o, parts[i], axis, &size) || (sum.has_held && size.has_held)) return RLX_NONE;
        if (size.has_held) {
            grown = i;
            before = sum.plus;
        }
        sum = (ox_sum){sum.has_held || size.has_held, ox_plus(o, sum.plus, size.plus)};
    }
    if (!ox_ok(o) || !sum.has_held) return RLX_NONE;
    ox_cache *cache = grown == 0 && count == 2 ? find_cache(o, parts[0]) : NULL;
    if (cache != NULL && is_append(o, cache, parts[1], axis))
        return append_rows(o, cache, parts[1]);
    rlx_value_id *whole = ox_memory(o, count, sizeof *whole);
    for (uint32_t i = 0; i < count && ox_ok(o); i++)
        whole[i] = ox_to_bound(o, parts[i], axis);
    if (!ox_ok(o)) return RLX_NONE;
    axis_sum(o, parts[grown], axis, &size);
    rlx_value_id end = ox_grown_size(o, before + size.plus);
    rlx_value_id gap = ox_binary(
        o, RLX_OP_SUB, ox_scalar(o, RLX_DTYPE_I64, (double)(before + o->growth->most)), end);
    rlx_value_id places = ox_places(o, ox_grown_size(o, sum.plus));
    rlx_value_id far = ox_binary(o, RLX_OP_ADD, places, gap);
    places = ox_where(o, ox_binary(o, RLX_OP_LESS, places, end), places, far);
    return ox_gather(o, ox_concat(o, whole, count, axis), places, axis);
}

/* Adds the caches that a value is a copy of, through ops that only move elements. */
static void trace(ox *o, rlx_value_id value, int depth, bool *is_seen, ox_cache **out_cache,
                  uint32_t *out_count) {
    if (depth > 64 || value == RLX_NONE || is_seen[value]) return;
    is_seen[value] = true;
    for (uint32_t i = 0; i < o->growth->cache_count; i++) {
        if (o->growth->caches[i].state != value) continue;
        *out_cache = &o->growth->caches[i];
        (*out_count)++;
    }
    rlx_node_id producer = o->graph->values.items[value].producer;
    if (producer == RLX_NONE) return;
    const rlx_node *node = &o->graph->nodes.items[producer];
    uint32_t flags = rlx_op_info_of(node->op)->flags;
    bool is_moved = (flags & (RLX_OPF_VIEW | RLX_OPF_STATEFUL)) != 0 || node->op == RLX_OP_GATHER ||
                    node->op == RLX_OP_COPY || node->op == RLX_OP_CAST;
    uint32_t count = node->op == RLX_OP_CONCAT ? node->input_count : is_moved;
    for (uint32_t i = 0; i < count; i++)
        trace(o, node->inputs[i], depth + 1, is_seen, out_cache, out_count);
    if (node->op == RLX_OP_SCATTER_ND)
        trace(o, node->inputs[2], depth + 1, is_seen, out_cache, out_count);
}

bool ox_give_back(ox *o, rlx_value_id value) {
    ox_cache *cache = NULL;
    uint32_t count = 0;
    ox_sum size;
    if (!ox_ok(o) || o->growth == NULL) return false;
    bool *is_seen = ox_memory(o, o->graph->values.count, sizeof *is_seen);
    if (ox_ok(o)) trace(o, value, 0, is_seen, &cache, &count);
    if (!ox_ok(o) || count != 1) return false;
    rlx_type type = ox_type(o, value), wide = ox_type(o, cache->state);
    uint32_t axis = cache->axis;
    if (type.dtype != wide.dtype || !rlx_shape_equal(&type.shape, &wide.shape) ||
        !axis_sum(o, value, axis, &size) || !size.has_held || size.plus < 1)
        return false;
    if (cache->is_appended) return true;
    const ox_sum held = {true, 0};
    rlx_value_id places = ox_range(o, RLX_DTYPE_I64, size.plus);
    append_rows(o, cache, rows_from(o, value, axis, &held, places));
    return true;
}

void ox_growth_end(ox *o) {
    static const rlx_state_write_attrs first = {0};
    struct ox_growth *growth = o->growth;
    const int64_t one[] = {1};
    rlx_value_id out[2];
    if (!ox_ok(o) || growth == NULL) return;
    for (uint32_t i = 0; i < growth->cache_count && ox_ok(o); i++) {
        if (growth->caches[i].is_appended) continue;
        ox_fail(o, RLX_FAIL(RLX_UNSUPPORTED,
                            "input '%s' has a size that grows, but no output gives it back with "
                            "more rows: bind the size to a number",
                            growth->caches[i].name));
    }
    if (ox_ok(o) && growth->added == 0)
        ox_fail(o, RLX_FAIL(RLX_NOT_FOUND, "the model has no input whose size '%s' could grow",
                            o->options->entry->growing[0].symbol));
    if (!ox_ok(o)) return;
    /* Writes that do not fit change nothing: there are as many rows as before then. */
    rlx_value_id size = ox_grown_size(o, growth->added);
    rlx_value_id most = ox_scalar(o, RLX_DTYPE_I64, (double)growth->most);
    rlx_value_id fits = ox_binary(o, RLX_OP_LESS_EQUAL, size, most);
    size = ox_reshape(o, ox_where(o, fits, size, ox_grown_size(o, 0)), one, 1);
    const rlx_value_id inputs[] = {growth->state, size, ox_scalar(o, RLX_DTYPE_I64, 0)};
    ox_nodes(o, RLX_OP_STATE_WRITE, &first, inputs, 3, out, 2);
}
