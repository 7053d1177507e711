/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that run beside the program: engines that move bytes from memory or from a file into
 * memory, and the two patterns on top of them, a double buffer and a ring.
 *
 * The pipelined pattern: issue tile k + 1, compute on tile k, swap, wait. */
#ifndef RLX_COPY_H
#define RLX_COPY_H

#include <rlx/arena.h>

RLX_BEGIN_DECLS

/* Moves bytes. issue, wait and poll may be called from several threads at once. */
typedef struct rlx_copy_engine rlx_copy_engine;

/* A regular file, opened for reading, that copies can take their bytes from. It may be used by
 * several engines and threads. */
typedef struct rlx_copy_file rlx_copy_file;

/* One issued copy. A plain value: copy it freely. All zero is no token. */
typedef struct rlx_copy_token {
    uint64_t engine;   /* which engine gave it; never used again in this process */
    uint64_t sequence; /* 1, 2, ... in the order of issue */
} rlx_copy_token;

/* Where bytes come from: memory, or (when `file` is not NULL) a file from `offset` on. */
typedef struct rlx_copy_source {
    const void *memory;
    rlx_copy_file *file;
    uint64_t offset;
} rlx_copy_source;

enum {
    RLX_COPY_BUFFERED = 1, /* `file`: never past the page cache (no O_DIRECT) */
    RLX_COPY_THREADS = 2   /* `file`: threads that read, even where the kernel has io_uring */
};

typedef struct rlx_copy_options {
    size_t size;           /* sizeof(rlx_copy_options) */
    uint32_t threads;      /* copy threads; 0: 1 (`thread`), 2 (`file` without io_uring) */
    uint32_t depth;        /* copies between the oldest pending one and the newest; 0: 64 */
    uint64_t inline_bytes; /* `thread`: up to this many bytes are copied at issue, where handing
                            * over would cost more; 0: 256 KiB */
    uint32_t flags;        /* RLX_COPY_* */
} rlx_copy_options;

/* sync: copies at issue; the reference. thread: copy threads; a wait without timeout helps them
 * with copies from memory. file: reads by io_uring where the kernel allows it, else by threads;
 * past the page cache where the filesystem takes it, else dropping the pages behind. Each takes
 * memory and files as sources. `allocator` and `options` may be NULL (defaults); the allocator is
 * copied. Tokens complete in any order. */
RLX_CALL rlx_status rlx_copy_engine_create_sync(const rlx_allocator *allocator,
                                                const rlx_copy_options *options,
                                                rlx_copy_engine **out_engine);
RLX_CALL rlx_status rlx_copy_engine_create_thread(const rlx_allocator *allocator,
                                                  const rlx_copy_options *options,
                                                  rlx_copy_engine **out_engine);
RLX_CALL rlx_status rlx_copy_engine_create_file(const rlx_allocator *allocator,
                                                const rlx_copy_options *options,
                                                rlx_copy_engine **out_engine);
/* Finishes every issued copy first. NULL is fine. Nobody may be waiting. */
RLX_API void rlx_copy_engine_destroy(rlx_copy_engine *engine);
/* "sync", "thread", "file (io_uring)", "file (threads)". Borrowed. */
RLX_API const char *rlx_copy_engine_name(const rlx_copy_engine *engine);

/* Only regular files are taken. RLX_IO names the path and what the system said. */
RLX_CALL rlx_status rlx_copy_file_open(const rlx_allocator *allocator, const char *path,
                                       rlx_copy_file **out_file);
/* No copy from it may be pending. NULL is fine. */
RLX_API void rlx_copy_file_close(rlx_copy_file *file);
RLX_API uint64_t rlx_copy_file_bytes(const rlx_copy_file *file); /* when it was opened */

/* Starts a copy of `bytes` bytes. Source and destination stay the copy's until it is done; 0 bytes
 * are legal. RLX_INVALID_ARGUMENT: a null, or source and destination overlap; RLX_OUT_OF_BOUNDS:
 * past the end of the file or of the address space; RLX_BUSY: `depth` copies are under way; RLX_IO:
 * this engine has failed too often (32 copies). What goes wrong later surfaces at wait. */
RLX_CALL rlx_status rlx_copy_issue(rlx_copy_engine *engine, rlx_copy_source source,
                                   void *destination, uint64_t bytes, rlx_copy_token *out_token);

/* Waits until the copy is done; its bytes are then visible to the caller. Any number of times, also
 * long after. RLX_INVALID_ARGUMENT: a zero, foreign, future or invented token; RLX_IO: the read
 * failed, with its cause (each wait says so again); RLX_TIMEOUT: still pending after `timeout_ns`
 * (UINT64_MAX: no limit). */
RLX_CALL rlx_status rlx_copy_wait(rlx_copy_engine *engine, rlx_copy_token token);
RLX_CALL rlx_status rlx_copy_wait_for(rlx_copy_engine *engine, rlx_copy_token token,
                                      uint64_t timeout_ns);
/* Never waits. A copy that failed is done too: wait says how. Errors as for wait, about the token
 * only. */
RLX_CALL rlx_status rlx_copy_poll(rlx_copy_engine *engine, rlx_copy_token token, bool *out_done);

/* One side of a double buffer: a pointer, a slot, or anything else there are two of. */
typedef union rlx_buffer_thing {
    void *pointer;
    uint64_t slot;
} rlx_buffer_thing;

typedef enum rlx_buffer_side { RLX_BUFFER_CURRENT = 0, RLX_BUFFER_NEXT = 1 } rlx_buffer_side;

/* Two things of a kind: one to compute on, one that is being filled. Initialise with
 * rlx_double_buffer_init; the fields are private. Used by one thread at a time. */
typedef struct rlx_double_buffer {
    rlx_copy_engine *engine; /* borrowed */
    rlx_buffer_thing things[2];
    rlx_copy_token tokens[2]; /* the copy that fills each side; zero: none */
    uint32_t current;
} rlx_double_buffer;

/* `a` is current, `b` next. */
RLX_API void rlx_double_buffer_init(rlx_double_buffer *buffer, rlx_copy_engine *engine,
                                    rlx_buffer_thing a, rlx_buffer_thing b);
/* The side to compute on; it may also be written, to prime it. RLX_BUSY while its recorded copy is
 * pending, the copy's own failure when it failed: nobody computes on garbage. */
RLX_CALL rlx_status rlx_double_buffer_current(rlx_double_buffer *buffer,
                                              rlx_buffer_thing *out_thing);
/* The side to fill. */
RLX_API rlx_buffer_thing rlx_double_buffer_next(const rlx_double_buffer *buffer);
/* Remembers the copy that fills a side; the zero token forgets it. */
RLX_API void rlx_double_buffer_record(rlx_double_buffer *buffer, rlx_buffer_side side,
                                      rlx_copy_token token);
/* Next becomes current and current next. Never waits. */
RLX_API void rlx_double_buffer_swap(rlx_double_buffer *buffer);
/* Waits for the recorded copy of the current side; at once without one. */
RLX_CALL rlx_status rlx_double_buffer_wait(rlx_double_buffer *buffer, uint64_t timeout_ns);
/* Both sides in the order of init, whichever is current. */
RLX_API void rlx_double_buffer_pair(const rlx_double_buffer *buffer, rlx_buffer_thing out_pair[2]);

/* The same N deep. Stages go round in a fixed order: acquire, issue (up to RLX_RING_PIECES times),
 * commit, wait, release. Used by one thread at a time. */
typedef struct rlx_ring rlx_ring;
enum { RLX_RING_PIECES = 16, RLX_RING_STAGES_MOST = 1024 };

/* A filled stage, handed out by wait until it is released. */
typedef struct rlx_ring_tile {
    void *data;     /* borrowed */
    uint64_t bytes; /* that were issued into it: a tail tile has fewer than the stage holds */
    uint64_t index; /* 0, 1, ... in the order of commits */
    uint32_t stage;
} rlx_ring_tile;

/* Over caller memory: `count` stages of `stage_bytes` each, borrowed as long as the ring. The
 * engine is borrowed too and must have depth for what is issued. */
RLX_CALL rlx_status rlx_ring_create(const rlx_allocator *allocator, rlx_copy_engine *engine,
                                    void *const *stages, uint32_t count, uint64_t stage_bytes,
                                    rlx_ring **out_ring);
/* Over slots of an arena with addresses; each stage holds as much as the smallest slot. The arena
 * outlives the ring. Host access to a slot is RLX_BUSY from acquire until wait or drain has seen
 * the end of its copies. */
RLX_CALL rlx_status rlx_ring_create_slots(const rlx_allocator *allocator, rlx_copy_engine *engine,
                                          rlx_arena *arena, const uint32_t *slots, uint32_t count,
                                          rlx_ring **out_ring);
RLX_API void rlx_ring_destroy(rlx_ring *ring); /* drains; NULL is fine */

/* The next free stage becomes the one to fill. RLX_BUSY: all are in use, or one is being filled. */
RLX_CALL rlx_status rlx_ring_acquire(rlx_ring *ring);
/* Copies `bytes` bytes behind what was issued into the stage before. RLX_INVALID_ARGUMENT: no stage
 * acquired; RLX_OUT_OF_BOUNDS: more than the stage holds; and the errors of rlx_copy_issue. */
RLX_CALL rlx_status rlx_ring_issue(rlx_ring *ring, rlx_copy_source source, uint64_t bytes);
/* The stage is complete as issued. */
RLX_CALL rlx_status rlx_ring_commit(rlx_ring *ring);
/* Waits for the oldest committed stage that was not handed out yet. RLX_INVALID_ARGUMENT: nothing
 * is committed (never a hang); RLX_TIMEOUT: ask again later; a failed copy's error, with the stage
 * then to be released like any other. */
RLX_CALL rlx_status rlx_ring_wait(rlx_ring *ring, uint64_t timeout_ns, rlx_ring_tile *out_tile);
/* Gives back the oldest stage that was handed out. */
RLX_CALL rlx_status rlx_ring_release(rlx_ring *ring);
/* Waits for everything, frees every stage; the first failure of a tile nobody waited for. */
RLX_CALL rlx_status rlx_ring_drain(rlx_ring *ring);

RLX_END_DECLS

#endif
