/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that can tell how much memory an arena really has: each larger block is a mapping of
 * its own that ends at a page nobody may touch, so one byte more than planned is a crash. */
#ifndef RLX_TOOLS_DEMO_MEMORY_H
#define RLX_TOOLS_DEMO_MEMORY_H

#include <rlx/rlx.h>

typedef struct demo_memory demo_memory;

/* NULL without memory. Owned; it outlives every object that was made with its allocator. */
demo_memory *demo_memory_create(void);
void demo_memory_destroy(demo_memory *memory); /* NULL is allowed */
rlx_allocator demo_memory_allocator(demo_memory *memory);

/* The bytes of all blocks in which a slot of the arena lies. A block whose mapping, as the system
 * lists it, is not exactly the pages that these bytes need gives UINT64_MAX, as does a slot outside
 * every block. Where the system has no such list, what was asked for counts. */
uint64_t demo_memory_arena_bytes(demo_memory *memory, const rlx_arena *arena);

#endif
