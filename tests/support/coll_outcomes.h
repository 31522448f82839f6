/* SPDX-License-Identifier: Apache-2.0 */
/* Which outcomes of one collective are legal together, according to the manual
 * (tryst/coll.h, tryst/tryst.h).
 *
 * One idea: a pure function of the facts that were drawn for each rank and the status
 * that each rank reported. A failure needs a cause that was drawn for some rank, and its
 * origin must be such a rank; a success needs its preconditions. */
#ifndef TRYST_TESTS_SUPPORT_COLL_OUTCOMES_H
#define TRYST_TESTS_SUPPORT_COLL_OUTCOMES_H

#include <tryst/coll.h>

#include "outcomes.h"

enum {
    COLL_OUTCOME_RANKS_MAX = 8,
    COLL_OUTCOME_ABORTS = 128 /**< this rank aborts the step */
};

struct coll_outcome {
    tryst_coll_kind kind;
    int size, root;
    bool differs; /**< `differing` passed another count than the other ranks */
    int differing;
    struct outcome_end ends[COLL_OUTCOME_RANKS_MAX];
    int32_t origin_rank[COLL_OUTCOME_RANKS_MAX];
    int32_t origin_status[COLL_OUTCOME_RANKS_MAX];
};

/** True if all ranks have all of `facts`; coll_outcome_any: if any rank has one of
 *  `facts`. */
static inline bool coll_outcome_all(const struct coll_outcome *coll, uint32_t facts)
{
    for (int i = 0; i < coll->size; i++)
        if ((coll->ends[i].facts & facts) != facts)
            return false;
    return true;
}

static inline bool coll_outcome_any(const struct coll_outcome *coll, uint32_t facts)
{
    for (int i = 0; i < coll->size; i++)
        if (coll->ends[i].facts & facts)
            return true;
    return false;
}

/** Return the unmet precondition of a success of `rank`, or NULL. */
static inline const char *coll_outcome_ok_fault(const struct coll_outcome *coll, int rank)
{
    bool from_all = coll->kind == TRYST_COLL_ALLREDUCE ||
                    coll->kind == TRYST_COLL_BARRIER ||
                    (coll->kind == TRYST_COLL_REDUCE && rank == coll->root);
    if (from_all && !coll_outcome_all(coll, OUTCOME_SUBMITTED))
        return "it succeeded, and a rank never submitted it";
    if (coll->kind == TRYST_COLL_BROADCAST &&
        !(coll->ends[coll->root].facts & OUTCOME_SUBMITTED))
        return "it succeeded, and the root never submitted it";
    if (!coll->differs)
        return NULL;
    /* A leaf that has sent, or a rank that has received, has completed. */
    if (coll->kind == TRYST_COLL_REDUCE && rank != coll->root)
        return NULL;
    if (coll->kind == TRYST_COLL_BROADCAST && rank != coll->differing)
        return NULL;
    return "it succeeded, and the counts of the ranks differ";
}

/** Return the facts, of any rank, that may have made a rank report `status`; 0: none. */
static inline uint32_t coll_outcome_causes(int32_t status)
{
    switch (status) {
    case TRYST_E_CANCELED: return OUTCOME_CANCEL | OUTCOME_CLOSE;
    case TRYST_E_DEADLINE: return OUTCOME_DEADLINE;
    case TRYST_E_ABORTED: return OUTCOME_ABORT;
    default: return 0;
    }
}

/** True if a rank may have closed the step after its part had failed, or without a part:
 *  its neighbours get CLOSED. */
static inline bool coll_outcome_may_close(const struct coll_outcome *coll)
{
    return coll->differs || coll_outcome_any(coll, OUTCOME_GAVE_UP) ||
           !coll_outcome_all(coll, OUTCOME_SUBMITTED);
}

/** Check that the origin gave up with this status, and that the other ranks report the
 *  origin's status. */
static inline const char *coll_outcome_origin_fault(const struct coll_outcome *coll,
                                                    int rank)
{
    int32_t at = coll->origin_rank[rank], status = coll->ends[rank].status;
    if (status != TRYST_E_CANCELED && status != TRYST_E_DEADLINE &&
        status != TRYST_E_ABORTED)
        return NULL;
    if (at < 0 || at >= coll->size)
        return "its origin is not a rank";
    const struct outcome_end *origin = &coll->ends[at];
    if (status == TRYST_E_ABORTED)
        return origin->facts & COLL_OUTCOME_ABORTS ? NULL
                                                   : "the origin did not abort the step";
    if (!(origin->facts & coll_outcome_causes(status)))
        return "the origin did not give up";
    if (origin->facts & OUTCOME_SUBMITTED && origin->status != status)
        return "the origin reports another status";
    return coll->origin_status[rank] == status
               ? NULL
               : "its origin_status is not the status of the origin";
}

static inline const char *coll_outcome_error_fault(const struct coll_outcome *coll,
                                                   int rank)
{
    int32_t status = coll->ends[rank].status;
    if (status == TRYST_E_MISMATCH)
        return coll->differs
                   ? NULL
                   : "it reports MISMATCH, and the counts of the ranks are equal";
    if (status == TRYST_E_CLOSED)
        return coll_outcome_may_close(coll)
                   ? NULL
                   : "it reports CLOSED, and no rank may have closed the step";
    if (!coll_outcome_any(coll, coll_outcome_causes(status)))
        return "no rank has a cause for the status that it reports";
    return coll_outcome_origin_fault(coll, rank);
}

/** Return NULL if the outcomes are legal; else the broken rule, and in *rank_p the rank
 *  that breaks it. */
static inline const char *coll_outcome_fault(const struct coll_outcome *coll, int *rank_p)
{
    for (int i = 0; i < coll->size; i++) {
        const struct outcome_end *end = &coll->ends[i];
        const char *fault = outcome_end_fault(end);
        *rank_p = i;
        if (!fault && end->facts & OUTCOME_SUBMITTED)
            fault = end->status == TRYST_OK ? coll_outcome_ok_fault(coll, i)
                                            : coll_outcome_error_fault(coll, i);
        if (fault)
            return fault;
    }
    return NULL;
}

#endif
