/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the rlx command: see ranks.h. */
#include "ranks.h"

#include <inttypes.h>
#include <string.h>

static const uint64_t grace_ns = 2000000000; /* for the others, once a rank has failed */

const char *tool_rank_path(const char *path, const rlx_rank *who) {
    if (path == NULL || who->rank_count <= 1) return path;
    size_t bytes = strlen(path) + 16;
    char *copy = tool_keep(bytes);
    if (copy == NULL) return path;
    snprintf(copy, bytes, "%s.%u", path, who->rank);
    return copy;
}

void tool_model_rank(tool_model *model, const rlx_rank *who, bool is_verbose) {
    rlx_device_info info;
    model->options.rank = who->rank;
    model->options.rank_count = who->rank_count;
    if (who->rank_count <= 1) return;
    if (!tool_is_program(model->path) && tool_is_program(tool_rank_path(model->path, who))) {
        model->path = tool_rank_path(model->path, who);
    }
    /* Ranks of this host share its processors. */
    if (model->threads == 0 && rlx_device_at(0, &info) == RLX_OK) {
        model->threads = info.threads / (who->host_count != 0 ? who->host_count : who->rank_count);
        if (model->threads == 0) model->threads = 1;
    }
    if (!is_verbose) return;
    fprintf(stderr, "rlx: rank %u of %u, %" PRIu64 " CPU threads\n", who->rank, who->rank_count,
            model->threads);
}

int tool_run_ranks(const char *verb, uint64_t ranks, launch_body body, void *user) {
    rlx_rank who;
    rlx_status status = rlx_env_rank(&who);
    if (status != RLX_OK) return tool_fail(verb, status);
    if (who.rank_count > 1 && ranks > 1 && ranks != who.rank_count) {
        fprintf(stderr, "rlx %s: --ranks %" PRIu64 " under a launcher with %u ranks\n", verb, ranks,
                who.rank_count);
        return TOOL_USAGE;
    }
    if (who.rank_count > 1 || ranks <= 1) return body(user, &who);
    launch started = {.verb = verb, .count = (uint32_t)ranks, .grace_ns = grace_ns};
    return launch_start(&started, body, user, false) ? launch_wait(&started) : TOOL_FAILED;
}
