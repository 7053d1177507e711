/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench place`: how fast and how well the memory placer works. Every plan is verified before
 * its row is printed. */
#include "bench.h"

#include <rlx/place.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { TRIALS = 5, MOST_ROWS = 4096 };

static const double fit_limit_seconds = 60.0;
static const uint64_t file_capacity = 1048576;

/* xorshift, in [0, 1). */
static double next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

/* Uniform start, geometric length of mean 50, log-uniform size of 64 bytes to 1 MiB. */
static void generate(rlx_place_item *items, uint32_t count) {
    uint64_t state = 88172645463325252u;
    for (uint32_t i = 0; i < count; ++i) {
        double start = floor(next_random(&state) * count);
        double length = 1.0 + floor(log(1.0 - next_random(&state)) / log(1.0 - 1.0 / 50.0));
        double bytes = exp2(6.0 + 14.0 * next_random(&state));
        items[i] = (rlx_place_item){(uint64_t)start, (uint64_t)(start + length), (uint64_t)bytes};
    }
}

static int read_rows(const char *path, rlx_place_item *items, uint32_t *out_count) {
    FILE *file = fopen(path, "r");
    char line[256];
    uint64_t id;
    if (file == NULL) return -1;
    *out_count = 0;
    while (fgets(line, sizeof line, file) != NULL && *out_count < MOST_ROWS) {
        rlx_place_item *item = &items[*out_count];
        *out_count += sscanf(line, "%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64, &id,
                             &item->lower, &item->upper, &item->bytes) == 4;
    }
    fclose(file);
    return *out_count == 0 ? -1 : 0;
}

/* Places once and proves the plan. 0 when that worked, fitting or not. */
static int place_once(const rlx_place_item *items, uint32_t count, const rlx_place_options *options,
                      uint64_t *offsets, rlx_place_report *report) {
    rlx_status status = rlx_place(NULL, items, count, options, offsets, report);
    if (status == RLX_OK || status == RLX_DOES_NOT_FIT) {
        status = rlx_place_verify(NULL, items, count, offsets, 1, report->peak);
    }
    if (status != RLX_OK) fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
    return status == RLX_OK ? 0 : -1;
}

static int bench_file(FILE *out, bool json, const char *path, char letter) {
    rlx_place_options options = {.size = sizeof options};
    rlx_place_report report;
    char name[32];
    uint32_t count = 0;
    rlx_place_item *items = calloc(MOST_ROWS, sizeof *items);
    uint64_t *offsets = calloc(MOST_ROWS, sizeof *offsets);
    int code = items == NULL || offsets == NULL || read_rows(path, items, &count) != 0;
    if (code == 0) code = place_once(items, count, &options, offsets, &report) != 0;
    if (code == 0) {
        snprintf(name, sizeof name, "place %c default", letter);
        rlx_bench_row(out, json, name, (double)report.peak, "bytes", (double)report.lower_bound);
        options.capacity = file_capacity;
        options.search_ns = (uint64_t)(fit_limit_seconds * 1e9);
        code = place_once(items, count, &options, offsets, &report) != 0;
    }
    if (code == 0) {
        snprintf(name, sizeof name, "place %c %s", letter, report.fits ? "fits" : "does not fit");
        rlx_bench_bar most = {1, true, report.fits ? "met" : "missed"};
        rlx_bench_row_with(out, json, name, (double)report.elapsed_ns * 1e-9, "s",
                           fit_limit_seconds, most);
        code = !report.fits;
    }
    free(items);
    free(offsets);
    return code;
}

static int bench_files(FILE *out, bool json) {
    const char *folder = getenv("RLX_TEST_DATA");
    char path[1024];
    int code = 0;
    if (folder == NULL || folder[0] == 0) folder = "../shared";
    for (char letter = 'A'; letter <= 'K'; ++letter) {
        int length = snprintf(path, sizeof path, "%s/planner/%c.%" PRIu64 ".csv", folder, letter,
                              file_capacity);
        FILE *file = length < (int)sizeof path ? fopen(path, "r") : NULL;
        if (file == NULL) {
            if (letter == 'A') fprintf(stderr, "rlx bench: no benchmark files in %s\n", folder);
            continue;
        }
        fclose(file);
        code |= bench_file(out, json, path, letter);
    }
    return code;
}

/* The best of a few trials: the machine may be busy with something else. */
static int bench_generated(FILE *out, bool json, uint32_t count, double limit_ms) {
    rlx_place_item *items = calloc(count, sizeof *items);
    uint64_t *offsets = calloc(count, sizeof *offsets);
    rlx_place_report report = {0};
    char name[48];
    double best_ms = INFINITY;
    int code = items == NULL || offsets == NULL;
    if (code == 0) generate(items, count);
    for (int trial = 0; trial < TRIALS && code == 0; ++trial) {
        code = place_once(items, count, NULL, offsets, &report) != 0;
        if ((double)report.elapsed_ns * 1e-6 < best_ms) best_ms = (double)report.elapsed_ns * 1e-6;
    }
    if (code == 0) {
        snprintf(name, sizeof name, "place %" PRIu32 " buffers", count);
        rlx_bench_bar most = {1, true, best_ms <= limit_ms ? "met" : "missed"};
        rlx_bench_row_with(out, json, name, best_ms, "ms", limit_ms, most);
        snprintf(name, sizeof name, "place %" PRIu32 " buffers, peak", count);
        rlx_bench_row(out, json, name, (double)report.peak, "bytes", (double)report.lower_bound);
        code = best_ms > limit_ms;
    }
    free(items);
    free(offsets);
    return code;
}

int rlx_bench_place(FILE *out, bool json) {
    rlx_bench_head(out, json);
    int code = bench_files(out, json);
    code |= bench_generated(out, json, 5000, 100.0);
    code |= bench_generated(out, json, 50000, 2000.0);
    return code;
}
