/* SPDX-License-Identifier: Apache-2.0 */
/* A model that is ready to run. */
#include "ready.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static bool check(rlx_status status) {
    if (status == RLX_OK) return true;
    fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
    return false;
}

static rlx_status fill_input(ready *self, uint32_t index) {
    rlx_port_info info;
    rlx_status status = rlx_program_input(self->program, 0, index, &info);
    if (status != RLX_OK) return status;
    float *values = malloc((size_t)info.elements * sizeof *values + 1);
    if (values == NULL) return RLX_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < info.elements; i++)
        values[i] = (float)((i * 2654435761u >> 8) % 2001u) * 0.001f - 1.0f;
    status = rlx_exec_set_input_f32(self->exec, 0, index, values, info.elements);
    free(values);
    return status;
}

/* Those that make one node of several, or none. */
static uint64_t merging_passes(void) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < rlx_pass_count(); i++) {
        const char *name = rlx_pass_name(i);
        if (strncmp(name, "fuse", 4) == 0 || strcmp(name, "canonicalise") == 0)
            found |= UINT64_C(1) << i;
    }
    return found;
}

static rlx_status compile(ready *self, const char *text, const char *device,
                          const rlx_device_options *how, bool is_plain) {
    rlx_compile_options options = {.size = sizeof options, .keep_inputs = true};
    rlx_graph *graph = NULL;
    rlx_entry_info entry;
    options.disabled_passes = is_plain ? merging_passes() : 0;
    rlx_status status = rlx_device_open(device, how, &self->device);
    if (status == RLX_OK) status = rlx_graph_parse(NULL, text, strlen(text), &graph);
    if (status == RLX_OK) status = rlx_session_create(NULL, graph, &self->session);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    status = rlx_session_compile(self->session, self->device, &options, NULL, &self->program);
    if (status == RLX_OK) status = rlx_exec_create(self->program, NULL, &self->exec);
    if (status == RLX_OK) status = rlx_plan_entry_at(rlx_program_plan(self->program), 0, &entry);
    for (uint32_t i = 0; status == RLX_OK && i < entry.input_count; i++)
        status = fill_input(self, i);
    return status;
}

bool ready_make(ready *self, const char *text, uint32_t threads, bool is_plain) {
    rlx_device_options options = {.size = sizeof options, .threads = threads};
    return ready_make_on(self, text, "cpu", &options, is_plain);
}

bool ready_make_on(ready *self, const char *text, const char *device,
                   const rlx_device_options *options, bool is_plain) {
    *self = (ready){0};
    return check(compile(self, text, device, options, is_plain));
}

double ready_run(ready *self) {
    uint64_t start = rlx_bench_now_ns();
    if (!check(rlx_exec_run(self->exec, 0))) return -1;
    return (double)(rlx_bench_now_ns() - start);
}

void ready_free(ready *self) {
    rlx_exec_destroy(self->exec);
    rlx_program_release(self->program);
    rlx_session_destroy(self->session);
    rlx_device_release(self->device);
}
