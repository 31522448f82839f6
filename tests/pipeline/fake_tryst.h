/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libtryst: the public calls that the pipeline engine makes, between threads of
 * one process, with completions delayed and reordered by a seed.
 *
 * The contract is implemented as loosely as allowed: bytes are copied at the last moment
 * (when the receiver polls its completed operation), and a send completes only after
 * that. So an engine that touches a buffer too early trains on wrong bytes, and a test
 * detects them. Ids of steps must rise. */
#ifndef TRYST_TESTS_PIPELINE_FAKE_TRYST_H
#define TRYST_TESTS_PIPELINE_FAKE_TRYST_H

#include <tryst/tryst.h>

struct fake_world;

struct fake_world *fake_world_open(int ranks_count, uint64_t seed, uint64_t delay_max_ns);
/** Return how many operations, keys, steps and memory regions are still open. */
int fake_world_close(struct fake_world *world);

tryst_ctx *fake_ctx(struct fake_world *world, int rank);
tryst_group *fake_group(struct fake_world *world, int rank);

/** Set the memory that tryst_mem_alloc may allocate from now on; beyond it returns
 *  TRYST_E_NOMEM. */
void fake_memory(struct fake_world *world, uint64_t bytes);

/** Say whether ranks can map each other's memory (tryst_mem_share). As opened they can if
 *  the seed is odd. */
void fake_lend(struct fake_world *world, bool lends);

/** Stop all transfers to and from `rank`: operations of other ranks with it fail with
 *  TRYST_E_PEER. Its aborts reach no other rank. */
void fake_kill(struct fake_world *world, int rank);

/** True if `rank` itself has aborted the step. */
bool fake_aborted(struct fake_world *world, int rank, uint64_t step);

/** Return how many operations had a wrong priority. The receives of a rank must have
 *  negative priorities that rise in the order of posting; sends must have none, and
 *  all-reduces some that are not negative. */
int fake_unordered(const struct fake_world *world);
/** Return how many receives with a priority `rank` has posted; called by its thread. */
int fake_posted(const struct fake_world *world, int rank);

/** Let no all-reduce of this name end, until the next call; NULL: hold none. */
void fake_hold(struct fake_world *world, const char *name);
/** True if `rank` has started an all-reduce of this name and not released it. */
bool fake_under_way(struct fake_world *world, int rank, const char *name);

#endif
