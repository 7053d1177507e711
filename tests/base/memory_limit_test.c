/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is free, on made-up control groups; and what launchers say in the environment. */
#include "base/memory_limit.h"
#include "support/support.h"

#include <rlx/env.h>

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

static void write_text(const char *name, const char *text) {
    rlx_test_write_file(rlx_test_path(&folder, name), text, strlen(text));
}

static uint64_t free_bytes(void) {
    return rlx_memory_free(rlx_test_path(&folder, "self"), folder.path,
                           rlx_test_path(&folder, "meminfo"));
}

static void without_files_nothing_limits(void **state) {
    (void)state;
    assert_true(free_bytes() == UINT64_MAX);
}

static void the_machine_limits(void **state) {
    (void)state;
    write_text("meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    2000 kB\n");
    assert_int_equal(free_bytes(), 2000 << 10);
}

static void a_group_of_version_2_limits_without_its_file_pages(void **state) {
    (void)state;
    write_text("self", "0::/box\n");
    assert_int_equal(mkdir(rlx_test_path(&folder, "box"), 0700), 0);
    write_text("box/memory.max", "max\n");
    assert_true(free_bytes() == UINT64_MAX);
    write_text("box/memory.max", "1000000\n");
    write_text("box/memory.current", "900000\n");
    assert_int_equal(free_bytes(), 100000);
    write_text("box/memory.stat", "anon 5\ninactive_file 300000\nactive_file 100000\n");
    assert_int_equal(free_bytes(), 500000);
    /* The group above is tighter. */
    write_text("memory.max", "1000\n");
    write_text("memory.current", "2000\n");
    assert_int_equal(free_bytes(), 0);
}

static void a_group_of_version_1_limits(void **state) {
    (void)state;
    write_text("self", "5:cpu,cpuacct:/x\n4:memory:/\n");
    assert_int_equal(mkdir(rlx_test_path(&folder, "memory"), 0700), 0);
    write_text("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("memory/memory.usage_in_bytes", "5000\n");
    assert_true(free_bytes() == UINT64_MAX);
    write_text("memory/memory.limit_in_bytes", "8000\n");
    assert_int_equal(free_bytes(), 3000);
    write_text("memory/memory.stat", "cache 1\ntotal_inactive_file 400\ntotal_active_file 600\n");
    assert_int_equal(free_bytes(), 4000);
}

static const char *const variables[] = {"RLX_RANK",
                                        "RLX_RANK_COUNT",
                                        "RLX_RANK_SOCKET",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_NODEID",
                                        "SLURM_STEP_TASKS_PER_NODE"};

static void forget_variables(void) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i)
        unsetenv(variables[i]);
}

static void launchers_tell_the_rank(void **state) {
    rlx_rank who;
    (void)state;
    forget_variables();
    assert_ok(rlx_env_rank(&who));
    assert_int_equal(who.launcher, RLX_LAUNCHER_NONE);
    assert_int_equal(who.rank_count, 1);
    assert_int_equal(who.socket, -1);
    setenv("PMI_RANK", "2", 1);
    setenv("PMI_SIZE", "3", 1);
    assert_ok(rlx_env_rank(&who));
    assert_int_equal(who.launcher, RLX_LAUNCHER_MPI);
    assert_int_equal(who.rank, 2);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    assert_ok(rlx_env_rank(&who));
    assert_int_equal(who.rank, 1);
    assert_int_equal(who.rank_count, 4);
    setenv("RLX_RANK", "5", 1);
    setenv("RLX_RANK_COUNT", "6", 1);
    setenv("RLX_RANK_SOCKET", "77", 1);
    assert_ok(rlx_env_rank(&who));
    assert_int_equal(who.launcher, RLX_LAUNCHER_RLX);
    assert_int_equal(who.rank, 5);
    assert_int_equal(who.socket, 77);
    setenv("RLX_RANK", "6", 1);
    assert_status(RLX_INVALID_ARGUMENT, rlx_env_rank(&who));
    assert_error_has("RLX_RANK is 6, and RLX_RANK_COUNT is 6");
    setenv("RLX_RANK", "x", 1);
    assert_status(RLX_INVALID_ARGUMENT, rlx_env_rank(&who));
    assert_error_has("RLX_RANK is 'x'");
    forget_variables();
}

static uint32_t host_count(void) {
    rlx_rank who;
    assert_ok(rlx_env_rank(&who));
    return who.host_count;
}

static void launchers_tell_how_many_ranks_a_host_has(void **state) {
    rlx_rank who;
    (void)state;
    forget_variables();
    assert_int_equal(host_count(), 1);
    setenv("SLURM_PROCID", "9", 1);
    setenv("SLURM_NTASKS", "10", 1);
    assert_int_equal(host_count(), 0);
    setenv("SLURM_STEP_TASKS_PER_NODE", "4(x2),2", 1);
    for (char node = '0'; node <= '3'; ++node) {
        static const uint32_t expected[] = {4, 4, 2, 0};
        setenv("SLURM_NODEID", (char[]){node, '\0'}, 1);
        assert_int_equal(host_count(), expected[node - '0']);
    }
    setenv("SLURM_STEP_TASKS_PER_NODE", "4(x", 1);
    assert_int_equal(host_count(), 0);
    setenv("PMI_RANK", "2", 1);
    setenv("PMI_SIZE", "4", 1);
    assert_int_equal(host_count(), 0);
    setenv("MPI_LOCALNRANKS", "2", 1);
    assert_int_equal(host_count(), 2);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
    assert_int_equal(host_count(), 3);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "5", 1);
    assert_status(RLX_INVALID_ARGUMENT, rlx_env_rank(&who));
    setenv("RLX_RANK", "5", 1);
    setenv("RLX_RANK_COUNT", "6", 1);
    assert_int_equal(host_count(), 6);
    forget_variables();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_files_nothing_limits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_machine_limits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_group_of_version_2_limits_without_its_file_pages,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_group_of_version_1_limits, make_folder, remove_folder),
        cmocka_unit_test(launchers_tell_the_rank),
        cmocka_unit_test(launchers_tell_how_many_ranks_a_host_has),
    };
    return cmocka_run_group_tests_name("memory_limit", tests, NULL, NULL);
}
