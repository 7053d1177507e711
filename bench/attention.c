/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench attention`: prefill against the multiply-add peak, decode against the read bandwidth,
 * each measured beside it in the same trial. Prefill counts the operations of keys that are seen;
 * decode counts the bytes of keys and values, and goes round more of them than any cache holds. */
#include "against.h"

#include <stdlib.h>

enum { HEADS = 32, KV_HEADS = 4, DEPTH = 64, PREFILL = 512 };

static bool prefill(against *self, bool is_causal, uint32_t threads) {
    char text[512];
    ready model = {0};
    double keys = is_causal ? (PREFILL + 1) / 2.0 : PREFILL; /* seen by a query on average */
    subject what = {.name = is_causal ? "prefill 512 x 512, 32 x 64, causal"
                                      : "prefill 512 x 512, 32 x 64",
                    .threads = threads,
                    .amount = 4.0 * HEADS * PREFILL * keys * DEPTH,
                    .limit = against_multiply_add,
                    .unit = "GFLOP/s",
                    .bar = 0.5};
    snprintf(text, sizeof text,
             "rlx 1\ninput q : f32[1, %d, %d, %d]\ninput k : f32[1, %d, %d, %d]\n"
             "input v : f32[1, %d, %d, %d]\ny = attention(q, k, v)%s\noutput y\n",
             HEADS, PREFILL, DEPTH, HEADS, PREFILL, DEPTH, HEADS, PREFILL, DEPTH,
             is_causal ? " causal=true" : "");
    bool is_done = ready_make(&model, text, threads, false) && against_measure(self, &what, &model);
    ready_free(&model);
    return is_done;
}

/* Layers of attention one after the other, each with keys and values of its own. */
static char *decode_text(int64_t depth, int64_t layers) {
    size_t bytes = 256 + (size_t)layers * 256, at = 0;
    char *text = malloc(bytes);
    if (text == NULL) return NULL;
    at += (size_t)snprintf(text, bytes, "rlx 1\ninput q0 : f32[1, %d, 1, %d]\n", HEADS, DEPTH);
    for (int64_t i = 0; i < layers; i++) {
        at += (size_t)snprintf(text + at, bytes - at,
                               "param k%d : f16[1, %d, %d, %d] = seeded(%d, 1)\n"
                               "param v%d : f16[1, %d, %d, %d] = seeded(%d, 1)\n",
                               (int)i, KV_HEADS, (int)depth, DEPTH, (int)(2 * i + 1), (int)i,
                               KV_HEADS, (int)depth, DEPTH, (int)(2 * i + 2));
        at += (size_t)snprintf(text + at, bytes - at, "q%d = attention(q%d, k%d, v%d)\n",
                               (int)(i + 1), (int)i, (int)i, (int)i);
    }
    snprintf(text + at, bytes - at, "output q%d\n", (int)layers);
    return text;
}

static bool decode(against *self, int64_t depth, uint32_t threads) {
    double layer_bytes = 2.0 * KV_HEADS * (double)depth * DEPTH * 2;
    int64_t layers = (int64_t)((double)AGAINST_READ_BYTES / layer_bytes + 0.999);
    char name[64], *text = decode_text(depth, layers);
    ready model = {0};
    subject what = {.name = name,
                    .threads = threads,
                    .amount = layer_bytes * (double)layers,
                    .limit = against_read,
                    .unit = "GB/s",
                    .bar = 0.6};
    snprintf(name, sizeof name, "decode at depth %d, 32 / 4 x 64, f16", (int)depth);
    bool is_done = text != NULL && ready_make(&model, text, threads, false) &&
                   against_measure(self, &what, &model);
    ready_free(&model);
    free(text);
    return is_done;
}

static bool measure_all(against *self) {
    uint32_t threads = rlx_bench_threads() < 2 ? 1 : 2;
    bool is_done = true;
    for (uint32_t n = 1; is_done && n <= threads; n++)
        is_done = prefill(self, false, n) && prefill(self, true, n);
    return is_done && decode(self, 1024, threads) && decode(self, 8192, threads);
}

int rlx_bench_attention(FILE *out, bool json) {
    against self;
    bool is_done = against_begin(&self, out, json) && measure_all(&self);
    return against_end(&self, is_done);
}
