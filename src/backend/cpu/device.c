/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: a level, a thread pool, host arenas. "cpu" is the best level of this
 * machine; "cpu:LEVEL" forces one, and is refused where the processor lacks it. */
#include "backend/cpu/cpu.h"

#include "base/cpu.h"
#include "base/thread.h"

#include <stdio.h>
#include <unistd.h>

enum { MOST_THREADS = 1024 };

static uint64_t memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages < 0 || page < 0 ? 0 : (uint64_t)pages * (uint64_t)page;
}

/* What the processor lacks for a level, as a static text; "" when it lacks nothing. */
static const char *missing(const rlx_cpu_level *level) {
    if ((level->flags & ~rlx_cpu_flags()) == 0) return "";
    if ((level->flags & ~rlx_cpu_flags() & RLX_CPU_AVX2) != 0) return "the processor has no AVX2";
    if ((level->flags & ~rlx_cpu_flags() & RLX_CPU_AVX512) != 0) {
        return "the processor has no AVX-512";
    }
    return "the processor lacks an instruction set";
}

/* The devices are "cpu" and one per level. */
static uint32_t cpu_count(void) {
    return 1 + rlx_cpu_level_count;
}

static void cpu_at(uint32_t index, rlx_device_info *out_info) {
    const rlx_cpu_level *level = index == 0 ? rlx_cpu_best_level() : &rlx_cpu_levels[index - 1];
    const char *why = missing(level);
    *out_info = (rlx_device_info){.name = index == 0 ? "cpu" : level->device,
                                  .kind = "cpu",
                                  .description = level->name,
                                  .target = why[0] == 0 ? level->target : "",
                                  .missing = why,
                                  .is_available = why[0] == 0,
                                  .threads = rlx_cpu_count(),
                                  .memory_bytes = memory_bytes(),
                                  .alignment = RLX_PLAN_ALIGNMENT};
}

static rlx_status check_name(const char *name, uint32_t threads, const rlx_cpu_level **out_level) {
    const rlx_cpu_level *level = rlx_cpu_find_level(name);
    if (level == NULL) return RLX_FAIL(RLX_NOT_FOUND, "unknown device '%s'", name);
    if (threads > MOST_THREADS) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device '%s': %u threads (at most %d)", name, threads,
                        MOST_THREADS);
    }
    *out_level = level;
    return RLX_OK;
}

static rlx_status cpu_target(const char *name, uint32_t threads, rlx_target *out_target) {
    const rlx_cpu_level *level = NULL;
    RLX_TRY(check_name(name, threads, &level));
    *out_target = rlx_cpu_target(level, threads == 0 ? rlx_cpu_count() : threads);
    return RLX_OK;
}

static void cpu_destroy(rlx_device *base) {
    rlx_cpu_device *self = (rlx_cpu_device *)base;
    rlx_allocator allocator = base->allocator;
    rlx_pool_destroy(self->pool);
    rlx_free(&allocator, self);
}

static void cpu_describe(const rlx_device *base, rlx_device_info *out_info) {
    const rlx_cpu_device *self = (const rlx_cpu_device *)base;
    *out_info = (rlx_device_info){.name = self->name,
                                  .kind = "cpu",
                                  .description = self->description,
                                  .target = base->target.name,
                                  .missing = "",
                                  .is_available = true,
                                  .threads = base->target.workers,
                                  .memory_bytes = memory_bytes(),
                                  .alignment = base->target.alignment};
}

static rlx_status cpu_create_arena(rlx_device *base, const rlx_arena_request *request,
                                   rlx_arena **out_arena) {
    return rlx_arena_create_host(request, ((rlx_cpu_device *)base)->name, out_arena);
}

static const rlx_device_ops cpu_ops = {
    "cpu", cpu_destroy, cpu_describe, cpu_create_arena, rlx_cpu_create_stream, NULL, NULL};

static void fill_texts(rlx_cpu_device *self, const char *name) {
    char flags[64];
    rlx_cpu_flags_text(self->level->flags, flags, sizeof flags);
    (void)snprintf(self->name, sizeof self->name, "%s", name);
    (void)snprintf(self->description, sizeof self->description, "%u thread%s, %s",
                   self->base.target.workers, self->base.target.workers == 1 ? "" : "s", flags);
}

static rlx_status cpu_open(const char *name, const rlx_device_options *options,
                           rlx_device **out_device) {
    const rlx_cpu_level *level = NULL;
    const rlx_allocator *allocator =
        options->allocator != NULL ? options->allocator : rlx_default_allocator();
    rlx_cpu_device *self = NULL;
    uint32_t threads = options->threads == 0 ? rlx_cpu_count() : options->threads;
    rlx_status status;
    RLX_TRY(check_name(name, threads, &level));
    if (missing(level)[0] != 0) {
        return RLX_FAIL(RLX_UNSUPPORTED, "device '%s': %s", name, missing(level));
    }
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->base.ops = &cpu_ops;
    self->base.allocator = *allocator;
    atomic_init(&self->base.owners, 1);
    self->base.target = rlx_cpu_target(level, threads);
    self->level = level;
    fill_texts(self, name);
    rlx_pool_crew crew = {options->run_parts, options->run_parts_user};
    status = crew.run == NULL ? rlx_pool_create(allocator, threads, &self->pool)
                              : rlx_pool_create_crew(allocator, threads, &crew, &self->pool);
    if (status != RLX_OK) {
        cpu_destroy(&self->base);
        return status;
    }
    *out_device = &self->base;
    return RLX_OK;
}

const rlx_backend rlx_cpu_backend = {"cpu", cpu_count, cpu_at, cpu_target, cpu_open};
