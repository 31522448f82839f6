/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one action: gets its buffers, calls the stage, passes on the result, drops the
 * buffers that are no longer needed.
 *
 * The life of a micro-batch's buffers at a stage:
 *
 *              F          B                 or    I            W
 *   input      read       read, dropped           read         read, dropped
 *   target     read       read, dropped           read         dropped
 *   saved      made       read, dropped           read         read, dropped
 *   output     made, sent
 *   grad_output           read, dropped           read, dropped
 *   grad_input            made, sent              made, sent
 *   kept                                          made         read, dropped
 *
 * "sent" also means: put into the cell of the next stage on this rank.
 *
 * With an R between F and B (or I), F drops `saved` at once, and R makes it again. The
 * output of R goes to a buffer that is dropped behind the call. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tryst/profile.h>

#include "engine.h"
#include "engine_action.h"
#include "engine_reduce.h"
#include "engine_transfer.h"
#include "pipeline/base/amount.h"

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *data_of(const struct buffer *self)
{
    return self ? self->data : NULL;
}

static void drop(struct buffer **self)
{
    buffer_drop(*self);
    *self = NULL;
}

/* Count the micro-batches that have saved activations at this rank's stages. */
static int held_count(const tryst_engine *engine)
{
    int count = 0;
    for (int stage = 0; stage < engine->stages_count; stage++) {
        for (int m = 0; m < engine->cells_count && engine->stages[stage]; m++) {
            count += engine->cells[stage * engine->cells_count + m].saved != NULL;
        }
    }
    return count;
}

tryst_status engine_no_memory(tryst_engine *engine, tryst_status status, uint64_t bytes,
                              const char *what)
{
    const struct buffer_pool *pool = &engine->pool;
    char where[32] = "the host", limit[64] = "";
    if (engine->device.used) {
        snprintf(where, sizeof where, "device %d", (int)engine->device.ordinal);
    }
    if (pool->bytes_max > 0) {
        snprintf(limit, sizeof limit, " of at most %s", amount_of(pool->bytes_max).text);
    }
    return engine_fail(
        engine, status,
        "step %llu, rank %d: no memory on %s for %s, %s: buffers there take %s%s "
        "already, with %d micro-batches in flight; fewer of them (by another schedule), "
        "smaller "
        "ones, or recomputed activations need less",
        (unsigned long long)engine->frame->id, engine->rank, where, what,
        amount_of(bytes).text, amount_of(pool->bytes_made).text, limit,
        held_count(engine));
}

/* Get a buffer for `what`; NULL for 0 bytes. */
static tryst_status get(tryst_engine *engine, uint64_t bytes, bool travels,
                        const char *what, struct buffer **buffer_p)
{
    if (bytes == 0) {
        *buffer_p = NULL;
        return TRYST_OK;
    }
    tryst_status status = buffer_get(&engine->pool, bytes, travels, buffer_p);
    return status == TRYST_OK ? status : engine_no_memory(engine, status, bytes, what);
}

/* ---- calls of the stage, measured -------------------------------------------------- */

static const char *const trace_names[TRYST_ACTION_KINDS] = {
    [TRYST_ACTION_NONE] = "",
    [TRYST_ACTION_FORWARD] = "forward",
    [TRYST_ACTION_BACKWARD] = "backward",
    [TRYST_ACTION_INPUT_GRAD] = "input grad",
    [TRYST_ACTION_WEIGHT_GRAD] = "weight grad",
    [TRYST_ACTION_UPDATE] = "update",
    [TRYST_ACTION_REDUCE_GRAD] = "reduce grad",
    [TRYST_ACTION_RECOMPUTE] = "recompute",
    [TRYST_ACTION_PREDICT] = "predict",
};

static void trace_action(tryst_engine *engine, const tryst_action *action,
                         uint64_t begin_ns, uint64_t end_ns)
{
    char name[64], number[16] = "";
    if (action->microbatch >= 0) {
        snprintf(number, sizeof number, " %d", (int)action->microbatch);
    }
    snprintf(name, sizeof name, "%s%s, stage %d", trace_names[action->kind], number,
             (int)action->stage);
    tryst_trace_span(engine->params.ctx, name, begin_ns, end_ns, engine->frame->id);
}

void engine_count_action(tryst_engine *engine, const tryst_action *action)
{
    engine->stats.action_counts[action->kind]++;
    engine->costs[action->stage].counts[action->kind]++;
}

static void add_times(tryst_engine *engine, const tryst_action *action, uint64_t wall_ns,
                      uint64_t cpu_ns)
{
    tryst_engine_stats *stats = &engine->stats;
    tryst_engine_cost *cost = &engine->costs[action->stage];
    cost->wall_ns[action->kind] += wall_ns;
    cost->cpu_ns[action->kind] += cpu_ns;
    stats->compute_wall_ns += wall_ns;
    stats->compute_cpu_ns += cpu_ns;
    stats->action_wall_ns[action->kind] += wall_ns;
    stats->action_cpu_ns[action->kind] += cpu_ns;
}

static void add_span(tryst_engine *engine, const tryst_action *action, bool before,
                     uint64_t begin_ns, uint64_t end_ns)
{
    static const tryst_span_kind kinds[TRYST_ACTION_KINDS] = {
        [TRYST_ACTION_FORWARD] = TRYST_SPAN_FORWARD,
        [TRYST_ACTION_BACKWARD] = TRYST_SPAN_BACKWARD,
        [TRYST_ACTION_INPUT_GRAD] = TRYST_SPAN_INPUT_GRAD,
        [TRYST_ACTION_WEIGHT_GRAD] = TRYST_SPAN_WEIGHT_GRAD,
        [TRYST_ACTION_UPDATE] = TRYST_SPAN_UPDATE,
        [TRYST_ACTION_RECOMPUTE] = TRYST_SPAN_RECOMPUTE,
        [TRYST_ACTION_PREDICT] = TRYST_SPAN_PREDICT,
    };
    engine_span(engine, (tryst_span){.begin_ns = begin_ns,
                                     .end_ns = end_ns,
                                     .kind = kinds[action->kind],
                                     .stage = action->stage,
                                     .microbatch = action->microbatch,
                                     .peer = -1,
                                     .step = before ? -1 : 0});
    trace_action(engine, action, begin_ns, end_ns);
}

void engine_note_action(tryst_engine *engine, size_t index, bool before,
                        uint64_t begin_ns, uint64_t end_ns, uint64_t cpu_ns)
{
    const tryst_action *action = &engine->list->actions[index];
    engine_count_action(engine, action);
    add_times(engine, action, end_ns - begin_ns, cpu_ns);
    add_span(engine, action, before, begin_ns, end_ns);
}

/* Let a profile of the step (TRYST_PROFILE) call the computation from here on as programs
 * do. */
static void name_action(tryst_engine *engine, const tryst_action *action)
{
    char name[64];
    (void)tryst_profile_action(engine->params.ctx,
                               tryst_action_format(action, name, sizeof name));
}

void engine_call_begin(tryst_engine *engine, const tryst_action *action)
{
    name_action(engine, action);
    uint64_t now_ns = tryst_now_ns(engine->params.ctx);
    engine->call = (struct engine_call){.action = action,
                                        .begin_ns = now_ns,
                                        .cpu_ns = thread_cpu_ns(),
                                        .span_begin_ns = now_ns};
}

struct engine_call engine_call_pause(tryst_engine *engine, bool cut)
{
    struct engine_call call = engine->call;
    uint64_t spent_ns = thread_cpu_ns() - call.cpu_ns;
    uint64_t now_ns = tryst_now_ns(engine->params.ctx);
    add_times(engine, call.action, now_ns - call.begin_ns, spent_ns);
    if (cut) {
        add_span(engine, call.action, false, call.span_begin_ns, now_ns);
    }
    engine->call.action = NULL;
    return call;
}

void engine_call_resume(tryst_engine *engine, struct engine_call call, bool cut)
{
    engine->call = call;
    name_action(engine, call.action);
    engine->call.begin_ns = tryst_now_ns(engine->params.ctx);
    engine->call.cpu_ns = thread_cpu_ns();
    if (cut) {
        engine->call.span_begin_ns = engine->call.begin_ns;
    }
}

void engine_call_end(tryst_engine *engine)
{
    (void)engine_call_pause(engine, true);
}

const char *engine_stage_text(const tryst_stage *stage, tryst_status status)
{
    const char *text = stage->ops->error ? stage->ops->error(stage) : NULL;
    return text && *text ? text : tryst_status_str(status);
}

double engine_rate_of(const tryst_engine *engine, const tryst_action *action)
{
    int32_t rises = tryst_program_rate(engine->params.program);
    if (rises == 0) {
        return 0;
    }
    double before = (double)engine->versions[action->stage] + action->version - 1;
    double delay = fmax(1, engine->delays[action->stage]);
    return pow(delay, -(1 - fmin(before / rises, 1)));
}

static tryst_status call_update(const tryst_engine *engine, tryst_stage *stage,
                                const tryst_action *action, void *done)
{
    const tryst_stage_update update = {.struct_size = sizeof update,
                                       .microbatches = engine->pending[action->stage],
                                       .rate = engine_rate_of(engine, action),
                                       .done = done};
    return stage->ops->update(stage, &update);
}

static tryst_status call_predict(tryst_stage *stage, const tryst_action *action,
                                 void *done)
{
    const tryst_stage_prediction prediction = {.struct_size = sizeof prediction,
                                               .slot = action->slot,
                                               .direction = action->direction,
                                               .ahead = action->ahead,
                                               .done = done};
    return stage->ops->predict(stage, &prediction);
}

static tryst_status call_stage(tryst_engine *engine, size_t index,
                               const tryst_stage_work *work)
{
    const tryst_action *action = &engine->list->actions[index];
    tryst_stage *stage = engine->stages[action->stage];
    tryst_status status = TRYST_E_INVALID;
    engine_call_begin(engine, action);
    switch (action->kind) {
    case TRYST_ACTION_FORWARD:
    case TRYST_ACTION_RECOMPUTE: status = stage->ops->forward(stage, work); break;
    case TRYST_ACTION_BACKWARD: status = stage->ops->backward(stage, work); break;
    case TRYST_ACTION_INPUT_GRAD: status = stage->ops->backward_input(stage, work); break;
    case TRYST_ACTION_WEIGHT_GRAD:
        status = stage->ops->backward_weight(stage, work);
        break;
    case TRYST_ACTION_UPDATE:
        status = call_update(engine, stage, action, work->done);
        break;
    case TRYST_ACTION_PREDICT: status = call_predict(stage, action, work->done); break;
    default: break;
    }
    if (engine->device.used) {
        engine_device_queued(engine, index, engine->call.begin_ns,
                             thread_cpu_ns() - engine->call.cpu_ns);
    } else {
        engine_count_action(engine, action);
        engine_call_end(engine);
    }
    if (status != TRYST_OK) {
        char name[64];
        return engine_fail(engine, status, "step %llu, rank %d: %s failed: %s",
                           (unsigned long long)engine->frame->id, engine->rank,
                           tryst_action_format(action, name, sizeof name),
                           engine_stage_text(stage, status));
    }
    return TRYST_OK;
}

/* Return the weight version that an action reads. Versions from before the engine's first
 * step may not exist any more; the one that it found is read instead. */
static uint64_t version_of(const tryst_engine *engine, const tryst_action *action)
{
    int64_t least = (int64_t)engine->versions_first[action->stage];
    int64_t counted = (int64_t)engine->versions[action->stage] + action->version;
    return (uint64_t)(counted > least ? counted : least);
}

/* ---- the actions ------------------------------------------------------------------- */

/* Get a buffer for data, if possible one that the device no longer uses, so that the copy
 * need not wait. For 0 bytes *buffer_p stays as it is. */
static tryst_status get_data(tryst_engine *engine, uint64_t bytes,
                             struct buffer **buffer_p)
{
    tryst_status status =
        bytes > 0 ? buffer_get_idle(&engine->pool, bytes, buffer_p) : TRYST_OK;
    return status == TRYST_OK
               ? status
               : engine_no_memory(engine, status, bytes, "a micro-batch's data");
}

/* Get buffers for a micro-batch's input and target, if the stage takes such data, and let
 * the caller's feed fill them. */
static tryst_status feed_cell(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    struct engine_cell *cell = engine_cell_of(engine, action->stage, action->microbatch);
    const struct engine_moment *moment =
        engine->device.used ? engine_device_moment(engine, index, false) : NULL;
    const tryst_stage_info *info = &engine->stages[action->stage]->info;
    uint64_t input_bytes =
        info->is_first ? info->input_count * tryst_dtype_bytes(info->input_dtype) : 0;
    uint64_t target_bytes = info->is_last ? info->target_count : 0;
    if (input_bytes + target_bytes == 0) {
        return TRYST_OK;
    }
    tryst_status status = get_data(engine, input_bytes, &cell->input);
    if (status == TRYST_OK) {
        status = get_data(engine, target_bytes, &cell->target);
    }
    if (status != TRYST_OK) {
        return status;
    }
    int ahead = action->microbatch / engine->microbatches_count;
    status =
        engine->params.feed(engine->params.feed_arg, engine->frame->id + (uint64_t)ahead,
                            action->microbatch % engine->microbatches_count,
                            moment           ? moment->pinned_input
                            : info->is_first ? data_of(cell->input)
                                             : NULL,
                            moment ? moment->pinned_target : data_of(cell->target));
    if (status == TRYST_OK && moment) {
        status = engine_device_feed(engine, index, cell->input, cell->target);
    }
    return status == TRYST_OK
               ? status
               : engine_fail(engine, status,
                             "step %llu, rank %d: no data for micro-batch %d: %s",
                             (unsigned long long)engine->frame->id, engine->rank,
                             action->microbatch, tryst_status_str(status));
}

/* Feed all forwards up to and including action `index` that are not fed yet. */
static tryst_status feed_until(tryst_engine *engine, size_t index)
{
    tryst_status status = TRYST_OK;
    for (; engine->fed_count <= index && status == TRYST_OK; engine->fed_count++) {
        if (engine->list->actions[engine->fed_count].kind == TRYST_ACTION_FORWARD) {
            status = feed_cell(engine, engine->fed_count);
        }
    }
    return status;
}

/* On a device, feed the next forward that takes data while action `index` computes. */
static tryst_status feed_next(tryst_engine *engine, size_t index)
{
    for (size_t i = index + 1; engine->device.used && i < engine->range_end->action;
         i++) {
        if (engine_device_moment(engine, i, false)->fed) {
            return feed_until(engine, i);
        }
    }
    return TRYST_OK;
}

/* Return a stage's work with the members set that all kinds of action share. */
static tryst_stage_work work_of(const tryst_engine *engine, const tryst_action *action,
                                const struct engine_cell *cell)
{
    return (tryst_stage_work){.struct_size = sizeof(tryst_stage_work),
                              .version = version_of(engine, action),
                              .slot = action->slot,
                              .input = data_of(cell->input),
                              .target = data_of(cell->target),
                              .saved = data_of(cell->saved),
                              .grad_output = data_of(cell->grad_output),
                              .kept = data_of(cell->kept)};
}

/* On a device, order the uses of the action's buffers by events. `made` is the buffer
 * that the action fills for a neighbouring stage; NULL: none. */
static void use(tryst_engine *engine, size_t index, struct engine_cell *cell,
                struct buffer *made, tryst_stage_work *work)
{
    if (!engine->device.used) {
        return;
    }
    const struct engine_transfer *send = made ? engine_send_of(engine, index) : NULL;
    struct buffer *const used[] = {cell->input, cell->target,      cell->saved,
                                   cell->kept,  cell->grad_output, made};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        engine_device_use(engine, index, used[i]);
    }
    engine_device_work(engine, index, send ? send->event : NULL, work);
}

/* Call the forward of F or R: get the buffer that it saves to, and the one of its output,
 * which *output_p receives, NULL on the last stage. There the output is `loss`. */
static tryst_status call_forward(tryst_engine *engine, size_t index, double *loss,
                                 struct buffer **output_p)
{
    const tryst_action *action = &engine->list->actions[index];
    const tryst_stage_info *info = &engine->stages[action->stage]->info;
    struct engine_cell *cell = engine_cell_of(engine, action->stage, action->microbatch);
    *output_p = NULL;
    tryst_status status =
        get(engine, info->saved_bytes, false, "what a forward saves", &cell->saved);
    if (status == TRYST_OK && !info->is_last) {
        status = get(engine, info->output_count * tryst_dtype_bytes(info->output_dtype),
                     true, "a stage's output", output_p);
    }
    if (status != TRYST_OK) {
        return status;
    }
    tryst_stage_work work = work_of(engine, action, cell);
    work.output = info->is_last ? (void *)loss : data_of(*output_p);
    use(engine, index, cell, *output_p, &work);
    status = engine_reduce_work(engine, index, &work);
    return status == TRYST_OK ? call_stage(engine, index, &work) : status;
}

static tryst_status run_forward(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    struct engine_cell *cell = engine_cell_of(engine, action->stage, action->microbatch);
    struct buffer *output = NULL;
    tryst_status status = feed_until(engine, index);
    if (status == TRYST_OK) {
        status =
            call_forward(engine, index, &engine->losses[action->microbatch], &output);
    }
    if (*engine_recomputed(engine, action->stage, action->microbatch)) {
        drop(&cell->saved);
    }
    if (status != TRYST_OK || engine->stages[action->stage]->info.is_last) {
        buffer_drop(output);
        return status;
    }
    const struct program_item item = {PROGRAM_OUTPUT, action->stage, action->microbatch};
    return engine_hand_on(engine, index, item, output);
}

/* Make the saved activations once more, and drop the output. */
static tryst_status run_recompute(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    struct engine_cell *cell = engine_cell_of(engine, action->stage, action->microbatch);
    drop(&cell->saved); /* that of an F without an R in some part of a loop */
    double *unread = &engine->losses[engine->microbatches_count];
    struct buffer *output = NULL;
    tryst_status status = call_forward(engine, index, unread, &output);
    buffer_drop(output);
    return status;
}

/* Drop a micro-batch's buffers at this stage once its weight gradients are added. */
static void end_microbatch(tryst_engine *engine, const tryst_action *action,
                           struct engine_cell *cell)
{
    drop(&cell->input);
    drop(&cell->target);
    drop(&cell->saved);
    drop(&cell->kept);
    engine->pending[action->stage]++;
}

/* Run B or I. After I the buffers stay for W. */
static tryst_status run_backward(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    const tryst_stage_info *info = &engine->stages[action->stage]->info;
    bool whole = action->kind == TRYST_ACTION_BACKWARD;
    struct engine_cell *cell = engine_cell_of(engine, action->stage, action->microbatch);
    struct buffer *grad_input = NULL;
    tryst_status status = TRYST_OK;
    if (!whole) {
        status = get(engine, info->kept_bytes, false, "what a split backward keeps",
                     &cell->kept);
    }
    if (status == TRYST_OK && !info->is_first) {
        status = get(engine, info->input_count * tryst_dtype_bytes(info->input_dtype),
                     true, "an input's gradient", &grad_input);
    }
    if (status != TRYST_OK) {
        return status;
    }
    tryst_stage_work work = work_of(engine, action, cell);
    work.grad_input = data_of(grad_input);
    use(engine, index, cell, grad_input, &work);
    status = engine_reduce_work(engine, index, &work);
    if (status == TRYST_OK) {
        status = call_stage(engine, index, &work);
    }
    drop(&cell->grad_output);
    if (whole) {
        end_microbatch(engine, action, cell);
    }
    if (status != TRYST_OK || info->is_first) {
        buffer_drop(grad_input);
        return status;
    }
    const struct program_item item = {PROGRAM_GRAD, action->stage, action->microbatch};
    return engine_hand_on(engine, index, item, grad_input);
}

static tryst_status run_weight_grad(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    struct engine_cell *cell = engine_cell_of(engine, action->stage, action->microbatch);
    tryst_stage_work work = work_of(engine, action, cell);
    use(engine, index, cell, NULL, &work);
    tryst_status status = engine_reduce_work(engine, index, &work);
    if (status == TRYST_OK) {
        status = call_stage(engine, index, &work);
    }
    end_microbatch(engine, action, cell);
    return status;
}

static tryst_status run_update(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    tryst_stage_work work = {.struct_size = sizeof work};
    if (engine_reduce_has(engine, action->stage)) {
        return engine_reduce_update(engine, index);
    }
    engine_device_work(engine, index, NULL, &work);
    tryst_status status = call_stage(engine, index, &work);
    engine->pending[action->stage] = 0;
    return status;
}

static tryst_status run_predict(tryst_engine *engine, size_t index)
{
    tryst_stage_work work = {.struct_size = sizeof work};
    engine_device_work(engine, index, NULL, &work);
    tryst_status status = engine_reduce_work(engine, index, &work);
    return status == TRYST_OK ? call_stage(engine, index, &work) : status;
}

static tryst_status run_one(tryst_engine *engine, size_t index)
{
    switch (engine->list->actions[index].kind) {
    case TRYST_ACTION_FORWARD: return run_forward(engine, index);
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD: return run_backward(engine, index);
    case TRYST_ACTION_WEIGHT_GRAD: return run_weight_grad(engine, index);
    case TRYST_ACTION_RECOMPUTE: return run_recompute(engine, index);
    case TRYST_ACTION_REDUCE_GRAD: return engine_reduce_run(engine, index);
    case TRYST_ACTION_PREDICT: return run_predict(engine, index);
    default: return run_update(engine, index);
    }
}

tryst_status engine_run_action(tryst_engine *engine, size_t index)
{
    tryst_status status = run_one(engine, index);
    return status == TRYST_OK ? feed_next(engine, index) : status;
}
