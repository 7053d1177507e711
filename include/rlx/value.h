/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor is on both sides of the plan: its kind, its shape, where its bytes come from. */
#ifndef RLX_VALUE_H
#define RLX_VALUE_H

#include <rlx/ops.h>

RLX_BEGIN_DECLS

/* No value, no node, no slot: an absent optional input or output. */
#define RLX_NONE UINT32_MAX

typedef uint32_t rlx_value_id;

typedef enum rlx_value_kind {
    RLX_VALUE_INPUT = 0, /* given before each run */
    RLX_VALUE_PARAMETER, /* a weight: data from a source, read when a program is created */
    RLX_VALUE_CONSTANT,  /* small data inside the graph */
    RLX_VALUE_STATE,     /* persists between runs; zero before the first write */
    RLX_VALUE_TEMPORARY  /* computed by a node, or the input of a block */
} rlx_value_kind;

/* A negative dim is a symbol (rlx_graph_symbol); RLX_DIM_UNKNOWN is not known yet. */
#define RLX_DIM_UNKNOWN INT64_MIN

typedef struct rlx_shape {
    uint32_t rank; /* 0 to RLX_MAX_RANK */
    int64_t dims[RLX_MAX_RANK];
} rlx_shape;

/* Where a parameter's bytes come from, in the value's dtype and row-major order. */
typedef enum rlx_source_kind {
    RLX_SOURCE_NONE = 0, /* must be given before a program is created */
    RLX_SOURCE_MEMORY,   /* borrowed until the program is created */
    RLX_SOURCE_FILE,     /* a range of a file */
    RLX_SOURCE_SEEDED    /* mean + scale * uniform [-1, 1) from a counter-based generator */
} rlx_source_kind;

typedef struct rlx_source {
    rlx_source_kind kind;
    const void *memory;
    const char *path; /* the graph keeps a copy */
    uint64_t offset;  /* in the file */
    uint64_t bytes;   /* of memory or file range; must equal the value's bytes */
    uint64_t seed;
    double mean, scale;
} rlx_source;

RLX_END_DECLS

#endif
