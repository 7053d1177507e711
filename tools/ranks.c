/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the rlx command: see ranks.h. */
#include "ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *tool_rank_path(const char *path, const rlx_rank *who) {
    if (path == NULL || who->rank_count <= 1) return path;
    size_t bytes = strlen(path) + 16;
    char *copy = tool_keep(bytes);
    if (copy == NULL) return path;
    snprintf(copy, bytes, "%s.%u", path, who->rank);
    return copy;
}

void tool_model_rank(tool_model *model, const rlx_rank *who) {
    rlx_device_info info;
    model->options.rank = who->rank;
    model->options.rank_count = who->rank_count;
    if (who->rank_count <= 1) return;
    if (!tool_is_program(model->path) && tool_is_program(tool_rank_path(model->path, who))) {
        model->path = tool_rank_path(model->path, who);
    }
    if (model->threads == 0 && rlx_device_at(0, &info) == RLX_OK) {
        model->threads = info.threads / who->rank_count;
        if (model->threads == 0) model->threads = 1;
    }
}

static int wait_for(pid_t process) {
    int status = 0;
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR) return TOOL_FAILED;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The ranks see each other die, so none is left when this returns. */
static int fork_ranks(const char *verb, uint32_t count, tool_rank_body body, void *user) {
    rlx_rank *ranks = tool_keep(count * sizeof *ranks);
    pid_t *processes = tool_keep(count * sizeof *processes);
    uint32_t started = 0;
    int code = TOOL_OK;
    rlx_status status =
        ranks == NULL || processes == NULL ? RLX_OUT_OF_MEMORY : rlx_ranks_create(count, ranks);
    if (status != RLX_OK) return tool_fail(verb, status);
    fflush(NULL);
    for (; started < count; started++) {
        processes[started] = fork();
        if (processes[started] < 0) break;
        if (processes[started] != 0) continue;
        rlx_ranks_keep(ranks, count, started);
        exit(body(user, &ranks[started]));
    }
    if (started < count) {
        fprintf(stderr, "rlx %s: cannot start rank %u: %s\n", verb, started, strerror(errno));
        code = TOOL_FAILED;
    }
    rlx_ranks_close(ranks, count);
    for (uint32_t i = 0; i < started; i++) {
        int ended = wait_for(processes[i]);
        if (code == TOOL_OK) code = ended;
    }
    return code;
}

int tool_run_ranks(const char *verb, uint64_t ranks, tool_rank_body body, void *user) {
    rlx_rank who;
    rlx_status status = rlx_env_rank(&who);
    if (status != RLX_OK) return tool_fail(verb, status);
    if (who.rank_count > 1 && ranks > 1 && ranks != who.rank_count) {
        fprintf(stderr, "rlx %s: --ranks %" PRIu64 " under a launcher with %u ranks\n", verb, ranks,
                who.rank_count);
        return TOOL_USAGE;
    }
    if (who.rank_count > 1 || ranks <= 1) return body(user, &who);
    return fork_ranks(verb, (uint32_t)ranks, body, user);
}
