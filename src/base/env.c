/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that reads the environment. */
#include "base/env.h"

#include "base/status.h"

#include <rlx/env.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *rlx_env_text(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static rlx_status read_threads(uint32_t *out_threads) {
    const char *text = rlx_env_text("RLX_THREADS");
    char *end = NULL;
    if (text == NULL) return RLX_OK;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < 1 || number > 4096) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "RLX_THREADS is '%s', not a number of 1 to 4096",
                        text);
    }
    *out_threads = (uint32_t)number;
    return RLX_OK;
}

static rlx_status read_log_level(rlx_log_level *out_level) {
    static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    const char *text = rlx_env_text("RLX_LOG");
    if (text == NULL) return RLX_OK;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], text) != 0) continue;
        *out_level = (rlx_log_level)i;
        return RLX_OK;
    }
    return RLX_FAIL(RLX_INVALID_ARGUMENT,
                    "RLX_LOG is '%s', not one of error, warn, info, debug, trace", text);
}

rlx_status rlx_env_options(rlx_env_settings *out_settings) {
    rlx_env_settings settings = {.log_level = RLX_LOG_WARN};
    if (out_settings == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    settings.device = rlx_env_text("RLX_DEVICE");
    RLX_TRY(read_threads(&settings.threads));
    RLX_TRY(read_log_level(&settings.log_level));
    *out_settings = settings;
    return RLX_OK;
}
