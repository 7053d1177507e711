/* SPDX-License-Identifier: Apache-2.0 */
/* The model of `rlx demo`: a small decoder with seeded weights, built with the public API. Two
 * graphs of the same weights: one with resident K/V caches, one that sees all tokens at once. */
#ifndef RLX_TOOLS_DEMO_MODEL_H
#define RLX_TOOLS_DEMO_MODEL_H

#include <rlx/rlx.h>

enum { DEMO_VOCABULARY = 256, DEMO_CAPACITY = 64, DEMO_PREFILL = 8 };

/* Inputs: i64 tokens [S] and i64 positions [S], S being the symbol "S". Output: f32 logits
 * [1][S][DEMO_VOCABULARY]. With has_cache every layer keeps its keys and values as states of
 * DEMO_CAPACITY rows and attends to all rows written so far; without, to the S tokens given. */
rlx_status demo_model_build(bool has_cache, rlx_graph **out_graph);

/* One line for people: layers, widths, parameters. */
const char *demo_model_text(void);

#endif
