/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the bytes of a parameter from where its source says they are. */
#ifndef RLX_IR_SOURCE_H
#define RLX_IR_SOURCE_H

#include "base/status.h"

#include <rlx/value.h>

/* Elements [first, first + count) of the endless sequence of a seed, in `dtype`: element i is
 * mean + scale * u, u uniform in [-1, 1) from a counter-based generator of seed and i. The same
 * bits on every machine, and any part can be made alone. Of block types, first and count are whole
 * blocks. Integers are rounded and saturate. */
RLX_WARN_UNUSED rlx_status rlx_source_fill_seeded(uint64_t seed, double mean, double scale,
                                                  rlx_dtype dtype, uint64_t first, uint64_t count,
                                                  void *out);

/* A part of a tensor: of `rows` rows of `row` elements each, elements [first, first + count); the
 * part has rows of `width` elements, whose rest is zero. rows 0: the whole tensor. */
typedef struct rlx_source_window {
    uint64_t rows, row, first, count, width;
} rlx_source_window;

/* The part into `out`, which has rows * width elements. All but `rows` are whole blocks. Reads
 * nothing else of a file. */
RLX_WARN_UNUSED rlx_status rlx_source_read_window(const rlx_source *source, rlx_dtype dtype,
                                                  const rlx_source_window *window, void *out);

/* Elements [first, first + count) of a source of `dtype` into `out`; both are whole blocks, but the
 * last block may be cut. RLX_INVALID_ARGUMENT: a source of kind NONE, or not on block boundaries;
 * RLX_OUT_OF_BOUNDS: past the end of the source; RLX_IO. */
RLX_WARN_UNUSED rlx_status rlx_source_read(const rlx_source *source, rlx_dtype dtype,
                                           uint64_t first, uint64_t count, void *out);

#endif
