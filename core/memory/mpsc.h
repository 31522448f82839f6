/* SPDX-License-Identifier: Apache-2.0 */
/* Queues from many threads to one.
 *
 * One idea: producers meet on a single word, and the consumer takes all nodes with one
 * exchange. The node is a member of the object that is submitted, so the queue has no
 * limit. Invariant: the nodes of one producer leave in the order of their pushes, each
 * once.
 *
 * Memory order. `top` is a stack of new nodes, newest first. A push writes node->next and
 * then swaps `top` from the old top to the node; the drain swaps `top` to NULL and
 * reverses the chain. Every change of `top` is a read-modify-write, so each push heads a
 * release sequence that lasts until the drain takes its node: the drain's acquire
 * synchronises with *all* pushes of the chain, not only with the last, and hence reads
 * each node's fields as its producer left them. Nodes leave only all at once, so a push
 * never follows a pointer and there is no ABA: if `top` compares equal, then `top` *is*
 * the current top, whatever happened in between. A push is lock-free (a failed swap means
 * that another push or the drain succeeded); the drain is wait-free plus the reversal.
 *
 * Sleeping. mpsc_push returns true if the queue was empty. Of the pushes between two
 * drains exactly one returns true, and that producer wakes the consumer. A producer may
 * save the system call while the consumer is awake: the producer pushes, then loads a
 * `sleeping` flag; the consumer stores the flag, then tests mpsc_empty, then sleeps. This
 * is Dekker's pattern and needs all four accesses seq_cst, which is why the push and
 * mpsc_empty are (on x86 at no cost: the swap is a full barrier). Either the producer
 * reads the flag, or the consumer finds the node. */
#ifndef TRYST_CORE_MEMORY_MPSC_H
#define TRYST_CORE_MEMORY_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mpsc_node {
    struct mpsc_node *next;
};

struct mpsc {
    _Atomic(struct mpsc_node *) top; /**< newest node; orders and partners: above */
};

static inline void mpsc_init(struct mpsc *queue)
{
    atomic_init(&queue->top, NULL);
}

/** Push a node, which the queue owns until a drain returns it. True if the queue was
 *  empty before: the caller then wakes the consumer. Any thread; never blocks. */
static inline bool mpsc_push(struct mpsc *queue, struct mpsc_node *node)
{
    /* relaxed: a guess that the swap verifies; no pointer is followed */
    struct mpsc_node *top = atomic_load_explicit(&queue->top, memory_order_relaxed);
    do {
        node->next = top;
        /* seq_cst: release for the drain's acquire; total order for the sleeper's test */
    } while (!atomic_compare_exchange_weak_explicit(
        &queue->top, &top, node, memory_order_seq_cst, memory_order_relaxed));
    return top == NULL;
}

/** True if there is nothing to drain; a hint, except in the sleeping pattern above. */
static inline bool mpsc_empty(struct mpsc *queue)
{
    return atomic_load_explicit(&queue->top, memory_order_seq_cst) == NULL;
}

/** Take all nodes, oldest first, linked by `next` and ended by NULL. One consumer at a
 *  time. */
static inline struct mpsc_node *mpsc_drain(struct mpsc *queue)
{
    /* acquire: partner of every push that put a node into the chain */
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
