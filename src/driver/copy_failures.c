/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of copies by sequence. See copy_failures.h. */
#include "driver/copy_failures.h"

#include "base/alloc.h"

void rlx_copy_failures_init(rlx_copy_failures *failures) {
    pthread_mutex_init(&failures->lock, NULL);
}

rlx_status rlx_copy_failures_reserve(const rlx_allocator *allocator, rlx_copy_failures *failures,
                                     uint32_t depth) {
    return rlx_alloc_array(allocator, (uint64_t)RLX_COPY_FAILURES_KEPT + depth,
                           sizeof *failures->items, (void **)&failures->items);
}

void rlx_copy_failures_free(const rlx_allocator *allocator, rlx_copy_failures *failures) {
    rlx_free(allocator, failures->items);
    pthread_mutex_destroy(&failures->lock);
}

void rlx_copy_failures_add(rlx_copy_failures *failures, uint64_t sequence, rlx_status status) {
    uint32_t count, i = 0;
    pthread_mutex_lock(&failures->lock);
    count = atomic_load(&failures->count);
    while (i < count && failures->items[i].sequence != sequence)
        i++;
    if (i == count) {
        failures->items[i].sequence = sequence;
        failures->items[i].status = status;
        rlx_error_save(&failures->items[i].record);
        atomic_store(&failures->count, count + 1);
    }
    pthread_mutex_unlock(&failures->lock);
}

rlx_status rlx_copy_failures_outcome(rlx_copy_failures *failures, uint64_t sequence) {
    rlx_status status = RLX_OK;
    if (atomic_load(&failures->count) == 0) return RLX_OK;
    pthread_mutex_lock(&failures->lock);
    for (uint32_t i = 0; i < atomic_load(&failures->count); i++) {
        if (failures->items[i].sequence != sequence) continue;
        status = failures->items[i].status;
        rlx_error_restore(&failures->items[i].record);
    }
    pthread_mutex_unlock(&failures->lock);
    return status;
}

rlx_status rlx_copy_failures_check(rlx_copy_failures *failures) {
    if (atomic_load(&failures->count) < RLX_COPY_FAILURES_KEPT) return RLX_OK;
    return rlx_fail_context(rlx_copy_failures_outcome(failures, failures->items[0].sequence),
                            "%d copies of this engine failed, the first", RLX_COPY_FAILURES_KEPT);
}
