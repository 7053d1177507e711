/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and types: sizes, comparison, text. */
#include "base/size.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/layout.h"

#include <stdio.h>

bool rlx_shape_is_known(const rlx_shape *shape) {
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) return false;
    }
    return true;
}

bool rlx_shape_equal(const rlx_shape *a, const rlx_shape *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) return false;
    }
    return true;
}

rlx_status rlx_shape_elements(const rlx_shape *shape, uint64_t *out_elements) {
    uint64_t elements = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) return RLX_FAIL(RLX_INVALID_GRAPH, "dim %u is not known", i);
        if (shape->dims[i] == 0) is_empty = true;
    }
    /* Dims of 0 count as 1 here, so that the product of any of the dims is in range. */
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 0) continue;
        if (!rlx_mul_u64(elements, (uint64_t)shape->dims[i], &elements) || elements > INT64_MAX) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the shape has more than 2^63 elements");
        }
    }
    *out_elements = is_empty ? 0 : elements;
    return RLX_OK;
}

rlx_status rlx_type_bytes(const rlx_type *type, uint64_t *out_bytes) {
    const rlx_dtype_row *row = rlx_dtype_row_of(type->dtype);
    uint64_t elements, bytes;
    if (row == NULL) return RLX_FAIL(RLX_INVALID_GRAPH, "no dtype");
    RLX_TRY(rlx_shape_elements(&type->shape, &elements));
    if (row->class_ == RLX_CLASS_BLOCK && elements != 0) {
        int64_t last = type->shape.rank == 0 ? 1 : type->shape.dims[type->shape.rank - 1];
        if (last % row->block_elements != 0) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "%s needs a last dim that is a multiple of %u, got %" PRId64, row->name,
                            row->block_elements, last);
        }
    }
    if (type->layout != RLX_LAYOUT_PLAIN) {
        return rlx_layout_bytes(type->layout, type->dtype, type->shape.rank, type->shape.dims,
                                out_bytes);
    }
    RLX_TRY(rlx_dtype_bytes(type->dtype, elements, &bytes));
    if (bytes > INT64_MAX) return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the value has more than 2^63 bytes");
    *out_bytes = bytes;
    return RLX_OK;
}

const char *rlx_type_text(const rlx_graph *graph, const rlx_type *type, char *buffer,
                          size_t bytes) {
    size_t at = 0;
    int wrote = snprintf(buffer, bytes, "%s[", rlx_dtype_name(type->dtype));
    for (uint32_t i = 0; i <= type->shape.rank && wrote > 0; i++) {
        at += (size_t)wrote;
        if (at >= bytes) break;
        if (i == type->shape.rank) {
            bool is_packed = type->layout != RLX_LAYOUT_PLAIN;
            snprintf(buffer + at, bytes - at, "]%s%s", is_packed ? " " : "",
                     is_packed ? rlx_layout_name(type->layout) : "");
            break;
        }
        const char *comma = i == 0 ? "" : ", ";
        int64_t dim = type->shape.dims[i];
        if (dim == RLX_DIM_UNKNOWN) {
            wrote = snprintf(buffer + at, bytes - at, "%s?", comma);
        } else if (dim < 0 && graph != NULL && rlx_dim_symbol(dim) < graph->symbols.count) {
            wrote = snprintf(buffer + at, bytes - at, "%s%s", comma,
                             graph->symbols.items[rlx_dim_symbol(dim)]);
        } else {
            wrote = snprintf(buffer + at, bytes - at, "%s%" PRId64, comma, dim);
        }
    }
    return buffer;
}

rlx_type rlx_type_make(rlx_dtype dtype, const int64_t *dims, uint32_t rank) {
    rlx_type type = {.dtype = dtype, .shape = {.rank = rank}};
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++) {
        type.shape.dims[i] = i < rank ? dims[i] : 0;
        type.extents[i] = RLX_NONE;
    }
    return type;
}
