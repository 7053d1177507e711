/* SPDX-License-Identifier: Apache-2.0 */
/* What the mpi transport uses of shm: heaps in shared memory once ranks have a socket, and file
 * descriptors sent over sockets. */
#ifndef RLX_COLLECTIVE_SHM_H
#define RLX_COLLECTIVE_SHM_H

#include "collective/mapped.h"

/* rlx_transport_create_shm under another name; options are full. */
RLX_WARN_UNUSED rlx_status rlx_shm_create(const rlx_transport_ops *ops,
                                          const rlx_allocator *allocator, const rlx_rank *who,
                                          uint64_t heap_bytes, const rlx_transport_options *options,
                                          rlx_transport **out_transport);

/* One message with `bytes` bytes and a descriptor. The received one is owned. Several may wait on
 * one socket: each message goes to one of them. */
RLX_WARN_UNUSED rlx_status rlx_fd_send(int socket, const void *data, size_t bytes, int file);
RLX_WARN_UNUSED rlx_status rlx_fd_receive(int socket, uint64_t timeout_ns, void *out_data,
                                          size_t bytes, int *out_file);

#endif
