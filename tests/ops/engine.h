/* SPDX-License-Identifier: Apache-2.0 */
/* What runs an op case: the oracle (scalar kernels node by node), or a compiled program on a
 * device, with passes and memory reuse on or off. All must give the same. */
#ifndef RLX_TESTS_OPS_ENGINE_H
#define RLX_TESTS_OPS_ENGINE_H

#include "support/oracle.h"

#include <rlx/session.h>

/* "oracle"; or a device name with options behind it: "cpu", "cpu:scalar+plain", "cpu+poison".
 * staged: memory of a Vulkan device is not mapped; gpu: the shaders for GPUs on a software driver;
 * plain: no optional pass and no buffer shared;
 * poison: buffers are overwritten after their last use. */
typedef struct rlx_engine rlx_engine;

/* `model` and the shapes of the inputs say what to compile; both are borrowed for the call. */
RLX_WARN_UNUSED rlx_status rlx_engine_create(const char *name, const rlx_graph *model,
                                             const rlx_test_array *inputs, uint32_t input_count,
                                             rlx_engine **out_engine);
/* Whether the engine's device is there; the error text says what is missing. */
RLX_WARN_UNUSED rlx_status rlx_engine_probe(const char *name);
void rlx_engine_release_devices(void); /* at the end of the program */
void rlx_engine_destroy(rlx_engine *engine);
rlx_device *rlx_engine_device(const rlx_engine *engine);
/* borrowed; NULL: the oracle */ /* NULL is fine */

/* One run; states keep what it wrote. Outputs are owned by the caller. */
RLX_WARN_UNUSED rlx_status rlx_engine_run(rlx_engine *engine, const rlx_test_array *inputs,
                                          uint32_t input_count, rlx_test_array *outputs,
                                          uint32_t output_count);

#endif
