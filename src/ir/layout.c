/* SPDX-License-Identifier: Apache-2.0 */
/* The layout table and what follows from a row's order of loops. */
#include "ir/layout.h"

#include "base/size.h"
#include "ir/dtype.h"

#define RLX_LAYOUT(upper, lower, order) #lower,
static const char *const names[] = {
#include <rlx/layouts.def>
};
#undef RLX_LAYOUT
#define RLX_LAYOUT(upper, lower, order) order,
static const char *const orders[] = {
#include <rlx/layouts.def>
};
#undef RLX_LAYOUT

const char *rlx_layout_name(rlx_layout layout) {
    return (uint32_t)layout < RLX_LAYOUT_COUNT ? names[layout] : "?";
}

const char *const *rlx_layout_names(uint32_t *out_count) {
    *out_count = RLX_LAYOUT_COUNT;
    return names;
}

/* The axis of a letter; at or past `rank` for one that is not there. */
static uint32_t axis_of(char letter, uint32_t rank) {
    return letter >= 'u' ? rank - 1 - (uint32_t)('z' - letter) : (uint32_t)(letter - 'a');
}

/* Reads "16z" or "z"; `*out_block` is 0 without a number. Returns what follows. */
static const char *read_loop(const char *order, uint32_t rank, uint32_t *out_axis,
                             int64_t *out_block) {
    *out_block = 0;
    for (; *order >= '0' && *order <= '9'; order++)
        *out_block = *out_block * 10 + (*order - '0');
    *out_axis = axis_of(*order, rank);
    return order + 1;
}

static void push_loop(rlx_layout_map *map, uint32_t axis, int64_t count) {
    rlx_layout_loop *loop = &map->loops[map->loop_count++];
    *loop = (rlx_layout_loop){.axis = axis, .divisor = 1, .count = count};
}

/* The loops in order, the number of blocks of an axis still open (count 0). */
static rlx_status read_order(rlx_layout layout, rlx_layout_map *map) {
    bool is_named[RLX_MAX_RANK] = {false};
    const char *order = orders[layout];
    uint32_t axis;
    int64_t block;
    for (const char *at = order; *at != 0;) {
        if (*at == '*') {
            at++;
            continue;
        }
        at = read_loop(at, map->rank, &axis, &block);
        if (axis >= map->rank || (block == 0 && is_named[axis])) {
            return RLX_FAIL(RLX_UNSUPPORTED, "layout %s does not fit a rank of %u", names[layout],
                            map->rank);
        }
        if (block == 0) is_named[axis] = true;
    }
    for (const char *at = order; *at != 0;) {
        if (*at == '*') {
            for (uint32_t i = 0; i < map->rank; i++) {
                if (!is_named[i]) push_loop(map, i, 0);
            }
            at++;
            continue;
        }
        at = read_loop(at, map->rank, &axis, &block);
        push_loop(map, axis, block);
    }
    return RLX_OK;
}

/* From the innermost loop outwards. Dims of 0 count as 1 here, so that the product of any of the
 * loops is in range; there is nothing to find then. */
static bool measure(rlx_layout_map *map) {
    int64_t inside[RLX_MAX_RANK], stride = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < map->rank; i++)
        inside[i] = 1, is_empty = is_empty || map->dims[i] == 0;
    for (uint32_t i = map->loop_count; i-- > 0;) {
        rlx_layout_loop *loop = &map->loops[i];
        int64_t dim = map->dims[loop->axis] == 0 ? 1 : map->dims[loop->axis];
        loop->divisor = inside[loop->axis];
        if (loop->count == 0) loop->count = (dim - 1) / loop->divisor + 1;
        if (!rlx_mul_i64(inside[loop->axis], loop->count, &inside[loop->axis])) return false;
        loop->stride = stride;
        if (!rlx_mul_i64(stride, loop->count, &stride)) return false;
    }
    map->elements = is_empty ? 0 : stride;
    return true;
}

rlx_status rlx_layout_map_make(rlx_layout layout, uint32_t rank, const int64_t *dims,
                               rlx_layout_map *out_map) {
    rlx_layout_map map = {.rank = rank};
    if ((uint32_t)layout >= RLX_LAYOUT_COUNT) {
        return RLX_FAIL(RLX_UNSUPPORTED, "layout %u, this build knows %u", (unsigned)layout,
                        RLX_LAYOUT_COUNT);
    }
    if (rank > RLX_MAX_RANK) return RLX_FAIL(RLX_UNSUPPORTED, "a rank of %u", rank);
    for (uint32_t i = 0; i < rank; i++) {
        map.dims[i] = dims[i];
        if (dims[i] < 0) return RLX_FAIL(RLX_INVALID_GRAPH, "dim %u is not known", i);
    }
    RLX_TRY(read_order(layout, &map));
    if (!measure(&map)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "in layout %s it has more than 2^63 elements",
                        names[layout]);
    }
    *out_map = map;
    return RLX_OK;
}

rlx_layout_map rlx_layout_map_of(const rlx_tensor *tensor) {
    rlx_layout_map map = {.rank = tensor->rank, .loop_count = tensor->rank};
    if (tensor->layout != RLX_LAYOUT_PLAIN) {
        rlx_status status = rlx_layout_map_make(tensor->layout, tensor->rank, tensor->dims, &map);
        RLX_ASSERT(status == RLX_OK);
        (void)status;
        return map;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        map.dims[i] = tensor->dims[i];
        map.loops[i] =
            (rlx_layout_loop){i, 1, tensor->dims[i] > 0 ? tensor->dims[i] : 1, tensor->strides[i]};
    }
    return map;
}

rlx_status rlx_layout_bytes(rlx_layout layout, rlx_dtype dtype, uint32_t rank, const int64_t *dims,
                            uint64_t *out_bytes) {
    rlx_layout_map map;
    uint64_t bytes;
    if (rlx_dtype_block_elements(dtype) != 1) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s in layout %s", rlx_dtype_name(dtype),
                        rlx_layout_name(layout));
    }
    RLX_TRY(rlx_layout_map_make(layout, rank, dims, &map));
    if (!rlx_mul_u64((uint64_t)map.elements, rlx_dtype_block_bytes(dtype), &bytes) ||
        bytes > INT64_MAX) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "in layout %s it has more than 2^63 bytes",
                        names[layout]);
    }
    *out_bytes = bytes;
    return RLX_OK;
}

bool rlx_layout_index(const rlx_layout_map *map, int64_t offset, int64_t *out_index) {
    for (uint32_t i = 0; i < map->rank; i++)
        out_index[i] = 0;
    for (uint32_t i = 0; i < map->loop_count; i++) {
        const rlx_layout_loop *loop = &map->loops[i];
        out_index[loop->axis] += offset / loop->stride * loop->divisor;
        offset %= loop->stride;
    }
    for (uint32_t i = 0; i < map->rank; i++) {
        if (out_index[i] >= map->dims[i]) return false;
    }
    return true;
}

bool rlx_layout_is_taken(rlx_op op, uint32_t input, rlx_layout layout) {
    if (layout == RLX_LAYOUT_PLAIN) return true;
    if ((uint32_t)layout >= RLX_LAYOUT_COUNT) return false;
    if (op == RLX_OP_PACK) return input == 0;
    /* b, in panels of either direction; the shape rule checks which. */
    if (op == RLX_OP_MATMUL && layout == RLX_LAYOUT_TURNED) return input == 1;
    if (op == RLX_OP_MATMUL || op == RLX_OP_MATMUL_QUANTISED)
        return input == 1 && layout <= RLX_LAYOUT_ROWS32X4;
    if (op == RLX_OP_RNN || op == RLX_OP_GRU || op == RLX_OP_LSTM) {
        bool is_rows = layout == RLX_LAYOUT_ROWS16 || layout == RLX_LAYOUT_ROWS32;
        return (input == 1 || input == 2) && is_rows;
    }
    if (op == RLX_OP_CONV) {
        return input == 1 && layout >= RLX_LAYOUT_CHANNELS8 && layout <= RLX_LAYOUT_DEPTHWISE16;
    }
    if (op == RLX_OP_CONV_QUANTISED) {
        return input == 1 && layout >= RLX_LAYOUT_DEPTHWISE8 && layout <= RLX_LAYOUT_TAPS32X2;
    }
    return false;
}
