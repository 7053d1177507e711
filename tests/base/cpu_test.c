/* SPDX-License-Identifier: Apache-2.0 */
/* CPU flags, the container's CPU quota on made-up control groups, and the environment. */
#include "support/support.h"

#include "base/cpu.h"
#include "base/cpu_quota.h"
#include "base/env.h"

#include <stdlib.h>
#include <sys/stat.h>

static rlx_test_folder folder;

static int make_folder(void **state) {
    (void)state;
    rlx_test_folder_create(&folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    rlx_test_folder_remove(&folder);
    return 0;
}

static void put(const char *name, const char *text) {
    rlx_test_write_file(rlx_test_path(&folder, name), text, strlen(text));
}

static void make(const char *name) {
    mkdir(rlx_test_path(&folder, name), 0700);
}

static uint32_t quota(void) {
    return rlx_cpu_quota(rlx_test_path(&folder, "self"), folder.path);
}

static void without_control_groups_there_is_no_quota(void **state) {
    (void)state;
    assert_int_equal(quota(), UINT32_MAX);
    put("self", "");
    assert_int_equal(quota(), UINT32_MAX);
    put("self", "nonsense\n:\n0:\n0::/gone\n");
    assert_int_equal(quota(), UINT32_MAX);
}

static void version_two_takes_the_least_of_all_ancestors(void **state) {
    (void)state;
    make("a"), make("a/b");
    put("self", "0::/a/b\n");
    put("a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota(), UINT32_MAX);
    put("a/cpu.max", "350000 100000\n");
    assert_int_equal(quota(), 3);
    put("cpu.max", "1200000 100000\n");
    assert_int_equal(quota(), 3);
    put("a/b/cpu.max", "50000 100000\n");
    assert_int_equal(quota(), 1); /* half a CPU still runs one thread */
}

static void a_group_outside_the_mount_falls_back_to_the_mount(void **state) {
    (void)state;
    put("self", "0::/docker/0123\n");
    put("cpu.max", "200000 100000\n");
    assert_int_equal(quota(), 2);
}

static void version_one_reads_quota_and_period(void **state) {
    (void)state;
    make("cpu,cpuacct"), make("cpu,cpuacct/g");
    put("self", "5:memory:/x\n4:cpuset:/\n3:cpu,cpuacct:/g\n");
    put("cpu,cpuacct/g/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/g/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(), UINT32_MAX);
    put("cpu,cpuacct/g/cpu.cfs_quota_us", "450000\n");
    assert_int_equal(quota(), 4);
    put("cpu,cpuacct/g/cpu.cfs_period_us", "0\n");
    assert_int_equal(quota(), UINT32_MAX);
}

static void flags_are_stable_and_imply_each_other(void **state) {
    uint32_t flags = rlx_cpu_flags();
    (void)state;
    assert_int_equal(flags, rlx_cpu_flags());
    if (flags & RLX_CPU_VNNI) assert_true(flags & RLX_CPU_AVX512);
    if (flags & RLX_CPU_AVX512) assert_true(flags & RLX_CPU_AVX2);
#if defined(__aarch64__)
    assert_int_equal(flags, RLX_CPU_NEON);
#endif
}

#if defined(__x86_64__)
static void flags_agree_with_the_compiler_runtime(void **state) {
    uint32_t flags = rlx_cpu_flags();
    (void)state;
    assert_int_equal(!!(flags & RLX_CPU_AVX2),
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(!!(flags & RLX_CPU_AVX512),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
    assert_int_equal(!!(flags & RLX_CPU_INTEL), !!__builtin_cpu_is("intel"));
}
#endif

static void flags_print_by_name_and_are_cut_to_fit(void **state) {
    char text[64], small[7];
    (void)state;
    rlx_cpu_flags_text(RLX_CPU_AVX2 | RLX_CPU_AVX512, text, sizeof text);
    assert_string_equal(text, "avx2 avx512");
    rlx_cpu_flags_text(0, text, sizeof text);
    assert_string_equal(text, "scalar");
    rlx_cpu_flags_text(RLX_CPU_AVX2 | RLX_CPU_AVX512, small, sizeof small);
    assert_string_equal(small, "avx2 a");
    rlx_cpu_flags_text(0, small, 0);
}

static void an_empty_variable_counts_as_unset(void **state) {
    (void)state;
    unsetenv("RLX_TEST_VARIABLE");
    assert_null(rlx_env_text("RLX_TEST_VARIABLE"));
    setenv("RLX_TEST_VARIABLE", "", 1);
    assert_null(rlx_env_text("RLX_TEST_VARIABLE"));
    setenv("RLX_TEST_VARIABLE", "7", 1);
    assert_string_equal(rlx_env_text("RLX_TEST_VARIABLE"), "7");
}

#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(without_control_groups_there_is_no_quota),
        FOLDER_TEST(version_two_takes_the_least_of_all_ancestors),
        FOLDER_TEST(a_group_outside_the_mount_falls_back_to_the_mount),
        FOLDER_TEST(version_one_reads_quota_and_period),
        cmocka_unit_test(flags_are_stable_and_imply_each_other),
#if defined(__x86_64__)
        cmocka_unit_test(flags_agree_with_the_compiler_runtime),
#endif
        cmocka_unit_test(flags_print_by_name_and_are_cut_to_fit),
        cmocka_unit_test(an_empty_variable_counts_as_unset),
    };
    return cmocka_run_group_tests_name("base/cpu", tests, NULL, NULL);
}
