/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of elementwise ops and chains: which dtypes make sense, and broadcasting. One table
 * says per op which classes of dtypes it takes and what comes out; ops alone and instructions of a
 * chain use the same rows. */
#include "ir/chain.h"
#include "ir/dtype.h"
#include "ir/infer.h"

#include <stdio.h>

enum {
    FLOAT = 1 << RLX_CLASS_FLOAT,
    SIGNED = 1 << RLX_CLASS_SIGNED,
    UNSIGNED = 1 << RLX_CLASS_UNSIGNED,
    BOOL = 1 << RLX_CLASS_BOOL,
    BLOCK = 1 << RLX_CLASS_BLOCK,
    INTEGER = SIGNED | UNSIGNED,
    NUMBER = FLOAT | INTEGER,
    PLAIN = NUMBER | BOOL,
    ANY = PLAIN | BLOCK
};

typedef enum result_kind {
    SAME,   /* all operands and the result have one dtype */
    TRUTH,  /* operands of one dtype; a bool comes out */
    CASTED, /* the cast's target */
    POWER,  /* the base's; the exponent is any number */
    SELECT  /* (bool, T, T) gives T */
} result_kind;

typedef struct dtype_rule {
    uint32_t classes; /* of the operands that carry data */
    result_kind result;
} dtype_rule;

static dtype_rule rule_of(rlx_op op) {
    switch (op) {
    case RLX_OP_IDENTITY:
    case RLX_OP_COPY:
        return (dtype_rule){ANY, SAME};
    case RLX_OP_NEG:
        return (dtype_rule){SIGNED | FLOAT, SAME};
    case RLX_OP_ABS:
    case RLX_OP_SIGN:
    case RLX_OP_SQUARE:
    case RLX_OP_RELU:
    case RLX_OP_SHRINK:
    case RLX_OP_CLIP:
    case RLX_OP_ADD:
    case RLX_OP_SUB:
    case RLX_OP_MUL:
    case RLX_OP_DIV:
    case RLX_OP_MOD:
    case RLX_OP_FMOD:
    case RLX_OP_MIN:
    case RLX_OP_MAX:
    case RLX_OP_PRELU:
        return (dtype_rule){NUMBER, SAME};
    case RLX_OP_NOT:
    case RLX_OP_AND:
    case RLX_OP_OR:
    case RLX_OP_XOR:
        return (dtype_rule){BOOL, SAME};
    case RLX_OP_BIT_NOT:
    case RLX_OP_BIT_AND:
    case RLX_OP_BIT_OR:
    case RLX_OP_BIT_XOR:
    case RLX_OP_SHIFT_LEFT:
    case RLX_OP_SHIFT_RIGHT:
        return (dtype_rule){INTEGER, SAME};
    case RLX_OP_IS_NAN:
    case RLX_OP_IS_INF:
        return (dtype_rule){FLOAT, TRUTH};
    case RLX_OP_EQUAL:
    case RLX_OP_NOT_EQUAL:
    case RLX_OP_LESS:
    case RLX_OP_LESS_EQUAL:
    case RLX_OP_GREATER:
    case RLX_OP_GREATER_EQUAL:
        return (dtype_rule){PLAIN, TRUTH};
    case RLX_OP_CAST:
        return (dtype_rule){ANY, CASTED};
    case RLX_OP_POW:
        return (dtype_rule){NUMBER, POWER};
    case RLX_OP_WHERE:
        return (dtype_rule){PLAIN, SELECT};
    default: /* roots, exponentials, activations */
        return (dtype_rule){FLOAT, SAME};
    }
}

static bool is_in(rlx_dtype dtype, uint32_t classes) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL && (classes >> row->class_ & 1u) != 0;
}

static const char *classes_text(uint32_t classes) {
    switch (classes) {
    case FLOAT:
        return "floats";
    case SIGNED | FLOAT:
        return "floats and signed integers";
    case INTEGER:
        return "integers";
    case BOOL:
        return "bool";
    case NUMBER:
        return "numbers";
    default:
        return "numbers and bool";
    }
}

rlx_status rlx_elementwise_dtype(rlx_op op, const rlx_dtype *operands, uint32_t count, rlx_dtype to,
                                 rlx_dtype *out_dtype) {
    dtype_rule rule = rule_of(op);
    uint32_t first = rule.result == SELECT ? 1 : 0; /* of the operands that carry data */
    if (rule.result == SELECT && operands[0] != RLX_DTYPE_BOOL) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "the condition must be bool, got %s",
                        rlx_dtype_name(operands[0]));
    }
    for (uint32_t i = first; i < count; i++) {
        if (!is_in(operands[i], rule.classes)) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "it takes %s, input %u is %s",
                            classes_text(rule.classes), i, rlx_dtype_name(operands[i]));
        }
        if (rule.result != POWER && operands[i] != operands[first]) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "its inputs must have one dtype, got %s and %s",
                            rlx_dtype_name(operands[first]), rlx_dtype_name(operands[i]));
        }
    }
    if (rule.result == CASTED && rlx_dtype_row_of(to) == NULL) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "its target %d is no dtype", (int)to);
    }
    *out_dtype = rule.result == TRUTH    ? RLX_DTYPE_BOOL
                 : rule.result == CASTED ? to
                                         : operands[first];
    return RLX_OK;
}

enum { TYPES_TEXT_BYTES = 384 };

/* "f32[2, 3], i64[3]" of the inputs, for messages. */
static const char *types_text(const rlx_infer *infer, char *buffer) {
    size_t at = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < infer->in_count && at + 8 < TYPES_TEXT_BYTES; i++) {
        char one[128];
        int wrote = snprintf(buffer + at, TYPES_TEXT_BYTES - at, "%s%s", i == 0 ? "" : ", ",
                             rlx_type_text(infer->graph, infer->in[i], one, sizeof one));
        if (wrote < 0) break;
        at += (size_t)wrote;
    }
    return buffer;
}

static rlx_status broadcast_all(const rlx_infer *infer, rlx_type *out_type) {
    rlx_type type = *infer->in[0];
    for (uint32_t i = 1; i < infer->in_count; i++)
        RLX_TRY(rlx_infer_broadcast(&type, infer->in[i], &type));
    *out_type = type;
    return RLX_OK;
}

static rlx_status infer_types(rlx_infer *infer) {
    rlx_dtype operands[3], result, to = RLX_DTYPE_F32;
    for (uint32_t i = 0; i < infer->in_count; i++)
        operands[i] = infer->in[i]->dtype;
    if (infer->op == RLX_OP_CAST) to = ((const rlx_cast_attrs *)infer->attrs)->to;
    RLX_TRY(rlx_elementwise_dtype(infer->op, operands, infer->in_count, to, &result));
    RLX_TRY(broadcast_all(infer, &infer->out[0]));
    infer->out[0].dtype = result;
    return RLX_OK;
}

/* Every elementwise op but chain. */
static rlx_status infer_op(rlx_infer *infer) {
    for (uint32_t i = 0; i < infer->in_count; i++) {
        if (infer->in[i] == NULL) return RLX_FAIL(RLX_INVALID_GRAPH, "input %u is missing", i);
    }
    if (infer->in_count == 0 || infer->in_count > 3) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "1 to 3 inputs expected, got %u", infer->in_count);
    }
    char text[TYPES_TEXT_BYTES];
    RLX_TRY_WITH(infer_types(infer), "%s(%s)", rlx_op_name(infer->op), types_text(infer, text));
    return RLX_OK;
}

#define X(family)                                     \
    rlx_status rlx_infer_##family(rlx_infer *infer) { \
        return infer_op(infer);                       \
    }
X(unary)
X(logical_unary)
X(predicate)
X(cast)
X(binary)
X(power)
X(logical)
X(compare)
X(where)
#undef X

/* Checks the declared dtype of one instruction and widens `type` by the inputs it reads. */
static rlx_status infer_instruction(const rlx_infer *infer, rlx_list code, uint32_t index,
                                    rlx_type *type, bool *has_type) {
    rlx_chain_instruction instruction = rlx_chain_at(code, index);
    rlx_dtype operands[3], result;
    uint32_t count = 0;
    for (; count < 3 && instruction.operands[count] != RLX_CHAIN_NONE; count++) {
        int64_t operand = instruction.operands[count];
        if (operand < 0) {
            operands[count] = rlx_chain_at(code, (uint32_t)(-1 - operand)).dtype;
            continue;
        }
        const rlx_type *input = infer->in[operand];
        if (input == NULL)
            return RLX_FAIL(RLX_INVALID_GRAPH, "input %u is missing", (unsigned)operand);
        operands[count] = input->dtype;
        if (!*has_type) *type = *input;
        RLX_TRY(rlx_infer_broadcast(type, input, type));
        *has_type = true;
    }
    RLX_TRY(rlx_elementwise_dtype(instruction.op, operands, count, instruction.dtype, &result));
    if (result != instruction.dtype) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "it gives %s, the code says %s", rlx_dtype_name(result),
                        rlx_dtype_name(instruction.dtype));
    }
    return RLX_OK;
}

rlx_status rlx_infer_chain(rlx_infer *infer) {
    rlx_list code = ((const rlx_chain_attrs *)infer->attrs)->code;
    rlx_type type = rlx_type_make(RLX_DTYPE_F32, NULL, 0);
    bool has_type = false;
    RLX_TRY(rlx_chain_verify(code, infer->in_count));
    uint32_t count = rlx_chain_count(code);
    for (uint32_t i = 0; i < count; i++) {
        RLX_TRY_WITH(infer_instruction(infer, code, i, &type, &has_type), "instruction %u (%s)", i,
                     rlx_op_name(rlx_chain_at(code, i).op));
    }
    type.dtype = rlx_chain_at(code, count - 1).dtype;
    infer->out[0] = type;
    return RLX_OK;
}
