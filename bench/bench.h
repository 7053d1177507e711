/* SPDX-License-Identifier: Apache-2.0 */
/* The topics of `rlx bench`. Each prints rows of name, value, unit, limit, ratio and bar, as a
 * markdown table or as JSON lines, and returns 0, or 1 when a row misses its bar. */
#ifndef RLX_BENCH_BENCH_H
#define RLX_BENCH_BENCH_H

#include <rlx/rlx.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* What this machine can do: arithmetic, reading and copying, with one thread and with all. */
int rlx_bench_limits(FILE *out, bool json);

/* Scratch bytes of well-known networks against their limits and against the lower bound. Plans
 * only: no weight is read, nothing runs. */
int rlx_bench_memory(FILE *out, bool json);

/* The convolutions of resnet50 against multiply-adds in registers, whole networks, depthwise
 * convolutions against copies. */
int rlx_bench_conv(FILE *out, bool json);

/* Copy engines against sync and against max(copy, compute); conversions against copying. */
int rlx_bench_copy(FILE *out, bool json);

/* A program under a weights budget; the file copy engine against raw reads; layers streamed from
 * disk behind compute. Writes up to 512 MiB to $TMPDIR and removes them. */
int rlx_bench_stream(FILE *out, bool json);

/* What a step costs beside its work: alone, not shared, shared; and two threads beside a busy loop.
 */
int rlx_bench_steps(FILE *out, bool json);
/* Softmax, norms, reductions and transposes against copying the same bytes. */
int rlx_bench_rows(FILE *out, bool json);

/* Elementwise ops and chains on 64 MiB against copying; a chain of six against one add. */
int rlx_bench_elementwise(FILE *out, bool json);

/* Attention: prefill against the multiply-add peak, decode against the read bandwidth. */
int rlx_bench_attention(FILE *out, bool json);

/* Products with packed weights against the multiply-add peak, matrix x vector against reading. */
int rlx_bench_matmul(FILE *out, bool json);
/* One product, "MxKxN"; NULL: all of them. */
int rlx_bench_matmul_shape(FILE *out, bool json, const char *text);

/* The memory placer: benchmark files within their capacity, when the folder with test data is there
 * ($RLX_TEST_DATA, else ../shared), and 5,000 and 50,000 generated buffers. */
int rlx_bench_place(FILE *out, bool json);

/* The shm transport on two processes against plain shared memory, and against Open MPI where it is
 * installed. */
int rlx_bench_collective(FILE *out, bool json);
/* One part: signals, copies, small, large, halves, private, idle, crews, network. */
int rlx_bench_collective_part(FILE *out, bool json, const char *part);

/* A Vulkan device (NULL: the best GPU, else the first one there is): f32 matmul against the naive
 * shader, replay against recording anew, host steps of networks, bytes of a decode step. `decoder`
 * builds one with K/V, whose inputs are i64 tokens [S] and positions [S]. Without a device it says
 * so and returns 0. */
int rlx_bench_vulkan(FILE *out, bool json, const char *device,
                     rlx_status (*decoder)(rlx_graph **out_graph));

/* The head of a markdown table; nothing for JSON. */
void rlx_bench_head(FILE *out, bool json);
/* What the ratio of a row is held to, and what came of it. */
typedef struct rlx_bench_bar {
    double ratio;        /* 0: none, or one of several figures */
    bool is_most;        /* at most so much; else at least */
    const char *verdict; /* "met", "missed", "not judged"; NULL: none */
} rlx_bench_bar;
/* One row; ratio is value / limit. A limit of 0 means there is none. */
void rlx_bench_row(FILE *out, bool json, const char *name, double value, const char *unit,
                   double limit);
void rlx_bench_row_with(FILE *out, bool json, const char *name, double value, const char *unit,
                        double limit, rlx_bench_bar bar);

/* Nanoseconds of a clock that only goes forward. */
uint64_t rlx_bench_now_ns(void);

/* Figures of one thing measured again and again. */
enum { RLX_BENCH_TRIALS = 11, RLX_BENCH_JUDGED_TRIALS = 41, RLX_BENCH_MOST_TRIALS = 1024 };
/* How often a row is measured; more often with a bar (0: none), so that both sides find a moment
 * without neighbours. */
uint32_t rlx_bench_trials(double bar);
typedef struct rlx_bench_figures {
    double items[RLX_BENCH_MOST_TRIALS];
    uint32_t count;
} rlx_bench_figures;
double rlx_bench_least(const rlx_bench_figures *figures);
double rlx_bench_most(const rlx_bench_figures *figures);
double rlx_bench_median(const rlx_bench_figures *figures);

/* Runs `work` on `threads` threads at once (the caller is one of them), `trials` times, and notes
 * the work done per second: the sum of what the calls return over the time from the common start to
 * the last one's end. False with a message when threads cannot be made. */
typedef double (*rlx_bench_work)(void *user, uint32_t thread, uint32_t threads);
bool rlx_bench_rates(rlx_bench_work work, void *user, uint32_t threads, uint32_t trials,
                     rlx_bench_figures *out_rates);

/* Threads that this process may use. */
uint32_t rlx_bench_threads(void);

/* The share of its processors that this process does not get, 0 to 1, as measured now. Above the
 * limit no time can be judged. */
#define RLX_BENCH_BUSY_LIMIT 0.1
double rlx_bench_busy(uint32_t threads);

/* Where rows go, whether their bars are judged, what came of them, and the exit code so far. */
typedef struct rlx_bench_report {
    FILE *out;
    bool json, is_judged;
    uint32_t met, missed, unjudged; /* bars */
    int code;
    uint64_t waited_ns; /* for cores of their own: rlx_bench_settle */
} rlx_bench_report;
/* Prints the head and how busy the machine is; judges only with so many processors to be had, for
 * which it waits a while. */
rlx_bench_report rlx_bench_report_begin(FILE *out, bool json, uint32_t processors);
/* Says how many bars were met. The exit code: 1 when one was missed, or when it is not done. */
int rlx_bench_report_end(const rlx_bench_report *self, bool is_done);
/* A row called `name` and `more`, marked when nothing is judged. */
void rlx_bench_report_row(const rlx_bench_report *self, const char *name, const char *more,
                          double value, const char *unit, double limit);
/* The same with a bar on its ratio, at least or at most. Whether it is met is the caller's to say:
 * the median counts too. */
void rlx_bench_report_least(rlx_bench_report *self, const char *name, const char *more,
                            double value, const char *unit, double limit, double bar, bool is_met);
void rlx_bench_report_most(rlx_bench_report *self, const char *name, const char *more, double value,
                           const char *unit, double limit, double bar, bool is_met);
/* Before a trial on several threads: waits until they have a core each. When a topic has waited for
 * seconds it goes on all the same, and its rows are not judged from then on. */
void rlx_bench_settle(rlx_bench_report *self, uint32_t threads);

/* The processors that this process had; `pin_to` leaves it, or another one (0: the calling thread),
 * the index-th of them, counted round, and `pin_end` gives them back. Where the system does not
 * allow it nothing happens. */
typedef struct rlx_bench_pin {
    cpu_set_t all;
} rlx_bench_pin;
rlx_bench_pin rlx_bench_pin_begin(void);
void rlx_bench_pin_to(const rlx_bench_pin *self, uint32_t index, pid_t process);
void rlx_bench_pin_end(const rlx_bench_pin *self, pid_t process);

/* Times of a limit and of ours, measured in turns; the ratio is limit / ours: 1 is at the limit. */
typedef struct rlx_bench_pairs {
    rlx_bench_figures limit, ours, ratio;
} rlx_bench_pairs;
void rlx_bench_pairs_begin(rlx_bench_pairs *pairs);
void rlx_bench_pair(rlx_bench_pairs *pairs, double limit_ns, double ours_ns);
/* Two rows: ours against the limit, and the median of pairs of them. The bar (0: none) is on the
 * first and judged by both. */
void rlx_bench_report_rates(rlx_bench_report *self, const char *name, double ours, double limit,
                            const char *unit, double median, double bar);
/* The same of the best times. An amount (bytes or operations of one time) makes the first a speed;
 * without one it is a ratio. */
void rlx_bench_report_pairs(rlx_bench_report *self, const char *name, const rlx_bench_pairs *pairs,
                            double amount, const char *unit, double bar);

/* The program under a weights budget, part of the topic `stream`. */
void rlx_bench_stream_program(rlx_bench_report *report);

#endif
