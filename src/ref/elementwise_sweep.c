/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeping over the elements of an elementwise op, and moving runs of them between tensors of any
 * strides and tiles of lanes. Nothing here computes. */
#include "ref/elementwise.h"

static int64_t axis_stride(const rlx_tensor *tensor, uint32_t out_rank, uint32_t out_axis) {
    uint32_t missing = out_rank - tensor->rank;
    if (out_axis < missing) return 0;
    uint32_t axis = out_axis - missing;
    return tensor->dims[axis] == 1 ? 0 : tensor->strides[axis];
}

int64_t rlx_sweep_stride(const rlx_sweep *sweep, const rlx_tensor *tensor, uint32_t dim) {
    if (sweep->axes[dim] == RLX_MAX_RANK) return 0;
    return axis_stride(tensor, sweep->out_rank, sweep->axes[dim]);
}

/* Whether output axes `outer` and `inner` step through every tensor like one. */
static bool axes_merge(const rlx_kernel_args *args, uint32_t outer, uint32_t inner) {
    const rlx_tensor *out = &args->out[0];
    int64_t dim = out->dims[inner];
    if (out->strides[outer] != out->strides[inner] * dim) return false;
    for (uint32_t i = 0; i < args->in_count; i++) {
        const rlx_tensor *in = &args->in[i];
        if (axis_stride(in, out->rank, outer) != axis_stride(in, out->rank, inner) * dim)
            return false;
    }
    return true;
}

rlx_sweep rlx_sweep_make(const rlx_kernel_args *args) {
    const rlx_tensor *out = &args->out[0];
    rlx_sweep sweep = {.rank = 0, .out_rank = out->rank};
    for (uint32_t axis = 0; axis < out->rank; axis++) {
        if (out->dims[axis] == 1) continue;
        if (sweep.rank > 0 && axes_merge(args, sweep.axes[sweep.rank - 1], axis)) {
            sweep.dims[sweep.rank - 1] *= out->dims[axis];
            sweep.axes[sweep.rank - 1] = axis;
            continue;
        }
        sweep.dims[sweep.rank] = out->dims[axis];
        sweep.axes[sweep.rank++] = axis;
    }
    if (sweep.rank == 0) {
        sweep.rank = 1;
        sweep.dims[0] = 1;
        sweep.axes[0] = RLX_MAX_RANK;
    }
    return sweep;
}

void rlx_sweep_seek(const rlx_sweep *sweep, int64_t index, int64_t *out_at) {
    for (uint32_t dim = sweep->rank; dim-- > 0;) {
        out_at[dim] = index % sweep->dims[dim];
        index /= sweep->dims[dim];
    }
}

int64_t rlx_sweep_offset(const rlx_sweep *sweep, const rlx_tensor *tensor, const int64_t *at) {
    int64_t offset = 0;
    for (uint32_t dim = 0; dim < sweep->rank; dim++)
        offset += at[dim] * rlx_sweep_stride(sweep, tensor, dim);
    return offset;
}

void rlx_sweep_step(const rlx_sweep *sweep, int64_t *at, int64_t count) {
    at[sweep->rank - 1] += count;
    for (uint32_t dim = sweep->rank - 1; dim > 0 && at[dim] >= sweep->dims[dim]; dim--) {
        at[dim] = 0;
        at[dim - 1]++;
    }
}

/* How many of `count` elements lie in the current row. */
static int64_t run_length(const rlx_sweep *sweep, const int64_t *at, int64_t count) {
    int64_t left = sweep->dims[sweep->rank - 1] - at[sweep->rank - 1];
    return left < count ? left : count;
}

static bool is_nibble(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I4 || dtype == RLX_DTYPE_U4;
}

static bool is_block(rlx_dtype dtype) {
    return rlx_dtype_row_of(dtype)->class_ == RLX_CLASS_BLOCK;
}

/* Elements of 1, 2, 4 or 8 bytes from one spacing to another. */
#define MOVE(type)                                                                        \
    for (int64_t i = 0; i < count; i++) {                                                 \
        type value;                                                                       \
        memcpy(&value, source + i * source_stride * (int64_t)sizeof value, sizeof value); \
        memcpy(target + i * target_stride * (int64_t)sizeof value, &value, sizeof value); \
    }                                                                                     \
    break;

static void move_elements(char *target, int64_t target_stride, const char *source,
                          int64_t source_stride, int64_t count, uint32_t bytes) {
    if (target_stride == 1 && source_stride == 1) {
        memmove(target, source, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1:
        MOVE(uint8_t)
    case 2:
        MOVE(uint16_t)
    case 4:
        MOVE(uint32_t)
    default:
        MOVE(uint64_t)
    }
}
#undef MOVE

#define WIDEN(type, lane_type)                                            \
    RLX_TILE_LOOP for (int64_t i = 0; i < count; i++) {                   \
        type value;                                                       \
        memcpy(&value, source + i * (int64_t)sizeof value, sizeof value); \
        ((lane_type *)lanes)[i] = (lane_type)value;                       \
    }                                                                     \
    return;

void rlx_tile_decode(rlx_dtype dtype, const char *source, int64_t count, void *lanes) {
    switch (dtype) {
    case RLX_DTYPE_F64:
    case RLX_DTYPE_I64:
    case RLX_DTYPE_U64:
        memcpy(lanes, source, (size_t)count * 8);
        return;
    case RLX_DTYPE_I8:
        WIDEN(int8_t, int64_t)
    case RLX_DTYPE_I16:
        WIDEN(int16_t, int64_t)
    case RLX_DTYPE_I32:
        WIDEN(int32_t, int64_t)
    case RLX_DTYPE_U8:
        WIDEN(uint8_t, uint64_t)
    case RLX_DTYPE_U16:
        WIDEN(uint16_t, uint64_t)
    case RLX_DTYPE_U32:
        WIDEN(uint32_t, uint64_t)
    case RLX_DTYPE_BOOL:
        for (int64_t i = 0; i < count; i++)
            ((uint64_t *)lanes)[i] = source[i] != 0;
        return;
    default:
        rlx_dtype_row_of(dtype)->decode(lanes, source, (uint64_t)count);
    }
}
#undef WIDEN

#define NARROW(type)                                                      \
    RLX_TILE_LOOP for (int64_t i = 0; i < count; i++) {                   \
        type value = (type)((const uint64_t *)lanes)[i];                  \
        memcpy(target + i * (int64_t)sizeof value, &value, sizeof value); \
    }                                                                     \
    return;

void rlx_tile_encode(rlx_dtype dtype, char *target, int64_t count, const void *lanes) {
    switch (dtype) {
    case RLX_DTYPE_F64:
    case RLX_DTYPE_I64:
    case RLX_DTYPE_U64:
        memcpy(target, lanes, (size_t)count * 8);
        return;
    case RLX_DTYPE_I8:
    case RLX_DTYPE_U8:
    case RLX_DTYPE_BOOL:
        NARROW(uint8_t)
    case RLX_DTYPE_I16:
    case RLX_DTYPE_U16:
        NARROW(uint16_t)
    case RLX_DTYPE_I32:
    case RLX_DTYPE_U32:
        NARROW(uint32_t)
    default:
        rlx_dtype_row_of(dtype)->encode(target, lanes, (uint64_t)count);
    }
}
#undef NARROW

/* Elements of a block type from any offset: blocks are decoded whole. */
static void load_blocks(rlx_dtype dtype, const char *data, int64_t offset, int64_t count,
                        float *lanes) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    float values[RLX_TILE];
    while (count > 0) {
        int64_t block = offset / row->block_elements, first = offset % row->block_elements;
        int64_t taken = row->block_elements - first < count ? row->block_elements - first : count;
        row->decode(values, data + block * row->block_bytes, row->block_elements);
        memcpy(lanes, values + first, (size_t)taken * sizeof(float));
        lanes += taken;
        offset += taken;
        count -= taken;
    }
}

static void fill_lanes(char *lanes, uint32_t lane_bytes, int64_t count) {
    if (lane_bytes == 4) {
        float value, *all = (float *)(void *)lanes;
        memcpy(&value, lanes, 4);
        for (int64_t i = 0; i < count; i++)
            all[i] = value;
    } else {
        uint64_t value, *all = (uint64_t *)(void *)lanes;
        memcpy(&value, lanes, 8);
        for (int64_t i = 0; i < count; i++)
            all[i] = value;
    }
}

static void load_run(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                     char *lanes) {
    rlx_dtype dtype = tensor->dtype;
    uint32_t bytes = rlx_dtype_block_bytes(dtype);
    char gathered[RLX_TILE_BYTES];
    if (is_block(dtype)) {
        load_blocks(dtype, tensor->data, offset, count, (float *)(void *)lanes);
    } else if (is_nibble(dtype)) {
        for (int64_t i = 0; i < count; i++)
            ((int64_t *)(void *)lanes)[i] = rlx_load_i64(dtype, tensor->data, offset + i * stride);
    } else if (stride == 1 || count == 1) {
        rlx_tile_decode(dtype, (const char *)tensor->data + offset * bytes, count, lanes);
    } else if (stride == 0) {
        rlx_tile_decode(dtype, (const char *)tensor->data + offset * bytes, 1, lanes);
        fill_lanes(lanes, rlx_lane_bytes(rlx_lane_of(dtype)), count);
    } else {
        move_elements(gathered, 1, (const char *)tensor->data + offset * bytes, stride, count,
                      bytes);
        rlx_tile_decode(dtype, gathered, count, lanes);
    }
}

/* Where `count` elements from `at` on lie as lanes in the tensor itself, or NULL. */
static void *own_lanes(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                       uint32_t count) {
    rlx_dtype dtype = tensor->dtype;
    if (dtype != RLX_DTYPE_F32 && dtype != RLX_DTYPE_F64 && dtype != RLX_DTYPE_I64 &&
        dtype != RLX_DTYPE_U64)
        return NULL;
    uint32_t bytes = rlx_dtype_block_bytes(dtype);
    if ((uintptr_t)tensor->data % bytes != 0) return NULL;
    if (run_length(sweep, at, count) < count) return NULL;
    if (count > 1 && rlx_sweep_stride(sweep, tensor, sweep->rank - 1) != 1) return NULL;
    return (char *)tensor->data + rlx_sweep_offset(sweep, tensor, at) * bytes;
}

const void *rlx_tile_load(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                          uint32_t count, void *lanes) {
    const void *own = own_lanes(sweep, at, tensor, count);
    if (own != NULL) return own;
    int64_t position[RLX_MAX_RANK];
    int64_t stride = rlx_sweep_stride(sweep, tensor, sweep->rank - 1);
    uint32_t lane_bytes = rlx_lane_bytes(rlx_lane_of(tensor->dtype));
    memcpy(position, at, sizeof position);
    for (int64_t done = 0; done < count;) {
        int64_t run = run_length(sweep, position, count - done);
        load_run(tensor, rlx_sweep_offset(sweep, tensor, position), stride, run,
                 (char *)lanes + done * lane_bytes);
        rlx_sweep_step(sweep, position, run);
        done += run;
    }
    return lanes;
}

void *rlx_tile_target(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                      uint32_t count) {
    return own_lanes(sweep, at, tensor, count);
}

static void store_run(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      const char *lanes) {
    rlx_dtype dtype = tensor->dtype;
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    char encoded[RLX_TILE_BYTES];
    char *target = (char *)tensor->data + offset / row->block_elements * row->block_bytes;
    if (is_nibble(dtype)) {
        for (int64_t i = 0; i < count; i++) {
            int64_t value = ((const int64_t *)(const void *)lanes)[i];
            rlx_store_i64(dtype, tensor->data, offset + i * stride, value);
        }
    } else if (stride == 1 || count == 1) {
        rlx_tile_encode(dtype, target, count, lanes);
    } else {
        rlx_tile_encode(dtype, encoded, count, lanes);
        move_elements(target, stride, encoded, 1, count, row->block_bytes);
    }
}

void rlx_tile_store(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                    uint32_t count, const void *lanes) {
    int64_t position[RLX_MAX_RANK];
    int64_t stride = rlx_sweep_stride(sweep, tensor, sweep->rank - 1);
    uint32_t lane_bytes = rlx_lane_bytes(rlx_lane_of(tensor->dtype));
    memcpy(position, at, sizeof position);
    for (int64_t done = 0; done < count;) {
        int64_t run = run_length(sweep, position, count - done);
        store_run(tensor, rlx_sweep_offset(sweep, tensor, position), stride, run,
                  (const char *)lanes + done * lane_bytes);
        rlx_sweep_step(sweep, position, run);
        done += run;
    }
}

void rlx_tile_round(rlx_dtype dtype, void *lanes, uint32_t count) {
    char narrow[RLX_TILE_BYTES];
    if (dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F64 || dtype == RLX_DTYPE_BOOL) return;
    if (rlx_lane_of(dtype) == RLX_LANE_F32) {
        rlx_dtype_row_of(dtype)->encode(narrow, lanes, count);
        rlx_dtype_row_of(dtype)->decode(lanes, narrow, count);
        return;
    }
    uint32_t spare = 64 - rlx_dtype_bits(dtype);
    uint64_t *u = lanes;
    int64_t *s = lanes;
    if (rlx_lane_of(dtype) == RLX_LANE_U64) {
        for (uint32_t i = 0; i < count; i++)
            u[i] = u[i] << spare >> spare;
    } else {
        for (uint32_t i = 0; i < count; i++)
            s[i] = (int64_t)((uint64_t)s[i] << spare) >> spare;
    }
}
