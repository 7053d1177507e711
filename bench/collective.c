/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench collective`: the shm transport on two pinned processes against plain shared memory,
 * private buffers against Open MPI in processes of its own, and the mpi transport over messages
 * against the MPI it stands on.
 *
 * The input is written anew before every operation from 64 KiB on, outside the time; what follows
 * an all-reduce reads the whole result, inside it. R = time / limit. */
#include "collective_twin.h"
#include "pair.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What takes less than a millisecond is tried more often: which processors of the host stand behind
 * the two of ours changes, and both sides should meet with the best of it. */
enum { TRIALS = 9, QUICK_TRIALS = 41, SMALL_REPS = 2000, QUICK_REPS = 16 };
static const uint64_t heap_bytes = 2 * (uint64_t)PAIR_BYTES + 4096;
static const double tolerance = 1.25;
static const double ping_limit_ns = 150; /* one way; above it the machine is too busy */

typedef struct bench {
    rlx_bench_report report;
    pair pair;
    uint64_t turns; /* that the twin has had */
    const char *part;
} bench;

static void check(pair *self, rlx_status status) {
    if (status == RLX_OK) return;
    if (atomic_exchange(&self->shared->failed, 1) == 0) {
        fprintf(stderr, "rlx bench: rank %u: %s\n", self->rank, rlx_last_error());
    }
    _exit(1);
}

/* ours ----------------------------------------------------------------------------------------- */

static void our_barrier(pair *self) {
    check(self, rlx_transport_barrier(self->transport));
}

/* There and back, as the limit. */
static void our_signal(pair *self) {
    uint64_t value = ++self->pings, data = value;
    rlx_symmetric_buffer dst = {1 - self->rank, 8, 8};
    if (self->rank == 1) {
        check(self, rlx_transport_wait_until(self->transport, 0, RLX_COMPARE_GE, value, NULL));
    }
    check(self, rlx_transport_put_signal(self->transport, dst, &data, 8, 0, RLX_SIGNAL_SET, value));
    if (self->rank == 0) {
        check(self, rlx_transport_wait_until(self->transport, 0, RLX_COMPARE_GE, value, NULL));
    }
}

static void our_put(pair *self) {
    if (self->rank != 0) return;
    check(self, rlx_transport_put(self->transport, (rlx_symmetric_buffer){1, 0, self->bytes},
                                  self->private_in, self->bytes));
}

static void our_get(pair *self) {
    if (self->rank != 0) return;
    check(self, rlx_transport_get(self->transport, (rlx_symmetric_buffer){1, 0, self->bytes},
                                  self->private_out, self->bytes));
}

static void limit_get(pair *self) {
    if (self->rank == 0) memcpy(self->private_out, self->other, self->bytes);
}

static void our_small(pair *self) {
    check(self, rlx_all_reduce(self->transport, self->private_in, self->private_out,
                               self->bytes / sizeof(float), RLX_DTYPE_F32, RLX_REDUCTION_SUM));
}

static uint64_t count_of(const pair *self) {
    return self->bytes / rlx_dtype_block_bytes(self->dtype);
}

static void our_all_reduce(pair *self) {
    check(self, rlx_all_reduce(self->transport, self->heap, self->heap, count_of(self), self->dtype,
                               RLX_REDUCTION_SUM));
    pair_read(self, self->heap, self->bytes);
}

/* Of f16 and bf16 the result is read too; half as many bytes. */
static void our_private(pair *self) {
    check(self, rlx_all_reduce(self->transport, self->private_in, self->private_out,
                               self->bytes / sizeof(float), RLX_DTYPE_F32, RLX_REDUCTION_SUM));
}

static void our_reduce_scatter(pair *self) {
    check(self, rlx_reduce_scatter(self->transport, self->heap, self->heap + PAIR_BYTES,
                                   count_of(self), self->dtype, RLX_REDUCTION_SUM));
}

static void our_all_gather(pair *self) {
    uint64_t half = self->bytes / 2;
    check(self, rlx_all_gather(self->transport, self->heap + self->rank * half, self->heap,
                               half / sizeof(float), RLX_DTYPE_F32));
}

static void fill_ours(pair *self) {
    if (self->dtype == RLX_DTYPE_F32) {
        float *data = (float *)(void *)self->heap;
        for (uint64_t i = 0; i < self->bytes / sizeof *data; ++i)
            data[i] = (float)(i % 1000 + self->rank);
        return;
    }
    uint16_t *halves = (uint16_t *)(void *)self->heap;
    for (uint64_t i = 0; i < self->bytes / sizeof *halves; ++i)
        halves[i] = (uint16_t)(0x3c00 + i % 256);
}

static void fill_private(pair *self) {
    for (uint64_t i = 0; i < self->bytes / sizeof(float); ++i)
        self->private_in[i] = (float)(i % 1000 + self->rank);
}

static void touch_nothing(pair *self) {
    (void)self;
}

/* All parts, or the one that was asked for. */
static bool wants(const bench *self, const char *part) {
    return self->part == NULL || strcmp(self->part, part) == 0;
}

/* cases ---------------------------------------------------------------------------------------- */

/* Both ranks measure; rank 0 prints. */
static void compare_sides(bench *self, const char *name, const pair_side *limit,
                          const pair_side *ours, uint32_t reps, double scale, double bar) {
    static rlx_bench_pairs pairs;
    uint32_t trials = reps >= QUICK_REPS ? QUICK_TRIALS : TRIALS;
    pair_time(&self->pair, limit, reps); /* warms up */
    pair_time(&self->pair, ours, reps);
    rlx_bench_pairs_begin(&pairs);
    for (uint32_t i = 0; i < trials; ++i) {
        double a = pair_time(&self->pair, limit, reps), b = pair_time(&self->pair, ours, reps);
        rlx_bench_pair(&pairs, a * scale, b * scale);
    }
    if (self->pair.rank != 0) return;
    double best = rlx_bench_least(&pairs.ours), least = rlx_bench_least(&pairs.limit);
    double median = 1.0 / rlx_bench_median(&pairs.ratio);
    rlx_bench_report_most(&self->report, name, "", best * 1e-3, "us", least * 1e-3, bar,
                          best / least <= bar && median <= bar * tolerance);
    rlx_bench_report_row(&self->report, name, ", median of pairs", median, "x", 1.0);
}

static const char *name_of(char name[80], const char *what, uint64_t bytes) {
    if (bytes < 1024) {
        snprintf(name, 80, "%s, %u B", what, (unsigned)bytes);
    } else if (bytes < 1 << 20) {
        snprintf(name, 80, "%s, %u KiB", what, (unsigned)(bytes >> 10));
    } else {
        snprintf(name, 80, "%s, %u MiB", what, (unsigned)(bytes >> 20));
    }
    return name;
}

static uint32_t reps_for(uint64_t bytes) {
    if (bytes <= 1 << 16) return 64;
    if (bytes <= 1 << 20) return QUICK_REPS;
    return bytes <= 16 << 20 ? 3 : 1;
}

static void measure_signals(bench *self) {
    const pair_side ping = {NULL, pair_limit_ping}, signal = {NULL, our_signal};
    const pair_side limit = {NULL, pair_limit_barrier}, ours = {NULL, our_barrier};
    compare_sides(self, "barrier", &limit, &ours, SMALL_REPS, 1, 1.3);
    compare_sides(self, "8 B put with signal, one way", &ping, &signal, SMALL_REPS, 0.5, 1.25);
}

static void measure_copies(bench *self) {
    const pair_side put = {touch_nothing, our_put}, get = {touch_nothing, our_get};
    const pair_side to = {touch_nothing, pair_limit_copy}, from = {touch_nothing, limit_get};
    self->pair.bytes = PAIR_BYTES;
    compare_sides(self, "put, 64 MiB, against memcpy", &to, &put, 1, 1, 1.05);
    compare_sides(self, "get, 64 MiB, against memcpy", &from, &get, 1, 1, 1.05);
}

static void measure_small(bench *self) {
    const pair_side limit = {NULL, pair_limit_small}, ours = {NULL, our_small};
    self->pair.bytes = 8;
    compare_sides(self, "all-reduce, 8 B", &limit, &ours, SMALL_REPS, 1, 1.4);
    self->pair.bytes = 1024;
    compare_sides(self, "all-reduce, 1 KiB", &limit, &ours, SMALL_REPS, 1, 1.3);
}

static void measure_large(bench *self) {
    static const uint64_t sizes[] = {64 << 10, 1 << 20, 16 << 20, 64 << 20};
    static const struct {
        const char *name;
        void (*limit)(pair *self), (*ours)(pair *self);
        double bar;
    } rows[] = {
        {"all-reduce and reading the result", pair_limit_all_reduce, our_all_reduce, 1.2},
        {"reduce-scatter", pair_limit_reduce_scatter, our_reduce_scatter, 1.2},
        {"all-gather", pair_limit_all_gather, our_all_gather, 1.1},
    };
    char name[80];
    for (size_t row = 0; row < sizeof rows / sizeof *rows; ++row) {
        const pair_side limit = {pair_fill_limit, rows[row].limit};
        const pair_side ours = {fill_ours, rows[row].ours};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
            self->pair.bytes = sizes[i];
            compare_sides(self, name_of(name, rows[row].name, sizes[i]), &limit, &ours,
                          reps_for(sizes[i]), 1, rows[row].bar);
        }
    }
}

/* 16-bit floats against f32 of the same element count: the limit is our own f32. */
static void run_wide(pair *self) {
    rlx_dtype dtype = self->dtype;
    self->dtype = RLX_DTYPE_F32;
    self->bytes *= 2;
    our_all_reduce(self);
    self->bytes /= 2;
    self->dtype = dtype;
}
static void fill_wide(pair *self) {
    rlx_dtype dtype = self->dtype;
    self->dtype = RLX_DTYPE_F32;
    self->bytes *= 2;
    fill_ours(self);
    self->bytes /= 2;
    self->dtype = dtype;
}
static void measure_halves(bench *self) {
    static const uint64_t sizes[] = {64 << 10, 1 << 20, 16 << 20};
    const pair_side wide = {fill_wide, run_wide}, ours = {fill_ours, our_all_reduce};
    char name[80], what[64];
    for (int d = 0; d < 2; ++d) {
        self->pair.dtype = d == 0 ? RLX_DTYPE_F16 : RLX_DTYPE_BF16;
        snprintf(what, sizeof what, "%s all-reduce against f32 of as many elements",
                 rlx_dtype_name(self->pair.dtype));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
            self->pair.bytes = sizes[i];
            compare_sides(self, name_of(name, what, sizes[i]), &wide, &ours, reps_for(sizes[i]), 1,
                          0.65);
        }
    }
    self->pair.dtype = RLX_DTYPE_F32;
}

/* Private buffers, in turns with Open MPI in processes of its own. */
static const uint64_t private_sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
enum { PRIVATE_SIZES = sizeof private_sizes / sizeof *private_sizes };

/* Rank 1 sleeps while the twin has the processors; rank 0 wakes it by its turn. */
static void await_turn(pair *self, uint64_t turn) {
    const struct timespec nap = {.tv_nsec = 500000};
    while (atomic_load(&self->shared->turn) < turn)
        nanosleep(&nap, NULL);
}

/* One size, in turns with the twin (rank 0 has it); the best times and the median of the ratios. */
static bool compare_size(bench *self, bench_twin *twin, uint64_t bytes, double *out_ratio) {
    const pair_side each = {fill_private, our_private}, whole = {NULL, our_private};
    static rlx_bench_pairs pairs;
    bool is_small = bytes < 64 << 10, is_well = true;
    char name[80];
    self->pair.bytes = bytes;
    rlx_bench_pairs_begin(&pairs);
    for (uint32_t trial = 0; trial <= TRIALS; ++trial) {
        double theirs = self->pair.rank == 0 ? bench_twin_ask(twin, bytes) : 1;
        if (self->pair.rank == 0) {
            if (theirs <= 0) is_well = false;
            atomic_fetch_add(&self->pair.shared->turn, 1);
        }
        await_turn(&self->pair, ++self->turns);
        pair_time(&self->pair, is_small ? &whole : &each, is_small ? 100 : 1); /* awake */
        double ours = pair_time(&self->pair, is_small ? &whole : &each,
                                is_small ? SMALL_REPS : reps_for(bytes));
        if (trial != 0) rlx_bench_pair(&pairs, theirs > 0 ? theirs : 1, ours);
    }
    if (self->pair.rank != 0) return true;
    double best = rlx_bench_least(&pairs.ours), least = rlx_bench_least(&pairs.limit);
    rlx_bench_report_most(&self->report,
                          name_of(name, "all-reduce of private buffers against Open MPI", bytes),
                          "", best * 1e-3, "us", least * 1e-3, 1.05, best / least <= 1.05);
    rlx_bench_report_row(&self->report, name, ", median of pairs",
                         1.0 / rlx_bench_median(&pairs.ratio), "x", 1.0);
    *out_ratio = best / least;
    return is_well;
}

static void measure_private(bench *self) {
    bench_twin twin = {0};
    double product = 1, ratio = 1;
    bool is_there = self->pair.rank != 0 || bench_twin_start(&twin, "openmpi", "serve", false);
    if (self->pair.rank == 0) {
        is_there = is_there && bench_twin_ask(&twin, 8) > 0; /* it has started */
        atomic_store(&self->pair.shared->has_twin, is_there);
        atomic_fetch_add(&self->pair.shared->turn, 1);
    }
    await_turn(&self->pair, ++self->turns);
    is_there = atomic_load(&self->pair.shared->has_twin);
    for (size_t i = 0; is_there && i < PRIVATE_SIZES; ++i) {
        if (!compare_size(self, &twin, private_sizes[i], &ratio)) self->report.code = 1;
        product *= ratio;
    }
    bench_twin_stop(&twin);
    if (self->pair.rank != 0) return;
    if (!is_there) {
        fputs("rlx bench: no comparison with Open MPI: not installed, or it did not run\n", stderr);
        return;
    }
    double mean = pow(product, 1.0 / PRIVATE_SIZES);
    rlx_bench_report_most(&self->report, "private buffers against Open MPI, geometric mean", "",
                          mean, "x", 1.0, 0.9, mean <= 0.9);
}

/* The mpi transport over messages against the MPI it stands on, both over TCP of this host. */
static void measure_network(bench *self, const char *kind) {
    bench_twin twin = {0};
    unsigned long long bytes;
    double ours, theirs, median;
    char what[80], name[80];
    uint32_t rows = 0;
    bool is_there = bench_twin_start(&twin, kind, "network", true);
    snprintf(what, sizeof what, "all-reduce over messages against %s",
             strcmp(kind, "mpich") == 0 ? "MPICH" : "Open MPI");
    while (is_there &&
           fscanf(twin.from, "%llu %lf %lf %lf", &bytes, &ours, &theirs, &median) == 4) {
        rlx_bench_report_most(&self->report, name_of(name, what, bytes), "", ours * 1e-3, "us",
                              theirs * 1e-3, 1.15,
                              ours / theirs <= 1.15 && median <= 1.15 * tolerance);
        rlx_bench_report_row(&self->report, name, ", median of pairs", median, "x", 1.0);
        rows++;
    }
    bench_twin_stop(&twin);
    if (rows == 0) fprintf(stderr, "rlx bench: no comparison over messages with %s\n", kind);
}

/* What rank 0 uses of its processor while it waits 300 ms. */
static void measure_idle(bench *self) {
    const struct timespec nap = {.tv_nsec = 300000000};
    struct timespec before, after;
    pair_meet(&self->pair);
    if (self->pair.rank == 1) nanosleep(&nap, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    check(&self->pair, rlx_transport_barrier(self->pair.transport));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    if (self->pair.rank != 0) return;
    double used =
        (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    rlx_bench_report_most(&self->report, "waiting 300 ms, of a processor", "", used / 3e6, "%", 1.0,
                          1, used / 3e6 < 1.0);
}

/* processes -------------------------------------------------------------------------------------
 */

static bool prepare_pair(pair *self, const rlx_rank *who) {
    self->rank = who->rank;
    self->dtype = RLX_DTYPE_F32;
    self->own = self->shared->heaps[who->rank];
    self->other = self->shared->heaps[1 - who->rank];
    self->private_in = aligned_alloc(4096, PAIR_BYTES);
    self->private_out = aligned_alloc(4096, PAIR_BYTES);
    if (self->private_in == NULL || self->private_out == NULL) return false;
    memset(self->private_in, 0, PAIR_BYTES);
    memset(self->private_out, 0, PAIR_BYTES);
    memset(self->own, 0, 2 * (size_t)PAIR_BYTES);
    if (rlx_transport_create_shm(NULL, who, heap_bytes, NULL, &self->transport) != RLX_OK) {
        fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
        return false;
    }
    self->heap = rlx_transport_address(self->transport, who->rank);
    memset(self->heap, 0, heap_bytes);
    return true;
}

static void measure_pair(bench *self) {
    const pair_side ping = {NULL, pair_limit_ping};
    double one_way = 1e9;
    for (uint32_t i = 0; i < TRIALS; ++i) {
        double ns = pair_time(&self->pair, &ping, SMALL_REPS) / 2;
        if (ns < one_way) one_way = ns;
    }
    if (one_way > ping_limit_ns) self->report.is_judged = false;
    if (self->pair.rank == 0) {
        rlx_bench_report_row(&self->report, "limit: a cache line, one way", "", one_way * 1e-3,
                             "us", 0);
    }
    static const struct {
        const char *name;
        void (*measure)(bench *self);
    } parts[] = {{"signals", measure_signals}, {"copies", measure_copies},
                 {"small", measure_small},     {"large", measure_large},
                 {"halves", measure_halves},   {"private", measure_private},
                 {"idle", measure_idle}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        if (wants(self, parts[i].name)) parts[i].measure(self);
    }
}

/* Ranks that do nothing but meet: `rounds` barriers after the heap is there. ns from the first fork
 * to the last heap, and per barrier; negative when it failed. */
typedef struct crew_times {
    double start_ns, barrier_ns;
} crew_times;
static int be_member(const rlx_rank *who, uint32_t rounds, pair_shared *shared) {
    rlx_transport *transport = NULL;
    if (rlx_transport_create_shm(NULL, who, 16 << 20, NULL, &transport) != RLX_OK) return 1;
    uint64_t begin = rlx_bench_now_ns();
    for (uint32_t i = 0; i < rounds; ++i) {
        if (rlx_transport_barrier(transport) != RLX_OK) return 1;
    }
    if (who->rank == 0) {
        shared->times[0][0] = (double)begin;
        shared->times[0][1] = (double)(rlx_bench_now_ns() - begin) / (rounds + 1e-9);
    }
    rlx_transport_destroy(transport);
    return 0;
}

static crew_times run_crew(pair_shared *shared, uint32_t count, uint32_t rounds) {
    rlx_rank ranks[RLX_RANKS_MOST];
    pid_t children[RLX_RANKS_MOST];
    uint64_t start = rlx_bench_now_ns();
    bool is_well = rlx_ranks_create(count, ranks) == RLX_OK;
    if (!is_well) return (crew_times){-1, -1};
    fflush(NULL);
    for (uint32_t i = 0; i < count; ++i) {
        children[i] = fork();
        if (children[i] != 0) continue;
        rlx_ranks_keep(ranks, count, i);
        _exit(be_member(&ranks[i], rounds, shared));
    }
    rlx_ranks_close(ranks, count);
    for (uint32_t i = 0; i < count; ++i) {
        int status = 1;
        is_well = children[i] > 0 && waitpid(children[i], &status, 0) > 0 && status == 0 && is_well;
    }
    if (!is_well) return (crew_times){-1, -1};
    return (crew_times){shared->times[0][0] - (double)start, shared->times[0][1]};
}

static void measure_crews(bench *self) {
    rlx_bench_figures *start = calloc(2, sizeof *start), *barrier = start + 1;
    for (uint32_t i = 0; start != NULL && i < TRIALS; ++i) {
        crew_times two = run_crew(self->pair.shared, 2, 1);
        crew_times four = run_crew(self->pair.shared, 4, SMALL_REPS);
        start->items[start->count++] = two.start_ns;
        barrier->items[barrier->count++] = four.barrier_ns;
        if (two.start_ns < 0 || four.barrier_ns < 0) self->report.code = 1;
    }
    if (start == NULL) return;
    double start_ms = rlx_bench_median(start) * 1e-6, barrier_us = rlx_bench_median(barrier) * 1e-3;
    rlx_bench_report_most(&self->report, "start of 2 ranks with heaps of 16 MiB", "", start_ms,
                          "ms", 20, 1, start_ms <= 20);
    rlx_bench_report_most(&self->report, "barrier, 4 ranks on the processors there are", "",
                          barrier_us, "us", 10, 1, barrier_us <= 10);
    free(start);
}

static bool run_pair(bench *self) {
    rlx_rank ranks[2];
    int status = 0;
    if (rlx_ranks_create(2, ranks) != RLX_OK) return false;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return false;
    uint32_t rank = child == 0 ? 1 : 0;
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    rlx_ranks_keep(ranks, 2, rank);
    rlx_bench_pin before = rlx_bench_pin_begin();
    rlx_bench_pin_to(&before, rank, 0);
    bool is_ready = prepare_pair(&self->pair, &ranks[rank]);
    if (is_ready) measure_pair(self);
    rlx_transport_destroy(self->pair.transport);
    if (child == 0) _exit(is_ready ? 0 : 1);
    free(self->pair.private_in);
    free(self->pair.private_out);
    close(ranks[0].socket);
    rlx_bench_pin_end(&before, 0);
    waitpid(child, &status, 0);
    return is_ready && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_part(const char *name) {
    static const char *const parts[] = {"signals", "copies", "small", "large",  "halves",
                                        "private", "idle",   "crews", "network"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        if (strcmp(parts[i], name) == 0) return true;
    return false;
}

int rlx_bench_collective_part(FILE *out, bool json, const char *part) {
    static bench self;
    if (part != NULL && !is_part(part)) {
        fprintf(stderr, "rlx bench: collective has no part '%s' (rlx bench --help)\n", part);
        return 1;
    }
    self.part = part;
    self.report = rlx_bench_report_begin(out, json, 2);
    self.pair.shared = mmap(NULL, sizeof *self.pair.shared, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (self.pair.shared == MAP_FAILED || rlx_bench_threads() < 2) {
        fputs("rlx bench: collective needs two processors and shared memory\n", stderr);
        return 1;
    }
    bool is_done = run_pair(&self);
    if (is_done) {
        if (wants(&self, "crews")) measure_crews(&self);
        if (wants(&self, "network")) {
            measure_network(&self, "openmpi");
            measure_network(&self, "mpich");
        }
    }
    munmap(self.pair.shared, sizeof *self.pair.shared);
    return rlx_bench_report_end(&self.report, is_done);
}

int rlx_bench_collective(FILE *out, bool json) {
    return rlx_bench_collective_part(out, json, NULL);
}
