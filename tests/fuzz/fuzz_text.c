/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .rlx text: refused with a message, or a graph that prints and reads back to the
 * same text. */
#include "fuzz/fuzz.h"

#include <rlx/graph.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void broken(const char *what, const char *text) {
    fprintf(stderr, "%s: %s\n%s\n", what, rlx_last_error(), text);
    abort();
}

static void check_again(const char *text) {
    rlx_graph *graph = NULL;
    char *again = NULL;
    if (rlx_graph_parse(NULL, text, strlen(text), &graph) != RLX_OK)
        broken("what was printed does not parse", text);
    if (rlx_graph_print(graph, &again) != RLX_OK) broken("cannot print", text);
    if (strcmp(text, again) != 0) broken("prints otherwise the second time", again);
    rlx_string_free(NULL, again);
    rlx_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rlx_graph *graph = NULL;
    char *text = NULL;
    if (rlx_graph_parse(NULL, (const char *)data, size, &graph) != RLX_OK) {
        if (rlx_last_error()[0] == 0) broken("refused without a message", "");
        return 0;
    }
    if (rlx_graph_print(graph, &text) != RLX_OK) broken("cannot print", "");
    check_again(text);
    rlx_string_free(NULL, text);
    rlx_graph_destroy(graph);
    return 0;
}
