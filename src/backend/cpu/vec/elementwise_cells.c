/* SPDX-License-Identifier: Apache-2.0 */
/* Moving elements between tensors of any strides and tiles of cells. Nothing here computes. */
#include "backend/cpu/vec/elementwise.h"

#include "backend/cpu/vec/transpose.h"
#include "ref/elementwise.h"

void vec_widen(rlx_dtype dtype, float *to, const void *from, int64_t count) {
    const uint16_t *source = from;
    int64_t i = 0;
    if (dtype == RLX_DTYPE_F16) {
        for (; i + VF <= count; i += VF)
            vf_store(to + i, vf_of_f16(vh_load(source + i)));
        if (i < count) vf_store_n(to + i, vf_of_f16(vh_load_n(source + i, count - i)), count - i);
    } else {
        for (; i + VF <= count; i += VF)
            vf_store(to + i, vf_of_bf16(vh_load(source + i)));
        if (i < count) vf_store_n(to + i, vf_of_bf16(vh_load_n(source + i, count - i)), count - i);
    }
}

void vec_narrow(rlx_dtype dtype, void *to, const float *from, int64_t count) {
    uint16_t *target = to;
    int64_t i = 0;
    if (dtype == RLX_DTYPE_F16) {
        for (; i + VF <= count; i += VF)
            vh_store(target + i, f16_of_vf(vf_load(from + i)));
        if (i < count) vh_store_n(target + i, f16_of_vf(vf_load_n(from + i, count - i)), count - i);
    } else {
        for (; i + VF <= count; i += VF)
            vh_store(target + i, bf16_of_vf(vf_load(from + i)));
        if (i < count)
            vh_store_n(target + i, bf16_of_vf(vf_load_n(from + i, count - i)), count - i);
    }
}

static void round_f16(float *cells, int64_t count) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        vf_store(cells + i, vf_of_f16(f16_of_vf(vf_load(cells + i))));
    if (i < count)
        vf_store_n(cells + i, vf_of_f16(f16_of_vf(vf_load_n(cells + i, count - i))), count - i);
}

static void round_bf16(float *cells, int64_t count) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        vf_store(cells + i, vf_of_bf16(bf16_of_vf(vf_load(cells + i))));
    if (i < count)
        vf_store_n(cells + i, vf_of_bf16(bf16_of_vf(vf_load_n(cells + i, count - i))), count - i);
}

void vec_round_cells(rlx_dtype dtype, void *cells, int64_t count) {
    int8_t *small = cells;
    if (dtype == vec_cell_of(dtype)) return;
    switch (dtype) {
    case RLX_DTYPE_F16:
        round_f16(cells, count);
        return;
    case RLX_DTYPE_BF16:
        round_bf16(cells, count);
        return;
    case RLX_DTYPE_I4:
        for (int64_t i = 0; i < count; i++)
            small[i] = (int8_t)((int8_t)((uint8_t)small[i] << 4) >> 4);
        return;
    case RLX_DTYPE_U4:
        for (int64_t i = 0; i < count; i++)
            small[i] &= 15;
        return;
    default: /* the lanes of scalar C are cells: f32 */
        for (int64_t i = 0; i < count; i += RLX_TILE) {
            int64_t left = count - i < RLX_TILE ? count - i : RLX_TILE;
            rlx_tile_round(dtype, (float *)cells + i, (uint32_t)left);
        }
    }
}

void vec_copy_past(void *to, const void *from, int64_t bytes) {
    char *target = to;
    const char *source = from;
    /* To the next whole vector: rows may begin anywhere. */
    int64_t head = (int64_t)(-(uintptr_t)target % RLX_VEC_BYTES), i;
    if (head > bytes) head = bytes;
    memcpy(target, source, (size_t)head);
    for (i = head; i + RLX_VEC_BYTES <= bytes; i += RLX_VEC_BYTES) {
        vf x;
        memcpy(&x, source + i, sizeof x);
        vf_stream((float *)(void *)(target + i), x);
    }
    memcpy(target + i, source + i, (size_t)(bytes - i));
}

#define GATHER(type)                    \
    for (int64_t i = 0; i < count; i++) \
        memcpy((type *)to + i, from + i * stride * (int64_t)sizeof(type), sizeof(type));
#define SCATTER(type)                   \
    for (int64_t i = 0; i < count; i++) \
        memcpy(to + i * stride * (int64_t)sizeof(type), (const type *)from + i, sizeof(type));
#define FILL(type)                          \
    do {                                    \
        type value, *cells = to;            \
        memcpy(&value, from, sizeof value); \
        for (int64_t i = 0; i < count; i++) \
            cells[i] = value;               \
    } while (0)

/* Elements `stride` apart to side by side. */
static void gather(void *to, const char *from, int64_t stride, int64_t count, uint32_t bytes) {
    if (stride == 1) {
        memcpy(to, from, (size_t)count * bytes);
    } else if (stride == 0) {
        switch (bytes) {
        case 1:
            FILL(uint8_t);
            break;
        case 2:
            FILL(uint16_t);
            break;
        case 4:
            FILL(uint32_t);
            break;
        default:
            FILL(uint64_t);
        }
    } else {
        switch (bytes) {
        case 1:
            GATHER(uint8_t)
            break;
        case 2:
            GATHER(uint16_t)
            break;
        case 4:
            GATHER(uint32_t)
            break;
        default:
            GATHER(uint64_t)
        }
    }
}

static void scatter(char *to, int64_t stride, const void *from, int64_t count, uint32_t bytes) {
    if (stride == 1) {
        memcpy(to, from, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1:
        SCATTER(uint8_t)
        break;
    case 2:
        SCATTER(uint16_t)
        break;
    case 4:
        SCATTER(uint32_t)
        break;
    default:
        SCATTER(uint64_t)
    }
}

/* A run of one row. 16-bit floats go through a small buffer where they are not side by side. */
static void load_run(const vec_operand *x, int64_t offset, int64_t stride, int64_t count,
                     char *to) {
    const char *from = (const char *)x->tensor->data + offset * x->bytes;
    uint16_t halves[256];
    if (x->has_cells) {
        gather(to, from, stride, count, x->bytes);
    } else if (stride == 1) {
        vec_widen(x->tensor->dtype, (float *)(void *)to, from, count);
    } else {
        for (int64_t done = 0; done < count; done += 256) {
            int64_t piece = count - done < 256 ? count - done : 256;
            gather(halves, from + done * stride * 2, stride, piece, 2);
            vec_widen(x->tensor->dtype, (float *)(void *)to + done, halves, piece);
        }
    }
}

static void store_run(const vec_operand *y, int64_t offset, int64_t stride, int64_t count,
                      const char *from) {
    char *to = (char *)y->tensor->data + offset * y->bytes;
    uint16_t halves[256];
    if (y->has_cells) {
        scatter(to, stride, from, count, y->bytes);
    } else if (stride == 1) {
        vec_narrow(y->tensor->dtype, to, (const float *)(const void *)from, count);
    } else {
        for (int64_t done = 0; done < count; done += 256) {
            int64_t piece = count - done < 256 ? count - done : 256;
            vec_narrow(y->tensor->dtype, halves, (const float *)(const void *)from + done, piece);
            scatter(to + done * stride * 2, stride, halves, piece, 2);
        }
    }
}

/* One after the other the runs of rows that `count` elements from `at` on are made of. */
typedef struct row_walk {
    const vec_sweep *sweep;
    const int64_t *strides;
    int64_t at[RLX_MAX_RANK];
    int64_t offset;
} row_walk;

static row_walk walk_from(const vec_sweep *sweep, const vec_operand *x, const int64_t *at) {
    row_walk walk = {.sweep = sweep, .strides = x->strides};
    for (uint32_t d = 0; d < sweep->rank; d++) {
        walk.at[d] = at[d];
        walk.offset += at[d] * x->strides[d];
    }
    return walk;
}

static int64_t run_length(const row_walk *walk, int64_t most) {
    uint32_t last = walk->sweep->rank - 1;
    int64_t left = walk->sweep->dims[last] - walk->at[last];
    return left < most ? left : most;
}

static void walk_on(row_walk *walk, int64_t count) {
    uint32_t d = walk->sweep->rank - 1;
    walk->at[d] += count;
    walk->offset += count * walk->strides[d];
    for (; d > 0 && walk->at[d] == walk->sweep->dims[d]; d--) {
        walk->offset += walk->strides[d - 1] - walk->at[d] * walk->strides[d];
        walk->at[d] = 0;
        walk->at[d - 1]++;
    }
}

/* Elements of a block type, side by side from any of them on: blocks are decoded whole. */
static void load_blocks(const rlx_tensor *tensor, int64_t offset, int64_t count, float *to) {
    const rlx_dtype_row *row = rlx_dtype_row_of(tensor->dtype);
    float values[256];
    while (count > 0) {
        int64_t block = offset / row->block_elements, first = offset % row->block_elements;
        int64_t taken = row->block_elements - first < count ? row->block_elements - first : count;
        row->decode(values, (const char *)tensor->data + block * row->block_bytes,
                    row->block_elements);
        memcpy(to, values + first, (size_t)taken * sizeof *to);
        to += taken, offset += taken, count -= taken;
    }
}

/* f8, blocks and 4-bit integers, by the codecs of src/ir. */
static void load_odd_run(const vec_operand *x, int64_t offset, int64_t stride, int64_t count,
                         char *to) {
    const rlx_tensor *tensor = x->tensor;
    const rlx_dtype_row *row = rlx_dtype_row_of(tensor->dtype);
    float *floats = (float *)(void *)to;
    if (x->cell != RLX_DTYPE_F32) {
        for (int64_t i = 0; i < count; i++)
            to[i] = (char)rlx_load_i64(tensor->dtype, tensor->data, offset + i * stride);
    } else if (stride != 1) {
        for (int64_t i = 0; i < count; i++)
            floats[i] = (float)rlx_load_f64(tensor->dtype, tensor->data, offset + i * stride);
    } else if (row->class_ == RLX_CLASS_BLOCK) {
        load_blocks(tensor, offset, count, floats);
    } else {
        row->decode(floats, (const char *)tensor->data + offset, (uint64_t)count);
    }
}

static void store_odd_run(const vec_operand *y, int64_t offset, int64_t stride, int64_t count,
                          const char *from) {
    const rlx_tensor *tensor = y->tensor;
    const rlx_dtype_row *row = rlx_dtype_row_of(tensor->dtype);
    const float *floats = (const float *)(const void *)from;
    if (y->cell != RLX_DTYPE_F32) {
        for (int64_t i = 0; i < count; i++)
            rlx_store_i64(tensor->dtype, tensor->data, offset + i * stride, from[i]);
    } else if (stride != 1) {
        for (int64_t i = 0; i < count; i++)
            row->encode((char *)tensor->data + offset + i * stride, floats + i, 1);
    } else {
        row->encode((char *)tensor->data + offset, floats, (uint64_t)count);
    }
}

/* A run of one row of any dtype. */
static void load_any_run(const vec_operand *x, int64_t offset, int64_t stride, int64_t count,
                         char *to) {
    if (x->bytes != 0) {
        load_run(x, offset, stride, count, to);
    } else {
        load_odd_run(x, offset, stride, count, to);
    }
}

/* Whole copies of the first `bytes`. */
static void repeat(char *cells, int64_t bytes, int64_t copies) {
    int64_t whole = bytes * copies;
    for (int64_t filled = bytes; filled < whole; filled *= 2) {
        int64_t piece = whole - filled < filled ? whole - filled : filled;
        memcpy(cells + filled, cells, (size_t)piece);
    }
}

/* Rows of one number each, by whole vectors: the next row takes back what was too much, and a tile
 * of four bytes per cell has room behind it. */
static void spread_rows(const float *from, int64_t apart, int64_t rows, int64_t row, float *to) {
    for (int64_t r = 0; r < rows; r++, to += row, from += apart) {
        vf all = vf_set(*from);
        int64_t i = 0;
        do {
            vf_store(to + i, all);
            i += VF;
        } while (i < row);
    }
}

/* Short rows: the last vector of one overlaps the one before it. */
static void copy_rows(const float *from, int64_t apart, int64_t rows, int64_t row, float *to) {
    for (int64_t r = 0; r < rows; r++, to += row, from += apart) {
        if (row < VF) {
            vf_store(to, vf_load_n(from, row));
            continue;
        }
        for (int64_t i = 0; i + VF <= row; i += VF)
            vf_store(to + i, vf_load(from + i));
        vf_store(to + row - VF, vf_load(from + row - VF));
    }
}

void vec_load_turned(const vec_operand *x, int64_t offset, int64_t apart, int64_t rows, int64_t row,
                     void *cells) {
    const uint8_t *from = (const uint8_t *)x->tensor->data + offset * x->bytes;
    uint8_t *to = cells;
    if (!x->has_cells) to += rows * row * 4; /* tiles have 8 bytes per cell */
    vec_transpose(x->bytes, to, row * x->bytes, from, apart * x->bytes, rows, row, VEC_TURN_NEAR);
    if (!x->has_cells) vec_widen(x->tensor->dtype, cells, to, rows * row);
}

/* Several whole rows, where they lie so that this is quicker than one by one; returns how many. */
static int64_t load_rows(const row_walk *walk, const vec_operand *x, int64_t most, char *to) {
    enum { SHORT_RUN = 64 };
    uint32_t last = walk->sweep->rank - 1;
    if (last == 0 || walk->at[last] != 0) return 0;
    int64_t row = walk->sweep->dims[last], across = walk->strides[last];
    int64_t rows = walk->sweep->dims[last - 1] - walk->at[last - 1], down = walk->strides[last - 1];
    bool is_word = x->has_cells && x->bytes == 4;
    const float *from = (const float *)x->tensor->data + walk->offset;
    if (most / row < rows) rows = most / row;
    if (rows == 0) return 0;
    if (across == 0 && is_word) {
        spread_rows(from, down, rows, row, (float *)(void *)to);
    } else if (down == 0) { /* as a factor per channel is beside channels in blocks */
        load_any_run(x, walk->offset, across, row, to);
        repeat(to, row * rlx_dtype_block_bytes(x->cell), rows);
    } else if (x->is_turned && rows > 1) {
        vec_load_turned(x, walk->offset, across, rows, row, to);
    } else if (across == 1 && is_word && row <= SHORT_RUN) {
        copy_rows(from, down, rows, row, (float *)(void *)to);
    } else {
        return 0;
    }
    return rows;
}

void vec_load_cells(const vec_sweep *sweep, const vec_operand *x, const int64_t *at, int64_t count,
                    void *cells) {
    row_walk walk = walk_from(sweep, x, at);
    int64_t stride = x->strides[sweep->rank - 1], size = rlx_dtype_block_bytes(x->cell);
    for (int64_t done = 0; done < count;) {
        char *to = (char *)cells + done * size;
        int64_t run = run_length(&walk, count - done), rows = load_rows(&walk, x, count - done, to);
        if (rows > 0) {
            walk.at[sweep->rank - 2] += rows - 1;
            walk.offset += (rows - 1) * x->strides[sweep->rank - 2];
        } else {
            load_any_run(x, walk.offset, stride, run, to);
            rows = 1;
        }
        walk_on(&walk, run);
        done += run * rows;
    }
}

void vec_store_cells(const vec_sweep *sweep, const vec_operand *y, const int64_t *at, int64_t count,
                     const void *cells) {
    row_walk walk = walk_from(sweep, y, at);
    int64_t stride = y->strides[sweep->rank - 1], size = rlx_dtype_block_bytes(y->cell);
    for (int64_t done = 0; done < count;) {
        int64_t run = run_length(&walk, count - done);
        if (y->bytes != 0) {
            store_run(y, walk.offset, stride, run, (const char *)cells + done * size);
        } else {
            store_odd_run(y, walk.offset, stride, run, (const char *)cells + done * size);
        }
        walk_on(&walk, run);
        done += run;
    }
}
