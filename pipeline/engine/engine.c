/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the engine: runs one rank's part of a program, step after step.
 *
 * The one idea: a step is a loop over the rank's actions. Before each action the engine
 * posts receives ahead, and waits only for the items that this action needs. Transfers
 * meet by key, so the loop is independent of other ranks' order, and any program that
 * passed the checker runs.
 *
 * Stages of the same rank pass tensors to each other without a transfer. Gradients of a
 * stage that is on several ranks are summed beside the actions (engine_reduce.c). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "engine_action.h"
#include "engine_plan.h"
#include "engine_reduce.h"
#include "engine_transfer.h"
#include "pipeline/base/refuse.h"

#define RECEIVES_AHEAD_DEFAULT 4 /* two activations and two gradients in 1F1B */
#define TIMEOUT_DEFAULT_NS     (600ull * 1000 * 1000 * 1000)
/* Limit of the wait until a device has ended its queued work, which is a few actions. */
#define DEVICE_STOP_NS (60ull * 1000 * 1000 * 1000)
/* Limit of the calls of tryst_progress between two actions: enough to start the posted
 * operations. */
#define PROGRESS_CALLS_MAX 8

tryst_status engine_fail(tryst_engine *engine, tryst_status status, const char *format,
                         ...)
{
    if (engine->failed != TRYST_OK) {
        return engine->failed;
    }
    engine->failed = status;
    va_list args;
    va_start(args, format);
    vsnprintf(engine->error, sizeof engine->error, format, args);
    va_end(args);
    return status;
}

void engine_span(tryst_engine *engine, tryst_span span)
{
    /* Where steps follow one another, some of a step ends in the next one; but a receive
     * that was posted ahead is of this step. */
    bool earlier = span.step < 0 || (span.begin_ns < engine->step_begin_ns &&
                                     span.kind != TRYST_SPAN_RECEIVE);
    bool kept = engine->follows || span.begin_ns >= engine->step_begin_ns;
    if (!kept || engine->spans_count == engine->spans_capacity) {
        return;
    }
    span.step = earlier ? -1 : 0;
    engine->spans[engine->spans_count++] = span;
}

/* ---- open and close ---------------------------------------------------------------- */

static tryst_status engine_start(tryst_engine *engine)
{
    const tryst_program *program = engine->params.program;
    engine->rank = tryst_group_rank(engine->params.group);
    if (tryst_group_size(engine->params.group) != program->ranks_count) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "the program is for %d ranks, but the group has %d",
                           program->ranks_count, tryst_group_size(engine->params.group));
    }
    engine->list = &program->lists[engine->rank];
    engine->stages_count = program->stages_count;
    engine->microbatches_count = program->microbatches_count;
    tryst_status status = engine_plan_open(engine);
    if (status == TRYST_OK) {
        status = engine_device_open(engine);
    }
    if (status == TRYST_OK) {
        status = engine_reduce_open(engine);
    }
    return status == TRYST_OK
               ? status
               : engine_fail(engine, status, "%s", tryst_status_str(status));
}

tryst_status tryst_engine_open(const tryst_engine_params *params, tryst_engine **engine_p)
{
    tryst_engine_params own;
    tryst_status known =
        params_read_given(&own, sizeof own, params, "tryst_engine_params");
    if (known != TRYST_OK) {
        return known;
    }
    tryst_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        return refuse(TRYST_E_NOMEM, "cannot open the engine: out of memory");
    }
    engine->params = own;
    engine->pool.ctx = own.ctx;
    engine->pool.bytes_max = own.memory_bytes_max;
    if (own.receives_ahead_max <= 0) {
        engine->params.receives_ahead_max = RECEIVES_AHEAD_DEFAULT;
    }
    if (own.timeout_ns == 0) {
        engine->params.timeout_ns = TIMEOUT_DEFAULT_NS;
    }
    tryst_status status = engine_start(engine);
    if (status != TRYST_OK) {
        (void)refuse(status, "cannot open the engine: %s", engine->error);
        tryst_engine_close(engine);
        return status;
    }
    *engine_p = engine;
    return TRYST_OK;
}

/* Set tryst_last_error to the engine's failure and return its status. */
static tryst_status last_error_set(const tryst_engine *engine)
{
    return refuse(engine->failed, "%s", engine->error);
}

/* True if the step before has promised another one: it has posted receives for it, and in
 * a loop run micro-batches of it. */
static bool step_is_due(const tryst_engine *engine)
{
    return engine->follows && engine->steps_done > 0 && !engine->last;
}

#define STEP_DUE_TEXT                                                                \
    "step %llu was not the last, and has begun the next one; end steps that follow " \
    "one another by tryst_engine_step_last"

void tryst_engine_close(tryst_engine *engine)
{
    if (!engine) {
        return;
    }
    bool cut = engine->failed == TRYST_OK && step_is_due(engine);
    if (cut) {
        engine_fail(engine, TRYST_E_INVALID, "cannot close the engine: " STEP_DUE_TEXT,
                    (unsigned long long)engine->frame->id);
    } else if (engine->failed == TRYST_OK) {
        tryst_engine_finish(engine);
    }
    engine_abandon(engine);
    if (cut) {
        (void)last_error_set(engine);
    }
    if (engine->device.used && !engine_device_stop(engine, DEVICE_STOP_NS)) {
        engine->unquiet = true;
    }
    engine_lents_close(engine);
    buffer_pool_close(&engine->pool, engine->unquiet);
    engine_device_close(engine);
    engine_reduce_close(engine);
    engine_plan_close(engine);
    free(engine);
}

/* ---- a step ------------------------------------------------------------------------ */

void engine_push(tryst_engine *engine)
{
    for (int i = 0; i < PROGRESS_CALLS_MAX && tryst_progress(engine->params.ctx) > 0;
         i++) {
    }
}

static void read_versions(tryst_engine *engine)
{
    for (int stage = 0; stage < engine->stages_count; stage++) {
        const tryst_stage *self = engine->stages[stage];
        if (self) {
            uint64_t oldest = 0;
            self->ops->versions(self, &oldest, &engine->versions[stage]);
        }
        if (engine->steps_done == 0) {
            engine->versions_first[stage] = engine->versions[stage];
        }
    }
}

/* Run the actions from one mark of the list to another. */
static tryst_status run_range(tryst_engine *engine, enum engine_mark_name from,
                              enum engine_mark_name to)
{
    tryst_status status = TRYST_OK;
    engine_range_begin(engine, &engine->marks[from], &engine->marks[to]);
    for (size_t i = engine->range->action;
         i < engine->range_end->action && status == TRYST_OK; i++) {
        status = engine_post_receives(engine);
        if (status == TRYST_OK) {
            status = engine_lents_return(engine);
        }
        engine_push(engine);
        if (status == TRYST_OK) {
            status = engine_reap(engine);
        }
        if (status == TRYST_OK && engine->device.used) {
            status = engine_device_room(engine);
        }
        if (status == TRYST_OK) {
            status = engine_take_receives(engine, i);
        }
        if (status == TRYST_OK) {
            status = engine_run_action(engine, i);
        }
    }
    if (status == TRYST_OK && engine->device.used) {
        engine_push(engine);
        status = engine_device_end(engine);
    }
    if (status == TRYST_OK) {
        status = engine_post_early(engine);
    }
    if (status == TRYST_OK) {
        status = engine_lents_return(engine);
    }
    engine_push(engine);
    return status == TRYST_OK ? engine_reap(engine) : status;
}

/* Run the parts of the list that a step has: the first the prologue before its body, the
 * last the epilogue in the body's place. */
static tryst_status run_parts(tryst_engine *engine)
{
    bool first = engine->steps_done == 0;
    if (!engine->looped || !engine->last) {
        return run_range(engine, first ? MARK_BEGIN : MARK_BODY, MARK_EPILOGUE);
    }
    tryst_status status = first ? run_range(engine, MARK_BEGIN, MARK_BODY) : TRYST_OK;
    return status == TRYST_OK ? run_range(engine, MARK_EPILOGUE, MARK_END) : status;
}

static void note_step(tryst_engine *engine)
{
    tryst_engine_stats *stats = &engine->stats;
    if (stats->steps_count++ == 0) {
        stats->begin_ns = engine->step_begin_ns;
    }
    stats->end_ns = tryst_now_ns(engine->params.ctx);
    char name[32];
    snprintf(name, sizeof name, "step %llu", (unsigned long long)engine->frame->id);
    tryst_trace_span(engine->params.ctx, name, engine->step_begin_ns, stats->end_ns,
                     engine->frame->id);
}

/* Return the mean loss of this rank's micro-batches; NAN if it has not the last stage. */
static double mean_loss(tryst_engine *engine)
{
    const double *losses = tryst_engine_losses(engine);
    int last = engine->stages_count - 1;
    int32_t count = 0;
    for (int i = 0; losses && i < engine->microbatches_count; i++) {
        if (engine_owner(engine, last, i) == engine->rank) {
            engine->own_losses[count++] = losses[i];
        }
    }
    return losses ? tryst_loss_mean(engine->own_losses, count) : (double)NAN;
}

/* Refuse a step behind the last; where steps follow also a step with another id than the
 * step before has used for it. */
static tryst_status check_step(const tryst_engine *engine, uint64_t step)
{
    uint64_t before = engine->steps_done > 0 ? engine->frame->id : 0;
    if (engine->steps_done > 0 && engine->last) {
        return refuse(TRYST_E_INVALID, "cannot run step %llu: step %llu was the last",
                      (unsigned long long)step, (unsigned long long)before);
    }
    if (step_is_due(engine) && step != before + 1) {
        return refuse(TRYST_E_INVALID,
                      "cannot run step %llu behind step %llu, which has begun step %llu; "
                      "let the ids rise by one",
                      (unsigned long long)step, (unsigned long long)before,
                      (unsigned long long)before + 1);
    }
    return TRYST_OK;
}

static tryst_status run_step(tryst_engine *engine, uint64_t step, bool last,
                             double *loss_p)
{
    if (!engine) {
        return refuse_null("run a step", "engine");
    }
    if (engine->failed != TRYST_OK) {
        return last_error_set(engine);
    }
    tryst_status known = check_step(engine, step);
    if (known != TRYST_OK) {
        return known;
    }
    engine->step_begin_ns = tryst_now_ns(engine->params.ctx);
    engine->spans_count = 0;
    engine->last = last;
    read_versions(engine);
    tryst_status status = engine_frame_open(engine, step);
    if (status == TRYST_OK && engine->steps_done == 0) {
        status = engine_lents_agree(engine);
    }
    if (status == TRYST_OK) {
        status = run_parts(engine);
    }
    if (status != TRYST_OK) {
        engine_abandon(engine);
        return last_error_set(engine);
    }
    note_step(engine);
    engine->steps_done++;
    if (loss_p) {
        *loss_p = mean_loss(engine);
    }
    return TRYST_OK;
}

tryst_status tryst_engine_step(tryst_engine *engine, uint64_t step, double *loss_p)
{
    return run_step(engine, step, false, loss_p);
}

tryst_status tryst_engine_step_last(tryst_engine *engine, uint64_t step, double *loss_p)
{
    return run_step(engine, step, true, loss_p);
}

tryst_status tryst_engine_finish(tryst_engine *engine)
{
    if (!engine) {
        return refuse_null("finish the steps", "engine");
    }
    if (engine->failed == TRYST_OK && step_is_due(engine)) {
        return refuse(TRYST_E_INVALID, "cannot finish the steps: " STEP_DUE_TEXT,
                      (unsigned long long)engine->frame->id);
    }
    if (engine->failed == TRYST_OK && engine->reduction) {
        engine_reduce_settle(engine, NULL);
        engine->stats.end_ns = tryst_now_ns(engine->params.ctx);
    }
    for (int i = 0; i < 2 && engine->failed == TRYST_OK; i++) {
        /* the older scope first */
        engine_frame_finish(engine,
                            &engine->frames[(engine->steps_done + (unsigned)i) % 2]);
    }
    if (engine->failed == TRYST_OK) {
        return TRYST_OK;
    }
    engine_abandon(engine);
    return last_error_set(engine);
}

void tryst_engine_abort(tryst_engine *engine, tryst_status status, const char *reason)
{
    if (!engine) {
        return;
    }
    engine_fail(engine, status, "%s", reason ? reason : tryst_status_str(status));
    engine_abandon(engine);
}

/* ---- results ----------------------------------------------------------------------- */

const char *tryst_engine_error(const tryst_engine *engine)
{
    return engine ? engine->error : "";
}

const char *tryst_engine_cause(const tryst_engine *engine)
{
    return engine && *engine->cause ? engine->cause : tryst_engine_error(engine);
}

const double *tryst_engine_losses(const tryst_engine *engine)
{
    return engine && engine->stages[engine->stages_count - 1] ? engine->losses : NULL;
}

tryst_status tryst_engine_stats_get(const tryst_engine *engine,
                                    tryst_engine_stats *stats_p)
{
    if (!engine) {
        return refuse(TRYST_E_INVALID,
                      "cannot read the figures of an engine: it is NULL");
    }
    if (!params_writable(stats_p, "tryst_engine_stats")) {
        return TRYST_E_INVALID;
    }
    tryst_engine_stats stats = engine->stats;
    stats.peak_activation_bytes = engine->pool.bytes_peak;
    stats.buffer_allocations = engine->pool.allocations_count;
    (void)tryst_sized_write(stats_p, &stats, sizeof stats);
    return TRYST_OK;
}

tryst_status tryst_engine_cost_get(const tryst_engine *engine, int stage,
                                   tryst_engine_cost *cost_p)
{
    if (!engine) {
        return refuse_null("read the figures of a stage", "engine");
    }
    if (stage < 0 || stage >= engine->stages_count || !engine->stages[stage]) {
        return refuse(
            TRYST_E_INVALID,
            "cannot read the figures of stage %d: rank %d has no such stage, of "
            "%d in all",
            stage, engine->rank, engine->stages_count);
    }
    if (!params_writable(cost_p, "tryst_engine_cost")) {
        return TRYST_E_INVALID;
    }
    (void)tryst_sized_write(cost_p, &engine->costs[stage], sizeof *engine->costs);
    return TRYST_OK;
}

void tryst_engine_stats_reset(tryst_engine *engine)
{
    if (engine) {
        engine->stats = (tryst_engine_stats){0};
        memset(engine->costs, 0, (size_t)engine->stages_count * sizeof *engine->costs);
    }
}

const tryst_span *tryst_engine_spans(const tryst_engine *engine, size_t *count_p)
{
    if (count_p) {
        *count_p = engine ? engine->spans_count : 0;
    }
    return engine ? engine->spans : NULL;
}
