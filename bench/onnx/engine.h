/* SPDX-License-Identifier: Apache-2.0 */
/* What the ONNX benchmark asks of an engine: make a model ready, run it, hand out its outputs. Two
 * files implement it: engine_rlx.c and engine_ort.c. The runner does not know which one it drives.
 */
#ifndef BENCH_ONNX_ENGINE_H
#define BENCH_ONNX_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ENGINE_MOST_PORTS = 64, ENGINE_MOST_DIMS = 8 };

typedef struct engine_input {
    char name[128];
    bool is_f32; /* otherwise an integer of `item_bytes`, of one byte a bool */
    uint32_t item_bytes;
    uint32_t rank;
    int64_t dims[ENGINE_MOST_DIMS];
    void *data;
    size_t bytes;
} engine_input;

typedef struct engine_case {
    char model[1024]; /* .onnx, or a compiled program where the engine has them */
    engine_input inputs[ENGINE_MOST_PORTS];
    char outputs[ENGINE_MOST_PORTS][128];
    uint32_t input_count, output_count;
    uint32_t threads;
    bool sets_once;      /* inputs are set before the first run alone: single ops, not models */
    const char *level;   /* ort: "basic" or "all" */
    const char *library; /* ort: where libonnxruntime is */
} engine_case;

/* Functions return NULL, or what went wrong (static or borrowed until the next call). */
typedef struct engine {
    const char *name;
    const char *(*open)(const engine_case *c);
    /* Sets the inputs and runs; the clock is around it, because a user pays for both. An engine
     * that copies inputs sets them only once where the case says so. */
    const char *(*run)(const engine_case *c);
    /* Output `index` of the last run as f32: a pointer that stays until the next run. */
    const char *(*read)(const engine_case *c, uint32_t index, const float **out, size_t *out_count);
    const char *(*save)(const char *path); /* NULL: the engine has no compiled programs */
} engine;

extern const engine engine_rlx, engine_ort;

#endif
