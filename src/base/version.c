/* SPDX-License-Identifier: Apache-2.0 */
/* The version the library was built as, which may differ from the header a program was built with.
 */
#include <rlx/base.h>

#define TEXT_OF(number)             #number
#define DOTTED(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *rlx_version(void) {
    return DOTTED(RLX_VERSION_MAJOR, RLX_VERSION_MINOR, RLX_VERSION_PATCH);
}
