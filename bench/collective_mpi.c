/* SPDX-License-Identifier: Apache-2.0 */
/* rlx-bench-openmpi, rlx-bench-mpich: the other side of `rlx bench collective`, two ranks of an
 * MPI, built where that MPI is installed and started by its mpirun.
 *
 *   serve    one MPI_Allreduce trial per line "BYTES" on rank 0's stdin, its time as an answer: so
 *            that MPI and rlx take turns. Nobody spins in between
 *   network  MPI_Allreduce against rlx over messages, on the same MPI, in turns: rank 0 prints
 *            "BYTES RLX_NS MPI_NS" per size, the best trials, and the median of the ratios */
#include <mpi.h>
#include <rlx/rlx.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRIALS = 9, SMALL_REPS = 2000, MOST_REPS = 64, BYTES_MOST = 64 << 20 };

typedef struct twin {
    int rank;
    float *in, *out;
    rlx_transport *transport; /* network */
} twin;

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
    if (bytes <= 1 << 16) return MOST_REPS;
    if (bytes <= 1 << 20) return 16;
    return bytes <= 16 << 20 ? 3 : 1;
}

static void theirs(twin *self, uint64_t bytes) {
    MPI_Allreduce(self->in, self->out, (int)(bytes / sizeof *self->in), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void ours(twin *self, uint64_t bytes) {
    if (rlx_all_reduce(self->transport, self->in, self->out, bytes / sizeof *self->in,
                       RLX_DTYPE_F32, RLX_REDUCTION_SUM) != RLX_OK) {
        fprintf(stderr, "%s\n", rlx_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Small ones as a whole, others one by one with an input that was just written. */
static double trial(twin *self, void (*run)(twin *self, uint64_t bytes), uint64_t bytes,
                    int small_reps) {
    double mine[MOST_REPS], slower[MOST_REPS];
    int count = (int)(bytes / sizeof *self->in), reps = 1;
    if (bytes < 64 << 10) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        for (int i = 0; i < small_reps; i++)
            run(self, bytes);
        mine[0] = (now_ns() - start) / small_reps;
    } else {
        reps = reps_for(bytes);
        for (int i = 0; i < reps; i++) {
            for (int k = 0; k < count; k++)
                self->in[k] = (float)(k % 1000 + self->rank);
            MPI_Barrier(MPI_COMM_WORLD);
            double start = now_ns();
            run(self, bytes);
            mine[i] = now_ns() - start;
        }
    }
    MPI_Allreduce(mine, slower, reps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(slower, (size_t)reps, sizeof *slower, compare);
    return slower[reps / 2];
}

/* Rank 1 naps until rank 0 sends the next size; 0 ends it. */
static unsigned long long next_size(const twin *self) {
    unsigned long long bytes = 0;
    int is_there = 0;
    if (self->rank == 0) {
        if (scanf("%llu", &bytes) != 1 || bytes > BYTES_MOST) bytes = 0;
        MPI_Send(&bytes, 1, MPI_UNSIGNED_LONG_LONG, 1, 0, MPI_COMM_WORLD);
        return bytes;
    }
    while (!is_there) {
        MPI_Iprobe(0, 0, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        if (!is_there) usleep(2000);
    }
    MPI_Recv(&bytes, 1, MPI_UNSIGNED_LONG_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return bytes;
}

static void serve(twin *self) {
    for (unsigned long long bytes; (bytes = next_size(self)) != 0;) {
        (void)trial(self, theirs, bytes, 100); /* both are awake */
        double ns = trial(self, theirs, bytes, SMALL_REPS);
        if (self->rank == 0) {
            printf("%.1f\n", ns);
            fflush(stdout);
        }
    }
}

static int measure_network(twin *self) {
    static const uint64_t sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 16 << 20};
    const rlx_transport_options options = {.size = sizeof options, .network = true};
    rlx_rank who;
    if (rlx_env_rank(&who) != RLX_OK ||
        rlx_transport_create_mpi(NULL, &who, 4096, &options, &self->transport) != RLX_OK) {
        fprintf(stderr, "%s\n", rlx_last_error());
        return 1;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double best[2] = {0, 0}, ratios[TRIALS];
        (void)trial(self, ours, sizes[i], 100);
        (void)trial(self, theirs, sizes[i], 100);
        for (int k = 0; k < TRIALS; k++) {
            double a = trial(self, ours, sizes[i], SMALL_REPS / 4);
            double b = trial(self, theirs, sizes[i], SMALL_REPS / 4);
            if (k == 0 || a < best[0]) best[0] = a;
            if (k == 0 || b < best[1]) best[1] = b;
            ratios[k] = a / b;
        }
        qsort(ratios, TRIALS, sizeof *ratios, compare);
        if (self->rank == 0) {
            printf("%llu %.1f %.1f %.4f\n", (unsigned long long)sizes[i], best[0], best[1],
                   ratios[TRIALS / 2]);
            fflush(stdout);
        }
    }
    rlx_transport_destroy(self->transport);
    return 0;
}

int main(int argc, char **argv) {
    twin self = {.in = calloc(1, BYTES_MOST), .out = calloc(1, BYTES_MOST)};
    bool is_network = argc > 1 && strcmp(argv[1], "network") == 0;
    int level = 0, code = 0;
    MPI_Init_thread(&argc, &argv, is_network ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
    if (self.in == NULL || self.out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(self.in, 0, BYTES_MOST);
    memset(self.out, 0, BYTES_MOST);
    if (is_network) {
        code = measure_network(&self);
    } else {
        serve(&self);
    }
    free(self.in);
    free(self.out);
    MPI_Finalize();
    return code;
}
