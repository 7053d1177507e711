/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs whose sizes only a run knows: dims of inputs become extents, in every way that the shape
 * rules take, and get every size that is special (0, 1, one less than the bound, the bound); and
 * those that are 0 or 1 in the graph itself. */
#include "kernels/extents.h"

#include "ir/graph.h"
#include "ir/infer.h"

#include <stdio.h>
#include <stdlib.h>

/* Dims of inputs that may get a size of their own at run time. A group of them has one size. */
enum { MAX_PLACES = 24, SPECIAL_SIZES = 4 };

typedef struct place {
    rlx_value_id value;
    uint32_t axis;
    int64_t size;
} place;

typedef struct places {
    place items[MAX_PLACES];
    uint32_t count;
} places;

static places find_places(const rlx_graph *graph) {
    places found = {.count = 0};
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const rlx_value *value = &graph->values.items[v];
        if (value->kind != RLX_VALUE_INPUT) continue;
        for (uint32_t d = 0; d < value->type.shape.rank; d++) {
            int64_t size = value->type.shape.dims[d];
            if (size < 1 || value->type.extents[d] != RLX_NONE || found.count == MAX_PLACES)
                continue;
            found.items[found.count++] = (place){v, d, size};
        }
    }
    return found;
}

/* One more scalar input that is the size of the places in `mask`. */
static rlx_status give_extent(rlx_graph *graph, const places *all, uint32_t mask) {
    rlx_value_id size;
    RLX_TRY(rlx_graph_add_input(graph, NULL, RLX_DTYPE_I64, (rlx_shape){0}, &size));
    for (uint32_t i = 0; i < all->count; i++) {
        if ((mask >> i & 1) == 0) continue;
        graph->values.items[all->items[i].value].type.extents[all->items[i].axis] = size;
    }
    return RLX_OK;
}

/* The graph with one extent per mask; NULL: its shape rules do not take them. */
static rlx_graph *with_extents(const rlx_graph *graph, const places *all, const uint32_t *masks,
                               uint32_t count) {
    rlx_graph *copy = NULL;
    rlx_status status = rlx_graph_clone(graph, NULL, &copy);
    for (uint32_t i = 0; i < count && status == RLX_OK; i++)
        status = give_extent(copy, all, masks[i]);
    if (status == RLX_OK) status = rlx_graph_infer(copy);
    if (status == RLX_OK) status = rlx_graph_verify(copy);
    if (status == RLX_OK) return copy;
    rlx_graph_destroy(copy);
    return NULL;
}

static int64_t size_of(const places *all, uint32_t mask) {
    for (uint32_t i = 0; i < all->count; i++) {
        if ((mask >> i & 1) != 0) return all->items[i].size;
    }
    return 0;
}

rlx_test_array *extents_inputs(const extents_graph *made, uint32_t run) {
    rlx_test_array *all = calloc(made->input_count + made->size_count + 1u, sizeof *all);
    if (all == NULL) return NULL;
    memcpy(all, made->inputs, made->input_count * sizeof *all);
    for (uint32_t i = 0; i < made->size_count; i++) {
        const int64_t *size = &made->sizes[run][i];
        all[made->input_count + i] = (rlx_test_array){
            .dtype = RLX_DTYPE_I64, .bytes = sizeof *size, .data = (void *)(uintptr_t)size};
    }
    return all;
}

/* Every combination of the sizes, the smallest last, or as many as there is room for. */
static void run_all(const extents_visitor *visitor, extents_graph *made, const places *all,
                    const uint32_t *masks, uint32_t count) {
    uint32_t combinations = 1;
    for (uint32_t i = 0; i < count; i++)
        combinations *= SPECIAL_SIZES;
    /* An odd step meets every size of every group. */
    uint32_t step = combinations > EXTENTS_RUNS ? combinations / EXTENTS_RUNS | 1 : 1;
    made->size_count = count;
    made->run_count = 0;
    for (uint32_t n = combinations; n > 0 && made->run_count < EXTENTS_RUNS;
         n -= n < step ? n : step) {
        for (uint32_t i = 0, digits = n - 1; i < count; i++, digits /= SPECIAL_SIZES) {
            int64_t bound = size_of(all, masks[i]);
            const int64_t special[SPECIAL_SIZES] = {0, 1, bound - 1, bound};
            made->sizes[made->run_count][i] = special[digits % SPECIAL_SIZES];
        }
        made->run_count++;
    }
    visitor->visit(visitor->user, made);
}

/* The size itself instead of an extent: what a model can have too. */
static void run_fixed(const extents_visitor *visitor, const rlx_graph *graph,
                      const rlx_test_array *inputs, uint32_t input_count, const places *all,
                      uint32_t mask, int64_t size) {
    rlx_graph *copy = NULL;
    rlx_test_array *resized = calloc(input_count + 1u, sizeof *resized);
    rlx_status status = rlx_graph_clone(graph, NULL, &copy);
    uint32_t next = 0;
    for (uint32_t i = 0; i < all->count && status == RLX_OK; i++) {
        rlx_value *value = &copy->values.items[all->items[i].value];
        if ((mask >> i & 1) != 0) value->type.shape.dims[all->items[i].axis] = size;
    }
    for (uint32_t v = 0; resized != NULL && status == RLX_OK && v < copy->values.count; v++) {
        const rlx_value *value = &copy->values.items[v];
        if (value->kind != RLX_VALUE_INPUT) continue;
        resized[next] = inputs[next];
        resized[next].shape = value->type.shape;
        status = rlx_type_bytes(&value->type, &resized[next++].bytes);
    }
    if (status == RLX_OK) status = rlx_graph_infer(copy);
    if (status == RLX_OK) status = rlx_graph_verify(copy);
    if (status == RLX_OK && resized != NULL)
        visitor->visit(visitor->user, &(extents_graph){.graph = copy,
                                                       .inputs = resized,
                                                       .input_count = input_count,
                                                       .run_count = 1});
    free(resized);
    rlx_graph_destroy(copy);
}

/* Groups to try: places of one size together, and each of them alone. */
static uint32_t find_groups(const places *all, uint32_t *masks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t mask = 0;
        for (uint32_t n = 0; n < all->count; n++)
            mask |= (uint32_t)(all->items[n].size == all->items[i].size) << n;
        if ((mask & ((1u << i) - 1)) == 0) masks[count++] = mask;
        if (mask != 1u << i) masks[count++] = 1u << i;
    }
    return count;
}

void extents_for_each(const extents_visitor *visitor, const rlx_graph *graph,
                      const rlx_test_array *inputs, uint32_t input_count) {
    places all = find_places(graph);
    extents_graph made = {.inputs = inputs, .input_count = input_count};
    uint32_t masks[2 * MAX_PLACES], count = find_groups(&all, masks), used = 0;
    uint32_t taken[EXTENTS_GROUPS + 1], taken_count = 0; /* all that go together */
    rlx_graph *together = NULL, *alone;
    for (uint32_t i = 0; i < count; i++) {
        run_fixed(visitor, graph, inputs, input_count, &all, masks[i], 0);
        if (size_of(&all, masks[i]) > 1)
            run_fixed(visitor, graph, inputs, input_count, &all, masks[i], 1);
        made.graph = alone = with_extents(graph, &all, &masks[i], 1);
        if (alone == NULL) continue;
        run_all(visitor, &made, &all, &masks[i], 1);
        rlx_graph_destroy(alone);
        if ((used & masks[i]) != 0 || taken_count == EXTENTS_GROUPS) continue;
        taken[taken_count] = masks[i];
        rlx_graph *more = with_extents(graph, &all, taken, taken_count + 1);
        if (more == NULL) continue;
        rlx_graph_destroy(together);
        together = more;
        taken_count++, used |= masks[i];
    }
    made.graph = together;
    if (taken_count > 1) run_all(visitor, &made, &all, taken, taken_count);
    rlx_graph_destroy(together);
}
