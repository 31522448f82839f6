/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that gives the most urgent first.
 *
 * Idea: almost everything comes in the order in which it will leave, so that part is a list, and only
 * what overtakes stands in a heap: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986), whose
 * nodes lie in the things that are queued, so nothing is allocated. In order: a comparison to come, none
 * to leave. Overtaking: none to come, logarithmically many (amortised) to leave.
 * Invariant: the list is sorted; what is equally urgent leaves in the order in which it came, but for
 * what stands in the heap. A zeroed node is in no queue. An urgency does not change while its node is
 * in a queue.
 * No locks: the caller owns the queue. Callers: rendezvous, commsched. */
#ifndef TRYST_CORE_URGENT_H
#define TRYST_CORE_URGENT_H

#include "core/memory/list.h"
#include "core/memory/urgency.h"

struct urgent_node {
    struct list_node node; /* in one of the queue's lists, or its parent's children */
    struct list children;  /* in the heap; zeroed where it is not */
    const struct urgency *urgency; /* of what is queued; valid as long as it is */
    struct urgent_queue *queue;    /* the last that it was pushed into */
};

struct urgent_queue {
    struct list sorted;
    struct list
        roots; /* of the heap: several trees become one when the first is asked for */
};

static inline void urgent_init(struct urgent_queue *queue)
{
    list_init(&queue->sorted);
    list_init(&queue->roots);
}

static inline bool urgent_empty(const struct urgent_queue *queue)
{
    return list_empty(&queue->sorted) && list_empty(&queue->roots);
}

/* Is it in a queue? */
static inline bool urgent_queued(const struct urgent_node *node)
{
    return list_linked(&node->node);
}

static inline struct urgent_node *urgent_node_of(struct list_node *node)
{
    return container_of(node, struct urgent_node, node);
}

/* `urgency` is read as long as the node is queued. */
static inline void urgent_push(struct urgent_queue *queue, struct urgent_node *node,
                               const struct urgency *urgency)
{
    struct list *to = &queue->sorted;
    node->urgency = urgency;
    node->queue = queue;
    if (!list_empty(to) &&
        __builtin_expect(urgency_before(urgency, urgent_node_of(to->head.prev)->urgency),
                         0)) {
        to = &queue->roots;
        list_init(&node->children);
    }
    list_push_back(to, &node->node);
}

/* Part of urgent_first and urgent_remove. */
struct urgent_node *urgent_heap_first(struct urgent_queue *queue);
void urgent_heap_remove(struct urgent_node *node);

/* The most urgent, which stays; NULL when empty. */
static inline struct urgent_node *urgent_first(struct urgent_queue *queue)
{
    if (__builtin_expect(!list_empty(&queue->roots), 0))
        return urgent_heap_first(queue);
    return list_empty(&queue->sorted) ? NULL : urgent_node_of(queue->sorted.head.next);
}

/* Takes it out of the queue that it is in, whichever that is; false when in none. */
static inline bool urgent_remove(struct urgent_node *node)
{
    if (__builtin_expect(node->children.head.next != NULL, 0))
        urgent_heap_remove(node);
    return list_remove(&node->node);
}

/* The node's turn is over: what is as urgent, and follows it in the list, goes before it. */
static inline void urgent_turn(struct urgent_node *node)
{
    struct list_node *next = node->node.next;
    if (!next || node->children.head.next) /* in no queue; in the heap */
        return;
    const struct list_node *head = &node->queue->sorted.head;
    while (next != head && !urgency_before(node->urgency, urgent_node_of(next)->urgency))
        next = next->next;
    if (next == node->node.next)
        return;
    (void)list_remove(&node->node);
    list_insert_before(next, &node->node);
}

#endif
