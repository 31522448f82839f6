/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: at one place of each pass it works on the marked runs, the most urgent
 * first.
 *
 * Idea: hooks and submissions mark a run. colls_run computes the due units, at most
 * COLL_WORK_BYTES a call, and then updates the flows by the counters. A failure is noted
 * where it occurs, and spreads from here: the engine fails all flows of the run with the
 * first cause, and reports the operation when the last flow has ended.
 *
 * Invariants: a run has an operation until the operation is reported. From then on no
 * flow of the run reads or writes the caller's memory: all have ended, except sends with
 * packed DATA (coll_flow_leave). The run ends with the last of these (fail.c), and their
 * failures do not change the operation.
 */
#include <inttypes.h>
#include <stdio.h>

#include "auto_priority.h"
#include "coll_down.h"
#include "coll_up.h"
#include "copies.h"
#include "core/memory/alloc.h"
#include "fail.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/rendezvous.h"
#include "run.h"
#include "start.h"

/* ---- starts ------------------------------------------------------------------------ */

__attribute__((always_inline)) static inline struct flow_params flow_params_of(
    const struct coll_tree_run *at, uint32_t index, const tryst_tensor *tensor)
{
    const struct coll_run *run = at->run;
    return (struct flow_params){.scope = run->op->scope,
                                .step_id = run->op->step_id,
                                .key = run->coll->keys[at->part->flow_at + index],
                                .urgency = run->urgency,
                                .tensor = tensor};
}

/* True if the number of flow `index` is that of the use. */
static bool flow_is_numbered(const struct coll_part *part, uint32_t index)
{
    uint32_t child = index < part->up_children ? index : index - part->up_children;
    return part->numbered >> child & 1;
}

/* Start flow `index` of a tree. */
static tryst_status tree_flow_start(struct rendezvous *rdv, struct coll_tree_run *at,
                                    uint32_t index)
{
    struct coll_run *run = at->run;
    const struct coll_part *part = at->part;
    struct coll_flow *flow = &at->flows[index];
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .count = part->range.count,
                           .dtype = run->coll->dtype};
    bool sends = index < part_up_flows(part)
                     ? coll_up_flow_set(at, index, &tensor.data)
                     : coll_down_flow_set(at, index, &tensor.data);
    tensor.mem = coll_region_of(run, tensor.data);
    struct flow_params params = flow_params_of(at, index, &tensor);
    if (part->numbered && flow_is_numbered(part, index))
        params.number = &run->use;
    flow->is_live = true;
    run->live++;
    run->awaited++;
    tryst_status status = sends ? flow_send(rdv, &flow->flow, &params)
                                : flow_recv(rdv, &flow->flow, &params);
    if (status != TRYST_OK) {
        flow->is_live = false;
        run->live--;
        run->awaited--;
    }
    return status;
}

/* Count this use of the name, and note a run that a late failure may end. */
static tryst_status use_begin(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    if (coll_fails_late(coll))
        list_push_back(&coll->colls->exchanges, &run->exchange_node);
    return flow_count(run->op->scope, coll->uses_key, &run->use);
}

/* Start all flows of the run; in each phase of a tree, receives are posted before
 * sends. Without memory for a flow, fail the run and abort the step. */
static void flows_start(struct rendezvous *rdv, struct coll_run *run)
{
    static const char text[] = "no memory for a flow of a collective";
    const tryst_coll *coll = run->coll;
    tryst_status status = coll->uses_key ? use_begin(run) : TRYST_OK;
    for (uint32_t t = 0; t < coll->parts_count && status == TRYST_OK; t++) {
        struct coll_tree_run *at = &run->trees[t];
        at->is_marked = true;
        for (uint32_t i = 0; i < part_flows(at->part) && status == TRYST_OK; i++)
            status = tree_flow_start(rdv, at, i);
    }
    if (status == TRYST_OK)
        return;
    run_fail_own(run, status, text);
    coll_op_abort(run->op, status, text);
}

static void colls_begin(void *arg, void *coll, tryst_op *op)
{
    struct coll_run *run = coll;
    (void)arg;
    run->op = op;
    if (!op) {
        coll_run_put(run);
        return;
    }
    op_tensor_set(op, coll_copies_out(run),
                  coll_bytes(run->coll->count, run->coll->element_bytes));
    run->urgency = op->urgency;
    run_fail_if_lost(run);
    flows_start(op->rdv, run);
    if (run->copies)
        coll_copies_begin(run);
    run_mark(run);
}

/* ---- ends -------------------------------------------------------------------------- */

/* Report the operation. The run stays until its last flow has ended. */
static void run_report(struct coll_run *run)
{
    tryst_op *op = run->op;
    for (uint32_t t = 0; t < run->coll->parts_count; t++)
        for (uint32_t c = 0; c < run->trees[t].part->up_children; c++)
            coll_up_scratch_release(&run->trees[t], c);
    struct cause cause = {TRYST_OK, -1, TRYST_OK};
    if (run_failed(run))
        cause = run->cause;
    op_report(op, cause.status, cause.origin_rank, cause.origin_status, run->text);
    mem_free(run->text);
    run->text = NULL;
    coll_op_trace(op, coll_kind_name(run->coll->kind), run->coll->parts_count);
    if (run->recorded)
        recorder_done(run->coll->colls->host.recorder, run->recorded, run->matched_at,
                      run->first_slice_at);
    op->coll = NULL;
    run->op = NULL;
    op_end(op);
    (void)urgent_remove(&run->work);
    (void)list_remove(&run->exchange_node);
    if (!run->live)
        coll_run_put(run);
}

/* Fail a flow after its DATA was packed: with this rank's term, the receiver may wait for
 * a third rank that never comes. */
static void flow_fail_after(struct coll_run *run, uint32_t index)
{
    const tryst_tensor none = {.struct_size = sizeof none, .dtype = run->coll->dtype};
    struct flow_params params = flow_params_of(&run->trees[0], index, &none);
    flow_fail_late(run->op->rdv, &run->flows[index].flow, &params, run->cause,
                   run->reason);
}

static void flows_fail(struct coll_run *run)
{
    bool is_late = coll_fails_late(run->coll);
    run->fails = true;
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        if (is_late && run->flows[i].is_left)
            flow_fail_after(run, i);
        else if (run->flows[i].is_live)
            flow_fail(&run->flows[i].flow, run->cause, run->reason);
    if (run->copies)
        coll_copies_cancel(run);
}

/* ---- a turn of the engine ---------------------------------------------------------- */

static bool trees_are_done(const struct coll_run *run)
{
    for (uint32_t t = 0; t < run->coll->parts_count; t++)
        if (!coll_tree_is_done(&run->trees[t].tree))
            return false;
    return true;
}

/* The result is complete in host memory. */
static void run_complete(struct coll_run *run)
{
    run->completes = true;
    if (run->coll->is_packed)
        coll_unpack(run);
    if (run->copies)
        coll_copies_bring_all(run);
}

/* True if no flow of the run, which has failed, touches the caller's memory any more.
 * Flows of an exchange send from the run's own memory, and drop what still comes. */
static bool flows_are_over(const struct coll_run *run)
{
    return !run->live || run->coll->parts[0].is_exchange;
}

/* True if the operation can be reported: its result is complete, or it has failed, and
 * no flow and no copy touches the caller's memory any more. */
static bool run_is_over(struct coll_run *run)
{
    bool is_failed = run_failed(run);
    if (!is_failed && !run->completes && !run->awaited && trees_are_done(run))
        run_complete(run);
    return (is_failed ? flows_are_over(run) : run->completes) &&
           (!run->copies || coll_copies_end(run));
}

/* Compute the due units of marked trees, and update their flows. True if the budget
 * was too small. */
static bool trees_run(struct coll_run *run, uint64_t *budget)
{
    bool more = false;
    for (uint32_t t = 0; t < run->coll->parts_count && !run_failed(run); t++) {
        struct coll_tree_run *at = &run->trees[t];
        if (!at->is_marked)
            continue;
        *budget -= coll_up_add(at, *budget);
        at->is_marked = false; /* the updates serve what the additions have marked */
        coll_up_update(at);
        coll_down_update(at);
        if (at->bring)
            coll_copies_bring(at);
        bool is_begun = at->has_unit && !at->stalls;
        at->is_marked |= is_begun;
        more |= is_begun;
    }
    return more;
}

/* Note the time if all neighbours of this rank have submitted their part. */
static void run_record_match(struct coll_run *run)
{
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        if (run->flows[i].is_live && flow_sight(&run->flows[i].flow) != FLOW_MET)
            return;
    run->matched_at = recorder_now(run->coll->colls->host.recorder);
}

/* Work on a run: its trees, its failure or its end. True if the budget was too small. */
static bool run_step(struct coll_run *run, uint64_t *budget)
{
    if (__builtin_expect(run->recorded && !run->matched_at && !run_failed(run), 0))
        run_record_match(run);
    bool more = !run_failed(run) && trees_run(run, budget);
    if (run_failed(run) && !run->fails)
        flows_fail(run);
    if (run_is_over(run)) {
        run_report(run);
        return false;
    }
    if (more)
        run_mark(run);
    return more;
}

/* Return the most urgent flow that waits for scratch, if there is a buffer for it; else
 * NULL. */
static struct coll_flow *waiter_first(struct colls *colls)
{
    struct urgent_node *node = urgent_first(&colls->scratch.waiters);
    struct coll_flow *flow = node ? container_of(node, struct coll_flow, waiter) : NULL;
    bool has = flow && scratch_has(&colls->scratch, flow->tree->part->slice_bytes);
    return has ? flow : NULL;
}

/* Place slices of the flows that wait for scratch while there are buffers. */
static void waiters_place(struct colls *colls)
{
    struct coll_flow *flow;
    while (!urgent_empty(&colls->scratch.waiters) && (flow = waiter_first(colls))) {
        (void)urgent_remove(&flow->waiter);
        flow_place_again(&flow->flow);
        if (urgent_queued(&flow->waiter)) /* no memory: wait for a lent buffer */
            return;
    }
}

static bool colls_busy(void *arg)
{
    struct colls *colls = arg;
    return !urgent_empty(&colls->work) || waiter_first(colls);
}

static int colls_run(void *arg, uint64_t copied_bytes)
{
    struct colls *colls = arg;
    uint64_t budget = copied_bytes < COLL_WORK_BYTES ? COLL_WORK_BYTES - copied_bytes : 0;
    struct urgent_node *node;
    int count = 0;
    colls->left = NULL;
    if (colls->nap_ns)
        coll_copies_poll(colls);
    while ((node = urgent_first(&colls->work)) != NULL) {
        struct coll_run *run = container_of(node, struct coll_run, work);
        (void)urgent_remove(node);
        count++;
        if (run_step(run, &budget)) {
            colls->left_urgency = run->urgency;
            colls->left = &colls->left_urgency;
            break;
        }
    }
    waiters_place(colls);
    colls->is_due = !urgent_empty(&colls->work) ||
                    !urgent_empty(&colls->scratch.waiters) || colls->nap_ns;
    return count;
}

/* ---- failures and urgency, from rendezvous ----------------------------------------- */

static void colls_fail(void *arg, tryst_op *op, struct cause cause, const char *text)
{
    struct coll_run *run = op->coll;
    (void)arg;
    if (!op->reported && run)
        run_fail(run, cause, text);
}

/* True if the run has taken the term of number `number` of `key`. */
static bool run_has_taken(const struct coll_run *run, const tryst_key *key,
                          uint64_t number)
{
    for (uint32_t i = 0; i < run->coll->parts[0].up_children; i++) {
        const tryst_key *own = run->coll->keys[i];
        if (run->flows[i].flow.number == number && !run->flows[i].is_live &&
            own->bytes == key->bytes && memcmp(own->string, key->string, key->bytes) == 0)
            return true;
    }
    return false;
}

static void colls_late_failure(void *arg, const tryst_key *key, uint64_t step,
                               uint64_t number, struct cause cause, const char *text)
{
    struct colls *colls = arg;
    list_for_each_safe (&colls->exchanges, node, after) {
        struct coll_run *run = container_of(node, struct coll_run, exchange_node);
        if (run->op->step_id != step || !run_has_taken(run, key, number))
            continue;
        run_fail(run, cause, text);
        return;
    }
}

static void colls_raise(void *arg, tryst_op *op, uint64_t sort_key)
{
    struct coll_run *run = op->coll;
    (void)arg;
    if (!run || sort_key >= run->urgency.sort_key)
        return;
    bool queued = urgent_remove(&run->work);
    for (uint32_t i = 0; i < run->coll->flows_count; i++)
        run->flows[i].requeues = urgent_remove(&run->flows[i].waiter);
    run->urgency.sort_key = op->urgency.sort_key =
        sort_key; /* the run is in no queue now */
    if (queued)
        run_mark(run);
    for (uint32_t i = 0; i < run->coll->flows_count; i++) {
        struct coll_flow *flow = &run->flows[i];
        if (flow->requeues)
            urgent_push(&run->coll->colls->scratch.waiters, &flow->waiter, &run->urgency);
        if (flow->is_live)
            flow_raise(&flow->flow, urgency_priority(&run->urgency));
    }
    if (run->copies)
        coll_copies_raise(run);
}

/* Write "all-reduce (sum) of 4096 x f32", with ", root 2" where there is a root, or a
 * digest where blocks have different counts. */
static void colls_shape_text(const struct flow_shape *shape, char *text, size_t capacity)
{
    char root[32] = "";
    bool reduces = shape->op != TRYST_REDUCE_INVALID;
    if (shape->root >= 0)
        snprintf(root, sizeof root, ", root %" PRId32, shape->root);
    else if (shape->root < -1)
        snprintf(root, sizeof root, ", unequal blocks #%08" PRIx32,
                 (uint32_t)shape->root);
    snprintf(text, capacity, "%s%s%s%s of %" PRIu64 " x %s%s",
             coll_kind_name((tryst_coll_kind)shape->operation), reduces ? " (" : "",
             reduces ? reduce_op_name((tryst_reduce_op)shape->op) : "",
             reduces ? ")" : "", shape->count,
             tryst_dtype_name((tryst_dtype)shape->dtype), root);
}

static void colls_device_started(void *arg, tryst_status status)
{
    coll_copies_go_on(arg, status);
}

static tryst_status colls_stream_wait(void *arg, tryst_op *op, bool follows,
                                      const struct memory_ops *memory, int32_t device,
                                      void *stream)
{
    (void)arg;
    return coll_copies_stream_wait(op->coll, follows, memory, device, stream);
}

static int32_t colls_waits_for(void *arg, const tryst_op *op)
{
    (void)arg;
    return op->coll ? run_waits_for(op->coll) : -1;
}

/* ---- the recorder ------------------------------------------------------------------ */

/* Record the submission of an operation (coll_calls.submitted). Any thread. */
static void colls_submitted(void *arg, tryst_op *op)
{
    struct colls *colls = arg;
    struct coll_run *run = op->coll;
    const tryst_coll *coll = run->coll;
    if (coll->is_own)
        return;
    struct recorder_submitted submitted = recorder_submit(
        colls->host.recorder, &(struct recorder_submission){
                                  .name = coll->recorder_name,
                                  .step = op->step_id,
                                  .bytes = coll_bytes(coll->count, coll->element_bytes),
                                  .by_callback = op_callback_runs(),
                                  .cause = op_callback_recorded()});
    run->matched_at = run->first_slice_at = 0;
    run->recorded = op->recorded = submitted.op;
    if (colls->host.priorities)
        auto_priority_set(coll, op, &submitted);
}

/* Note a use of an operation, or of all in a step (coll_calls.used). Any thread. */
static void colls_used(void *arg, const tryst_op *op, bool by_callback)
{
    const struct colls *colls = arg;
    if (op->kind == OP_COLL)
        recorder_use(colls->host.recorder, op->recorded, by_callback);
    else
        recorder_use_step(colls->host.recorder, op->step_id, by_callback);
}

/* ---- open and close ---------------------------------------------------------------- */

tryst_status colls_open(const struct coll_host *host, const struct config *config,
                        struct colls **colls_p)
{
    struct colls *colls = mem_zalloc(sizeof *colls);
    if (!colls)
        return TRYST_E_NOMEM;
    colls->host = *host;
    colls->eager_max = rendezvous_eager_max(config);
    pthread_mutex_init(&colls->lock, NULL);
    hash_table_init(&colls->kept);
    list_init(&colls->kept_order);
    list_init(&colls->idle_order);
    list_init(&colls->exchanges);
    list_init(&colls->copies_unchecked);
    list_init(&colls->copies_polled);
    colls->idle_bytes_max = config_bytes(config, CONFIG_SCRATCH_BYTES);
    colls->shadow_bytes_max = config_bytes(config, CONFIG_SHADOW_BYTES);
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

struct coll_calls colls_calls(struct colls *colls)
{
    return (struct coll_calls){.arg = colls,
                               .submitted = colls->host.recorder ? colls_submitted : NULL,
                               .begin = colls_begin,
                               .run = colls_run,
                               .is_due = &colls->is_due,
                               .left = &colls->left,
                               .busy = colls_busy,
                               .fail = colls_fail,
                               .late_failure = colls_late_failure,
                               .raise = colls_raise,
                               .shape_text = colls_shape_text,
                               .waits_for = colls_waits_for,
                               .device_started = colls_device_started,
                               .stream_wait = colls_stream_wait,
                               .nap_ns = &colls->nap_ns,
                               .used = colls->host.recorder ? colls_used : NULL};
}

void colls_plan_set(struct colls *colls, const struct coll_plan *plan)
{
    pthread_mutex_lock(&colls->lock);
    colls->plan = plan;
    pthread_mutex_unlock(&colls->lock);
    /* kept collectives were prepared with the earlier plan */
    coll_kept_drop(colls, NULL);
}

void colls_copier_close(struct colls *colls)
{
    coll_copies_close_all(colls);
}

void colls_group_close(struct colls *colls)
{
    colls_plan_set(colls, NULL);
    scratch_close(&colls->scratch);
    mem_free(colls->own_plan);
    colls->own_plan = NULL;
    mem_free(colls->lost);
    colls->lost = NULL;
    colls->lost_count = colls->lost_capacity = 0;
    atomic_store_explicit(&colls->thread_started, false, memory_order_relaxed);
}
