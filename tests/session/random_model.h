/* SPDX-License-Identifier: Apache-2.0 */
/* Small models from a seed, as text, made of what is hard on the planner: views of views, concats
 * and splits, values used again much later, states that are read and written, branches and loops in
 * each other, carried values that change places. Numbers stay small and never decide anything, so
 * that every order of rounding gives nearly the same. */
#ifndef RLX_TESTS_SESSION_RANDOM_MODEL_H
#define RLX_TESTS_SESSION_RANDOM_MODEL_H

#include <stdint.h>

/* Owned: free(). */
char *random_model(uint64_t seed);

/* The same of networks of images: convolutions of every kind and what lies between them. */
char *random_images(uint64_t seed);

#endif
