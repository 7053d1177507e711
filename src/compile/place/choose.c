/* SPDX-License-Identifier: Apache-2.0 */
/* What the exact search tries next: first a section in a valley, where few buffers can lie and many
 * branches failed; then the best buffer for it by a weighted score. All numbers come from exact
 * IEEE operations and a seeded generator, so that the same input is searched the same way
 * everywhere. */
#include "compile/place/search.h"

#include <math.h>

double place_random_next(place_random *random) {
    uint64_t x = random->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    random->state = x;
    return (double)(x >> 11) * 0x1p-53;
}

/* The binary logarithm, straight between powers of two: good enough for a preference, and the same
 * bits with every C library. */
static double rough_log(double value) {
    int exponent;
    double fraction = frexp(value, &exponent);
    return exponent + 2.0 * fraction;
}

void place_choose_prepare(const place_problem *problem, const place_style *style,
                          double *out_scores) {
    for (uint32_t i = 0; i < problem->count; ++i) {
        double width = problem->last[i] - problem->first[i];
        out_scores[i] = style->size_power * rough_log((double)problem->padded[i]) +
                        style->width_power * rough_log(width);
    }
}

/* How many buffers can lie on the floor of the section. */
static uint32_t count_candidates(place_state *state, uint32_t section) {
    const uint32_t *jobs = state->jobs + state->job_start[section];
    uint32_t candidates = 0;
    state->work += state->live[section];
    for (uint64_t at = 0; at < state->live[section]; ++at) {
        candidates += state->low[jobs[at]] == state->floor[section];
    }
    return candidates;
}

static double score_section(place_state *state, uint32_t section, uint32_t valley_width,
                            place_valley_rule rule) {
    uint32_t candidates = count_candidates(state, section);
    double score = (1.0 + state->weight[section]) / candidates;
    if (candidates == 1) return INFINITY; /* no choice at all: take it or leave a hole */
    if (rule == PLACE_VALLEY_LOW) score /= 1.0 + (double)state->floor[section];
    if (rule == PLACE_VALLEY_NARROW) score /= valley_width;
    return score;
}

static bool is_valley(const place_state *state, uint32_t begin, uint32_t end, uint32_t left,
                      uint32_t right) {
    uint64_t floor = state->floor[left];
    return (left == begin || state->floor[left - 1] > floor) &&
           (right == end || state->floor[right] > floor);
}

static uint32_t choose_section(place_state *state, uint32_t begin, uint32_t end,
                               place_valley_rule rule) {
    uint32_t chosen = begin;
    double best = -1.0;
    for (uint32_t left = begin, right; left < end; left = right) {
        for (right = left + 1; right < end && state->floor[right] == state->floor[left];)
            ++right;
        if (!is_valley(state, begin, end, left, right)) continue;
        uint32_t step = rule == PLACE_VALLEY_CORNERS && right - left > 1 ? right - left - 1 : 1;
        for (uint32_t s = left; s < right; s += step) {
            double score = score_section(state, s, right - left, rule);
            if (score > best) {
                best = score;
                chosen = s;
            }
        }
    }
    state->work += end - begin;
    return chosen;
}

static double bonus(const place_state *state, uint32_t item, const place_style *style) {
    const place_problem *problem = state->problem;
    uint32_t first = problem->first[item], last = problem->last[item];
    uint64_t low = state->low[item], top = low + problem->padded[item];
    double sum = 0.0;
    if (first > 0) {
        if (state->top[first - 1] == top) sum += style->level_bonus;
        if (state->floor[first - 1] > low) sum += style->wall_bonus;
    }
    if (last < problem->section_count) {
        if (state->top[last] == top) sum += style->level_bonus;
        if (state->floor[last] > low) sum += style->wall_bonus;
    }
    return sum;
}

uint32_t place_choose(place_state *state, uint32_t begin, uint32_t end, const place_style *style,
                      const double *scores, place_random *random) {
    uint32_t section = choose_section(state, begin, end, style->rule), chosen = 0;
    const uint32_t *jobs = state->jobs + state->job_start[section];
    double best = -INFINITY;
    for (uint64_t at = 0; at < state->live[section]; ++at) {
        uint32_t item = jobs[at];
        if (state->low[item] != state->floor[section]) continue;
        double score = scores[item] + bonus(state, item, style);
        if (style->noise > 0.0) score += style->noise * place_random_next(random);
        if (score > best || (score == best && item < chosen)) {
            best = score;
            chosen = item;
        }
    }
    return chosen;
}
