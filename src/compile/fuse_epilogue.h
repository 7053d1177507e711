/* SPDX-License-Identifier: Apache-2.0 */
/* The part of fuse_epilogue that knows products of 8-bit integers. */
#ifndef RLX_COMPILE_FUSE_EPILOGUE_H
#define RLX_COMPILE_FUSE_EPILOGUE_H

#include "compile/rewrite.h"

/* `root` is a cast: of exact sums to f32, or of finished numbers to 8 bits. */
RLX_WARN_UNUSED rlx_status rlx_epilogue_take_cast(rlx_rewrite *rewrite, rlx_node_id root);
/* `root` is a mul. */
RLX_WARN_UNUSED rlx_status rlx_epilogue_take_scale(rlx_rewrite *rewrite, rlx_node_id root,
                                                   bool *out_done);

#endif
