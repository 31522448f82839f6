/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice climbs; read from top to bottom. Slice i at a rank with two children:
 *
 *      child 0, child 1
 *         │ flow "u"
 *      1  │ announced: an OFFER has the number of ready slices            child_announced
 *      2  │ granted scratch: once announced, once the child before is
 *         │ granted and within the lead (tree/tree.c), and once a buffer
 *         │ is free (tree/scratch.c)                                      child_place
 *      3  ▼ landed: c0[i], c1[i] in scratch                               child_arrived
 *      4  added: sums[i] = own[i] + c0[i], then + c1[i]; the scratch
 *         is free; the root scales an average                             coll_up_add
 *
 *      Where this rank can read the child's memory, steps 2 to 4 need no scratch: the
 *      slice is borrowed (tree/tree.h has the rule), read where it lies while it is
 *      added, and returned to the child before the sum is passed on.
 *
 *      5  ready for the parent                                            coll_up_update
 *         │ flow "u"
 *      6  ▼ sent: the transport has read sums[i]                          parent_sent
 *      parent
 *
 * At the root the sum is the result, which descends (coll_down.c). A range that travels
 * as DATA is one slice, which is neither announced nor granted: child_slice_receive adds
 * it if its turn has come, else keeps its bytes. In an exchange the children are all
 * other ranks, each with its own term; all ranks add the terms in the order of the ranks.
 *
 * Idea: a unit is one step of the fold over one slice. A large unit is computed in
 * pieces, so no call occupies the progress thread for long. The first addition reads this
 * rank's own term and writes the sum, so no tensor is copied first.
 *
 * Invariants: hooks run inside walks of the protocol, so no hook calls the protocol or
 * ends an operation: a hook moves a counter and marks its tree, and the engine (coll.c)
 * works later in the same pass. Hooks compute only small ranges, since their payload is
 * valid only during the call. A tree finishes a unit before it begins another one.
 */
#include "coll_up.h"

#include <assert.h>
#include <string.h>

#include "fail.h"

/* ---- 1: a child announces slices --------------------------------------------------- */

static void child_announced(struct flow *flow)
{
    struct coll_flow *from = coll_flow_of(flow);
    from->tree->tree.children[from->child].slices_announced = flow->slices_announced;
}

/* ---- 2: scratch is granted --------------------------------------------------------- */

/* Queue a flow for scratch, by urgency. */
static tryst_status buffer_wait(struct coll_flow *flow)
{
    struct coll_run *run = flow->tree->run;
    run->coll->colls->is_due = true;
    urgent_push(&run->coll->colls->scratch.waiters, &flow->waiter, &run->urgency);
    return TRYST_AGAIN;
}

/* Get scratch for a slice, unless a more urgent flow waits for some. */
static tryst_status buffer_get(struct coll_flow *flow, void **buffer_p)
{
    struct coll_tree_run *at = flow->tree;
    struct scratch *scratch = &at->run->coll->colls->scratch;
    (void)urgent_remove(&flow->waiter);
    struct urgent_node *first = urgent_first(&scratch->waiters);
    if (first && urgency_before(first->urgency, &at->run->urgency))
        return buffer_wait(flow);
    tryst_status status = scratch_get(scratch, at->part->slice_bytes, buffer_p);
    if (status == TRYST_AGAIN)
        return buffer_wait(flow);
    if (status != TRYST_OK)
        run_fail_own(at->run, status, "no memory for the slices of its children");
    return status == TRYST_OK ? status : TRYST_AGAIN;
}

/* Mark the tree if the next child waits, perhaps for the grant to `child`.
 * coll_up_update then places the next child's slice. */
static void next_child_mark(struct coll_tree_run *at, uint32_t child)
{
    if (child + 1 < at->part->up_children && at->flows[child + 1].waits)
        tree_mark(at);
}

/* True if the next slice of `child` may be granted scratch, or be borrowed. */
static bool child_may_send(const struct coll_tree_run *at, uint32_t child)
{
    return at->flows[child].borrows ? coll_tree_may_borrow(&at->tree, child)
                                    : coll_tree_may_grant(&at->tree, child);
}

static tryst_status child_place(struct flow *flow, uint32_t index, void **data_p,
                                struct tryst_mem **mem_p)
{
    struct coll_flow *from = coll_flow_of(flow);
    struct coll_tree_run *at = from->tree;
    struct coll_child *child = &at->tree.children[from->child];
    (void)mem_p;
    *data_p = NULL;
    assert(!at->part->is_small && index <= child->granted);
    if (run_failed(at->run))
        return TRYST_AGAIN;
    if (index < child->granted) /* borrowed ahead of a WANT that was deferred */
        return TRYST_OK;
    child->slices_announced = flow->slices_announced;
    from->borrows = flow_may_borrow(flow);
    from->waits = !child_may_send(at, from->child);
    if (from->waits)
        return TRYST_AGAIN;
    tryst_status status = from->borrows ? TRYST_OK : buffer_get(from, data_p);
    if (status != TRYST_OK)
        return status;
    coll_tree_grant(&at->tree, from->child, *data_p);
    next_child_mark(at, from->child);
    return status;
}

/* Mark the trees in which a child waits for a grant: the limits of the lead have
 * risen. */
static void run_waiting_mark(struct coll_run *run)
{
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        struct coll_tree_run *at = &run->trees[t];
        for (uint32_t c = 0; c < at->part->up_children; c++)
            if (at->flows[c].waits)
                tree_mark(at);
    }
}

/* ---- 3: the slice lands ------------------------------------------------------------ */

static void child_arrived(struct flow *flow, uint32_t index)
{
    struct coll_flow *from = coll_flow_of(flow);
    run_record_slice(from->tree->run);
    coll_tree_landed(&from->tree->tree, from->child, index);
    from->tree->stalls = false;
    tree_mark(from->tree);
}

/* ---- 4: the slice is added --------------------------------------------------------- */

static uint64_t slice_bytes(const struct coll_part *part, uint32_t index)
{
    uint64_t left = part->bytes - index * part->slice_bytes;
    return left < part->slice_bytes ? left : part->slice_bytes;
}

/* Add a term of an exchange. This rank's own term is added in its place: it is first at
 * rank 0, and comes after child r - 1 at rank r. */
static void exchange_compute(struct coll_tree_run *at, uint64_t offset, const char *term,
                             uint64_t bytes)
{
    const tryst_coll *coll = at->run->coll;
    uint32_t child = at->unit.child, rank = (uint32_t)coll->rank;
    uint64_t count = bytes / coll->element_bytes;
    const char *own = at->own + offset;
    char *to = at->sums + offset;
    if (child)
        coll->kernel->reduce(to, to, term, count);
    else if (!rank)
        coll->kernel->reduce(to, own, term, count);
    else if (rank > 1 && bytes)
        memcpy(to, term, bytes);
    if (child + 1 == rank)
        coll->kernel->reduce(to, child ? to : term, own, count);
}

static void add_compute(struct coll_tree_run *at, uint64_t offset, const char *buffer,
                        uint64_t bytes)
{
    const tryst_coll *coll = at->run->coll;
    char *to = at->sums + offset;
    const char *from = at->unit.child ? to : at->own + offset;
    if (at->part->is_exchange) {
        exchange_compute(at, offset, buffer, bytes);
        return;
    }
    if (!at->unit.child && coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM) {
        run_own_compute(at->run, to, from, bytes);
        from = to;
    }
    coll->kernel->reduce(to, from, buffer, bytes / coll->element_bytes);
}

/* Return the offset of the unit's next byte in the range. */
static uint64_t unit_offset(const struct coll_tree_run *at)
{
    return at->unit.index * at->part->slice_bytes + at->unit_done;
}

/* Add bytes of a borrowed slice (flow_use). */
static void borrowed_add(void *arg, const void *data, size_t bytes)
{
    struct coll_tree_run *at = arg;
    add_compute(at, unit_offset(at), data, bytes);
}

static bool unit_is_borrowed(const struct coll_tree_run *at)
{
    return at->unit.work == COLL_ADD && !at->unit.buffer && !at->part->is_small;
}

static struct flow *unit_flow(const struct coll_tree_run *at)
{
    return &at->flows[at->unit.child].flow;
}

/* Compute the next `bytes` of the unit. False: its slice cannot be read now. */
static bool unit_compute(struct coll_tree_run *at, uint64_t bytes)
{
    const tryst_coll *coll = at->run->coll;
    uint64_t offset = unit_offset(at);
    if (!bytes)
        return true;
    switch (at->unit.work) {
    case COLL_OWN:
        run_own_compute(at->run, at->sums + offset, at->own + offset, bytes);
        break;
    case COLL_ADD:
        if (!unit_is_borrowed(at))
            add_compute(at, offset, (const char *)at->unit.buffer + at->unit_done, bytes);
        else if (flow_read(unit_flow(at), at->unit.index, at->unit_done, bytes,
                           borrowed_add, at) != TRYST_OK)
            return false;
        break;
    case COLL_FINISH:
        coll->kernel->scale(at->sums + offset, at->sums + offset,
                            bytes / coll->element_bytes, coll->size);
        break;
    }
    at->unit_done += bytes;
    return true;
}

/* True if the unit was the last addition of its slice at the root. */
static bool unit_passes_on(const struct coll_tree_run *at)
{
    return at->part->is_root && at->unit.work == COLL_ADD &&
           at->unit.child + 1 == at->part->up_children;
}

/* End the unit, after which its sum may be passed on. False: the bytes of its borrowed
 * slice do not count. */
static bool unit_end(struct coll_tree_run *at)
{
    if (unit_is_borrowed(at) && flow_return(unit_flow(at), at->unit.index) != TRYST_OK)
        return false;
    at->has_unit = false;
    coll_tree_advance(&at->tree, &at->unit);
    if (at->part->is_small)
        return true;
    if (at->unit.work == COLL_ADD && at->unit.buffer)
        scratch_put(&at->run->coll->colls->scratch, at->part->slice_bytes,
                    at->unit.buffer);
    if (unit_passes_on(at) && coll_lead_passed(&at->run->lead, &at->tree))
        run_waiting_mark(at->run);
    return true;
}

static bool unit_fetch(struct coll_tree_run *at)
{
    if (at->has_unit)
        return true;
    at->has_unit = coll_tree_next(&at->tree, &at->unit);
    at->unit_done = 0;
    return at->has_unit;
}

uint64_t coll_up_add(struct coll_tree_run *at, uint64_t budget)
{
    uint64_t spent = 0;
    while (!at->stalls && unit_fetch(at)) {
        uint64_t bytes = slice_bytes(at->part, at->unit.index) - at->unit_done;
        if (bytes > budget - spent) {
            bytes = (budget - spent) / COLL_LINE_BYTES * COLL_LINE_BYTES;
            if (!bytes)
                break;
        }
        at->stalls = !unit_compute(at, bytes);
        if (at->stalls)
            break;
        spent += bytes;
        if (at->unit_done == slice_bytes(at->part, at->unit.index))
            at->stalls = !unit_end(at);
    }
    return spent;
}

/* A small slice comes as DATA: add it if its addition is the next due unit, else keep its
 * bytes. */
static void child_slice_receive(struct flow *flow, const void *payload, size_t bytes)
{
    struct coll_flow *from = coll_flow_of(flow);
    struct coll_tree_run *at = from->tree;
    run_record_slice(at->run);
    assert(bytes == at->part->bytes);
    coll_tree_taken(&at->tree, from->child, (void *)payload);
    bool is_due = !at->has_unit && coll_tree_next(&at->tree, &at->unit) &&
                  at->unit.work == COLL_ADD && at->unit.child == from->child;
    if (is_due) {
        at->unit_done = 0;
        (void)unit_compute(at, bytes);
        (void)unit_end(at);
    } else {
        char *keep = at->keep + from->child * bytes;
        if (bytes)
            memcpy(keep, payload, bytes);
        at->tree.children[from->child].buffers[0] = keep;
    }
    tree_mark(at);
}

/* ---- 5: ready for the parent ------------------------------------------------------- */

void coll_up_update(struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    if (part->sends_up)
        coll_flow_ready(&at->flows[part->up_children], coll_tree_ready_up(&at->tree));
    for (uint32_t c = 0; c < part->up_children; c++)
        if (at->flows[c].waits && child_may_send(at, c))
            coll_flow_place_again(&at->flows[c]);
}

/* ---- 6: sent ----------------------------------------------------------------------- */

static void parent_sent(struct flow *flow, uint32_t index)
{
    struct coll_tree_run *at = coll_flow_of(flow)->tree;
    run_record_slice(at->run);
    coll_flow_leave(coll_flow_of(flow));
    coll_tree_sent(&at->tree, index);
    if (part_passes_on(at->part) && coll_lead_passed(&at->run->lead, &at->tree))
        run_waiting_mark(at->run);
    if (at->tree.reuses)
        tree_mark(at);
}

/* ---- the flows --------------------------------------------------------------------- */

void coll_up_scratch_release(struct coll_tree_run *at, uint32_t child)
{
    struct coll_child *from = &at->tree.children[child];
    for (; !at->part->is_small && from->added < from->granted; from->added++) {
        void *buffer = from->buffers[from->added % COLL_GRANTS_MAX];
        if (buffer)
            scratch_put(&at->run->coll->colls->scratch, at->part->slice_bytes, buffer);
    }
}

static void child_ended(struct flow *flow, struct cause cause, const char *text)
{
    struct coll_flow *from = coll_flow_of(flow);
    if (cause.status != TRYST_OK)
        coll_up_scratch_release(from->tree, from->child);
    coll_flow_ended(flow, cause, text); /* may free the run */
}

const struct flow_ops flow_up_from_child = {.place = child_place,
                                            .slices_announced = child_announced,
                                            .arrived = child_arrived,
                                            .take = child_slice_receive,
                                            .failing = coll_flow_failing,
                                            .ended = child_ended};
const struct flow_ops flow_up_to_parent = {
    .sent = parent_sent, .failing = coll_flow_failing, .ended = coll_flow_ended};

bool coll_up_flow_set(struct coll_tree_run *at, uint32_t index, void **data_p)
{
    struct flow *flow = &at->flows[index].flow;
    bool sends = index == at->part->up_children;
    bool sums = at->part->up_children || at->tree.owns;
    flow->ops = sends ? &flow_up_to_parent : &flow_up_from_child;
    *data_p = sums ? at->sums : (char *)at->own;
    flow->ahead = index == 0;
    if (sends)
        flow->ready = coll_tree_ready_up(&at->tree);
    return sends;
}
