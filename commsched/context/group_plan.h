/* SPDX-License-Identifier: Apache-2.0 */
/** @file group_plan.h
 *  The plan of a group's collectives, agreed on while the group opens.
 *
 *  Idea: links that are all alike have one plan on every machine, so the ranks compare a digest and are done. A
 *  TRYST_TOPOLOGY is planned for by rank 0 alone, within a budget of time, and travels as bytes that every rank decodes.
 *
 *  Rounds of the bootstrap's all-gather:
 *
 *     announce {what, ranks, digest} ── all unset: the plans' digests are equal ──▶ done
 *        │ rank 0 has a topology, of as many ranks as the group
 *        ▼
 *     head {status, bytes, digest, text}, from rank 0 once it has planned
 *        │
 *        ▼
 *     pieces of the bytes, from rank 0: by key and value, over a caller's all-gather by more rounds
 *        │
 *        ▼
 *     agree {status, digest} ──▶ done
 *
 *  Every failure is every rank's, and its sentence names the ranks and the numbers that differ.
 */
#ifndef COMMSCHED_CONTEXT_GROUP_PLAN_H
#define COMMSCHED_CONTEXT_GROUP_PLAN_H

#include <stdint.h>

#include "commsched/coll/plan.h"
#include "core/err.h"
#include "topology/sized/compiled.h"

struct bootstrap;
struct bootstrap_params;
struct config;

struct group_plan {
    struct arrays arrays;       /**< all below */
    struct coll_plan coll;      /**< all-reduce, as this rank runs it */
    uint32_t flags;             /**< COMPILED_RATES_ASSUMED */
    uint64_t bound_bytes_per_s; /**< no all-reduce is faster */
    uint32_t pairs_count;
    const struct compiled_pair
        *pairs; /**< from this rank and to it: planned rates, latencies */
};

/** Agree on the plan of a group of at least two ranks. The bootstrap is open, and every rank is here.
 *  TRYST_E_GROUP: settings or plans of two ranks differ, or the topology has another number of ranks. TRYST_E_CONFIG,
 *  TRYST_E_INVALID, TRYST_E_IO: the topology cannot be read or planned for; TRYST_E_NOMEM; or as bootstrap_allgather. */
tryst_status group_plan_open(struct bootstrap *bootstrap,
                             const struct bootstrap_params *params,
                             const struct config *config, struct err *err,
                             struct group_plan **plan_p);
/** Returns the largest rate of all classes from this rank to `rank`. */
uint64_t group_plan_pace(const struct group_plan *plan, uint32_t rank);
/** NULL is allowed. */
void group_plan_close(struct group_plan *plan);

#endif
