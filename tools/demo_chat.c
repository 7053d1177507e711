/* SPDX-License-Identifier: Apache-2.0 */
/* Feeding tokens and reading logits through the public API: set inputs, run an entry, read. */
#include "demo_chat.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const rlx_binding prefill_size = {"S", DEMO_PREFILL};
static const rlx_binding decode_size = {"S", 1};
const rlx_entry_spec demo_entries[2] = {
    {.name = "prefill", .bindings = &prefill_size, .binding_count = 1},
    {.name = "decode", .bindings = &decode_size, .binding_count = 1}};

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

rlx_status demo_chat_begin(demo_chat *chat, rlx_exec *exec) {
    const rlx_program *program = rlx_exec_program(exec);
    memset(chat, 0, sizeof *chat);
    chat->exec = exec;
    rlx_status status = rlx_program_find_entry(program, "prefill", &chat->prefill);
    if (status != RLX_OK) return status;
    return rlx_program_find_entry(program, "decode", &chat->decode);
}

rlx_status demo_chat_fork(const demo_chat *chat, rlx_exec *exec, demo_chat *out_chat) {
    rlx_status status = demo_chat_begin(out_chat, exec);
    if (status != RLX_OK) return status;
    out_chat->count = chat->count;
    memcpy(out_chat->tokens, chat->tokens, sizeof chat->tokens);
    memcpy(out_chat->logits, chat->logits, sizeof chat->logits);
    return RLX_OK;
}

/* One run over `count` tokens, which is what the entry was compiled for. */
static rlx_status step(demo_chat *chat, uint32_t entry, const int64_t *tokens, uint32_t count) {
    int64_t positions[DEMO_CAPACITY];
    uint64_t bytes = count * sizeof *tokens;
    for (uint32_t i = 0; i < count; i++)
        positions[i] = chat->count + i;
    rlx_status status = rlx_exec_set(chat->exec, entry, "tokens", tokens, bytes);
    if (status == RLX_OK) status = rlx_exec_set(chat->exec, entry, "positions", positions, bytes);
    if (status == RLX_OK) status = rlx_exec_run(chat->exec, entry);
    if (status == RLX_OK) {
        status = rlx_exec_read_f32(chat->exec, entry, "logits",
                                   chat->logits + chat->count * DEMO_VOCABULARY,
                                   (uint64_t)count * DEMO_VOCABULARY, NULL);
    }
    if (status != RLX_OK) return status;
    memcpy(chat->tokens + chat->count, tokens, (size_t)bytes);
    chat->count += count;
    return RLX_OK;
}

static rlx_status feed_one(demo_chat *chat, int64_t token) {
    uint64_t start = now_ns();
    rlx_status status = step(chat, chat->decode, &token, 1);
    chat->decode_ns += now_ns() - start;
    chat->decode_count++;
    return status;
}

rlx_status demo_chat_feed(demo_chat *chat, const int64_t *tokens, uint32_t count) {
    uint32_t at = 0;
    rlx_status status = RLX_OK;
    while (status == RLX_OK && count - at >= DEMO_PREFILL) {
        status = step(chat, chat->prefill, tokens + at, DEMO_PREFILL);
        at += DEMO_PREFILL;
    }
    while (status == RLX_OK && at < count)
        status = feed_one(chat, tokens[at++]);
    return status;
}

static int64_t most_likely(const float *logits) {
    int64_t best = 0;
    for (int64_t i = 1; i < DEMO_VOCABULARY; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

rlx_status demo_chat_generate(demo_chat *chat, uint32_t count) {
    rlx_status status = RLX_OK;
    while (status == RLX_OK && count-- > 0)
        status = feed_one(chat, most_likely(chat->logits + (chat->count - 1) * DEMO_VOCABULARY));
    return status;
}

double demo_chat_difference(const demo_chat *a, const demo_chat *b, bool *has_same_bits) {
    double largest = 0;
    size_t rows = a->count;
    if (has_same_bits != NULL) *has_same_bits = false;
    if (a->count != b->count || memcmp(a->tokens, b->tokens, rows * sizeof *a->tokens) != 0) {
        return NAN;
    }
    if (has_same_bits != NULL) {
        *has_same_bits =
            memcmp(a->logits, b->logits, rows * DEMO_VOCABULARY * sizeof *a->logits) == 0;
    }
    for (size_t i = 0; i < rows * DEMO_VOCABULARY; i++) {
        double difference = fabs((double)a->logits[i] - (double)b->logits[i]);
        if (isnan(difference)) return NAN;
        if (difference > largest) largest = difference;
    }
    return largest;
}
