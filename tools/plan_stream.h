/* SPDX-License-Identifier: Apache-2.0 */
/* What `rlx plan --weights-budget` says: resident or streamed, and what a run reads. */
#ifndef RLX_TOOLS_PLAN_STREAM_H
#define RLX_TOOLS_PLAN_STREAM_H

#include "tool.h"

/* Nothing without a budget. `verbose`: every tile. */
void tool_print_stream(const rlx_plan *plan, uint64_t budget, bool verbose);
/* ,"stream":{..}: nothing without a budget. */
void tool_json_stream(const rlx_plan *plan, uint64_t budget);

#endif
