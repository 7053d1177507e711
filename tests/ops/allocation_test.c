/* SPDX-License-Identifier: Apache-2.0 */
/* Every op case from file to executable, with each allocation failing in turn. One case of 30 as it
 * stands; `test_ops_allocation whole` takes them all. */
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/session.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct allocation_walk {
    rlx_device *device;
    uint32_t every;         /* case of so many is taken */
    uint32_t seen, skipped; /* skipped: cases that must fail, or that need sizes */
    uint64_t allocations;
} allocation_walk;

typedef struct allocation_case {
    rlx_device *device;
    const char *path;
} allocation_case;

static rlx_status open_and_close(const rlx_allocator *allocator, void *argument) {
    const allocation_case *self = argument;
    rlx_program_options program_options = {.size = sizeof program_options, .allocator = allocator};
    rlx_exec_options exec_options = {.size = sizeof exec_options, .allocator = allocator};
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_status status = rlx_session_open(allocator, self->path, &session);
    if (status == RLX_OK) {
        status = rlx_session_compile(session, self->device, NULL, &program_options, &program);
    }
    if (status == RLX_OK) status = rlx_exec_create(program, &exec_options, &exec);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    return status;
}

static void try_case(const char *path, allocation_walk *walk) {
    allocation_case self = {walk->device, path};
    if (walk->seen++ % walk->every != 0) return;
    if (open_and_close(NULL, &self) != RLX_OK) {
        walk->skipped++;
        return;
    }
    uint64_t count = rlx_test_every_allocation_fails(open_and_close, &self);
    assert_true(count > 0);
    walk->allocations += count;
}

/* Folders with a model are cases; others hold cases. */
static void walk_folder(const char *folder, uint32_t depth, allocation_walk *walk) {
    char path[1024];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%s/model.rlx", folder);
    if (access(path, R_OK) == 0) {
        try_case(path, walk);
        return;
    }
    int count = depth < 4 ? scandir(folder, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && entries[i]->d_type == DT_DIR) {
            walk_folder(path, depth + 1, walk);
        }
        free(entries[i]);
    }
    free(entries);
}

static uint32_t every = 30;

static void every_allocation_of_an_op_case_may_fail(void **state) {
    allocation_walk walk = {.every = every};
    (void)state;
    assert_ok(rlx_device_open("cpu", NULL, &walk.device));
    walk_folder("cases", 0, &walk);
    rlx_device_release(walk.device);
    print_message("%" PRIu64 " allocations in one of %u of %u cases; %u left out\n",
                  walk.allocations, walk.every, walk.seen, walk.skipped);
    assert_true(walk.seen > 400 && walk.skipped * 5 < walk.seen / walk.every);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_an_op_case_may_fail),
    };
    if (count > 1 && strcmp(arguments[1], "whole") == 0) every = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
