/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for libtryst: the public calls that the pipeline engine makes, between
 * threads of one process, with completions delayed and reordered by a seed.
 *
 * It keeps the contract at its loosest: bytes are copied at the last moment (when the
 * receiver sees its operation complete), and a send completes only after that; so an
 * engine that touches a buffer too early trains on wrong bytes and a test sees it. */
#ifndef TRYST_TESTS_FAKE_TRYST_H
#define TRYST_TESTS_FAKE_TRYST_H

#include <tryst/tryst.h>

typedef struct fake_world fake_world;

fake_world *fake_world_open(int ranks_count, uint64_t seed, uint64_t delay_max_ns);
/* Returns how many operations, keys, steps and memory regions were left over. */
int fake_world_close(fake_world *world);

tryst_ctx *fake_ctx(fake_world *world, int rank);
tryst_group *fake_group(fake_world *world, int rank);

/* Memory that tryst_mem_alloc has from now on; more is TRYST_E_NOMEM. */
void fake_memory(fake_world *world, uint64_t bytes);

/* From now on nothing moves to or from `rank`: others' operations fail with TRYST_E_PEER.
 */
void fake_kill(fake_world *world, int rank);

#endif
