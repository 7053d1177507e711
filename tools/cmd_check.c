/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx check`: runs ONNX backend test folders, a few worker processes side by side. A worker that
 * dies is a failed test and is replaced, so that one bad model hides no other. */
#include "check_case.h"
#include "progress.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORKERS = 64, MOST_DEPTH = 8 };

/* Shared by the processes. */
typedef struct check_board {
    atomic_uint next;
    unsigned current[MOST_WORKERS]; /* what each worker is at, plus 1 */
    check_result results[];
} check_board;

typedef struct check_command {
    tool_common common;
    const char *device;
    uint64_t jobs;
    check_options options;
    char **folders;
    uint32_t count, capacity;
    check_board *board;
    pid_t workers[MOST_WORKERS];
} check_command;

static bool add_folder(check_command *command, const char *path) {
    if (command->count == command->capacity) {
        uint32_t capacity = command->capacity == 0 ? 256 : 2 * command->capacity;
        char **grown = realloc(command->folders, capacity * sizeof *grown);
        if (grown == NULL) return false;
        command->folders = grown;
        command->capacity = capacity;
    }
    char *copy = malloc(strlen(path) + 1);
    if (copy == NULL) return false;
    strcpy(copy, path);
    command->folders[command->count++] = copy;
    return true;
}

/* A folder with a model.onnx is a test; others are looked through. */
static bool find_tests(check_command *command, const char *path, uint32_t depth) {
    char inner[1024];
    bool is_ok = true;
    snprintf(inner, sizeof inner, "%s/model.onnx", path);
    if (access(inner, R_OK) == 0) return add_folder(command, path);
    DIR *folder = opendir(path);
    if (folder == NULL) return false;
    for (struct dirent *entry = readdir(folder); entry != NULL && is_ok; entry = readdir(folder)) {
        struct stat facts;
        if (entry->d_name[0] == '.' || depth == MOST_DEPTH) continue;
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof inner) continue;
        if (stat(inner, &facts) == 0 && S_ISDIR(facts.st_mode))
            is_ok = find_tests(command, inner, depth + 1);
    }
    closedir(folder);
    return is_ok;
}

static int by_name(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static void work(check_command *command, uint32_t worker) {
    check_board *board = command->board;
    for (unsigned i = atomic_fetch_add(&board->next, 1); i < command->count;
         i = atomic_fetch_add(&board->next, 1)) {
        board->current[worker] = i + 1;
        check_case_run(command->folders[i], &command->options, &board->results[i]);
        board->current[worker] = 0;
    }
}

static bool start(check_command *command, uint32_t worker) {
    fflush(stdout);
    command->workers[worker] = fork();
    if (command->workers[worker] == 0) {
        work(command, worker);
        _exit(0);
    }
    return command->workers[worker] > 0;
}

/* The test that a dead worker was at has crashed. */
static void bury(check_command *command, uint32_t worker, int status) {
    unsigned at = command->board->current[worker];
    if (at == 0) return;
    check_result *result = &command->board->results[at - 1];
    result->outcome = CHECK_CRASHED;
    snprintf(result->reason, sizeof result->reason, "the process ended with signal %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    command->board->current[worker] = 0;
}

static uint32_t worker_of(const check_command *command, pid_t process) {
    uint32_t worker = 0;
    while (worker < command->jobs && command->workers[worker] != process)
        worker++;
    return worker;
}

static bool run_all(check_command *command) {
    uint32_t running = 0;
    tool_progress_begin("checking");
    for (uint32_t i = 0; i < command->jobs; i++)
        running += start(command, i);
    if (running == 0) return false;
    while (running > 0) {
        int status = 0;
        pid_t process = waitpid(-1, &status, 0);
        if (process < 0 && errno == EINTR) continue;
        if (process < 0) break;
        uint32_t worker = worker_of(command, process);
        if (worker == command->jobs) continue;
        bool has_died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        running--;
        if (!has_died) continue;
        bury(command, worker, status);
        running += start(command, worker);
    }
    tool_progress_end();
    return true;
}

static const char *outcome_text(check_outcome outcome) {
    static const char *const texts[] = {"not run", "ok",     "unsupported",
                                        "differs", "failed", "crashed"};
    return texts[outcome];
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static int report(const check_command *command) {
    uint32_t passed = 0, whole = 0;
    for (uint32_t i = 0; i < command->count; i++) {
        const check_result *result = &command->board->results[i];
        bool is_passed = result->outcome == CHECK_PASSED;
        passed += is_passed;
        whole += is_passed && result->host == 0;
        if (command->common.json) {
            printf("{\"test\":");
            tool_json_text(stdout, last_part(command->folders[i]));
            printf(",\"outcome\":\"%s\",\"reason\":", outcome_text(result->outcome));
            tool_json_text(stdout, result->reason);
            printf(",\"bound\":");
            tool_json_text(stdout, result->bound);
            printf(",\"steps\":%u,\"host_steps\":%u,\"host_op\":", result->steps, result->host);
            tool_json_text(stdout, result->first_host);
            puts("}");
        } else if (!is_passed || command->common.verbose) {
            printf("%s %s%s%s", outcome_text(result->outcome), last_part(command->folders[i]),
                   is_passed ? "" : ": ", is_passed ? "" : result->reason);
            if (command->common.verbose && result->bound[0] != 0)
                printf(" (bound: %s)", result->bound);
            if (command->common.verbose && result->host != 0)
                printf(" (%u of %u steps on the host, first %s)", result->host, result->steps,
                       result->first_host);
            putchar('\n');
        }
    }
    if (command->device != NULL && !command->common.json)
        printf("%u ran wholly on %s\n", whole, command->device);
    printf("%u passed, %u failed\n", passed, command->count - passed);
    return passed == command->count ? TOOL_OK : TOOL_DIFFERS;
}

static int run_check(check_command *command) {
    size_t bytes = sizeof *command->board + command->count * sizeof command->board->results[0];
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return TOOL_FAILED;
    command->board = memory;
    if (command->jobs == 0) command->jobs = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (command->jobs > MOST_WORKERS) command->jobs = MOST_WORKERS;
    if (command->jobs > command->count) command->jobs = command->count;
    qsort(command->folders, command->count, sizeof *command->folders, by_name);
    int code = TOOL_FAILED;
    if (run_all(command)) {
        code = report(command);
    } else {
        fputs("rlx check: no worker process could be started\n", stderr);
    }
    munmap(memory, bytes);
    return code;
}

int rlx_cmd_check(int argc, char **argv) {
    check_command command = {.options = {.relative = 1e-3, .absolute = 1e-5}};
    const tool_option options[] = {
        {"--device", TOOL_TEXT, &command.device, "NAME", "where it runs (see rlx devices); cpu"},
        {"--jobs", TOOL_NUMBER, &command.jobs, "N", "tests side by side; 0: one per core"},
        TOOL_COMMON_OPTIONS(command.common)};
    const tool_usage usage = {
        "check",
        "DIR.. [OPTIONS]",
        "Runs ONNX backend tests: folders with model.onnx and test_data_set_N, or folders of "
        "such\nfolders. Lists what fails and why (with -v also what passes, the inputs that\n"
        "became constants because they decide shapes, and steps that the device left to the host). "
        "The last line is 'N passed, N failed'.\n"
        "Numbers agree within 1e-3 of the expected one plus 1e-5.",
        options,
        sizeof options / sizeof *options,
        1,
        TOOL_LIST_MOST};
    const char *folders[TOOL_LIST_MOST] = {NULL};
    int code;
    if (!tool_parse(&usage, argc, argv, folders, &code)) return code;
    tool_log(&command.common);
    command.options.device = command.device;
    for (uint32_t i = 0; i < TOOL_LIST_MOST && folders[i] != NULL; i++) {
        if (find_tests(&command, folders[i], 0)) continue;
        fprintf(stderr, "rlx check: '%s' cannot be read\n", folders[i]);
        return TOOL_FAILED;
    }
    if (command.count == 0) {
        fputs("rlx check: no test (a folder with model.onnx) was found\n", stderr);
        return TOOL_FAILED;
    }
    code = run_check(&command);
    for (uint32_t i = 0; i < command.count; i++)
        free(command.folders[i]);
    free(command.folders);
    return code;
}
