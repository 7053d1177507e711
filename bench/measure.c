/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: a clock, figures of many trials, work on several threads at once, and whether the
 * machine is quiet enough to believe any of it. */
#include "bench.h"
#include "probe.h"

#include <rlx/device.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAIN_STEPS = 4000000 };

static uint64_t read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t rlx_bench_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double rlx_bench_least(const rlx_bench_figures *figures) {
    double least = figures->count == 0 ? 0.0 : figures->items[0];
    for (uint32_t i = 1; i < figures->count; i++) {
        if (figures->items[i] < least) least = figures->items[i];
    }
    return least;
}

double rlx_bench_most(const rlx_bench_figures *figures) {
    double most = figures->count == 0 ? 0.0 : figures->items[0];
    for (uint32_t i = 1; i < figures->count; i++) {
        if (figures->items[i] > most) most = figures->items[i];
    }
    return most;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double rlx_bench_median(const rlx_bench_figures *figures) {
    rlx_bench_figures sorted = *figures;
    if (sorted.count == 0) return 0.0;
    qsort(sorted.items, sorted.count, sizeof *sorted.items, compare);
    return (sorted.items[(sorted.count - 1) / 2] + sorted.items[sorted.count / 2]) / 2;
}

typedef struct crew {
    rlx_bench_work work;
    void *user;
    uint32_t threads, trials;
    pthread_mutex_t gate; /* closed until all threads are there */
    bool is_called_off;   /* looked at behind the gate */
    rlx_bench_pin pin;    /* each thread of several has a processor of its own */
    pthread_barrier_t barrier;
} crew;

typedef struct member {
    crew *crew;
    pthread_t thread;
    uint32_t index;
    double done; /* in the last trial */
} member;

/* Who wakes another may find it on his own processor, and short work is over before the system
 * moves one of them. */
static void take_processor(const crew *all, uint32_t index) {
    if (all->threads > 1) rlx_bench_pin_to(&all->pin, index, 0);
}

/* Each trial lies between two barriers, so that all start together and the first can add up. */
static void *serve(void *user) {
    member *self = user;
    crew *all = self->crew;
    take_processor(all, self->index);
    pthread_mutex_lock(&all->gate);
    bool is_called_off = all->is_called_off;
    pthread_mutex_unlock(&all->gate);
    for (uint32_t trial = 0; trial < all->trials && !is_called_off; trial++) {
        pthread_barrier_wait(&all->barrier);
        self->done = all->work(all->user, self->index, all->threads);
        pthread_barrier_wait(&all->barrier);
    }
    return NULL;
}

static void lead(crew *all, member *members, rlx_bench_figures *out_rates) {
    out_rates->count = 0;
    for (uint32_t trial = 0; trial < all->trials; trial++) {
        double done = 0;
        pthread_barrier_wait(&all->barrier);
        uint64_t start = rlx_bench_now_ns();
        members[0].done = all->work(all->user, 0, all->threads);
        pthread_barrier_wait(&all->barrier);
        uint64_t end = rlx_bench_now_ns();
        for (uint32_t i = 0; i < all->threads; i++)
            done += members[i].done;
        out_rates->items[out_rates->count++] = done * 1e9 / (double)(end - start + 1);
    }
}

static uint32_t start_members(crew *all, member *members) {
    uint32_t started = 1; /* the caller */
    for (; started < all->threads; started++) {
        members[started] = (member){.crew = all, .index = started};
        if (pthread_create(&members[started].thread, NULL, serve, &members[started]) != 0) break;
    }
    return started;
}

static bool run_crew(crew *all, member *members, rlx_bench_figures *out_rates) {
    if (pthread_barrier_init(&all->barrier, NULL, all->threads) != 0) return false;
    pthread_mutex_init(&all->gate, NULL);
    pthread_mutex_lock(&all->gate);
    uint32_t started = start_members(all, members);
    all->is_called_off = started < all->threads;
    pthread_mutex_unlock(&all->gate);
    take_processor(all, 0);
    if (!all->is_called_off) lead(all, members, out_rates);
    if (all->threads > 1) rlx_bench_pin_end(&all->pin, 0);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(members[i].thread, NULL);
    pthread_mutex_destroy(&all->gate);
    pthread_barrier_destroy(&all->barrier);
    return !all->is_called_off;
}

bool rlx_bench_rates(rlx_bench_work work, void *user, uint32_t threads, uint32_t trials,
                     rlx_bench_figures *out_rates) {
    crew all = {.work = work,
                .user = user,
                .threads = threads,
                .trials = trials,
                .pin = rlx_bench_pin_begin()};
    member *members = calloc(threads, sizeof *members);
    if (trials > RLX_BENCH_MOST_TRIALS) all.trials = RLX_BENCH_MOST_TRIALS;
    bool is_done = members != NULL && run_crew(&all, members, out_rates);
    free(members);
    if (!is_done) fprintf(stderr, "rlx bench: cannot start %u threads\n", threads);
    return is_done;
}

uint32_t rlx_bench_threads(void) {
    rlx_device_info info;
    for (uint32_t i = 0; i < rlx_device_count(); i++) {
        if (rlx_device_at(i, &info) == RLX_OK && strcmp(info.name, "cpu") == 0) {
            return info.threads > 0 ? info.threads : 1;
        }
    }
    return 1;
}

/* What one thread lost in the busy probe: each writes its own. */
typedef struct busy_probe {
    uint64_t wall_ns, cpu_ns;
} busy_probe;

static double spin(void *user, uint32_t thread, uint32_t threads) {
    busy_probe *self = (busy_probe *)user + thread;
    (void)threads;
    uint64_t wall = rlx_bench_now_ns(), cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
    double steps = probe_chain(CHAIN_STEPS);
    self->cpu_ns += read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
    self->wall_ns += rlx_bench_now_ns() - wall;
    return steps;
}

/* Two signs: a thread that wants to run is not let (its own time falls behind the clock), and the
 * same work takes longer at one time than at another (somebody outside this system). */
double rlx_bench_busy(uint32_t threads) {
    rlx_bench_figures rates;
    uint64_t wall = 0, cpu = 0;
    busy_probe *probes = calloc(threads, sizeof *probes);
    bool is_done = probes != NULL && rlx_bench_rates(spin, probes, threads, 25, &rates);
    for (uint32_t i = 0; is_done && i < threads; i++) {
        wall += probes[i].wall_ns;
        cpu += probes[i].cpu_ns;
    }
    free(probes);
    if (!is_done || wall == 0) return 1.0;
    double not_run = cpu < wall ? 1.0 - (double)cpu / (double)wall : 0.0;
    double uneven = 1.0 - rlx_bench_median(&rates) / rlx_bench_most(&rates);
    return not_run > uneven ? not_run : uneven;
}
