/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of a collective's flows: each moves a counter and marks its tree.
 *
 * Invariant: hooks run inside walks of the protocol, so no hook calls the protocol or
 * ends an operation; the engine does both later in the same pass. Hooks compute only
 * small ranges, since their payload is valid only during the call.
 */
#include <assert.h>
#include <string.h>

#include "commsched/profile/recorder.h"
#include "hooks.h"
#include "run.h"
#include "work.h"

static struct coll_flow *flow_of(struct flow *flow)
{
    return container_of(flow, struct coll_flow, flow);
}

static void mark(struct coll_tree_run *at)
{
    at->is_marked = true;
    run_mark(at->run);
}

/* Note the time of the first slice that arrives or has left. */
static void run_record_slice(struct coll_run *run)
{
    if (__builtin_expect(run->recorded && !run->first_slice_at, 0))
        run->first_slice_at = recorder_now(run->coll->colls->recorder);
}

/* ---- up: from a child -------------------------------------------------------------- */

/* Queue a flow for scratch, by urgency. */
static tryst_status slot_wait(struct coll_flow *flow)
{
    struct coll_run *run = flow->tree->run;
    run->coll->colls->is_due = true;
    urgent_push(&run->coll->colls->scratch.waiters, &flow->waiter, &run->urgency);
    return TRYST_AGAIN;
}

/* Get scratch for a slice, unless a more urgent flow waits for some. */
static tryst_status slot_get(struct coll_flow *flow, void **slot_p)
{
    struct coll_tree_run *at = flow->tree;
    struct scratch *scratch = &at->run->coll->colls->scratch;
    (void)urgent_remove(&flow->waiter);
    struct urgent_node *first = urgent_first(&scratch->waiters);
    if (first && urgency_before(first->urgency, &at->run->urgency))
        return slot_wait(flow);
    tryst_status status = scratch_get(scratch, at->part->slice_bytes, slot_p);
    if (status == TRYST_AGAIN)
        return slot_wait(flow);
    if (status != TRYST_OK)
        run_fail_own(at->run, status, "no memory for the slices of its children");
    return status == TRYST_OK ? status : TRYST_AGAIN;
}

/* Mark the tree if the next child waits, perhaps for the grant to `child`.
 * tree_flows_update then places the next child's slice. */
static void next_child_mark(struct coll_tree_run *at, uint32_t child)
{
    if (child + 1 < at->part->up_children && at->flows[child + 1].waits)
        mark(at);
}

static tryst_status child_place(struct flow *flow, uint32_t index, void **data_p,
                                struct tryst_mem **mem_p)
{
    struct coll_flow *from = flow_of(flow);
    struct coll_tree_run *at = from->tree;
    struct coll_child *child = &at->tree.children[from->child];
    (void)mem_p;
    assert(!at->part->is_small && index == child->granted);
    (void)index;
    if (run_failed(at->run))
        return TRYST_AGAIN;
    child->slices_announced = flow->slices_announced;
    from->waits = !coll_tree_may_grant(&at->tree, from->child);
    if (from->waits)
        return TRYST_AGAIN;
    tryst_status status = slot_get(from, data_p);
    if (status != TRYST_OK)
        return status;
    coll_tree_grant(&at->tree, from->child, *data_p);
    next_child_mark(at, from->child);
    return status;
}

static void child_announced(struct flow *flow)
{
    struct coll_flow *from = flow_of(flow);
    from->tree->tree.children[from->child].slices_announced = flow->slices_announced;
}

static void child_arrived(struct flow *flow, uint32_t index)
{
    struct coll_flow *from = flow_of(flow);
    run_record_slice(from->tree->run);
    coll_tree_landed(&from->tree->tree, from->child, index);
    mark(from->tree);
}

/* True if the next due unit is the addition of `child`. */
static bool is_next_addition(const struct coll_tree_run *at, uint32_t child)
{
    struct coll_unit unit;
    return !at->has_unit && coll_tree_next(&at->tree, &unit) && unit.work == COLL_ADD &&
           unit.child == child;
}

static void child_slice_receive(struct flow *flow, const void *payload, size_t bytes)
{
    struct coll_flow *from = flow_of(flow);
    struct coll_tree_run *at = from->tree;
    run_record_slice(at->run);
    assert(bytes == at->part->bytes);
    coll_tree_taken(&at->tree, from->child, (void *)payload);
    if (is_next_addition(at, from->child)) {
        tree_work_unit(at);
    } else {
        char *keep = at->keep + from->child * bytes;
        if (bytes)
            memcpy(keep, payload, bytes);
        at->tree.children[from->child].slots[0] = keep;
    }
    mark(at);
}

/* ---- up: to the parent ------------------------------------------------------------- */

static void parent_sent(struct flow *flow, uint32_t index)
{
    struct coll_tree_run *at = flow_of(flow)->tree;
    run_record_slice(at->run);
    coll_tree_sent(&at->tree, index);
    if (part_passes_on(at->part) && coll_lead_passed(&at->run->lead, &at->tree))
        run_waiting_mark(at->run);
    if (at->tree.reuses)
        mark(at);
}

/* ---- down: from the parent --------------------------------------------------------- */

static tryst_status result_place(struct flow *flow, uint32_t index, void **data_p,
                                 struct tryst_mem **mem_p)
{
    struct coll_flow *from = flow_of(flow);
    struct coll_tree_run *at = from->tree;
    (void)mem_p;
    from->waits = !coll_tree_may_place(&at->tree, index);
    *data_p = at->result + index * at->part->slice_bytes;
    return from->waits ? TRYST_AGAIN : TRYST_OK;
}

static void result_arrived(struct flow *flow, uint32_t index)
{
    struct coll_tree_run *at = flow_of(flow)->tree;
    run_record_slice(at->run);
    coll_tree_arrived(&at->tree, index);
    mark(at);
}

static void result_slice_receive(struct flow *flow, const void *payload, size_t bytes)
{
    struct coll_tree_run *at = flow_of(flow)->tree;
    assert(bytes == at->part->bytes);
    if (bytes)
        memcpy(at->result, payload, bytes);
    result_arrived(flow, 0);
}

/* ---- the end ----------------------------------------------------------------------- */

static struct cause flow_failing(const struct flow *flow)
{
    return container_of(flow, struct coll_flow, flow)->tree->run->cause;
}

static void flow_ended(struct flow *flow, struct cause cause, const char *text)
{
    struct coll_flow *of = flow_of(flow);
    struct coll_tree_run *at = of->tree;
    struct coll_run *run = at->run;
    assert(of->is_live);
    of->is_live = of->waits = false;
    run->live--;
    (void)urgent_remove(&of->waiter);
    if (cause.status != TRYST_OK) {
        run_fail(run, cause, text);
        if (of < at->flows + at->part->up_children)
            tree_slots_release(at, of->child);
    }
    mark(at);
}

const struct flow_ops flow_up_from_child = {.place = child_place,
                                            .slices_announced = child_announced,
                                            .arrived = child_arrived,
                                            .take = child_slice_receive,
                                            .failing = flow_failing,
                                            .ended = flow_ended};
const struct flow_ops flow_up_to_parent = {
    .sent = parent_sent, .failing = flow_failing, .ended = flow_ended};
/* Without `place`, slices of results are posted ahead. flow_down_reusing is for results
 * in memory that sums are still sent from. */
const struct flow_ops flow_down_from_parent = {.arrived = result_arrived,
                                               .take = result_slice_receive,
                                               .failing = flow_failing,
                                               .ended = flow_ended};
const struct flow_ops flow_down_reusing = {.place = result_place,
                                           .arrived = result_arrived,
                                           .take = result_slice_receive,
                                           .failing = flow_failing,
                                           .ended = flow_ended};
const struct flow_ops flow_down_to_child = {.failing = flow_failing, .ended = flow_ended};
