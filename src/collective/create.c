/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the transport by how this process was started. */
#include "driver/transport.h"

rlx_status rlx_transport_create(const rlx_allocator *allocator, const rlx_rank *who,
                                uint64_t heap_bytes, const rlx_transport_options *options,
                                rlx_transport **out_transport) {
    if (who == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "transport: who is null");
    if (who->launcher == RLX_LAUNCHER_MPI) {
        return rlx_transport_create_mpi(allocator, who, heap_bytes, options, out_transport);
    }
    return rlx_transport_create_shm(allocator, who, heap_bytes, options, out_transport);
}
