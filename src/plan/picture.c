/* SPDX-License-Identifier: Apache-2.0 */
/* rlx_plan_html: a plan as one HTML file that needs nothing else: the segments, and for each entry
 * its scratch memory as offset x time, what is alive at the peak, and a legend. Colours follow the
 * reader's light or dark setting; names are shown when the mouse is over a buffer, by a few lines
 * of script or, without it, by the browser itself. */
#include "plan/picture.h"

#include "base/size.h"

#include <stdio.h>

static const char *const style =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1c2530;--soft:#5b6775;--line:#dfe4ea;"
    "--card:#f6f8fa;--sat:52%;--light:72%;--pale:92%;--edge:42%;--text:#10202f;--live:#111827;--"
    "bound:#0a7d34;"
    "--peak:#c0262d}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#12161c;--ink:#e3e8ee;--soft:#93a0ae;"
    "--line:#2a323c;--card:#1a2028;--sat:42%;--light:38%;--pale:20%;--edge:60%;--text:#f2f5f8;"
    "--live:#f5f5f5;--bound:#4ade80;--peak:#ff7b7b}}\n"
    "body{margin:0 auto;max-width:1400px;padding:20px 28px 60px;background:var(--paper);"
    "color:var(--ink);font:14px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:21px;margin:0 0 2px;overflow-wrap:anywhere}"
    "h2{font-size:17px;margin:34px 0 4px;overflow-wrap:anywhere}"
    "p{margin:2px 0 10px;color:var(--soft)}"
    "p b{color:var(--ink);font-weight:600}\n"
    "table{border-collapse:collapse;margin:8px 0}"
    "th,td{padding:2px 16px 2px 0;text-align:right;font-variant-numeric:tabular-nums;"
    "border-bottom:1px solid var(--line)}"
    "th{font-weight:600;color:var(--soft)}th:first-child,td:first-child,td.name{text-align:left}"
    "td.name{overflow-wrap:anywhere;max-width:520px}\n"
    ".frame{overflow:auto;max-height:92vh;border:1px solid var(--line);border-radius:6px;"
    "background:var(--card)}"
    "svg.plan{display:block;width:100%;height:auto}\n"
    ".b rect{fill:hsl(var(--h,210) var(--sat) var(--light));"
    "stroke:hsl(var(--h,210) var(--sat) var(--edge));stroke-width:.6;"
    "vector-effect:non-scaling-stroke}"
    ".b:hover rect{stroke:var(--ink);stroke-width:2}"
    ".label{font:11px ui-monospace,monospace;fill:var(--text);pointer-events:none}"
    ".tick{font:11px system-ui,sans-serif;fill:var(--soft)}\n"
    ".grid{stroke:var(--line);stroke-width:1}"
    ".stretch{stroke:var(--ink);opacity:.22;stroke-dasharray:2 3;pointer-events:none}"
    ".live{fill:none;stroke:var(--live);stroke-width:1.5;opacity:.75;pointer-events:none;"
    "vector-effect:non-scaling-stroke}.live.thin{stroke-width:.6}"
    ".bound,.peak{stroke-width:1.5;pointer-events:none}"
    ".bound{stroke:var(--bound);stroke-dasharray:7 4}.peak{stroke:var(--peak)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:3px 16px;margin:8px 0 0;padding:0;list-style:none;"
    "color:var(--soft)}"
    ".legend i{display:inline-block;width:12px;height:12px;margin-right:5px;border-radius:2px;"
    "vertical-align:-1px;background:hsl(var(--h,210) var(--sat) var(--light));"
    "border:1px solid hsl(var(--h,210) var(--sat) var(--edge))}"
    ".legend i.l{height:0;border:0;border-top:2px solid var(--live);background:none;"
    "border-radius:0;vertical-align:4px;width:18px}"
    ".legend i.lb{border-top:2px dashed var(--bound)}.legend i.lp{border-top-color:var(--peak)}\n"
    ".zoom{float:right}.zoom button{font:inherit;color:inherit;background:var(--card);"
    "border:1px solid var(--line);border-radius:4px;padding:1px 9px;margin-left:4px}\n"
    "details{margin:10px 0}summary{cursor:pointer;color:var(--soft)}\n"
    "#tip{position:fixed;z-index:9;display:none;max-width:46em;padding:6px 10px;"
    "background:var(--paper);color:var(--ink);border:1px solid var(--soft);border-radius:5px;"
    "box-shadow:0 3px 14px rgba(0,0,0,.25);white-space:pre-wrap;overflow-wrap:anywhere;"
    "font:12.5px/1.45 ui-monospace,monospace;pointer-events:none}\n";

static const char *const script =
    "(()=>{const tip=document.getElementById('tip');\n"
    "document.querySelectorAll('section').forEach(s=>{const svg=s.querySelector('svg.plan');"
    "if(!svg)return;const d=svg.dataset,names=[...s.querySelectorAll('.steps li')];\n"
    "svg.querySelectorAll('.b title').forEach(t=>{t.parentNode.tip=t.textContent;t.remove()});\n"
    "svg.onmousemove=e=>{const r=svg.getBoundingClientRect(),"
    "x=(e.clientX-r.left)*1200/r.width,n=Math.floor((x-d.left)/(d.right-d.left)*d.count);"
    "let t=e.target.tip||'';if(n>=0&&n<d.count){const step=+d.first+n;"
    "t+=(t?'\\n\\n':'')+'step '+step+(names[n]?': '+names[n].textContent:'')}"
    "tip.textContent=t;tip.style.display=t?'block':'none';"
    "tip.style.left=Math.max(4,Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8))+'px';"
    "const below=e.clientY+18;tip.style.top=(below+tip.offsetHeight>innerHeight?"
    "e.clientY-tip.offsetHeight-10:below)+'px'};\n"
    "svg.onmouseleave=()=>{tip.style.display='none'};\n"
    "const z=s.querySelector('.zoom');if(z){z.hidden=false;z.onclick=e=>{const "
    "v=e.target.dataset.z;"
    "if(v)svg.style.width=v*100+'%'}}})})()";

/* Bytes of the UTF-8 character at `at`, 0 when it is broken. */
static size_t character_bytes(const unsigned char *at) {
    size_t bytes = at[0] < 0x80                    ? 1
                   : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                   : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                   : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                   : 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
    }
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_outside = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return bytes > 1 && (is_overlong || is_outside) ? 0 : bytes;
}

/* To the next character; a broken one has one byte. */
static size_t step_over(const unsigned char *at) {
    size_t bytes = character_bytes(at);
    return bytes == 0 ? 1 : bytes;
}

static void draw_character(picture *p, const unsigned char *at) {
    size_t bytes = character_bytes(at);
    if (bytes == 0 || at[0] < 32 || at[0] == 127) {
        DRAW(p, "\xef\xbf\xbd");
    } else if (strchr("&<>\"'", at[0]) != NULL) {
        DRAW(p, "&#%u;", at[0]);
    } else {
        rlx_text_append(&p->text, (const char *)at, bytes);
    }
}

void picture_words(picture *p, const char *words, size_t most) {
    const unsigned char *at = (const unsigned char *)words;
    for (size_t count = 0; *at != 0; count++) {
        size_t step = step_over(at);
        if (count + 1 >= most && at[step] != 0) {
            DRAW(p, "\xe2\x80\xa6");
            return;
        }
        draw_character(p, at);
        at += step;
    }
}

void picture_tail(picture *p, const char *words, size_t most) {
    const unsigned char *at = (const unsigned char *)words;
    size_t count = 0;
    for (const unsigned char *end = at; *end != 0; count++)
        end += step_over(end);
    size_t cut = count <= most ? 0 : count - most + 1; /* one more, for the dots */
    if (cut != 0) DRAW(p, "\xe2\x80\xa6");
    for (; cut > 0 && *at != 0; cut--)
        at += step_over(at);
    picture_words(p, (const char *)at, SIZE_MAX);
}

void picture_count(picture *p, uint64_t count) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    for (int i = 0; i < length; i++)
        DRAW(p, "%s%c", i != 0 && (length - i) % 3 == 0 ? "," : "", digits[i]);
}

void picture_size(picture *p, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint32_t unit = 0;
    uint64_t rest = 0;
    while (bytes >= 1024 && unit < 6) {
        rest = bytes % 1024;
        bytes /= 1024;
        unit++;
    }
    DRAW(p, "%" PRIu64, bytes);
    if (rest != 0 && bytes < 100) DRAW(p, ".%u", (unsigned)(rest * 10 / 1024));
    DRAW(p, " %s", units[unit]);
}

bool picture_is_in(const rlx_plan_buffer *buffer, uint32_t entry) {
    return buffer->segment == RLX_SEGMENT_SCRATCH &&
           (buffer->entry == entry || buffer->entry == RLX_NONE);
}

static void note_writer(picture *p, uint32_t buffer, uint32_t step, uint32_t category) {
    if (p->buffers[buffer].step != RLX_NONE) return;
    p->buffers[buffer].step = step;
    if (p->buffers[buffer].category == PICTURE_OTHER) p->buffers[buffer].category = category;
}

static void classify_step(picture *p, uint32_t index) {
    const rlx_plan *plan = p->plan;
    const rlx_plan_step *step = &plan->steps.items[index];
    bool has_op = step->kind == RLX_STEP_KERNEL || step->kind == RLX_STEP_HOST ||
                  step->kind == RLX_STEP_COLLECTIVE;
    uint32_t category = has_op                        ? (uint32_t)step->op
                        : step->kind == RLX_STEP_COPY ? (uint32_t)PICTURE_COPY
                                                      : (uint32_t)PICTURE_OTHER;
    for (uint32_t i = 0; i < step->output_count; i++) {
        uint32_t slot = plan->operands.items[step->operands_at + step->input_count + i];
        if (slot != RLX_NONE) note_writer(p, plan->slots.items[slot].buffer, index, category);
    }
    if (step->workspace != RLX_NONE) note_writer(p, step->workspace, index, PICTURE_WORKSPACE);
}

/* What each buffer holds, from its slots and the steps that write it. */
static rlx_status classify(picture *p) {
    const rlx_plan *plan = p->plan;
    RLX_TRY(rlx_scratch_array(&p->memory, plan->buffers.count, sizeof *p->buffers,
                              (void **)&p->buffers));
    RLX_TRY(rlx_scratch_array(&p->memory, (uint64_t)plan->steps.count + 1, sizeof *p->live,
                              (void **)&p->live));
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        p->buffers[i] = (picture_buffer){RLX_NONE, 0, RLX_NONE, PICTURE_OTHER};
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        picture_buffer *buffer = &p->buffers[plan->slots.items[i].buffer];
        if (buffer->slot == RLX_NONE) buffer->slot = i;
        if (plan->slots.items[i].kind == RLX_VALUE_INPUT) buffer->category = PICTURE_INPUT;
        buffer->slot_count++;
    }
    for (uint32_t i = 0; i < plan->steps.count; i++)
        classify_step(p, i);
    for (uint32_t i = 0; i < RLX_OP_COUNT; i++)
        p->categories[i].name = rlx_op_name((rlx_op)i);
    p->categories[PICTURE_COPY].name = "copy step";
    p->categories[PICTURE_INPUT].name = "input";
    p->categories[PICTURE_WORKSPACE].name = "workspace";
    p->categories[PICTURE_OTHER].name = "other";
    return RLX_OK;
}

/* Bytes alive at each step of an entry, the fault record included: differences first, then their
 * sum. */
static void count_live(picture *p, uint32_t index) {
    const rlx_plan *plan = p->plan;
    const rlx_plan_entry *entry = &plan->entries.items[index];
    uint64_t sum = RLX_FAULT_BYTES;
    for (uint32_t i = 0; i < PICTURE_CATEGORIES; i++)
        p->categories[i].bytes = p->categories[i].count = 0;
    memset(p->live + entry->first_step, 0, ((size_t)entry->step_count + 1) * sizeof *p->live);
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        picture_category *category = &p->categories[p->buffers[i].category];
        if (!picture_is_in(buffer, index) || buffer->bytes == 0) continue;
        bool is_shared = buffer->entry == RLX_NONE;
        category->count++;
        category->bytes += buffer->bytes;
        if (entry->step_count == 0) continue;
        p->live[is_shared ? entry->first_step : buffer->first_step] += buffer->bytes;
        if (!is_shared) p->live[buffer->last_step + 1] -= buffer->bytes;
    }
    for (uint32_t i = 0; i <= entry->step_count; i++) {
        sum += p->live[entry->first_step + i];
        p->live[entry->first_step + i] = sum;
    }
}

static void draw_row(picture *p, const char *name, uint64_t bytes, const char *note) {
    DRAW(p, "<tr><td>%s</td><td>", name);
    picture_count(p, bytes);
    DRAW(p, "</td><td>");
    picture_size(p, bytes);
    DRAW(p, "</td><td class=\"name\">%s</td></tr>\n", note);
}

static void draw_segments(picture *p) {
    const uint64_t *bytes = p->plan->segment_bytes;
    DRAW(p, "<table><tr><th>segment</th><th>bytes</th><th></th><th></th></tr>\n");
    draw_row(p, "weights", bytes[RLX_SEGMENT_WEIGHTS], "shared by every executable");
    draw_row(p, "state", bytes[RLX_SEGMENT_STATE], "kept between runs");
    draw_row(p, "scratch", bytes[RLX_SEGMENT_SCRATCH], "the largest entry; drawn below");
    draw_row(p, "<b>arena</b>", rlx_plan_arena_bytes(p->plan), "what an executable maps");
    if (bytes[RLX_SEGMENT_SOURCE] != 0) {
        draw_row(p, "source", bytes[RLX_SEGMENT_SOURCE], "only while a program is made");
    }
    DRAW(p, "</table>\n");
}

static void draw_facts(picture *p, const rlx_plan_entry *entry) {
    DRAW(p, "<p>scratch <b>");
    picture_count(p, entry->scratch_bytes);
    DRAW(p, "</b> bytes, lower bound <b>");
    picture_count(p, entry->lower_bound);
    DRAW(p, "</b>");
    if (entry->lower_bound != 0) {
        double ratio = (double)entry->scratch_bytes / (double)entry->lower_bound;
        unsigned thousandths = ratio < 1e6 ? (unsigned)(ratio * 1000 + 0.5) : 999999999;
        DRAW(p, " (ratio <b>%u.%03u</b>)", thousandths / 1000, thousandths % 1000);
    }
    DRAW(p, ", without reuse <b>");
    picture_count(p, entry->sum_bytes);
    DRAW(p, "</b>; %u step%s in %u stretch%s", entry->step_count, entry->step_count == 1 ? "" : "s",
         entry->stretch_count, entry->stretch_count == 1 ? "" : "es");
    if (entry->placed_by[0] != 0) {
        DRAW(p, "; placed by ");
        picture_words(p, entry->placed_by, 80);
    }
    DRAW(p, "</p>\n");
}

/* Categories with the most bytes first. */
static void draw_legend(picture *p) {
    DRAW(p, "<ul class=\"legend\"><li><i class=\"l\"></i>bytes alive</li>"
            "<li><i class=\"l lb\"></i>lower bound</li><li><i class=\"l lp\"></i>scratch</li>\n");
    for (;;) {
        uint32_t best = PICTURE_CATEGORIES;
        for (uint32_t i = 0; i < PICTURE_CATEGORIES; i++) {
            if (p->categories[i].count == 0) continue;
            if (best == PICTURE_CATEGORIES || p->categories[i].bytes > p->categories[best].bytes) {
                best = i;
            }
        }
        if (best == PICTURE_CATEGORIES) break;
        DRAW(p, "<li><i class=\"c%u\"></i>%s (%u, ", best, p->categories[best].name,
             p->categories[best].count);
        picture_size(p, p->categories[best].bytes);
        DRAW(p, ")</li>\n");
        p->categories[best].count = 0;
    }
    DRAW(p, "</ul>\n");
}

static void draw_peak_row(picture *p, uint32_t index) {
    const rlx_plan_buffer *buffer = &p->plan->buffers.items[index];
    const picture_buffer *about = &p->buffers[index];
    DRAW(p, "<tr><td class=\"name\">");
    picture_words(
        p, about->slot == RLX_NONE ? "(workspace)" : p->plan->slots.items[about->slot].name, 120);
    DRAW(p, "</td><td class=\"name\">%s</td><td>", p->categories[about->category].name);
    picture_count(p, buffer->bytes);
    DRAW(p, "</td><td>");
    picture_count(p, buffer->offset);
    DRAW(p, "</td><td>%u to %u</td></tr>\n", buffer->first_step, buffer->last_step);
}

/* The largest buffers that are alive where the most bytes are. */
static void draw_peak(picture *p, uint32_t index) {
    enum { ROWS = 16 };
    const rlx_plan *plan = p->plan;
    const rlx_plan_entry *entry = &plan->entries.items[index];
    uint32_t peak = entry->first_step, rows[ROWS], count = 0;
    for (uint32_t i = 0; i < entry->step_count; i++) {
        if (p->live[entry->first_step + i] > p->live[peak]) peak = entry->first_step + i;
    }
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        bool is_alive =
            buffer->entry == RLX_NONE || (buffer->first_step <= peak && peak <= buffer->last_step);
        if (!picture_is_in(buffer, index) || !is_alive || buffer->bytes == 0) continue;
        uint32_t at = count < ROWS ? count++ : ROWS;
        for (; at > 0 && plan->buffers.items[rows[at - 1]].bytes < buffer->bytes; at--) {
            if (at < ROWS) rows[at] = rows[at - 1];
        }
        if (at < ROWS) rows[at] = i;
    }
    if (count == 0 || entry->step_count == 0) return;
    DRAW(p, "<details><summary>the most bytes are alive at step %u: ", peak);
    picture_count(p, p->live[peak]);
    DRAW(p, "</summary><table><tr><th>largest there</th><th>made by</th><th>bytes</th>"
            "<th>offset</th><th>steps</th></tr>\n");
    for (uint32_t i = 0; i < count; i++)
        draw_peak_row(p, rows[i]);
    DRAW(p, "</table></details>\n");
}

static void draw_step_names(picture *p, const rlx_plan_entry *entry) {
    DRAW(p, "<ol class=\"steps\" hidden>");
    for (uint32_t i = 0; i < entry->step_count; i++) {
        const rlx_plan_step *step = &p->plan->steps.items[entry->first_step + i];
        bool has_op = step->kind == RLX_STEP_KERNEL || step->kind == RLX_STEP_HOST ||
                      step->kind == RLX_STEP_COLLECTIVE;
        DRAW(p, "<li>%s ",
             has_op                        ? rlx_op_name(step->op)
             : step->kind == RLX_STEP_COPY ? "copy"
                                           : "control");
        picture_words(p, step->name, 120);
        DRAW(p, "</li>");
    }
    DRAW(p, "</ol>\n");
}

static void draw_entry(picture *p, uint32_t index) {
    const rlx_plan_entry *entry = &p->plan->entries.items[index];
    DRAW(p, "<section>\n<h2>entry ");
    picture_words(p, entry->name, 120);
    if (entry->bindings[0] != 0) {
        DRAW(p, " (");
        picture_words(p, entry->bindings, 200);
        DRAW(p, ")");
    }
    DRAW(p, "</h2>\n<span class=\"zoom\" hidden><button data-z=\"1\">1&times;</button>"
            "<button data-z=\"2\">2&times;</button><button data-z=\"4\">4&times;</button>"
            "<button data-z=\"10\">10&times;</button></span>\n");
    draw_facts(p, entry);
    count_live(p, index);
    DRAW(p, "<div class=\"frame\">\n");
    picture_svg(p, index);
    DRAW(p, "</div>\n");
    draw_legend(p);
    draw_peak(p, index);
    draw_step_names(p, entry);
    DRAW(p, "</section>\n");
}

/* An op has its colour in every picture. Neighbours in the op table are often seen together, so
 * each hue is the golden angle away from the one before; inputs are paler than any of them. */
static void draw_colours(picture *p) {
    for (uint32_t i = 1; i < PICTURE_CATEGORIES; i++)
        DRAW(p, ".c%u{--h:%u}", i, (uint32_t)((uint64_t)i * 137508 / 1000 % 360));
    DRAW(p, ".c%d{--h:212;--light:var(--pale)}.c%d,.c%d,.fault{--sat:4%%}\n", PICTURE_INPUT,
         PICTURE_WORKSPACE, PICTURE_OTHER);
}

static void draw_page(picture *p, const char *title) {
    DRAW(p, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    picture_words(p, title, 200);
    DRAW(p, "</title>\n<style>\n%s", style);
    draw_colours(p);
    DRAW(p, "</style></head><body>\n<h1>");
    picture_words(p, title, 200);
    DRAW(p, "</h1>\n<p>memory plan for <b>");
    picture_words(p, p->plan->target, 80);
    DRAW(p, "</b>, %u worker%s, buffers aligned to %" PRIu64 "</p>\n", p->plan->workers,
         p->plan->workers == 1 ? "" : "s", p->plan->alignment);
    draw_segments(p);
    for (uint32_t i = 0; i < p->plan->entries.count; i++)
        draw_entry(p, i);
    DRAW(p, "<div id=\"tip\"></div>\n<script>%s</script>\n</body></html>\n", script);
}

rlx_status rlx_plan_html(const rlx_plan *plan, const char *title, char **out_text) {
    if (plan == NULL || title == NULL || out_text == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    RLX_TRY(rlx_plan_verify(plan)); /* indices are followed without a further look */
    picture p = {.plan = plan,
                 .text = {.allocator = plan->allocator},
                 .memory = {.allocator = plan->allocator}};
    rlx_status status = classify(&p);
    if (status == RLX_OK) draw_page(&p, title);
    if (status == RLX_OK) {
        status = rlx_text_finish(&p.text, out_text);
    } else {
        rlx_text_free(&p.text);
    }
    rlx_scratch_reset(&p.memory);
    return status;
}
