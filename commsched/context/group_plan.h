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

#include "core/text/err.h"
#include "plan_take.h"

struct bootstrap;
struct bootstrap_params;
struct config;

/** Agree on the plan of a group of at least two ranks. The bootstrap is open, and every rank is here.
 *  TRYST_E_GROUP: settings or plans of two ranks differ, or the topology has another number of ranks. TRYST_E_CONFIG,
 *  TRYST_E_INVALID, TRYST_E_IO: the topology cannot be read or planned for; TRYST_E_NOMEM; or as bootstrap_allgather. */
tryst_status group_plan_open(struct bootstrap *bootstrap,
                             const struct bootstrap_params *params,
                             const struct config *config, struct err *err,
                             struct group_plan **plan_p);
#endif
