/* SPDX-License-Identifier: Apache-2.0 */
/* `shm`: ranks are processes of one host. Rank 0 makes a memory file without a name and hands it to
 * the others over a socket; all map it. The memory is taken at once: what does not fit is an error
 * here and no signal later. Whether a peer lives is asked of its pidfd. */
#include "collective/shm/shm.h"

#include "base/cpu_quota.h"
#include "base/memory_limit.h"
#include "collective/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const rlx_transport_ops shm_ops = RLX_MAPPED_OPS("shm", NULL);

enum { NO_FD = -1 };

typedef struct shm_world {
    rlx_mapped_world base;
    rlx_allocator allocator;
    rlx_watch watches[RLX_RANKS_MOST];
} shm_world;

/* What rank 0 sends along with the file. */
typedef struct invitation {
    uint64_t heap_bytes;
    uint32_t rank_count, group_count;
} invitation;

static rlx_status system_failure(rlx_status status, const char *what) {
    int code = errno;
    rlx_fail(status, "%s: %s", what, strerror(code));
    rlx_error_detail_edit()->os_error = code;
    return status;
}

static void release_world(rlx_mapped_world *base) {
    shm_world *world = (shm_world *)base;
    rlx_allocator allocator = world->allocator;
    for (uint32_t i = 0; i < RLX_RANKS_MOST; ++i)
        rlx_watch_close(&world->watches[i]);
    munmap(base->memory, base->layout.total_bytes);
    rlx_free(&allocator, world);
}

static bool is_gone(rlx_mapped_world *base, uint32_t rank) {
    return rlx_watch_is_gone(&((shm_world *)base)->watches[rank],
                             atomic_load(&base->lines[rank].process));
}

static rlx_status check_free(const rlx_mapped_layout *layout) {
    uint64_t left = rlx_memory_free("/proc/self/cgroup", "/sys/fs/cgroup", "/proc/meminfo");
    if (layout->total_bytes <= left) return RLX_OK;
    rlx_fail(RLX_DOES_NOT_FIT,
             "%u heaps of %" PRIu64 " bytes take %" PRIu64 " bytes, and %" PRIu64 " are free",
             layout->rank_count, layout->heap_bytes, layout->total_bytes, left);
    *rlx_error_detail_edit() = (rlx_error_detail){
        .bytes = layout->total_bytes, .limit = left, .rank_count = layout->rank_count};
    return RLX_DOES_NOT_FIT;
}

/* Takes [offset, offset + bytes) of the file. */
static rlx_status commit(int file, uint64_t offset, uint64_t bytes) {
    int code;
    do {
        code = bytes == 0 ? 0 : fallocate(file, 0, (off_t)offset, (off_t)bytes);
    } while (code != 0 && errno == EINTR);
    if (code == 0) return RLX_OK;
    code = errno;
    rlx_fail(RLX_DOES_NOT_FIT, "%" PRIu64 " bytes of shared memory: %s", bytes, strerror(code));
    *rlx_error_detail_edit() = (rlx_error_detail){.bytes = bytes, .os_error = code};
    return RLX_DOES_NOT_FIT;
}

static rlx_status make_file(const rlx_mapped_layout *layout, int *out_file) {
    rlx_status status = RLX_OK;
    int file;
    RLX_TRY(check_free(layout));
    file = memfd_create("rlx-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return system_failure(RLX_IO, "no file for shared memory");
    if (ftruncate(file, (off_t)layout->total_bytes) != 0) {
        status = system_failure(RLX_DOES_NOT_FIT, "no shared memory");
        rlx_error_detail_edit()->bytes = layout->total_bytes;
    }
    /* Nobody can make it smaller below a map. */
    (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (status == RLX_OK) status = commit(file, 0, layout->heaps_offset);
    if (status != RLX_OK) {
        close(file);
        return status;
    }
    *out_file = file;
    return RLX_OK;
}

/* A map of the file as one rank's world. The file stays the caller's. */
static rlx_status map_world(const rlx_allocator *allocator, const rlx_mapped_layout *layout,
                            int file, uint32_t rank, rlx_mapped_world **out_world) {
    shm_world *world = NULL;
    void *memory;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *world, (void **)&world));
    memory = mmap(NULL, layout->total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        rlx_status status = system_failure(RLX_OUT_OF_MEMORY, "no room to map shared memory");
        rlx_error_detail_edit()->bytes = layout->total_bytes;
        rlx_free(allocator, world);
        return status;
    }
    rlx_prefer_large_pages((uint8_t *)memory + layout->heaps_offset,
                           layout->total_bytes - layout->heaps_offset);
    rlx_mapped_world_init(&world->base, layout, memory, rank);
    world->allocator = allocator != NULL ? *allocator : *rlx_default_allocator();
    world->base.is_shared = true;
    world->base.is_gone = is_gone;
    world->base.release = release_world;
    for (uint32_t i = 0; i < RLX_RANKS_MOST; ++i)
        world->watches[i] = RLX_WATCH_NONE;
    *out_world = &world->base;
    return RLX_OK;
}

/* Says that this rank does not take part, so that nobody waits for it. */
static rlx_status refuse(rlx_mapped_world *world, rlx_status cause) {
    rlx_mapped_refuse(world, cause);
    world->release(world);
    return cause;
}

/* Which processors this rank may use, for all to see. Ranks are often bound to one each. */
static void show_processors(rlx_mapped_world *world) {
    rlx_rank_line *line = &world->lines[world->rank];
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (uint32_t i = 0; i < 64 * RLX_PROCESSOR_WORDS && i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(i, &set)) atomic_fetch_or(&line->processors[i / 64], UINT64_C(1) << i % 64);
    }
}

/* Spinning pays where every rank can have a processor. */
static void choose_spins(rlx_mapped_world *world) {
    uint32_t count = 0, quota = rlx_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    for (uint32_t word = 0; word < RLX_PROCESSOR_WORDS; ++word) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < world->layout.rank_count; ++i)
            bits |= atomic_load(&world->lines[i].processors[word]);
        count += (uint32_t)__builtin_popcountll(bits);
    }
    if (quota < count) count = quota;
    world->spins = world->layout.rank_count <= count ? RLX_SPINS : 0;
}

static rlx_status join(const rlx_transport_ops *ops, const rlx_allocator *allocator,
                       const rlx_transport_options *options, rlx_mapped_world *world, int file,
                       rlx_transport **out_transport) {
    const rlx_mapped_layout *layout = &world->layout;
    rlx_transport *made = NULL;
    rlx_status status =
        commit(file, layout->heaps_offset + world->rank * layout->heap_stride, layout->heap_stride);
    if (status != RLX_OK) return refuse(world, status);
    atomic_store(&world->lines[world->rank].process, (int32_t)getpid());
    show_processors(world);
    RLX_TRY(rlx_mapped_create(ops, allocator, options, world, &made));
    status = rlx_transport_barrier(made);
    if (status != RLX_OK) {
        rlx_transport_destroy(made);
        return status;
    }
    choose_spins(world);
    *out_transport = made;
    return RLX_OK;
}

static rlx_status create_first(const rlx_transport_ops *ops, const rlx_allocator *allocator,
                               const rlx_rank *who, const rlx_transport_options *options,
                               const rlx_mapped_layout *layout, rlx_transport **out_transport) {
    const invitation text = {layout->heap_bytes, layout->rank_count, layout->group_count};
    rlx_mapped_world *world = NULL;
    int file = NO_FD;
    rlx_status status;
    RLX_TRY(make_file(layout, &file));
    status = map_world(allocator, layout, file, 0, &world);
    for (uint32_t i = 1; i < who->rank_count && status == RLX_OK; ++i)
        status = rlx_fd_send(who->socket, &text, sizeof text, file);
    if (status == RLX_OK) {
        status = join(ops, allocator, options, world, file, out_transport);
    } else if (world != NULL) {
        world->release(world);
    }
    close(file);
    return status;
}

static rlx_status differs(const invitation *text, const rlx_mapped_layout *layout, uint32_t rank) {
    rlx_fail(RLX_MISMATCH,
             "rank 0 made %u heaps of %" PRIu64 " bytes with %u sub-groups, rank %u asks for %u of "
             "%" PRIu64 " with %u",
             text->rank_count, text->heap_bytes, text->group_count - 1, rank, layout->rank_count,
             layout->heap_bytes, layout->group_count - 1);
    *rlx_error_detail_edit() = (rlx_error_detail){
        .expected = text->heap_bytes, .got = layout->heap_bytes, .rank_count = text->rank_count};
    return RLX_MISMATCH;
}

static rlx_status create_other(const rlx_transport_ops *ops, const rlx_allocator *allocator,
                               const rlx_rank *who, const rlx_transport_options *options,
                               const rlx_mapped_layout *layout, rlx_transport **out_transport) {
    rlx_mapped_layout theirs;
    rlx_mapped_world *world = NULL;
    invitation text;
    int file = NO_FD;
    rlx_status status;
    RLX_TRY(rlx_fd_receive(who->socket, options->timeout_ns, &text, sizeof text, &file));
    status = rlx_mapped_layout_make(text.rank_count, text.group_count, text.heap_bytes, &theirs);
    if (status == RLX_OK && who->rank >= text.rank_count) {
        status = differs(&text, layout, who->rank);
    }
    if (status == RLX_OK) status = map_world(allocator, &theirs, file, who->rank, &world);
    if (status == RLX_OK && memcmp(&theirs, layout, sizeof theirs) != 0) {
        status = refuse(world, differs(&text, layout, who->rank));
    } else if (status == RLX_OK) {
        status = join(ops, allocator, options, world, file, out_transport);
    }
    close(file);
    return status;
}

rlx_status rlx_shm_create(const rlx_transport_ops *ops, const rlx_allocator *allocator,
                          const rlx_rank *who, uint64_t heap_bytes,
                          const rlx_transport_options *options, rlx_transport **out_transport) {
    rlx_mapped_layout layout;
    RLX_TRY(rlx_mapped_layout_make(who->rank_count, options->groups + 1, heap_bytes, &layout));
    return who->rank == 0 ? create_first(ops, allocator, who, options, &layout, out_transport)
                          : create_other(ops, allocator, who, options, &layout, out_transport);
}

rlx_status rlx_transport_create_shm(const rlx_allocator *allocator, const rlx_rank *who,
                                    uint64_t heap_bytes, const rlx_transport_options *options,
                                    rlx_transport **out_transport) {
    rlx_transport_options full;
    rlx_status status;
    if (who == NULL || out_transport == NULL || who->rank >= who->rank_count) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "shm: null, or a rank past the rank count");
    }
    if (who->rank_count > 1 && who->socket < 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "shm: rank %u of %u has no socket to the others: start it with rlx launch",
                        who->rank, who->rank_count);
    }
    RLX_TRY(rlx_transport_read_options(options, &full));
    status = rlx_shm_create(&shm_ops, allocator, who, heap_bytes, &full, out_transport);
    if (status != RLX_OK) rlx_fail_context(status, "shm heap on rank %u", who->rank);
    return status;
}
