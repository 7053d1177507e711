/* SPDX-License-Identifier: Apache-2.0 */
/* rlx-bench-peer LIBRARY: multiplies matrices with OpenBLAS or oneDNN when told to, one line at a
 * time: "set M K N THREADS" makes operands, "run COUNT" answers with the least time of so many
 * products in ns. A process of its own, so that its threads and its memory are its own too. Built
 * only where the libraries are found; knows nothing of rlx. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(HAVE_OPENBLAS)
#include <cblas.h>
#endif
#if defined(HAVE_ONEDNN)
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#endif

typedef struct product {
    int m, k, n;
    float *x, *w, *y; /* owned */
} product;

typedef struct library {
    const char *name;
    bool (*set)(const product *of, int threads);
    bool (*run)(const product *of);
} library;

#if defined(HAVE_OPENBLAS)
static bool openblas_set(const product *of, int threads) {
    (void)of;
    openblas_set_num_threads(threads);
    return true;
}

/* It has no weights packed ahead; one row is its matrix x vector. */
static bool openblas_run(const product *of) {
    if (of->m == 1) {
        cblas_sgemv(CblasRowMajor, CblasTrans, of->k, of->n, 1, of->w, of->n, of->x, 1, 0, of->y,
                    1);
    } else {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, of->m, of->n, of->k, 1, of->x, of->k,
                    of->w, of->n, 0, of->y, of->n);
    }
    return true;
}
#endif

#if defined(HAVE_ONEDNN)
static struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t x, w, y;
} onednn;

static bool good(dnnl_status_t status) {
    return status == dnnl_success;
}

static void onednn_drop(void) {
    if (onednn.primitive != NULL) dnnl_primitive_destroy(onednn.primitive);
    if (onednn.x != NULL) dnnl_memory_destroy(onednn.x);
    if (onednn.w != NULL) dnnl_memory_destroy(onednn.w);
    if (onednn.y != NULL) dnnl_memory_destroy(onednn.y);
    onednn.primitive = NULL, onednn.x = onednn.w = onednn.y = NULL;
}

/* The weights, from their plain order into the one that the library likes best. */
static bool onednn_pack(const product *of, const dnnl_memory_desc_t *plain,
                        const dnnl_memory_desc_t *wanted) {
    dnnl_memory_t from = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t reorder = NULL;
    bool is_good =
        good(dnnl_memory_create(&from, plain, onednn.engine, of->w)) &&
        good(dnnl_memory_create(&onednn.w, wanted, onednn.engine, DNNL_MEMORY_ALLOCATE)) &&
        good(dnnl_reorder_primitive_desc_create(&desc, plain, onednn.engine, wanted, onednn.engine,
                                                NULL)) &&
        good(dnnl_primitive_create(&reorder, desc));
    if (is_good) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, onednn.w}};
        is_good = good(dnnl_primitive_execute(reorder, onednn.stream, 2, args)) &&
                  good(dnnl_stream_wait(onednn.stream));
    }
    if (reorder != NULL) dnnl_primitive_destroy(reorder);
    if (desc != NULL) dnnl_primitive_desc_destroy(desc);
    if (from != NULL) dnnl_memory_destroy(from);
    return is_good;
}

static bool onednn_make(const product *of) {
    dnnl_dims_t x = {of->m, of->k}, w = {of->k, of->n}, y = {of->m, of->n};
    dnnl_memory_desc_t x_desc, w_desc, y_desc, any;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc = NULL;
    bool is_good =
        good(dnnl_memory_desc_init_by_tag(&x_desc, 2, x, dnnl_f32, dnnl_ab)) &&
        good(dnnl_memory_desc_init_by_tag(&w_desc, 2, w, dnnl_f32, dnnl_ab)) &&
        good(dnnl_memory_desc_init_by_tag(&any, 2, w, dnnl_f32, dnnl_format_tag_any)) &&
        good(dnnl_memory_desc_init_by_tag(&y_desc, 2, y, dnnl_f32, dnnl_ab)) &&
        good(dnnl_matmul_desc_init(&matmul, &x_desc, &any, NULL, &y_desc)) &&
        good(dnnl_primitive_desc_create(&desc, &matmul, NULL, onednn.engine, NULL)) &&
        good(dnnl_primitive_create(&onednn.primitive, desc)) &&
        onednn_pack(of, &w_desc, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0)) &&
        good(dnnl_memory_create(&onednn.x, &x_desc, onednn.engine, of->x)) &&
        good(dnnl_memory_create(&onednn.y, &y_desc, onednn.engine, of->y));
    if (desc != NULL) dnnl_primitive_desc_destroy(desc);
    return is_good;
}

static bool onednn_set(const product *of, int threads) {
    omp_set_num_threads(threads);
    onednn_drop();
    if (onednn.engine == NULL &&
        (!good(dnnl_engine_create(&onednn.engine, dnnl_cpu, 0)) ||
         !good(dnnl_stream_create(&onednn.stream, onednn.engine, dnnl_stream_default_flags)))) {
        return false;
    }
    return onednn_make(of);
}

static bool onednn_run(const product *of) {
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, onednn.x}, {DNNL_ARG_WEIGHTS, onednn.w}, {DNNL_ARG_DST, onednn.y}};
    (void)of;
    return good(dnnl_primitive_execute(onednn.primitive, onednn.stream, 3, args)) &&
           good(dnnl_stream_wait(onednn.stream));
}
#endif

static const library libraries[] = {
#if defined(HAVE_OPENBLAS)
    {"openblas", openblas_set, openblas_run},
#endif
#if defined(HAVE_ONEDNN)
    {"onednn", onednn_set, onednn_run},
#endif
    {NULL, NULL, NULL},
};

static float *make_matrix(int rows, int columns) {
    size_t count = (size_t)rows * (size_t)columns;
    float *matrix = aligned_alloc(64, (count * sizeof *matrix + 63) / 64 * 64);
    for (size_t i = 0; matrix != NULL && i < count; i++)
        matrix[i] = (float)((i * 2654435761u >> 8) % 2001u) * 0.001f - 1.0f;
    return matrix;
}

static bool set_product(const library *by, product *of, const char *line) {
    int threads = 0;
    free(of->x), free(of->w), free(of->y);
    *of = (product){0};
    if (sscanf(line, "set %d %d %d %d", &of->m, &of->k, &of->n, &threads) != 4) return false;
    of->x = make_matrix(of->m, of->k);
    of->w = make_matrix(of->k, of->n);
    of->y = make_matrix(of->m, of->n);
    return of->x != NULL && of->w != NULL && of->y != NULL && by->set(of, threads) && by->run(of);
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double least_time(const library *by, const product *of, const char *line) {
    double least = -1;
    for (long left = strtol(line + 4, NULL, 10); left > 0; left--) {
        double start = now_ns();
        if (!by->run(of)) return -1;
        double ns = now_ns() - start;
        if (least < 0 || ns < least) least = ns;
    }
    return least;
}

int main(int argc, char **argv) {
    char line[256];
    const library *by = libraries;
    product of = {0};
    while (argc == 2 && by->name != NULL && strcmp(by->name, argv[1]) != 0)
        by++;
    if (argc != 2 || by->name == NULL) return 2;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "run ", 4) == 0) {
            printf("%.0f\n", least_time(by, &of, line));
        } else {
            bool is_set = strncmp(line, "set ", 4) != 0 || set_product(by, &of, line);
            puts(is_set ? "ok" : "failed");
        }
        fflush(stdout);
    }
    return 0;
}
