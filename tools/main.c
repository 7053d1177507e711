/* SPDX-License-Identifier: Apache-2.0 */
/* The rlx command: finds the verb and hands over. */
#include "tool.h"

#include <string.h>

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

int main(int argc, char **argv) {
    if (argc < 2) return help(stderr, TOOL_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return help(stdout, TOOL_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("rlx %s\n", rlx_version());
        return TOOL_OK;
    }
    for (int i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, argv[1]) != 0) continue;
        int code = verbs[i].run(argc - 1, argv + 1);
        if (fflush(stdout) != 0 || ferror(stdout)) {
            fprintf(stderr, "rlx %s: cannot write the results\n", argv[1]);
            return code == TOOL_OK ? TOOL_FAILED : code;
        }
        return code;
    }
    fprintf(stderr, "rlx: there is no verb '%s'; rlx --help lists them\n", argv[1]);
    return TOOL_USAGE;
}
