/* SPDX-License-Identifier: Apache-2.0 */
/* .npy files from inside. */
#ifndef RLX_IMPORT_NPY_H
#define RLX_IMPORT_NPY_H

#include "ir/graph.h"

#include <rlx/npy.h>

/* The header of a file of `file_bytes` bytes that begins with data[0, bytes). */
RLX_WARN_UNUSED rlx_status rlx_npy_parse(const uint8_t *data, uint64_t bytes, uint64_t file_bytes,
                                         rlx_npy_info *out_info);

/* Whether the array can stand for a value of this type; RLX_MISMATCH with both types otherwise. */
RLX_WARN_UNUSED rlx_status rlx_npy_holds(const rlx_npy_info *info, const rlx_type *type);

#endif
