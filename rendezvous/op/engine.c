/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids of an engine's operations, and the engine's memory, which lasts as long as a
 * user holds an operation.
 *
 * Invariant: ids of live runs do not overlap, also after the ids have wrapped.
 */
#include "engine.h"

#include "core/memory/alloc.h"

/* ---- the end ----------------------------------------------------------------------- */

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
    /* acq_rel: the thread that frees sees the releases of all others. */
    if (atomic_fetch_sub_explicit(&rdv->orphans, 1, memory_order_acq_rel) == 1)
        engine_free(rdv);
}

/* ---- ids --------------------------------------------------------------------------- */

/* Search for n free ids from ids.next on, or from 1 where too few ids are left. If they
 * fit before the next live run, set ids.clear_end to its first id (without a run: to the
 * end); else move ids.next behind the run. Before the first wrap no live run is ahead. */
static void ids_search(struct rendezvous *rdv, uint64_t n)
{
    uint64_t begin = rdv->ids.mask + 1;
    uint64_t end = begin;
    if (rdv->ids.next + n > rdv->ids.mask + 1)
        rdv->ids.next = 1;
    rdv->ids.clear_end = rdv->ids.next;
    for (struct hash_node *node = NULL;
         (node = hash_table_next(&rdv->ids.table, node)) != NULL;) {
        const tryst_op *op = container_of(node, tryst_op, by_id);
        if (op->id >= begin || op->id + op->ids <= rdv->ids.next)
            continue;
        begin = op->id;
        end = op->id + op->ids;
    }
    if (begin >= rdv->ids.next + n)
        rdv->ids.clear_end = begin;
    else
        rdv->ids.next = end;
}

uint64_t engine_ids(struct rendezvous *rdv, uint64_t n)
{
    while (rdv->ids.next + n > rdv->ids.clear_end)
        ids_search(rdv, n);
    rdv->ids.next += n;
    return rdv->ids.next - n;
}
