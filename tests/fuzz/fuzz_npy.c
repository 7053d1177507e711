/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .npy file: refused, or a header whose data lies inside the file. */
#include "fuzz/fuzz.h"
#include "import/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rlx_npy_info info;
    if (rlx_npy_parse(data, size, size, &info) != RLX_OK) return 0;
    if (info.offset > size || info.bytes > size - info.offset) abort();
    if (info.shape.rank > RLX_MAX_RANK) abort();
    return 0;
}
