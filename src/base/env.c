/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that reads the environment. */
#include "base/env.h"

#include <stdlib.h>

const char *rlx_env_text(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}
