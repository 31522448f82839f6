/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine's operations: ids, failures, and memory for as long as one of them is held.
 *
 * Invariant: ids of live runs do not overlap, also after the ids have wrapped.
 * Callers: consumer.c (a WANT's ids), op.c, rendezvous.c.
 */
#include "engine.h"

#include "core/memory/alloc.h"

/* ---- the end ------------------------------------------------------------------------------ */

void engine_free(struct rendezvous *rdv)
{
    pool_close(rdv->ops);
    pool_close(rdv->recv_runs);
    pool_close(rdv->recv_slices);
    pool_close(rdv->devices);
    pool_close(rdv->steps);
    for (unsigned i = 0; i < UNEXPECTED_CLASSES; i++)
        pool_close(rdv->unexpected[i]);
    mem_free(rdv);
}

void engine_orphan_gone(struct rendezvous *rdv)
{
    /* acq_rel: whoever frees sees every other's release. */
    if (atomic_fetch_sub_explicit(&rdv->orphans, 1, memory_order_acq_rel) == 1)
        engine_free(rdv);
}

/* ---- ids ---------------------------------------------------------------------------------- */

/** id_next stands before a live run or the end: find how far it may go, or step behind the run.
 *  Only after a wrap is there any. */
static void ids_search(struct rendezvous *rdv, uint64_t n)
{
    uint64_t begin = rdv->id_mask + 1;
    uint64_t end = begin;
    if (rdv->id_next + n > rdv->id_mask + 1)
        rdv->id_next = 1;
    rdv->ids_clear_end = rdv->id_next;
    for (struct hash_node *node = NULL;
         (node = hash_table_next(&rdv->ids, node)) != NULL;) {
        const tryst_op *op = container_of(node, tryst_op, by_id);
        if (op->id >= begin || op->id + op->ids <= rdv->id_next)
            continue;
        begin = op->id;
        end = op->id + op->ids;
    }
    if (begin >= rdv->id_next + n)
        rdv->ids_clear_end = begin;
    else
        rdv->id_next = end;
}

uint64_t engine_ids(struct rendezvous *rdv, uint64_t n)
{
    while (rdv->id_next + n > rdv->ids_clear_end)
        ids_search(rdv, n);
    rdv->id_next += n;
    return rdv->id_next - n;
}
