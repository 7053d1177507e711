/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a program: refused, or a plan that verifies, saves to the same bytes, and whose
 * steps stay inside their buffers. Input is a plan section, so that no checksum stands in the way;
 * one that begins like a whole file is read as that. */
#include "fuzz/fuzz.h"
#include "plan/execute.h"
#include "plan/file.h"

#include <stdlib.h>

static void read_file(const uint8_t *data, size_t size) {
    rlx_file_map map = {data, size};
    rlx_plan *plan = NULL;
    uint64_t at;
    if (rlx_plan_load(NULL, &map, NULL, &plan, &at) == RLX_OK && at > size) abort();
    rlx_plan_destroy(plan);
}

static void check_same(const rlx_plan *plan, const uint8_t *data, size_t size) {
    rlx_text again = {0};
    rlx_plan_encode(plan, &again);
    if (again.status == RLX_OK && again.length == size && memcmp(again.data, data, size) != 0) {
        abort(); /* an older file may be shorter, but the same length is the same plan */
    }
    rlx_text_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rlx_plan *plan = NULL;
    if (rlx_is_program_file(data, size)) {
        read_file(data, size);
        return 0;
    }
    if (rlx_plan_decode(NULL, data, size, &plan) != RLX_OK) return 0;
    if (rlx_plan_verify(plan) == RLX_OK) {
        char *text = NULL;
        check_same(plan, data, size);
        execute_plan(plan, size);
        if (rlx_plan_print(plan, &text) == RLX_OK) rlx_free(NULL, text);
    }
    rlx_plan_destroy(plan);
    return 0;
}
