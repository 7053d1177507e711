/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a graph from inside: what the public print and parse stand on. The grammar is
 * in docs/text-format.md. Opens no file: references to files go through a resolver that the
 * importer of .rlx files brings along. */
#ifndef RLX_IR_TEXT_H
#define RLX_IR_TEXT_H

#include "base/text.h"
#include "ir/graph.h"

/* What a text may ask for; beyond it is RLX_PARSE with the number. */
#define RLX_TEXT_MAX_BYTES (UINT64_C(1) << 30)
enum {
    RLX_TEXT_MAX_NESTING = 64,
    RLX_TEXT_MAX_NAME = 65535,   /* bytes of a name or path */
    RLX_TEXT_MAX_NUMBER = 400,   /* characters of a number */
    RLX_TEXT_MAX_VALUES = 65536, /* inputs, outputs, yields of one node */
    RLX_TEXT_MAX_SYMBOLS = 1024,
    RLX_TEXT_MAX_OUTPUTS = 4096,
    RLX_TEXT_MAX_LIST = 1 << 20 /* integers of one list attribute */
};

enum rlx_print_flags {
    RLX_PRINT_TYPES = 1 << 0, /* "# f32[1, 4]" after each node whose outputs are typed */
    RLX_PRINT_SHORT = 1 << 1 /* data of more than 16 elements is cut with "...": cannot be parsed */
};

/* rlx_graph_print is the same with flags 0. The string comes from the graph's allocator. */
RLX_WARN_UNUSED rlx_status rlx_graph_print_options(const rlx_graph *graph, uint32_t flags,
                                                   char **out_text);

/* `param w : f32[4] = npy("w.npy")` or `file("u.bin", 128)`. */
typedef struct rlx_text_reference {
    bool is_npy;      /* else raw bytes at `offset` */
    const char *path; /* as written; borrowed for the call */
    uint64_t offset;
    const char *name; /* of the parameter, for messages; borrowed for the call */
    const rlx_type *type;
    uint64_t bytes; /* of the parameter */
} rlx_text_reference;

/* Turns a reference into a source. `path` in the source must stay valid until the parse returns. */
typedef struct rlx_text_resolver {
    rlx_status (*resolve)(void *user, const rlx_text_reference *reference, rlx_source *out_source);
    void *user;
} rlx_text_resolver;

/* rlx_graph_parse is the same with resolver NULL: file() then stays as written, and npy() is
 * refused, because where its data begins is in the file. */
RLX_WARN_UNUSED rlx_status rlx_graph_parse_with(const rlx_allocator *allocator, const char *text,
                                                uint64_t bytes, const rlx_text_resolver *resolver,
                                                rlx_graph **out_graph);

#endif
