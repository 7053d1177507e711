/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an ONNX file: refused with a message, or a model that can be planned or is refused
 * then. */
#include "fuzz/fuzz.h"

#include <rlx/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, rlx_last_error());
    abort();
}

/* The bytes as a file that only this process sees; its path goes to `path`. */
static int make_file(const uint8_t *data, size_t size, char *path, size_t path_bytes) {
    int file = memfd_create("model", 0);
    if (file < 0) return -1;
    for (size_t done = 0; done < size;) {
        ssize_t more = write(file, data + done, size - done);
        if (more <= 0) {
            close(file);
            return -1;
        }
        done += (size_t)more;
    }
    snprintf(path, path_bytes, "/proc/self/fd/%d", file);
    return file;
}

static void plan(rlx_session *session) {
    rlx_plan *made = NULL;
    if (rlx_session_plan(session, "cpu:scalar", 1, NULL, &made) != RLX_OK) {
        if (rlx_last_error()[0] == 0) broken("not planned, without a message");
        return;
    }
    rlx_plan_destroy(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rlx_session *session = NULL;
    char path[64];
    int file = size > 1 << 20 ? -1 : make_file(data, size, path, sizeof path);
    if (file < 0) return 0;
    rlx_status status = rlx_session_open(NULL, path, &session);
    if (status == RLX_OK) {
        plan(session);
    } else if (rlx_last_error()[0] == 0) {
        broken("refused without a message");
    }
    rlx_session_destroy(session);
    close(file);
    return 0;
}
