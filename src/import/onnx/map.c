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
    uint8_t versions[MOST_VERSIONS]; /* rising; 0 ends. Of com.microsoft: whose meaning it has */
} row;

static const row rows[] = {
#define ONNX_OP(name, handler, op, ...) {#name, rlx_ox_##handler, RLX_OP_##op, {__VA_ARGS__}},
#define MS_OP(name, handler, op, version) \
    {OX_MICROSOFT "." #name, rlx_ox_##handler, RLX_OP_##op, {version}},
#include "import/onnx/map.def"
#undef ONNX_OP
#undef MS_OP
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

const char *rlx_onnx_op_name(uint32_t index) {
    return index < ROW_COUNT ? rows[index].name : NULL;
}

static bool is_microsoft(const char *name) {
    return strncmp(name, OX_MICROSOFT, strlen(OX_MICROSOFT)) == 0;
}

uint32_t rlx_onnx_op_since(uint32_t index, uint32_t nth) {
    if (index >= ROW_COUNT || nth >= MOST_VERSIONS) return 0;
    return is_microsoft(rows[index].name) ? nth == 0 : rows[index].versions[nth];
}

static const row *find_row(const char *domain, const char *name) {
    bool wants_microsoft = strcmp(domain, OX_MICROSOFT) == 0;
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        const char *plain = rows[i].name;
        if (is_microsoft(plain) != wants_microsoft) continue;
        if (wants_microsoft) plain += sizeof OX_MICROSOFT; /* and the dot */
        if (strcmp(plain, name) == 0) return &rows[i];
    }
    return NULL;
}

static bool is_known_domain(const char *domain) {
    return domain[0] == 0 || strcmp(domain, "ai.onnx") == 0 ||
           strcmp(domain, "ai.onnx.preview.training") == 0 ||
           strcmp(domain, "ai.onnx.training") == 0 || strcmp(domain, OX_MICROSOFT) == 0;
}

ox_handler ox_find_handler(const char *domain, const char *op, int64_t opset, int64_t *out_since,
                           rlx_op *out_op, const char **out_reason) {
    const row *found = is_known_domain(domain) ? find_row(domain, op) : NULL;
    *out_reason = is_known_domain(domain) ? "the op is not supported"
                                          : "ops of this domain are not supported";
    if (found == NULL) return NULL;
    *out_since = 0;
    *out_op = found->op;
    if (is_microsoft(found->name)) { /* that domain has one version */
        *out_since = found->versions[0];
        return found->handler;
    }
    for (uint32_t i = 0; i < MOST_VERSIONS && found->versions[i] != 0; i++) {
        if (found->versions[i] <= opset) *out_since = found->versions[i];
    }
    *out_reason = "the op is newer than the model's opset";
    return *out_since == 0 ? NULL : found->handler;
}
