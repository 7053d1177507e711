/* SPDX-License-Identifier: Apache-2.0 */
/* A run allocates nothing: this program replaces the malloc family, mmap and brk, and counts every
 * call on every thread during 1,000 runs. Not built with sanitizers, which replace them too. */
#include "plans.h"

#include <stdlib.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t calls;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

void *malloc(size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(memory, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? 12 : 0;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

void free(void *memory) {
    atomic_fetch_add(&calls, 1);
    __libc_free(memory);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    atomic_fetch_add(&calls, 1);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

int munmap(void *address, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return (int)syscall(SYS_munmap, address, bytes);
}

int brk(void *address) {
    atomic_fetch_add(&calls, 1);
    return (int)syscall(SYS_brk, address);
}

static void the_counter_counts(void **state) {
    uint64_t before = atomic_load(&calls);
    void *volatile memory = malloc(10);
    (void)state;
    free(memory);
    assert_int_equal(atomic_load(&calls) - before, 2);
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    rlx_exec_destroy(exec);
    assert_true(atomic_load(&calls) - before > 10);
}

/* Sets, runs and reads 1,000 times; returns how many allocations that made. */
static uint64_t count_runs(rlx_exec *exec, const char *input, const void *x, uint64_t bytes,
                           const char *output, uint32_t *out_failures) {
    static float y[160 * 160];
    uint64_t before = atomic_load(&calls);
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t got;
        *out_failures += rlx_exec_set(exec, 0, input, x, bytes) != RLX_OK;
        *out_failures += rlx_exec_run(exec, 0) != RLX_OK;
        *out_failures += rlx_exec_read_f32(exec, 0, output, y, 160 * 160, &got) != RLX_OK;
    }
    return atomic_load(&calls) - before;
}

static void a_thousand_runs_allocate_nothing(void **state) {
    static float x[160 * 160];
    const rlx_exec_options modes[] = {{.size = sizeof(rlx_exec_options)},
                                      {.size = sizeof(rlx_exec_options), .profile = true},
                                      {.size = sizeof(rlx_exec_options), .poison = true}};
    rlx_test_random random = rlx_test_seed(3);
    (void)state;
    rlx_test_fill_f32(&random, x, 160 * 160, -1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t failures = 0;
        rlx_exec *small = exec_of(plan_mlp(), &modes[i]);
        rlx_exec *sized = exec_of(plan_nonzero(), &modes[i]);
        assert_int_equal(count_runs(small, "x", x, 16, "y", &failures), 0);
        assert_int_equal(count_runs(sized, "x", x, 24, "places", &failures), 0);
        assert_int_equal(failures, 0);
        rlx_exec_destroy(sized);
        rlx_exec_destroy(small);
    }
}

/* The large plan's steps go to the pool, so its threads are counted too. */
static void shared_steps_allocate_nothing_on_any_thread(void **state) {
    static float x[160 * 160];
    rlx_device *device = cpu_of(3);
    rlx_program *program = program_of(device, plan_large());
    rlx_exec *exec = NULL;
    uint32_t failures = 0;
    (void)state;
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_int_equal(count_runs(exec, "x", x, sizeof x, "y", &failures), 0);
    assert_int_equal(failures, 0);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(a_thousand_runs_allocate_nothing),
        cmocka_unit_test(shared_steps_allocate_nothing_on_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
