/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors over Unix sockets: how a heap gets from the rank that made it to the others. */
#include "collective/shm/shm.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

static rlx_status system_failure(const char *what) {
    int code = errno;
    rlx_fail(RLX_TRANSPORT, "%s: %s", what, strerror(code));
    rlx_error_detail_edit()->os_error = code;
    return RLX_TRANSPORT;
}

rlx_status rlx_fd_send(int socket, const void *data, size_t bytes, int file) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *head;
    ssize_t sent;
    memset(&control, 0, sizeof control);
    head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(head), &file, sizeof file);
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)bytes) return RLX_OK;
    return system_failure("the other ranks have died");
}

static rlx_status rank_0_failed(const char *what) {
    rlx_fail(RLX_TRANSPORT, "rank 0 %s before it made the heap", what);
    return RLX_TRANSPORT;
}

/* RLX_OK when the socket has something to read, or its other side is closed. */
static rlx_status await_socket(int socket, uint64_t timeout_ns) {
    uint64_t start = rlx_now_ns();
    for (;;) {
        struct pollfd look = {.fd = socket, .events = POLLIN};
        uint64_t waited = rlx_now_ns() - start, left;
        if (waited >= timeout_ns) {
            return RLX_FAIL(RLX_TIMEOUT, "rank 0 did not make the heap within %" PRIu64 " ms",
                            timeout_ns / 1000000);
        }
        left = (timeout_ns - waited) / 1000000 + 1;
        if (poll(&look, 1, left < 1000 ? (int)left : 1000) == 1) return RLX_OK;
    }
}

rlx_status rlx_fd_receive(int socket, uint64_t timeout_ns, void *out_data, size_t bytes,
                          int *out_file) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = out_data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *head;
    ssize_t got;
    /* Several ranks wait on one socket: who comes second goes on waiting. */
    do {
        RLX_TRY(await_socket(socket, timeout_ns));
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got == 0) return rank_0_failed("has died");
    if (got < 0) return system_failure("rank 0 cannot be heard");
    head = CMSG_FIRSTHDR(&message);
    if (got != (ssize_t)bytes || head == NULL || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(int))) {
        return rank_0_failed("said something else");
    }
    memcpy(out_file, CMSG_DATA(head), sizeof *out_file);
    return RLX_OK;
}
