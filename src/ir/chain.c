/* SPDX-License-Identifier: Apache-2.0 */
/* Chains: several elementwise ops as the code of one step. Encodes, decodes and checks the code;
 * the dtype rules are in infer/elementwise.c, the evaluation in src/ref. */
#include "ir/chain.h"

#include "ir/dtype.h"

static double double_of(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t bits_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

rlx_chain_instruction rlx_chain_at(rlx_list code, uint32_t index) {
    const int64_t *words = code.items + (size_t)index * RLX_CHAIN_WORDS;
    return (rlx_chain_instruction){
        .op = (rlx_op)words[0],
        .dtype = (rlx_dtype)words[1],
        .operands = {words[2], words[3], words[4]},
        .alpha = double_of(words[5]),
        .beta = double_of(words[6]),
    };
}

void rlx_chain_encode(const rlx_chain_instruction *instruction, int64_t *out_words) {
    out_words[0] = (int64_t)instruction->op;
    out_words[1] = (int64_t)instruction->dtype;
    for (int i = 0; i < 3; i++)
        out_words[2 + i] = instruction->operands[i];
    out_words[5] = bits_of(instruction->alpha);
    out_words[6] = bits_of(instruction->beta);
}

/* Present operands come first, as many as the op takes, and each exists already. */
static rlx_status verify_operands(const int64_t *words, uint32_t index, uint32_t input_count,
                                  uint32_t arity) {
    for (uint32_t i = 0; i < 3; i++) {
        int64_t operand = words[2 + i];
        bool is_present = operand != RLX_CHAIN_NONE;
        if (is_present != (i < arity)) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "it takes %u operands, operand %u is %s", arity, i,
                            is_present ? "given" : "missing");
        }
        if (!is_present) continue;
        if (operand >= (int64_t)input_count) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "operand %u is input %" PRId64 " of %u", i, operand,
                            input_count);
        }
        if (operand < 0 && operand < -(int64_t)index) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "operand %u is the result of instruction %" PRId64
                            ", which is not before it",
                            i, -(operand + 1));
        }
    }
    return RLX_OK;
}

static rlx_status verify_instruction(const int64_t *words, uint32_t index, uint32_t input_count) {
    /* Words are checked before they become enums: any integer may stand in a file. */
    const rlx_op_info *info =
        words[0] > 0 && words[0] < RLX_OP_COUNT ? rlx_op_info_of((rlx_op)words[0]) : NULL;
    if (info == NULL || (info->flags & RLX_OPF_ELEMENTWISE) == 0 || words[0] == RLX_OP_CHAIN) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "op %" PRId64 " (%s) is not elementwise", words[0],
                        info != NULL ? info->name : "?");
    }
    const rlx_dtype_row *row =
        words[1] >= 0 && words[1] < RLX_DTYPE_COUNT ? rlx_dtype_row_of((rlx_dtype)words[1]) : NULL;
    if (row == NULL || row->class_ == RLX_CLASS_BLOCK) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "dtype %" PRId64 " (%s) cannot be a result", words[1],
                        row != NULL ? row->name : "?");
    }
    RLX_TRY_WITH(verify_operands(words, index, input_count, info->in_least), "%s", info->name);
    return RLX_OK;
}

rlx_status rlx_chain_verify(rlx_list code, uint32_t input_count) {
    uint32_t count = rlx_chain_count(code);
    if (code.items == NULL || count == 0 || count > RLX_CHAIN_MOST ||
        code.count % RLX_CHAIN_WORDS != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "the code of a chain has 1 to %d instructions of %d words, got %u words",
                        RLX_CHAIN_MOST, RLX_CHAIN_WORDS, code.count);
    }
    for (uint32_t i = 0; i < count; i++) {
        RLX_TRY_WITH(verify_instruction(code.items + (size_t)i * RLX_CHAIN_WORDS, i, input_count),
                     "instruction %u", i);
    }
    return RLX_OK;
}
