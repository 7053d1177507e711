/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of the placer: checks the arguments, runs the greedy orders and then the search,
 * reports. Does not know how any of them work. */
#include "compile/place/internal.h"

#include "base/thread.h"

enum {
    PEAK_ATTEMPTS = 3,
    PEAKS_WORK = 12000000, /* about 40 ms */
    MANY_BUFFERS = 3000,   /* from here on greedy plans take their time too */
    MANY_PEAKS_WORK = 4000000,
    PEAKS_NS_PER_WORK = 25,      /* with a time limit: a part of it, */
    TIMED_PEAKS_WORK = 64000000, /* but no more than this */
    SEARCH_WORK = 16000000       /* about 60 ms */
};

static const rlx_place_options default_options = {0};

static rlx_status check_alignment(uint64_t alignment) {
    if ((alignment & (alignment - 1)) == 0) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_ARGUMENT, "alignment %" PRIu64 " is no power of two", alignment);
}

static rlx_status check_arguments(const rlx_place_item *items, uint32_t count,
                                  const rlx_place_options *options, const uint64_t *offsets) {
    if (count != 0 && (items == NULL || offsets == NULL)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "items or offsets are NULL");
    }
    if (options->size != 0 && options->size != sizeof *options) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "options of %" PRIu64 " bytes, expected %zu",
                        options->size, sizeof *options);
    }
    return check_alignment(options->alignment);
}

/* Targets between the lower bound and the best plan, the lower bound first; each may spend half of
 * the work that is left. */
static rlx_status improve_peaks(rlx_scratch *scratch, place_greedy *greedy, uint64_t enough,
                                const rlx_place_options *options, place_plan *best) {
    uint64_t from = enough, work = options->search_ns / PEAKS_NS_PER_WORK;
    uint64_t least = greedy->problem->count < MANY_BUFFERS ? PEAKS_WORK : MANY_PEAKS_WORK;
    if (work > TIMED_PEAKS_WORK) work = TIMED_PEAKS_WORK;
    if (work < least) work = least;
    for (uint32_t attempt = 0; attempt < PEAK_ATTEMPTS && best->peak > enough; ++attempt) {
        uint64_t target = attempt == 0 ? from : from + (best->peak - from) / 2;
        uint64_t share = work / 2, left = share;
        RLX_TRY(place_peaks(scratch->allocator, greedy, target, options, &left, best));
        work -= share - left;
        if (best->peak > target) from = target;
    }
    return RLX_OK;
}

/* By size first, which is mostly near the bound; a search where memory is short; all other orders;
 * and the search over everything. */
static rlx_status find_plan(rlx_scratch *scratch, const place_problem *problem,
                            const rlx_place_options *options, uint64_t begin_ns, place_plan *best,
                            uint64_t *possible_from) {
    uint64_t enough = problem->lower_bound, search_work = SEARCH_WORK;
    place_greedy greedy;
    if (options->capacity > enough) enough = options->capacity;
    if (problem->count == 0) {
        *best = (place_plan){NULL, 0, "empty"};
        return RLX_OK;
    }
    RLX_TRY(rlx_scratch_array(scratch, problem->count, sizeof(uint64_t), (void **)&best->offsets));
    RLX_TRY(place_greedy_create(scratch, problem, &greedy));
    place_greedy_run(&greedy, 0, 1, enough, best);
    RLX_TRY(improve_peaks(scratch, &greedy, enough, options, best));
    place_greedy_run(&greedy, 1, place_orders_count(), enough, best);
    if (best->peak <= enough) return RLX_OK;
    return place_search(scratch, problem, options, begin_ns, &search_work, best, possible_from);
}

static void fill_report(const place_problem *problem, const place_plan *plan, uint64_t capacity,
                        uint64_t possible_from, rlx_place_report *out_report) {
    *out_report = (rlx_place_report){
        .peak = plan->peak,
        .lower_bound = problem->lower_bound,
        .method = plan->method,
        .is_optimal = plan->peak == possible_from,
        .fits = capacity == 0 || plan->peak <= capacity,
    };
    for (uint32_t i = 0; i < problem->count; ++i)
        out_report->sum_bytes += problem->bytes[i];
    if (problem->count != 0) {
        out_report->peak_time = problem->section_time[problem->lower_bound_at];
    }
}

static rlx_status fail_capacity(const rlx_place_report *report, uint64_t capacity,
                                uint64_t possible_from) {
    rlx_error_detail *detail;
    bool is_impossible = possible_from > capacity;
    RLX_FAIL(RLX_DOES_NOT_FIT,
             "%s: peak %" PRIu64 " is %" PRIu64 " bytes over the capacity %" PRIu64
             "; most is alive at time %" PRIu64 " (lower bound %" PRIu64 ")",
             is_impossible ? "no plan can fit" : "no plan that fits was found", report->peak,
             report->peak - capacity, capacity, report->peak_time, report->lower_bound);
    detail = rlx_error_detail_edit();
    detail->got = report->peak;
    detail->limit = capacity;
    detail->expected = report->lower_bound;
    detail->bytes = report->peak - capacity;
    return RLX_DOES_NOT_FIT;
}

static rlx_status place_all(rlx_scratch *scratch, const rlx_place_item *items, uint32_t count,
                            const rlx_place_options *options, uint64_t begin_ns,
                            uint64_t *out_offsets, rlx_place_report *out_report,
                            uint64_t *out_possible_from) {
    place_problem problem;
    place_plan best = {.peak = UINT64_MAX, .method = ""};
    uint64_t alignment = options->alignment == 0 ? 1 : options->alignment;
    RLX_TRY(place_problem_build(scratch, items, count, alignment, &problem));
    uint64_t possible_from = problem.lower_bound;
    RLX_TRY(find_plan(scratch, &problem, options, begin_ns, &best, &possible_from));
    for (uint32_t i = 0; i < count; ++i)
        out_offsets[i] = 0;
    for (uint32_t i = 0; i < problem.count; ++i)
        out_offsets[problem.source[i]] = best.offsets[i];
    fill_report(&problem, &best, options->capacity, possible_from, out_report);
    *out_possible_from = possible_from;
    return RLX_OK;
}

rlx_status rlx_place(const rlx_allocator *allocator, const rlx_place_item *items, uint32_t count,
                     const rlx_place_options *options, uint64_t *out_offsets,
                     rlx_place_report *out_report) {
    rlx_scratch scratch = {.allocator = allocator};
    rlx_place_report report = {0};
    uint64_t begin_ns = rlx_now_ns(), possible_from = 0;
    if (options == NULL) options = &default_options;
    RLX_TRY(check_arguments(items, count, options, out_offsets));
    rlx_status status =
        place_all(&scratch, items, count, options, begin_ns, out_offsets, &report, &possible_from);
    rlx_scratch_reset(&scratch);
    if (status != RLX_OK) return status;
    report.elapsed_ns = rlx_now_ns() - begin_ns;
    if (out_report != NULL) *out_report = report;
    return report.fits ? RLX_OK : fail_capacity(&report, options->capacity, possible_from);
}

rlx_status rlx_place_lower_bound(const rlx_allocator *allocator, const rlx_place_item *items,
                                 uint32_t count, uint64_t alignment, uint64_t *out_bytes,
                                 uint64_t *out_peak_time) {
    rlx_scratch scratch = {.allocator = allocator};
    place_problem problem = {0};
    if (out_bytes == NULL || (count != 0 && items == NULL)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "items or out_bytes is NULL");
    }
    RLX_TRY(check_alignment(alignment));
    rlx_status status =
        place_problem_build(&scratch, items, count, alignment == 0 ? 1 : alignment, &problem);
    if (status == RLX_OK) {
        *out_bytes = problem.lower_bound;
        if (out_peak_time != NULL) {
            *out_peak_time = problem.count == 0 ? 0 : problem.section_time[problem.lower_bound_at];
        }
    }
    rlx_scratch_reset(&scratch);
    return status;
}
