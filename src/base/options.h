/* SPDX-License-Identifier: Apache-2.0 */
/* Options structs start with `size`, so that they can grow: an older caller's shorter struct leaves
 * the defaults of what it does not have. */
#ifndef RLX_BASE_OPTIONS_H
#define RLX_BASE_OPTIONS_H

#include "base/status.h"

#include <string.h>

/* Copies what the caller's struct (NULL: nothing) has over the defaults in `full`, whose size is
 * `known`. A size that was not set, or of a newer library, is RLX_INVALID_ARGUMENT. */
RLX_WARN_UNUSED static inline rlx_status rlx_options_read(const void *options, size_t known,
                                                          const char *what, void *full) {
    size_t size;
    if (options == NULL) return RLX_OK;
    memcpy(&size, options, sizeof size);
    if (size < sizeof size || size > known) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s options have size %zu, this library knows %zu",
                        what, size, known);
    }
    memcpy(full, options, size);
    memcpy(full, &known, sizeof known);
    return RLX_OK;
}

#endif
