/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of an urgent queue; see urgent.h. */
#include "core/memory/urgent.h"

/* Meld two trees: the less urgent root becomes a child of the other. Returns the root.
 */
static struct urgent_node *trees_meld(struct urgent_node *a, struct urgent_node *b)
{
    bool b_first = urgency_before(b->urgency, a->urgency);
    struct urgent_node *parent = b_first ? b : a;
    struct urgent_node *child = b_first ? a : b;
    list_push_front(&parent->children, &child->node);
    return parent;
}

/* Meld the trees of `roots` into one: first in pairs, then the pairs from the last to
 * the first. This order makes the cost logarithmic. */
static void roots_meld(struct list *roots)
{
    struct list pairs;
    struct list_node *one;
    list_init(&pairs);
    while ((one = list_pop_front(roots)) != NULL) {
        struct list_node *other = list_pop_front(roots);
        struct urgent_node *pair = urgent_node_of(one);
        if (other)
            pair = trees_meld(pair, urgent_node_of(other));
        list_push_front(&pairs, &pair->node);
    }
    struct urgent_node *tree = urgent_node_of(list_pop_front(&pairs));
    while ((one = list_pop_front(&pairs)) != NULL)
        tree = trees_meld(tree, urgent_node_of(one));
    list_push_back(roots, &tree->node);
}

struct urgent_node *urgent_heap_first(struct urgent_queue *queue)
{
    struct list *roots = &queue->roots;
    if (roots->head.next != roots->head.prev)
        roots_meld(roots);
    struct urgent_node *root = urgent_node_of(roots->head.next);
    if (list_empty(&queue->sorted))
        return root;
    struct urgent_node *first = urgent_node_of(queue->sorted.head.next);
    return urgency_before(root->urgency, first->urgency) ? root : first;
}

/* Remove a node of the heap. Its children take its place among its siblings: each is
 * less urgent than the node, and so than the node's parent. */
void urgent_heap_remove(struct urgent_node *node)
{
    struct list *children = &node->children;
    if (!list_empty(children)) {
        children->head.next->prev = node->node.prev;
        node->node.prev->next = children->head.next;
        children->head.prev->next = &node->node;
        node->node.prev = children->head.prev;
    }
    children->head.next = children->head.prev = NULL;
}
