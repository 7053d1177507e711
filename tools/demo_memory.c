/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks between guard pages, in a list. Nothing here is fast: a program allocates when it is made,
 * not when it runs. */
#include "demo_memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct block block;
struct block {
    block *next;
    uint8_t *address;
    size_t bytes;      /* as asked for */
    uint8_t *pages;    /* NULL: a small block, from the C library */
    size_t page_bytes; /* usable pages, without the two guards */
    bool is_counted;
};

struct demo_memory {
    pthread_mutex_t lock;
    block *blocks;
    size_t page;
};

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* [guard][pages][guard], the block at the end of the pages as far as its alignment allows. */
static bool map_block(block *self, size_t page, size_t alignment) {
    if (self->bytes > SIZE_MAX / 4 || alignment > page) return false;
    size_t aligned = round_up(self->bytes, alignment);
    size_t inside = round_up(aligned, page);
    uint8_t *all = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return false;
    if (mprotect(all + page, inside, PROT_READ | PROT_WRITE) != 0) {
        munmap(all, inside + 2 * page);
        return false;
    }
    self->pages = all + page;
    self->page_bytes = inside;
    self->address = self->pages + inside - aligned;
    return true;
}

static bool fill_block(block *self, size_t page, size_t alignment) {
    if (self->bytes >= page) return map_block(self, page, alignment);
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign((void **)&self->address, alignment, self->bytes) == 0;
}

static void empty_block(block *self, size_t page) {
    if (self->pages != NULL) {
        munmap(self->pages - page, self->page_bytes + 2 * page);
    } else {
        free(self->address);
    }
    free(self);
}

static void *take(void *user, size_t bytes, size_t alignment) {
    demo_memory *self = user;
    block *added = calloc(1, sizeof *added);
    if (added == NULL) return NULL;
    added->bytes = bytes;
    if (!fill_block(added, self->page, alignment)) {
        free(added);
        return NULL;
    }
    pthread_mutex_lock(&self->lock);
    added->next = self->blocks;
    self->blocks = added;
    pthread_mutex_unlock(&self->lock);
    return added->address;
}

static void give_back(void *user, void *memory) {
    demo_memory *self = user;
    block *found = NULL;
    if (memory == NULL) return;
    pthread_mutex_lock(&self->lock);
    for (block **link = &self->blocks; *link != NULL; link = &(*link)->next) {
        if ((*link)->address != memory) continue;
        found = *link;
        *link = found->next;
        break;
    }
    pthread_mutex_unlock(&self->lock);
    if (found != NULL) empty_block(found, self->page);
}

demo_memory *demo_memory_create(void) {
    demo_memory *self = calloc(1, sizeof *self);
    long page = sysconf(_SC_PAGESIZE);
    if (self == NULL) return NULL;
    self->page = page > 0 ? (size_t)page : 4096;
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

void demo_memory_destroy(demo_memory *memory) {
    if (memory == NULL) return;
    while (memory->blocks != NULL) {
        block *first = memory->blocks;
        memory->blocks = first->next;
        empty_block(first, memory->page);
    }
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

rlx_allocator demo_memory_allocator(demo_memory *memory) {
    return (rlx_allocator){take, give_back, memory};
}

/* Whether the system's list has exactly these pages as one mapping that may be written. */
static bool is_mapped_exactly(const block *self) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], writable;
    bool is_found = false;
    uintptr_t first, last;
    if (maps == NULL) return true;
    while (!is_found && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*c%c", &first, &last, &writable) != 3)
            continue;
        is_found =
            first == (uintptr_t)self->pages && writable == 'w' && last - first == self->page_bytes;
    }
    fclose(maps);
    return is_found;
}

static block *find_block(demo_memory *memory, const void *address, uint64_t bytes) {
    uintptr_t at = (uintptr_t)address;
    for (block *b = memory->blocks; b != NULL; b = b->next) {
        uintptr_t first = (uintptr_t)b->address;
        if (at >= first && bytes <= b->bytes && at - first <= b->bytes - bytes) return b;
    }
    return NULL;
}

/* The bytes that this slot adds to the sum: those of its block when it is the first in it. */
static uint64_t count_slot(demo_memory *memory, const rlx_arena *arena, uint32_t slot) {
    const void *address = rlx_arena_address(arena, slot);
    if (address == NULL) return 0;
    block *found = find_block(memory, address, rlx_arena_slot_bytes(arena, slot));
    if (found == NULL) return UINT64_MAX;
    if (found->is_counted) return 0;
    found->is_counted = true;
    return found->pages == NULL || is_mapped_exactly(found) ? found->bytes : UINT64_MAX;
}

uint64_t demo_memory_arena_bytes(demo_memory *memory, const rlx_arena *arena) {
    uint32_t count = rlx_plan_slot_count(rlx_arena_plan(arena));
    uint64_t sum = 0;
    pthread_mutex_lock(&memory->lock);
    for (block *b = memory->blocks; b != NULL; b = b->next)
        b->is_counted = false;
    for (uint32_t i = 0; i < count && sum != UINT64_MAX; i++) {
        uint64_t bytes = count_slot(memory, arena, i);
        sum = bytes == UINT64_MAX ? bytes : sum + bytes;
    }
    pthread_mutex_unlock(&memory->lock);
    return sum;
}
