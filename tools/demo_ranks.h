/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's decoder split over ranks that are threads of this process. */
#ifndef RLX_TOOLS_DEMO_RANKS_H
#define RLX_TOOLS_DEMO_RANKS_H

#include "demo_device.h"

/* Every rank decodes greedily by its own logits; all must have the same bits. The result is that of
 * rank 0; bytes are those of one rank. */
rlx_status demo_run_ranks(demo_job *job, uint32_t ranks, demo_result *out_result);

#endif
