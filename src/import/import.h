/* SPDX-License-Identifier: Apache-2.0 */
/* File to graph: the table of importers, and choosing one by what a file holds. Weights stay in
 * their files: an importer gives ranges of them as sources. */
#ifndef RLX_IMPORT_IMPORT_H
#define RLX_IMPORT_IMPORT_H

#include "ir/graph.h"

typedef struct rlx_importer {
    const char *name;      /* "rlx text": for messages */
    const char *extension; /* ".rlx": decides when no content does */
    /* Whether a file that begins with head[0, bytes) is of this format beyond doubt. NULL: the
     * content does not tell. */
    bool (*probe)(const uint8_t *head, uint64_t bytes);
    rlx_status (*import)(const rlx_allocator *allocator, const char *path, rlx_graph **out_graph);
} rlx_importer;

/* Reads a model file. The graph is owned by the caller. RLX_UNSUPPORTED: no importer knows the
 * file (the text lists those that there are). */
RLX_WARN_UNUSED rlx_status rlx_import(const rlx_allocator *allocator, const char *path,
                                      rlx_graph **out_graph);

/* A .rlx file; files that it names are relative to its folder. */
RLX_WARN_UNUSED rlx_status rlx_import_text(const rlx_allocator *allocator, const char *path,
                                           rlx_graph **out_graph);
bool rlx_probe_text(const uint8_t *head, uint64_t bytes);

#endif
