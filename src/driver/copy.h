/* SPDX-License-Identifier: Apache-2.0 */
/* What a copy engine implements. The wrappers in copy.c have checked ranges and tokens, and hand
 * out sequence numbers; an engine only moves bytes and knows when each sequence is done. */
#ifndef RLX_DRIVER_COPY_H
#define RLX_DRIVER_COPY_H

#include "base/alloc.h"
#include "base/thread.h"

#include <rlx/copy.h>

typedef struct rlx_copy_request {
    uint64_t sequence;
    rlx_copy_source source;
    void *destination;
    uint64_t bytes;
} rlx_copy_request;

/* Tests look inside: `gate` runs on a worker before it begins a piece of work, `result` sees each
 * read's result (bytes, or -errno) and returns the one to believe. */
typedef struct rlx_copy_hooks {
    void (*gate)(void *user);
    int64_t (*result)(void *user, uint64_t offset, uint64_t bytes, int64_t result);
    void *user;
} rlx_copy_hooks;

typedef struct rlx_copy_ops {
    void (*destroy)(rlx_copy_engine *base); /* drains */
    /* Called under the engine's lock, sequences in order. */
    rlx_status (*issue)(rlx_copy_engine *base, const rlx_copy_request *request);
    /* The sequence was issued. RLX_TIMEOUT is the wrapper's to explain. */
    rlx_status (*wait)(rlx_copy_engine *base, uint64_t sequence, uint64_t timeout_ns);
    bool (*is_done)(rlx_copy_engine *base, uint64_t sequence);
    void (*set_hooks)(rlx_copy_engine *base, const rlx_copy_hooks *hooks);
} rlx_copy_ops;

struct rlx_copy_engine { /* first member of every implementation */
    const rlx_copy_ops *ops;
    const char *name;
    rlx_allocator allocator;
    uint64_t id;
    pthread_mutex_t lock;    /* of issue */
    _Atomic uint64_t issued; /* the newest sequence */
};

/* Fills the base of an engine and gives it its id. */
void rlx_copy_engine_init(rlx_copy_engine *engine, const rlx_copy_ops *ops, const char *name,
                          const rlx_allocator *allocator);

/* Before the first issue. */
void rlx_copy_set_hooks(rlx_copy_engine *engine, const rlx_copy_hooks *hooks);

struct rlx_copy_file {
    rlx_allocator allocator;
    uint64_t bytes;
    int descriptor;
    int direct; /* the same file with O_DIRECT; -1 where the filesystem refuses */
    char path[];
};

#endif
