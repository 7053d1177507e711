/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of the placer: checks the arguments, runs the greedy orders and then the search,
 * reports. Does not know how any of them work. */
#include "compile/place/internal.h"

#include "base/thread.h"

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

static rlx_status find_plan(rlx_scratch *scratch, const place_problem *problem,
                            const rlx_place_options *options, uint64_t begin_ns, place_plan *best,
                            uint64_t *possible_from) {
    uint64_t enough = problem->lower_bound;
    if (options->capacity > enough) enough = options->capacity;
    RLX_TRY(rlx_scratch_array(scratch, problem->count, sizeof(uint64_t), (void **)&best->offsets));
    if (problem->count == 0) {
        *best = (place_plan){NULL, 0, "empty"};
        return RLX_OK;
    }
    RLX_TRY(place_greedy(scratch, problem, enough, best));
    if (best->peak <= enough) return RLX_OK;
    return place_search(scratch, problem, options, begin_ns, best, possible_from);
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

static rlx_status fail_capacity(const rlx_place_report *report, uint64_t capacity) {
    rlx_error_detail *detail;
    bool is_impossible = report->is_optimal || report->lower_bound > capacity;
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
                            uint64_t *out_offsets, rlx_place_report *out_report) {
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
    return RLX_OK;
}

rlx_status rlx_place(const rlx_allocator *allocator, const rlx_place_item *items, uint32_t count,
                     const rlx_place_options *options, uint64_t *out_offsets,
                     rlx_place_report *out_report) {
    rlx_scratch scratch = {.allocator = allocator};
    rlx_place_report report = {0};
    uint64_t begin_ns = rlx_now_ns();
    if (options == NULL) options = &default_options;
    RLX_TRY(check_arguments(items, count, options, out_offsets));
    rlx_status status = place_all(&scratch, items, count, options, begin_ns, out_offsets, &report);
    rlx_scratch_reset(&scratch);
    if (status != RLX_OK) return status;
    report.elapsed_ns = rlx_now_ns() - begin_ns;
    if (out_report != NULL) *out_report = report;
    return report.fits ? RLX_OK : fail_capacity(&report, options->capacity);
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
