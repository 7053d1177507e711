/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that split a plan's weights for a budget: budget.c looks at the plan and
 * chooses what stays resident, budget_tiles.c makes tiles of the rest and finds their offsets,
 * budget_apply.c rewrites the plan's tables. Steps are those of the plan as given. */
#ifndef RLX_PLAN_BUDGET_H
#define RLX_PLAN_BUDGET_H

#include "plan/plan.h"

enum {
    BUDGET_PAGE = 4096,      /* what reads past the page cache want aligned */
    BUDGET_READS_AHEAD = 32, /* reads under way at once, at most */
    BUDGET_GAP = 64 << 10,   /* bytes nobody asked for that a read may cross */
    BUDGET_LOOP_ROUNDS = 16  /* a loop is thought to go round so often */
};

/* A buffer of segment WEIGHTS that steps of entries read. */
typedef struct budget_weight {
    uint64_t offset, bytes;
    uint32_t buffer, slot; /* slot: the first of the buffer, for its name */
    uint32_t use_count, seen_step;
    uint32_t read_count; /* of the entry that reads it most often */
    uint64_t worth;      /* the same with loops counted as rounds and nothing resident */
    uint32_t turn;       /* when it becomes resident, among those that are read once */
    uint32_t reads_here; /* in one entry, while counting */
    uint64_t worth_here;
    bool must_stay; /* conditions, sizes, outputs: small things the host looks at */
    bool is_resident;
    /* The tile that holds it at the point that build has reached. */
    uint32_t tile, block;
    uint64_t clock; /* bytes of tiles begun when it was used last */
} budget_weight;

/* A step reads a weight. In order of the steps, those of one step in order of their offsets. */
typedef struct budget_use {
    uint32_t weight, step;
    uint32_t tile; /* RLX_NONE: resident */
    bool is_read;  /* the tile is there for this use first */
} budget_use;

typedef struct budget_tile {
    uint64_t begin, end;           /* bytes of the weights, whole pages but at the end */
    uint64_t used_end;             /* where its last tensor ends */
    uint64_t offset;               /* in TILES, when placed */
    uint32_t issue, first, last;   /* read before step `issue`, used in [first, last] */
    uint32_t weight_count, weight; /* tensors, and the first */
} budget_tile;

/* How tiles are cut. */
typedef struct budget_level {
    uint64_t target_bytes; /* tensors of later steps join until a tile has so many */
    bool is_kept;          /* a tensor that is needed again soon stays in its tile */
} budget_level;

typedef struct budget {
    rlx_plan *plan;
    uint64_t bytes; /* resident pages and tiles together */
    uint64_t page;  /* tiles begin and end on multiples of it: BUDGET_PAGE, or the alignment */
    rlx_scratch memory;
    budget_weight *weights; /* in order of first use */
    uint32_t weight_count;
    uint32_t *weight_of; /* per buffer; RLX_NONE: none */
    uint32_t *by_offset; /* weights */
    uint32_t *by_worth;  /* those to keep resident first, first */
    uint32_t *by_size;   /* the largest first */
    budget_use *uses;
    uint32_t use_count;
    uint32_t *uses_at; /* per step + 1 */
    uint32_t *block;   /* per step: number of its run of steps without jump or jump target */
    uint8_t *in_loop;  /* per step */
    /* One try. */
    budget_tile *tiles; /* room for one per use */
    uint32_t tile_count;
    uint64_t *live;      /* per step: bytes of tiles */
    uint64_t tile_space; /* bytes of segment TILES */
} budget;

/* budget_tiles.c. Tiles for everything that is not resident, each read where it is first used. */
void budget_build_tiles(budget *self, budget_level level);
/* The largest sum of tiles that are needed at once, and the step it is for. */
uint64_t budget_least_space(budget *self, uint32_t *out_step);
/* Moves reads ahead as far as `space` bytes allow and places the tiles; *out_fits false: no. */
RLX_WARN_UNUSED rlx_status budget_place_tiles(budget *self, uint64_t space, bool *out_fits);

/* Bytes of whole file pages that the resident weights lie on; `pieces` (may be NULL) receives the
 * runs of pages. */
RLX_WARN_UNUSED rlx_status budget_resident(const budget *self, rlx_plan_stream *pieces,
                                           uint64_t *out_bytes);

/* Fills read_count from the tiles as they are, and raises worth to it. */
void budget_count_reads(budget *self);

/* budget_apply.c: the plan's tables for the chosen split. On failure the plan is as it was. */
RLX_WARN_UNUSED rlx_status budget_apply(budget *self, uint64_t largest_tile);

#endif
