/* SPDX-License-Identifier: Apache-2.0 */
/* The environment. The library reads none of it on its own; only functions that a program calls on
 * purpose come here. */
#ifndef RLX_BASE_ENV_H
#define RLX_BASE_ENV_H

/* The value of a variable, or NULL when it is not set or empty. Borrowed until the environment
 * changes. */
const char *rlx_env_text(const char *name);

#endif
