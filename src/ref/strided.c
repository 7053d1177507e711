/* SPDX-License-Identifier: Apache-2.0 */
/* Strided walks: merging of dims, and the inner runs of copy, convert and fill. Knows units and
 * strides, nothing of ops. */
#include "ref/strided.h"

#include "ir/dtype.h"

int64_t rlx_unit_elements(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row->class_ == RLX_CLASS_BLOCK ? row->block_elements : 1;
}

uint32_t rlx_unit_bytes(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row->class_ != RLX_CLASS_BLOCK && row->block_elements == 2 ? 0 : row->block_bytes;
}

/* Appends a dim, merged into the one before where the two make one run. */
static void push_dim(rlx_walk *walk, int64_t dim, int64_t stride) {
    if (dim == 1) return;
    if (walk->rank > 0 && walk->strides[walk->rank - 1] == dim * stride) {
        walk->dims[walk->rank - 1] *= dim;
        walk->strides[walk->rank - 1] = stride;
        return;
    }
    walk->dims[walk->rank] = dim;
    walk->strides[walk->rank] = stride;
    walk->rank++;
}

void rlx_walk_init(rlx_walk *walk, rlx_dtype dtype, const void *data, int64_t offset, uint32_t rank,
                   const int64_t *dims, const int64_t *strides) {
    int64_t unit = rlx_unit_elements(dtype);
    walk->data = (uint8_t *)(uintptr_t)data; /* of a source: only read */
    walk->dtype = dtype;
    walk->unit_bytes = rlx_unit_bytes(dtype);
    walk->rank = 0;
    for (uint32_t i = 0; i < rank; i++) {
        bool is_blocks = unit != 1 && i + 1 == rank;
        push_dim(walk, is_blocks ? dims[i] / unit : dims[i],
                 is_blocks ? strides[i] : strides[i] / unit);
    }
    if (walk->rank == 0) {
        walk->dims[0] = 1;
        walk->strides[0] = 1;
        walk->rank = 1;
    }
    rlx_walk_restart(walk, offset / unit);
}

void rlx_walk_seek(rlx_walk *walk, int64_t index) {
    walk->offset = walk->base;
    for (uint32_t i = walk->rank; i-- > 0;) {
        walk->at[i] = i > 0 ? index % walk->dims[i] : index;
        index = i > 0 ? index / walk->dims[i] : 0;
        walk->offset += walk->at[i] * walk->strides[i];
    }
}

void rlx_walk_advance(rlx_walk *walk, int64_t count) {
    uint32_t i = walk->rank - 1;
    walk->at[i] += count;
    walk->offset += count * walk->strides[i];
    while (i > 0 && walk->at[i] == walk->dims[i]) {
        walk->offset -= walk->dims[i] * walk->strides[i];
        walk->at[i] = 0;
        i--;
        walk->at[i]++;
        walk->offset += walk->strides[i];
    }
}

static int64_t stride_of(const rlx_walk *walk) {
    return walk->strides[walk->rank - 1];
}

static void copy_nibbles(rlx_walk *to, const rlx_walk *from, int64_t count) {
    int64_t done = 0, into = stride_of(to), out_of = stride_of(from);
    if (into == 1 && out_of == 1 && to->offset % 2 == 0 && from->offset % 2 == 0) {
        memcpy(to->data + to->offset / 2, from->data + from->offset / 2, (size_t)(count / 2));
        done = count & ~(int64_t)1;
    }
    for (; done < count; done++) {
        rlx_store_i64(RLX_DTYPE_U4, to->data, to->offset + done * into,
                      rlx_load_i64(RLX_DTYPE_U4, from->data, from->offset + done * out_of));
    }
}

/* memcpy of a constant size is one load and one store, at any alignment. */
#define COPY_STRIDED(size)              \
    for (int64_t i = 0; i < count; i++) \
    memcpy(destination + i * into * (size), source + i * out_of * (size), (size))

static void copy_run(rlx_walk *to, const rlx_walk *from, int64_t count) {
    int64_t bytes = to->unit_bytes, into = stride_of(to), out_of = stride_of(from);
    if (bytes == 0) {
        copy_nibbles(to, from, count);
        return;
    }
    uint8_t *destination = to->data + to->offset * bytes;
    const uint8_t *source = from->data + from->offset * bytes;
    if (count == 1 || (into == 1 && out_of == 1)) {
        memcpy(destination, source, (size_t)(count * bytes));
        return;
    }
    switch (bytes) {
    case 1:
        COPY_STRIDED(1);
        return;
    case 2:
        COPY_STRIDED(2);
        return;
    case 4:
        COPY_STRIDED(4);
        return;
    case 8:
        COPY_STRIDED(8);
        return;
    default:
        COPY_STRIDED(bytes);
        return;
    }
}

static int64_t shared_run(const rlx_walk *a, const rlx_walk *b, int64_t count) {
    int64_t run = rlx_walk_run(a) < rlx_walk_run(b) ? rlx_walk_run(a) : rlx_walk_run(b);
    return run < count ? run : count;
}

void rlx_walk_copy(rlx_walk *to, rlx_walk *from, int64_t count) {
    while (count > 0) {
        int64_t run = shared_run(to, from, count);
        copy_run(to, from, run);
        rlx_walk_advance(to, run);
        rlx_walk_advance(from, run);
        count -= run;
    }
}

static void convert_run(rlx_walk *to, const rlx_walk *from, int64_t count) {
    int64_t into = stride_of(to), out_of = stride_of(from);
    if (from->dtype == RLX_DTYPE_F32 && into == 1 && out_of == 1) {
        const uint8_t *source = from->data + from->offset * 4;
        rlx_dtype_row_of(to->dtype)->encode(to->data + to->offset * to->unit_bytes,
                                            (const float *)(const void *)source, (uint64_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        rlx_store_f64(to->dtype, to->data, to->offset + i * into,
                      rlx_load_f64(from->dtype, from->data, from->offset + i * out_of));
    }
}

/* Blocks become f32, one block at a time: `to` may be strided, and a block is at most 256. */
static void decode_block(rlx_walk *to, const rlx_walk *from) {
    const rlx_dtype_row *row = rlx_dtype_row_of(from->dtype);
    float values[256];
    rlx_walk block;
    int64_t dim = row->block_elements, stride = 1;
    row->decode(values, from->data + from->offset * from->unit_bytes, row->block_elements);
    rlx_walk_init(&block, RLX_DTYPE_F32, values, 0, 1, &dim, &stride);
    rlx_walk_copy(to, &block, dim);
}

void rlx_walk_convert(rlx_walk *to, rlx_walk *from, int64_t count) {
    if (rlx_unit_elements(from->dtype) != 1) {
        for (; count > 0; count--) {
            decode_block(to, from);
            rlx_walk_step(from);
        }
        return;
    }
    while (count > 0) {
        int64_t run = shared_run(to, from, count);
        convert_run(to, from, run);
        rlx_walk_advance(to, run);
        rlx_walk_advance(from, run);
        count -= run;
    }
}

void rlx_walk_fill(rlx_walk *to, const void *unit, int64_t offset, int64_t count) {
    rlx_walk one;
    rlx_walk_init(&one, to->dtype, unit, offset, 1, &count, &(int64_t){0});
    rlx_walk_copy(to, &one, count);
}
