/* SPDX-License-Identifier: Apache-2.0 */
/** @file queue.h
 *  A queue of what has a sequence number, ascending.
 *
 *  Idea: numbers come, and are looked for, nearly in order, while thousands may wait. So a search starts
 *  where the last one ended: at the cursor, a node of the list that is nobody's, which stays when the
 *  one that was found leaves.
 *  Invariant: all before the cursor have smaller numbers than it, and none behind it has: for it
 *  takes, where it moves, the number that was looked for. It is in the list only after a search that
 *  had something to look through.
 */
#ifndef RENDEZVOUS_MATCH_QUEUE_H
#define RENDEZVOUS_MATCH_QUEUE_H

#include <stdint.h>

#include "core/memory/list.h"

/** Embedded in what is queued. list_remove(&node) takes it out. */
struct queue_node {
    struct list_node node;
    uint64_t seq;
};

struct queue {
    struct list list;
    struct queue_node cursor;
};

static inline void queue_init(struct queue *queue)
{
    list_init(&queue->list);
    queue->cursor = (struct queue_node){.seq = 0};
}

/** Behind all with smaller numbers: searched from the back, since it is almost always the largest. */
static inline void queue_insert(struct queue *queue, struct queue_node *item)
{
    struct list_node *head = &queue->list.head, *place = head->prev;
    while (place != head && container_of(place, struct queue_node, node)->seq > item->seq)
        place = place->prev;
    list_insert_before(place->next, &item->node);
}
/** The one behind `item` (NULL: the first), or NULL. */
struct queue_node *queue_next(const struct queue *queue, const struct queue_node *item);

/** Part of queue_find. */
struct queue_node *queue_search(struct queue *queue, uint64_t seq);
/** The one with this number, or NULL. */
static inline struct queue_node *queue_find(struct queue *queue, uint64_t seq)
{
    return list_empty(&queue->list) ? NULL : queue_search(queue, seq);
}

#endif
