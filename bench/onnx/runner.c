/* SPDX-License-Identifier: Apache-2.0 */
/* One engine, one model, one process: makes it ready, runs it once, says how long that took and how
 * much memory was touched, then runs it as often as standard input says. bench.py drives it.
 *
 * usage: rlx_onnx_runner rlx|ort CASE THREADS [--level basic|all] [--library FILE] [--once]
 *                                         [--set-once]
 *        rlx_onnx_runner cold RUNS rlx|ort CASE THREADS ..   (best time of a fresh process to its
 *                                                             first result)
 * CASE has the lines "model PATH", "in NAME DTYPE DIM,DIM FILE" (raw bytes), "out NAME".
 * commands: "run N": N runs, prints best and median; "write FILE": all outputs as raw f32;
 * "save FILE": the compiled program. */
#include "engine.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_RUNS = 10000 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Largest resident set so far, in KiB. */
static long peak_kib(void) {
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtol(line + 6, NULL, 10);
    fclose(file);
    return kib;
}

static bool read_file(const char *path, engine_input *input) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    fseek(file, 0, SEEK_END);
    input->bytes = (size_t)ftell(file);
    rewind(file);
    input->data = malloc(input->bytes + 1);
    bool is_whole =
        input->data != NULL && fread(input->data, 1, input->bytes, file) == input->bytes;
    fclose(file);
    return is_whole;
}

static bool read_input(engine_case *c, const char *line) {
    engine_input *input = &c->inputs[c->input_count];
    char dtype[16], dims[128], path[1024], *at = dims;
    if (c->input_count == ENGINE_MOST_PORTS) return false;
    if (sscanf(line, "in %127s %15s %127s %1023s", input->name, dtype, dims, path) != 4)
        return false;
    input->is_f32 = strcmp(dtype, "float32") == 0;
    input->item_bytes = strcmp(dtype, "int64") == 0 ? 8 : strcmp(dtype, "bool") == 0 ? 1 : 4;
    while (*at != '-' && input->rank < ENGINE_MOST_DIMS) { /* "-": a scalar */
        input->dims[input->rank++] = strtol(at, &at, 10);
        if (*at++ != ',') break;
    }
    c->input_count++;
    return read_file(path, input);
}

static bool read_case(engine_case *c, const char *path) {
    char line[2048];
    bool is_right = true;
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    while (is_right && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "in ", 3) == 0) {
            is_right = read_input(c, line);
        } else if (strncmp(line, "out ", 4) == 0 && c->output_count < ENGINE_MOST_PORTS) {
            is_right = sscanf(line, "out %127s", c->outputs[c->output_count++]) == 1;
        } else {
            is_right = sscanf(line, "model %1023s", c->model) == 1;
        }
    }
    fclose(file);
    return is_right;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const char *run_often(const engine *e, const engine_case *c, long count) {
    static double times[MOST_RUNS];
    for (long i = 0; i < count; i++) {
        double start = now_ms();
        const char *wrong = e->run(c);
        times[i] = now_ms() - start;
        if (wrong != NULL) return wrong;
    }
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("{\"best\": %.5f, \"median\": %.5f}\n", times[0], times[count / 2]);
    return NULL;
}

static const char *write_outputs(const engine *e, const engine_case *c, const char *path) {
    const char *wrong = NULL;
    FILE *file = fopen(path, "wb");
    if (file == NULL) return "cannot write";
    for (uint32_t i = 0; wrong == NULL && i < c->output_count; i++) {
        const float *data = NULL;
        size_t count = 0;
        wrong = e->read(c, i, &data, &count);
        if (wrong == NULL && fwrite(data, sizeof *data, count, file) != count) wrong = "disk full";
    }
    fclose(file);
    if (wrong == NULL) puts("{}");
    return wrong;
}

static const char *obey(const engine *e, const engine_case *c, char *line) {
    char path[1024];
    long count = 0;
    if (sscanf(line, "run %ld", &count) == 1 && count > 0 && count <= MOST_RUNS)
        return run_often(e, c, count);
    if (sscanf(line, "write %1023s", path) == 1) return write_outputs(e, c, path);
    if (sscanf(line, "save %1023s", path) == 1 && e->save != NULL) {
        const char *wrong = e->save(path);
        if (wrong == NULL) puts("{}");
        return wrong;
    }
    return "unknown command";
}

/* The least time of `count` fresh processes from their start to their first line. */
static int cold(long count, char **argv) {
    double best = 1e9;
    for (long i = 0; i < count; i++) {
        int ends[2], state = 0;
        pid_t child;
        char byte;
        posix_spawn_file_actions_t actions;
        if (pipe(ends) != 0) return 1;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        posix_spawn_file_actions_addclose(&actions, ends[0]);
        double start = now_ms();
        if (posix_spawn(&child, argv[0], &actions, NULL, argv, environ) != 0) return 1;
        close(ends[1]);
        bool has_result = read(ends[0], &byte, 1) == 1 && byte == '{';
        double took = now_ms() - start;
        if (has_result && took < best) best = took;
        while (read(ends[0], &byte, 1) > 0)
            ;
        close(ends[0]);
        waitpid(child, &state, 0);
        posix_spawn_file_actions_destroy(&actions);
        if (!has_result || state != 0) return 1;
    }
    printf("{\"cold\": %.5f}\n", best);
    return 0;
}

static bool parse(int argc, char **argv, engine_case *c, bool *once) {
    if (argc < 4) return false;
    c->threads = (uint32_t)strtoul(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--once") == 0) {
            *once = true;
        } else if (strcmp(argv[i], "--set-once") == 0) {
            c->sets_once = true;
        } else if (strcmp(argv[i], "--level") == 0 && i + 1 < argc) {
            c->level = argv[++i];
        } else if (strcmp(argv[i], "--library") == 0 && i + 1 < argc) {
            c->library = argv[++i];
        } else {
            return false;
        }
    }
    return read_case(c, argv[2]);
}

int main(int argc, char **argv) {
    static engine_case c;
    char line[2048];
    bool once = false;
    if (argc > 5 && strcmp(argv[1], "cold") == 0) {
        long count = strtol(argv[2], NULL, 10);
        argv[2] = argv[0];
        return cold(count, argv + 2);
    }
    if (!parse(argc, argv, &c, &once)) {
        fprintf(stderr, "usage: rlx_onnx_runner rlx|ort CASE THREADS [options]\n");
        return 2;
    }
    const engine *e = strcmp(argv[1], "ort") == 0 ? &engine_ort : &engine_rlx;
    double start = now_ms();
    const char *wrong = e->open(&c);
    double ready = now_ms();
    long ready_kib = peak_kib();
    if (wrong == NULL) wrong = e->run(&c);
    double first = now_ms();
    if (wrong == NULL) {
        printf("{\"ready\": %.4f, \"first\": %.4f, \"ready_kib\": %ld, \"kib\": %ld}\n",
               ready - start, first - ready, ready_kib, peak_kib());
        fflush(stdout);
    }
    while (wrong == NULL && !once && fgets(line, sizeof line, stdin) != NULL) {
        wrong = obey(e, &c, line);
        fflush(stdout);
    }
    if (wrong != NULL) fprintf(stderr, "%s: %s\n", e->name, wrong);
    return wrong != NULL;
}
