/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of a tree, and the updates of its flows.
 *
 * Idea: a unit is one step of the fold over one slice. A large unit is computed in
 * pieces, so no call occupies the progress thread for long. The first addition reads this
 * rank's own term and writes the sum, so no tensor is copied first.
 *
 * Invariant: a tree finishes a unit before it begins another one.
 */
#include <assert.h>
#include <string.h>

#include "run.h"
#include "work.h"

/* ---- units ------------------------------------------------------------------------- */

static uint64_t slice_bytes(const struct coll_part *part, uint32_t index)
{
    uint64_t left = part->bytes - index * part->slice_bytes;
    return left < part->slice_bytes ? left : part->slice_bytes;
}

/* Write this rank's own term, premultiplied or copied. */
static void own_compute(const struct coll_run *run, char *to, const char *from,
                        uint64_t bytes)
{
    const tryst_coll *coll = run->coll;
    if (coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        coll->kernel->scale(to, from, bytes / coll->element_bytes, run->factor);
    else if (to != from)
        memcpy(to, from, bytes);
}

static void add_compute(struct coll_tree_run *at, uint64_t offset, const char *slot,
                        uint64_t bytes)
{
    const tryst_coll *coll = at->run->coll;
    char *to = at->sums + offset;
    const char *from = at->unit.child ? to : at->own + offset;
    if (!at->unit.child && coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM) {
        own_compute(at->run, to, from, bytes);
        from = to;
    }
    coll->kernel->reduce(to, from, slot, bytes / coll->element_bytes);
}

/* Compute the next `bytes` of the unit. */
static void unit_compute(struct coll_tree_run *at, uint64_t bytes)
{
    const tryst_coll *coll = at->run->coll;
    uint64_t offset = at->unit.index * at->part->slice_bytes + at->unit_done;
    if (!bytes)
        return;
    switch (at->unit.work) {
    case COLL_OWN:
        own_compute(at->run, at->sums + offset, at->own + offset, bytes);
        break;
    case COLL_ADD:
        add_compute(at, offset, (const char *)at->unit.slot + at->unit_done, bytes);
        break;
    case COLL_FINISH:
        coll->kernel->scale(at->sums + offset, at->sums + offset,
                            bytes / coll->element_bytes, coll->size);
        break;
    }
    at->unit_done += bytes;
}

/* True if a child of the tree waits for a grant. */
static bool child_waits(const struct coll_tree_run *at)
{
    bool waits = false;
    for (uint32_t c = 0; c < at->part->up_children; c++)
        waits |= at->flows[c].waits;
    return waits;
}

void run_waiting_mark(struct coll_run *run)
{
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        if (!child_waits(&run->trees[t]))
            continue;
        run->trees[t].is_marked = true;
        run_mark(run);
    }
}

/* True if the unit was the last addition of its slice at the root. */
static bool unit_passes_on(const struct coll_tree_run *at)
{
    return at->part->is_root && at->unit.work == COLL_ADD &&
           at->unit.child + 1 == at->part->up_children;
}

static void unit_end(struct coll_tree_run *at)
{
    at->has_unit = false;
    coll_tree_advance(&at->tree, &at->unit);
    if (at->part->is_small)
        return;
    if (at->unit.work == COLL_ADD)
        scratch_put(&at->run->coll->colls->scratch, at->part->slice_bytes, at->unit.slot);
    if (unit_passes_on(at) && coll_lead_passed(&at->run->lead, &at->tree))
        run_waiting_mark(at->run);
}

static bool unit_fetch(struct coll_tree_run *at)
{
    if (at->has_unit)
        return true;
    at->has_unit = coll_tree_next(&at->tree, &at->unit);
    at->unit_done = 0;
    return at->has_unit;
}

uint64_t tree_work(struct coll_tree_run *at, uint64_t budget)
{
    uint64_t spent = 0;
    while (unit_fetch(at)) {
        uint64_t bytes = slice_bytes(at->part, at->unit.index) - at->unit_done;
        if (bytes > budget - spent) {
            bytes = (budget - spent) / COLL_LINE_BYTES * COLL_LINE_BYTES;
            if (!bytes)
                break;
        }
        unit_compute(at, bytes);
        spent += bytes;
        if (at->unit_done == slice_bytes(at->part, at->unit.index))
            unit_end(at);
    }
    return spent;
}

void tree_work_unit(struct coll_tree_run *at)
{
    bool taken = !at->has_unit && unit_fetch(at);
    assert(taken);
    (void)taken;
    unit_compute(at, slice_bytes(at->part, at->unit.index));
    unit_end(at);
}

void tree_slots_release(struct coll_tree_run *at, uint32_t child)
{
    struct coll_child *from = &at->tree.children[child];
    for (; !at->part->is_small && from->added < from->granted; from->added++)
        scratch_put(&at->run->coll->colls->scratch, at->part->slice_bytes,
                    from->slots[from->added % COLL_GRANTS_MAX]);
}

/* ---- flows ------------------------------------------------------------------------- */

static void flow_ready_update(struct coll_flow *flow, uint32_t ready)
{
    if (flow->is_live && flow->flow.ready < ready)
        flow_ready(&flow->flow, ready);
}

static void flow_place_retry(struct coll_flow *flow)
{
    flow->waits = false;
    flow_place_again(&flow->flow);
}

void tree_flows_update(struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    uint32_t from_parent = part->up_children + part->sends_up;
    uint32_t to_children = from_parent + part->receives_down;
    uint32_t down = coll_tree_ready_down(&at->tree);
    if (part->sends_up)
        flow_ready_update(&at->flows[part->up_children], coll_tree_ready_up(&at->tree));
    for (uint32_t i = 0; i < part->down_children; i++)
        flow_ready_update(&at->flows[to_children + i], down);
    if (part->receives_down && at->flows[from_parent].waits)
        flow_place_retry(&at->flows[from_parent]);
    for (uint32_t c = 0; c < part->up_children; c++)
        if (at->flows[c].waits && coll_tree_may_grant(&at->tree, c))
            flow_place_retry(&at->flows[c]);
}
