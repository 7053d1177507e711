/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks of one host that a foreign launcher started come to share a socket: rank 0 listens on
 * an address that the system made up, outside the file system; whoever knows the secret, which
 * went round by MPI, gets one side of a pair. From there on all is as under `rlx launch`. */
#include "collective/mpi/mpi.h"

#include "base/thread.h"
#include "collective/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static uint64_t space_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

void rlx_host_find(rlx_host *out_host) {
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    memset(out_host, 0, sizeof *out_host);
    if (file >= 0) {
        ssize_t got = read(file, out_host->boot, sizeof out_host->boot - 1);
        if (got < 0) out_host->boot[0] = '\0';
        close(file);
    }
    out_host->process_space = space_of("/proc/self/ns/pid");
    out_host->network_space = space_of("/proc/self/ns/net");
    out_host->user = (uint64_t)geteuid();
}

static rlx_status system_failure(const char *what) {
    int code = errno;
    rlx_fail(RLX_IO, "%s: %s", what, strerror(code));
    rlx_error_detail_edit()->os_error = code;
    return RLX_IO;
}

rlx_status rlx_meeting_open(rlx_meeting *meeting, rlx_meeting_point *out_point) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof address;
    rlx_meeting_point *point = &meeting->point;
    /* An address of the family alone: the system makes up a name. */
    meeting->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (meeting->socket < 0 ||
        bind(meeting->socket, (const struct sockaddr *)&address, sizeof address.sun_family) != 0 ||
        listen(meeting->socket, SOMAXCONN) != 0 ||
        getsockname(meeting->socket, (struct sockaddr *)&address, &bytes) != 0 ||
        getrandom(point->secret, sizeof point->secret, 0) != (ssize_t)sizeof point->secret) {
        return system_failure("no socket for ranks of this host");
    }
    bytes -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
    if (bytes > sizeof point->name) return RLX_FAIL(RLX_IO, "a socket's name of %u bytes", bytes);
    memcpy(point->name, address.sun_path, bytes);
    point->name_bytes = bytes;
    *out_point = *point;
    return RLX_OK;
}

void rlx_meeting_close(rlx_meeting *meeting) {
    if (meeting->socket >= 0) close(meeting->socket);
    meeting->socket = -1;
}

static rlx_status await_readable(int socket, uint64_t start_ns, uint64_t timeout_ns) {
    for (;;) {
        struct pollfd look = {.fd = socket, .events = POLLIN};
        uint64_t waited = rlx_now_ns() - start_ns;
        if (waited >= timeout_ns) {
            return RLX_FAIL(RLX_TIMEOUT, "ranks of this host did not meet within %" PRIu64 " ms",
                            timeout_ns / 1000000);
        }
        if (poll(&look, 1, 100) == 1) return RLX_OK;
    }
}

/* Same user and the secret: a rank of ours. */
static bool is_welcome(const rlx_meeting *meeting, int visitor, uint64_t start_ns,
                       uint64_t timeout_ns) {
    uint8_t secret[RLX_MEETING_SECRET_BYTES];
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (getsockopt(visitor, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) return false;
    if (who.uid != geteuid()) return false;
    if (await_readable(visitor, start_ns, timeout_ns) != RLX_OK) return false;
    return recv(visitor, secret, sizeof secret, 0) == (ssize_t)sizeof secret &&
           memcmp(secret, meeting->point.secret, sizeof secret) == 0;
}

static rlx_status hand_out(rlx_meeting *meeting, uint32_t others, uint64_t timeout_ns, int side) {
    static const uint64_t hello = 1;
    uint64_t start_ns = rlx_now_ns();
    while (others > 0) {
        rlx_status status = RLX_OK;
        int visitor;
        RLX_TRY(await_readable(meeting->socket, start_ns, timeout_ns));
        visitor = accept4(meeting->socket, NULL, NULL, SOCK_CLOEXEC);
        if (visitor < 0) continue;
        if (is_welcome(meeting, visitor, start_ns, timeout_ns)) {
            status = rlx_fd_send(visitor, &hello, sizeof hello, side);
            others--;
        }
        close(visitor);
        RLX_TRY(status);
    }
    return RLX_OK;
}

rlx_status rlx_meeting_host(rlx_meeting *meeting, uint32_t rank_count, uint64_t timeout_ns,
                            int *out_socket) {
    int pair[2];
    rlx_status status;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return system_failure("no sockets for ranks");
    }
    status = hand_out(meeting, rank_count - 1, timeout_ns, pair[1]);
    close(pair[1]);
    if (status != RLX_OK) {
        close(pair[0]);
        return status;
    }
    *out_socket = pair[0];
    return RLX_OK;
}

rlx_status rlx_meeting_join(const rlx_meeting_point *point, uint64_t timeout_ns, int *out_socket) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t hello = 0;
    rlx_status status;
    int visit = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)offsetof(struct sockaddr_un, sun_path);
    if (visit < 0) return system_failure("no socket to rank 0");
    if (point->name_bytes > sizeof point->name) {
        close(visit);
        return RLX_FAIL(RLX_TRANSPORT, "rank 0 listens nowhere");
    }
    memcpy(address.sun_path, point->name, point->name_bytes);
    bytes += point->name_bytes;
    if (connect(visit, (const struct sockaddr *)&address, bytes) != 0 ||
        send(visit, point->secret, sizeof point->secret, MSG_NOSIGNAL) !=
            (ssize_t)sizeof point->secret) {
        status = system_failure("rank 0 cannot be reached");
    } else {
        status = rlx_fd_receive(visit, timeout_ns, &hello, sizeof hello, out_socket);
    }
    close(visit);
    return status;
}
