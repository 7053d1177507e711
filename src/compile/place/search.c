/* SPDX-License-Identifier: Apache-2.0 */
/* Restarts and targets of the exact search: which capacity to ask for next, how often to start
 * again, in which style, and when to stop. Short dives in many styles find a plan far sooner than
 * one long dive: what fails in one style is often easy in another, and the weights of sections that
 * failed and the table of failed states carry over. */
#include "compile/place/search.h"

#include "base/thread.h"

enum {
    FIRST_FAILURES = 150, /* of a dive; times the Luby sequence */
    FIRST_DIVES = 2,      /* for a target in the first round; four times more in each round */
    MOST_DIVES = 1 << 30,
    PROGRESS_NS = 250000000, /* between two reports */
    LARGEST_LISTS = 1 << 26  /* buffers times sections they live in: memory of the state */
};

static const double weight_fading = 0.9;

/* Tried first, in this order; after that they are drawn at random with random powers and noise. */
static const place_style styles[] = {
    {PLACE_VALLEY_CORNERS, 1.0, 1.0, 1.0, 0.0, 0.0}, {PLACE_VALLEY_LOW, 1.0, 1.0, 1.0, 1.0, 0.0},
    {PLACE_VALLEY_CORNERS, 0.3, 1.0, 1.0, 1.0, 0.0}, {PLACE_VALLEY_LOW, 1.0, 0.3, 0.0, 0.0, 0.0},
    {PLACE_VALLEY_CORNERS, 1.0, 0.3, 0.0, 0.0, 0.0}, {PLACE_VALLEY_NARROW, 1.0, 1.0, 0.0, 0.0, 0.0},
    {PLACE_VALLEY_CORNERS, 1.0, 1.0, 3.0, 0.0, 0.0}, {PLACE_VALLEY_LOW, 0.3, 1.0, 1.0, 1.0, 0.0},
};
enum { STYLE_COUNT = sizeof styles / sizeof styles[0] };

typedef struct search {
    place_state state;
    place_dive *dive;
    place_clock clock;
    place_random random;
    place_plan *best;
    uint64_t dive_count;
    uint64_t possible_from; /* no plan has a peak below this */
} search;

static void report_progress(place_clock *clock, uint64_t now_ns, uint64_t best_peak) {
    const rlx_place_options *options = clock->options;
    clock->reported_ns = now_ns;
    if (options->progress == NULL) return;
    options->progress(options->user, best_peak, (double)(now_ns - clock->begin_ns) * 1e-9);
}

bool place_clock_check(place_clock *clock, const place_state *state, uint64_t best_peak) {
    const rlx_place_options *options = clock->options;
    if (options->stop != NULL && options->stop(options->user)) clock->is_over = true;
    if (clock->deadline_ns == 0) {
        if (state->work >= clock->work_limit) clock->is_over = true;
    } else {
        uint64_t now_ns = rlx_now_ns();
        if (now_ns >= clock->deadline_ns) clock->is_over = true;
        if (now_ns - clock->reported_ns >= PROGRESS_NS) report_progress(clock, now_ns, best_peak);
    }
    return clock->is_over;
}

/* 1 1 2 1 1 2 4 ...: within a constant factor of the best restart plan, whatever that is. */
static uint64_t luby(uint64_t index) {
    for (;;) {
        uint64_t power = 1;
        while (2 * power - 1 < index)
            power *= 2;
        if (2 * power - 1 == index) return power;
        index -= power - 1;
    }
}

static place_style next_style(search *self) {
    if (self->dive_count < 4) return styles[self->dive_count];
    place_style style = styles[(uint32_t)(place_random_next(&self->random) * STYLE_COUNT)];
    style.size_power = place_random_next(&self->random);
    style.width_power = place_random_next(&self->random);
    style.noise = 0.5 * place_random_next(&self->random);
    return style;
}

static void keep_found(search *self) {
    const place_problem *problem = self->state.problem;
    self->best->peak = 0;
    self->best->method = "search";
    for (uint32_t i = 0; i < problem->count; ++i) {
        uint64_t end = self->state.low[i] + problem->bytes[i];
        self->best->offsets[i] = self->state.low[i];
        if (end > self->best->peak) self->best->peak = end;
    }
    if (self->clock.deadline_ns != 0) {
        report_progress(&self->clock, rlx_now_ns(), self->best->peak);
    }
}

/* Looks for a plan within `target`. */
static place_outcome try_target(search *self, uint64_t target, uint64_t dives) {
    place_outcome outcome = PLACE_GAVE_UP;
    for (uint64_t dive = 1; dive <= dives && outcome == PLACE_GAVE_UP; ++dive) {
        place_style style = next_style(self);
        outcome = place_dive_run(self->dive, target, &style, &self->random,
                                 FIRST_FAILURES * luby(dive), &self->clock, self->best->peak);
        ++self->dive_count;
        for (uint32_t s = 0; s < self->state.problem->section_count; ++s) {
            self->state.weight[s] *= weight_fading;
        }
        if (place_clock_check(&self->clock, &self->state, self->best->peak) &&
            outcome == PLACE_GAVE_UP) {
            outcome = PLACE_STOPPED;
        }
    }
    if (outcome == PLACE_FOUND) keep_found(self);
    if (outcome == PLACE_IMPOSSIBLE && target >= self->possible_from) {
        self->possible_from = target + 1;
    }
    return outcome;
}

/* Asks for the least peak that may be possible, then halves the way up to the best plan known; each
 * round spends four times more on a target. Rounds that only prove something are cheap, and there
 * may be many of them: the clock ends them too. */
static void minimise(search *self) {
    uint64_t dives = FIRST_DIVES;
    for (; self->best->peak > self->possible_from && !self->clock.is_over; dives *= 4) {
        uint64_t from = self->possible_from;
        place_outcome outcome = try_target(self, from, dives);
        while (outcome != PLACE_STOPPED && self->best->peak > from + self->best->peak / 1024) {
            if (outcome != PLACE_FOUND) ++from;
            uint64_t target = from + (self->best->peak - 1 - from) / 2;
            outcome = try_target(self, target, dives);
            if (outcome == PLACE_GAVE_UP || outcome == PLACE_IMPOSSIBLE) from = target;
        }
        if (outcome == PLACE_STOPPED) return;
        if (dives > MOST_DIVES) dives = MOST_DIVES;
    }
}

static void run(search *self, uint64_t capacity) {
    if (capacity == 0) {
        minimise(self);
        return;
    }
    if (capacity >= self->possible_from &&
        try_target(self, capacity, UINT64_MAX) != PLACE_IMPOSSIBLE) {
        return;
    }
    minimise(self); /* it cannot fit: say by how little */
}

/* Is there memory for the lists, and work for at least one dive? */
static bool is_worth_it(const place_problem *problem, const rlx_place_options *options,
                        uint64_t work) {
    uint64_t lists = 0;
    for (uint32_t i = 0; i < problem->count; ++i)
        lists += problem->last[i] - problem->first[i];
    if (lists > LARGEST_LISTS) return false;
    if (options->search_ns != 0) return true;
    return lists + (uint64_t)problem->count * problem->section_count <= work / 8;
}

rlx_status place_search(rlx_scratch *scratch, const place_problem *problem,
                        const rlx_place_options *options, uint64_t begin_ns, uint64_t *work,
                        place_plan *best, uint64_t *possible_from) {
    search self = {.clock = {.options = options, .begin_ns = begin_ns, .work_limit = *work},
                   .random = {88172645463325252ULL},
                   .best = best,
                   .possible_from = problem->lower_bound};
    if (!is_worth_it(problem, options, *work)) return RLX_OK;
    if (options->search_ns != 0) {
        uint64_t left = UINT64_MAX - begin_ns;
        self.clock.deadline_ns = begin_ns + (options->search_ns < left ? options->search_ns : left);
    }
    RLX_TRY(place_state_create(scratch, problem, &self.state));
    rlx_status status =
        place_dive_create(scratch, &self.state, options->search_ns != 0, &self.dive);
    if (status == RLX_OK) {
        run(&self, options->capacity);
        status = self.state.status;
    }
    place_dive_free(self.dive);
    place_state_free(&self.state);
    *work = self.state.work < *work ? *work - self.state.work : 0;
    *possible_from = self.possible_from;
    return status;
}
