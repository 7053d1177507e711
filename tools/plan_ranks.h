/* SPDX-License-Identifier: Apache-2.0 */
/* What `rlx plan --ranks N` says about a model on several ranks. */
#ifndef RLX_TOOLS_PLAN_RANKS_H
#define RLX_TOOLS_PLAN_RANKS_H

#include "tool.h"

/* Nothing where there is one rank. The products that are split, and with `verbose` also those that
 * are not, with the reason; without it their number. */
void tool_print_ranks(const rlx_plan *plan, bool verbose);
void tool_json_ranks(const rlx_plan *plan); /* fields of an object that is open */

#endif
