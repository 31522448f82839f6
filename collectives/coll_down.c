/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice of the result descends; read from top to bottom.
 *
 *      parent
 *         │ flow "d"
 *      1  ▼ placed at result + i * slice; where the memory is also that of the sums, only
 *           after sum i has been sent, or from a parent that has read sum i itself before
 *           it sends the result                                           result_place
 *      2  result[i] has arrived                                           result_arrived
 *         ├─────▶ child 0
 *      3  └─────▶ child 1        ready                                coll_down_update
 *
 * At the root, a slice is ready when its sum is complete (coll_up.c). In a list of flows
 * each flow is such a tree of two ranks. In an exchange nothing descends: each rank sends
 * its own term, which is ready once it is in host memory.
 *
 * Invariant: as in coll_up.c, hooks only move counters and mark the tree.
 */
#include "coll_down.h"

#include <assert.h>
#include <string.h>

#include "fail.h"

/* ---- 1: from the parent, placed ---------------------------------------------------- */

static tryst_status result_place(struct flow *flow, uint32_t index, void **data_p,
                                 struct tryst_mem **mem_p)
{
    struct coll_flow *from = coll_flow_of(flow);
    struct coll_tree_run *at = from->tree;
    (void)mem_p;
    from->waits =
        !(flow->ahead && flow_may_borrow(flow)) && !coll_tree_may_place(&at->tree, index);
    *data_p = at->result + index * at->part->slice_bytes;
    return from->waits ? TRYST_AGAIN : TRYST_OK;
}

/* ---- 2: from the parent, arrived --------------------------------------------------- */

static void result_arrived(struct flow *flow, uint32_t index)
{
    struct coll_tree_run *at = coll_flow_of(flow)->tree;
    run_record_slice(at->run);
    coll_tree_arrived(&at->tree, index);
    tree_mark(at);
}

static void result_slice_receive(struct flow *flow, const void *payload, size_t bytes)
{
    struct coll_tree_run *at = coll_flow_of(flow)->tree;
    assert(bytes == at->part->bytes);
    if (bytes)
        memcpy(at->result, payload, bytes);
    result_arrived(flow, 0);
}

/* ---- 3: to the children ------------------------------------------------------------ */

static uint32_t ready_down(const struct coll_tree_run *at)
{
    return at->part->is_exchange ? at->tree.own : coll_tree_ready_down(&at->tree);
}

void coll_down_update(struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    struct coll_flow *flows = at->flows + part_up_flows(part);
    uint32_t ready = ready_down(at);
    for (uint32_t i = 0; i < part->down_children; i++)
        coll_flow_ready(&flows[part->receives_down + i], ready);
    if (part->receives_down && flows->waits)
        coll_flow_place_again(flows);
}

static void child_sent(struct flow *flow, uint32_t index)
{
    (void)index;
    run_record_slice(coll_flow_of(flow)->tree->run);
    coll_flow_leave(coll_flow_of(flow));
}

/* ---- the flows --------------------------------------------------------------------- */

/* Without `place`, slices of results are posted ahead. down_reusing is for results in
 * memory that sums are still sent from. */
static const struct flow_ops down_from_parent = {.arrived = result_arrived,
                                                 .take = result_slice_receive,
                                                 .failing = coll_flow_failing,
                                                 .ended = coll_flow_ended};
static const struct flow_ops down_reusing = {.place = result_place,
                                             .arrived = result_arrived,
                                             .take = result_slice_receive,
                                             .failing = coll_flow_failing,
                                             .ended = coll_flow_ended};
static const struct flow_ops down_to_child = {
    .sent = child_sent, .failing = coll_flow_failing, .ended = coll_flow_ended};

/* True if the result comes from the rank that the sums go to. */
static bool parents_are_one(const struct coll_tree_run *at)
{
    tryst_key *const *keys = at->run->coll->keys + at->part->flow_at;
    return at->part->sends_up && keys[at->part->up_children]->dst_rank ==
                                     keys[part_up_flows(at->part)]->src_rank;
}

bool coll_down_flow_set(struct coll_tree_run *at, uint32_t index, void **data_p)
{
    struct flow *flow = &at->flows[index].flow;
    bool receives = at->part->receives_down && index == part_up_flows(at->part);
    *data_p = at->part->is_exchange ? (void *)at->own : at->result;
    flow->ops = !receives         ? &down_to_child
                : at->tree.reuses ? &down_reusing
                                  : &down_from_parent;
    flow->ahead = receives && parents_are_one(at);
    if (!receives)
        flow->ready = ready_down(at);
    return !receives;
}
