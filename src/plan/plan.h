/* SPDX-License-Identifier: Apache-2.0 */
/* The second waist from inside: what the compiler fills and the runtime eats. Arrays and indices
 * only; whatever is pointed to lives in the plan's own memory. Knows no graph and no device. */
#ifndef RLX_PLAN_PLAN_H
#define RLX_PLAN_PLAN_H

#include "base/vec.h"
#include "ir/op.h"
#include "ir/source.h"
#include "ir/tensor.h"

#include <rlx/plan.h>

enum {
    RLX_PLAN_ALIGNMENT = 64, /* least alignment of a buffer; targets may ask for more */
    RLX_FAULT_BYTES = 64,    /* the fault record: the first bytes of scratch, in every entry */
    RLX_PLAN_FAULT_CODES = 5 /* = RLX_FAULT_CODES of ref/kernel.h (a test compares them) */
};

/* As a buffer's entry: its life counts in the prepare steps. Prepare steps touch the segments
 * WEIGHTS and SOURCE only: there is no executable, so no state and no scratch, when they run. */
#define RLX_PLAN_PREPARE (UINT32_MAX - 1)

/* A piece of memory. Buffers of one segment that are live at the same time do not overlap. */
typedef struct rlx_plan_buffer {
    uint32_t segment;
    uint32_t entry; /* whose steps the life counts in; RLX_NONE: shared, always live. Scratch
                       belongs to an entry or is shared; weights and state are shared */
    uint64_t offset, bytes;
    uint32_t first_step, last_step; /* inclusive, numbers of the plan's steps; an entry without
                                       steps has lives of (its first_step, its first_step) */
} rlx_plan_buffer;

/* A value in memory: a buffer, or a view into one. */
typedef struct rlx_plan_slot {
    const char *name;
    uint32_t kind;     /* rlx_value_kind */
    rlx_layout layout; /* not plain: packed; strides are 0, no extents; a buffer of its own, or an
                          aligned part of weights or of a tile */
    uint32_t buffer;
    uint64_t byte_offset; /* in the buffer */
    rlx_dtype dtype;
    uint32_t rank;
    int64_t dims[RLX_MAX_RANK];
    int64_t strides[RLX_MAX_RANK];  /* in elements */
    uint32_t extents[RLX_MAX_RANK]; /* slot of an i64 scalar, or RLX_NONE */
} rlx_plan_slot;

typedef enum rlx_step_kind {
    RLX_STEP_KERNEL = 0,
    RLX_STEP_COPY, /* one input, one output, equal bytes, both plain */
    RLX_STEP_HOST, /* a kernel without device code: scalar C on mapped memory */
    RLX_STEP_JUMP,
    RLX_STEP_COLLECTIVE,
    RLX_STEP_STREAM, /* read: one output, the tile's slot; wait: the same slot as input */
    RLX_STEP_KIND_COUNT
} rlx_step_kind;

typedef struct rlx_plan_step {
    uint32_t kind;
    rlx_op op;          /* kernel, host */
    const char *name;   /* of the node, for messages and profiles */
    const char *kernel; /* name of the chosen kernel; "" for others */
    const char *reason; /* why it runs where it runs */
    const void *attrs;  /* the op's struct; lists inside point into the plan's memory */
    uint32_t operands_at, input_count, output_count; /* plan->operands: inputs, then outputs: slots
                                                        or RLX_NONE */
    uint32_t workspace;                              /* buffer, or RLX_NONE */
    uint64_t workspace_bytes;                        /* per worker */
    /* Jump: to step `target` when the bool at slot `condition` equals jump_if (RLX_NONE: always).
     * With a fault_code it does not jump: the run fails with that fault and the i64 at `value`. */
    uint32_t target, condition, jump_if, fault_code, value; /* stream: target is the tile */
    uint64_t flops, bytes; /* for profiles and for cutting stretches */
} rlx_plan_step;

/* A run of kernel and copy steps that a device gets as a whole. */
typedef struct rlx_plan_stretch {
    uint32_t first_step, step_count;
} rlx_plan_stretch;

/* A named input or output of an entry. */
typedef struct rlx_plan_port {
    const char *name;
    uint32_t slot;
    bool survives; /* inputs: still there after a run, so it need not be set again */
} rlx_plan_port;

typedef struct rlx_plan_entry {
    const char *name;
    const char *bindings; /* "S=128, B=1" */
    uint32_t first_step, step_count;
    uint32_t first_stretch, stretch_count;
    uint32_t inputs_at, input_count, outputs_at, output_count; /* plan->ports */
    uint64_t scratch_bytes, lower_bound, sum_bytes;
    const char *placed_by; /* which placement won */
} rlx_plan_entry;

/* Data that is written into a slot when a program is created: where the slot's buffer belongs to
 * the prepare steps, right before the first of its life, otherwise before all of them. Sources are
 * in that order. */
typedef struct rlx_plan_source {
    uint32_t slot;
    rlx_source source; /* constants: MEMORY in the plan's own memory */
    bool is_constant;
    rlx_source_window window; /* the part of it that the slot has; rows 0: all */
} rlx_plan_source;

/* Under a weights budget (all zero without one). A weight tile is a range of the program file's
 * weights that a stream step reads into a buffer of segment TILES, which lives from the read to the
 * last use. */
typedef struct rlx_plan_tile {
    uint32_t slot; /* u8[bytes]: the whole tile */
    uint32_t read_step, wait_step;
    uint64_t source_offset, bytes; /* in the weights of the program file */
} rlx_plan_tile;

/* A range of the program file's weights that stays mapped, and where it is in segment WEIGHTS. In
 * order of both, one behind the other, in whole pages of the file. */
typedef struct rlx_plan_piece {
    uint64_t source_offset, offset, bytes;
} rlx_plan_piece;

/* What became of a tensor, for reports. */
typedef struct rlx_plan_weight {
    const char *name;
    uint64_t bytes;
    uint32_t use_count, read_count; /* see rlx_weight_info */
    bool is_pinned;
} rlx_plan_weight;

/* What became of a product when the model was split over ranks, for reports. */
typedef struct rlx_plan_split {
    const char *name, *text;
    uint64_t whole_bytes, own_bytes; /* of its weights */
    uint32_t entry;
    bool is_split;
} rlx_plan_split;

typedef struct rlx_plan_stream {
    uint64_t budget;       /* 0: everything is resident */
    uint64_t source_bytes; /* weights of the program file */
    uint64_t largest_tile;
    RLX_VEC(rlx_plan_tile) tiles;
    RLX_VEC(rlx_plan_piece) pieces;
    RLX_VEC(rlx_plan_weight) weights;
} rlx_plan_stream;

struct rlx_plan {
    rlx_allocator hook;             /* a copy of the caller's */
    const rlx_allocator *allocator; /* &hook */
    rlx_scratch memory;             /* owned: texts, attributes, constants */
    const char *target;             /* "cpu/scalar", "cpu/avx512", ... */
    uint32_t workers;               /* workspace is planned for so many */
    bool is_loaded; /* from a program file, which has the weights: there are no sources, and the
                       prepare steps have been run */
    uint32_t rank, rank_count; /* whose plan it is; 0 of 1: alone */
    uint64_t alignment;
    uint64_t segment_bytes[RLX_SEGMENT_COUNT];
    uint64_t state_hash; /* of names, dtypes, shapes and offsets of the state slots */
    RLX_VEC(rlx_plan_buffer) buffers;
    RLX_VEC(rlx_plan_slot) slots;
    RLX_VEC(uint32_t) operands;
    RLX_VEC(rlx_plan_step) steps; /* prepare steps first, then entry by entry */
    uint32_t prepare_count;       /* steps [0, prepare_count) run once, when a program is created */
    RLX_VEC(rlx_plan_stretch) stretches; /* prepare's first: see prepare_stretch_count */
    uint32_t prepare_stretch_count;
    RLX_VEC(rlx_plan_port) ports;
    RLX_VEC(rlx_plan_entry) entries;
    RLX_VEC(rlx_plan_source) sources;
    RLX_VEC(rlx_plan_split) splits; /* never in a file */
    rlx_plan_stream stream; /* never in a file: made when a program is loaded under a budget */
};

/* The weights are split: some are read from the file. */
static inline bool rlx_plan_is_streamed(const rlx_plan *plan) {
    return plan->stream.budget != 0;
}

RLX_WARN_UNUSED rlx_status rlx_plan_create(const rlx_allocator *allocator, rlx_plan **out_plan);

/* Where a slot's bytes lie around its address: [low, high), low < 0 where strides are negative.
 * Copes with any content (RLX_INVALID_PLAN, RLX_OUT_OF_BOUNDS, of packed slots
 * RLX_UNSUPPORTED). */
RLX_WARN_UNUSED rlx_status rlx_plan_slot_span(const rlx_plan_slot *slot, int64_t *out_low,
                                              int64_t *out_high);
/* Bytes from a slot's first to past its last element: high - low. */
RLX_WARN_UNUSED rlx_status rlx_plan_slot_bytes(const rlx_plan_slot *slot, uint64_t *out_bytes);
/* Offset of a slot in its segment. */
static inline uint64_t rlx_plan_slot_offset(const rlx_plan *plan, const rlx_plan_slot *slot) {
    return plan->buffers.items[slot->buffer].offset + slot->byte_offset;
}
/* The slot as a tensor without address. */
rlx_tensor rlx_plan_tensor(const rlx_plan_slot *slot);
/* Copies an attribute struct and its lists into the plan's memory. */
RLX_WARN_UNUSED rlx_status rlx_plan_copy_attrs(rlx_plan *plan, rlx_op op, const void *attrs,
                                               const void **out_attrs);
void rlx_plan_hash_state(rlx_plan *plan); /* fills state_hash */
uint64_t rlx_plan_state_hash(const rlx_plan *plan);

#endif
