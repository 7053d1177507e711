/* SPDX-License-Identifier: Apache-2.0 */
/* One conversation in one arena; then the same again from a clone, from a saved state and from a
 * saved program, which all must give the same bits; then the uncached forward. */
#include "demo_device.h"

#include "demo_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Two prefills and three single tokens. */
static const int64_t prompt[] = {84,  104, 101, 32,  99, 97,  116, 32,  115, 97,
                                 116, 32,  111, 110, 32, 116, 104, 101, 32};
const uint32_t demo_prompt_count = sizeof prompt / sizeof *prompt;

enum { REPEATS = 3 };

/* What one device needs while it is measured; all owned. */
typedef struct run {
    demo_job *job;
    demo_result *result;
    demo_memory *memory;
    rlx_device *device;
    rlx_program *program;
    rlx_exec *exec;
    bool has_own_memory; /* a GPU's: no allocator sees it */
    rlx_exec *clone;     /* made in the middle of the conversation */
    demo_chat half;      /* the conversation at that point */
    char program_path[544], state_path[544];
} run;

#define TRY(call)                                    \
    do {                                             \
        rlx_status try_status = (call);              \
        if (try_status != RLX_OK) return try_status; \
    } while (0)

rlx_status demo_chat_prompt(demo_chat *chat) {
    return demo_chat_feed(chat, prompt, demo_prompt_count);
}

static rlx_status open_sessions(demo_job *job) {
    rlx_graph *graph = NULL;
    TRY(demo_model_build(true, &graph));
    rlx_status status = rlx_session_create(NULL, graph, &job->cached);
    if (status != RLX_OK) rlx_graph_destroy(graph);
    TRY(status);
    TRY(demo_model_build(false, &graph));
    status = rlx_session_create(NULL, graph, &job->uncached);
    if (status != RLX_OK) rlx_graph_destroy(graph);
    return status;
}

rlx_status demo_job_begin(demo_job *job, uint32_t generate) {
    const rlx_device_options one_thread = {.size = sizeof one_thread, .threads = 1};
    memset(job, 0, sizeof *job);
    job->generate = generate;
    TRY(open_sessions(job));
    return rlx_device_open("cpu:scalar", &one_thread, &job->scalar);
}

void demo_job_end(demo_job *job) {
    rlx_session_destroy(job->cached);
    rlx_session_destroy(job->uncached);
    rlx_device_release(job->scalar);
}

/* Scalar kernels, no fusion, no views, no memory used twice. */
static rlx_status run_uncached(demo_job *job, demo_chat *out) {
    const rlx_binding size = {"S", out->count};
    const rlx_entry_spec entry = {.name = "full", .bindings = &size, .binding_count = 1};
    const rlx_compile_options plain = {.size = sizeof plain,
                                       .entries = &entry,
                                       .entry_count = 1,
                                       .disabled_passes = (UINT64_C(1) << rlx_pass_count()) - 1,
                                       .without_reuse = true};
    int64_t positions[DEMO_CAPACITY];
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    uint64_t bytes = out->count * sizeof *positions;
    for (uint32_t i = 0; i < out->count; i++)
        positions[i] = i;
    TRY(rlx_session_compile(job->uncached, job->scalar, &plain, NULL, &program));
    rlx_status status = rlx_exec_create(program, NULL, &exec);
    rlx_program_release(program);
    if (status == RLX_OK) status = rlx_exec_set(exec, 0, "tokens", out->tokens, bytes);
    if (status == RLX_OK) status = rlx_exec_set(exec, 0, "positions", positions, bytes);
    if (status == RLX_OK) status = rlx_exec_run(exec, 0);
    if (status == RLX_OK) {
        status = rlx_exec_read_f32(exec, 0, "logits", out->logits,
                                   (uint64_t)out->count * DEMO_VOCABULARY, NULL);
    }
    rlx_exec_destroy(exec);
    return status;
}

/* Devices that chose the same tokens share one reference. */
rlx_status demo_compare_with_uncached(demo_job *job, demo_result *result) {
    demo_chat *reference = &job->reference;
    const demo_chat *chat = &result->chat;
    uint64_t bytes = chat->count * sizeof *chat->tokens;
    if (reference->count != chat->count ||
        memcmp(reference->tokens, chat->tokens, (size_t)bytes) != 0) {
        reference->count = chat->count;
        memcpy(reference->tokens, chat->tokens, (size_t)bytes);
        rlx_status status = run_uncached(job, reference);
        if (status != RLX_OK) reference->count = 0;
        TRY(status);
    }
    result->difference = demo_chat_difference(reference, chat, NULL);
    return RLX_OK;
}

/* The plan is made from the name alone, before the device is opened or a weight is read. */
static rlx_status plan_run(run *self, uint32_t threads, rlx_plan **out_plan) {
    const rlx_compile_options options = {
        .size = sizeof options, .entries = demo_entries, .entry_count = 2};
    TRY(rlx_session_plan(self->job->cached, self->result->device, threads, &options, out_plan));
    self->result->planned_bytes = rlx_plan_arena_bytes(*out_plan);
    return RLX_OK;
}

static rlx_status open_device(run *self, uint32_t threads) {
    const rlx_device_options options = {.size = sizeof options, .threads = threads};
    rlx_device_info info;
    TRY(rlx_device_open(self->result->device, &options, &self->device));
    TRY(rlx_device_describe(self->device, &info));
    self->result->threads = info.threads;
    self->has_own_memory = strcmp(info.kind, "cpu") != 0;
    return RLX_OK;
}

static rlx_status open_run(run *self, uint32_t threads) {
    const rlx_allocator allocator = demo_memory_allocator(self->memory);
    const rlx_program_options program = {.size = sizeof program, .allocator = &allocator};
    const rlx_exec_options exec = {.size = sizeof exec, .allocator = &allocator};
    rlx_plan *plan = NULL;
    TRY(plan_run(self, threads, &plan));
    rlx_status status = open_device(self, threads);
    if (status == RLX_OK) {
        status = rlx_program_create(self->device, plan, &program, &self->program);
    }
    if (status != RLX_OK) rlx_plan_destroy(plan); /* consumed on success only */
    TRY(status);
    TRY(rlx_exec_create(self->program, &exec, &self->exec));
    self->result->mapped_bytes =
        self->has_own_memory ? rlx_arena_bytes(rlx_exec_arena(self->exec))
                             : demo_memory_arena_bytes(self->memory, rlx_exec_arena(self->exec));
    return RLX_OK;
}

static void note_problem(run *self, const char *text) {
    if (self->result->problem[0] != 0) return;
    snprintf(self->result->problem, sizeof self->result->problem, "%s", text);
}

static void expect_same_bits(run *self, const demo_chat *other, const char *problem) {
    bool has_same_bits = false;
    (void)demo_chat_difference(&self->result->chat, other, &has_same_bits);
    if (!has_same_bits) note_problem(self, problem);
}

/* The first conversation; in its middle the state is saved and the executable cloned. */
static rlx_status talk(run *self) {
    demo_chat *chat = &self->result->chat;
    uint32_t generate = self->job->generate;
    TRY(demo_chat_begin(chat, self->exec));
    TRY(demo_chat_feed(chat, prompt, demo_prompt_count));
    TRY(demo_chat_generate(chat, generate / 2));
    TRY(rlx_exec_save_state(self->exec, self->state_path));
    TRY(rlx_exec_clone(self->exec, 0, &self->clone));
    TRY(demo_chat_fork(chat, self->clone, &self->half));
    TRY(demo_chat_generate(chat, generate - generate / 2));
    return RLX_OK;
}

/* From the middle on in `exec`, whose state is that of the middle. */
static rlx_status go_on(run *self, rlx_exec *exec, const char *problem) {
    demo_chat *chat = malloc(sizeof *chat);
    if (chat == NULL) return RLX_OUT_OF_MEMORY;
    rlx_status status = demo_chat_fork(&self->half, exec, chat);
    if (status == RLX_OK) {
        status = demo_chat_generate(chat, self->job->generate - self->job->generate / 2);
    }
    if (status == RLX_OK) expect_same_bits(self, chat, problem);
    free(chat);
    return status;
}

/* From the first token on; gives the time per decoded token. */
static rlx_status start_again(run *self, rlx_exec *exec, const char *problem, double *out_ns) {
    demo_chat *chat = malloc(sizeof *chat);
    if (chat == NULL) return RLX_OUT_OF_MEMORY;
    rlx_status status = demo_chat_begin(chat, exec);
    if (status == RLX_OK) status = rlx_exec_reset_state(exec);
    if (status == RLX_OK) status = demo_chat_feed(chat, prompt, demo_prompt_count);
    if (status == RLX_OK) status = demo_chat_generate(chat, self->job->generate);
    if (status == RLX_OK) expect_same_bits(self, chat, problem);
    if (status == RLX_OK) *out_ns = (double)chat->decode_ns / chat->decode_count;
    free(chat);
    return status;
}

static rlx_status measure_speed(run *self) {
    double best_ns = 0, ns = 0;
    for (int i = 0; i < REPEATS; i++) {
        TRY(start_again(self, self->exec, "the conversation after reset_state differs", &ns));
        if (i == 0 || ns < best_ns) best_ns = ns;
    }
    self->result->tokens_per_second = best_ns > 0 ? 1e9 / best_ns : 0;
    return RLX_OK;
}

/* A program file is mapped, not read; the state file continues in an executable of it. */
static rlx_status check_files(run *self) {
    rlx_program *loaded = NULL;
    rlx_exec *exec = NULL;
    double ns;
    TRY(rlx_program_save(self->program, self->program_path));
    TRY(rlx_program_load(self->device, self->program_path, NULL, &loaded));
    if (!rlx_program_is_mapped(loaded)) note_problem(self, "the loaded program is not mapped");
    rlx_status status = rlx_exec_create(loaded, NULL, &exec);
    rlx_program_release(loaded);
    if (status == RLX_OK) status = rlx_exec_restore_state(exec, self->state_path);
    if (status == RLX_OK) status = go_on(self, exec, "the restored conversation differs");
    if (status == RLX_OK) status = start_again(self, exec, "the loaded program differs", &ns);
    rlx_exec_destroy(exec);
    return status;
}

/* A quarter of the weights, or what the largest tile needs. */
static rlx_status load_streamed(run *self, rlx_program **out_program) {
    rlx_program_options options = {.size = sizeof options};
    options.weights_budget = rlx_program_weights_bytes(self->program) / 4;
    rlx_status status = rlx_program_load(self->device, self->program_path, &options, out_program);
    if (status == RLX_DOES_NOT_FIT) {
        options.weights_budget = rlx_last_error_detail()->bytes;
        status = rlx_program_load(self->device, self->program_path, &options, out_program);
    }
    return status;
}

/* Most weights are read from the program file for every token, and every logit is the same. */
static rlx_status check_streamed(run *self) {
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_stream_info info = {0};
    rlx_stream_entry_info reads = {0};
    double ns;
    TRY(load_streamed(self, &program));
    rlx_status status = rlx_plan_stream_info(rlx_program_plan(program), &info);
    if (status == RLX_OK) {
        status =
            rlx_plan_stream_entry(rlx_program_plan(program), self->result->chat.decode, &reads);
    }
    if (status == RLX_OK) status = rlx_exec_create(program, NULL, &exec);
    rlx_program_release(program);
    if (status == RLX_OK) status = rlx_exec_restore_state(exec, self->state_path);
    if (status == RLX_OK) status = go_on(self, exec, "the streamed conversation differs");
    if (status == RLX_OK) status = start_again(self, exec, "the streamed program differs", &ns);
    rlx_exec_destroy(exec);
    self->result->weights_bytes = info.weights_bytes;
    self->result->budget_bytes = info.budget_bytes;
    self->result->read_bytes = reads.read_bytes;
    if (reads.read_bytes == 0) note_problem(self, "the streamed program reads nothing");
    return status;
}

static rlx_status run_all(run *self, uint32_t threads) {
    TRY(open_run(self, threads));
    TRY(talk(self));
    TRY(go_on(self, self->clone, "the clone's conversation differs"));
    TRY(check_files(self));
    TRY(check_streamed(self));
    TRY(measure_speed(self));
    if (self->result->mapped_bytes != self->result->planned_bytes) {
        note_problem(self, "the arena has other bytes than were planned");
    }
    return demo_compare_with_uncached(self->job, self->result);
}

static void close_run(run *self) {
    unlink(self->state_path);
    unlink(self->program_path);
    rlx_exec_destroy(self->clone);
    rlx_exec_destroy(self->exec);
    rlx_program_release(self->program);
    rlx_device_release(self->device);
    demo_memory_destroy(self->memory);
    free(self);
}

rlx_status demo_run_device(demo_job *job, const char *device, uint32_t threads,
                           demo_result *out_result) {
    run *self = calloc(1, sizeof *self);
    if (self == NULL) return RLX_OUT_OF_MEMORY;
    memset(out_result, 0, sizeof *out_result);
    snprintf(out_result->device, sizeof out_result->device, "%s", device);
    snprintf(self->program_path, sizeof self->program_path, "%s/program", job->folder);
    snprintf(self->state_path, sizeof self->state_path, "%s/state", job->folder);
    self->job = job;
    self->result = out_result;
    self->memory = demo_memory_create();
    rlx_status status = self->memory == NULL ? RLX_OUT_OF_MEMORY : run_all(self, threads);
    close_run(self);
    return status;
}
