/* SPDX-License-Identifier: Apache-2.0 */
/* Plans an engine's transfers at open: the items that are sent to or received from other
 * ranks, in program order, with their peers, shapes and prepared keys, so that a step
 * builds no string and searches nothing.
 *
 * An item's key has the edge "act<s>" or "grad<s>", where s is the stage that makes the
 * item, and the micro-batch as the iteration; the micro-batch's own step is the scope. In
 * a loop's body a micro-batch of the next step has the key that it has there. */
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

/* True if the stage can fill slots. */
static bool predicts(const tryst_stage *self)
{
    return TRYST_SIZED_HAS(self->ops, tryst_stage_ops, predict) && self->ops->predict;
}

/* Refuse a stage that holds less than the program needs there, and keep its delay. */
static tryst_status check_need(tryst_engine *engine, int stage)
{
    const tryst_stage *self = engine->stages[stage];
    const tryst_stage_info *info = &self->info;
    tryst_stage_need need = {.struct_size = sizeof need};
    tryst_status status = tryst_program_stage_need(engine->params.program, stage, &need);
    if (status != TRYST_OK) {
        return engine_fail(engine, status, "%s", tryst_last_error());
    }
    engine->delays[stage] = need.delay;
    bool has_slots = TRYST_SIZED_HAS(info, tryst_stage_info, keeps_delta);
    int32_t slots = has_slots ? info->slots_count : 0;
    if (info->versions_count < need.versions_count) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "stage %d holds %d weight version%s, but the program reads %d "
                           "at once: open it with versions_count %d",
                           stage, info->versions_count,
                           info->versions_count == 1 ? "" : "s", need.versions_count,
                           need.versions_count);
    }
    if (slots < need.slots_count) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "stage %d has %d slot%s for predicted weights, but the "
                           "program fills %d: open it with slots_count %d",
                           stage, slots, slots == 1 ? "" : "s", need.slots_count,
                           need.slots_count);
    }
    if (need.slots_count > 0 && !predicts(self)) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "stage %d cannot predict weights: its table has no predict",
                           stage);
    }
    if (need.delta && !(has_slots && info->keeps_delta)) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "stage %d keeps no mean change of its weights, but the "
                           "program predicts by it: open it with a delta_decay",
                           stage);
    }
    return TRYST_OK;
}

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
    char name[64];
    if (action->kind <= TRYST_ACTION_NONE || action->kind >= TRYST_ACTION_KINDS) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "the program has an action of the unknown kind %d",
                           (int)action->kind);
    }
    tryst_action_format(action, name, sizeof name);
    if (!stage) {
        return engine_fail(engine, TRYST_E_INVALID,
                           "rank %d runs %s, but has no stage %d", engine->rank, name,
                           action->stage);
    }
    if (action->kind == TRYST_ACTION_FORWARD && stage->info.is_last &&
        action->microbatch >= engine->microbatches_count) {
        return engine_fail(engine, TRYST_E_PROGRAM,
                           "%s: the last stage cannot take a micro-batch of the next "
                           "step, since a step returns all of its losses",
                           name);
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
        if (status == TRYST_OK && stage_is_here(engine, stage)) {
            status = check_need(engine, stage);
        }
    }
    return status;
}

/* ---- R ----------------------------------------------------------------------------- */

/* Where a list has an R of a micro-batch. */
enum { R_PROLOGUE = 1, R_BODY = 2, R_BODY_NEXT = 4, R_EPILOGUE = 8 };

static uint8_t place_of(const tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    if (index < engine->marks[MARK_BODY].action) {
        return R_PROLOGUE;
    }
    if (index >= engine->marks[MARK_EPILOGUE].action) {
        return R_EPILOGUE;
    }
    return action->microbatch < engine->microbatches_count ? R_BODY : R_BODY_NEXT;
}

/* True if an R comes behind every F of a micro-batch that has an R in `places`. In a loop
 * it is in the body and in the epilogue, or, if it comes a step before, in the prologue
 * and in the body. */
static bool always_recomputes(const tryst_engine *engine, uint8_t places)
{
    enum { OWN = R_BODY | R_EPILOGUE, BEFORE = R_PROLOGUE | R_BODY_NEXT };
    return engine->looped ? (places & OWN) == OWN || (places & BEFORE) == BEFORE
                          : (places & R_BODY) != 0;
}

static tryst_status find_recomputed(tryst_engine *engine)
{
    size_t count = (size_t)engine->stages_count * (size_t)engine->microbatches_count;
    uint8_t *places = calloc(count, sizeof *places);
    if (!places) {
        return TRYST_E_NOMEM;
    }
    for (size_t i = 0; i < engine->list->count; i++) {
        const tryst_action *action = &engine->list->actions[i];
        if (action->kind == TRYST_ACTION_RECOMPUTE) {
            const bool *cell =
                engine_recomputed(engine, action->stage, action->microbatch);
            places[cell - engine->recomputed] |= place_of(engine, i);
        }
    }
    for (size_t i = 0; i < count; i++) {
        engine->recomputed[i] = always_recomputes(engine, places[i]);
    }
    free(places);
    return TRYST_OK;
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

/* Prepare the key of an item, or, of the other direction, of the message that gives it
 * back. */
static tryst_status prepare_key(tryst_engine *engine, const struct engine_transfer *self,
                                bool sends, bool back, tryst_key **key_p)
{
    char edge[32];
    char key[TRYST_KEY_MAX + 1];
    int from = sends != back ? engine->rank : self->peer;
    int to = sends != back ? self->peer : engine->rank;
    snprintf(edge, sizeof edge, "%s%d%s",
             self->item.kind == PROGRAM_OUTPUT ? "act" : "grad", self->item.stage,
             back ? "back" : "");
    tryst_status status = tryst_key_build(
        engine->params.group, from, to, edge, 0,
        (uint64_t)(self->item.microbatch % engine->microbatches_count), key, sizeof key);
    if (status == TRYST_OK) {
        status = tryst_key_prepare(engine->params.group, key, key_p);
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
        tryst_status status = prepare_key(engine, self, sends, false, &self->key);
        if (status == TRYST_OK) {
            status = prepare_key(engine, self, sends, true, &self->back);
        }
        if (status != TRYST_OK) {
            return status;
        }
        (*count)++;
    }
    return TRYST_OK;
}

/* Set the receives and sends of the marks before action `index`. */
static void marks_reach(tryst_engine *engine, size_t index)
{
    for (int i = 0; i < MARKS_COUNT; i++) {
        if (engine->marks[i].action == index) {
            engine->marks[i].receive = engine->receives_count;
            engine->marks[i].send = engine->sends_count;
        }
    }
}

static bool is_same_item(struct program_item a, struct program_item b)
{
    return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch;
}

/* Return how many receives are the first ones of both the body and the epilogue. */
static size_t count_common_receives(const tryst_engine *engine)
{
    size_t body = engine->marks[MARK_BODY].receive;
    size_t epilogue = engine->marks[MARK_EPILOGUE].receive;
    size_t count = 0;
    while (body + count < epilogue && epilogue + count < engine->receives_count &&
           is_same_item(engine->receives[body + count].item,
                        engine->receives[epilogue + count].item)) {
        count++;
    }
    return count;
}

static tryst_status allocate_notes(tryst_engine *engine)
{
    size_t receives = engine->receives_count, sends = engine->sends_count;
    engine->notes = calloc(receives + 2 * sends + 1, sizeof *engine->notes);
    if (!engine->notes) {
        return TRYST_E_NOMEM;
    }
    for (size_t i = 0; i < receives; i++) {
        engine->receives[i].note = &engine->notes[i];
    }
    for (size_t i = 0; i < sends; i++) {
        engine->frames[0].sends[i].note = &engine->notes[receives + i];
        engine->frames[1].sends[i].note = &engine->notes[receives + sends + i];
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
        marks_reach(engine, i);
        status =
            add_transfers(engine, i, false, engine->receives, &engine->receives_count);
        if (status == TRYST_OK) {
            status = add_transfers(engine, i, true, engine->frames[0].sends,
                                   &engine->sends_count);
        }
    }
    marks_reach(engine, engine->list->count);
    for (size_t i = 0; i < engine->sends_count; i++) {
        engine->frames[1].sends[i] = engine->frames[0].sends[i];
    }
    if (status == TRYST_OK) {
        status = allocate_notes(engine);
    }
    engine->early_max =
        engine->looped ? count_common_receives(engine) : engine->receives_count;
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

/* Set the actions of the marks. */
static void find_parts(tryst_engine *engine)
{
    engine->looped = program_is_looped(engine->params.program);
    engine->follows = engine->looped || engine->params.steps_follow;
    (void)program_list_parts(engine->list, &engine->marks[MARK_BODY].action,
                             &engine->marks[MARK_EPILOGUE].action);
    engine->marks[MARK_END].action = engine->list->count;
    for (int rank = 0; rank < engine->params.program->ranks_count; rank++) {
        size_t count = engine->params.program->lists[rank].count;
        engine->stride = count > engine->stride ? count : engine->stride;
    }
    engine->cells_count = (engine->looped ? 2 : 1) * engine->microbatches_count;
}

static tryst_status allocate(tryst_engine *engine)
{
    size_t stages = (size_t)engine->stages_count;
    size_t microbatches = (size_t)engine->microbatches_count;
    find_parts(engine);
    engine->stages = calloc(stages, sizeof *engine->stages);
    engine->versions = calloc(stages, sizeof *engine->versions);
    engine->versions_first = calloc(stages, sizeof *engine->versions_first);
    engine->delays = calloc(stages, sizeof *engine->delays);
    engine->costs = calloc(stages, sizeof *engine->costs);
    engine->pending = calloc(stages, sizeof *engine->pending);
    engine->cells = calloc(stages * (size_t)engine->cells_count, sizeof *engine->cells);
    /* for each action: its own span, a wait, and one span for each of its transfers */
    engine->spans_capacity = engine->list->count * (2 + 2 * PROGRAM_ITEMS_MAX) + 8 +
                             (size_t)count_reduced_parts(engine) * SPANS_PER_PART;
    engine->spans = calloc(engine->spans_capacity, sizeof *engine->spans);
    engine->recomputed = calloc(stages * microbatches, sizeof *engine->recomputed);
    engine->losses = calloc(microbatches + 1, sizeof *engine->losses);
    engine->own_losses = calloc(microbatches, sizeof *engine->own_losses);
    bool done = engine->stages && engine->versions && engine->versions_first &&
                engine->delays && engine->costs && engine->pending && engine->cells &&
                engine->spans && engine->recomputed && engine->losses &&
                engine->own_losses;
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
    if (status == TRYST_OK) {
        status = find_recomputed(engine);
    }
    if (status == TRYST_OK) {
        status = plan_transfers(engine);
    }
    return status;
}

void engine_plan_close(tryst_engine *engine)
{
    for (size_t i = 0; i < engine->receives_count; i++) {
        tryst_key_release(engine->receives[i].key);
        tryst_key_release(engine->receives[i].back);
    }
    for (size_t i = 0; i < engine->sends_count; i++) {
        tryst_key_release(engine->frames[0].sends[i].key); /* frame 1 shares these keys */
        tryst_key_release(engine->frames[0].sends[i].back);
    }
    if (!engine->unquiet) {
        free(engine->notes);
    }
    free(engine->receives);
    free(engine->frames[0].sends);
    free(engine->frames[1].sends);
    free(engine->recomputed);
    free(engine->losses);
    free(engine->own_losses);
    free(engine->spans);
    free(engine->cells);
    free(engine->pending);
    free(engine->costs);
    free(engine->delays);
    free(engine->versions);
    free(engine->versions_first);
    program_places_close(&engine->places);
    free(engine->stages);
}
