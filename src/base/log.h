/* SPDX-License-Identifier: Apache-2.0 */
/* The library's only way to say something: the callback of rlx_log_set. */
#ifndef RLX_BASE_LOG_H
#define RLX_BASE_LOG_H

#include <rlx/base.h>

bool rlx_log_wants(rlx_log_level level);
void rlx_log(rlx_log_level level, const char *format, ...) RLX_PRINTF(2, 3);

#endif
