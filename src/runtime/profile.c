/* SPDX-License-Identifier: Apache-2.0 */
/* Times per step: a row per step that adds up, and a list of events for the trace. Both have their
 * memory from the start; a full event list counts what it drops. */
#include "base/text.h"
#include "runtime/exec.h"

enum { DEFAULT_EVENTS = 16384 };

static uint32_t entry_of_step(const rlx_plan *plan, uint32_t step) {
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        const rlx_plan_entry *entry = &plan->entries.items[i];
        if (step >= entry->first_step && step - entry->first_step < entry->step_count) return i;
    }
    return RLX_NONE;
}

static uint32_t longest_item(const rlx_exec *exec) {
    uint32_t longest = 1;
    for (uint32_t i = 0; i < exec->item_count; i++) {
        if (exec->items[i].step_count > longest) longest = exec->items[i].step_count;
    }
    return longest;
}

rlx_status rlx_exec_prepare_profile(rlx_exec *exec) {
    const rlx_plan *plan = exec->program->plan;
    exec->event_capacity =
        exec->options.trace_events == 0 ? DEFAULT_EVENTS : exec->options.trace_events;
    RLX_TRY(rlx_scratch_array(&exec->memory, plan->steps.count, sizeof *exec->profile,
                              (void **)&exec->profile));
    RLX_TRY(rlx_scratch_array(&exec->memory, exec->event_capacity, sizeof *exec->events,
                              (void **)&exec->events));
    RLX_TRY(rlx_scratch_array(&exec->memory, longest_item(exec), sizeof *exec->times,
                              (void **)&exec->times));
    for (uint32_t i = 0; i < plan->steps.count; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        exec->profile[i] = (rlx_step_profile){.name = step->name,
                                              .kernel = step->kernel,
                                              .op = step->op,
                                              .entry = entry_of_step(plan, i),
                                              .bytes = step->bytes,
                                              .flops = step->flops};
    }
    return RLX_OK;
}

void rlx_exec_note_time(rlx_exec *exec, uint32_t step, rlx_step_time time) {
    rlx_step_profile *row = &exec->profile[step];
    uint64_t ns = time.end_ns - time.start_ns;
    if (row->runs == 0 || ns < row->least_ns) row->least_ns = ns;
    row->runs++;
    row->total_ns += ns;
    if (exec->event_count == exec->event_capacity) {
        exec->event_dropped++;
        return;
    }
    exec->events[exec->event_count++] = (rlx_trace_event){time.start_ns, time.end_ns, step};
}

void rlx_exec_note_times(rlx_exec *exec, const rlx_exec_item *item) {
    for (uint32_t i = 0; i < item->step_count; i++)
        rlx_exec_note_time(exec, item->first_step + i, exec->times[i]);
}

const rlx_step_profile *rlx_exec_profile(const rlx_exec *exec, uint32_t *out_count) {
    bool has_rows = exec != NULL && exec->profile != NULL;
    if (out_count != NULL) *out_count = has_rows ? exec->program->plan->steps.count : 0;
    return has_rows ? exec->profile : NULL;
}

void rlx_exec_reset_profile(rlx_exec *exec) {
    if (exec == NULL || exec->profile == NULL) return;
    for (uint32_t i = 0; i < exec->program->plan->steps.count; i++)
        exec->profile[i].runs = exec->profile[i].total_ns = exec->profile[i].least_ns = 0;
    exec->event_count = exec->event_dropped = exec->run_event = 0;
}

/* A JSON string; bytes that are not printable ASCII are escaped one by one. */
static void print_string(rlx_text *text, const char *string) {
    rlx_text_append(text, "\"", 1);
    for (const char *at = string; *at != 0; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\') {
            rlx_text_printf(text, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            rlx_text_printf(text, "\\u%04x", c);
        } else {
            rlx_text_append(text, at, 1);
        }
    }
    rlx_text_append(text, "\"", 1);
}

static const char *category(const rlx_plan_step *step) {
    if (step->kind == RLX_STEP_COPY) return "copy";
    if (step->kind != RLX_STEP_STREAM) return rlx_op_name(step->op);
    return step->output_count != 0 ? "read" : "wait";
}

/* Reads of weights have a line of their own: they run beside the steps. */
static void print_event(rlx_text *text, const rlx_plan *plan, const rlx_trace_event *event,
                        uint64_t zero_ns) {
    const rlx_plan_step *step = &plan->steps.items[event->step];
    rlx_text_printf(text, "{\"name\":");
    print_string(text, step->name);
    rlx_text_printf(
        text, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
        category(step), step->kind == RLX_STEP_STREAM && step->output_count != 0 ? 2 : 1,
        (double)(event->start_ns - zero_ns) / 1e3, (double)(event->end_ns - event->start_ns) / 1e3);
    rlx_text_printf(text, ",\"args\":{\"step\":%u,\"kernel\":", event->step);
    print_string(text, step->kernel);
    rlx_text_printf(text, ",\"bytes\":%" PRIu64 ",\"flops\":%" PRIu64 "}}", step->bytes,
                    step->flops);
}

rlx_status rlx_exec_trace(const rlx_exec *exec, char **out_text) {
    rlx_text text = {0};
    if (exec == NULL || out_text == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "exec or out_text is NULL");
    }
    if (exec->profile == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "the executable was not made with profile");
    }
    text.allocator = &exec->allocator;
    rlx_text_printf(&text,
                    "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":%" PRIu64
                    "},\"traceEvents\":[",
                    exec->event_dropped);
    for (uint64_t i = 0; i < exec->event_count; i++) {
        rlx_text_append(&text, i == 0 ? "\n" : ",\n", i == 0 ? 1 : 2);
        print_event(&text, exec->program->plan, &exec->events[i], exec->events[0].start_ns);
    }
    rlx_text_printf(&text, "\n]}\n");
    return rlx_text_finish(&text, out_text);
}
