/* SPDX-License-Identifier: Apache-2.0 */
/* rlx-bench-mpi: the twin of `rlx bench collective` for private buffers: MPI_Allreduce of f32 sums
 * on two ranks, measured the same way. Rank 0 prints "BYTES NS" per size, the best of the trials.
 * Built only where Open MPI is installed, started by mpirun; knows nothing of rlx. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIALS = 9, SMALL_REPS = 2000, MOST_REPS = 64 };

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int reps_for(uint64_t bytes) {
    if (bytes <= 1 << 16) return 64;
    if (bytes <= 1 << 20) return 16;
    return bytes <= 16 << 20 ? 3 : 1;
}

/* Small ones as a whole, others one by one with an input that was just written. */
static double trial(float *in, float *out, uint64_t bytes, int rank) {
    double mine[MOST_REPS], slower[MOST_REPS];
    int count = (int)(bytes / sizeof *in), reps = 1;
    if (bytes < 64 << 10) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        for (int i = 0; i < SMALL_REPS; i++)
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        mine[0] = (now_ns() - start) / SMALL_REPS;
    } else {
        reps = reps_for(bytes);
        for (int i = 0; i < reps; i++) {
            for (int k = 0; k < count; k++)
                in[k] = (float)(k % 1000 + rank);
            MPI_Barrier(MPI_COMM_WORLD);
            double start = now_ns();
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            mine[i] = now_ns() - start;
        }
    }
    MPI_Allreduce(mine, slower, reps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(slower, (size_t)reps, sizeof *slower, compare);
    return slower[reps / 2];
}

int main(int argc, char **argv) {
    static const uint64_t sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *in = calloc(1, 64 << 20), *out = calloc(1, 64 << 20);
    if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(in, 0, 64 << 20);
    memset(out, 0, 64 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double best = 0;
        for (int k = 0; k < TRIALS; k++) {
            double ns = trial(in, out, sizes[i], rank);
            if (k == 0 || ns < best) best = ns;
        }
        if (rank == 0) printf("%llu %.1f\n", (unsigned long long)sizes[i], best);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
