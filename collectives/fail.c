/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of a collective (fail.h).
 *
 * Idea: a failure is noted where it occurs; the engine (coll.c) then fails all flows of
 * the run with the first cause. A rank that died or left fails later collectives too.
 *
 * A rank has evidence of its neighbours only. A neighbour has joined if any flow with the
 * neighbour has met its other end (flow_sight). A deadline names a neighbour that has not
 * joined. At the rank where the deadline passed, all neighbours may have joined, so each
 * rank that the deadline reaches adds its own missing neighbour.
 */
#include "fail.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "subgroup.h"

const char *coll_kind_name(tryst_coll_kind kind)
{
    static const char *const names[] = {[TRYST_COLL_INVALID] = "collective",
                                        [TRYST_COLL_ALLREDUCE] = "all-reduce",
                                        [TRYST_COLL_REDUCE] = "reduce",
                                        [TRYST_COLL_BROADCAST] = "broadcast",
                                        [TRYST_COLL_BARRIER] = "barrier",
                                        [TRYST_COLL_ALLGATHER] = "all-gather",
                                        [TRYST_COLL_REDUCE_SCATTER] = "reduce-scatter",
                                        [TRYST_COLL_ALLTOALL] = "all-to-all",
                                        [TRYST_COLL_GATHER] = "gather",
                                        [TRYST_COLL_SCATTER] = "scatter"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

static int32_t run_flow_rank(const struct coll_run *run, uint32_t index)
{
    const tryst_key *key = run->coll->keys[index];
    return key->src_rank == coll_op_rank(run->op) ? key->dst_rank : key->src_rank;
}

/* ---- neighbours -------------------------------------------------------------------- */

static enum flow_sight sight(const struct coll_run *run, uint32_t index)
{
    const struct coll_flow *flow = &run->flows[index];
    return flow->is_live ? flow_sight(&flow->flow) : FLOW_MET;
}

static bool rank_has_joined(const struct coll_run *run, int32_t rank)
{
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        if (run_flow_rank(run, i) == rank && sight(run, i) == FLOW_MET)
            return true;
    return false;
}

/* Find the flow with the best evidence (flow_sight) that its neighbour has not
 * joined. False: all neighbours have joined, or no flow has started. */
static bool missing_find(const struct coll_run *run, uint32_t *index_p)
{
    bool found = false;
    for (uint32_t i = 0; i < run->coll->flows_count; i++) {
        enum flow_sight seen = sight(run, i);
        bool better = !found || seen < sight(run, *index_p);
        if (seen == FLOW_MET || !better || rank_has_joined(run, run_flow_rank(run, i)))
            continue;
        *index_p = i;
        found = true;
    }
    return found;
}

/* Find a flow that has not ended: one from a rank that sends to this one, if there is
 * one. */
static bool waiting_find(const struct coll_run *run, uint32_t *index_p)
{
    bool found = false;
    int32_t own = coll_op_rank(run->op);
    for (uint32_t i = 0; i < run->coll->flows_count; i++) {
        bool receives = run->coll->keys[i]->dst_rank == own;
        if (!run->flows[i].is_live || (found && !receives))
            continue;
        *index_p = i;
        found = true;
        if (receives)
            break;
    }
    return found;
}

int32_t run_waits_for(const struct coll_run *run)
{
    uint32_t index;
    bool found = missing_find(run, &index) || waiting_find(run, &index);
    return found ? run_flow_rank(run, index) : -1;
}

static size_t put_missing(const struct coll_run *run, uint32_t index, char *to,
                          size_t room)
{
    static const char *const formats[] = {
        [FLOW_SILENT] = "nothing has come from rank %" PRId32,
        [FLOW_UNCONNECTED] = "rank %" PRId32 " is not connected yet",
        [FLOW_STARTS_THERE] = "the fabric of rank %" PRId32 " still starts",
        [FLOW_STARTS_HERE] = "this rank's fabric to rank %" PRId32 " still starts"};
    int n = snprintf(to, room, formats[sight(run, index)], run_flow_rank(run, index));
    return n < 0 ? 0 : (size_t)n;
}

/* ---- texts ------------------------------------------------------------------------- */

static void explain_deadline(const struct coll_run *run, bool is_own, char *to,
                             size_t room)
{
    uint32_t index = 0;
    int head = is_own ? snprintf(to, room, "its deadline passed")
                      : snprintf(to, room, "the deadline of rank %" PRId32 " passed",
                                 run->cause.origin_rank);
    if (missing_find(run, &index)) {
        head += snprintf(to + head, room - (size_t)head, is_own ? ", and " : "; here ");
        size_t at =
            (size_t)head + put_missing(run, index, to + head, room - (size_t)head);
        if (run->coll->root >= 0 && sight(run, index) == FLOW_SILENT && at < room)
            (void)snprintf(to + at, room - at, ", or it names another root");
    } else if (is_own && waiting_find(run, &index)) {
        (void)snprintf(to + head, room - (size_t)head,
                       "; rank %" PRId32 " has joined, and waits itself",
                       run_flow_rank(run, index));
    }
}

/* Append the sentence about lost packets between this rank and the first neighbour of a
 * pending flow with such packets. */
static void explain_loss(const struct coll_run *run, char *to, size_t room)
{
    size_t at = strlen(to);
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        if (run->flows[i].is_live &&
            coll_op_loss_text(run->op, run_flow_rank(run, i), "; ", to + at, room - at))
            return;
}

/* Write the text for run->cause. `text` is the text of the failed part, NULL: none. */
static void explain(struct coll_run *run, const char *text)
{
    const struct cause *cause = &run->cause;
    bool is_own = cause->origin_rank == coll_op_rank(run->op);
    char whole[COLL_TEXT_BYTES];
    int head =
        snprintf(whole, sizeof whole, "%s \"%.80s\": ", coll_kind_name(run->coll->kind),
                 run->coll->label->string);
    char *to = whole + head;
    size_t room = sizeof whole - (size_t)head;
    if (cause->status == TRYST_E_DEADLINE)
        explain_deadline(run, is_own, to, room);
    else if (cause->status == TRYST_E_CANCELED && !is_own)
        (void)snprintf(to, room, "rank %" PRId32 " cancelled its part",
                       cause->origin_rank);
    else if (text)
        (void)snprintf(to, room, "%s", text);
    else
        (void)snprintf(to, room, "rank %" PRId32 ": %s", cause->origin_rank,
                       tryst_status_str(cause->origin_status));
    if (cause->status == TRYST_E_DEADLINE)
        explain_loss(run, to, room);
    mem_free(run->text);
    run->text = mem_strdup(whole);
    run->reason = run->text ? run->text + head : NULL;
}

/* ---- causes ------------------------------------------------------------------------ */

/* Note the cause if a rank has died or left. Later collectives with this rank fail with
 * the cause, since they would wait for the rank (lost_cause_find). */
static void lost_rank_add(struct colls *colls, struct cause cause)
{
    bool gone = cause.status == TRYST_E_PEER || cause.status == TRYST_E_LEFT;
    if (!gone || cause.origin_rank < 0)
        return;
    for (int32_t i = 0; i < colls->lost_count; i++)
        if (colls->lost[i].origin_rank == cause.origin_rank)
            return;
    if (colls->lost_count < colls->lost_capacity)
        colls->lost[colls->lost_count++] = cause;
}

void run_fail(struct coll_run *run, struct cause cause, const char *text)
{
    lost_rank_add(run->coll->colls, cause);
    if (!run_failed(run)) {
        run->cause = cause;
        if (cause.origin_rank < 0)
            run->cause.origin_rank = coll_op_rank(run->op);
        explain(run, text);
    }
    run_mark(run);
}

/* A cause may have come from a faulty rank, or from one that lost a connection of its
 * own. So it does not count for this rank, nor for one with a connection that lives: if
 * that rank is dead, its connection breaks, or a neighbour of that rank reports it. */
static bool is_lost(const struct coll_run *run, int32_t rank)
{
    return rank != coll_op_rank(run->op) && !coll_op_is_connected(run->op, rank) &&
           subgroup_has(run->coll->subgroup, rank);
}

/* Return the cause of the first lost rank that takes part in the run; NULL: none is
 * lost. */
static const struct cause *lost_cause_find(const struct coll_run *run)
{
    const struct colls *colls = run->coll->colls;
    for (int32_t i = 0; i < colls->lost_count; i++)
        if (is_lost(run, colls->lost[i].origin_rank))
            return &colls->lost[i];
    return NULL;
}

/* The flows of the run carry the cause to the other ranks. */
void run_fail_if_lost(struct coll_run *run)
{
    char text[64];
    const struct cause *cause = lost_cause_find(run);
    if (!cause)
        return;
    snprintf(text, sizeof text, "rank %" PRId32 " %s", cause->origin_rank,
             cause->status == TRYST_E_LEFT ? "has left the group"
                                           : "was lost in an earlier collective");
    run_fail(run, *cause, text);
}

/* ---- flows ------------------------------------------------------------------------- */

struct cause coll_flow_failing(const struct flow *flow)
{
    return container_of(flow, struct coll_flow, flow)->tree->run->cause;
}

void coll_flow_ended(struct flow *flow, struct cause cause, const char *text)
{
    struct coll_flow *of = coll_flow_of(flow);
    struct coll_run *run = of->tree->run;
    assert(of->is_live);
    of->is_live = of->waits = false;
    run->live--;
    run->awaited -= !of->is_left;
    (void)urgent_remove(&of->waiter);
    /* An operation completes without this flow, or has been reported. */
    if (!run->op || (of->is_left && !run->awaited))
        lost_rank_add(run->coll->colls, cause);
    else if (cause.status != TRYST_OK)
        run_fail(run, cause, text);
    if (run->op)
        tree_mark(of->tree);
    else if (!run->live)
        coll_run_put(run);
}
