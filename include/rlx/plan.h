/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: every tensor has an offset, every step its operands. Plain data, made without opening a
 * device or reading a weight (rlx_session_plan), or read from a program file
 * (rlx_program_read_plan). Immutable once made; may be read by many threads.
 *
 * A slot is a value in memory: a piece of a segment, seen through a shape. Several slots may share
 * memory: views, results over an input that dies, and values that are not alive at the same time.
 * Values that were fused away have no slot. All texts are borrowed from the plan. Errors, unless a
 * function says more: RLX_INVALID_ARGUMENT (null), RLX_NOT_FOUND (past the end, no such name). */
#ifndef RLX_PLAN_H
#define RLX_PLAN_H

#include <rlx/value.h>

RLX_BEGIN_DECLS

typedef struct rlx_plan rlx_plan;

/* The offset of what has no memory. */
#define RLX_NO_OFFSET UINT64_MAX

/* Weights, state, scratch and tiles make up the arena. SOURCE exists only while a program is
 * created: raw parameters that prepare steps turn into weights. TILES has bytes only under a
 * weights budget: weights on their way from the program file (rlx_plan_stream_weights). */
typedef enum rlx_segment {
    RLX_SEGMENT_WEIGHTS = 0,
    RLX_SEGMENT_STATE,
    RLX_SEGMENT_SCRATCH,
    RLX_SEGMENT_SOURCE,
    RLX_SEGMENT_TILES,
    RLX_SEGMENT_COUNT
} rlx_segment;

typedef struct rlx_slot_info {
    const char *name; /* of the value; made-up ones begin with '%' */
    rlx_value_kind kind;
    rlx_dtype dtype;
    rlx_shape shape;
    rlx_segment segment;
    uint64_t offset; /* in the segment */
    uint64_t bytes;  /* from the first to past the last element */
    bool is_plain;   /* row-major without holes */
} rlx_slot_info;

/* One specialisation of the model. All entries share weights and state; each has the scratch
 * segment to itself while it runs. */
typedef struct rlx_entry_info {
    const char *name;
    uint32_t input_count, output_count;
    uint32_t step_count, stretch_count;
    uint64_t scratch_bytes; /* peak of this entry */
    uint64_t lower_bound;   /* largest sum of live bytes: no placement can be smaller */
    uint64_t sum_bytes;     /* without any reuse */
} rlx_entry_info;

RLX_API void rlx_plan_destroy(rlx_plan *plan); /* NULL is allowed */
/* What it was made for: "cpu/avx2". */
RLX_API const char *rlx_plan_target(const rlx_plan *plan);
/* Exactly the bytes that an executable has mapped. 0 for a number that is no segment. */
RLX_API uint64_t rlx_plan_segment_bytes(const rlx_plan *plan, rlx_segment segment);
RLX_API uint64_t rlx_plan_arena_bytes(const rlx_plan *plan); /* weights, state, scratch, tiles */
/* Whose part of the model it is (rlx_compile_options): rank 0 of 1 where it is not split. */
RLX_API uint32_t rlx_plan_rank(const rlx_plan *plan);
RLX_API uint32_t rlx_plan_rank_count(const rlx_plan *plan);
/* What an executable needs of a symmetric heap (rlx/transport.h): state and scratch. */
RLX_API uint64_t rlx_plan_heap_bytes(const rlx_plan *plan);
/* Slots by number, for walks, and by name: outputs and inputs of the entries first, then values. */
RLX_API uint32_t rlx_plan_slot_count(const rlx_plan *plan);
RLX_CALL rlx_status rlx_plan_slot_at(const rlx_plan *plan, uint32_t slot, rlx_slot_info *out_info);
RLX_CALL rlx_status rlx_plan_find_slot(const rlx_plan *plan, const char *name, uint32_t *out_slot);
/* Entries by number; what a compile made has at least one. */
RLX_API uint32_t rlx_plan_entry_count(const rlx_plan *plan);
RLX_CALL rlx_status rlx_plan_entry_at(const rlx_plan *plan, uint32_t entry,
                                      rlx_entry_info *out_info);
/* Slots of an entry's inputs and outputs; RLX_NONE past the end. */
RLX_API uint32_t rlx_plan_input(const rlx_plan *plan, uint32_t entry, uint32_t index);
RLX_API uint32_t rlx_plan_output(const rlx_plan *plan, uint32_t entry, uint32_t index);
/* The name under which it is an output (its slot may have another). */
RLX_API const char *rlx_plan_output_name(const rlx_plan *plan, uint32_t entry, uint32_t index);

/* One step: prepare steps come first, then those of each entry. */
typedef struct rlx_step_info {
    uint32_t step;                    /* number in the plan */
    uint32_t entry;                   /* RLX_NONE: a prepare step */
    const char *name;                 /* of its first output, or of the node it comes from */
    const char *kernel, *reason;      /* what runs it and why; "" for a jump */
    rlx_op op;                        /* RLX_OP_NONE: a jump or copy */
    bool is_host, is_jump, is_stream; /* stream: begins or awaits the read of a weight tile */
    bool is_collective;               /* all ranks take part */
    uint32_t input_count, output_count;
    const uint32_t *inputs, *outputs; /* slots, or RLX_NONE */
    uint64_t flops, bytes; /* operations as the target counts them; bytes of all operands */
} rlx_step_info;
RLX_API uint32_t rlx_plan_step_count(const rlx_plan *plan);
RLX_CALL rlx_status rlx_plan_step_at(const rlx_plan *plan, uint32_t step, rlx_step_info *out_info);

/* Splits the weights for a budget: what fits stays resident (mapped from the program file), the
 * rest becomes tiles that are read from the file while earlier steps compute. Resident weights and
 * tiles together are at most `budget_bytes`; prepare steps are gone afterwards, because only a
 * saved program has weights to read. A budget that holds all weights changes nothing.
 * docs/streaming.md says how the split is made. Call it before the plan is shared with anybody; on
 * failure the plan is as it was. RLX_DOES_NOT_FIT: a step reads more weights at once than the
 * budget has (the largest tile; detail.bytes and detail.limit have both numbers);
 * RLX_INVALID_ARGUMENT: it is split already; RLX_OUT_OF_MEMORY. */
RLX_CALL rlx_status rlx_plan_stream_weights(rlx_plan *plan, uint64_t budget_bytes);

/* The split as a whole. Without one everything is resident and the budget is 0. */
typedef struct rlx_stream_info {
    uint64_t budget_bytes;
    uint64_t weights_bytes;  /* of the program file */
    uint64_t resident_bytes; /* mapped, in whole pages of the file */
    uint64_t tiles_bytes;    /* memory of the tiles */
    uint64_t largest_tile;   /* most bytes of weights that have to be there at once for a step */
    uint32_t tile_count;     /* reads, of all entries */
    uint32_t weight_count;   /* rows of rlx_plan_weight_at */
} rlx_stream_info;
RLX_CALL rlx_status rlx_plan_stream_info(const rlx_plan *plan, rlx_stream_info *out_info);

/* What one run of an entry reads. Both branches of an `if` count; a loop counts once here. */
typedef struct rlx_stream_entry_info {
    uint32_t read_count;
    uint64_t read_bytes;
    uint64_t loop_bytes; /* of those, read in each round of a loop */
} rlx_stream_entry_info;
RLX_CALL rlx_status rlx_plan_stream_entry(const rlx_plan *plan, uint32_t entry,
                                          rlx_stream_entry_info *out_info);

/* One tile: read at `read_step`, there from `wait_step` on, used for the last time at `last_step`.
 */
typedef struct rlx_tile_info {
    uint32_t entry;
    uint32_t read_step, wait_step, last_step; /* numbers in the plan */
    uint64_t offset;                          /* in TILES */
    uint64_t source_offset;                   /* in the weights of the program file */
    uint64_t bytes;
} rlx_tile_info;
RLX_CALL rlx_status rlx_plan_tile_at(const rlx_plan *plan, uint32_t tile, rlx_tile_info *out_info);

/* A tensor of the weights and what became of it. */
typedef struct rlx_weight_info {
    const char *name;
    uint64_t bytes;
    uint32_t use_count;  /* steps that read it */
    uint32_t read_count; /* in one run of the entry that reads it most often; 0: resident */
    bool is_pinned;      /* resident because it would be read more than once per run */
} rlx_weight_info;
RLX_CALL rlx_status rlx_plan_weight_at(const rlx_plan *plan, uint32_t index,
                                       rlx_weight_info *out_info);

/* What became of the products with weights when the model was split over ranks: one row per group
 * of products that are split together, and one per product that every rank computes whole. Not in a
 * program file. */
typedef struct rlx_split_info {
    uint32_t entry;
    const char *name; /* of the product that sums over all ranks, or of the one that is not split */
    const char *text; /* how it is split, or why not */
    bool is_split;
    uint64_t whole_bytes, own_bytes; /* of its weights, and of this rank's part of them */
} rlx_split_info;
RLX_API uint32_t rlx_plan_split_count(const rlx_plan *plan);
RLX_CALL rlx_status rlx_plan_split_at(const rlx_plan *plan, uint32_t index,
                                      rlx_split_info *out_info);

/* Proves the plan: no two live slots overlap, everything aligned and inside its segment, operands
 * in range, types by the ops' shape rules, jumps inside their entry. Independent of the code that
 * made it. RLX_INVALID_PLAN names step, slot and numbers; RLX_OUT_OF_MEMORY. */
RLX_CALL rlx_status rlx_plan_verify(const rlx_plan *plan);

/* The plan in words, and as one HTML file without references to others: offset against time, names
 * on hover. The texts are owned: rlx_string_free. */
RLX_CALL rlx_status rlx_plan_print(const rlx_plan *plan, char **out_text);
RLX_CALL rlx_status rlx_plan_html(const rlx_plan *plan, const char *title, char **out_text);

RLX_END_DECLS

#endif
