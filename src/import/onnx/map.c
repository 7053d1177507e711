/* SPDX-License-Identifier: Apache-2.0 */
/* map.def as a table. */
#include "import/onnx/ops.h"

#include <stdio.h>
#include <string.h>

enum { MOST_VERSIONS = 8 };

typedef struct row {
    const char *name;
    ox_handler handler;
    rlx_op op;
    uint8_t versions[MOST_VERSIONS]; /* rising; 0 ends */
} row;

static const row rows[] = {
#define ONNX_OP(name, handler, op, ...) {#name, rlx_ox_##handler, RLX_OP_##op, {__VA_ARGS__}},
#include "import/onnx/map.def"
#undef ONNX_OP
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

uint32_t rlx_onnx_op_count(void) {
    return ROW_COUNT;
}

const char *rlx_onnx_op_name(uint32_t index) {
    return index < ROW_COUNT ? rows[index].name : NULL;
}

uint32_t rlx_onnx_op_since(uint32_t index, uint32_t nth) {
    return index < ROW_COUNT && nth < MOST_VERSIONS ? rows[index].versions[nth] : 0;
}

static const row *find_row(const char *name) {
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    }
    return NULL;
}

static bool is_known_domain(const char *domain) {
    return domain[0] == 0 || strcmp(domain, "ai.onnx") == 0 ||
           strcmp(domain, "ai.onnx.preview.training") == 0 ||
           strcmp(domain, "ai.onnx.training") == 0;
}

ox_handler ox_find_handler(const char *domain, const char *op, int64_t opset, int64_t *out_since,
                           rlx_op *out_op, const char **out_reason) {
    const row *found = is_known_domain(domain) ? find_row(op) : NULL;
    *out_reason = is_known_domain(domain) ? "the op is not supported"
                                          : "ops of this domain are not supported";
    if (found == NULL) return NULL;
    *out_since = 0;
    for (uint32_t i = 0; i < MOST_VERSIONS && found->versions[i] != 0; i++) {
        if (found->versions[i] <= opset) *out_since = found->versions[i];
    }
    *out_op = found->op;
    *out_reason = "the op is newer than the model's opset";
    return *out_since == 0 ? NULL : found->handler;
}
