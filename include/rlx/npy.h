/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as .npy files (numpy): what one holds, and writing one. Little-endian, row-major.
 *
 * numpy has no bf16, f8, 4-bit or block types. Their raw bytes stand in u16 (bf16) or u8 arrays: of
 * the same shape where an element has whole bytes, else flat. Strings of numpy ("S9") are bytes in
 * one more axis, filled up with zeros. */
#ifndef RLX_NPY_H
#define RLX_NPY_H

#include <rlx/value.h>

RLX_BEGIN_DECLS

typedef struct rlx_npy_info {
    rlx_dtype dtype; /* as the file says: never bf16, f8, 4-bit or a block type */
    rlx_shape shape;
    uint64_t offset; /* where the data begins in the file */
    uint64_t bytes;  /* of the data */
} rlx_npy_info;

/* Reads the header (format 1, 2 or 3) and checks that the file holds all the data it promises.
 * RLX_IO: cannot be read, or shorter than promised; RLX_PARSE: no .npy file; RLX_UNSUPPORTED:
 * big-endian, column-major, a dtype we do not have, or more than 8 dims. Errors name the path. */
RLX_CALL rlx_status rlx_npy_read_header(const char *path, rlx_npy_info *out_info);

/* Writes a file of format 1 with the data at a multiple of 64 bytes; it appears whole or not at
 * all. `bytes` must fit dtype and shape (RLX_LENGTH_MISMATCH). */
RLX_CALL rlx_status rlx_npy_write(const char *path, rlx_dtype dtype, const rlx_shape *shape,
                                  const void *data, uint64_t bytes);

RLX_END_DECLS

#endif
