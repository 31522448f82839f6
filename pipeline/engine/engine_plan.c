/* SPDX-License-Identifier: Apache-2.0 */
/* Plans an engine's transfers at open: the items that are sent to or received from other
 * ranks, in program order, with their peers, shapes and prepared keys, so that a step
 * builds no string and searches nothing.
 *
 * An item's key has the edge "act<s>" or "grad<s>", where s is the stage that makes the
 * item, and the micro-batch as the iteration; the step is the scope. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"
#include "engine_plan.h"

static bool stage_is_here(const tryst_engine *engine, int stage)
{
    return engine->stages[stage] != NULL;
}

/* ---- fit of the stages ------------------------------------------------------------- */

static tryst_status check_stage(tryst_engine *engine, int stage)
{
    const tryst_stage *self = engine->stages[stage];
    const tryst_stage_info *info = &self->info;
    bool last = stage == engine->stages_count - 1;
    const char *reason = params_stage_reason(self);
    if (reason) {
        return engine_fail(engine, TRYST_E_INVALID, "cannot use stage %d: %s", stage,
                           reason);
    }
    if (info->is_first != (stage == 0) || info->is_last != last) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "stage %d of %d: the stage given for it is not the %s one",
                           stage, engine->stages_count,
                           stage == 0 ? "first"
                           : last     ? "last"
                                      : "right");
    }
    uint64_t data_count = (stage == 0 ? info->input_count : 0) + info->target_count;
    if (data_count > 0 && !engine->params.feed) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "stage %d reads data, but params.feed is NULL; set it", stage);
    }
    if (last || !stage_is_here(engine, stage + 1)) {
        return TRYST_OK;
    }
    const tryst_stage_info *next = &engine->stages[stage + 1]->info;
    if (next->input_count != info->output_count ||
        next->input_dtype != info->output_dtype) {
        return engine_fail(
            engine, TRYST_E_INVALID,
            "stage %d gives %llu elements of %s, but stage %d takes %llu of %s", stage,
            (unsigned long long)info->output_count, tryst_dtype_name(info->output_dtype),
            stage + 1, (unsigned long long)next->input_count,
            tryst_dtype_name(next->input_dtype));
    }
    return TRYST_OK;
}

static tryst_status check_action(tryst_engine *engine, const tryst_action *action)
{
    const tryst_stage *stage = engine->params.stages[action->stage];
    char name[32];
    tryst_action_format(action, name, sizeof name);
    if (!stage) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "rank %d runs %s, but has no stage %d", engine->rank, name,
                           action->stage);
    }
    if ((action->kind == TRYST_ACTION_INPUT_GRAD ||
         action->kind == TRYST_ACTION_WEIGHT_GRAD) &&
        !stage->info.split_backward) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "%s: stage %d cannot split its backward into I and W", name,
                           action->stage);
    }
    if (action->kind == TRYST_ACTION_REDUCE_GRAD &&
        stage->info.memory != TRYST_MEMORY_HOST) {
        return engine_fail(
            engine, TRYST_E_UNSUPPORTED,
            "%s sums gradients in host memory, but those of stage %d are on "
            "a device",
            name, action->stage);
    }
    return TRYST_OK;
}

static tryst_status check_fits(tryst_engine *engine)
{
    tryst_status status = TRYST_OK;
    for (size_t i = 0; i < engine->list->count && status == TRYST_OK; i++) {
        const tryst_action *action = &engine->list->actions[i];
        status = check_action(engine, action);
        if (status == TRYST_OK) {
            engine->stages[action->stage] = engine->params.stages[action->stage];
        }
    }
    for (int stage = 0; stage < engine->stages_count && status == TRYST_OK; stage++) {
        if (stage_is_here(engine, stage)) {
            status = check_stage(engine, stage);
        }
    }
    return status;
}

/* ---- transfers --------------------------------------------------------------------- */

/* Get the shape of an item from the stage that makes it or from the stage that uses it,
 * whichever is on this rank. */
static void item_shape(const tryst_engine *engine, struct program_item item,
                       tryst_dtype *dtype_p, uint64_t *count_p)
{
    /* The item crosses the boundary between the stages low and low + 1, where the output
     * and the gradient have one shape. */
    int low = item.kind == PROGRAM_OUTPUT ? item.stage : item.stage - 1;
    const tryst_stage *maker = engine->stages[low];
    const tryst_stage_info *info = maker ? &maker->info : &engine->stages[low + 1]->info;
    *dtype_p = maker ? info->output_dtype : info->input_dtype;
    *count_p = maker ? info->output_count : info->input_count;
}

static tryst_status prepare_key(tryst_engine *engine, struct engine_transfer *self,
                                bool sends)
{
    char edge[32];
    char key[TRYST_KEY_MAX + 1];
    int from = sends ? engine->rank : self->peer;
    int to = sends ? self->peer : engine->rank;
    snprintf(edge, sizeof edge, "%s%d",
             self->item.kind == PROGRAM_OUTPUT ? "act" : "grad", self->item.stage);
    tryst_status status =
        tryst_key_build(engine->params.group, from, to, edge, 0,
                        (uint64_t)self->item.microbatch, key, sizeof key);
    if (status == TRYST_OK) {
        status = tryst_key_prepare(engine->params.group, key, &self->key);
    }
    if (status != TRYST_OK) {
        return engine_fail(engine, status, "key of %s, micro-batch %d: %s", edge,
                           self->item.microbatch, tryst_status_str(status));
    }
    return TRYST_OK;
}

/* List the items that action `index` takes from other ranks, or makes for them. */
static int crossing_items(const tryst_engine *engine, size_t index, bool sends,
                          struct program_item items[PROGRAM_ITEMS_MAX])
{
    const tryst_action *action = &engine->list->actions[index];
    struct program_item all[PROGRAM_ITEMS_MAX];
    int count = sends ? program_makes(action, all)
                      : program_needs(engine->params.program, action, all);
    int crossing = 0;
    for (int i = 0; i < count; i++) {
        int other =
            sends ? program_item_user(engine->params.program, all[i]) : all[i].stage;
        if (other >= 0 &&
            engine_owner(engine, other, all[i].microbatch) != engine->rank) {
            items[crossing++] = all[i];
        }
    }
    return crossing;
}

static tryst_status add_transfers(tryst_engine *engine, size_t index, bool sends,
                                  struct engine_transfer *list, size_t *count)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int crossing = crossing_items(engine, index, sends, items);
    for (int i = 0; i < crossing; i++) {
        struct engine_transfer *self = &list[*count];
        int other =
            sends ? program_item_user(engine->params.program, items[i]) : items[i].stage;
        *self = (struct engine_transfer){
            .item = items[i],
            .peer = engine_owner(engine, other, items[i].microbatch),
            .action = index};
        item_shape(engine, items[i], &self->dtype, &self->count);
        tryst_status status = prepare_key(engine, self, sends);
        if (status != TRYST_OK) {
            return status;
        }
        (*count)++;
    }
    return TRYST_OK;
}

static tryst_status plan_transfers(tryst_engine *engine)
{
    size_t most = engine->list->count * PROGRAM_ITEMS_MAX;
    engine->receives = calloc(most + 1, sizeof *engine->receives);
    engine->frames[0].sends = calloc(most + 1, sizeof *engine->receives);
    engine->frames[1].sends = calloc(most + 1, sizeof *engine->receives);
    if (!engine->receives || !engine->frames[0].sends || !engine->frames[1].sends) {
        return TRYST_E_NOMEM;
    }
    tryst_status status = TRYST_OK;
    for (size_t i = 0; i < engine->list->count && status == TRYST_OK; i++) {
        status =
            add_transfers(engine, i, false, engine->receives, &engine->receives_count);
        if (status == TRYST_OK) {
            status = add_transfers(engine, i, true, engine->frames[0].sends,
                                   &engine->sends_count);
        }
    }
    for (size_t i = 0; i < engine->sends_count; i++) {
        engine->frames[1].sends[i] = engine->frames[0].sends[i];
    }
    return status;
}

/* Spans of a part's sum: the sum, a wait for it, the update, and the piece of the
 * forward before. */
#define SPANS_PER_PART 4

/* Count the parts that the REDUCE_GRADs of a step sum on this rank. */
static uint64_t count_reduced_parts(const tryst_engine *engine)
{
    uint64_t count = 0;
    for (size_t i = 0; i < engine->list->count; i++) {
        const tryst_action *action = &engine->list->actions[i];
        const tryst_stage *stage = engine->params.stages[action->stage];
        if (action->kind == TRYST_ACTION_REDUCE_GRAD && stage && stage->ops &&
            TRYST_SIZED_HAS(stage->ops, tryst_stage_ops, update_part) &&
            stage->ops->parts_count) {
            count += (uint64_t)stage->ops->parts_count(stage);
        }
    }
    return count;
}

static tryst_status allocate(tryst_engine *engine)
{
    size_t stages = (size_t)engine->stages_count;
    size_t microbatches = (size_t)engine->microbatches_count;
    engine->stages = calloc(stages, sizeof *engine->stages);
    engine->versions = calloc(stages, sizeof *engine->versions);
    engine->pending = calloc(stages, sizeof *engine->pending);
    engine->cells = calloc(stages * microbatches, sizeof *engine->cells);
    /* for each action: its own span, a wait, and one span for each of its transfers */
    engine->spans_capacity = engine->list->count * (2 + 2 * PROGRAM_ITEMS_MAX) + 8 +
                             (size_t)count_reduced_parts(engine) * SPANS_PER_PART;
    engine->spans = calloc(engine->spans_capacity, sizeof *engine->spans);
    engine->losses = calloc(microbatches, sizeof *engine->losses);
    engine->own_losses = calloc(microbatches, sizeof *engine->own_losses);
    bool done = engine->stages && engine->versions && engine->pending && engine->cells &&
                engine->spans && engine->losses && engine->own_losses;
    for (size_t i = 0; done && i < microbatches; i++) {
        engine->losses[i] = (double)NAN;
    }
    return done ? program_places_open(engine->params.program, &engine->places)
                : TRYST_E_NOMEM;
}

tryst_status engine_plan_open(tryst_engine *engine)
{
    tryst_status status = allocate(engine);
    if (status == TRYST_OK) {
        status = check_fits(engine);
    }
    return status == TRYST_OK ? plan_transfers(engine) : status;
}

void engine_plan_close(tryst_engine *engine)
{
    for (size_t i = 0; i < engine->receives_count; i++) {
        tryst_key_release(engine->receives[i].key);
    }
    for (size_t i = 0; i < engine->sends_count; i++) {
        tryst_key_release(engine->frames[0].sends[i].key); /* frame 1 shares these keys */
    }
    free(engine->receives);
    free(engine->frames[0].sends);
    free(engine->frames[1].sends);
    free(engine->losses);
    free(engine->own_losses);
    free(engine->spans);
    free(engine->cells);
    free(engine->pending);
    free(engine->versions);
    program_places_close(&engine->places);
    free(engine->stages);
}
