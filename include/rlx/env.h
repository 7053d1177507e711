/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, for programs that want it: the library itself never looks at it. */
#ifndef RLX_ENV_H
#define RLX_ENV_H

#include <rlx/base.h>

RLX_BEGIN_DECLS

/* What RLX_* variables ask for; what is not set keeps its default. */
typedef struct rlx_env_settings {
    const char *device;      /* RLX_DEVICE; NULL. Borrowed until the environment changes. */
    uint32_t threads;        /* RLX_THREADS; 0 */
    rlx_log_level log_level; /* RLX_LOG: error, warn, info, debug, trace; RLX_LOG_WARN */
} rlx_env_settings;

/* Reads them. RLX_INVALID_ARGUMENT names the variable whose value makes no sense. */
RLX_CALL rlx_status rlx_env_options(rlx_env_settings *out_settings);

typedef enum rlx_launcher {
    RLX_LAUNCHER_NONE = 0, /* started by hand: rank 0 of 1 */
    RLX_LAUNCHER_RLX,      /* `rlx launch`, or rlx_ranks_create and fork */
    RLX_LAUNCHER_MPI       /* mpirun, mpiexec, srun with PMI */
} rlx_launcher;

/* Which rank this process is. A plain value; the socket belongs to the process. */
typedef struct rlx_rank {
    rlx_launcher launcher;
    uint32_t rank, rank_count;
    int socket;          /* to rank 0 (of rank 0: to all others); -1: none */
    const char *mpi;     /* whose launcher it was: "openmpi", "mpich"; NULL: not known, or none */
    uint32_t host_count; /* ranks on this host, this one included; 0: the launcher does not say */
} rlx_rank;

/* Who a launcher made me: RLX_RANK, RLX_RANK_COUNT and RLX_RANK_SOCKET of `rlx launch`; else what
 * Open MPI, PMIx or PMI say; else rank 0 of 1. RLX_INVALID_ARGUMENT names the variable that makes
 * no sense. */
RLX_CALL rlx_status rlx_env_rank(rlx_rank *out_rank);

/* For launchers and for programs that fork their own ranks: `rank_count` (2 to 256) ranks that can
 * find each other. Each process keeps its own by rlx_ranks_keep, straight after fork; the one that
 * is no rank itself closes all by rlx_ranks_close. RLX_IO: the system gave no socket. */
RLX_CALL rlx_status rlx_ranks_create(uint32_t rank_count, rlx_rank *out_ranks);
/* Keeps the socket of ranks[rank] and closes the other side's. */
RLX_API void rlx_ranks_keep(rlx_rank *ranks, uint32_t rank_count, uint32_t rank);
RLX_API void rlx_ranks_close(rlx_rank *ranks, uint32_t rank_count);

/* "RLX_RANK=1" and the two others of a rank that will be another program (exec): `index` 0 to 2.
 * The socket is made to survive exec. False past the last, or when `out` is too small. */
RLX_API bool rlx_rank_variable(const rlx_rank *who, uint32_t index, char *out, size_t out_bytes);

RLX_END_DECLS

#endif
