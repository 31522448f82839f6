/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the gradients of replicated stages over their replicas, and updates their parts.
 *
 * The one idea: a part goes through four states by itself, and only a call that needs the
 * part waits for it:
 *
 *   idle ──report, or REDUCE_GRAD──▶ under way ──sum ended──▶ summed ──UPDATE──▶ idle
 *
 * The last backward before a REDUCE_GRAD reports each part, and the part's all-reduce
 * starts at once, while the backward goes on. UPDATE only numbers the next version; a
 * part is updated when its sum is there, between actions, or by the forward that needs
 * it, at the latest when the engine finishes. So forwards of the next step begin while
 * sums are under way.
 *
 * Priorities: the part that the next step reads first is the most urgent. Receives have
 * negative priorities (engine_transfer.c), so every receive precedes every sum.
 *
 * Invariants: from the start of a sum to the update of its part no call of the stage
 * touches the part's gradient. All replicas start the same sums, by name; the n-th start
 * of a name in a step is the n-th on all of them. */
#include "engine_reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_action.h"
#include "engine_transfer.h"
#include <tryst/coll.h>

enum part_state { PART_IDLE, PART_UNDER_WAY, PART_SUMMED };

struct sum_part {
    tryst_stage_part info;
    tryst_coll *coll;
    int32_t priority;
    enum part_state state;
    tryst_op *op; /* while under way */
    uint64_t begin_ns;
};

/* A replicated stage of this rank. */
struct stage_sum {
    tryst_engine *engine;
    int stage;
    tryst_subgroup *subgroup; /* the replicas */
    struct sum_part *parts;
    int32_t parts_count;
    int32_t open_count;               /* parts that are not idle */
    bool updating;                    /* UPDATE has run for the parts that are not idle */
    const struct engine_frame *frame; /* scope of the newest sums */
    size_t updates_count;
    size_t updates_run; /* in this step */
    /* [updates_count]: micro-batches of all replicas since the update before */
    int32_t *microbatches;
};

struct engine_reduction {
    struct stage_sum *sums; /* in the order in which a step needs their stages */
    int sums_count;
    struct stage_sum **of; /* [stages]: NULL: not replicated, or not here */
    bool *reports; /* [actions]: the last backward of its stage before a REDUCE_GRAD */
};

static struct stage_sum *sum_of(const tryst_engine *engine, int stage)
{
    return engine->reduction ? engine->reduction->of[stage] : NULL;
}

bool engine_reduce_has(const tryst_engine *engine, int stage)
{
    return sum_of(engine, stage) != NULL;
}

/* ---- open -------------------------------------------------------------------------- */

static tryst_status check_parts(tryst_engine *engine, int stage)
{
    const tryst_stage *self = engine->stages[stage];
    bool has_parts = TRYST_SIZED_HAS(self->ops, tryst_stage_ops, update_part) &&
                     self->ops->parts_count && self->ops->part &&
                     self->ops->update_begin && self->ops->update_part;
    if (!has_parts || self->info.memory != TRYST_MEMORY_HOST) {
        return engine_fail(engine, TRYST_E_UNSUPPORTED,
                           "stage %d is replicated, but its %s; gradients of stages with "
                           "parts, in host memory, can be summed",
                           stage,
                           has_parts ? "memory is a device's" : "table has no parts");
    }
    return TRYST_OK;
}

/* Prepare the all-reduce of part `i`; `place` is its place among all parts of this rank
 * in the order of need. */
static tryst_status part_open(struct stage_sum *sum, int32_t i, int32_t place)
{
    tryst_engine *engine = sum->engine;
    const tryst_stage *stage = engine->stages[sum->stage];
    struct sum_part *part = &sum->parts[i];
    char name[64];
    part->info.struct_size = sizeof part->info;
    part->priority = place;
    tryst_status status = stage->ops->part(stage, i, &part->info);
    if (status != TRYST_OK) {
        return engine_fail(engine, status, "part %d of stage %d: %s", (int)i, sum->stage,
                           tryst_status_str(status));
    }
    snprintf(name, sizeof name, "sum%d.%d", sum->stage, (int)i);
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_ALLREDUCE,
                                      .reduce = TRYST_REDUCE_SUM,
                                      .count = part->info.count,
                                      .dtype = part->info.dtype,
                                      .name = name,
                                      .subgroup = sum->subgroup};
    status = tryst_coll_prepare(engine->params.group, &params, &part->coll);
    return status == TRYST_OK
               ? status
               : engine_fail(engine, status, "sum of part %d of stage %d: %s", (int)i,
                             sum->stage, tryst_last_error());
}

static bool adds_gradient(const tryst_action *action)
{
    return action->kind == TRYST_ACTION_BACKWARD ||
           action->kind == TRYST_ACTION_WEIGHT_GRAD;
}

/* Count the micro-batches of each update of the stage, over all replicas. */
static tryst_status count_microbatches(struct stage_sum *sum, const int32_t *ranks,
                                       int ranks_count)
{
    const struct program_list *lists = sum->engine->params.program->lists;
    sum->microbatches = calloc(sum->engine->list->count + 1, sizeof *sum->microbatches);
    if (!sum->microbatches) {
        return TRYST_E_NOMEM;
    }
    for (int r = 0; r < ranks_count; r++) {
        const struct program_list *list = &lists[ranks[r]];
        sum->updates_count = 0;
        for (size_t i = 0; i < list->count; i++) {
            const tryst_action *action = &list->actions[i];
            if (action->stage != sum->stage) {
                continue;
            }
            sum->microbatches[sum->updates_count] += adds_gradient(action);
            sum->updates_count += action->kind == TRYST_ACTION_UPDATE;
        }
    }
    return TRYST_OK;
}

/* Open the sum of a stage; *place_p is the number of parts that a step needs before. */
static tryst_status sum_open(tryst_engine *engine, int stage, int32_t *place_p)
{
    const tryst_program *program = engine->params.program;
    struct stage_sum *sum = &engine->reduction->sums[engine->reduction->sums_count++];
    int count = tryst_program_replicas(program, stage, NULL, 0);
    int32_t *ranks = malloc((size_t)count * sizeof *ranks);
    *sum = (struct stage_sum){.engine = engine, .stage = stage};
    engine->reduction->of[stage] = sum;
    tryst_status status = ranks ? check_parts(engine, stage) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        (void)tryst_program_replicas(program, stage, ranks, count);
        status = count_microbatches(sum, ranks, count);
    }
    const tryst_subgroup_params params = {
        .struct_size = sizeof params, .count = (uint32_t)count, .members = ranks};
    if (status == TRYST_OK) {
        status = tryst_subgroup_open(engine->params.group, &params, &sum->subgroup);
    }
    free(ranks);
    if (status != TRYST_OK) {
        return status;
    }
    const tryst_stage *self = engine->stages[stage];
    sum->parts_count = self->ops->parts_count(self);
    sum->parts = calloc((size_t)sum->parts_count + 1, sizeof *sum->parts);
    status = sum->parts ? TRYST_OK : TRYST_E_NOMEM;
    for (int32_t i = 0; i < sum->parts_count && status == TRYST_OK; i++) {
        status = part_open(sum, i, (*place_p)++);
    }
    return status;
}

/* Find the last backward of each stage before each REDUCE_GRAD. */
static tryst_status reports_find(tryst_engine *engine)
{
    struct engine_reduction *self = engine->reduction;
    const struct program_list *list = engine->list;
    size_t *last = calloc((size_t)engine->stages_count, sizeof *last); /* from 1 */
    self->reports = calloc(list->count + 1, sizeof *self->reports);
    if (!last || !self->reports) {
        free(last);
        return TRYST_E_NOMEM;
    }
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *action = &list->actions[i];
        if (adds_gradient(action)) {
            last[action->stage] = i + 1;
        } else if (action->kind == TRYST_ACTION_REDUCE_GRAD && last[action->stage] > 0) {
            self->reports[last[action->stage] - 1] = true;
        }
    }
    free(last);
    return TRYST_OK;
}

static bool any_replicated(const tryst_engine *engine)
{
    for (int stage = 0; stage < engine->stages_count; stage++) {
        if (engine->stages[stage] && engine->places.replicas[stage] > 1) {
            return true;
        }
    }
    return false;
}

tryst_status engine_reduce_open(tryst_engine *engine)
{
    if (!any_replicated(engine)) {
        return TRYST_OK;
    }
    if (engine->looped) {
        return engine_fail(engine, TRYST_E_UNSUPPORTED,
                           "the program is a loop, and a stage of rank %d is replicated; "
                           "replicas run programs that are no loop",
                           engine->rank);
    }
    size_t stages = (size_t)engine->stages_count;
    struct engine_reduction *self = calloc(1, sizeof *self);
    engine->reduction = self;
    if (!self) {
        return TRYST_E_NOMEM;
    }
    self->sums = calloc(stages, sizeof *self->sums);
    self->of = calloc(stages, sizeof(struct stage_sum *));
    tryst_status status = self->sums && self->of ? reports_find(engine) : TRYST_E_NOMEM;
    int32_t place = 0;
    for (size_t i = 0; i < engine->list->count && status == TRYST_OK; i++) {
        const tryst_action *action = &engine->list->actions[i];
        if (action->kind == TRYST_ACTION_FORWARD && !self->of[action->stage] &&
            engine->places.replicas[action->stage] > 1) {
            status = sum_open(engine, action->stage, &place);
        }
    }
    return status;
}

void engine_reduce_close(tryst_engine *engine)
{
    struct engine_reduction *self = engine->reduction;
    if (!self) {
        return;
    }
    for (int s = 0; self->sums && s < self->sums_count; s++) {
        struct stage_sum *sum = &self->sums[s];
        for (int32_t i = 0; sum->parts && i < sum->parts_count; i++) {
            tryst_coll_release(sum->parts[i].coll);
        }
        tryst_subgroup_close(sum->subgroup);
        free(sum->parts);
        free(sum->microbatches);
    }
    free(self->sums);
    free(self->of);
    free(self->reports);
    free(self);
    engine->reduction = NULL;
}

/* ---- one part ---------------------------------------------------------------------- */

static const char *part_text(const struct stage_sum *sum, const struct sum_part *part,
                             char words[96])
{
    snprintf(words, 96, "summing the gradient of layer %d (stage %d) over %d replicas",
             (int)part->info.layer, sum->stage, tryst_subgroup_size(sum->subgroup));
    return words;
}

static tryst_status part_start(struct stage_sum *sum, struct sum_part *part)
{
    tryst_engine *engine = sum->engine;
    const tryst_op_params params = {.struct_size = sizeof params,
                                    .flags = TRYST_OP_PRIORITY,
                                    .priority = part->priority};
    const tryst_tensor tensor = {.struct_size = sizeof tensor,
                                 .data = part->info.gradient,
                                 .count = part->info.count,
                                 .dtype = part->info.dtype};
    if (part->state != PART_IDLE) {
        return TRYST_OK;
    }
    part->begin_ns = tryst_now_ns(engine->params.ctx);
    tryst_status status = tryst_coll_start(engine_scope_of(engine, 0)->step, part->coll,
                                           NULL, &tensor, &params, &part->op);
    if (status != TRYST_OK) {
        char words[96];
        part->op = NULL;
        return engine_op_failed(engine, NULL, status, part_text(sum, part, words));
    }
    part->state = PART_UNDER_WAY;
    sum->open_count++;
    engine->stats.bytes_reduced += part->info.count * tryst_dtype_bytes(part->info.dtype);
    return TRYST_OK;
}

/* Record that the sum of a part has ended, with `status`. */
static tryst_status part_end(struct stage_sum *sum, struct sum_part *part,
                             tryst_status status)
{
    tryst_engine *engine = sum->engine;
    char words[96];
    if (status != TRYST_OK) {
        return engine_op_failed(engine, part->op, status, part_text(sum, part, words));
    }
    uint64_t end_ns = tryst_now_ns(engine->params.ctx);
    bool before = part->begin_ns < engine->step_begin_ns;
    engine_span(engine,
                (tryst_span){.begin_ns = before ? engine->step_begin_ns : part->begin_ns,
                             .end_ns = end_ns,
                             .kind = TRYST_SPAN_REDUCE_GRAD,
                             .stage = sum->stage,
                             .microbatch = part->info.layer,
                             .peer = -1,
                             .gradient = 1});
    snprintf(words, sizeof words, "sum of layer %d", (int)part->info.layer);
    tryst_trace_span(engine->params.ctx, words, part->begin_ns, end_ns, sum->frame->id);
    tryst_op_release(part->op);
    part->op = NULL;
    part->state = PART_SUMMED;
    return TRYST_OK;
}

static tryst_status part_update(struct stage_sum *sum, struct sum_part *part)
{
    tryst_engine *engine = sum->engine;
    tryst_stage *stage = engine->stages[sum->stage];
    const tryst_action update = {
        .kind = TRYST_ACTION_UPDATE, .stage = sum->stage, .microbatch = -1, .version = 1};
    engine_call_begin(engine, &update);
    tryst_status status = stage->ops->update_part(stage, (int32_t)(part - sum->parts));
    engine_call_end(engine);
    if (status != TRYST_OK) {
        return engine_fail(engine, status,
                           "step %llu, rank %d: the update of layer %d failed: %s",
                           (unsigned long long)engine->frame->id, engine->rank,
                           (int)part->info.layer, engine_stage_text(stage, status));
    }
    part->state = PART_IDLE;
    sum->open_count--;
    sum->updating = sum->updating && sum->open_count > 0;
    return TRYST_OK;
}

/* Poll a part, and update it if its sum is there and UPDATE has run. */
static tryst_status part_poll(struct stage_sum *sum, struct sum_part *part)
{
    tryst_status status = TRYST_OK;
    if (part->state == PART_UNDER_WAY) {
        tryst_status ended = tryst_op_test(part->op);
        status = ended == TRYST_IN_PROGRESS ? TRYST_OK : part_end(sum, part, ended);
    }
    if (status == TRYST_OK && part->state == PART_SUMMED && sum->updating) {
        status = part_update(sum, part);
    }
    return status;
}

static void note_wait(const struct stage_sum *sum, const struct sum_part *part,
                      uint64_t begin_ns)
{
    tryst_engine *engine = sum->engine;
    uint64_t end_ns = tryst_now_ns(engine->params.ctx);
    char name[64];
    engine->stats.wait_ns += end_ns - begin_ns;
    engine->stats.reduce_wait_ns += end_ns - begin_ns;
    engine_span(engine, (tryst_span){.begin_ns = begin_ns,
                                     .end_ns = end_ns,
                                     .kind = TRYST_SPAN_WAIT,
                                     .stage = sum->stage,
                                     .microbatch = -1,
                                     .peer = -1,
                                     .gradient = 1});
    snprintf(name, sizeof name, "wait for the sum of layer %d", (int)part->info.layer);
    tryst_trace_span(engine->params.ctx, name, begin_ns, end_ns, engine->frame->id);
}

/* Wait until a part is updated. */
static tryst_status part_await(struct stage_sum *sum, struct sum_part *part)
{
    tryst_engine *engine = sum->engine;
    tryst_status status = part_poll(sum, part);
    if (status != TRYST_OK || part->state == PART_IDLE) {
        return status;
    }
    uint64_t begin_ns = tryst_now_ns(engine->params.ctx);
    status = tryst_wait(part->op, engine->params.timeout_ns);
    note_wait(sum, part, begin_ns);
    if (status == TRYST_E_TIMEOUT && tryst_op_test(part->op) == TRYST_IN_PROGRESS) {
        char words[96];
        return engine_fail(engine, TRYST_E_DEADLINE,
                           "step %llu, rank %d, %s: nothing for %llu s; are all replicas "
                           "in the same step of the same program?",
                           (unsigned long long)engine->frame->id, engine->rank,
                           part_text(sum, part, words),
                           (unsigned long long)(engine->params.timeout_ns / 1000000000));
    }
    tryst_status polled = part_poll(sum, part);
    if (polled == TRYST_OK && part->state != PART_IDLE) {
        char words[96];
        return engine_op_failed(engine, NULL, status, part_text(sum, part, words));
    }
    return polled;
}

/* ---- what calls of the stage report ------------------------------------------------ */

/* A forward needs a part: wait for its update. */
static tryst_status part_needed(void *arg, int32_t i)
{
    struct stage_sum *sum = arg;
    if (!sum->updating || sum->parts[i].state == PART_IDLE) {
        return TRYST_OK;
    }
    struct engine_call outer = engine_call_pause(sum->engine, true);
    tryst_status status = part_await(sum, &sum->parts[i]);
    engine_call_resume(sum->engine, outer, true);
    return status;
}

/* A backward has completed a part's gradient: start its sum, and let it move on. */
static tryst_status part_added(void *arg, int32_t i)
{
    struct stage_sum *sum = arg;
    struct engine_call outer = engine_call_pause(sum->engine, false);
    tryst_status status = part_start(sum, &sum->parts[i]);
    engine_push(sum->engine);
    engine_call_resume(sum->engine, outer, false);
    return status;
}

static tryst_status sum_settle(struct stage_sum *sum)
{
    tryst_status status = TRYST_OK;
    for (int32_t i = 0; i < sum->parts_count && sum->updating && status == TRYST_OK;
         i++) {
        if (sum->parts[i].state != PART_IDLE) {
            status = part_await(sum, &sum->parts[i]);
        }
    }
    return status;
}

tryst_status engine_reduce_work(tryst_engine *engine, size_t index,
                                tryst_stage_work *work)
{
    const tryst_action *action = &engine->list->actions[index];
    struct stage_sum *sum = sum_of(engine, action->stage);
    if (!sum) {
        return TRYST_OK;
    }
    work->part_arg = sum;
    if (action->kind == TRYST_ACTION_FORWARD) {
        work->part_needed = sum->updating ? part_needed : NULL;
        return TRYST_OK;
    }
    if (engine->reduction->reports[index] && !engine->params.reduce_at_end) {
        sum->frame = engine->frame;
        work->part_added = part_added;
    }
    return sum_settle(sum);
}

/* ---- actions ----------------------------------------------------------------------- */

tryst_status engine_reduce_run(tryst_engine *engine, size_t index)
{
    struct stage_sum *sum = sum_of(engine, engine->list->actions[index].stage);
    tryst_status status = TRYST_OK;
    if (!sum) { /* one replica: the sum is its own gradient */
        return TRYST_OK;
    }
    sum->frame = engine->frame;
    for (int32_t i = 0; i < sum->parts_count && status == TRYST_OK; i++) {
        status = part_start(sum, &sum->parts[i]);
    }
    return status;
}

tryst_status engine_reduce_update(tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    struct stage_sum *sum = sum_of(engine, action->stage);
    tryst_stage *stage = engine->stages[action->stage];
    const tryst_stage_update update = {
        .struct_size = sizeof update,
        .microbatches = sum->microbatches[sum->updates_run++ % sum->updates_count],
        .rate = engine_rate_of(engine, action)};
    engine_call_begin(engine, action);
    tryst_status status = stage->ops->update_begin(stage, &update);
    engine_call_end(engine);
    engine_count_action(engine, action);
    if (status != TRYST_OK) {
        char name[64];
        return engine_fail(engine, status, "step %llu, rank %d: %s failed: %s",
                           (unsigned long long)engine->frame->id, engine->rank,
                           tryst_action_format(action, name, sizeof name),
                           engine_stage_text(stage, status));
    }
    sum->updating = sum->open_count > 0;
    return engine->params.reduce_at_end ? sum_settle(sum) : engine_reduce_poll(engine);
}

/* ---- all sums ---------------------------------------------------------------------- */

tryst_status engine_reduce_poll(tryst_engine *engine)
{
    struct engine_reduction *self = engine->reduction;
    tryst_status status = TRYST_OK;
    for (int s = 0; self && s < self->sums_count; s++) {
        struct stage_sum *sum = &self->sums[s];
        for (int32_t i = 0;
             i < sum->parts_count && sum->open_count > 0 && status == TRYST_OK; i++) {
            status = part_poll(sum, &sum->parts[i]);
        }
    }
    return status;
}

tryst_status engine_reduce_settle(tryst_engine *engine, const struct engine_frame *frame)
{
    struct engine_reduction *self = engine->reduction;
    tryst_status status = TRYST_OK;
    for (int s = 0; self && s < self->sums_count && status == TRYST_OK; s++) {
        if (!frame || self->sums[s].frame == frame) {
            status = sum_settle(&self->sums[s]);
        }
    }
    return status;
}

void engine_reduce_abandon(tryst_engine *engine, const struct engine_frame *frame)
{
    struct engine_reduction *self = engine->reduction;
    for (int s = 0; self && s < self->sums_count; s++) {
        struct stage_sum *sum = &self->sums[s];
        for (int32_t i = 0; sum->frame == frame && i < sum->parts_count; i++) {
            tryst_op_release(sum->parts[i].op);
            sum->parts[i].op = NULL;
            sum->parts[i].state = PART_IDLE;
        }
    }
}
