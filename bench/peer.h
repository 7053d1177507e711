/* SPDX-License-Identifier: Apache-2.0 */
/* Another library that multiplies matrices, in a process of its own (peer_program.c): it is stopped
 * while it is not asked, so that its idle threads take nothing from us. */
#ifndef RLX_BENCH_PEER_H
#define RLX_BENCH_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The libraries that the program may have been built with. */
extern const char *const peer_names[];
enum { PEER_COUNT = 2 };

typedef struct peer {
    pid_t process; /* 0: not there */
    int to, from;
} peer;

/* Starts the program that lies beside this one. False without a message: it was not built. */
bool peer_start(peer *self, const char *library);
/* Makes x [m][k] and packed weights [k][n] ready. */
bool peer_set(peer *self, int m, int k, int n, uint32_t threads);
/* The least time of `runs` products, in ns; negative: it is gone. */
double peer_run(peer *self, uint32_t runs);
void peer_end(peer *self);

#endif
