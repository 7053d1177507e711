/* SPDX-License-Identifier: Apache-2.0 */
/* MatMulNBits of com.microsoft: weights of 2, 4 or 8 bits in blocks along k, each with a scale.
 * Where the numbers fit a block type of ours (32 weights, a scale of 16 bits) they are put into
 * that once, so that they stay small in memory; else they are decoded by graph ops, once per
 * program. */
#include "base/size.h"
#include "import/onnx/ops.h"
#include "ir/dtype.h"
#include "ir/source.h"

#include <math.h>
#include <string.h>

/* A product's weights [N][K]: of each row `blocks` blocks of `size` weights. */
typedef struct packed {
    int64_t n, k, bits, size, blocks;
    int64_t row_bytes, zero_bytes; /* of a row of weights, of zero points */
    rlx_value_id weights, scales, zeros;
} packed;

static void check_elements(ox *o, const char *what, rlx_value_id value, int64_t wanted) {
    int64_t found = value == RLX_NONE ? wanted : ox_elements(o, value);
    if (ox_ok(o) && found != wanted)
        ox_invalid(o, "%s: %" PRId64 " elements instead of %" PRId64, what, found, wanted);
}

static packed read_packed(ox *o) {
    packed p = {.n = ox_int(o, "N", 0),
                .k = ox_int(o, "K", 0),
                .bits = ox_int(o, "bits", 4),
                .size = ox_int(o, "block_size", 0),
                .weights = ox_in(o, 1),
                .scales = ox_in(o, 2),
                .zeros = ox_maybe(o, 3)};
    if (ox_has(o, 4)) ox_unsupported(o, "g_idx: blocks in another order");
    if (ox_ok(o) && p.bits != 2 && p.bits != 4 && p.bits != 8)
        ox_unsupported(o, "weights of %" PRId64 " bits", p.bits);
    if (ox_ok(o) && (p.size < 16 || p.size > 1 << 20 || (p.size & (p.size - 1)) != 0))
        ox_invalid(o, "block_size %" PRId64, p.size);
    if (ox_ok(o) && (p.n <= 0 || p.k <= 0 || p.k > INT64_MAX / 16))
        ox_invalid(o, "weights of %" PRId64 " x %" PRId64, p.n, p.k);
    if (ox_ok(o) && ox_dtype(o, p.weights) != RLX_DTYPE_U8)
        ox_unsupported(o, "weights as %s", rlx_dtype_name(ox_dtype(o, p.weights)));
    if (!ox_ok(o)) return p;
    p.blocks = (p.k + p.size - 1) / p.size;
    p.row_bytes = p.blocks * (p.size * p.bits / 8);
    p.zero_bytes = (p.blocks * p.bits + 7) / 8;
    check_elements(o, "weights", p.weights, ox_times(o, p.n, p.row_bytes));
    check_elements(o, "scales", p.scales, ox_times(o, p.n, p.blocks));
    bool is_packed = p.zeros != RLX_NONE && ox_dtype(o, p.zeros) == RLX_DTYPE_U8;
    check_elements(o, "zero points", p.zeros,
                   ox_times(o, p.n, is_packed ? p.zero_bytes : p.blocks));
    return p;
}

/* [rows][bytes] of numbers of `bits` bits as [rows][bytes * 8 / bits] of bytes, the low ones first.
 */
static rlx_value_id unpacked(ox *o, rlx_value_id x, int64_t rows, int64_t bytes, int64_t bits) {
    const int64_t dims[] = {rows, bytes, 1}, flat[] = {rows, bytes * 8 / bits};
    rlx_value_id parts[4];
    uint32_t count = (uint32_t)(8 / bits);
    if (bits == 8) return ox_reshape(o, x, flat, 2);
    x = ox_reshape(o, x, dims, 3);
    for (uint32_t i = 0; i < count; i++) {
        rlx_value_id by = ox_scalar(o, RLX_DTYPE_U8, (double)(i * (uint32_t)bits));
        rlx_value_id ones = ox_scalar(o, RLX_DTYPE_U8, (double)((1 << bits) - 1));
        parts[i] = ox_binary(o, RLX_OP_BIT_AND, ox_binary(o, RLX_OP_SHIFT_RIGHT, x, by), ones);
    }
    return ox_reshape(o, ox_concat(o, parts, count, 2), flat, 2);
}

/* The weights as floats [N][K], by graph ops. */
static rlx_value_id decoded(ox *o, const packed *p, rlx_dtype dtype) {
    const int64_t blocks[] = {p->n, p->blocks, p->size}, each[] = {p->n, p->blocks, 1};
    const int64_t rows[] = {p->n, p->blocks * p->size};
    rlx_value_id zero = ox_scalar(o, dtype, (double)(1 << (p->bits - 1)));
    rlx_value_id w = unpacked(o, p->weights, p->n, p->row_bytes, p->bits);
    w = ox_cast(o, ox_reshape(o, w, blocks, 3), dtype);
    if (p->zeros != RLX_NONE && ox_dtype(o, p->zeros) == RLX_DTYPE_U8) {
        zero = unpacked(o, p->zeros, p->n, p->zero_bytes, p->bits);
        zero = ox_slice(o, zero, 1, 0, p->blocks, 1);
    } else if (p->zeros != RLX_NONE) {
        zero = p->zeros;
    }
    if (p->zeros != RLX_NONE) zero = ox_cast(o, ox_reshape(o, zero, each, 3), dtype);
    w = ox_binary(o, RLX_OP_SUB, w, zero);
    w = ox_binary(o, RLX_OP_MUL, w, ox_cast(o, ox_reshape(o, p->scales, each, 3), dtype));
    w = ox_reshape(o, w, rows, 2);
    return p->k == rows[1] ? w : ox_slice(o, w, 1, 0, p->k, 1);
}

/* What a constant or weight holds, or NULL. */
static const void *bytes_of(ox *o, rlx_value_id value) {
    const rlx_value *info = &o->graph->values.items[value];
    uint64_t bytes = 0, elements = 0;
    if (info->kind == RLX_VALUE_CONSTANT) return info->data;
    if (info->kind != RLX_VALUE_PARAMETER) return NULL;
    ox_fail(o, rlx_type_bytes(&info->type, &bytes));
    ox_fail(o, rlx_shape_elements(&info->type.shape, &elements));
    void *data = ox_memory(o, bytes, 1);
    if (ox_ok(o))
        ox_fail(o, rlx_source_read(&info->weight->source, info->type.dtype, 0, elements, data));
    return ox_ok(o) ? data : NULL;
}

static int32_t number_at(const uint8_t *row, int64_t index, int64_t bits) {
    int64_t per_byte = 8 / bits;
    return row[index / per_byte] >> (index % per_byte * bits) & ((1 << bits) - 1);
}

typedef struct contents {
    const uint8_t *zeros; /* NULL where all are in the middle */
    const void *scales;
    rlx_dtype scale_dtype;
} contents;

static int32_t zero_at(const packed *p, const contents *c, int64_t row, int64_t block) {
    if (c->zeros == NULL) return 1 << (p->bits - 1);
    return number_at(c->zeros + row * p->zero_bytes, block, p->bits);
}

/* Whether 16 bits hold every scale with all their digits. */
static bool fits_f16(const packed *p, const contents *c) {
    for (int64_t i = 0; i < p->n * p->blocks; i++) {
        double scale = fabs(rlx_load_f64(c->scale_dtype, c->scales, i));
        if (!(scale == 0 || (scale >= 0x1p-14 && scale <= 65504))) return false;
    }
    return true;
}

/* q4_0 where every weight less its zero point is in -8 .. 7, q8_0 where it fits i8. */
static bool choose_dtype(const packed *p, const contents *c, rlx_dtype *out_dtype) {
    int32_t top = (1 << p->bits) - 1, least = 0, most = 0;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t b = 0; b < p->blocks; b++) {
            int32_t zero = zero_at(p, c, i, b);
            if (-zero < least) least = -zero;
            if (top - zero > most) most = top - zero;
        }
    }
    *out_dtype = least >= -8 && most <= 7 ? RLX_DTYPE_Q4_0 : RLX_DTYPE_Q8_0;
    return least >= -128 && most <= 127;
}

enum { BLOCK = 32 };

/* 32 weights of a row, from `first` on. */
static void fill_block(const packed *p, const contents *c, const uint8_t *from, int64_t row,
                       int64_t first, rlx_dtype dtype, uint8_t *block) {
    int64_t at = first / p->size;
    int32_t zero = zero_at(p, c, row, at);
    uint8_t scale[2];
    rlx_store_f64(RLX_DTYPE_F16, scale, 0,
                  rlx_load_f64(c->scale_dtype, c->scales, row * p->blocks + at));
    memcpy(block, scale, sizeof scale);
    for (int64_t i = 0; i < BLOCK; i++) {
        int32_t number = number_at(from, first + i, p->bits) - zero;
        if (dtype == RLX_DTYPE_Q8_0) {
            block[2 + i] = (uint8_t)number;
        } else if (i < BLOCK / 2) {
            block[2 + i] = (uint8_t)(number + 8);
        } else {
            block[2 + i - BLOCK / 2] |= (uint8_t)((number + 8) << 4);
        }
    }
}

/* Where a weight lies in a file; NULL: elsewhere. */
static const rlx_source *file_source(const ox *o, rlx_value_id value) {
    const rlx_value *info = &o->graph->values.items[value];
    if (info->kind != RLX_VALUE_PARAMETER) return NULL;
    return info->weight->source.kind == RLX_SOURCE_FILE ? &info->weight->source : NULL;
}

/* What an earlier build made of the same places in the same file. */
static const rlx_onnx_blocks *find_blocks(const ox *o, const packed *p) {
    const rlx_source *weights = file_source(o, p->weights), *scales = file_source(o, p->scales);
    const rlx_onnx_blocks *at = o->lasting->blocks;
    if (weights == NULL || scales == NULL) return NULL;
    while (at != NULL && (at->path == NULL || strcmp(at->path, weights->path) != 0 ||
                          at->offset != weights->offset || at->scale_offset != scales->offset))
        at = at->next;
    return at;
}

/* Memory of the model for the blocks, and where they are from. */
static rlx_onnx_blocks *new_blocks(ox *o, const packed *p, rlx_dtype dtype) {
    rlx_scratch *memory = &o->lasting->memory;
    const rlx_source *weights = file_source(o, p->weights), *scales = file_source(o, p->scales);
    rlx_type type = rlx_type_make(dtype, (const int64_t[]){p->n, p->k}, 2);
    rlx_onnx_blocks *made = NULL;
    uint64_t bytes = 0;
    ox_fail(o, rlx_type_bytes(&type, &bytes));
    if (ox_ok(o)) ox_fail(o, rlx_scratch_alloc(memory, sizeof *made, (void **)&made));
    if (!ox_ok(o)) return NULL;
    *made = (rlx_onnx_blocks){.dtype = dtype, .bytes = bytes, .next = o->lasting->blocks};
    ox_fail(o, rlx_scratch_alloc(memory, bytes, &made->data));
    if (ox_ok(o) && weights != NULL && scales != NULL) {
        made->offset = weights->offset;
        made->scale_offset = scales->offset;
        ox_fail(o, rlx_scratch_text(memory, weights->path, strlen(weights->path), &made->path));
    }
    return ox_ok(o) ? made : NULL;
}

/* Rows `first` .. of the weights, in memory: those of a file are read into `buffer`. */
static const uint8_t *rows_at(ox *o, const packed *p, int64_t first, int64_t count, void *buffer) {
    const rlx_value *info = &o->graph->values.items[p->weights];
    if (info->kind == RLX_VALUE_CONSTANT) return (const uint8_t *)info->data + first * p->row_bytes;
    ox_fail(o,
            rlx_source_read(&info->weight->source, RLX_DTYPE_U8, (uint64_t)(first * p->row_bytes),
                            (uint64_t)(count * p->row_bytes), buffer));
    return buffer;
}

static void fill_blocks(ox *o, const packed *p, const contents *c, rlx_onnx_blocks *made) {
    int64_t step = (1 << 20) / p->row_bytes + 1,
            block_bytes = made->dtype == RLX_DTYPE_Q4_0 ? 18 : 34;
    if (step > p->n) step = p->n;
    void *buffer = ox_memory(o, (uint64_t)(step * p->row_bytes), 1);
    uint8_t *block = made->data;
    for (int64_t first = 0; first < p->n && ox_ok(o); first += step) {
        int64_t count = step < p->n - first ? step : p->n - first;
        const uint8_t *rows = rows_at(o, p, first, count, buffer);
        for (int64_t i = 0; i < count && ox_ok(o); i++) {
            for (int64_t k = 0; k < p->k; k += BLOCK, block += block_bytes)
                fill_block(p, c, rows + i * p->row_bytes, first + i, k, made->dtype, block);
        }
    }
}

/* Makes the blocks in memory of the model, where other builds find them again. NULL: they do not
 * fit a block type. */
static const rlx_onnx_blocks *make_blocks(ox *o, const packed *p) {
    rlx_value_kind kind = o->graph->values.items[p->weights].kind;
    const contents c = {.zeros = p->zeros == RLX_NONE ? NULL : bytes_of(o, p->zeros),
                        .scales = bytes_of(o, p->scales),
                        .scale_dtype = ox_dtype(o, p->scales)};
    rlx_dtype dtype = RLX_DTYPE_Q8_0;
    bool is_known = kind == RLX_VALUE_CONSTANT || kind == RLX_VALUE_PARAMETER;
    if (!ox_ok(o) || !is_known || c.scales == NULL || (p->zeros != RLX_NONE && c.zeros == NULL) ||
        !fits_f16(p, &c) || !choose_dtype(p, &c, &dtype))
        return NULL;
    rlx_onnx_blocks *made = new_blocks(o, p, dtype);
    if (made != NULL) fill_blocks(o, p, &c, made);
    if (!ox_ok(o)) return NULL;
    o->lasting->blocks = made;
    return made;
}

/* The weights in a block type, or RLX_NONE where that does not hold them. */
static rlx_value_id in_blocks(ox *o, const packed *p) {
    rlx_value_id value = RLX_NONE;
    bool has_float_zeros = p->zeros != RLX_NONE && ox_dtype(o, p->zeros) != RLX_DTYPE_U8;
    if (!ox_ok(o) || p->k % BLOCK != 0 || p->size % BLOCK != 0 || has_float_zeros) return RLX_NONE;
    const rlx_onnx_blocks *made = find_blocks(o, p);
    if (made == NULL) made = make_blocks(o, p);
    if (made == NULL) return RLX_NONE;
    const rlx_source source = {
        .kind = RLX_SOURCE_MEMORY, .memory = made->data, .bytes = made->bytes};
    const rlx_shape shape = {.rank = 2, .dims = {p->n, p->k}};
    ox_fail(o, rlx_graph_add_parameter(o->graph, NULL, made->dtype, shape, &source, &value));
    o->lends_memory = true;
    return value;
}

void rlx_ox_matmul_nbits(ox *o) {
    const rlx_matmul_attrs attrs = {.transpose_b = true};
    rlx_value_id inputs[] = {ox_in(o, 0), RLX_NONE, ox_maybe(o, 5)};
    const packed p = read_packed(o);
    if (ox_ok(o) && !ox_is_float(o, inputs[0])) ox_invalid(o, "input 0 holds no floats");
    if (!ox_ok(o)) return;
    inputs[1] = in_blocks(o, &p);
    if (inputs[1] == RLX_NONE) inputs[1] = decoded(o, &p, ox_dtype(o, inputs[0]));
    ox_give(o, 0, ox_node(o, RLX_OP_MATMUL, &attrs, inputs, inputs[2] == RLX_NONE ? 2 : 3));
}
