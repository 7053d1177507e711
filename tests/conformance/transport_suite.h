/* SPDX-License-Identifier: Apache-2.0 */
/* What every transport must do (DESIGN §7). A case is a body that each rank runs on an endpoint of
 * its own; how ranks come to be (threads, processes, an MPI launcher) is the test program's matter.
 * cmocka is not used in bodies: they return what they saw. */
#ifndef RLX_TESTS_TRANSPORT_SUITE_H
#define RLX_TESTS_TRANSPORT_SUITE_H

#include <rlx/collective.h>

#include <stdbool.h>

enum { TRANSPORT_HEAP_BYTES = 1 << 20, TRANSPORT_TEXT_BYTES = 512 };

/* One rank's view of a case. */
typedef struct transport_view {
    rlx_transport *transport;
    uint32_t rank, count;
    bool has_failed;
    char text[TRANSPORT_TEXT_BYTES]; /* the first thing that was wrong */
} transport_view;

typedef struct transport_case {
    const char *name;
    void (*body)(transport_view *view);
} transport_case;

extern const transport_case transport_cases[];
extern const uint32_t transport_case_count;

/* Notes the first failure of a rank. */
bool transport_check(transport_view *view, bool holds, const char *what, const char *file,
                     int line);
/* Leaves the body when it does not hold. */
#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!transport_check(view, (condition), #condition, __FILE__, __LINE__)) return; \
    } while (0)
#define CHECK_STATUS(expected, call)                                                            \
    do {                                                                                        \
        rlx_status seen_ = (call);                                                              \
        if (!transport_check(view, seen_ == (expected),                                         \
                             seen_ == RLX_OK ? #call " is RLX_OK" : #call, __FILE__, __LINE__)) \
            return;                                                                             \
    } while (0)
#define CHECK_OK(call) CHECK_STATUS(RLX_OK, call)

/* transport_reference.c: what a collective gives, element by element. */

/* Element `index` of rank `rank`'s input of a case. */
void transport_fill(void *out, rlx_dtype dtype, uint64_t count, uint32_t rank, uint64_t seed);
/* The whole output of `rank`, from the inputs of all. Freed by the caller; NULL without memory. */
void *transport_expected(const rlx_collective_request *request, uint32_t rank, uint32_t rank_count,
                         uint64_t seed, uint64_t *out_bytes);
/* Elements that a rank gives and gets. */
uint64_t transport_input_count(const rlx_collective_request *request, uint32_t rank_count);
uint64_t transport_output_count(const rlx_collective_request *request, uint32_t rank,
                                uint32_t rank_count);

/* Runs one collective on its own operands (in the heap at `offset`, or private) and compares. */
typedef enum transport_place {
    TRANSPORT_PRIVATE,
    TRANSPORT_PRIVATE_IN_PLACE,
    TRANSPORT_SYMMETRIC,
    TRANSPORT_SYMMETRIC_IN_PLACE,
    TRANSPORT_PLACES
} transport_place;
void transport_try(transport_view *view, rlx_collective_request request, transport_place place,
                   uint64_t seed, bool starts);

#endif
