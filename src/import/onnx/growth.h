/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that a model gives back with more rows, kept as states: see growth.c. */
#ifndef RLX_IMPORT_ONNX_GROWTH_H
#define RLX_IMPORT_ONNX_GROWTH_H

#include "import/onnx/extent.h"

/* An input that became a state. */
typedef struct ox_cache {
    const char *name;
    rlx_value_id state, held; /* held: the rows from before the run */
    uint32_t axis;
    bool is_appended; /* the model's own concat writes it */
} ox_cache;

/* held + plus, as one value. */
typedef struct ox_grown {
    int64_t plus;
    rlx_value_id value;
} ox_grown;

enum { OX_MOST_GROWN = 64 };

struct ox_growth {
    int64_t most;       /* rows of every cache */
    int64_t least;      /* of the sizes that grow: what caches hold before the last run */
    rlx_value_id state; /* i64 [1]: the rows that they hold */
    ox_cache *caches;   /* as many as the model has inputs */
    uint32_t cache_count;
    int64_t added; /* rows per run; 0: none was appended yet */
    ox_grown sizes[OX_MOST_GROWN];
    uint32_t size_count;
};

/* Reads rlx_entry_spec.growing; o->growth stays NULL where nothing grows. */
void ox_growth_begin(ox *o);
/* Whether a size of an input grows: it is what caches hold plus a number. */
bool ox_grows(ox *o, const char *symbol, int64_t *out_plus);
/* The input whose axis grows so: a cache, or an input with room for the most rows. */
rlx_value_id ox_growing_input(ox *o, const char *name, rlx_dtype dtype, const rlx_shape *shape,
                              uint32_t axis, int64_t plus);

/* The size held + plus: always the same value, so that shape rules see what is equal. */
rlx_value_id ox_grown_size(ox *o, int64_t plus);
bool ox_find_grown_size(const ox *o, rlx_value_id value, ox_sum *out);
static inline bool ox_is_grown_size(const ox *o, rlx_value_id value) {
    ox_sum sum;
    return ox_find_grown_size(o, value, &sum);
}

/* Slices and concats of such sizes; RLX_NONE: it is something else. A concat that appends to a
 * cache writes it. */
rlx_value_id ox_cut_grown(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id start,
                          rlx_value_id end);
rlx_value_id ox_join_grown(ox *o, const rlx_value_id *parts, uint32_t count, uint32_t axis);

/* Whether output `value` gives a cache back: it is no output then, and is written if the model's
 * concat did not. */
bool ox_give_back(ox *o, rlx_value_id value);
/* After all outputs: every cache must have grown; counts the rows. */
void ox_growth_end(ox *o);

#endif
