/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of operations, steps and peers, gathered for the live page; see live_gather.h.
 */
#include "live_gather.h"
#include "live_context.h"
#include "progress.h"

#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/recv_run.h"
#include "rendezvous/protocol/send_run.h"
#include "rendezvous/protocol/want.h"
#include <stdio.h>

/* The most operations that a tick visits; those on the page are usually among the oldest.
 * The rank that delays a collective is searched for the oldest collectives, and for the
 * one that a thread waits for: the search walks over the collective's flows. */
enum { TICK_OPS_MAX = 1024, TICK_COLLS_MAX = 4 };

#define STATE_IS(name) _Static_assert((int)OP_##name == (int)TRYST_LIVE_##name, "state")
_Static_assert((int)HOLD_UNREADY == (int)TRYST_LIVE_HOLD_UNREADY, "hold");
STATE_IS(SUBMITTED);
STATE_IS(POSTED);
STATE_IS(WANTED);
STATE_IS(DEFERRED);
STATE_IS(INLINE);
STATE_IS(MATCHED);
STATE_IS(ENDING);
STATE_IS(SEND);
STATE_IS(RECV);
_Static_assert((int)OP_STEP_CLOSE == (int)TRYST_LIVE_CLOSE, "kind");
_Static_assert((int)OP_COLL == (int)TRYST_LIVE_COLL, "kind");
_Static_assert(offsetof(tryst_op, state) == offsetof(tryst_op, kind) + 1, "one load");

/* ---- operations -------------------------------------------------------------------- */

static struct live_hold hold_of(const tryst_op *op)
{
    const tryst_op *before;
    struct live_hold hold = {.why = (uint16_t)send_run_held_by(op, &before)};
    hold.behind = before ? before->key->hash : 0;
    return hold;
}

static int32_t rank_of(const struct live *live, const tryst_op *op, int *colls)
{
    const struct coll_calls *calls = &op->rdv->coll_calls;
    if (op->kind == OP_COLL && calls->waits_for &&
        ((*colls)-- > 0 || op == live->waits_for))
        return calls->waits_for(calls->arg, op);
    return op->peer ? op->peer->rank : -1;
}

static void op_refresh(const tryst_op *op, int32_t rank)
{
    uint64_t slices = op->want ? op->want->transfer.upto : op->done_upto;
    uint64_t slice_bytes = op->want  ? op->want->transfer.slice_bytes
                           : op->run ? op->run->slice_bytes
                                     : 0; /* no slices: 0 bytes are shown as done */
    struct live_hold hold = hold_of(op);
    struct live_op now = {
        .kind_state = live_kind_state(op), .rank = rank, .bytes = op->bytes};
    live_op_put(op->live, &now, slices * slice_bytes, &hold);
}

/* Refresh the operations that have a place, and give free places to others. */
static void ops_tick(struct live *live, const struct list *ops, int *left, int *colls)
{
    list_for_each_safe (ops, node, after) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        if (--*left < 0)
            return;
        if (!op->reported && op->live)
            op_refresh(op, rank_of(live, op, colls));
        else if (!op->reported && !op->flow)
            live_op_begin(live, op, op->key, op->peer ? op->peer->rank : -1);
    }
}

static void scopes_tick(struct live *live, struct rendezvous *rdv)
{
    int left = TICK_OPS_MAX, colls = TICK_COLLS_MAX;
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        ops_tick(live, &scope->warned, &left, &colls);
        ops_tick(live, &scope->ops, &left, &colls);
    }
}

/* ---- peers and the rest ------------------------------------------------------------ */

static void counts_put(struct live *live, const struct rendezvous *rdv, uint64_t now_ns)
{
    live_counts(live, rdv->counters.submitted - rdv->counters.operations,
                rdv->counters.operations, now_ns);
}

/* Write a rank's record; for a rank that was not used yet, only whether it has left. */
static void rank_show(struct live *live, const struct tryst_group *group, int rank)
{
    const struct peer *peer = group->peers[rank];
    struct tryst_live_peer row = {
        .rank = rank, .life = group_has_left(group, rank) ? PEER_LEFT : PEER_ALIVE};
    if (peer)
        peer_live_put(peer);
    else
        live_peer_put(live, &row);
}

void live_tick(struct live *live, struct rendezvous *rdv, uint64_t now_ns)
{
    scopes_tick(live, rdv);
    for (uint32_t i = 0; rdv->group && i < live->peers_count; i++)
        rank_show(live, rdv->group, (int)i);
    counts_put(live, rdv, now_ns);
}

/* ---- waiting ----------------------------------------------------------------------- */

/* Return any operation that has a place; those that the log has warned about keep theirs.
 * NULL: none. */
static tryst_op *op_victim(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        list_for_each_safe (&scope->ops, op_node, op_after) {
            tryst_op *op = container_of(op_node, tryst_op, scope_node);
            if (op->live && !op->reported)
                return op;
        }
    }
    return NULL;
}

/* Give a place to an operation that a thread waits for, if need be that of another
 * operation. */
static void op_ensure(struct rendezvous *rdv, tryst_op *op)
{
    struct live *live = rdv->live;
    tryst_op *other = op->live || live->free_count ? NULL : op_victim(rdv);
    if (op->live || op->reported)
        return;
    if (other) {
        live_op_forget(live, other->live);
        other->live = NULL;
    }
    live_op_begin(live, op, op->key, op->peer ? op->peer->rank : -1);
}

void rendezvous_live_wait(struct rendezvous *rdv, tryst_op *op, enum tryst_live_wait how,
                          uint64_t now_ns)
{
    struct live *live = rdv->live;
    if (!live || live_waits_so(live, how, op))
        return;
    if (op)
        op_ensure(rdv, op);
    live_wait(live, how, op, op && !op->reported ? op->live : NULL, now_ns);
    counts_put(live, rdv, now_ns);
}

void rendezvous_live_leave(struct rendezvous *rdv)
{
    if (rdv->live)
        live_leave(rdv->live);
}

/* ---- open and close ---------------------------------------------------------------- */

void rendezvous_live_open(struct rendezvous *rdv, int rank, int size)
{
    tryst_status status = live_open(rank, size, &rdv->progress->lock.held,
                                    clock_now_ns(rdv->clock), &rdv->live);
    if (status != TRYST_OK)
        LOG_INFO(rdv->log, "cannot create the live page (tryst-info --live): %s",
                 tryst_status_str(status));
}

void rendezvous_live_closing(struct rendezvous *rdv)
{
    if (rdv->live)
        live_phase(rdv->live, TRYST_LIVE_CLOSING);
}

void rendezvous_live_close(struct rendezvous *rdv)
{
    struct live *live = rdv->live;
    rdv->live = NULL;
    if (live)
        live_close(live);
}
