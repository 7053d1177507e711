/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else, in C. */
#include <rlx/base.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    if (strcmp(rlx_status_text(RLX_OK), "ok") != 0) return 1;
    if (rlx_last_error()[0] != '\0') return 1;
    if (rlx_default_allocator() == NULL) return 1;
    printf("rlx %s\n", rlx_version());
    return 0;
}
