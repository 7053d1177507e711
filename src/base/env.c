/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that reads the environment. */
#include "base/env.h"

#include "base/status.h"

#include <rlx/env.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *rlx_env_text(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static rlx_status read_threads(uint32_t *out_threads) {
    const char *text = rlx_env_text("RLX_THREADS");
    char *end = NULL;
    if (text == NULL) return RLX_OK;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < 1 || number > 4096) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "RLX_THREADS is '%s', not a number of 1 to 4096",
                        text);
    }
    *out_threads = (uint32_t)number;
    return RLX_OK;
}

static rlx_status read_log_level(rlx_log_level *out_level) {
    static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    const char *text = rlx_env_text("RLX_LOG");
    if (text == NULL) return RLX_OK;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], text) != 0) continue;
        *out_level = (rlx_log_level)i;
        return RLX_OK;
    }
    return RLX_FAIL(RLX_INVALID_ARGUMENT,
                    "RLX_LOG is '%s', not one of error, warn, info, debug, trace", text);
}

rlx_status rlx_env_options(rlx_env_settings *out_settings) {
    rlx_env_settings settings = {.log_level = RLX_LOG_WARN};
    if (out_settings == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    settings.device = rlx_env_text("RLX_DEVICE");
    RLX_TRY(read_threads(&settings.threads));
    RLX_TRY(read_log_level(&settings.log_level));
    *out_settings = settings;
    return RLX_OK;
}

/* A variable that is a whole number of 0 to `most`; false without it. */
static rlx_status read_number(const char *name, long most, bool *out_found, long *out_number) {
    const char *text = rlx_env_text(name);
    char *end = NULL;
    *out_found = text != NULL;
    if (text == NULL) return RLX_OK;
    errno = 0;
    *out_number = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || *out_number < 0 || *out_number > most) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s is '%s', not a number of 0 to %ld", name, text,
                        most);
    }
    return RLX_OK;
}

enum { RANKS_MOST = 1 << 20, SOCKETS_MOST = 1 << 20 };
/* How launchers tell a process its rank, in the order they are asked. Without a variable for the
 * ranks of this host it is Slurm's list. */
typedef struct launcher_names {
    rlx_launcher launcher;
    const char *rank, *rank_count, *socket, *mpi, *host_count;
} launcher_names;
static const launcher_names launchers[] = {
    {RLX_LAUNCHER_RLX, "RLX_RANK", "RLX_RANK_COUNT", "RLX_RANK_SOCKET", NULL, "RLX_RANK_COUNT"},
    {RLX_LAUNCHER_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "openmpi",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {RLX_LAUNCHER_MPI, "PMI_RANK", "PMI_SIZE", NULL, "mpich", "MPI_LOCALNRANKS"},
    {RLX_LAUNCHER_MPI, "PMIX_RANK", "SLURM_NTASKS", NULL, NULL, NULL},
    {RLX_LAUNCHER_MPI, "SLURM_PROCID", "SLURM_NTASKS", NULL, NULL, NULL},
};

/* Slurm has a list for its nodes in order, as in "4(x2),1"; false where it makes no sense. */
static bool read_node_tasks(const char *list, long node, long *out_tasks) {
    char *at = NULL;
    for (; list != NULL && *list != '\0'; list = *at == ',' ? at + 1 : at) {
        long nodes = 1;
        *out_tasks = strtol(list, &at, 10);
        if (at == list || *out_tasks < 1) return false;
        if (at[0] == '(' && at[1] == 'x') {
            nodes = strtol(at + 2, &at, 10);
            if (nodes < 1 || *at++ != ')') return false;
        }
        if (*at != ',' && *at != '\0') return false;
        if (node < nodes) return true;
        node -= nodes;
    }
    return false;
}

/* How many ranks the launcher has started on this host; 0: it does not say. */
static rlx_status read_host_count(const launcher_names *names, long rank_count, uint32_t *out) {
    bool is_found = false, has_node = false;
    long count = 0, node = 0;
    if (names->host_count != NULL) {
        RLX_TRY(read_number(names->host_count, rank_count, &is_found, &count));
    } else {
        RLX_TRY(read_number("SLURM_NODEID", RANKS_MOST, &has_node, &node));
        is_found = has_node &&
                   read_node_tasks(rlx_env_text("SLURM_STEP_TASKS_PER_NODE"), node, &count) &&
                   count <= rank_count;
    }
    *out = is_found ? (uint32_t)count : 0;
    return RLX_OK;
}

static rlx_status read_rank(const launcher_names *names, bool *out_found, rlx_rank *out_rank) {
    bool has_rank, has_count, has_socket = false;
    long rank = 0, count = 0, socket = -1;
    *out_found = false;
    RLX_TRY(read_number(names->rank, RANKS_MOST, &has_rank, &rank));
    RLX_TRY(read_number(names->rank_count, RANKS_MOST, &has_count, &count));
    if (names->socket != NULL) {
        RLX_TRY(read_number(names->socket, SOCKETS_MOST, &has_socket, &socket));
    }
    if (!has_rank || !has_count) return RLX_OK;
    if (rank >= count) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s is %ld, and %s is %ld", names->rank, rank,
                        names->rank_count, count);
    }
    *out_found = true;
    *out_rank = (rlx_rank){.launcher = names->launcher,
                           .rank = (uint32_t)rank,
                           .rank_count = (uint32_t)count,
                           .socket = has_socket ? (int)socket : -1,
                           .mpi = names->mpi};
    return read_host_count(names, count, &out_rank->host_count);
}

rlx_status rlx_env_rank(rlx_rank *out_rank) {
    rlx_rank found = {
        .launcher = RLX_LAUNCHER_NONE, .rank_count = 1, .socket = -1, .host_count = 1};
    if (out_rank == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        bool is_found;
        RLX_TRY(read_rank(&launchers[i], &is_found, &found));
        if (is_found) break;
    }
    *out_rank = found;
    return RLX_OK;
}
