/* SPDX-License-Identifier: Apache-2.0 */
/* The double buffer and the ring: who may touch which piece of memory while copies run. They issue
 * and wait through the public face of an engine and know nothing of how it works. */
#include "driver/copy.h"

void rlx_double_buffer_init(rlx_double_buffer *buffer, rlx_copy_engine *engine, rlx_buffer_thing a,
                            rlx_buffer_thing b) {
    *buffer = (rlx_double_buffer){.engine = engine, .things = {a, b}};
}

static bool is_token(rlx_copy_token token) {
    return token.engine != 0 || token.sequence != 0;
}

rlx_status rlx_double_buffer_current(rlx_double_buffer *buffer, rlx_buffer_thing *out_thing) {
    rlx_copy_token token = buffer->tokens[buffer->current];
    if (is_token(token)) {
        bool done;
        RLX_TRY(rlx_copy_poll(buffer->engine, token, &done));
        if (!done) {
            return RLX_FAIL(RLX_BUSY, "copy %" PRIu64 " into the current side is still pending",
                            token.sequence);
        }
        RLX_TRY(rlx_copy_wait(buffer->engine, token)); /* how it ended */
    }
    *out_thing = buffer->things[buffer->current];
    return RLX_OK;
}

rlx_buffer_thing rlx_double_buffer_next(const rlx_double_buffer *buffer) {
    return buffer->things[1 - buffer->current];
}

void rlx_double_buffer_record(rlx_double_buffer *buffer, rlx_buffer_side side,
                              rlx_copy_token token) {
    uint32_t index = side == RLX_BUFFER_CURRENT ? buffer->current : 1 - buffer->current;
    buffer->tokens[index] = token;
}

void rlx_double_buffer_swap(rlx_double_buffer *buffer) {
    buffer->current = 1 - buffer->current;
}

rlx_status rlx_double_buffer_wait(rlx_double_buffer *buffer, uint64_t timeout_ns) {
    rlx_copy_token token = buffer->tokens[buffer->current];
    if (!is_token(token)) return RLX_OK;
    return rlx_copy_wait_for(buffer->engine, token, timeout_ns);
}

void rlx_double_buffer_pair(const rlx_double_buffer *buffer, rlx_buffer_thing out_pair[2]) {
    out_pair[0] = buffer->things[0];
    out_pair[1] = buffer->things[1];
}
