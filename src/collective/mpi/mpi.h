/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the mpi transport: the plugin, and how ranks of one host pass each other a socket. */
#ifndef RLX_COLLECTIVE_MPI_H
#define RLX_COLLECTIVE_MPI_H

#include "base/status.h"

#include <rlx/spi/messenger.h>
#include <rlx/transport.h>

/* Opens the plugin of the MPI that is in the process already, else of the one that started it
 * (who->mpi), else whichever there is, and starts MPI. Never closed. RLX_UNSUPPORTED says which
 * file is missing, or that MPI and the launcher do not agree who this is. */
RLX_WARN_UNUSED rlx_status rlx_mpi_open(const rlx_rank *who, const rlx_messenger **out_messenger);

/* What ranks must have in common to share memory: kernel, process and network namespaces, user. */
typedef struct rlx_host {
    char boot[40];
    uint64_t process_space, network_space, user;
} rlx_host;
void rlx_host_find(rlx_host *out_host);

/* Where rank 0 listens: a socket without a name in the file system, and a secret, because others
 * of the host could connect too. Plain bytes, sent to the other ranks by messages. */
enum { RLX_MEETING_NAME_BYTES = 16, RLX_MEETING_SECRET_BYTES = 16 };
typedef struct rlx_meeting_point {
    uint8_t name[RLX_MEETING_NAME_BYTES], secret[RLX_MEETING_SECRET_BYTES];
    uint32_t name_bytes, reserved;
} rlx_meeting_point;
typedef struct rlx_meeting {
    rlx_meeting_point point;
    int socket; /* -1: closed */
} rlx_meeting;

RLX_WARN_UNUSED rlx_status rlx_meeting_open(rlx_meeting *meeting, rlx_meeting_point *out_point);
void rlx_meeting_close(rlx_meeting *meeting);
/* Rank 0: hands one side of a pair of sockets to `rank_count` - 1 others; *out_socket is the other
 * side, owned. */
RLX_WARN_UNUSED rlx_status rlx_meeting_host(rlx_meeting *meeting, uint32_t rank_count,
                                            uint64_t timeout_ns, int *out_socket);
/* The others: *out_socket is the side that all of them share, owned. */
RLX_WARN_UNUSED rlx_status rlx_meeting_join(const rlx_meeting_point *point, uint64_t timeout_ns,
                                            int *out_socket);

#endif
