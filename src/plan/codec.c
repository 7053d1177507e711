/* SPDX-License-Identifier: Apache-2.0 */
/* The plan section of a program file. One function per kind of row goes through its fields and
 * either writes or reads them, so that the two directions cannot drift apart. Reading trusts
 * nothing: it never passes the end, never reserves more than the bytes left could fill, and leaves
 * meaning to the verifier. */
#include "base/size.h"
#include "plan/file.h"

/* One direction at a time: `out` set means writing. The first failure sticks. */
typedef struct codec {
    rlx_plan *plan; /* reading: what is being filled */
    rlx_text *out;
    const uint8_t *data;
    uint64_t bytes, at;
    rlx_status status;
} codec;

static bool is_writing(const codec *c) {
    return c->out != NULL;
}

static void refuse(codec *c, const char *what, uint64_t value) {
    if (c->status != RLX_OK) return;
    c->status =
        RLX_FAIL(RLX_PARSE, "plan section, byte %" PRIu64 ": %s (%" PRIu64 ")", c->at, what, value);
}

static uint64_t bytes_left(const codec *c) {
    return c->bytes - c->at;
}

static void code_number(codec *c, uint64_t *value, uint32_t bytes) {
    uint8_t raw[8];
    if (c->status != RLX_OK) return;
    if (is_writing(c)) {
        for (uint32_t i = 0; i < bytes; i++)
            raw[i] = (uint8_t)(*value >> (8 * i));
        rlx_text_append(c->out, (const char *)raw, bytes);
        return;
    }
    if (bytes_left(c) < bytes) {
        refuse(c, "it ends here", c->bytes);
        return;
    }
    *value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        *value |= (uint64_t)c->data[c->at + i] << (8 * i);
    c->at += bytes;
}

static void code_u64(codec *c, uint64_t *value) {
    code_number(c, value, 8);
}

static void code_u32(codec *c, uint32_t *value) {
    uint64_t wide = *value;
    code_number(c, &wide, 4);
    *value = (uint32_t)wide;
}

static void code_i64(codec *c, int64_t *value) {
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    code_u64(c, &bits);
    memcpy(value, &bits, sizeof bits);
}

static void code_bool(codec *c, bool *value) {
    uint64_t wide = *value ? 1 : 0;
    code_number(c, &wide, 1);
    if (wide > 1) refuse(c, "neither 0 nor 1", wide);
    *value = wide == 1;
}

static void code_text(codec *c, const char **text) {
    uint64_t length = is_writing(c) ? strlen(*text) : 0;
    code_number(c, &length, 4);
    if (c->status != RLX_OK) return;
    if (is_writing(c)) {
        rlx_text_append(c->out, *text, (size_t)length);
        return;
    }
    if (length > bytes_left(c)) {
        refuse(c, "a text passes the end", length);
        return;
    }
    const uint8_t *from = c->data + c->at;
    if (length != 0 && memchr(from, 0, (size_t)length) != NULL) {
        refuse(c, "a text with a zero in it", length);
        return;
    }
    c->status = rlx_scratch_text(&c->plan->memory, (const char *)from, (size_t)length, text);
    c->at += length;
}

/* The number of rows of a table; a row takes `least` bytes or more. */
static void code_count(codec *c, uint32_t *count, uint64_t least) {
    code_u32(c, count);
    if (is_writing(c) || c->status != RLX_OK) return;
    if (*count > bytes_left(c) / least) refuse(c, "a table passes the end", *count);
}

/* An enum field of any type, as 32 bits. */
#define CODE_ENUM(c, field, type)             \
    do {                                      \
        uint32_t number_ = (uint32_t)(field); \
        code_u32((c), &number_);              \
        (field) = (type)number_;              \
    } while (0)

static void code_buffer(codec *c, rlx_plan_buffer *row) {
    code_u32(c, &row->segment);
    code_u32(c, &row->entry);
    code_u64(c, &row->offset);
    code_u64(c, &row->bytes);
    code_u32(c, &row->first_step);
    code_u32(c, &row->last_step);
}

static void code_slot(codec *c, rlx_plan_slot *row) {
    code_text(c, &row->name);
    code_u32(c, &row->kind);
    CODE_ENUM(c, row->layout, rlx_layout);
    code_u32(c, &row->buffer);
    code_u64(c, &row->byte_offset);
    CODE_ENUM(c, row->dtype, rlx_dtype);
    code_u32(c, &row->rank);
    if (row->rank > RLX_MAX_RANK) {
        refuse(c, "a rank above 8", row->rank);
        return;
    }
    for (uint32_t i = 0; i < row->rank; i++) {
        code_i64(c, &row->dims[i]);
        code_i64(c, &row->strides[i]);
        code_u32(c, &row->extents[i]);
    }
    for (uint32_t i = row->rank; i < RLX_MAX_RANK; i++)
        row->extents[i] = RLX_NONE;
}

static void code_ints(codec *c, rlx_ints *ints) {
    code_u32(c, &ints->count);
    if (ints->count > RLX_MAX_INTS) {
        refuse(c, "more than 16 integers", ints->count);
        return;
    }
    for (uint32_t i = 0; i < ints->count; i++)
        code_i64(c, &ints->items[i]);
}

static void code_list(codec *c, rlx_list *list) {
    code_count(c, &list->count, sizeof(int64_t));
    if (c->status != RLX_OK) return;
    int64_t *items = NULL;
    if (!is_writing(c)) {
        c->status =
            rlx_scratch_array(&c->plan->memory, list->count, sizeof *items, (void **)&items);
        list->items = items;
    }
    for (uint32_t i = 0; i < list->count && c->status == RLX_OK; i++) {
        int64_t item = is_writing(c) ? list->items[i] : 0;
        code_i64(c, &item);
        if (!is_writing(c)) items[i] = item;
    }
}

static void code_field(codec *c, const rlx_field *field, char *at) {
    uint64_t bits = 0;
    uint32_t number = 0;
    switch (field->kind) {
    case RLX_FIELD_BOOL:
        code_bool(c, (bool *)(void *)at);
        break;
    case RLX_FIELD_I64:
    case RLX_FIELD_F64:
        memcpy(&bits, at, sizeof bits);
        code_u64(c, &bits);
        memcpy(at, &bits, sizeof bits);
        break;
    case RLX_FIELD_INTS:
        code_ints(c, (rlx_ints *)(void *)at);
        break;
    case RLX_FIELD_LIST:
        code_list(c, (rlx_list *)(void *)at);
        break;
    default: /* enums */
        memcpy(&number, at, sizeof number);
        code_u32(c, &number);
        memcpy(at, &number, sizeof number);
    }
}

/* Each field is led by its kind. An older file may have fewer fields than the op has now: the rest
 * stays zero, which is what a field means that nobody has set. */
static void code_fields(codec *c, const rlx_op_info *info, char *attrs) {
    uint32_t count = info->field_count;
    code_u32(c, &count);
    if (count > info->field_count) {
        refuse(c, "more attributes than the op has", count);
        return;
    }
    for (uint32_t i = 0; i < count && c->status == RLX_OK; i++) {
        uint32_t kind = info->fields[i].kind;
        code_u32(c, &kind);
        if (kind != (uint32_t)info->fields[i].kind) {
            refuse(c, "an attribute of another kind", kind);
            return;
        }
        code_field(c, &info->fields[i], attrs + info->fields[i].offset);
    }
}

/* Reading fills a copy in the plan's memory; writing goes over a copy too, because the row
 * functions take what they may change. */
static void code_attrs(codec *c, rlx_plan_step *row) {
    bool has_attrs = row->attrs != NULL;
    code_bool(c, &has_attrs);
    if (!has_attrs || c->status != RLX_OK) return;
    const rlx_op_info *info = rlx_op_info_of(row->op);
    union {
        max_align_t align;
        char bytes[1024];
    } copy;
    if (info == NULL || info->attrs_bytes > sizeof copy.bytes) {
        refuse(c, "attributes of an unknown op", (uint64_t)row->op);
        return;
    }
    if (is_writing(c)) {
        memcpy(copy.bytes, row->attrs, info->attrs_bytes);
        code_fields(c, info, copy.bytes);
        return;
    }
    void *attrs = NULL;
    c->status = rlx_scratch_alloc(&c->plan->memory, info->attrs_bytes, &attrs);
    if (c->status != RLX_OK) return;
    code_fields(c, info, attrs);
    row->attrs = attrs;
}

static void code_step(codec *c, rlx_plan_step *row) {
    code_u32(c, &row->kind);
    CODE_ENUM(c, row->op, rlx_op);
    code_text(c, &row->name);
    code_text(c, &row->kernel);
    code_text(c, &row->reason);
    code_attrs(c, row);
    code_u32(c, &row->operands_at);
    code_u32(c, &row->input_count);
    code_u32(c, &row->output_count);
    code_u32(c, &row->workspace);
    code_u64(c, &row->workspace_bytes);
    code_u32(c, &row->target);
    code_u32(c, &row->condition);
    code_u32(c, &row->jump_if);
    code_u32(c, &row->fault_code);
    code_u32(c, &row->value);
    code_u64(c, &row->flops);
    code_u64(c, &row->bytes);
}

static void code_stretch(codec *c, rlx_plan_stretch *row) {
    code_u32(c, &row->first_step);
    code_u32(c, &row->step_count);
}

static void code_port(codec *c, rlx_plan_port *row) {
    code_text(c, &row->name);
    code_u32(c, &row->slot);
    code_bool(c, &row->survives);
}

static void code_entry(codec *c, rlx_plan_entry *row) {
    code_text(c, &row->name);
    code_text(c, &row->bindings);
    code_text(c, &row->placed_by);
    code_u32(c, &row->first_step);
    code_u32(c, &row->step_count);
    code_u32(c, &row->first_stretch);
    code_u32(c, &row->stretch_count);
    code_u32(c, &row->inputs_at);
    code_u32(c, &row->input_count);
    code_u32(c, &row->outputs_at);
    code_u32(c, &row->output_count);
    code_u64(c, &row->scratch_bytes);
    code_u64(c, &row->lower_bound);
    code_u64(c, &row->sum_bytes);
}

static void code_head(codec *c, rlx_plan *plan) {
    code_text(c, &plan->target);
    code_u32(c, &plan->workers);
    code_u64(c, &plan->alignment);
    for (uint32_t i = 0; i < RLX_FILE_SEGMENTS; i++)
        code_u64(c, &plan->segment_bytes[i]);
    code_u64(c, &plan->state_hash);
    code_u32(c, &plan->prepare_count);
    code_u32(c, &plan->prepare_stretch_count);
}

/* A table: its count, then its rows through `code_row`. `least` = bytes of the shortest row. */
#define CODE_TABLE(c, vec, type, code_row, least)                                             \
    do {                                                                                      \
        uint32_t count_ = (vec)->count;                                                       \
        code_count((c), &count_, (least));                                                    \
        if (!is_writing(c) && (c)->status == RLX_OK) {                                        \
            (c)->status = rlx_vec_reserve((c)->plan->allocator, (vec), count_);               \
        }                                                                                     \
        for (uint32_t i_ = 0; i_ < count_ && (c)->status == RLX_OK; i_++) {                   \
            type row_ = {0};                                                                  \
            if (is_writing(c)) row_ = (vec)->items[i_];                                       \
            code_row((c), &row_);                                                             \
            if (!is_writing(c) && (c)->status == RLX_OK) (vec)->items[(vec)->count++] = row_; \
        }                                                                                     \
    } while (0)

/* At the end, and only where there are several: files of one rank are as they always were. */
static void code_rank(codec *c, rlx_plan *plan) {
    if (is_writing(c) ? plan->rank_count <= 1 : c->status != RLX_OK || bytes_left(c) == 0) return;
    code_u32(c, &plan->rank);
    code_u32(c, &plan->rank_count);
}

/* Sources stay out: in a program file the weights are there already. */
static void code_plan(codec *c, rlx_plan *plan) {
    code_head(c, plan);
    CODE_TABLE(c, &plan->buffers, rlx_plan_buffer, code_buffer, 32);
    CODE_TABLE(c, &plan->slots, rlx_plan_slot, code_slot, 32);
    CODE_TABLE(c, &plan->operands, uint32_t, code_u32, 4);
    CODE_TABLE(c, &plan->steps, rlx_plan_step, code_step, 81);
    CODE_TABLE(c, &plan->stretches, rlx_plan_stretch, code_stretch, 8);
    CODE_TABLE(c, &plan->ports, rlx_plan_port, code_port, 9);
    CODE_TABLE(c, &plan->entries, rlx_plan_entry, code_entry, 68);
    code_rank(c, plan);
}

void rlx_plan_encode(const rlx_plan *plan, rlx_text *out_bytes) {
    rlx_plan copy = *plan; /* the row functions change nothing while they write */
    codec c = {.out = out_bytes};
    code_plan(&c, &copy);
}

rlx_status rlx_plan_decode(const rlx_allocator *allocator, const uint8_t *data, uint64_t bytes,
                           rlx_plan **out_plan) {
    codec c = {.data = data, .bytes = bytes};
    RLX_TRY(rlx_plan_create(allocator, &c.plan));
    c.plan->is_loaded = true;
    code_plan(&c, c.plan);
    if (c.status == RLX_OK && c.at != bytes) refuse(&c, "bytes left over", bytes - c.at);
    if (c.status != RLX_OK) {
        rlx_plan_destroy(c.plan);
        return c.status;
    }
    *out_plan = c.plan;
    return RLX_OK;
}
