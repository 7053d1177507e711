/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded placement problems for the tests of the placer. */
#ifndef RLX_TESTS_PLACE_INSTANCES_H
#define RLX_TESTS_PLACE_INSTANCES_H

#include <rlx/place.h>

#include "support/support.h"

/* Starts below `times`, lives up to `longest`, sizes 1..`largest`. */
void random_items(rlx_test_random *random, rlx_place_item *items, uint32_t count, uint64_t times,
                  uint64_t longest, uint64_t largest);

/* Cuts a rectangle of time `side` x memory `side` at random until there are `count` pieces: a plan
 * without a single hole exists. */
void cut_items(rlx_test_random *random, rlx_place_item *items, uint32_t count, uint64_t side);

/* Largest offset + bytes of the buffers that take memory. */
uint64_t peak_of(const rlx_place_item *items, uint32_t count, const uint64_t *offsets);

#endif
