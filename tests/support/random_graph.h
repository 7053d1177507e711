/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs from a seed: what networks are made of (linear layers, convs with norms, attention,
 * activations in pieces, views, branches, states), put together at random, with values used again
 * now and then. Every symbol is bound; numbers stay small. */
#ifndef RLX_TESTS_RANDOM_GRAPH_H
#define RLX_TESTS_RANDOM_GRAPH_H

#include <rlx/graph.h>

/* Owned by the caller. Fails the test when something cannot be built. */
rlx_graph *rlx_test_random_graph(uint64_t seed);

#endif
