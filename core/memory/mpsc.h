/* SPDX-License-Identifier: Apache-2.0 */
/* Queues from many threads to one.
 *
 * One idea: producers meet on a single word, and the consumer takes all that is there
 * with one exchange. It is unbounded because its node is the thing submitted. Invariant:
 * what one producer put in comes out in its order, each once. Callers: submissions.
 *
 * Memory order. `top` is a stack of new nodes, newest first. A push writes
 * node->next and then swaps `top` from the old top to the node; the drain swaps `top` to
 * NULL and reverses what it got. Every change of `top` is a read-modify-write, so each
 * push heads a release sequence that lasts until the drain takes its node: the drain's
 * acquire synchronises with *all* pushes in the chain that it gets, not just the last,
 * and hence sees each node's fields as its producer left them. Nodes leave only all at
 * once, so a push never follows a pointer and there is no ABA: if `top` compares equal it
 * *is* the current top, whatever happened in between. A push is lock-free (a failed swap
 * means that another push or the drain succeeded); the drain is wait-free plus the
 * reversal.
 *
 * Sleeping. mpsc_push says whether the queue was empty; of the pushes between two drains
 * exactly one says so, and that producer wakes the sleeper. One that wants to spare the
 * system call when nobody sleeps may: push, then load a `sleeping` flag; the consumer:
 * store the flag, then test mpsc_empty, then sleep. That is Dekker's pattern and needs
 * all four seq_cst, which is why the push and mpsc_empty are (on x86 this is free: the
 * swap is a full barrier). Either the producer sees the flag, or the consumer sees the
 * node. */
#ifndef TRYST_CORE_MPSC_H
#define TRYST_CORE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mpsc_node {
    struct mpsc_node *next;
};

struct mpsc {
    _Atomic(struct mpsc_node *) top; /* newest first; orders and partners: above */
};

static inline void mpsc_init(struct mpsc *queue)
{
    atomic_init(&queue->top, NULL);
}

/* Any thread; never blocks. True when the queue was empty before: wake the consumer. The
 * node is the queue's until a drain hands it out. */
static inline bool mpsc_push(struct mpsc *queue, struct mpsc_node *node)
{
    /* relaxed: only a guess that the swap checks; no pointer is followed */
    struct mpsc_node *top = atomic_load_explicit(&queue->top, memory_order_relaxed);
    do {
        node->next = top;
        /* seq_cst: release for the drain's acquire; total order for the sleeper's test */
    } while (!atomic_compare_exchange_weak_explicit(
        &queue->top, &top, node, memory_order_seq_cst, memory_order_relaxed));
    return top == NULL;
}

/* Whether there is nothing to drain; a hint, except in the sleeping pattern above. */
static inline bool mpsc_empty(struct mpsc *queue)
{
    return atomic_load_explicit(&queue->top, memory_order_seq_cst) == NULL;
}

/* One consumer at a time. Takes all, oldest first, linked by `next` and ended by NULL. */
static inline struct mpsc_node *mpsc_drain(struct mpsc *queue)
{
    /* acquire: partner of every push whose node is in the chain */
    struct mpsc_node *node =
        atomic_exchange_explicit(&queue->top, NULL, memory_order_acquire);
    struct mpsc_node *oldest = NULL;
    while (node) {
        struct mpsc_node *next = node->next;
        node->next = oldest;
        oldest = node;
        node = next;
    }
    return oldest;
}

#endif
