/* SPDX-License-Identifier: Apache-2.0 */
/* Checked wrappers of the stream contract: ranges of steps, foreign stretches, and the pending
 * count that keeps the host out of an arena while a device works on it. */
#include "driver/stream.h"

static rlx_status check_steps(const rlx_plan *plan, uint32_t first_step, uint32_t step_count) {
    if (first_step > plan->steps.count || step_count > plan->steps.count - first_step) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "steps %u + %u > %u", first_step, step_count,
                        plan->steps.count);
    }
    for (uint32_t i = first_step; i < first_step + step_count; i++) {
        uint32_t kind = plan->steps.items[i].kind;
        if (kind != RLX_STEP_KERNEL && kind != RLX_STEP_COPY) {
            return RLX_FAIL(RLX_INVALID_PLAN, "step %u ('%s') of kind %u in a stretch", i,
                            plan->steps.items[i].name, kind);
        }
    }
    return RLX_OK;
}

rlx_status rlx_stream_prepare(rlx_stream *stream, uint32_t first_step, uint32_t step_count,
                              rlx_stretch **out_stretch) {
    if (stream == NULL || out_stretch == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "stream or out_stretch is NULL");
    }
    RLX_TRY(check_steps(stream->arena->plan, first_step, step_count));
    return stream->ops->prepare(stream, first_step, step_count, out_stretch);
}

rlx_status rlx_stream_warm_up(rlx_stream *stream, rlx_stretch *stretch) {
    RLX_TRY(rlx_stream_wait(stream));
    return stream->ops->warm_up == NULL ? RLX_OK : stream->ops->warm_up(stream, stretch);
}

void rlx_stream_release(rlx_stream *stream, rlx_stretch *stretch) {
    if (stream != NULL && stretch != NULL) stream->ops->release(stream, stretch);
}

rlx_status rlx_stream_submit(rlx_stream *stream, rlx_stretch *stretch, rlx_step_time *times) {
    rlx_status status;
    if (stream == NULL || stretch == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "stream or stretch is NULL");
    }
    if (stretch->stream != stream) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "a stretch of another stream");
    }
    atomic_fetch_add_explicit(&stream->arena->pending, 1, memory_order_acq_rel);
    stream->submitted++;
    status = stream->ops->submit(stream, stretch, times);
    if (status != RLX_OK) {
        stream->submitted--;
        atomic_fetch_sub_explicit(&stream->arena->pending, 1, memory_order_acq_rel);
    }
    return status;
}

rlx_status rlx_stream_wait(rlx_stream *stream) {
    rlx_status status = RLX_OK;
    if (stream == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "stream is NULL");
    if (stream->submitted == 0) return RLX_OK;
    if (stream->ops->wait != NULL) status = stream->ops->wait(stream);
    atomic_fetch_sub_explicit(&stream->arena->pending, stream->submitted, memory_order_acq_rel);
    stream->submitted = 0;
    return status;
}

void rlx_stream_destroy(rlx_stream *stream) {
    if (stream == NULL) return;
    if (rlx_stream_wait(stream) != RLX_OK) {
        /* Nobody is left to tell: the work is over, one way or the other. */
    }
    stream->ops->destroy(stream);
}
