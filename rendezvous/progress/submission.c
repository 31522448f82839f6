/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submissions: the way of users' calls into the progress domain.
 *
 * Idea: a thread that finds the lock free runs its submission itself; else the submission
 * is pushed on a lock-free list, and the next pass runs it.
 *
 * Invariants: submissions of one thread run in their order; none stays on the list while
 * the engine's thread sleeps.
 */
#include "submission.h"
#include "commsched/sched/sched.h"
#include "core/os/fork.h"
#include "progress.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/frames.h"

tryst_status rendezvous_usable(const struct rendezvous *rdv)
{
    if (rdv->fork_generation != fork_generation_now())
        return TRYST_E_FORKED;
    /* relaxed: a racing close is the user's error; this check is for callbacks during a
     * close. */
    return atomic_load_explicit(&rdv->closing, memory_order_relaxed) ? TRYST_E_CONTEXT
                                                                     : TRYST_OK;
}

int submissions_run(struct rendezvous *rdv)
{
    int count = 0;
    struct mpsc_node *node = mpsc_drain(&rdv->submissions);
    while (node) {
        struct submission *submission = container_of(node, struct submission, node);
        node = node->next;
        submission->run(rdv, submission); /* may end the submission */
        count++;
    }
    return count;
}

/* Flush the peers without unacknowledged frames. */
static void flush_prompt(struct rendezvous *rdv)
{
    struct list now;
    struct list_node *node = list_first(&rdv->flush);
    if (!node)
        return;
    list_init(&now);
    list_append(&now, &rdv->flush);
    while ((node = list_pop_front(&now)) != NULL) {
        struct peer *peer = container_of(node, struct peer, flush_node);
        if (peer->frames.acked == (uint32_t)peer->frames.sent)
            peer_flush(peer);
        else
            list_push_back(&rdv->flush, node);
    }
}

bool submissions_enter(struct rendezvous *rdv)
{
    if (!rdv->progress || !progress_lock_try(&rdv->progress->lock))
        return false;
    rdv->times.pass_ns = 0;
    /* relaxed: written by holders of the lock only. */
    if (atomic_load_explicit(&rdv->sleeping, memory_order_relaxed) ||
        !mpsc_empty(&rdv->submissions)) {
        progress_lock_give(&rdv->progress->lock);
        return false;
    }
    rdv->ran_inline = true;
    return true;
}

void submissions_leave(struct rendezvous *rdv)
{
    flush_prompt(rdv);
    sched_run(rdv->sched);
    rdv->times.pass_ns = 0;
    progress_lock_give(&rdv->progress->lock);
}

void rendezvous_queue(struct rendezvous *rdv, struct submission *submission)
{
    mpsc_push(&rdv->submissions, &submission->node);
    /* seq_cst: Dekker with pass_arm (here: push, then load; there: store, then
     * check for pushes). */
    if (atomic_load_explicit(&rdv->sleeping, memory_order_seq_cst))
        poller_wake(rdv->poller);
}

void rendezvous_submit(struct rendezvous *rdv, struct submission *submission)
{
    if (!submissions_enter(rdv)) {
        rendezvous_queue(rdv, submission);
        return;
    }
    submission->run(rdv, submission); /* may end the submission */
    submissions_leave(rdv);
}

void rendezvous_refuse(struct rendezvous *rdv)
{
    /* relaxed: see rendezvous_usable. */
    atomic_store_explicit(&rdv->closing, true, memory_order_relaxed);
}
