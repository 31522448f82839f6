/* SPDX-License-Identifier: Apache-2.0 */
/* Queues by sequence number; see queue.h. */
#include "queue.h"

static uint64_t seq_of(const struct list_node *node)
{
    return container_of(node, struct queue_node, node)->seq;
}

struct queue_node *queue_next(const struct queue *queue, const struct queue_node *item)
{
    const struct list_node *node = item ? &item->node : &queue->list.head;
    struct list_node *next = node->next;
    if (next == &queue->cursor.node)
        next = next->next;
    return next == &queue->list.head ? NULL : container_of(next, struct queue_node, node);
}

struct queue_node *queue_search(struct queue *queue, uint64_t seq)
{
    struct list_node *head = &queue->list.head, *cursor = &queue->cursor.node;
    if (!list_linked(cursor))
        list_push_front(&queue->list, cursor);
    struct list_node *place = cursor->next;
    while (place != head && seq_of(place) < seq)
        place = place->next;
    if (place == cursor->next && (place == head || seq_of(place) != seq))
        for (struct list_node *before = cursor->prev;
             before != head && seq_of(before) >= seq; before = before->prev)
            place = before;
    if (place != cursor->next) {
        list_remove(cursor);
        list_insert_before(place, cursor);
        queue->cursor.seq = seq;
    }
    return place != head && seq_of(place) == seq
               ? container_of(place, struct queue_node, node)
               : NULL;
}
