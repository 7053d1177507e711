/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime as an engine of the ONNX benchmark: the shared library of the npm package, opened at
 * run time and called through its C interface, so that neither a script engine nor a copy stands
 * between the clock and its kernels. The interface is a table of functions whose order is fixed for
 * good; only the entries used here are named. */
#include "engine.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Positions in the table of functions. */
enum {
    ORT_ERROR_MESSAGE = 2,
    ORT_CREATE_ENV = 3,
    ORT_DISABLE_TELEMETRY = 6,
    ORT_CREATE_SESSION = 7,
    ORT_RUN = 9,
    ORT_CREATE_OPTIONS = 10,
    ORT_SET_LEVEL = 23,
    ORT_SET_INTRA_THREADS = 24,
    ORT_SET_INTER_THREADS = 25,
    ORT_CREATE_TENSOR = 49,
    ORT_TENSOR_DATA = 51,
    ORT_ELEMENT_COUNT = 64,
    ORT_TENSOR_INFO = 65,
    ORT_CREATE_CPU_MEMORY = 69
};
enum { ORT_VERSION = 17, ORT_LOG_ERROR = 3, ORT_F32 = 1, ORT_I32 = 6, ORT_I64 = 7, ORT_BOOL = 9 };

typedef void ort_function(void);
typedef struct ort_base {
    ort_function *const *(*api)(uint32_t version);
    const char *(*version)(void);
} ort_base;

typedef void *ort_status;
typedef const char *message_fn(ort_status status);
typedef ort_status create_env_fn(int level, const char *id, void **out);
typedef ort_status env_fn(const void *env);
typedef ort_status create_session_fn(const void *env, const char *path, const void *options,
                                     void **out);
typedef ort_status run_fn(void *session, const void *options, const char *const *names,
                          const void *const *values, size_t count, const char *const *out_names,
                          size_t out_count, void **outputs);
typedef ort_status create_fn(void **out);
typedef ort_status set_int_fn(void *options, int value);
typedef ort_status tensor_fn(const void *memory, void *data, size_t bytes, const int64_t *dims,
                             size_t rank, int type, void **out);
typedef ort_status data_fn(void *value, void **out);
typedef ort_status info_fn(const void *value, void **out);
typedef ort_status count_fn(const void *info, size_t *out);
typedef ort_status memory_fn(int allocator, int kind, void **out);

static ort_function *const *api;
static void *env, *options, *session, *inputs[ENGINE_MOST_PORTS], *outputs[ENGINE_MOST_PORTS];
static const char *in_names[ENGINE_MOST_PORTS], *out_names[ENGINE_MOST_PORTS];

static const char *message(ort_status status) {
    return status == NULL ? NULL : ((message_fn *)api[ORT_ERROR_MESSAGE])(status);
}

static const char *open_library(const char *path) {
    const ort_base *(*get)(void) = NULL;
    void *library, *symbol;
    if (setenv("ORT_DISABLE_TELEMETRY", "1", 1) != 0) return "setenv";
    library = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
    symbol = library != NULL ? dlsym(library, "OrtGetApiBase") : NULL;
    if (symbol == NULL) return "no libonnxruntime (--library)";
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from object to function */
    api = get()->api(ORT_VERSION);
    return api == NULL ? "the library does not know this version of its interface" : NULL;
}

static const char *make_inputs(const engine_case *c) {
    void *memory = NULL;
    ort_status status = ((memory_fn *)api[ORT_CREATE_CPU_MEMORY])(0, 0, &memory);
    for (uint32_t i = 0; status == NULL && i < c->input_count; i++) {
        const engine_input *in = &c->inputs[i];
        int type = in->is_f32            ? ORT_F32
                   : in->item_bytes == 8 ? ORT_I64
                   : in->item_bytes == 1 ? ORT_BOOL
                                         : ORT_I32;
        in_names[i] = in->name;
        status = ((tensor_fn *)api[ORT_CREATE_TENSOR])(memory, in->data, in->bytes, in->dims,
                                                       in->rank, type, &inputs[i]);
    }
    for (uint32_t i = 0; i < c->output_count; i++)
        out_names[i] = c->outputs[i];
    return message(status);
}

static const char *open_ort(const engine_case *c) {
    bool is_basic = c->level != NULL && strcmp(c->level, "basic") == 0;
    const char *wrong = open_library(c->library);
    if (wrong != NULL) return wrong;
    ort_status status = ((create_env_fn *)api[ORT_CREATE_ENV])(ORT_LOG_ERROR, "bench", &env);
    if (status == NULL) status = ((env_fn *)api[ORT_DISABLE_TELEMETRY])(env);
    if (status == NULL) status = ((create_fn *)api[ORT_CREATE_OPTIONS])(&options);
    if (status == NULL) status = ((set_int_fn *)api[ORT_SET_LEVEL])(options, is_basic ? 1 : 99);
    if (status == NULL)
        status = ((set_int_fn *)api[ORT_SET_INTRA_THREADS])(options, (int)c->threads);
    if (status == NULL) status = ((set_int_fn *)api[ORT_SET_INTER_THREADS])(options, 1);
    if (status == NULL)
        status = ((create_session_fn *)api[ORT_CREATE_SESSION])(env, c->model, options, &session);
    return status != NULL ? message(status) : make_inputs(c);
}

/* The first run makes the outputs, later ones write into them. */
static const char *run_ort(const engine_case *c) {
    const void *values[ENGINE_MOST_PORTS];
    memcpy(values, inputs, sizeof values);
    return message(((run_fn *)api[ORT_RUN])(session, NULL, in_names, values, c->input_count,
                                            out_names, c->output_count, outputs));
}

static const char *read_ort(const engine_case *c, uint32_t index, const float **out,
                            size_t *out_count) {
    void *info = NULL, *data = NULL;
    (void)c;
    ort_status status = ((info_fn *)api[ORT_TENSOR_INFO])(outputs[index], &info);
    if (status == NULL) status = ((count_fn *)api[ORT_ELEMENT_COUNT])(info, out_count);
    if (status == NULL) status = ((data_fn *)api[ORT_TENSOR_DATA])(outputs[index], &data);
    *out = data;
    return message(status);
}

const engine engine_ort = {"ort", open_ort, run_ort, read_ort, NULL};
