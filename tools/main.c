/* SPDX-License-Identifier: Apache-2.0 */
/* The rlx command: finds the verb and hands over. */
#include "signals.h"
#include "tool.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

typedef struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} verb;

static const verb verbs[] = {
    {"devices", rlx_cmd_devices, "what can run models here, and why a kind is missing"},
    {"inspect", rlx_cmd_inspect, "what a model or program file holds"},
    {"ops", rlx_cmd_ops, "the ops that models may use"},
    {"plan", rlx_cmd_plan, "exact bytes and steps, before a weight is read"},
    {"place", rlx_cmd_place, "the memory placer alone, on a table of buffers"},
    {"compile", rlx_cmd_compile, "save a model as a program: plan and weights in one mapped file"},
    {"run", rlx_cmd_run, "run a model or program once"},
    {"diff", rlx_cmd_diff, "run on two devices and name the first step that differs"},
    {"check", rlx_cmd_check, "run ONNX backend test folders"},
    {"bench", rlx_cmd_bench, "measures against limits of the same machine"},
    {"launch", rlx_cmd_launch, "start a program as N ranks on this machine"},
    {"demo", rlx_cmd_demo, "a small transformer on every device, its memory, speed and agreement"},
};
enum { VERB_COUNT = sizeof verbs / sizeof *verbs };

static int help(FILE *out, int code) {
    fprintf(out,
            "rlx %s: compiles a model once into one static memory plan and runs it.\n\n"
            "usage: rlx VERB [ARGUMENTS]\n\n",
            rlx_version());
    for (int i = 0; i < VERB_COUNT; i++) {
        fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].about);
    }
    fputs("\nrlx VERB --help says more. Settings: RLX_DEVICE, RLX_THREADS, RLX_LOG.\n", out);
    return code;
}

static const verb *find_verb(const char *name) {
    for (int i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    }
    fprintf(stderr, "rlx: there is no verb '%s'; rlx --help lists them\n", name);
    return NULL;
}

/* `rlx help VERB` is `rlx VERB --help`. */
static int help_verb(const char *name) {
    char help_option[] = "--help", verb_name[32];
    const verb *found = find_verb(name);
    if (found == NULL) return TOOL_USAGE;
    snprintf(verb_name, sizeof verb_name, "%s", found->name);
    return found->run(2, (char *[]){verb_name, help_option, NULL});
}

static int run_command(int argc, char **argv) {
    if (argc < 2) return help(stderr, TOOL_USAGE);
    bool is_help = strcmp(argv[1], "help") == 0;
    if (is_help && argc == 3) return help_verb(argv[2]);
    if (is_help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return argc == 2 ? help(stdout, TOOL_OK) : help(stderr, TOOL_USAGE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("rlx %s\n", rlx_version());
        return TOOL_OK;
    }
    const verb *found = find_verb(argv[1]);
    return found == NULL ? TOOL_USAGE : found->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    /* Whole lines, so that those of several ranks on one terminal do not mix. */
    static char lines[4096];
    setvbuf(stderr, lines, _IOLBF, sizeof lines);
    tool_signals_begin();
    int code = run_command(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    /* A reader that has seen enough (rlx ops | head) needs no message. */
    struct pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool is_gone = poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
    if (!is_gone) fputs("rlx: cannot write the results to stdout\n", stderr);
    return code == TOOL_OK ? TOOL_FAILED : code;
}
