/* SPDX-License-Identifier: Apache-2.0 */
/* Implements a stage of layers over a table of kernels. Calls only enqueue work. The
 * stage owns the weights, their versions, the gradients and the optimiser's moments, and
 * chains the layers' passes.
 *
 * One idea: two lanes. Forward, backward and backward_input go to COMPUTE;
 * backward_weight goes to WEIGHT, which yields to COMPUTE and so fills the bubbles. Two
 * rules connect the lanes:
 *   - backward_weight waits for its own backward_input (a mark, found by `kept`), not for
 *     later work on COMPUTE, which may still wait for a peer;
 *   - calls that change gradients or weights take effect in the order of the calls: such
 *     a call waits for the previous one if that was on the other lane (`accumulated`).
 * update is such a call, on COMPUTE. WEIGHT reads weights only in calls that wait for it.
 * So equal programs give equal bits, split or whole. predict, on COMPUTE, also waits for
 * the previous such call, which may read the slot's old contents.
 *
 * With recompute, `saved` holds only the layers' inputs. Each lane has memory for one
 * layer's part of `saved`, which the layer's forward fills again before backward reads
 * it. */
#include "device_stage.h"
#include "device_finish.h"

#include "pipeline/base/memory.h"
#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "pipeline/base/stage_calls.h"

#include <assert.h>
#include <tryst/sized.h>
#include <tryst/tryst.h>

/* ---- passes ------------------------------------------------------------------------ */

/* Return the arena of the weights that `work` reads. */
static const void *stage_work_weights(const struct device_stage *stage,
                                      const tryst_stage_work *work)
{
    return work->slot != 0 ? device_stage_slot(stage, work->slot)
                           : device_stage_weights(stage, work->version);
}

/* Return a pass of layer `i` on `lane` with all members set but the output and the
 * gradients of output and input. `kept` is the layer's part; NULL for a forward. */
static struct device_pass stage_pass(const struct device_stage *stage, int32_t lane,
                                     int32_t i, const tryst_stage_work *work, char *kept)
{
    const struct device_layout *layout = &stage->layout;
    const struct device_layer *layer = &layout->layers[i];
    uint64_t t_bytes = device_dtype_bytes(stage->session->dtype);
    uint64_t wide_bytes = device_dtype_bytes(stage->session->wide);
    const char *weights = stage_work_weights(stage, work);
    char *gradients = device_stage_wide(stage, layout->places.gradients, 0);
    char *saved = work->saved;
    struct device_pass pass = {.kernels = stage->kernels,
                               .lane = &stage->session->lanes[lane],
                               .model = &layout->model,
                               .keeps_logits = layout->keeps_logits,
                               .target = work->target};
    pass.input = i == 0 ? work->input : saved + layer[-1].output;
    char *const parts[LAYER_PARTS] = {
        [LAYER_SAVED] = layout->recompute
                            ? stage->memory + layout->places.recomputed[lane]
                            : saved + layer->saved,
        [LAYER_KEPT] = kept,
        [LAYER_SCRATCH] = stage->memory + layout->places.scratch[lane]};
    for (int32_t a = 0; a < layer->arrays_count; a++) {
        char *part = parts[layer->arrays[a].part];
        pass.arrays[a] = part ? part + layer->places[a] : NULL;
    }
    for (int32_t t = 0; t < layer->tensors_count; t++) {
        pass.weights[t] = weights + layer->offsets[t] * t_bytes;
        pass.gradients[t] = gradients + layer->offsets[t] * wide_bytes;
    }
    return pass;
}

/* With recompute, fill a layer's part of `saved` again. */
static void pass_recompute(const struct device_stage *stage,
                           const struct device_layer *layer,
                           const struct device_pass *pass)
{
    if (stage->layout.recompute) {
        layer->ops->forward(pass); /* without output */
    }
}

/* ---- order ------------------------------------------------------------------------- */

static void work_check(const tryst_stage *base, const tryst_stage_work *work)
{
    assert(work->input && (work->saved || !base->info.saved_bytes));
    assert(!base->info.is_last || work->target);
    assert((uintptr_t)work->saved % MEMORY_ALIGN_BYTES == 0);
    assert(work->waits_count == 0 || work->waits);
    (void)base;
    (void)work;
}

/* Begin a call: enter the context and let `lane` wait for the work's events; stage_end
 * ends the call. Refuses, without effect, if the stage does not hold the weights. */
static tryst_status stage_begin(const struct device_stage *stage, int32_t lane,
                                const tryst_stage_work *work)
{
    work_check(&stage->base, work);
    tryst_status status =
        stage_weights_check(&stage->base.info, stage->filled, stage->newest, work);
    if (status != TRYST_OK) {
        return status;
    }
    stage->kernels->enter(stage->session);
    for (int32_t i = 0; i < work->waits_count; i++) {
        stage->kernels->event_wait(&stage->session->lanes[lane], work->waits[i]);
    }
    return TRYST_OK;
}

static void stage_record(const struct device_stage *stage, int32_t lane, void *event)
{
    if (event) {
        stage->kernels->event_record(&stage->session->lanes[lane], event);
    }
}

/* End a call: record `done` (may be NULL) behind its work, leave the context, and return
 * the session's status. */
static tryst_status stage_end(const struct device_stage *stage, int32_t lane, void *done)
{
    stage_record(stage, lane, done);
    stage->kernels->leave(stage->session);
    return stage->kernels->status(stage->session);
}

/* Let `lane` wait for the previous call that changed gradients or weights. */
static void stage_accumulate_begin(struct device_stage *stage, int32_t lane)
{
    if (stage->accumulated_lane != lane) {
        stage->kernels->event_wait(&stage->session->lanes[lane], stage->accumulated);
    }
}

static void stage_accumulate_end(struct device_stage *stage, int32_t lane)
{
    stage->kernels->event_record(&stage->session->lanes[lane], stage->accumulated);
    stage->accumulated_lane = lane;
}

static struct device_mark *stage_mark_find(struct device_stage *stage, const void *kept)
{
    for (int32_t i = 0; i < DEVICE_MARKS_MAX; i++) {
        if (stage->marks[i].kept == kept) {
            return &stage->marks[i];
        }
    }
    return NULL;
}

/* Record a mark for `kept` behind the work on COMPUTE so far, which fills it. If all
 * marks are in use, one is replaced: the backward_weight that belongs to it then waits
 * longer than necessary. */
static void stage_mark(struct device_stage *stage, const void *kept)
{
    struct device_mark *mark = stage_mark_find(stage, kept);
    mark = mark ? mark : stage_mark_find(stage, NULL);
    if (!mark) {
        mark = &stage->marks[stage->marks_next++ % DEVICE_MARKS_MAX];
    }
    mark->kept = kept;
    stage->kernels->event_record(&stage->session->lanes[DEVICE_COMPUTE], mark->event);
}

/* Let WEIGHT wait for the mark of `kept`; if that mark was replaced, for all work on
 * COMPUTE so far. */
static void stage_mark_wait(struct device_stage *stage, const void *kept)
{
    struct device_mark *mark = stage_mark_find(stage, kept);
    if (!mark) {
        mark = &stage->marks[stage->marks_next++ % DEVICE_MARKS_MAX];
        stage->kernels->event_record(&stage->session->lanes[DEVICE_COMPUTE], mark->event);
        stage->kernels->event_wait(&stage->session->lanes[DEVICE_WEIGHT], mark->event);
        return;
    }
    stage->kernels->event_wait(&stage->session->lanes[DEVICE_WEIGHT], mark->event);
    mark->kept = NULL;
}

/* ---- forward and backward ---------------------------------------------------------- */

/* Call a function of the work (NULL: none) outside of the session's context, since it may
 * call the stage. */
static tryst_status stage_part_call(const struct device_stage *stage,
                                    tryst_status (*fn)(void *arg, int32_t part),
                                    void *arg, int32_t part)
{
    if (!fn) {
        return TRYST_OK;
    }
    stage->kernels->leave(stage->session);
    tryst_status status = fn(arg, part);
    stage->kernels->enter(stage->session);
    return status;
}

static tryst_status stage_forward_layers(const struct device_stage *stage,
                                         const tryst_stage_work *work)
{
    for (int32_t i = 0; i < stage->layout.layers_count; i++) {
        const struct device_layer *layer = &stage->layout.layers[i];
        tryst_status status =
            stage_part_call(stage, work->part_needed, work->part_arg, i);
        if (status != TRYST_OK) {
            return status;
        }
        assert(layer->version == stage->newest);
        bool is_last = i + 1 == stage->layout.layers_count;
        struct device_pass pass = stage_pass(stage, DEVICE_COMPUTE, i, work, NULL);
        pass.output = is_last ? work->output : (char *)work->saved + layer->output;
        layer->ops->forward(&pass);
    }
    return TRYST_OK;
}

static tryst_status device_stage_forward(tryst_stage *base, const tryst_stage_work *given)
{
    struct device_stage *stage = (struct device_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    assert(!work || work->output);
    if (!work) {
        return refuse_work(given);
    }
    tryst_status status = stage_begin(stage, DEVICE_COMPUTE, work);
    if (status != TRYST_OK) {
        return status;
    }
    status = stage_forward_layers(stage, work);
    stage_record(stage, DEVICE_COMPUTE, work->ready);
    tryst_status ended = stage_end(stage, DEVICE_COMPUTE, work->done);
    return status == TRYST_OK ? ended : status;
}

/* Return where layer `i` writes its input gradient: the stage's grad_input for the first
 * layer (NULL in the first stage), else one of the two ping buffers. */
static void *stage_grad_input(const struct device_stage *stage, int32_t i,
                              const tryst_stage_work *work)
{
    return i == 0 ? work->grad_input : stage->memory + stage->layout.places.ping[i % 2];
}

/* Run backward_input layer by layer from the last. With `whole`, each layer's
 * backward_weight follows at once, and all layers use the same memory of the stage as
 * `kept`. */
static tryst_status stage_backward_layers(const struct device_stage *stage,
                                          const tryst_stage_work *work, bool whole)
{
    tryst_status status = TRYST_OK;
    const struct device_layout *layout = &stage->layout;
    const void *grad_output = work->grad_output;
    for (int32_t i = layout->layers_count - 1; i >= 0 && status == TRYST_OK; i--) {
        const struct device_layer *layer = &layout->layers[i];
        char *kept = whole ? stage->memory + layout->places.kept
                           : (char *)work->kept + layer->kept;
        struct device_pass pass = stage_pass(stage, DEVICE_COMPUTE, i, work, kept);
        pass_recompute(stage, layer, &pass);
        pass.grad_output = grad_output;
        pass.grad_input = stage_grad_input(stage, i, work);
        layer->ops->backward_input(&pass);
        if (i == 0) {
            stage_record(stage, DEVICE_COMPUTE, work->ready);
        }
        if (whole) {
            layer->ops->backward_weight(&pass);
            status = stage_part_call(stage, work->part_added, work->part_arg, i);
        }
        grad_output = pass.grad_input;
    }
    return status;
}

static tryst_status stage_backward(tryst_stage *base, const tryst_stage_work *given,
                                   bool whole)
{
    struct device_stage *stage = (struct device_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    if (!work) {
        return refuse_work(given);
    }
    assert(base->info.is_last || work->grad_output);
    assert(base->info.is_first || work->grad_input);
    assert(whole || work->kept);
    tryst_status status = stage_begin(stage, DEVICE_COMPUTE, work);
    if (status != TRYST_OK) {
        return status;
    }
    if (whole) {
        stage_accumulate_begin(stage, DEVICE_COMPUTE);
    }
    status = stage_backward_layers(stage, work, whole);
    if (whole) {
        stage_accumulate_end(stage, DEVICE_COMPUTE);
    } else {
        stage_mark(stage, work->kept);
    }
    tryst_status ended = stage_end(stage, DEVICE_COMPUTE, work->done);
    return status == TRYST_OK ? ended : status;
}

static tryst_status device_stage_backward(tryst_stage *base, const tryst_stage_work *work)
{
    return stage_backward(base, work, true);
}

static tryst_status device_stage_backward_input(tryst_stage *base,
                                                const tryst_stage_work *work)
{
    return stage_backward(base, work, false);
}

static tryst_status device_stage_backward_weight(tryst_stage *base,
                                                 const tryst_stage_work *given)
{
    struct device_stage *stage = (struct device_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    assert(!work || work->kept);
    if (!work) {
        return refuse_work(given);
    }
    tryst_status status = stage_begin(stage, DEVICE_WEIGHT, work);
    if (status != TRYST_OK) {
        return status;
    }
    stage_mark_wait(stage, work->kept);
    stage_accumulate_begin(stage, DEVICE_WEIGHT);
    for (int32_t i = stage->layout.layers_count - 1; i >= 0 && status == TRYST_OK; i--) {
        const struct device_layer *layer = &stage->layout.layers[i];
        const struct device_pass pass =
            stage_pass(stage, DEVICE_WEIGHT, i, work, (char *)work->kept + layer->kept);
        pass_recompute(stage, layer, &pass);
        layer->ops->backward_weight(&pass);
        status = stage_part_call(stage, work->part_added, work->part_arg, i);
    }
    stage_accumulate_end(stage, DEVICE_WEIGHT);
    stage_record(stage, DEVICE_WEIGHT, work->ready);
    tryst_status ended = stage_end(stage, DEVICE_WEIGHT, work->done);
    return status == TRYST_OK ? ended : status;
}

/* ---- update, parts ----------------------------------------------------------------- */

static struct device_update stage_update_scalars(struct device_stage *stage,
                                                 const tryst_stage_update *with)
{
    const tryst_optimizer *s = &stage->optimizer.settings;
    struct device_update update = {.adam = s->kind == TRYST_OPTIMIZER_ADAM,
                                   .scale = 1.0 / with->microbatches,
                                   .lr = s->lr * with->rate,
                                   .momentum = s->momentum,
                                   .beta1 = s->beta1,
                                   .beta1_rest = 1 - s->beta1,
                                   .beta2 = s->beta2,
                                   .beta2_rest = 1 - s->beta2,
                                   .epsilon = s->epsilon,
                                   .decay = stage->delta_decay,
                                   .decay_rest = 1 - stage->delta_decay};
    if (update.adam) {
        optimizer_adam_step(&stage->optimizer);
        optimizer_adam_scalars(&stage->optimizer, update.lr, &update.rate, &update.root);
    }
    return update;
}

/* Check that all parts have the newest version, before the stage does `what`. */
static tryst_status stage_parts_check(const struct device_stage *stage, const char *what)
{
    for (int32_t i = 0; i < stage->layout.layers_count; i++) {
        if (stage->layout.layers[i].version != stage->newest) {
            return refuse_part_behind(what, i);
        }
    }
    return TRYST_OK;
}

/* Begin version newest + 1, for which no layer has weights yet. `*update_p` gets the
 * caller's struct. */
static tryst_status stage_update_begin(struct device_stage *stage,
                                       const tryst_stage_update *given,
                                       tryst_stage_update *update_p)
{
    tryst_status status = stage_update_read(given, update_p);
    if (status == TRYST_OK) {
        status = stage_parts_check(stage, "update the weights");
    }
    if (status == TRYST_OK) {
        stage->updating = stage_update_scalars(stage, update_p);
        stage->newest++;
    }
    return status;
}

/* Make the newest weights of elements [first, first + count) of an arena. */
static void stage_update_run(struct device_stage *stage, uint64_t first, uint64_t count)
{
    const struct device_layout *layout = &stage->layout;
    uint64_t wide = first * device_dtype_bytes(stage->session->wide);
    uint64_t t = first * device_dtype_bytes(stage->session->dtype);
    uint64_t gradients = layout->places.gradients, moments = layout->places.moments;
    struct device_update update = stage->updating;
    update.count = count;
    update.from = (char *)device_stage_masters(stage, stage->newest - 1) + wide;
    update.to = (char *)device_stage_masters(stage, stage->newest) + wide;
    if (layout->rounds) {
        update.rounded = (char *)device_stage_rounded(stage, stage->newest) + t;
    }
    update.gradients = (char *)device_stage_wide(stage, gradients, 0) + wide;
    update.first = (char *)device_stage_wide(stage, moments, 0) + wide;
    if (update.adam) {
        update.second = (char *)device_stage_wide(stage, moments, 1) + wide;
    }
    if (stage->base.info.keeps_delta) {
        update.delta = (char *)device_stage_wide(stage, layout->places.delta, 0) + wide;
    }
    stage_accumulate_begin(stage, DEVICE_COMPUTE);
    stage->kernels->update(&stage->session->lanes[DEVICE_COMPUTE], &update);
    stage_accumulate_end(stage, DEVICE_COMPUTE);
}

static tryst_status device_stage_update(tryst_stage *base,
                                        const tryst_stage_update *given)
{
    struct device_stage *stage = (struct device_stage *)base;
    tryst_stage_update update;
    tryst_status status = stage_update_begin(stage, given, &update);
    if (status != TRYST_OK) {
        return status;
    }
    stage->kernels->enter(stage->session);
    stage_update_run(stage, 0, stage->layout.arena_count);
    for (int32_t i = 0; i < stage->layout.layers_count; i++) {
        stage->layout.layers[i].version = stage->newest;
    }
    return stage_end(stage, DEVICE_COMPUTE, update.done);
}

static int32_t device_stage_parts_count(const tryst_stage *base)
{
    /* The gradients of other memory cannot be summed by collectives yet. */
    return base->info.memory == TRYST_MEMORY_HOST
               ? ((const struct device_stage *)base)->layout.layers_count
               : 0;
}

static tryst_status device_stage_part(const tryst_stage *base, int32_t part,
                                      tryst_stage_part *part_p)
{
    const struct device_stage *stage = (const struct device_stage *)base;
    tryst_status status = stage_part_check(part, device_stage_parts_count(base));
    if (status != TRYST_OK || !params_writable(part_p, "tryst_stage_part")) {
        return TRYST_E_INVALID;
    }
    const struct device_layer *layer = &stage->layout.layers[part];
    tryst_dtype wide = stage->session->wide;
    char *gradients = device_stage_wide(stage, stage->layout.places.gradients, 0);
    const tryst_stage_part own = {.layer = layer->index,
                                  .dtype = wide,
                                  .count = layer->count,
                                  .gradient = gradients +
                                              layer->first * device_dtype_bytes(wide)};
    (void)tryst_sized_write(part_p, &own, sizeof(own));
    return TRYST_OK;
}

/* Stages with parts are in host memory, where the event `done` is ignored. */
static tryst_status device_stage_update_begin(tryst_stage *base,
                                              const tryst_stage_update *given)
{
    tryst_stage_update update;
    return stage_update_begin((struct device_stage *)base, given, &update);
}

static tryst_status device_stage_update_part(tryst_stage *base, int32_t part)
{
    struct device_stage *stage = (struct device_stage *)base;
    tryst_status status = stage_part_check(part, device_stage_parts_count(base));
    if (status != TRYST_OK) {
        return status;
    }
    struct device_layer *layer = &stage->layout.layers[part];
    if (layer->version == stage->newest) {
        return refuse_part_newest(part);
    }
    stage->kernels->enter(stage->session);
    stage_update_run(stage, layer->first, layer->count);
    layer->version = stage->newest;
    return stage_end(stage, DEVICE_COMPUTE, NULL);
}

/* ---- predictions ------------------------------------------------------------------- */

/* Set where and how far the prediction moves each weight. Adam's moments are scaled as in
 * its last update, but by the full learning rate. */
static struct device_prediction stage_prediction_of(const struct device_stage *stage,
                                                    const tryst_stage_prediction *p)
{
    const struct optimizer_state *optimizer = &stage->optimizer;
    const struct device_places *places = &stage->layout.places;
    struct device_prediction made = {.count = stage->layout.arena_count,
                                     .from = device_stage_masters(stage, stage->newest),
                                     .to = device_stage_slot(stage, p->slot)};
    if (p->direction == TRYST_DIRECTION_DELTA) {
        made.scale = p->ahead;
        made.first = device_stage_wide(stage, places->delta, 0);
        return made;
    }
    double rate = optimizer->settings.lr;
    made.first = device_stage_wide(stage, places->moments, 0);
    made.adam = optimizer->settings.kind == TRYST_OPTIMIZER_ADAM;
    if (made.adam) {
        made.second = device_stage_wide(stage, places->moments, 1);
        made.epsilon = optimizer->settings.epsilon;
        optimizer_adam_scalars(optimizer, optimizer->settings.lr, &rate, &made.root);
    }
    made.scale = -p->ahead * rate;
    return made;
}

/* Queue the prediction. The newest weights are copied where the prediction does not move
 * them, because adding a zero could change bits. */
static void stage_predict_run(struct device_stage *stage, const tryst_stage_prediction *p)
{
    const struct device_lane *lane = &stage->session->lanes[DEVICE_COMPUTE];
    stage_accumulate_begin(stage, DEVICE_COMPUTE);
    if (p->ahead == 0 || stage->newest == 0) {
        stage->kernels->duplicate(lane, stage->layout.arena_count,
                                  device_stage_weights(stage, stage->newest),
                                  device_stage_slot(stage, p->slot));
        return;
    }
    const struct device_prediction made = stage_prediction_of(stage, p);
    stage->kernels->predict(lane, &made);
}

static tryst_status device_stage_predict(tryst_stage *base,
                                         const tryst_stage_prediction *given)
{
    struct device_stage *stage = (struct device_stage *)base;
    tryst_stage_prediction prediction;
    tryst_status status = stage_prediction_read(&base->info, given, &prediction);
    if (status == TRYST_OK) {
        status = stage_parts_check(stage, "predict weights");
    }
    if (status != TRYST_OK) {
        return status;
    }
    stage->kernels->enter(stage->session);
    stage_predict_run(stage, &prediction);
    stage->filled[prediction.slot - 1] = true;
    return stage_end(stage, DEVICE_COMPUTE, prediction.done);
}

/* ---- parameters, cost -------------------------------------------------------------- */

static void device_stage_versions(const tryst_stage *base, uint64_t *oldest_p,
                                  uint64_t *newest_p)
{
    stage_versions_set(&base->info, ((const struct device_stage *)base)->newest, oldest_p,
                       newest_p);
}

/* Set the parameter's value and gradient to memory that the host can read: the stage's
 * own, or copies in `mirror`. */
static tryst_status stage_parameter_fetch(struct device_stage *stage,
                                          const struct device_layer *layer, int32_t t,
                                          tryst_parameter *parameter)
{
    const struct device_layout *layout = &stage->layout;
    uint64_t wide = device_dtype_bytes(stage->session->wide);
    uint64_t at = layer->offsets[t] * wide, bytes = parameter->count * wide;
    char *value = (char *)device_stage_masters(stage, stage->newest) + at;
    char *gradient = (char *)device_stage_wide(stage, layout->places.gradients, 0) + at;
    char *mirror = stage->mirror;
    if (!mirror) {
        parameter->value = value;
        parameter->gradient = gradient;
        return TRYST_OK;
    }
    parameter->value = mirror;
    parameter->gradient = mirror + layout->tensor_count_max * wide;
    stage->kernels->copy(stage->session, parameter->value, value, bytes);
    stage->kernels->copy(stage->session, parameter->gradient, gradient, bytes);
    return device_session_finish(stage->session, "copying a parameter to the host");
}

/* Call the visitor with one parameter, in the caller's own device context. Returns the
 * visitor's value, or the status of a failed copy. */
static int stage_parameter_show(struct device_stage *stage,
                                const struct device_layer *layer, int32_t t,
                                tryst_parameter_fn fn, void *arg)
{
    char name[LAYER_NAME_MAX];
    tryst_parameter parameter =
        layer_parameter(layer->ops, layer->index, &layer->tensors[t], name);
    parameter.dtype = stage->session->wide;
    stage->kernels->enter(stage->session);
    tryst_status status = stage_parameter_fetch(stage, layer, t, &parameter);
    stage->kernels->leave(stage->session);
    return status == TRYST_OK ? fn(arg, &parameter) : status;
}

static int device_stage_parameter_visit(tryst_stage *base, tryst_parameter_fn fn,
                                        void *arg)
{
    struct device_stage *stage = (struct device_stage *)base;
    stage->kernels->enter(stage->session);
    tryst_status status =
        device_session_finish(stage->session, "the work before a visit of parameters");
    stage->kernels->leave(stage->session);
    if (status != TRYST_OK) {
        return status;
    }
    for (int32_t i = 0; i < stage->layout.layers_count; i++) {
        const struct device_layer *layer = &stage->layout.layers[i];
        for (int32_t t = 0; t < layer->tensors_count; t++) {
            int stopped = stage_parameter_show(stage, layer, t, fn, arg);
            if (stopped) {
                return stopped;
            }
        }
    }
    return 0;
}

static void device_stage_cost(const tryst_stage *base, tryst_stage_cost *cost_p)
{
    const struct device_stage *stage = (const struct device_stage *)base;
    const struct device_layout *layout = &stage->layout;
    const tryst_stage_info *info = &base->info;
    uint64_t t_bytes = device_dtype_bytes(stage->session->dtype);
    tryst_stage_cost cost = {.struct_size = sizeof(cost)};
    for (int32_t i = 0; i < layout->layers_count; i++) {
        const struct layer_flops flops = layout->layers[i].ops->flops(&layout->model);
        cost.forward_flops += flops.forward;
        cost.backward_input_flops +=
            flops.backward_input + (layout->recompute ? flops.forward : 0);
        cost.backward_weight_flops += flops.backward_weight;
    }
    cost.update_flops =
        (optimizer_flops(&stage->optimizer) + (info->keeps_delta ? 4 : 0)) *
        (double)info->weights_count;
    cost.weights_bytes = info->weights_count * device_dtype_bytes(stage->session->wide);
    cost.output_bytes = info->is_last ? sizeof(double) : info->output_count * t_bytes;
    cost.activation_bytes =
        info->saved_bytes + info->input_count * (info->is_first ? 1 : t_bytes);
    (void)tryst_sized_write(cost_p, &cost, sizeof(cost));
}

static const char *device_stage_error(const tryst_stage *base)
{
    return ((const struct device_stage *)base)->session->text;
}

const tryst_stage_ops device_stage_ops = {
    .struct_size = sizeof(tryst_stage_ops),
    .name = "device",
    .forward = device_stage_forward,
    .backward = device_stage_backward,
    .backward_input = device_stage_backward_input,
    .backward_weight = device_stage_backward_weight,
    .update = device_stage_update,
    .versions = device_stage_versions,
    .parameter_visit = device_stage_parameter_visit,
    .cost = device_stage_cost,
    .close = device_stage_close,
    .error = device_stage_error,
    .parts_count = device_stage_parts_count,
    .part = device_stage_part,
    .update_begin = device_stage_update_begin,
    .update_part = device_stage_update_part,
    .predict = device_stage_predict,
};
