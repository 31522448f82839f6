/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: what is marked is worked on, the most urgent first, at one place of each pass.
 *
 * Idea: hooks and submissions mark a run; colls_run computes what is due, at most COLL_WORK_BYTES a call, and
 * then updates the flows by the counters. A failure is noted where it occurs, and
 * spreads from here: all flows of the run are failed with the first cause, and when the last of them has
 * ended the operation is reported.
 * Invariant: a run has an operation until it is reported, which is when no flow of it lives.
 * Callers: rendezvous, through struct above; context/.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "cache.h"
#include "core/alloc.h"
#include "edges.h"
#include "hooks.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "run.h"
#include "work.h"

/* ---- starts ------------------------------------------------------------------------------- */

static const char *kind_name(tryst_coll_kind kind)
{
    static const char *const names[] = {[TRYST_COLL_INVALID] = "collective",
                                        [TRYST_COLL_ALLREDUCE] = "all-reduce",
                                        [TRYST_COLL_REDUCE] = "reduce",
                                        [TRYST_COLL_BROADCAST] = "broadcast",
                                        [TRYST_COLL_BARRIER] = "barrier"};
    return names[kind];
}

void run_fail(struct coll_run *run, tryst_status status, int32_t origin_rank,
              tryst_status origin_status, const char *text)
{
    if (run->status == TRYST_OK) {
        run->status = status;
        run->origin_rank = origin_rank < 0 ? coll_op_rank(run->op) : origin_rank;
        run->origin_status = origin_status;
        snprintf(run->text, sizeof run->text, "%s \"%.80s\": %s",
                 kind_name(run->coll->kind), run->coll->label->string,
                 text ? text : "a part of it failed");
    }
    run_mark(run);
}

/** Start flow `index` of a tree; `ops` and the memory follow from its place (run.h). */
static tryst_status flow_start(struct rendezvous *rdv, struct coll_tree_run *at,
                               uint32_t index)
{
    struct coll_run *run = at->run;
    const struct coll_part *part = at->part;
    struct coll_flow *flow = &at->flows[index];
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .count = part->range.count,
                           .dtype = run->coll->dtype};
    bool sends = true;
    uint32_t to_parent = part->up_children, from_parent = to_parent + part->sends_up;
    if (index < to_parent) {
        flow->flow.ops = &flow_up_from_child;
        tensor.data = at->sums;
        sends = false;
    } else if (part->sends_up && index == to_parent) {
        flow->flow.ops = &flow_up_to_parent;
        flow->flow.ready = coll_tree_ready_up(&at->tree);
        tensor.data = part->up_children || at->tree.owns ? at->sums : (char *)at->own;
    } else if (part->receives_down && index == from_parent) {
        flow->flow.ops = at->tree.reuses ? &flow_down_reusing : &flow_down_from_parent;
        tensor.data = at->result;
        sends = false;
    } else {
        flow->flow.ops = &flow_down_to_child;
        flow->flow.ready = coll_tree_ready_down(&at->tree);
        tensor.data = at->result;
    }
    struct flow_params params = {.scope = run->op->scope,
                                 .step_id = run->op->step_id,
                                 .key = run->coll->keys[part->flow_at + index],
                                 .urgency = run->urgency,
                                 .tensor = &tensor};
    flow->is_live = true;
    run->live++;
    tryst_status status = sends ? flow_send(rdv, &flow->flow, &params)
                                : flow_recv(rdv, &flow->flow, &params);
    if (status != TRYST_OK) {
        flow->is_live = false;
        run->live--;
    }
    return status;
}

/** Flows to those that wait first: what a rank receives is posted before it sends. */
static void flows_start(struct rendezvous *rdv, struct coll_run *run)
{
    static const char text[] = "no memory for a flow of a collective";
    const tryst_coll *coll = run->coll;
    for (uint32_t t = 0; t < coll->parts_count; t++) {
        struct coll_tree_run *at = &run->trees[t];
        const struct coll_part *part = at->part;
        uint32_t flows = part->up_children + part->sends_up + part->receives_down +
                         part->down_children;
        at->is_marked = true;
        for (uint32_t i = 0; i < flows; i++) {
            tryst_status status = flow_start(rdv, at, i);
            if (status == TRYST_OK)
                continue;
            run_fail(run, status, -1, status, text);
            coll_op_abort(run->op, status, text);
            return;
        }
    }
}

void run_begin(struct rendezvous *rdv, struct submission *submission)
{
    tryst_op *op = container_of(submission, tryst_op, submit);
    struct coll_run *run = op->coll;
    const struct colls *colls = run->coll->colls;
    run->op = op;
    if (!coll_op_begin(op, run->coll->label->hash | UINT64_C(1) << 63)) {
        coll_run_put(run);
        return;
    }
    op->tensor = run->out;
    op->bytes = coll_bytes(run->coll->count, run->coll->element_bytes);
    run->urgency = op->urgency;
    flows_start(rdv, run);
    /* The flows carry the cause on, to ranks that do not have it. */
    if (colls->gone_status != TRYST_OK)
        run_fail(run, colls->gone_status, colls->gone_rank, colls->gone_origin,
                 colls->gone_text);
    run_mark(run);
}

/* ---- ends --------------------------------------------------------------------------------- */

/** Later collectives of the group would wait for a rank that died: they fail with this cause. */
static void gone_note(const struct coll_run *run)
{
    struct colls *colls = run->coll->colls;
    if (run->status != TRYST_E_PEER || colls->gone_status != TRYST_OK)
        return;
    colls->gone_status = run->status;
    colls->gone_rank = run->origin_rank;
    colls->gone_origin = run->origin_status;
    snprintf(colls->gone_text, sizeof colls->gone_text,
             "rank %d was lost in an earlier collective", run->origin_rank);
}

static void run_end(struct coll_run *run)
{
    tryst_op *op = run->op;
    for (uint32_t t = 0; t < run->coll->parts_count; t++)
        for (uint32_t c = 0; c < run->trees[t].part->up_children; c++)
            tree_slots_release(&run->trees[t], c);
    gone_note(run);
    bool failed = run->status != TRYST_OK;
    op_report(op, run->status, failed ? run->origin_rank : -1,
              failed ? run->origin_status : TRYST_OK, failed ? run->text : NULL);
    op->coll = NULL;
    op_end(op);
    (void)urgent_remove(&run->work);
    coll_run_put(run);
}

static void flows_fail(struct coll_run *run)
{
    run->fails = true;
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        if (run->flows[i].is_live)
            flow_fail(&run->flows[i].flow, run->status, run->origin_rank,
                      run->origin_status, run->text);
}

/* ---- a turn of the engine ----------------------------------------------------------------- */

static bool trees_are_done(const struct coll_run *run)
{
    for (uint32_t t = 0; t < run->coll->parts_count; t++)
        if (!coll_tree_is_done(&run->trees[t].tree))
            return false;
    return true;
}

/** Work on the marked trees. True if the budget was too small. */
static bool trees_run(struct coll_run *run, uint64_t *budget)
{
    bool more = false;
    for (uint32_t t = 0; t < run->coll->parts_count && run->status == TRYST_OK; t++) {
        struct coll_tree_run *at = &run->trees[t];
        if (!at->is_marked)
            continue;
        at->is_marked = false;
        *budget -= tree_work(at, *budget);
        tree_tell(at);
        at->is_marked |= at->has_unit;
        more |= at->has_unit;
    }
    return more;
}

/** True if the budget was too small for what is due. */
static bool run_step(struct coll_run *run, uint64_t *budget)
{
    bool more = run->status == TRYST_OK && trees_run(run, budget);
    if (run->status != TRYST_OK && !run->fails)
        flows_fail(run);
    if (!run->live && (run->status != TRYST_OK || trees_are_done(run))) {
        run_end(run);
        return false;
    }
    if (more)
        run_mark(run);
    return more;
}

/** Scratch came back: the most urgent flows that wait for some may ask again. */
static void grants_run(struct colls *colls)
{
    struct urgent_node *node;
    while ((node = urgent_first(&colls->scratch.waiters)) != NULL) {
        struct coll_flow *flow = container_of(node, struct coll_flow, waiter);
        if (!scratch_has(&colls->scratch, flow->tree->part->slice_bytes))
            return;
        (void)urgent_remove(node);
        flow_place_again(&flow->flow);
        if (urgent_queued(node)) /* no memory: what is lent comes back first */
            return;
    }
}

static bool colls_busy(void *arg)
{
    struct colls *colls = arg;
    struct urgent_node *node = urgent_first(&colls->scratch.waiters);
    if (!urgent_empty(&colls->work))
        return true;
    return node &&
           scratch_has(
               &colls->scratch,
               container_of(node, struct coll_flow, waiter)->tree->part->slice_bytes);
}

static int colls_run(void *arg)
{
    struct colls *colls = arg;
    uint64_t budget = COLL_WORK_BYTES;
    struct urgent_node *node;
    int count = 0;
    while ((node = urgent_first(&colls->work)) != NULL) {
        struct coll_run *run = container_of(node, struct coll_run, work);
        (void)urgent_remove(node);
        count++;
        if (run_step(run, &budget))
            break;
    }
    grants_run(colls);
    colls->is_due = !urgent_empty(&colls->work) || !urgent_empty(&colls->scratch.waiters);
    return count;
}

/* ---- failures and urgency, from below ----------------------------------------------------- */

/** Find a child in a tree that has announced no slice; -1: all have. */
static int32_t missing_child(const struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    for (uint32_t c = 0; c < part->up_children; c++)
        if (at->flows[c].is_live && !at->flows[c].flow.told &&
            !at->tree.children[c].granted)
            return at->run->coll->keys[part->flow_at + c]->src_rank;
    return -1;
}

/** Return the parent in a tree if no slice of the result has arrived, else -1. */
static int32_t missing_parent(const struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    uint32_t from_parent = part->up_children + part->sends_up;
    if (part->receives_down && at->flows[from_parent].is_live && !at->tree.arrived)
        return at->run->coll->keys[part->flow_at + from_parent]->src_rank;
    return -1;
}

/** Find the rank of a neighbour that has sent nothing; -1: all have. A child in any tree goes before a parent,
 *  since a parent may itself wait for a child. */
static int32_t missing_rank(const struct coll_run *run)
{
    uint32_t trees = run->coll->parts_count;
    int32_t missing = -1;
    for (uint32_t t = 0; t < trees && missing < 0; t++)
        missing = missing_child(&run->trees[t]);
    for (uint32_t t = 0; t < trees && missing < 0; t++)
        missing = missing_parent(&run->trees[t]);
    return missing;
}

static void colls_fail(void *arg, tryst_op *op, tryst_status status, int32_t origin_rank,
                       const char *text)
{
    struct coll_run *run = op->coll;
    (void)arg;
    if (op->reported || !run)
        return;
    int32_t missing = status == TRYST_E_DEADLINE ? missing_rank(run) : -1;
    char deadline[COLL_TEXT_BYTES];
    if (missing >= 0) {
        snprintf(deadline, sizeof deadline,
                 "its deadline passed, and nothing has come from rank %d", missing);
        text = deadline;
    }
    run_fail(run, status, origin_rank, status, text);
}

static void colls_raise(void *arg, tryst_op *op, uint64_t rank)
{
    struct coll_run *run = op->coll;
    (void)arg;
    if (!run || rank >= run->urgency.rank)
        return;
    bool queued = urgent_remove(&run->work);
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        run->flows[i].requeues = urgent_remove(&run->flows[i].waiter);
    run->urgency.rank = op->urgency.rank = rank; /* in no queue now */
    if (queued)
        run_mark(run);
    for (uint32_t i = 0; i < run->coll->flows_count; i++) {
        struct coll_flow *flow = &run->flows[i];
        if (flow->requeues)
            urgent_push(&run->coll->colls->scratch.waiters, &flow->waiter, &run->urgency);
        if (flow->is_live)
            flow_raise(&flow->flow, urgency_priority(&run->urgency));
    }
}

/* ---- open and close ----------------------------------------------------------------------- */

tryst_status colls_open(const struct coll_host *host, const struct config *config,
                        struct colls **colls_p)
{
    struct colls *colls = mem_zalloc(sizeof *colls);
    if (!colls)
        return TRYST_E_NOMEM;
    colls->host = *host;
    colls->eager_max = config_bytes(config, CONFIG_EAGER_MAX);
    pthread_mutex_init(&colls->lock, NULL);
    hash_table_init(&colls->kept);
    list_init(&colls->kept_order);
    urgent_init(&colls->work);
    scratch_init(&colls->scratch, config_bytes(config, CONFIG_SCRATCH_BYTES));
    *colls_p = colls;
    return TRYST_OK;
}

void colls_close(struct colls *colls)
{
    if (!colls)
        return;
    colls_group_close(colls);
    hash_table_close(&colls->kept);
    pthread_mutex_destroy(&colls->lock);
    mem_free(colls);
}

struct above colls_above(struct colls *colls)
{
    return (struct above){.arg = colls,
                          .run = colls_run,
                          .is_due = &colls->is_due,
                          .busy = colls_busy,
                          .fail = colls_fail,
                          .raise = colls_raise};
}

void colls_plan_set(struct colls *colls, const struct coll_plan *plan)
{
    pthread_mutex_lock(&colls->lock);
    colls->plan = plan;
    pthread_mutex_unlock(&colls->lock);
    coll_kept_drop(colls); /* they are of the plan before */
}

void colls_group_close(struct colls *colls)
{
    colls_plan_set(colls, NULL);
    scratch_close(&colls->scratch);
    mem_free(colls->own_plan);
    colls->own_plan = NULL;
    colls->gone_status = TRYST_OK;
    atomic_store_explicit(&colls->thread_started, false, memory_order_relaxed);
}
