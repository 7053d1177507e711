/* SPDX-License-Identifier: Apache-2.0 */
/* One conversation with the demo model: which tokens it has seen and the logits after each. */
#ifndef RLX_TOOLS_DEMO_CHAT_H
#define RLX_TOOLS_DEMO_CHAT_H

#include "demo_model.h"

typedef struct demo_chat {
    rlx_exec *exec;           /* borrowed */
    uint32_t prefill, decode; /* entries */
    uint32_t count;           /* tokens seen so far */
    int64_t tokens[DEMO_CAPACITY];
    float logits[DEMO_CAPACITY * DEMO_VOCABULARY]; /* [token][vocabulary]: after each token */
    uint64_t decode_ns;                            /* time spent on single tokens */
    uint32_t decode_count;
} demo_chat;

/* The specialisations of the cached model: "prefill" of DEMO_PREFILL tokens and "decode" of one. */
extern const rlx_entry_spec demo_entries[2];

/* An empty conversation; the executable's states are taken as they are. */
rlx_status demo_chat_begin(demo_chat *chat, rlx_exec *exec);
/* The same conversation going on in another executable. */
rlx_status demo_chat_fork(const demo_chat *chat, rlx_exec *exec, demo_chat *out_chat);
/* Feeds given tokens: as many whole prefills as fit, then one by one. */
rlx_status demo_chat_feed(demo_chat *chat, const int64_t *tokens, uint32_t count);
/* Feeds the most likely next token, `count` times. */
rlx_status demo_chat_generate(demo_chat *chat, uint32_t count);

/* Largest difference of the logits of two conversations over the same tokens; NaN when they are not
 * over the same tokens. `has_same_bits` may be NULL. */
double demo_chat_difference(const demo_chat *a, const demo_chat *b, bool *has_same_bits);

#endif
