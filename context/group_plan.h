/* SPDX-License-Identifier: Apache-2.0 */
/** @file group_plan.h
 *  The plan of a group's collectives, agreed on while the group opens.
 *
 *  Idea: for equal links every rank computes the same plan, so the ranks only compare its
 *  digest. For any other network rank 0 alone loads the planner (planner_load.h), makes
 *  the plan, within a budget of time, and sends the plan as bytes that every rank
 *  decodes. The network is that of TRYST_TOPOLOGY or, where TRYST_TOPOLOGY is unset, the
 *  machines and NICs of the roster, which all ranks have (roster_machines.h). Of
 *  TRYST_TOPOLOGY the other ranks read the bytes alone, for the digest.
 *
 *  Rounds of the bootstrap's all-gather:
 *
 *     announce {what, ranks, digest} ── all links are alike, the digests equal ──▶ done
 *        │ rank 0 has a topology with the group's number of ranks,
 *        │ or all ranks have the same machines
 *        ▼
 *     head {status, bytes, digest, text}, from rank 0 after planning
 *        │
 *        ▼
 *     the bytes, broadcast from rank 0
 *        │
 *        ▼
 *     agree {status, digest} ──▶ done
 *
 *  A failure of one rank fails all ranks; its text names the ranks and the numbers that
 *  differ.
 */
#ifndef TRYST_CONTEXT_GROUP_PLAN_H
#define TRYST_CONTEXT_GROUP_PLAN_H

#include "core/text/err.h"
#include "plan_take.h"

struct bootstrap;
struct bootstrap_params;
struct config;
struct roster;

/** Agree on the plan of a group of at least two ranks. The bootstrap is open, and
 *  every rank makes this call. TRYST_E_GROUP: settings, rosters or plans of two ranks
 *  differ, or the topology has another number of ranks. TRYST_E_CONFIG,
 *  TRYST_E_INVALID, TRYST_E_IO: the topology cannot be read or planned for;
 *  TRYST_E_UNSUPPORTED, TRYST_E_MODULE: rank 0 cannot load the planner; TRYST_E_NOMEM; or
 *  a status of bootstrap_allgather. */
tryst_status group_plan_open(struct bootstrap *bootstrap,
                             const struct bootstrap_params *params,
                             const struct roster *roster, const struct config *config,
                             struct err *err, struct group_plan **plan_p);
#endif
