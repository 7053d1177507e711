/* SPDX-License-Identifier: Apache-2.0 */
/* The last profiled run as a picture: what was read and what was computed, side by side on one time
 * axis. One SVG that needs nothing else; names are shown when the mouse is over a bar. */
#include "base/text.h"
#include "runtime/exec.h"

#include <string.h>

enum {
    WIDTH = 1200,
    LEFT = 84,
    RIGHT = 1180,
    LANE = 44,
    READS_AT = 66,
    STEPS_AT = 122,
    AXIS_AT = 178
};

static const char *const head =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 244\" "
    "font-family=\"system-ui,sans-serif\" font-size=\"13\">\n<style>"
    ":root{color-scheme:light dark}.paper{fill:#fff}text{fill:#1c2530}.soft{fill:#5b6775}"
    ".line{stroke:#c9d0d8}.read{fill:#7aa7dd;stroke:#2f6cb3}.tile{fill:#8ecb8e;stroke:#2f7d32}"
    ".step{fill:#cfe3c9;stroke:#7da275}.wait{fill:#f2b8b5;stroke:#c0392b}"
    "rect{stroke-width:.5}.paper,.key{stroke:none}"
    "@media(prefers-color-scheme:dark){.paper{fill:#12161c}text{fill:#e3e8ee}.soft{fill:#93a0ae}"
    ".line{stroke:#3a444f}.read{fill:#2f5f95;stroke:#8fbdf0}.tile{fill:#2f6b38;stroke:#8fd694}"
    ".step{fill:#274030;stroke:#5f8a66}.wait{fill:#7d2f2b;stroke:#ff8f87}}</style>\n"
    "<rect class=\"paper\" width=\"1200\" height=\"244\"/>\n";

typedef struct timeline {
    const rlx_exec *exec;
    const rlx_plan *plan;
    rlx_text text;
    uint64_t start_ns, end_ns;
    uint64_t read_ns, step_ns, wait_ns, read_bytes;
} timeline;

#define DRAW(t, ...) rlx_text_printf(&(t)->text, __VA_ARGS__)

/* Tenths by hand: the text must not depend on the locale. */
static void draw_tenths(timeline *t, double value) {
    uint64_t tenths = value <= 0 ? 0 : (uint64_t)(value * 10 + 0.5);
    DRAW(t, "%" PRIu64 ".%u", tenths / 10, (unsigned)(tenths % 10));
}

/* Names come from files. */
static void draw_words(timeline *t, const char *words, size_t most) {
    for (size_t i = 0; words[i] != 0 && i < most; i++) {
        unsigned char c = (unsigned char)words[i];
        char shown = c < 0x20 || c >= 0x7f || strchr("&<>\"'", c) != NULL ? '?' : (char)c;
        rlx_text_append(&t->text, &shown, 1);
    }
}

static double place_of(const timeline *t, uint64_t ns) {
    double share = (double)(ns - t->start_ns) / (double)(t->end_ns - t->start_ns);
    return LEFT + share * (RIGHT - LEFT);
}

static bool is_read(const rlx_plan_step *step) {
    return step->kind == RLX_STEP_STREAM && step->output_count != 0;
}

static bool uses_tile(const rlx_plan *plan, const rlx_plan_step *step) {
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t slot = plan->operands.items[step->operands_at + i];
        if (slot == RLX_NONE) continue;
        if (plan->buffers.items[plan->slots.items[slot].buffer].segment == RLX_SEGMENT_TILES) {
            return true;
        }
    }
    return false;
}

static const char *class_of(const rlx_plan *plan, const rlx_plan_step *step) {
    if (step->kind == RLX_STEP_STREAM) return is_read(step) ? "read" : "wait";
    return uses_tile(plan, step) ? "tile" : "step";
}

static void sum_up(timeline *t) {
    t->start_ns = UINT64_MAX;
    for (uint64_t i = t->exec->run_event; i < t->exec->event_count; i++) {
        const rlx_trace_event *event = &t->exec->events[i];
        const rlx_plan_step *step = &t->plan->steps.items[event->step];
        uint64_t ns = event->end_ns - event->start_ns;
        if (event->start_ns < t->start_ns) t->start_ns = event->start_ns;
        if (event->end_ns > t->end_ns) t->end_ns = event->end_ns;
        if (is_read(step)) {
            t->read_ns += ns;
            t->read_bytes += step->bytes;
        } else if (step->kind == RLX_STEP_STREAM) {
            t->wait_ns += ns;
        } else {
            t->step_ns += ns;
        }
    }
    if (t->end_ns <= t->start_ns) t->end_ns = t->start_ns + 1;
}

static void draw_event(timeline *t, const rlx_trace_event *event) {
    const rlx_plan_step *step = &t->plan->steps.items[event->step];
    double from = place_of(t, event->start_ns), to = place_of(t, event->end_ns);
    int at = is_read(step) ? READS_AT : STEPS_AT;
    DRAW(t, "<rect class=\"%s\" x=\"", class_of(t->plan, step));
    draw_tenths(t, from);
    DRAW(t, "\" y=\"%d\" height=\"%d\" width=\"", at, LANE);
    draw_tenths(t, to - from);
    DRAW(t, "\"><title>");
    draw_words(t, step->name, 80);
    DRAW(t, ", ");
    draw_tenths(t, (double)(event->end_ns - event->start_ns) / 1e3);
    DRAW(t, " us</title></rect>\n");
}

/* Ticks at 1, 2 or 5 times a power of ten, at most about twelve of them. */
static void draw_axis(timeline *t) {
    double span = (double)(t->end_ns - t->start_ns), tick = 1e3;
    while (span / tick > 12)
        tick *= span / (tick * 2) <= 12 ? 2 : span / (tick * 5) <= 12 ? 5 : 10;
    for (uint32_t i = 0; (double)i * tick <= span; i++) {
        double x = LEFT + (double)i * tick / span * (RIGHT - LEFT);
        DRAW(t, "<line class=\"line\" y1=\"%d\" y2=\"%d\" x1=\"", READS_AT - 6, AXIS_AT);
        draw_tenths(t, x);
        DRAW(t, "\" x2=\"");
        draw_tenths(t, x);
        DRAW(t, "\"/><text class=\"soft\" text-anchor=\"middle\" y=\"%d\" x=\"", AXIS_AT + 16);
        draw_tenths(t, x);
        DRAW(t, "\">");
        draw_tenths(t, (double)i * tick / 1e6);
        DRAW(t, " ms</text>\n");
    }
}

static void draw_head(timeline *t, const char *title) {
    DRAW(t, "%s<text x=\"%d\" y=\"24\" font-size=\"16\">", head, 16);
    draw_words(t, title, 120);
    DRAW(t, "</text>\n<text class=\"soft\" x=\"16\" y=\"46\">run ");
    draw_tenths(t, (double)(t->end_ns - t->start_ns) / 1e6);
    DRAW(t, " ms: compute ");
    draw_tenths(t, (double)t->step_ns / 1e6);
    if (t->read_ns != 0) {
        DRAW(t, " ms, reads ");
        draw_tenths(t, (double)t->read_ns / 1e6);
        DRAW(t, " ms (");
        draw_tenths(t, (double)t->read_bytes / 1e6);
        DRAW(t, " MB at ");
        draw_tenths(t, (double)t->read_bytes / (double)t->read_ns);
        DRAW(t, " GB/s), compute waits for reads ");
        draw_tenths(t, (double)t->wait_ns / 1e6);
    }
    DRAW(t, " ms</text>\n");
    DRAW(t, "<text x=\"16\" y=\"%d\">reads</text><text x=\"16\" y=\"%d\">compute</text>\n",
         READS_AT + LANE / 2 + 5, STEPS_AT + LANE / 2 + 5);
}

static void draw_legend(timeline *t) {
    static const char *const rows[][2] = {{"read", "a tile is read from the file"},
                                          {"tile", "a step on weights that were read"},
                                          {"step", "a step on resident weights, or without any"},
                                          {"wait", "a step waits for its tile"}};
    int x = LEFT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DRAW(t,
             "<rect class=\"%s\" x=\"%d\" y=\"214\" width=\"14\" height=\"14\"/>"
             "<text class=\"soft\" x=\"%d\" y=\"226\">%s</text>\n",
             rows[i][0], x, x + 20, rows[i][1]);
        x += 50 + (int)strlen(rows[i][1]) * 7;
    }
}

rlx_status rlx_exec_timeline(const rlx_exec *exec, const char *title, char **out_svg) {
    if (exec == NULL || title == NULL || out_svg == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "exec, title or out_svg is NULL");
    }
    if (exec->profile == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "the executable was not made with profile");
    }
    if (exec->run_event == exec->event_count) {
        return RLX_FAIL(RLX_NOT_FOUND, "no run was noted: %" PRIu64 " events, room for %" PRIu64,
                        exec->event_count, exec->event_capacity);
    }
    timeline t = {
        .exec = exec, .plan = exec->program->plan, .text = {.allocator = &exec->allocator}};
    sum_up(&t);
    draw_head(&t, title);
    draw_axis(&t);
    for (uint64_t i = exec->run_event; i < exec->event_count; i++)
        draw_event(&t, &exec->events[i]);
    draw_legend(&t);
    DRAW(&t, "</svg>\n");
    return rlx_text_finish(&t.text, out_svg);
}
