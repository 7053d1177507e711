/* SPDX-License-Identifier: Apache-2.0 */
/* The diagram of one entry: steps to the right, offsets up, one rectangle per scratch buffer; on
 * the same scale the bytes alive at each step and the lower bound, so that the gap between what is
 * needed and what is used can be seen. */
#include "plan/picture.h"

enum {
    WIDTH = 1200,
    HEIGHT = 480,
    LEFT = 84,
    RIGHT = 1188,
    TOP = 18,
    BOTTOM = 444,
    CHARACTER = 7, /* width of one of a label's, about */
    LABEL_HEIGHT = 13,
    MOST_STRETCH_LINES = 60,
    MANY_STEPS = 400 /* from here on the curve is a thin line */
};

typedef struct frame {
    uint32_t first, count; /* steps */
    double bytes;          /* at the top of the scale */
} frame;

static double x_of(const frame *f, uint32_t step) {
    return LEFT + (double)(step - f->first) * (RIGHT - LEFT) / f->count;
}

static double y_of(const frame *f, uint64_t bytes) {
    return BOTTOM - (double)bytes * (BOTTOM - TOP) / f->bytes;
}

/* Two digits after the point, whatever the locale. */
static void draw_number(picture *p, double value) {
    int64_t hundredths = (int64_t)(value * 100 + 0.5);
    DRAW(p, "%" PRId64 ".%02u", hundredths / 100, (unsigned)(hundredths % 100));
}

static void draw_attribute(picture *p, const char *name, double value) {
    DRAW(p, " %s=\"", name);
    draw_number(p, value);
    DRAW(p, "\"");
}

/* A round distance between ticks, for about `wanted` of them: a power of two of bytes, or 1, 2 or 5
 * times a power of ten. */
static uint64_t tick_distance(uint64_t range, uint64_t wanted, bool is_bytes) {
    uint64_t least = range / wanted + 1, distance = 1;
    while (distance < least && is_bytes)
        distance *= 2;
    for (uint64_t power = 1; distance < least; power *= 10) {
        distance = power * 10;
        if (power * 5 >= least) distance = power * 5;
        if (power * 2 >= least) distance = power * 2;
    }
    return distance;
}

static void draw_byte_axis(picture *p, const frame *f) {
    uint64_t top = (uint64_t)f->bytes, distance = tick_distance(top, 6, true);
    for (uint64_t at = 0; at <= top; at += distance) {
        double y = y_of(f, at);
        DRAW(p, "<line class=\"grid\" x1=\"%d\" x2=\"%d\"", LEFT, RIGHT);
        draw_attribute(p, "y1", y);
        draw_attribute(p, "y2", y);
        DRAW(p, "/><text class=\"tick\" text-anchor=\"end\" x=\"%d\"", LEFT - 6);
        draw_attribute(p, "y", y + 4);
        DRAW(p, ">");
        picture_size(p, at);
        DRAW(p, "</text>\n");
        if (at > UINT64_MAX - distance) break;
    }
}

static void draw_step_axis(picture *p, const frame *f) {
    uint64_t distance = tick_distance(f->count, 12, false);
    uint64_t at = (f->first + distance - 1) / distance * distance,
             end = (uint64_t)f->first + f->count;
    for (; at < end; at += distance) {
        uint32_t step = (uint32_t)at;
        DRAW(p, "<text class=\"tick\" text-anchor=\"middle\" y=\"%d\"", BOTTOM + 16);
        draw_attribute(p, "x", (x_of(f, step) + x_of(f, step + 1)) / 2);
        DRAW(p, ">%u</text>", step);
    }
    DRAW(p, "<text class=\"tick\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">step</text>\n",
         (LEFT + RIGHT) / 2, BOTTOM + 31);
}

/* Faint lines where a stretch begins. */
static void draw_stretches(picture *p, const frame *f, const rlx_plan_entry *entry) {
    if (entry->stretch_count > MOST_STRETCH_LINES) return;
    for (uint32_t i = 1; i < entry->stretch_count; i++) {
        uint32_t step = p->plan->stretches.items[entry->first_stretch + i].first_step;
        double x = x_of(f, step);
        DRAW(p, "<line class=\"stretch\" y1=\"%d\" y2=\"%d\"", TOP, BOTTOM);
        draw_attribute(p, "x1", x);
        draw_attribute(p, "x2", x);
        DRAW(p, "/>\n");
    }
}

static void draw_tooltip(picture *p, uint32_t index) {
    const rlx_plan_buffer *buffer = &p->plan->buffers.items[index];
    const picture_buffer *about = &p->buffers[index];
    DRAW(p, "<title>");
    if (about->slot != RLX_NONE) {
        const rlx_plan_slot *slot = &p->plan->slots.items[about->slot];
        picture_words(p, slot->name, 120);
        DRAW(p, "  %s[", rlx_dtype_name(slot->dtype));
        for (uint32_t i = 0; i < slot->rank; i++)
            DRAW(p, "%s%" PRId64, i == 0 ? "" : ", ", slot->dims[i]);
        DRAW(p, "]");
        if (about->slot_count > 1) DRAW(p, " and %u more views", about->slot_count - 1);
    } else {
        DRAW(p, "workspace");
    }
    DRAW(p, "\n%s", p->categories[about->category].name);
    if (about->step != RLX_NONE) {
        DRAW(p, " of step %u: ", about->step);
        picture_words(p, p->plan->steps.items[about->step].name, 120);
    }
    DRAW(p, "\n");
    picture_count(p, buffer->bytes);
    DRAW(p, " bytes at ");
    picture_count(p, buffer->offset);
    if (buffer->entry == RLX_NONE) {
        DRAW(p, ", always alive</title>");
    } else {
        DRAW(p, ", steps %u to %u</title>", buffer->first_step, buffer->last_step);
    }
}

static void draw_buffer(picture *p, const frame *f, uint32_t index) {
    const rlx_plan_buffer *buffer = &p->plan->buffers.items[index];
    const picture_buffer *about = &p->buffers[index];
    bool is_shared = buffer->entry == RLX_NONE;
    double left = is_shared ? LEFT : x_of(f, buffer->first_step);
    double width = (is_shared ? RIGHT : x_of(f, buffer->last_step + 1)) - left;
    double top = y_of(f, buffer->offset + buffer->bytes);
    double height = y_of(f, buffer->offset) - top;
    DRAW(p, "<g class=\"b c%u\"><rect", about->category);
    draw_attribute(p, "x", left);
    draw_attribute(p, "y", top);
    draw_attribute(p, "width", width);
    draw_attribute(p, "height", height < 0.3 ? 0.3 : height);
    DRAW(p, ">");
    draw_tooltip(p, index);
    DRAW(p, "</rect>");
    if (width >= 6 * CHARACTER && height >= LABEL_HEIGHT && about->slot != RLX_NONE) {
        DRAW(p, "<text class=\"label\"");
        draw_attribute(p, "x", left + 4);
        draw_attribute(p, "y", top + (height < 40 ? height / 2 + 4 : 14));
        DRAW(p, ">");
        picture_tail(p, p->plan->slots.items[about->slot].name, (size_t)(width - 6) / CHARACTER);
        DRAW(p, "</text>");
    }
    DRAW(p, "</g>\n");
}

static void draw_fault_record(picture *p, const frame *f) {
    if (f->bytes < RLX_FAULT_BYTES) return;
    DRAW(p, "<g class=\"b fault\"><rect x=\"%d\" width=\"%d\"", LEFT, RIGHT - LEFT);
    draw_attribute(p, "y", y_of(f, RLX_FAULT_BYTES));
    draw_attribute(p, "height", y_of(f, 0) - y_of(f, RLX_FAULT_BYTES));
    DRAW(p, "><title>fault record\n%d bytes at 0, always alive</title></rect></g>\n",
         RLX_FAULT_BYTES);
}

/* The bytes alive, as a staircase. */
static void draw_live(picture *p, const frame *f) {
    DRAW(p, "<path class=\"live%s\" d=\"", f->count > MANY_STEPS ? " thin" : "");
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t step = f->first + i;
        bool is_same = i != 0 && p->live[step] == p->live[step - 1];
        if (is_same && i + 1 < f->count) continue;
        DRAW(p, i == 0 ? "M" : "H");
        draw_number(p, x_of(f, step));
        DRAW(p, i == 0 ? " " : "V");
        draw_number(p, y_of(f, p->live[step]));
    }
    DRAW(p, "H%d\"/>\n", RIGHT);
}

static void draw_level(picture *p, const frame *f, const char *class_name, uint64_t bytes) {
    double y = y_of(f, bytes);
    DRAW(p, "<line class=\"%s\" x1=\"%d\" x2=\"%d\"", class_name, LEFT, RIGHT);
    draw_attribute(p, "y1", y);
    draw_attribute(p, "y2", y);
    DRAW(p, "/>");
}

void picture_svg(picture *p, uint32_t index) {
    const rlx_plan *plan = p->plan;
    const rlx_plan_entry *entry = &plan->entries.items[index];
    uint64_t top =
        entry->scratch_bytes > entry->lower_bound ? entry->scratch_bytes : entry->lower_bound;
    frame f = {entry->first_step, entry->step_count == 0 ? 1 : entry->step_count,
               top == 0 ? 1.0 : (double)top};
    DRAW(p,
         "<svg class=\"plan\" role=\"img\" viewBox=\"0 0 %d %d\" data-first=\"%u\" "
         "data-count=\"%u\" data-left=\"%d\" data-right=\"%d\" aria-label=\"scratch memory by "
         "step\">\n",
         WIDTH, HEIGHT, f.first, f.count, LEFT, RIGHT);
    draw_byte_axis(p, &f);
    draw_step_axis(p, &f);
    draw_fault_record(p, &f);
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (picture_is_in(buffer, index) && buffer->bytes != 0) draw_buffer(p, &f, i);
    }
    draw_stretches(p, &f, entry);
    if (entry->step_count != 0) draw_live(p, &f);
    draw_level(p, &f, "peak", entry->scratch_bytes);
    draw_level(p, &f, "bound", entry->lower_bound); /* on top: they may be the same */
    DRAW(p, "\n</svg>\n");
}
