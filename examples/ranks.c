/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that add up their numbers. Started by hand it is one rank of one:
 *
 *     cc examples/ranks.c $(pkg-config --cflags --libs rlx) -o ranks
 *     rlx launch -n 4 -- ./ranks
 */
#include <rlx/rlx.h>

#include <stdio.h>

int main(void) {
    rlx_rank who;
    rlx_transport *ranks = NULL;
    float sum;
    rlx_status status = rlx_env_rank(&who);
    if (status == RLX_OK) status = rlx_transport_create(NULL, &who, 1 << 20, NULL, &ranks);
    if (status == RLX_OK) {
        sum = (float)who.rank;
        status = rlx_all_reduce(ranks, &sum, &sum, 1, RLX_DTYPE_F32, RLX_REDUCTION_SUM);
    }
    if (status == RLX_OK) {
        printf("rank %u of %u: the sum is %g\n", who.rank, who.rank_count, (double)sum);
    } else {
        fprintf(stderr, "%s\n", rlx_last_error());
    }
    rlx_transport_destroy(ranks);
    return status == RLX_OK ? 0 : 1;
}
