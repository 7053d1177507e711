/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that dies under mpirun: `mpi_kill mapped|network VICTIM FOLDER`. Each rank writes its
 * process number to FOLDER/process.RANK and works without end; the victim kills itself in the
 * middle of it. What a survivor gets, and when, goes to FOLDER/seen.RANK. mpi_kill_test.py starts
 * it and judges. */
#include <rlx/rlx.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200, COUNT = 20000 };

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time); /* the same for all processes of a host */
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Whole or not at all: readers come at any time. */
static void write_file(const char *folder, const char *name, uint32_t rank, const char *text) {
    char path[1024], draft[1040];
    snprintf(path, sizeof path, "%s/%s.%u", folder, name, rank);
    snprintf(draft, sizeof draft, "%s.draft", path);
    FILE *file = fopen(draft, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0 || rename(draft, path) != 0) {
        fprintf(stderr, "%s is not written\n", path);
        exit(3);
    }
}

static void write_number(const char *folder, const char *name, uint32_t rank, uint64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    write_file(folder, name, rank, text);
}

/* Collectives until one fails; the victim ends in the middle of them. */
static rlx_status work(rlx_transport *transport, const char *folder, uint32_t victim) {
    static float values[COUNT];
    uint32_t rank = rlx_transport_rank(transport);
    for (uint32_t round = 0;; ++round) {
        rlx_status status;
        if (rank == victim && round == ROUNDS) {
            write_number(folder, "killed", rank, now_ns());
            raise(SIGKILL);
        }
        status = round % 3 == 0
                     ? rlx_transport_barrier(transport)
                     : rlx_all_reduce(transport, values, values, round % 3 == 1 ? 2 : COUNT,
                                      RLX_DTYPE_F32, RLX_REDUCTION_SUM);
        if (status != RLX_OK) return status;
    }
}

int main(int argc, char **argv) {
    const rlx_transport_options options = {.size = sizeof options,
                                           .timeout_ns = UINT64_C(20) * 1000000000u,
                                           .network = argc > 1 && strcmp(argv[1], "network") == 0};
    rlx_transport *transport = NULL;
    rlx_status status;
    rlx_rank who;
    char text[512];
    if (argc != 4 || rlx_env_rank(&who) != RLX_OK) return 2;
    write_number(argv[3], "process", who.rank, (uint64_t)getpid());
    if (rlx_transport_create_mpi(NULL, &who, 4096, &options, &transport) != RLX_OK) {
        fprintf(stderr, "%s\n", rlx_last_error());
        return 3;
    }
    status = work(transport, argv[3], (uint32_t)strtoul(argv[2], NULL, 10));
    snprintf(text, sizeof text, "%" PRIu64 " %d %u %s", now_ns(), (int)status,
             rlx_last_error_detail()->rank, rlx_last_error());
    write_file(argv[3], "seen", who.rank, text);
    rlx_transport_destroy(transport);
    return 0;
}
