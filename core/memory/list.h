/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list.
 *
 * One idea: the node is a member of the object that is listed, so listing allocates
 * nothing and removal from the middle takes constant time. The list is a ring through a
 * sentinel. Invariant: a node's `next` is NULL exactly when the node is in no list (a
 * zeroed node is in none), so the node alone shows whether it is listed, and a second
 * removal does no harm. No locks: the caller owns the list. */
#ifndef TRYST_CORE_MEMORY_LIST_H
#define TRYST_CORE_MEMORY_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *next, *prev;
};

struct list {
    /** Sentinel: head.next is the first node, head.prev the last. */
    struct list_node head;
};

/** Get the structure that has its `member` at `ptr`, which must not be NULL. */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->head.next = list->head.prev = &list->head;
}

static inline void list_node_init(struct list_node *node)
{
    node->next = node->prev = NULL;
}

static inline bool list_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline bool list_linked(const struct list_node *node)
{
    return node->next != NULL;
}

static inline void list_insert_before(struct list_node *place, struct list_node *node)
{
    assert(!list_linked(node));
    node->next = place;
    node->prev = place->prev;
    place->prev->next = node;
    place->prev = node;
}

static inline void list_push_back(struct list *list, struct list_node *node)
{
    list_insert_before(&list->head, node);
}

static inline void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list->head.next, node);
}

/** Remove `node` from its list, whichever list that is. False if `node` is in none. */
static inline bool list_remove(struct list_node *node)
{
    if (!list_linked(node))
        return false;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_node_init(node);
    return true;
}

/** Return the first node, which stays in the list; NULL when the list is empty. */
static inline struct list_node *list_first(const struct list *list)
{
    return list_empty(list) ? NULL : list->head.next;
}

static inline struct list_node *list_pop_front(struct list *list)
{
    struct list_node *node = list_first(list);
    if (node)
        list_remove(node);
    return node;
}

/** Move all nodes of `from` to the end of `list`; `from` is then empty. */
static inline void list_append(struct list *list, struct list *from)
{
    if (list_empty(from))
        return;
    from->head.next->prev = list->head.prev;
    list->head.prev->next = from->head.next;
    from->head.prev->next = &list->head;
    list->head.prev = from->head.prev;
    list_init(from);
}

/** Walk a list; the body may remove the current node, and no other. */
#define list_for_each_safe(list, node, after)                             \
    for (struct list_node *node = (list)->head.next, *after = node->next; \
         node != &(list)->head; node = after, after = node->next)

#endif
