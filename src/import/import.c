/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing an importer. A new format is a folder and one row here. */
#include "import/import.h"

#include "base/file.h"
#include "import/onnx/import_onnx.h"

#include <stdio.h>

static const rlx_importer importers[] = {
    {"rlx text", ".rlx", rlx_probe_text, rlx_import_text, NULL},
    {"ONNX", ".onnx", rlx_probe_onnx, NULL, rlx_open_onnx},
};
enum { IMPORTER_COUNT = sizeof importers / sizeof importers[0], HEAD_BYTES = 4096 };

static bool ends_with(const char *path, const char *extension) {
    size_t length = strlen(path), ending = strlen(extension);
    return length > ending && strcmp(path + length - ending, extension) == 0;
}

/* By content first: a wrong extension is a common accident. */
static const rlx_importer *choose(const char *path, const uint8_t *head, uint64_t bytes) {
    for (uint32_t i = 0; i < IMPORTER_COUNT; i++) {
        if (importers[i].probe != NULL && importers[i].probe(head, bytes)) return &importers[i];
    }
    for (uint32_t i = 0; i < IMPORTER_COUNT; i++) {
        if (ends_with(path, importers[i].extension)) return &importers[i];
    }
    return NULL;
}

static rlx_status unknown(const char *path) {
    char list[256] = "";
    for (uint32_t i = 0; i < IMPORTER_COUNT; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s (%s)", i > 0 ? ", " : "", importers[i].name,
                 importers[i].extension);
    }
    return RLX_FAIL(RLX_UNSUPPORTED, "%s: no known model format; known are: %s", path, list);
}

void rlx_model_destroy(rlx_model *model) {
    if (model != NULL) model->ops->destroy(model);
}

rlx_status rlx_import(const rlx_allocator *allocator, const char *path, rlx_graph **out_graph,
                      rlx_model **out_model) {
    rlx_file_map map = {0};
    if (path == NULL || out_graph == NULL || out_model == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(rlx_file_map_open(path, &map));
    uint64_t bytes = map.bytes < HEAD_BYTES ? map.bytes : HEAD_BYTES;
    const rlx_importer *importer = choose(path, map.data, bytes);
    rlx_file_map_close(&map);
    if (importer == NULL) return unknown(path);
    *out_graph = NULL;
    *out_model = NULL;
    return importer->open != NULL ? importer->open(allocator, path, out_model)
                                  : importer->import(allocator, path, out_graph);
}
