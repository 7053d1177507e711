/* SPDX-License-Identifier: Apache-2.0 */
/* How every benchmark prints its rows. */
#include "bench.h"

void rlx_bench_head(FILE *out, bool json) {
    if (json) return;
    fputs("| name | value | unit | limit | ratio | bar |\n|---|---|---|---|---|---|\n", out);
}

/* Names of steps come from model files and may hold anything. */
static void print_json_text(FILE *out, const char *text) {
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            fprintf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
        }
    }
}

static void print_table_text(FILE *out, const char *text) {
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;
        fprintf(out, c == '|' ? "\\%c" : "%c", c < 0x20 ? ' ' : c);
    }
}

/* Counts of bytes are shown whole. */
static void print_number(FILE *out, double value) {
    fprintf(out, value >= 1000.0 && value < 1e15 ? " | %.0f" : " | %.4g", value);
}

static void print_json(FILE *out, const char *name, double value, const char *unit, double limit,
                       double ratio, rlx_bench_bar bar) {
    fputs("{\"name\": \"", out);
    print_json_text(out, name);
    fprintf(out, "\", \"value\": %.10g, \"unit\": \"%s\", \"limit\": %.10g, \"ratio\": %.4f", value,
            unit, limit, ratio);
    if (bar.ratio > 0)
        fprintf(out, ", \"bar\": \"%s %.4g\"", bar.is_most ? "at most" : "at least", bar.ratio);
    if (bar.verdict != NULL) fprintf(out, ", \"verdict\": \"%s\"", bar.verdict);
    fputs("}\n", out);
}

static void print_table(FILE *out, const char *name, double value, const char *unit, double limit,
                        double ratio, rlx_bench_bar bar) {
    fputs("| ", out);
    print_table_text(out, name);
    print_number(out, value);
    fprintf(out, " | %s", unit);
    if (limit > 0.0) {
        print_number(out, limit);
        fprintf(out, " | %.3f |", ratio);
    } else {
        fputs(" | - | - |", out);
    }
    if (bar.ratio > 0) fprintf(out, " %s %.4g:", bar.is_most ? "at most" : "at least", bar.ratio);
    fprintf(out, " %s |\n", bar.verdict != NULL ? bar.verdict : "-");
}

void rlx_bench_row_with(FILE *out, bool json, const char *name, double value, const char *unit,
                        double limit, rlx_bench_bar bar) {
    double ratio = limit > 0.0 ? value / limit : 0.0;
    (json ? print_json : print_table)(out, name, value, unit, limit, ratio, bar);
    fflush(out);
}

void rlx_bench_row(FILE *out, bool json, const char *name, double value, const char *unit,
                   double limit) {
    rlx_bench_row_with(out, json, name, value, unit, limit, (rlx_bench_bar){0});
}
