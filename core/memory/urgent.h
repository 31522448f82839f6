/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that returns its most urgent node first.
 *
 * Idea: most nodes arrive in the order in which they will leave, so these form a sorted
 * list. Only a node that overtakes goes to a heap: a pairing heap (Fredman, Sedgewick,
 * Sleator, Tarjan 1986). Nodes are members of the queued objects, so nothing is
 * allocated. A push takes one comparison. A node of the list leaves without another one;
 * a node of the heap takes logarithmically many (amortised) to leave.
 * Invariant: the list is sorted; equally urgent nodes leave in the order of arrival,
 * except nodes in the heap. A zeroed node is in no queue. An urgency does not change
 * while its node is in a queue. No locks: the caller owns the queue. */
#ifndef TRYST_CORE_MEMORY_URGENT_H
#define TRYST_CORE_MEMORY_URGENT_H

#include "core/memory/list.h"
#include "core/memory/urgency.h"

struct urgent_node {
    /** In one of the queue's lists, or among a parent's children. */
    struct list_node node;
    /** Children in the heap; zeroed while the node is not in the heap. */
    struct list children;
    /** Urgency of the queued object; valid while the node is queued. */
    const struct urgency *urgency;
    struct urgent_queue *queue; /**< queue of the last push */
};

struct urgent_queue {
    struct list sorted;
    /** Trees of the heap; urgent_heap_first melds them into one. */
    struct list roots;
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

/** True if the node is in a queue. */
static inline bool urgent_queued(const struct urgent_node *node)
{
    return list_linked(&node->node);
}

static inline struct urgent_node *urgent_node_of(struct list_node *node)
{
    return container_of(node, struct urgent_node, node);
}

/** Push a node. The queue reads `urgency` as long as the node is queued. */
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

/** Do what urgent_first and urgent_remove do where the heap is involved; call those
 *  instead. */
struct urgent_node *urgent_heap_first(struct urgent_queue *queue);
void urgent_heap_remove(struct urgent_node *node);

/** Return the most urgent node, which stays queued; NULL when the queue is empty. */
static inline struct urgent_node *urgent_first(struct urgent_queue *queue)
{
    if (__builtin_expect(!list_empty(&queue->roots), 0))
        return urgent_heap_first(queue);
    return list_empty(&queue->sorted) ? NULL : urgent_node_of(queue->sorted.head.next);
}

/** Remove `node` from its queue, whichever queue that is. False if `node` is in none. */
static inline bool urgent_remove(struct urgent_node *node)
{
    if (!urgent_queued(node))
        return false;
    if (__builtin_expect(node->children.head.next != NULL, 0))
        urgent_heap_remove(node);
    return list_remove(&node->node);
}

/** Move a node behind the equally urgent nodes that follow it in the list, because its
 *  turn is over. No effect on a node of the heap. */
static inline void urgent_rotate(struct urgent_node *node)
{
    struct list_node *next = node->node.next;
    if (!next || node->children.head.next) /* in no queue, or in the heap */
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
