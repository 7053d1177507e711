/* SPDX-License-Identifier: Apache-2.0 */
/* FAMILY(name) of families.def is the variable kernel_name. */
#ifndef RLX_TESTS_KERNELS_FAMILIES_H
#define RLX_TESTS_KERNELS_FAMILIES_H

#include "kernels/kernels.h"

#define FAMILY(name) extern const kernel_family kernel_##name;
#include "kernels/families.def"
#undef FAMILY

/* NULL ends them. */
extern const kernel_family *const kernel_families[];

#endif
