/* SPDX-License-Identifier: Apache-2.0 */
/* The checked face of the copy engines: ranges, tokens, sequence numbers. Knows no engine. */
#include "driver/copy.h"

#include "base/size.h"

static _Atomic uint64_t engine_count;

void rlx_copy_engine_init(rlx_copy_engine *engine, const rlx_copy_ops *ops, const char *name,
                          const rlx_allocator *allocator) {
    engine->ops = ops;
    engine->name = name;
    engine->allocator = allocator != NULL ? *allocator : *rlx_default_allocator();
    engine->id = atomic_fetch_add(&engine_count, 1) + 1;
    pthread_mutex_init(&engine->lock, NULL);
    atomic_init(&engine->issued, 0);
}

void rlx_copy_engine_destroy(rlx_copy_engine *engine) {
    if (engine != NULL) engine->ops->destroy(engine);
}

const char *rlx_copy_engine_name(const rlx_copy_engine *engine) {
    return engine != NULL ? engine->name : "";
}

void rlx_copy_set_hooks(rlx_copy_engine *engine, const rlx_copy_hooks *hooks) {
    engine->ops->set_hooks(engine, hooks);
}

static rlx_status check_file_range(const rlx_copy_source *source, uint64_t bytes) {
    const rlx_copy_file *file = source->file;
    if (source->memory != NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "a copy from a file and from memory at once");
    }
    if (bytes > file->bytes || source->offset > file->bytes - bytes) {
        rlx_status status = RLX_FAIL(RLX_OUT_OF_BOUNDS,
                                     "%s: offset %" PRIu64 " + bytes %" PRIu64 " > file %" PRIu64,
                                     file->path, source->offset, bytes, file->bytes);
        *rlx_error_detail_edit() =
            (rlx_error_detail){.offset = source->offset, .bytes = bytes, .limit = file->bytes};
        return status;
    }
    return RLX_OK;
}

static rlx_status check_memory_range(uintptr_t source, uintptr_t destination, uint64_t bytes) {
    uint64_t gap = source > destination ? source - destination : destination - source;
    if (source == 0) return RLX_FAIL(RLX_INVALID_ARGUMENT, "a copy from null");
    if (bytes > UINTPTR_MAX - source) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " bytes from the source wrap around", bytes);
    }
    if (gap < bytes) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "source and destination overlap: %" PRIu64 " bytes apart, %" PRIu64
                        " bytes to copy",
                        gap, bytes);
    }
    return RLX_OK;
}

static rlx_status check_ranges(const rlx_copy_source *source, const void *destination,
                               uint64_t bytes) {
    if (source->file != NULL) RLX_TRY(check_file_range(source, bytes));
    if (bytes == 0) return RLX_OK;
    if (destination == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "a copy to null");
    if (bytes > UINTPTR_MAX - (uintptr_t)destination) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " bytes from the destination wrap around",
                        bytes);
    }
    if (source->file != NULL) return RLX_OK;
    return check_memory_range((uintptr_t)source->memory, (uintptr_t)destination, bytes);
}

rlx_status rlx_copy_issue(rlx_copy_engine *engine, rlx_copy_source source, void *destination,
                          uint64_t bytes, rlx_copy_token *out_token) {
    rlx_copy_request request = {.source = source, .destination = destination, .bytes = bytes};
    rlx_status status;
    if (engine == NULL || out_token == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy: engine or token is null");
    }
    RLX_TRY_WITH(check_ranges(&source, destination, bytes), "copy");

    pthread_mutex_lock(&engine->lock);
    request.sequence = atomic_load_explicit(&engine->issued, memory_order_relaxed) + 1;
    status = engine->ops->issue(engine, &request);
    if (status == RLX_OK) {
        atomic_store_explicit(&engine->issued, request.sequence, memory_order_release);
        *out_token = (rlx_copy_token){engine->id, request.sequence};
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static rlx_status check_token(rlx_copy_engine *engine, rlx_copy_token token) {
    uint64_t issued;
    if (engine == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy: engine is null");
    if (token.engine == 0 && token.sequence == 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy: the zero token stands for no copy");
    }
    if (token.engine != engine->id) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "copy: a token of engine %" PRIu64 " given to engine %" PRIu64,
                        token.engine, engine->id);
    }
    issued = atomic_load_explicit(&engine->issued, memory_order_acquire);
    if (token.sequence == 0 || token.sequence > issued) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "copy: token %" PRIu64 " was never issued (newest %" PRIu64 ")",
                        token.sequence, issued);
    }
    return RLX_OK;
}

rlx_status rlx_copy_wait_for(rlx_copy_engine *engine, rlx_copy_token token, uint64_t timeout_ns) {
    rlx_status status;
    RLX_TRY(check_token(engine, token));
    status = engine->ops->wait(engine, token.sequence, timeout_ns);
    if (status == RLX_TIMEOUT) {
        return RLX_FAIL(RLX_TIMEOUT, "copy %" PRIu64 " is still pending after %" PRIu64 " ns",
                        token.sequence, timeout_ns);
    }
    return status;
}

rlx_status rlx_copy_wait(rlx_copy_engine *engine, rlx_copy_token token) {
    return rlx_copy_wait_for(engine, token, UINT64_MAX);
}

rlx_status rlx_copy_poll(rlx_copy_engine *engine, rlx_copy_token token, bool *out_done) {
    if (out_done == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "copy: nowhere to put the answer");
    RLX_TRY(check_token(engine, token));
    *out_done = engine->ops->is_done(engine, token.sequence);
    return RLX_OK;
}
