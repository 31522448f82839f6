/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines: a binary heap of operations by the time at which their cancel starts.
 *
 * Invariant: items[i]->heap_index == i, and no child is earlier than its parent.
 */
#include "deadline.h"

#include "core/memory/alloc.h"
#include "engine.h"

static void heap_put(struct rendezvous *rdv, size_t at, tryst_op *op)
{
    rdv->deadlines.items[at] = op;
    op->heap_index = at;
}

static void sift_up(struct rendezvous *rdv, size_t at, tryst_op *op)
{
    while (at > 0) {
        tryst_op *parent = rdv->deadlines.items[(at - 1) / 2];
        if (parent->deadline_at_ns <= op->deadline_at_ns)
            break;
        heap_put(rdv, at, parent);
        at = (at - 1) / 2;
    }
    heap_put(rdv, at, op);
}

static void sift_down(struct rendezvous *rdv, size_t at, tryst_op *op)
{
    size_t count = rdv->deadlines.count;
    tryst_op **items = rdv->deadlines.items;
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            items[child + 1]->deadline_at_ns < items[child]->deadline_at_ns)
            child++;
        if (op->deadline_at_ns <= items[child]->deadline_at_ns)
            break;
        heap_put(rdv, at, items[child]);
        at = child;
    }
    heap_put(rdv, at, op);
}

tryst_status deadline_add(struct rendezvous *rdv, tryst_op *op)
{
    if (!mem_reserve(&rdv->deadlines.items, &rdv->deadlines.capacity,
                     rdv->deadlines.count + 1, sizeof(tryst_op *)))
        return TRYST_E_NOMEM;
    sift_up(rdv, rdv->deadlines.count++, op);
    return TRYST_OK;
}

void deadline_remove(struct rendezvous *rdv, tryst_op *op)
{
    size_t at = op->heap_index;
    if (at == SIZE_MAX)
        return;
    op->heap_index = SIZE_MAX;
    tryst_op *last = rdv->deadlines.items[--rdv->deadlines.count];
    if (last == op)
        return;
    if (at > 0 &&
        last->deadline_at_ns < rdv->deadlines.items[(at - 1) / 2]->deadline_at_ns)
        sift_up(rdv, at, last);
    else
        sift_down(rdv, at, last);
}

tryst_op *deadline_pop(struct rendezvous *rdv, uint64_t now_ns)
{
    tryst_op *op = rdv->deadlines.count ? rdv->deadlines.items[0] : NULL;
    if (!op || op->deadline_at_ns > now_ns)
        return NULL;
    deadline_remove(rdv, op);
    return op;
}

uint64_t deadline_next(const struct rendezvous *rdv)
{
    return rdv->deadlines.count ? rdv->deadlines.items[0]->deadline_at_ns : 0;
}
