/* SPDX-License-Identifier: Apache-2.0 */
/* Models from a seed whose weights are pages long, so that a budget can cut them in many ways:
 * linear layers, weights used again, biases and scales between them, branches and loops. */
#ifndef RLX_TESTS_SESSION_STREAM_MODEL_H
#define RLX_TESTS_SESSION_STREAM_MODEL_H

#include <stdint.h>

/* Owned: free(). */
char *stream_model(uint64_t seed);

#endif
