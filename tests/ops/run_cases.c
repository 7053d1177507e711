/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every op case below a folder and compares what comes out.
 *
 *     test_ops [ENGINE [FOLDER [PART]]]
 *
 * ENGINE is one of engine.h ("oracle" by default), FOLDER "cases" by default; only cases whose path
 * contains PART.
 */
#include "ops/case.h"
#include "ops/engine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t input_types(const rlx_graph *model, rlx_type *out_types) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->values.count && count < RLX_CASE_MAX_ARRAYS; i++) {
        if (model->values.items[i].kind == RLX_VALUE_INPUT)
            out_types[count++] = model->values.items[i].type;
    }
    return count;
}

static rlx_status check_outputs(const rlx_case *self, uint32_t run, rlx_test_array *actual) {
    rlx_test_array expected[RLX_CASE_MAX_ARRAYS] = {0};
    rlx_type types[RLX_CASE_MAX_ARRAYS];
    uint32_t count = self->model->outputs.count;
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < count; i++)
        types[i] = rlx_type_make(actual[i].dtype, actual[i].shape.dims, actual[i].shape.rank);
    RLX_TRY(rlx_case_arrays(self, false, run, types, count, expected));
    for (uint32_t i = 0; i < count && status == RLX_OK; i++) {
        status = rlx_case_compare(self, &expected[i], &actual[i]);
        if (status != RLX_OK) rlx_fail_context(status, "run %u, output %u", run, i);
    }
    rlx_case_free_arrays(expected, count);
    return status;
}

/* One run; RLX_NOT_FOUND when the case has no inputs for it. */
static rlx_status run_once(const rlx_case *self, const char *engine_name, uint32_t run,
                           rlx_engine **engine) {
    rlx_test_array inputs[RLX_CASE_MAX_ARRAYS] = {0}, outputs[RLX_CASE_MAX_ARRAYS] = {0};
    rlx_type types[RLX_CASE_MAX_ARRAYS];
    uint32_t count = input_types(self->model, types), output_count = self->model->outputs.count;
    if (output_count > RLX_CASE_MAX_ARRAYS)
        return RLX_FAIL(RLX_UNSUPPORTED, "a case with %u outputs", output_count);
    RLX_TRY(rlx_case_arrays(self, true, run, types, count, inputs));
    rlx_status status = RLX_OK;
    if (*engine == NULL)
        status = rlx_engine_create(engine_name, self->model, inputs, count, engine);
    if (status == RLX_OK) status = rlx_engine_run(*engine, inputs, count, outputs, output_count);
    if (status == RLX_OK) {
        status = check_outputs(self, run, outputs);
        rlx_case_free_arrays(outputs, output_count);
    }
    rlx_case_free_arrays(inputs, count);
    /* Not there is the end of the runs only when it is said of the inputs. */
    return status == RLX_NOT_FOUND ? RLX_DIFFERS : status;
}

static rlx_status run_all(const rlx_case *self, const char *engine_name) {
    rlx_engine *engine = NULL;
    rlx_status status = RLX_OK;
    bool has_inputs = false;
    for (uint32_t i = 0; i < self->model->values.count; i++)
        has_inputs = has_inputs || self->model->values.items[i].kind == RLX_VALUE_INPUT;
    for (uint32_t run = 0; status == RLX_OK; run++) {
        status = run_once(self, engine_name, run, &engine);
        if (status == RLX_NOT_FOUND && run > 0) {
            status = RLX_OK;
            break;
        }
        if (!has_inputs) break;
    }
    rlx_engine_destroy(engine);
    return status;
}

static rlx_status run_case(const char *folder, const char *engine_name) {
    rlx_case self = {0};
    char message[RLX_ERROR_TEXT_BYTES];
    RLX_TRY(rlx_case_open(folder, &self));
    rlx_status status = self.model != NULL ? run_all(&self, engine_name) : RLX_INVALID_GRAPH;
    if (self.error[0] != 0) {
        snprintf(message, sizeof message, "%s", status != RLX_OK ? rlx_last_error() : "");
        if (strstr(message, self.error) != NULL) {
            status = RLX_OK;
        } else {
            status =
                RLX_FAIL(RLX_DIFFERS, "expected the error '%s', got '%s'", self.error, message);
        }
    }
    rlx_case_close(&self);
    return status;
}

typedef struct case_tally {
    const char *engine, *part;
    uint32_t passed, failed;
} case_tally;

/* Folders with a model are cases; others hold cases. */
static void walk(const char *folder, uint32_t depth, case_tally *tally) {
    char path[1024];
    snprintf(path, sizeof path, "%s/model.rlx", folder);
    if (access(path, R_OK) == 0) {
        if (tally->part != NULL && strstr(folder, tally->part) == NULL) return;
        rlx_status status = run_case(folder, tally->engine);
        if (status != RLX_OK) printf("%s: %s\n", folder, rlx_last_error());
        tally->passed += status == RLX_OK;
        tally->failed += status != RLX_OK;
        return;
    }
    struct dirent **entries = NULL;
    int count = depth < 4 ? scandir(folder, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && entries[i]->d_type == DT_DIR)
            walk(path, depth + 1, tally);
        free(entries[i]);
    }
    free(entries);
}

int main(int argument_count, char **arguments) {
    case_tally tally = {.engine = argument_count > 1 ? arguments[1] : "oracle",
                        .part = argument_count > 3 ? arguments[3] : NULL};
    enum { SKIPPED = 77 };
    if (rlx_engine_probe(tally.engine) != RLX_OK) {
        printf("skipped: %s\n", rlx_last_error());
        return SKIPPED;
    }
    walk(argument_count > 2 ? arguments[2] : "cases", 0, &tally);
    rlx_engine_release_devices();
    printf("%s: %u cases passed, %u failed\n", tally.engine, tally.passed, tally.failed);
    return tally.failed > 0 || tally.passed == 0;
}
