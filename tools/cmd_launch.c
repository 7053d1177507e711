/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx launch -n N -- CMD ..`: the same program N times, each told which rank it is. */
#include "launch.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The variables of a rank, and stdin for rank 0 alone; then the program. */
static int become(void *user, const rlx_rank *who) {
    char **command = user;
    char text[64];
    for (uint32_t i = 0; rlx_rank_variable(who, i, text, sizeof text); i++) {
        char *equals = strchr(text, '=');
        *equals = '\0';
        if (setenv(text, equals + 1, 1) != 0) return TOOL_FAILED;
    }
    if (who->rank != 0) {
        int nothing = open("/dev/null", O_RDONLY);
        if (nothing > 0) dup2(nothing, STDIN_FILENO);
        if (nothing > 0) close(nothing);
    }
    execvp(command[0], command);
    fprintf(stderr, "rlx launch: %s: %s\n", command[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

/* Where the command begins: after "--". */
static int find_command(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) return i + 1;
    }
    return argc;
}

int rlx_cmd_launch(int argc, char **argv) {
    static launch ranks = {.verb = "launch"};
    uint64_t count = 0, grace = 5;
    bool prefixes = false;
    const tool_option options[] = {
        {"-n", TOOL_NUMBER, &count, "N", "how many ranks, 1 to 256"},
        {"--prefix", TOOL_FLAG, &prefixes, NULL, "put [rank] before each line they write"},
        {"--grace", TOOL_NUMBER, &grace, "SECONDS",
         "how long the others may run on once a rank has failed (5)"}};
    const tool_usage usage = {
        "launch",
        "-n N [options] -- CMD [ARGUMENTS]",
        "Starts N processes of CMD on this machine, ranks 0 to N-1 of one group. The program "
        "calls\n"
        "rlx_env_rank to learn which it is, and rlx_transport_create for the heap they share. "
        "Rank\n"
        "0 reads stdin. Signals are handed on. The first rank that fails is named, and its exit\n"
        "code (128 + the signal that killed it) is ours; the others get an error from their next\n"
        "collective and are ended after the grace.",
        options,
        sizeof options / sizeof *options,
        0,
        0};
    int code = TOOL_OK, command = find_command(argc, argv);
    if (!tool_parse(&usage, command < argc ? command - 1 : argc, argv, NULL, &code)) return code;
    if (command >= argc || count < 1 || count > RLX_RANKS_MOST || grace > 3600) {
        fprintf(stderr, "rlx launch: needs -n N (1 to %d) and -- CMD; rlx launch --help\n",
                RLX_RANKS_MOST);
        return TOOL_USAGE;
    }
    ranks.count = (uint32_t)count;
    ranks.grace_ns = grace * 1000000000u;
    if (!launch_start(&ranks, become, argv + command, prefixes)) return TOOL_FAILED;
    return launch_wait(&ranks);
}
