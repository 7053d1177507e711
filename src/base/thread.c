/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, futexes, the clock, the usable CPUs and the floating-point mode of a thread. */
#include "base/thread.h"
#include "base/cpu_quota.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#include <fenv.h>
#endif

static const uint64_t ns_per_second = 1000000000u;

rlx_status rlx_thread_start(pthread_t *out_thread, void *(*body)(void *), void *argument) {
    sigset_t all, saved;
    pthread_t thread;
    int code;
    /* A thread inherits the mask: signals stay the business of the program's own threads. Those
     * that the thread itself causes (a mapped file that shrinks) would kill the process without
     * asking the program's handler, if they were blocked. */
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    code = pthread_create(&thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (code != 0) {
        rlx_status status =
            RLX_FAIL(RLX_OUT_OF_MEMORY, "cannot start a thread: %s", strerror(code));
        rlx_error_detail_edit()->os_error = code;
        return status;
    }
    *out_thread = thread;
    return RLX_OK;
}

static void futex_wait(_Atomic uint32_t *word, int operation, uint32_t expected,
                       uint64_t timeout_ns) {
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / ns_per_second),
                               .tv_nsec = (long)(timeout_ns % ns_per_second)};
    (void)syscall(SYS_futex, word, operation, expected, timeout_ns == UINT64_MAX ? NULL : &timeout,
                  NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int operation, uint32_t count) {
    (void)syscall(SYS_futex, word, operation, count < INT_MAX ? count : INT_MAX, NULL, NULL, 0);
}

void rlx_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    futex_wait(word, FUTEX_WAIT_PRIVATE, expected, timeout_ns);
}

void rlx_futex_wake(_Atomic uint32_t *word, uint32_t count) {
    futex_wake(word, FUTEX_WAKE_PRIVATE, count);
}

void rlx_futex_wait_shared(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    futex_wait(word, FUTEX_WAIT, expected, timeout_ns);
}

void rlx_futex_wake_shared(_Atomic uint32_t *word, uint32_t count) {
    futex_wake(word, FUTEX_WAKE, count);
}

int32_t rlx_thread_number(void) {
    return (int32_t)syscall(SYS_gettid);
}

bool rlx_thread_has_ended(int32_t number) {
    return syscall(SYS_tgkill, getpid(), number, 0) != 0 && errno == ESRCH;
}

void rlx_cpu_relax(void) {
#if defined(__SSE2__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint64_t rlx_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * ns_per_second + (uint64_t)now.tv_nsec;
}

uint64_t rlx_thread_put_aside(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
    return (uint64_t)usage.ru_nivcsw;
}

/* The processors that a thread may use, 0 being the calling one. The system call, because glibc's
 * wrapper takes fixed-size or allocated sets only. */
enum { WORD_BITS = 8 * sizeof(unsigned long) };
typedef struct affinity {
    unsigned long words[8192 / WORD_BITS]; /* room for 8192 CPUs */
    long bytes;                            /* of them in use; 0 or less: the system does not tell */
} affinity;

static affinity affinity_get(int32_t number) {
    affinity self = {{0}, 0};
    self.bytes = syscall(SYS_sched_getaffinity, number, sizeof self.words, self.words);
    return self;
}

static uint32_t affinity_count(const affinity *self) {
    uint32_t count = 0;
    for (size_t i = 0; self->bytes > 0 && i < (size_t)self->bytes / sizeof self->words[0]; ++i)
        count += (uint32_t)__builtin_popcountl(self->words[i]);
    return count;
}

static bool leave_cpu(int32_t number, int cpu) {
    const affinity all = affinity_get(number);
    affinity others = all;
    if (all.bytes <= 0 || cpu < 0 || cpu / WORD_BITS >= 8192 / WORD_BITS) return false;
    others.words[cpu / WORD_BITS] &= ~(1ul << cpu % WORD_BITS);
    if (affinity_count(&others) == 0) return false;
    if (syscall(SYS_sched_setaffinity, number, all.bytes, others.words) != 0) return false;
    return syscall(SYS_sched_setaffinity, number, all.bytes, all.words) == 0;
}

/* One at a time: of two that move the same thread, one would take the other's narrow affinity for
 * the one to go back to. */
bool rlx_thread_leave_cpu(int32_t number, int cpu) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    bool has_left = leave_cpu(number, cpu);
    pthread_mutex_unlock(&one);
    return has_left;
}

uint32_t rlx_cpu_count(void) {
    const affinity all = affinity_get(0);
    uint32_t count = affinity_count(&all);
    if (count == 0) count = 1;
    uint32_t quota = rlx_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota < count ? quota : count;
}

#if defined(__SSE2__)
/* Both units: sums are done by SSE, but strtod and printf ask the x87 how to round. */
static uint64_t read_fp_mode(void) {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | _mm_getcsr();
}
static void write_fp_mode(uint64_t bits) {
    uint16_t x87 = (uint16_t)(bits >> 32), now;
    _mm_setcsr((uint32_t)bits);
    __asm__ volatile("fnstcw %0" : "=m"(now));
    if (now != x87) __asm__ volatile("fldcw %0" : : "m"(x87));
}
/* All exceptions masked, nearest, no flush to zero, long double as wide as it is. */
static const uint64_t default_fp_mode = UINT64_C(0x37f) << 32 | 0x1f80;
#elif defined(__aarch64__)
static uint64_t read_fp_mode(void) {
    uint64_t bits;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
}
static void write_fp_mode(uint64_t bits) {
    __asm__ volatile("msr fpcr, %0" : : "r"(bits));
}
static const uint64_t default_fp_mode = 0;
#else
static uint64_t read_fp_mode(void) {
    return (uint64_t)fegetround();
}
static void write_fp_mode(uint64_t bits) {
    fesetround((int)bits);
}
static const uint64_t default_fp_mode = FE_TONEAREST;
#endif

rlx_fp_mode rlx_fp_mode_enter(void) {
    rlx_fp_mode saved = {read_fp_mode()};
    write_fp_mode(default_fp_mode);
    return saved;
}

void rlx_fp_mode_leave(rlx_fp_mode saved) {
    write_fp_mode(saved.bits);
}
