/* SPDX-License-Identifier: Apache-2.0 */
/* File to graph: the table of importers, and choosing one by what a file holds. Weights stay in
 * their files: an importer gives ranges of them as sources. */
#ifndef RLX_IMPORT_IMPORT_H
#define RLX_IMPORT_IMPORT_H

#include "ir/graph.h"

#include <rlx/compile.h>

/* What a model is built with. */
typedef struct rlx_import_options {
    const rlx_allocator *allocator;
    const rlx_entry_spec *entry; /* sizes, and values of inputs that may decide shapes; or NULL */
    /* Turns the outputs of a node whose inputs are constants into constants; *out_done is false
     * when it stays a node. The compiler's folder, handed in because importers do not know it. */
    rlx_status (*fold)(rlx_graph *graph, rlx_node_id node, bool *out_done);
} rlx_import_options;

/* A file whose graph exists only once its sizes are bound: each specialisation is built anew. */
typedef struct rlx_model rlx_model;
typedef struct rlx_model_ops {
    void (*destroy)(rlx_model *base);
    rlx_status (*build)(rlx_model *base, const rlx_import_options *options, rlx_graph **out_graph);
    /* What is known without sizes: inputs, weights, names of outputs. Not to be compiled. */
    rlx_status (*outline)(rlx_model *base, const rlx_import_options *options,
                          rlx_graph **out_graph);
} rlx_model_ops;
struct rlx_model { /* first member of every implementation */
    const rlx_model_ops *ops;
};
void rlx_model_destroy(rlx_model *model); /* NULL is fine */

/* Either `import`, for formats whose files are graphs, or `open`. */
typedef struct rlx_importer {
    const char *name;      /* "rlx text": for messages */
    const char *extension; /* ".rlx": decides when no content does */
    /* Whether a file that begins with head[0, bytes) is of this format beyond doubt. NULL: the
     * content does not tell. */
    bool (*probe)(const uint8_t *head, uint64_t bytes);
    rlx_status (*import)(const rlx_allocator *allocator, const char *path, rlx_graph **out_graph);
    rlx_status (*open)(const rlx_allocator *allocator, const char *path, rlx_model **out_model);
} rlx_importer;

/* Reads a model file into a graph, or opens a model; the other one is NULL. Both are owned by the
 * caller. RLX_UNSUPPORTED: no importer knows the file (the text lists those that there are). */
RLX_WARN_UNUSED rlx_status rlx_import(const rlx_allocator *allocator, const char *path,
                                      rlx_graph **out_graph, rlx_model **out_model);

/* A .rlx file; files that it names are relative to its folder. */
RLX_WARN_UNUSED rlx_status rlx_import_text(const rlx_allocator *allocator, const char *path,
                                           rlx_graph **out_graph);
bool rlx_probe_text(const uint8_t *head, uint64_t bytes);

#endif
