/* SPDX-License-Identifier: Apache-2.0 */
/* What a fault record says, in words. */
#include "ref/kernel.h"
#include "runtime/program.h"

static const char *const code_texts[RLX_FAULT_CODES] = {
    "no fault", "index out of range", "integer division by zero, dividend",
    "state written past its end, position", "size or count past its bound"};

rlx_status rlx_report_fault(const rlx_plan *plan, uint32_t step, uint32_t code, int64_t value) {
    rlx_status status;
    const char *text = code < RLX_FAULT_CODES ? code_texts[code] : "unknown fault";
    if (step >= plan->steps.count) {
        return RLX_FAIL(RLX_FAULT, "step %u: %s: %" PRId64, step, text, value);
    }
    status = RLX_FAIL(RLX_FAULT, "node '%s' (%s): %s: %" PRId64, plan->steps.items[step].name,
                      plan->steps.items[step].kind == RLX_STEP_JUMP
                          ? "loop"
                          : rlx_op_name(plan->steps.items[step].op),
                      text, value);
    rlx_error_detail_edit()->rank = step;
    rlx_error_detail_edit()->got = (uint64_t)value;
    return status;
}
