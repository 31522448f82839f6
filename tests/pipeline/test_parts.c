/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of stages: a backward reports each part's gradient once it is complete; updates
 * by parts, each made just before a forward reads the part, give the same bits as whole
 * updates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tryst/tryst.h>
#include <tryst/weights.h>

#include "chain.h"

enum { STEPS = 3, MICROBATCHES = 2, PARTS_MAX = 8 };

static tryst_model small_model(tryst_model_kind kind)
{
    return (tryst_model){.struct_size = sizeof(tryst_model),
                         .kind = kind,
                         .layers = 3,
                         .hidden = 24,
                         .heads = 3,
                         .seq = 17,
                         .microbatch_size = 2,
                         .seed = 5};
}

/* One stage's watcher: what its calls reported, and which update of parts is open. */
struct watch {
    tryst_stage *stage;
    int32_t parts_count;
    int32_t next;               /* part that the running call must name next */
    bool updated[PARTS_MAX];    /* the newest update has made this part */
    float *reported[PARTS_MAX]; /* copy of the part's gradient at its report */
    tryst_status answer;        /* of part `failing` */
    int32_t failing;
};

static tryst_stage_part part_at(const tryst_stage *stage, int32_t part)
{
    tryst_stage_part p = {.struct_size = sizeof p};
    assert_int_equal(stage->ops->part(stage, part, &p), TRYST_OK);
    return p;
}

static tryst_status needed(void *arg, int32_t part)
{
    struct watch *w = arg;
    assert_int_equal(part, w->next++);
    if (part == w->failing) {
        return w->answer;
    }
    if (!w->updated[part]) {
        assert_int_equal(w->stage->ops->update_part(w->stage, part), TRYST_OK);
        w->updated[part] = true;
    }
    return TRYST_OK;
}

static tryst_status added(void *arg, int32_t part)
{
    struct watch *w = arg;
    assert_int_equal(part, --w->next);
    const tryst_stage_part p = part_at(w->stage, part);
    memcpy(w->reported[part], p.gradient, p.count * tryst_dtype_bytes(p.dtype));
    return part == w->failing ? w->answer : TRYST_OK;
}

static void watch_open(tryst_stage *stage, struct watch *w)
{
    *w = (struct watch){
        .stage = stage, .parts_count = stage->ops->parts_count(stage), .failing = -1};
    assert_in_range(w->parts_count, 1, PARTS_MAX);
    for (int32_t i = 0; i < w->parts_count; i++) {
        const tryst_stage_part p = part_at(stage, i);
        w->reported[i] = calloc(p.count, tryst_dtype_bytes(p.dtype));
        w->updated[i] = true;
    }
}

static void watch_close(struct watch *w)
{
    for (int32_t i = 0; i < w->parts_count; i++) {
        free(w->reported[i]);
    }
}

static tryst_stage_work *work_at(struct chain *c, int microbatch, int stage)
{
    return &c->works[microbatch * c->stages_count + stage];
}

/* Let the works of a chain report to the stages' watchers. */
static void chain_watch(struct chain *c, struct watch *watches)
{
    for (int s = 0; s < c->stages_count; s++) {
        watch_open(c->stages[s], &watches[s]);
        for (int m = 0; m < c->microbatches_count; m++) {
            tryst_stage_work *work = work_at(c, m, s);
            work->part_needed = needed;
            work->part_added = added;
            work->part_arg = &watches[s];
        }
    }
}

/* Check that the last backward reported each part, with its final gradient. */
static void expect_reported(struct watch *w)
{
    assert_int_equal(w->next, 0);
    for (int32_t i = 0; i < w->parts_count; i++) {
        const tryst_stage_part p = part_at(w->stage, i);
        assert_memory_equal(w->reported[i], p.gradient,
                            p.count * tryst_dtype_bytes(p.dtype));
    }
}

/* Train one step as chain_step does, with an update by parts that the next step ends. */
static double step_by_parts(struct chain *c, struct watch *watches, uint64_t version,
                            enum chain_backward_kind kind)
{
    for (int m = 0; m < c->microbatches_count; m++) {
        for (int s = 0; s < c->stages_count; s++) {
            watches[s].next = 0;
        }
        chain_forward(c, m, version);
    }
    for (int m = 0; m < c->microbatches_count; m++) {
        for (int s = 0; s < c->stages_count; s++) {
            assert_int_equal(watches[s].next, m == 0 ? watches[s].parts_count : 0);
            watches[s].next = watches[s].parts_count;
        }
        chain_backward(c, m, version, kind);
    }
    for (int s = 0; s < c->stages_count; s++) {
        expect_reported(&watches[s]);
        const tryst_stage_ops *ops = c->stages[s]->ops;
        assert_int_equal(
            ops->update_begin(c->stages[s], UPDATE(.microbatches = c->microbatches_count,
                                                   .rate = c->rate)),
            TRYST_OK);
        memset(watches[s].updated, 0, sizeof watches[s].updated);
    }
    return tryst_loss_mean(c->losses, c->microbatches_count);
}

/* Update the parts that no forward has needed yet, from the last. */
static void update_rest(struct watch *w)
{
    for (int32_t i = w->parts_count - 1; i >= 0; i--) {
        if (!w->updated[i]) {
            assert_int_equal(w->stage->ops->update_part(w->stage, i), TRYST_OK);
            w->updated[i] = true;
        }
    }
}

static void digest_of(struct chain *c, char digest[TRYST_DIGEST_TEXT_BYTES])
{
    uint64_t count = tryst_model_weights_count(&c->model), at = 0;
    float *weights = calloc(count, sizeof *weights);
    for (int s = 0; s < c->stages_count; s++) {
        assert_int_equal(tryst_stage_weights_copy(c->stages[s], weights + at), TRYST_OK);
        at += c->stages[s]->info.weights_count;
    }
    tryst_weights_digest(weights, count, digest);
    free(weights);
}

/* Predict from the mean change of the weights, and return the loss with that slot: it
 * differs if one bit of the mean change does. */
static double predicted_loss(struct chain *c)
{
    for (int s = 0; s < c->stages_count; s++) {
        work_at(c, 0, s)->part_needed = NULL;
    }
    double newest = chain_forward(c, 0, STEPS);
    for (int s = 0; s < c->stages_count; s++) {
        tryst_stage *stage = c->stages[s];
        assert_int_equal(
            stage->ops->predict(stage, PREDICTION(.slot = 1, .ahead = 3,
                                                  .direction = TRYST_DIRECTION_DELTA)),
            TRYST_OK);
        work_at(c, 0, s)->slot = 1;
    }
    double predicted = chain_forward(c, 0, STEPS);
    assert_true(predicted != newest);
    return predicted;
}

static void check_equal(const tryst_model *model, int stages,
                        const tryst_stage_params *params, enum chain_backward_kind kind)
{
    char whole[TRYST_DIGEST_TEXT_BYTES], parts[TRYST_DIGEST_TEXT_BYTES];
    struct watch watches[CHAIN_STAGES_MAX];
    double losses[STEPS];
    struct chain c;
    chain_open_params(model, stages, MICROBATCHES, params, &c);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        c.rate = 1.0 / (step + 1);
        losses[step] = chain_step(&c, (uint64_t)step, kind);
    }
    digest_of(&c, whole);
    double predicted = predicted_loss(&c);
    chain_close(&c);

    chain_open_params(model, stages, MICROBATCHES, params, &c);
    chain_watch(&c, watches);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        c.rate = 1.0 / (step + 1);
        double loss = step_by_parts(&c, watches, (uint64_t)step, kind);
        assert_memory_equal(&loss, &losses[step], sizeof loss);
    }
    for (int s = 0; s < stages; s++) {
        update_rest(&watches[s]);
        watch_close(&watches[s]);
    }
    digest_of(&c, parts);
    assert_string_equal(parts, whole);
    assert_true(predicted_loss(&c) == predicted);
    chain_close(&c);
}

static void test_equal(void **state)
{
    const tryst_optimizer sgd = {.struct_size = sizeof sgd, .kind = TRYST_OPTIMIZER_SGD};
    for (int i = 0; i < 24; i++) {
        const tryst_model model = small_model(i % 2 ? TRYST_MODEL_GPT : TRYST_MODEL_MLP);
        const tryst_stage_params params = {.struct_size = sizeof params,
                                           .optimizer = i % 4 < 2 ? NULL : &sgd,
                                           .versions_count = 1 + i % 3,
                                           .reference = i >= 12,
                                           .precision = i < 12  ? TRYST_PRECISION_DEFAULT
                                                        : i % 3 ? TRYST_PRECISION_F32
                                                                : TRYST_PRECISION_BF16,
                                           .recompute = i >= 18,
                                           .slots_count = 1,
                                           .delta_decay = 0.5};
        check_equal(&model, 1 + i % 3, &params, i % 5 < 3 ? CHAIN_WHOLE : CHAIN_SPLIT);
    }
}

/* ---- descriptions ------------------------------------------------------------------ */

/* The part of the parameter's layer holds its gradient. */
static int is_in_part(void *arg, const tryst_parameter *parameter)
{
    const tryst_stage *stage = arg;
    for (int32_t i = 0; i < stage->ops->parts_count(stage); i++) {
        const tryst_stage_part p = part_at(stage, i);
        const char *begin = p.gradient, *end = begin + p.count * sizeof(float);
        const char *at = parameter->gradient;
        if (p.layer == parameter->layer) {
            return at >= begin && at + parameter->count * sizeof(float) <= end ? 0 : 1;
        }
    }
    return 2;
}

static void test_describes(void **state)
{
    const tryst_model model = small_model(TRYST_MODEL_GPT);
    tryst_stage *stage = NULL;
    assert_int_equal(tryst_stage_open(&model, (tryst_layers){0, 3}, NULL, &stage),
                     TRYST_OK);
    assert_int_equal(stage->ops->parts_count(stage), 5); /* with the two ends */
    assert_int_equal(part_at(stage, 0).layer, -1);
    assert_int_equal(part_at(stage, 4).layer, 3);
    assert_int_equal(part_at(stage, 1).dtype, TRYST_DTYPE_F32);
    assert_int_equal(stage->ops->parameter_visit(stage, is_in_part, stage), 0);
    for (int32_t i = 0; i + 1 < 5; i++) { /* parts follow one another */
        const tryst_stage_part p = part_at(stage, i);
        assert_ptr_equal((float *)p.gradient + p.count, part_at(stage, i + 1).gradient);
    }
    tryst_stage_part p = {.struct_size = sizeof p};
    assert_int_equal(stage->ops->part(stage, 5, &p), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "part 5 of the stage: it has 5 parts"));
    assert_int_equal(stage->ops->part(stage, -1, &p), TRYST_E_INVALID);
    p.struct_size = 0;
    assert_int_equal(stage->ops->part(stage, 0, &p), TRYST_E_INVALID);
    tryst_stage_close(stage);
}

/* ---- refusals ---------------------------------------------------------------------- */

static void test_refuses(void **state)
{
    const tryst_model model = small_model(TRYST_MODEL_MLP);
    tryst_stage *stage = NULL;
    assert_int_equal(tryst_stage_open(&model, (tryst_layers){1, 3}, NULL, &stage),
                     TRYST_OK);
    const tryst_stage_ops *ops = stage->ops;
    assert_int_equal(ops->update_part(stage, 0), TRYST_E_INVALID); /* none has begun */
    assert_non_null(strstr(tryst_last_error(), "newest version already"));
    assert_int_equal(ops->update_begin(stage, UPDATE(.microbatches = 0)),
                     TRYST_E_INVALID);
    assert_int_equal(ops->update_begin(stage, UPDATE(.microbatches = 1)), TRYST_OK);
    assert_int_equal(ops->update_part(stage, 3), TRYST_E_INVALID);
    assert_int_equal(ops->update_part(stage, 1), TRYST_OK);
    assert_int_equal(ops->update_part(stage, 1), TRYST_E_INVALID);
    assert_int_equal(ops->update_begin(stage, UPDATE(.microbatches = 1)),
                     TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "part 0 lacks the previous update"));
    assert_int_equal(ops->update(stage, UPDATE(.microbatches = 1)), TRYST_E_INVALID);
    uint64_t oldest, newest;
    ops->versions(stage, &oldest, &newest);
    assert_int_equal(newest, 1);
    for (int32_t i = 0; i < 3; i++) {
        (void)ops->update_part(stage, i);
    }
    assert_int_equal(ops->update(stage, UPDATE(.microbatches = 1)), TRYST_OK);
    tryst_stage_close(stage);
}

/* A failing function of the work ends the call with its status. */
static void test_callback_fails(void **state)
{
    const tryst_model model = small_model(TRYST_MODEL_MLP);
    struct watch w;
    struct chain c;
    chain_open(&model, 1, 1, NULL, 1, &c);
    chain_watch(&c, &w);
    chain_feed(&c, 0);
    const tryst_stage_ops *ops = c.stages[0]->ops;
    w.answer = TRYST_E_PEER;
    w.failing = 2;
    assert_int_equal(ops->forward(c.stages[0], c.works), TRYST_E_PEER);
    assert_int_equal(w.next, 3);
    w.failing = -1;
    w.next = 0;
    chain_forward(&c, 0, 0);
    w.failing = 2;
    w.next = w.parts_count;
    assert_int_equal(ops->backward(c.stages[0], c.works), TRYST_E_PEER);
    assert_int_equal(w.next, 2);
    assert_int_equal(ops->backward_input(c.stages[0], c.works), TRYST_OK);
    assert_int_equal(w.next, 2); /* completes no gradient */
    w.next = w.parts_count;
    assert_int_equal(ops->backward_weight(c.stages[0], c.works), TRYST_E_PEER);
    assert_int_equal(w.next, 2);
    watch_close(&w);
    chain_close(&c);
}

/* Stages that sleep have a part for each layer, with a gradient of zeros. */
static void test_sleep(void **state)
{
    tryst_model model = small_model(TRYST_MODEL_SLEEP);
    struct watch watches[2];
    struct chain c;
    model.sleep_gradient_bytes = 4 * 7 - 2;
    chain_open(&model, 2, MICROBATCHES, NULL, 1, &c);
    chain_watch(&c, watches);
    assert_int_equal(watches[0].parts_count, 2);
    assert_int_equal(watches[1].parts_count, 1);
    assert_int_equal(part_at(c.stages[1], 0).layer, 2);
    assert_int_equal(part_at(c.stages[0], 1).count, 7);
    for (int step = 0; step < STEPS; step++) {
        assert_true(step_by_parts(&c, watches, (uint64_t)step,
                                  step % 2 ? CHAIN_SPLIT : CHAIN_WHOLE) == 0);
    }
    assert_int_equal(
        c.stages[0]->ops->update_begin(c.stages[0], UPDATE(.microbatches = 1)),
        TRYST_E_INVALID);
    for (int s = 0; s < 2; s++) {
        update_rest(&watches[s]);
        assert_int_equal(c.stages[s]->ops->update_part(c.stages[s], 0), TRYST_E_INVALID);
        watch_close(&watches[s]);
    }
    chain_close(&c);
    model.sleep_gradient_bytes = UINT64_MAX;
    tryst_stage *stage = NULL;
    assert_int_equal(tryst_stage_open(&model, (tryst_layers){0, 3}, NULL, &stage),
                     TRYST_E_NOMEM);
}

static void test_sleep_has_none(void **state)
{
    const tryst_model model = small_model(TRYST_MODEL_SLEEP);
    tryst_stage *stage = NULL;
    uint64_t oldest, newest;
    assert_int_equal(tryst_stage_open(&model, (tryst_layers){0, 3}, NULL, &stage),
                     TRYST_OK);
    assert_int_equal(stage->ops->parts_count(stage), 0);
    assert_int_equal(stage->ops->part(stage, 0, NULL), TRYST_E_INVALID);
    assert_int_equal(stage->ops->update_part(stage, 0), TRYST_E_INVALID);
    assert_int_equal(stage->ops->update_begin(stage, UPDATE(.microbatches = 1)),
                     TRYST_OK);
    stage->ops->versions(stage, &oldest, &newest);
    assert_int_equal(newest, 1);
    tryst_stage_close(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),   cmocka_unit_test(test_describes),
        cmocka_unit_test(test_refuses), cmocka_unit_test(test_callback_fails),
        cmocka_unit_test(test_sleep),   cmocka_unit_test(test_sleep_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
