/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a chain: RLX_CHAIN_WORDS integers per instruction (op, dtype of the result, three
 * operands, and alpha and beta as the bits of doubles). The last instruction's result is the
 * output. Every result is rounded to its dtype, so a chain gives the same bits as its ops one by
 * one. */
#ifndef RLX_IR_CHAIN_H
#define RLX_IR_CHAIN_H

#include "ir/op.h"

/* RLX_CHAIN_MOST instructions at most: so many results always fit on a kernel's stack. */
enum { RLX_CHAIN_WORDS = 7, RLX_CHAIN_MOST = 256 };
#define RLX_CHAIN_NONE INT64_MIN

typedef struct rlx_chain_instruction {
    rlx_op op;           /* elementwise; cast has its target in `dtype` */
    rlx_dtype dtype;     /* of the result */
    int64_t operands[3]; /* >= 0: input; -1 - r: result of instruction r; RLX_CHAIN_NONE: absent */
    double alpha, beta;  /* of unary ops */
} rlx_chain_instruction;

/* Instruction `index` of the code; the caller has checked it with rlx_chain_verify. */
rlx_chain_instruction rlx_chain_at(rlx_list code, uint32_t index);
static inline uint32_t rlx_chain_count(rlx_list code) {
    return code.count / RLX_CHAIN_WORDS;
}
/* Writes one instruction as RLX_CHAIN_WORDS integers. */
void rlx_chain_encode(const rlx_chain_instruction *instruction, int64_t *out_words);
/* 1 to RLX_CHAIN_MOST whole instructions; ops are elementwise and not chain, each with the operands
 * it takes, which point backwards or to inputs; results are dtypes and not blocks (inputs may be).
 * RLX_INVALID_GRAPH. */
RLX_WARN_UNUSED rlx_status rlx_chain_verify(rlx_list code, uint32_t input_count);

/* The dtype rule of one elementwise op (also copy): what it makes of `count` operand dtypes. `to`
 * is read by cast only. RLX_INVALID_GRAPH names the dtypes that do not fit. */
RLX_WARN_UNUSED rlx_status rlx_elementwise_dtype(rlx_op op, const rlx_dtype *operands,
                                                 uint32_t count, rlx_dtype to,
                                                 rlx_dtype *out_dtype);

#endif
