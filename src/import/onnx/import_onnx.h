/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files as models. */
#ifndef RLX_IMPORT_ONNX_IMPORT_ONNX_H
#define RLX_IMPORT_ONNX_IMPORT_ONNX_H

#include "import/import.h"

/* Decodes the file; its weights stay there. */
RLX_WARN_UNUSED rlx_status rlx_open_onnx(const rlx_allocator *allocator, const char *path,
                                         rlx_model **out_model);
/* A model begins with its IR version. */
bool rlx_probe_onnx(const uint8_t *head, uint64_t bytes);

#endif
