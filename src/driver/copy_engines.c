/* SPDX-License-Identifier: Apache-2.0 */
/* The host's copy engines by name: what each makes of the one machine in copy_host.c. */
#include "driver/copy_host.h"

#include "base/options.h"

enum { INLINE_BYTES = 256 << 10, FILE_THREADS = 2 };

static rlx_status create(const rlx_allocator *allocator, const rlx_copy_options *options,
                         rlx_copy_host_config *config, rlx_copy_engine **out_engine) {
    config->options.size = sizeof config->options;
    RLX_TRY(rlx_options_read(options, sizeof config->options, "copy engine", &config->options));
    if (config->threads != 0 && config->options.threads != 0) {
        config->threads = config->options.threads;
    }
    if (config->inline_bytes != 0 && config->options.inline_bytes != 0) {
        config->inline_bytes = config->options.inline_bytes;
    }
    if ((config->options.flags & RLX_COPY_THREADS) != 0) config->wants_uring = false;
    return rlx_copy_host_create(allocator, config, out_engine);
}

rlx_status rlx_copy_engine_create_sync(const rlx_allocator *allocator,
                                       const rlx_copy_options *options,
                                       rlx_copy_engine **out_engine) {
    rlx_copy_host_config config = {.name = "sync"};
    return create(allocator, options, &config, out_engine);
}

rlx_status rlx_copy_engine_create_thread(const rlx_allocator *allocator,
                                         const rlx_copy_options *options,
                                         rlx_copy_engine **out_engine) {
    rlx_copy_host_config config = {.name = "thread", .threads = 1, .inline_bytes = INLINE_BYTES};
    return create(allocator, options, &config, out_engine);
}

rlx_status rlx_copy_engine_create_file(const rlx_allocator *allocator,
                                       const rlx_copy_options *options,
                                       rlx_copy_engine **out_engine) {
    rlx_copy_host_config config = {.name = "file (threads)",
                                   .threads = FILE_THREADS,
                                   .inline_bytes = INLINE_BYTES,
                                   .reads_past_cache = true,
                                   .wants_uring = true};
    return create(allocator, options, &config, out_engine);
}
