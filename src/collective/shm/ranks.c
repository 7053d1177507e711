/* SPDX-License-Identifier: Apache-2.0 */
/* How processes find each other: one pair of sockets for all ranks. Rank 0 holds one side, the
 * others share the other; whatever rank 0 sends, as often as there are others, each of them takes
 * once. No name in the file system, nothing that stays. */
#include "base/status.h"

#include <rlx/transport.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

rlx_status rlx_ranks_create(uint32_t rank_count, rlx_rank *out_ranks) {
    int pair[2];
    if (out_ranks == NULL || rank_count < 1 || rank_count > RLX_RANKS_MOST) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%u ranks; 1 to %d are possible", rank_count,
                        RLX_RANKS_MOST);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        int code = errno;
        rlx_status status = RLX_FAIL(RLX_IO, "no sockets for ranks: %s", strerror(code));
        rlx_error_detail_edit()->os_error = code;
        return status;
    }
    for (uint32_t i = 0; i < rank_count; ++i) {
        out_ranks[i] = (rlx_rank){.launcher = RLX_LAUNCHER_RLX,
                                  .rank = i,
                                  .rank_count = rank_count,
                                  .host_count = rank_count,
                                  .socket = pair[i != 0]};
    }
    if (rank_count == 1) close(pair[1]);
    return RLX_OK;
}

void rlx_ranks_keep(rlx_rank *ranks, uint32_t rank_count, uint32_t rank) {
    if (ranks == NULL || rank >= rank_count || rank_count < 2) return;
    close(ranks[rank == 0 ? 1 : 0].socket);
    for (uint32_t i = 0; i < rank_count; ++i) {
        if (i != rank) ranks[i].socket = -1;
    }
}

void rlx_ranks_close(rlx_rank *ranks, uint32_t rank_count) {
    if (ranks == NULL || rank_count == 0) return;
    if (ranks[0].socket >= 0) close(ranks[0].socket);
    if (rank_count > 1 && ranks[1].socket >= 0) close(ranks[1].socket);
    for (uint32_t i = 0; i < rank_count; ++i)
        ranks[i].socket = -1;
}

bool rlx_rank_variable(const rlx_rank *who, uint32_t index, char *out, size_t out_bytes) {
    int length = -1;
    if (who == NULL || out == NULL) return false;
    if (index == 0) length = snprintf(out, out_bytes, "RLX_RANK=%u", who->rank);
    if (index == 1) length = snprintf(out, out_bytes, "RLX_RANK_COUNT=%u", who->rank_count);
    if (index == 2) {
        length = snprintf(out, out_bytes, "RLX_RANK_SOCKET=%d", who->socket);
        (void)fcntl(who->socket, F_SETFD, 0);
    }
    return length > 0 && (size_t)length < out_bytes;
}
