/* SPDX-License-Identifier: Apache-2.0 */
/* The op table from inside: arity, flags, shape rule, and the fields of each attribute struct,
 * which the text form, the program file, comparison and hashing all walk. */
#ifndef RLX_IR_OP_H
#define RLX_IR_OP_H

#include "base/status.h"

#include <rlx/ops.h>

enum rlx_op_flags {
    RLX_OPF_ELEMENTWISE = 1 << 0,
    RLX_OPF_VIEW = 1 << 1,
    RLX_OPF_FLOW = 1 << 2,
    RLX_OPF_STATEFUL = 1 << 3,
    RLX_OPF_COMMUTES = 1 << 4,
    RLX_OPF_FAULTS = 1 << 5,
    RLX_OPF_COLLECTIVE = 1 << 6
};

#define RLX_OP_MANY UINT32_MAX /* does not fit an enum constant */

typedef enum rlx_field_kind {
    RLX_FIELD_BOOL, /* bool */
    RLX_FIELD_I64,  /* int64_t */
    RLX_FIELD_F64,  /* double */
    RLX_FIELD_DTYPE,
    RLX_FIELD_OP,
    RLX_FIELD_AUTO_PAD, /* enums are uint32_t-sized with a list of names */
    RLX_FIELD_PAD_MODE,
    RLX_FIELD_SCATTER_MODE,
    RLX_FIELD_INTS,      /* rlx_ints */
    RLX_FIELD_LIST,      /* rlx_list */
    RLX_FIELD_DIRECTION, /* enums again: the order is part of the program file */
    RLX_FIELD_GATE,
    RLX_FIELD_LAYOUT,
    RLX_FIELD_COMBINE
} rlx_field_kind;

typedef struct rlx_field {
    const char *name; /* as in the text form; nested ones are "activation", "activation_alpha" */
    rlx_field_kind kind;
    uint32_t offset;
} rlx_field;

struct rlx_infer;

typedef struct rlx_op_info {
    const char *name;
    const char *family;
    uint32_t in_least, in_most, out_least, out_most;
    uint32_t flags;
    uint32_t attrs_bytes;
    const rlx_field *fields;
    uint32_t field_count;
    rlx_status (*infer)(struct rlx_infer *infer);
} rlx_op_info;

/* NULL for a number that is no op. */
const rlx_op_info *rlx_op_info_of(rlx_op op);
/* Names of an enum field's values, and their number; NULL for other kinds. */
const char *const *rlx_field_names(rlx_field_kind kind, uint32_t *out_count);
/* Whether an output may be written over this input when both are the same elements at the same
 * place: its kernels read each element of it for the last time just before they write that element.
 */
bool rlx_op_may_overwrite(rlx_op op, uint32_t input);
bool rlx_attrs_equal(rlx_op op, const void *a, const void *b);
uint64_t rlx_attrs_hash(rlx_op op, const void *attrs);

#endif
