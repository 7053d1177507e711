/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, for programs that want it: the library itself never looks at it. */
#ifndef RLX_ENV_H
#define RLX_ENV_H

#include <rlx/base.h>

RLX_BEGIN_DECLS

/* What RLX_* variables ask for; what is not set keeps its default. */
typedef struct rlx_env_settings {
    const char *device;      /* RLX_DEVICE; NULL. Borrowed until the environment changes. */
    uint32_t threads;        /* RLX_THREADS; 0 */
    rlx_log_level log_level; /* RLX_LOG: error, warn, info, debug, trace; RLX_LOG_WARN */
} rlx_env_settings;

/* Reads them. RLX_INVALID_ARGUMENT names the variable whose value makes no sense. */
RLX_CALL rlx_status rlx_env_options(rlx_env_settings *out_settings);

RLX_END_DECLS

#endif
