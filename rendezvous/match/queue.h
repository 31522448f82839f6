/* SPDX-License-Identifier: Apache-2.0 */
/** @file queue.h
 *  A queue of items by ascending sequence number.
 *
 *  Idea: numbers are inserted and searched nearly in order, while thousands may wait. So
 *  a search starts where the last search ended: at the cursor, a list node without an
 *  item, which stays when the item that was found leaves the queue. (A peer chooses the
 *  numbers of its WANTs, so these are found by a hash: parked.h. Of the items here, a
 *  peer chooses only the numbers of unexpected DATA, which eager credit bounds: 341 of
 *  them by default.)
 *
 *  Invariant: all items before the cursor have smaller numbers than the cursor, and all
 *  items behind the cursor have numbers that are not smaller: a search that moves the
 *  cursor gives it the number of that search. The cursor is in the list from the first
 *  search of a queue that is not empty.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_QUEUE_H
#define TRYST_RENDEZVOUS_MATCH_QUEUE_H

#include <stdint.h>

#include "core/memory/list.h"

/** Embedded in an item; list_remove(&node) takes the item out. */
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

/** Insert an item by its number. The search starts at the back, since the new number is
 *  almost always the largest. */
static inline void queue_insert(struct queue *queue, struct queue_node *item)
{
    struct list_node *head = &queue->list.head, *place = head->prev;
    while (place != head && container_of(place, struct queue_node, node)->seq > item->seq)
        place = place->prev;
    list_insert_before(place->next, &item->node);
}
/** Return the item behind `item`, or the first item if `item` is NULL. NULL: there is
 *  none. */
struct queue_node *queue_next(const struct queue *queue, const struct queue_node *item);

/** Do the search of queue_find in a list that is not empty. */
struct queue_node *queue_search(struct queue *queue, uint64_t seq);
/** Return the item with this number, or NULL. */
static inline struct queue_node *queue_find(struct queue *queue, uint64_t seq)
{
    return list_empty(&queue->list) ? NULL : queue_search(queue, seq);
}

#endif
