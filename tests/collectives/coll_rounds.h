/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_rounds.h
 *  Rounds of random collectives: each round has a random plan and a step in which every
 *  rank starts the same trials in a different order.
 *
 *  The test program defines `coll_trials` and then has the four tests below.
 */
#ifndef TRYST_TESTS_COLLECTIVES_COLL_ROUNDS_H
#define TRYST_TESTS_COLLECTIVES_COLL_ROUNDS_H

#include "api/harness.h"
#include "coll_draw.h"

enum { COLL_TRIALS_MAX = 8 };

/** The trials of a test program. A trial is `bytes` of memory, zeroed before `open`. */
struct coll_trials {
    size_t bytes;
    unsigned count;  /**< trials of a round, at most COLL_TRIALS_MAX */
    uint64_t rounds; /**< rounds without TRYST_TEST_ROUNDS and without sanitizers */
    /** Draw trial `number` of the round with this seed, and allocate its memory. */
    void (*open)(void *trial, const struct harness_rank *rank, uint64_t seed,
                 unsigned number);
    void (*start)(void *trial, const struct harness_rank *rank, tryst_step *step);
    /** Wait for the trial, check its result, and free its memory. */
    void (*end)(void *trial, const struct harness_rank *rank,
                const struct plan_drawn *drawn);
};
extern const struct coll_trials coll_trials;

void test_one_rank(void **state);
void test_few_ranks(void **state);
void test_many_ranks(void **state);
/** Give each rank one slot of scratch and send no DATA, so that all collectives take
 *  turns. */
void test_least_scratch(void **state);

#endif
