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

/* Weights, state and scratch make up the arena. SOURCE exists only while a program is created: raw
 * parameters that prepare steps turn into weights. */
typedef enum rlx_segment {
    RLX_SEGMENT_WEIGHTS = 0,
    RLX_SEGMENT_STATE,
    RLX_SEGMENT_SCRATCH,
    RLX_SEGMENT_SOURCE,
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
RLX_API uint64_t rlx_plan_arena_bytes(const rlx_plan *plan); /* weights + state + scratch */
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
    uint32_t step;               /* number in the plan */
    uint32_t entry;              /* RLX_NONE: a prepare step */
    const char *name;            /* of its first output, or of the node it comes from */
    const char *kernel, *reason; /* what runs it and why; "" for a jump */
    rlx_op op;                   /* RLX_OP_NONE: a jump or copy */
    bool is_host, is_jump;
    uint32_t input_count, output_count;
    const uint32_t *inputs, *outputs; /* slots, or RLX_NONE */
    uint64_t flops, bytes; /* operations as the target counts them; bytes of all operands */
} rlx_step_info;
RLX_API uint32_t rlx_plan_step_count(const rlx_plan *plan);
RLX_CALL rlx_status rlx_plan_step_at(const rlx_plan *plan, uint32_t step, rlx_step_info *out_info);

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
