/* SPDX-License-Identifier: Apache-2.0 */
/* The `file` engine where the kernel forbids io_uring, as containers do: at setup, and (worse) only
 * when reads are handed over. A forked child takes the filter on and returns what it saw. */
#include "driver/copy.h"
#include "support/support.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = (5 << 20) + 321, COPIES = 4 };

enum { SAW_NO_FILTER = 10, SAW_NO_ENGINE, SAW_OTHER_NAME, SAW_FAILURE, SAW_OTHER_BYTES };

static uint8_t content[BYTES];

/* From now on this system call fails with EPERM. The number alone is compared: the child makes no
 * calls of another architecture. */
static bool forbid(uint32_t number) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int copy_all(rlx_copy_engine *engine, rlx_copy_file *file, uint8_t *room) {
    rlx_copy_token tokens[COPIES];
    for (uint64_t i = 0; i < COPIES; ++i) {
        rlx_copy_source source = {.file = file, .offset = i};
        if (rlx_copy_issue(engine, source, room + i * BYTES, BYTES - i, &tokens[i]) != RLX_OK) {
            return SAW_FAILURE;
        }
    }
    for (uint64_t i = 0; i < COPIES; ++i) {
        if (rlx_copy_wait(engine, tokens[i]) != RLX_OK) return SAW_FAILURE;
        if (memcmp(room + i * BYTES, content + i, BYTES - i) != 0) return SAW_OTHER_BYTES;
    }
    return 0;
}

static int use_engine(const char *path, uint32_t number, const char *name) {
    rlx_copy_engine *engine = NULL;
    rlx_copy_file *file = NULL;
    uint8_t *room = malloc((size_t)COPIES * BYTES);
    int saw;
    if (room == NULL || !forbid(number)) return SAW_NO_FILTER;
    if (rlx_copy_file_open(NULL, path, &file) != RLX_OK ||
        rlx_copy_engine_create_file(NULL, NULL, &engine) != RLX_OK) {
        return SAW_NO_ENGINE;
    }
    saw = strncmp(rlx_copy_engine_name(engine), name, strlen(name)) != 0
              ? SAW_OTHER_NAME
              : copy_all(engine, file, room);
    rlx_copy_engine_destroy(engine);
    rlx_copy_file_close(file);
    free(room);
    return saw;
}

static void check_without(uint32_t number, const char *name) {
    rlx_test_random random = rlx_test_seed(5);
    rlx_test_folder folder;
    int result = -1;
    pid_t child;
    for (size_t i = 0; i < BYTES; ++i) {
        content[i] = (uint8_t)rlx_test_next(&random);
    }
    rlx_test_folder_create(&folder);
    rlx_test_write_file(rlx_test_path(&folder, "data"), content, BYTES);
    child = fork();
    if (child == 0) _exit(use_engine(rlx_test_path(&folder, "data"), number, name));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    rlx_test_folder_remove(&folder);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == SAW_NO_FILTER) skip(); /* this kernel has no filters */
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void without_rings_threads_read(void **state) {
    (void)state;
    check_without(SYS_io_uring_setup, "file (threads)");
}

static void a_ring_that_takes_no_reads_does_not_hang(void **state) {
    (void)state;
    check_without(SYS_io_uring_enter, "file (");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rings_threads_read),
        cmocka_unit_test(a_ring_that_takes_no_reads_does_not_hang),
    };
    return cmocka_run_group_tests_name("io_uring refused", tests, NULL, NULL);
}
