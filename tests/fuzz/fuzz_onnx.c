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

static void plan(rlx_session *session, const rlx_compile_options *options) {
    rlx_plan *made = NULL;
    if (rlx_session_plan(session, "cpu:scalar", 1, options, &made) != RLX_OK) {
        if (rlx_last_error()[0] == 0) broken("not planned, without a message");
        return;
    }
    rlx_plan_destroy(made);
}

/* Once more with sizes: each symbol of the model in turn grows, the others are 2. */
static void plan_growing(rlx_session *session) {
    enum { MOST = 6 };
    const rlx_graph *graph = rlx_session_graph(session);
    uint32_t count = rlx_graph_symbol_count(graph);
    for (uint32_t s = 0; s < count && count <= MOST; s++) {
        const rlx_binding growing = {rlx_graph_symbol_name(graph, s), 5};
        rlx_binding bindings[MOST];
        rlx_entry_spec entry = {.bindings = bindings, .growing = &growing, .growing_count = 1};
        for (uint32_t i = 0; i < count; i++) {
            if (i != s)
                bindings[entry.binding_count++] = (rlx_binding){rlx_graph_symbol_name(graph, i), 2};
        }
        const rlx_compile_options options = {
            .size = sizeof options, .entries = &entry, .entry_count = 1};
        plan(session, &options);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rlx_session *session = NULL;
    char path[64];
    int file = size > 1 << 20 ? -1 : make_file(data, size, path, sizeof path);
    if (file < 0) return 0;
    rlx_status status = rlx_session_open(NULL, path, &session);
    if (status == RLX_OK) {
        plan(session, NULL);
        plan_growing(session);
    } else if (rlx_last_error()[0] == 0) {
        broken("refused without a message");
    }
    rlx_session_destroy(session);
    close(file);
    return 0;
}
