/* SPDX-License-Identifier: Apache-2.0 */
/* Slots, predictions, the mean change of the weights and factors of the learning rate, of
 * stages over the rows host and reference in all precisions. Predicted weights are
 * compared with a plain model in double; calls that read a slot with calls of a stage
 * that holds the same weights as a version. */
#include <math.h>
#include <string.h>
#include <tryst/tryst.h>

#include "chain.h"
#include "pipeline/device/device_stage.h"
#include "pipeline/device/reference/number.h"
#include "stage_update.h"
#include "support/unit.h"

enum { MICROBATCHES = 2, UPDATES = 3 };

#define DECAY 0.7

static const tryst_model small_gpt = {.struct_size = sizeof(tryst_model),
                                      .kind = TRYST_MODEL_GPT,
                                      .layers = 2,
                                      .hidden = 12,
                                      .heads = 3,
                                      .seq = 9,
                                      .microbatch_size = 2};
static const tryst_model sleeper = {
    .struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_SLEEP, .layers = 2};
static const tryst_layers all = {0, 2};

/* The largest relative distance of predicted weights from the plain model's, and of their
 * distance from the newest weights. bf16: before they are rounded. */
static const struct row {
    const char *name;
    bool reference;
    tryst_precision precision;
    double tolerance, move_tolerance;
} rows[] = {
    {"host", false, TRYST_PRECISION_DEFAULT, 1e-6, 1e-4},
    {"reference, f32", true, TRYST_PRECISION_F32, 1e-6, 1e-4},
    {"reference, f64", true, TRYST_PRECISION_F64, 1e-13, 1e-11},
    {"reference, bf16", true, TRYST_PRECISION_BF16, 1e-6, 0},
};

static const tryst_optimizer optimizers[] = {
    {.struct_size = sizeof(tryst_optimizer),
     .kind = TRYST_OPTIMIZER_SGD,
     .lr = 0.05,
     .momentum = 0.7},
    {.struct_size = sizeof(tryst_optimizer),
     .kind = TRYST_OPTIMIZER_SGD,
     .lr = 0.05,
     .momentum = -1},
    {.struct_size = sizeof(tryst_optimizer),
     .kind = TRYST_OPTIMIZER_ADAM,
     .lr = 0.01,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .epsilon = 1e-6},
};

static tryst_stage_params row_params(const struct row *row,
                                     const tryst_optimizer *optimizer)
{
    return (tryst_stage_params){.struct_size = sizeof(tryst_stage_params),
                                .optimizer = optimizer,
                                .reference = row->reference,
                                .precision = row->precision,
                                .slots_count = 2,
                                .delta_decay = DECAY};
}

/* ---- arenas of a stage ------------------------------------------------------------- */

static struct device_stage *stage_of(const struct chain *c, int s)
{
    return (struct device_stage *)c->stages[s];
}

/* Copy all parameters' elements of an arena to `to`. */
static void gather(const struct device_stage *stage, const void *arena, tryst_dtype dtype,
                   double *to)
{
    for (int32_t i = 0; i < stage->layout.layers_count; i++) {
        const struct device_layer *layer = &stage->layout.layers[i];
        for (int32_t t = 0; t < layer->tensors_count; t++) {
            uint64_t count = layer_tensor_count(&layer->tensors[t]);
            for (uint64_t k = 0; k < count; k++) {
                *to++ = number_get(arena, dtype, layer->offsets[t] + k);
            }
        }
    }
}

static void gather_newest(const struct device_stage *stage, double *to)
{
    gather(stage, device_stage_masters(stage, stage->newest), stage->session->wide, to);
}

static void gather_gradients(const struct device_stage *stage, double *to)
{
    gather(stage, device_stage_wide(stage, stage->layout.places.gradients, 0),
           stage->session->wide, to);
}

static void gather_slot(const struct device_stage *stage, int32_t slot, double *to)
{
    gather(stage, device_stage_slot(stage, slot), stage->session->dtype, to);
}

static uint64_t narrow_bytes(const struct device_stage *stage)
{
    return stage->layout.arena_count * device_dtype_bytes(stage->session->dtype);
}

static double *doubles(uint64_t count)
{
    double *values = calloc(count, sizeof(*values));
    assert_non_null(values);
    return values;
}

static double distance(const double *a, const double *b, uint64_t count)
{
    double error = 0, size = 0;
    for (uint64_t i = 0; i < count; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(error / size);
}

/* ---- the plain model --------------------------------------------------------------- */

struct plain {
    const tryst_optimizer *o;
    uint64_t count;
    int updates;
    double *w, *m, *v, *delta;
};

static struct plain plain_open(const struct device_stage *stage, const tryst_optimizer *o)
{
    uint64_t count = stage->base.info.weights_count;
    struct plain p = {
        o, count, 0, doubles(count), doubles(count), doubles(count), doubles(count)};
    gather_newest(stage, p.w);
    return p;
}

static void plain_close(struct plain *p)
{
    free(p->w);
    free(p->m);
    free(p->v);
    free(p->delta);
}

static double momentum_of(const tryst_optimizer *o)
{
    return o->momentum < 0 ? 0 : o->momentum;
}

/* Return the step of weight `i` with learning rate `lr`, from the moments as they are. */
static double plain_step(const struct plain *p, uint64_t i, double lr)
{
    const tryst_optimizer *o = p->o;
    if (o->kind == TRYST_OPTIMIZER_SGD) {
        return -lr * p->m[i];
    }
    double m = p->m[i] / (1 - pow(o->beta1, p->updates));
    double v = p->v[i] / (1 - pow(o->beta2, p->updates));
    return -lr * m / (sqrt(v) + o->epsilon);
}

static void plain_update(struct plain *p, const double *gradients, double rate)
{
    const tryst_optimizer *o = p->o;
    p->updates++;
    for (uint64_t i = 0; i < p->count; i++) {
        double g = gradients[i] / MICROBATCHES;
        if (o->kind == TRYST_OPTIMIZER_SGD) {
            p->m[i] = momentum_of(o) * p->m[i] + g;
        } else {
            p->m[i] = o->beta1 * p->m[i] + (1 - o->beta1) * g;
            p->v[i] = o->beta2 * p->v[i] + (1 - o->beta2) * g * g;
        }
        double step = plain_step(p, i, o->lr * rate);
        p->w[i] += step;
        p->delta[i] = DECAY * p->delta[i] + (1 - DECAY) * step;
    }
}

static double plain_move(const struct plain *p, uint64_t i, int32_t direction,
                         double ahead)
{
    return ahead * (direction == TRYST_DIRECTION_DELTA ? p->delta[i]
                                                       : plain_step(p, i, p->o->lr));
}

/* ---- predictions ------------------------------------------------------------------- */

/* Check that each element of a slot in bf16 is the nearest bf16 of the expected weight:
 * bf16 has 8 bits. */
static void expect_rounded(const double *slot, const double *expected, uint64_t count,
                           double tolerance)
{
    for (uint64_t i = 0; i < count; i++) {
        double half = expected[i] == 0 ? 0 : ldexp(1, ilogb(expected[i]) - 8);
        if (!(fabs(slot[i] - expected[i]) <=
              half + tolerance * (fabs(expected[i]) + 0.1))) {
            fail_msg("weight %llu: %.9g is not %.9g, rounded", (unsigned long long)i,
                     slot[i], expected[i]);
        }
    }
}

static void expect_moved(const struct row *row, const struct device_stage *stage,
                         const struct plain *p, int32_t slot, int32_t direction,
                         double ahead)
{
    double *got = doubles(p->count), *expected = doubles(p->count);
    double *move = doubles(p->count), *newest = doubles(p->count);
    gather_slot(stage, slot, got);
    gather_newest(stage, newest);
    for (uint64_t i = 0; i < p->count; i++) {
        move[i] = plain_move(p, i, direction, ahead);
        expected[i] = p->w[i] + move[i];
    }
    if (row->precision == TRYST_PRECISION_BF16) {
        expect_rounded(got, expected, p->count, row->tolerance);
    } else {
        assert_true(distance(got, expected, p->count) <= row->tolerance);
        for (uint64_t i = 0; i < p->count; i++) {
            got[i] -= newest[i];
        }
        double error = distance(got, move, p->count);
        if (!(error <= row->move_tolerance)) {
            fail_msg("%s, update %d, direction %d, ahead %g: the move differs by %.3g",
                     row->name, p->updates, (int)direction, ahead, error);
        }
    }
    free(got);
    free(expected);
    free(move);
    free(newest);
}

static void predict(tryst_stage *stage, int32_t slot, int32_t direction, double ahead)
{
    assert_int_equal(
        stage->ops->predict(
            stage, PREDICTION(.slot = slot, .direction = direction, .ahead = ahead)),
        TRYST_OK);
}

/* Make an element a negative zero, which an addition would lose. */
static void negative_zero_put(struct device_stage *stage)
{
    number_put(device_stage_masters(stage, stage->newest), stage->session->wide, 3, -0.0);
    number_put(device_stage_weights(stage, stage->newest), stage->session->dtype, 3,
               -0.0);
}

/* Predict `ahead` in both directions, and expect the newest weights themselves. */
static void expect_newest(struct device_stage *stage, double ahead)
{
    for (int32_t direction = 0; direction < 2; direction++) {
        predict(&stage->base, 1 + direction, direction, ahead);
        assert_memory_equal(device_stage_slot(stage, 1 + direction),
                            device_stage_weights(stage, stage->newest),
                            narrow_bytes(stage));
    }
}

static void expect_predictions(const struct row *row, struct chain *c,
                               const struct plain *p)
{
    static const double aheads[] = {2.5, -1.25};
    for (size_t i = 0; i < COUNT_OF(aheads); i++) {
        predict(c->stages[0], 1, TRYST_DIRECTION_STEP, aheads[i]);
        predict(c->stages[0], 2, TRYST_DIRECTION_DELTA, aheads[i]);
        expect_moved(row, stage_of(c, 0), p, 1, TRYST_DIRECTION_STEP, aheads[i]);
        expect_moved(row, stage_of(c, 0), p, 2, TRYST_DIRECTION_DELTA, aheads[i]);
    }
}

static void run_backward(struct chain *c, int step)
{
    uint64_t version = stage_of(c, 0)->newest;
    chain_feed(c, (uint64_t)step);
    for (int m = 0; m < c->microbatches_count; m++) {
        chain_forward(c, m, version);
        chain_backward(c, m, version, CHAIN_WHOLE);
    }
}

static void check_predictions(const struct row *row, const tryst_optimizer *o,
                              int versions_count)
{
    static const double rates[UPDATES] = {0, 0.5, 0.25};
    tryst_stage_params params = row_params(row, o);
    struct chain c;
    params.versions_count = versions_count;
    chain_open_params(&small_gpt, 1, MICROBATCHES, &params, &c);
    struct device_stage *stage = stage_of(&c, 0);
    assert_int_equal(stage->base.info.slots_count, 2);
    assert_true(stage->base.info.keeps_delta);
    negative_zero_put(stage);
    expect_newest(stage, 2.5);
    struct plain p = plain_open(stage, o);
    double *gradients = doubles(p.count);
    for (int t = 0; t < UPDATES; t++) {
        run_backward(&c, t);
        gather_gradients(stage, gradients);
        c.rate = rates[t];
        chain_update(&c);
        plain_update(&p, gradients, rates[t] == 0 ? 1 : rates[t]);
        expect_predictions(row, &c, &p);
    }
    negative_zero_put(stage);
    expect_newest(stage, 0);
    free(gradients);
    plain_close(&p);
    chain_close(&c);
}

static void test_predictions(void **state)
{
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        for (size_t o = 0; o < COUNT_OF(optimizers); o++) {
            check_predictions(&rows[r], &optimizers[o], 1);
            check_predictions(&rows[r], &optimizers[o], 2);
        }
    }
}

/* ---- reading slots ----------------------------------------------------------------- */

/* Let all works of a chain read `slot`. */
static void read_slot(struct chain *c, int32_t slot)
{
    for (int i = 0; i < c->microbatches_count * c->stages_count; i++) {
        c->works[i].slot = slot;
    }
}

/* Run micro-batch 0 both ways, and return its loss. A work with a slot has a version that
 * no stage holds. */
static double run_both_ways(struct chain *c, enum chain_backward_kind kind)
{
    uint64_t version = c->works[0].slot > 0 ? 77 : stage_of(c, 0)->newest;
    double loss = chain_forward(c, 0, version);
    chain_backward(c, 0, version, kind);
    return loss;
}

/* Open a chain; its stages' version 0 is a copy of `slot` of the stages of `from`. */
static void open_with_slot(const struct chain *from, const tryst_stage_params *params,
                           int32_t slot, struct chain *c)
{
    tryst_stage_params plain = *params;
    plain.slots_count = 0;
    chain_open_params(&small_gpt, from->stages_count, 1, &plain, c);
    for (int s = 0; s < c->stages_count; s++) {
        memcpy(device_stage_weights(stage_of(c, s), 0),
               device_stage_slot(stage_of(from, s), slot), narrow_bytes(stage_of(c, s)));
    }
    chain_feed(c, 9);
}

static void expect_equal_gradients(const struct chain *a, const struct chain *b)
{
    for (int s = 0; s < a->stages_count; s++) {
        const struct device_stage *x = stage_of(a, s), *y = stage_of(b, s);
        assert_memory_equal(device_stage_wide(x, x->layout.places.gradients, 0),
                            device_stage_wide(y, y->layout.places.gradients, 0),
                            x->layout.arena_count * device_dtype_bytes(x->session->wide));
    }
}

static void check_reads(const struct row *row, bool recompute)
{
    tryst_stage_params params = row_params(row, &optimizers[2]);
    struct chain c, expected;
    params.recompute = recompute;
    chain_open_params(&small_gpt, 2, 1, &params, &c);
    for (int t = 0; t < 2; t++) {
        run_backward(&c, t);
        chain_update(&c);
    }
    for (int s = 0; s < 2; s++) {
        predict(c.stages[s], 1, TRYST_DIRECTION_STEP, 4);
        predict(c.stages[s], 2, TRYST_DIRECTION_DELTA, -6);
    }
    chain_feed(&c, 9);
    double newest = chain_forward(&c, 0, 2);
    for (int32_t slot = 1; slot <= 2; slot++) {
        open_with_slot(&c, &params, slot, &expected);
        read_slot(&c, slot);
        for (int kind = CHAIN_WHOLE; kind <= CHAIN_SPLIT; kind++) {
            double loss = run_both_ways(&c, (enum chain_backward_kind)kind);
            assert_true(loss == run_both_ways(&expected, (enum chain_backward_kind)kind));
            assert_true(loss != newest);
            expect_equal_gradients(&c, &expected);
        }
        double before = chain_forward(&c, 0, 77);
        chain_update(&c); /* leaves slots as they are, and clears the gradients */
        assert_true(chain_forward(&c, 0, 77) == before);
        chain_close(&expected);
    }
    chain_close(&c);
}

static void test_reads(void **state)
{
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        check_reads(&rows[r], false);
        if (rows[r].reference) {
            check_reads(&rows[r], true);
        }
    }
}

/* ---- the factor of the learning rate ----------------------------------------------- */

/* Train, and return the newest weights; the caller frees them. */
static double *train(const struct row *row, const tryst_optimizer *o, double rate,
                     uint64_t *count_p)
{
    const tryst_stage_params params = row_params(row, o);
    struct chain c;
    chain_open_params(&small_gpt, 1, MICROBATCHES, &params, &c);
    c.rate = rate;
    for (int t = 0; t < UPDATES; t++) {
        run_backward(&c, t);
        chain_update(&c);
    }
    *count_p = c.stages[0]->info.weights_count;
    double *weights = doubles(*count_p);
    gather_newest(stage_of(&c, 0), weights);
    chain_close(&c);
    return weights;
}

static void expect_equal_training(const struct row *row, const tryst_optimizer *a,
                                  double a_rate, const tryst_optimizer *b, double b_rate)
{
    uint64_t count, same;
    double *x = train(row, a, a_rate, &count), *y = train(row, b, b_rate, &same);
    assert_int_equal(count, same);
    assert_memory_equal(x, y, count * sizeof(*x));
    free(x);
    free(y);
}

static void test_rate(void **state)
{
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        for (size_t i = 0; i < COUNT_OF(optimizers); i++) {
            tryst_optimizer slow = optimizers[i];
            slow.lr *= 0.3;
            expect_equal_training(&rows[r], &slow, 0, &optimizers[i], 0.3);
            expect_equal_training(&rows[r], &optimizers[i], 0, &optimizers[i], 1);
        }
    }
}

/* ---- refusals ---------------------------------------------------------------------- */

#define REFUSES(call, word)                                             \
    do {                                                                \
        (void)tryst_last_error_set(TRYST_OK, "%s", "");                 \
        assert_int_equal((call), TRYST_E_INVALID);                      \
        if (!strstr(tryst_last_error(), (word))) {                      \
            fail_msg("\"%s\" has no \"%s\"", tryst_last_error(), word); \
        }                                                               \
    } while (0)

/* Check updates and predictions that any stage with two slots refuses. */
static void check_refuses(tryst_stage *stage, bool keeps_delta)
{
    const tryst_stage_ops *ops = stage->ops;
    const tryst_stage_update unset = {.microbatches = 1};
    const tryst_stage_prediction unset_prediction = {.slot = 1};
    uint64_t oldest, newest;
    REFUSES(ops->update(stage, NULL), "NULL");
    REFUSES(ops->update(stage, &unset), "tryst_stage_update: struct_size");
    REFUSES(ops->update(stage, UPDATE(.rate = 1)), "0 micro-batches");
    REFUSES(ops->update(stage, UPDATE(.microbatches = 1, .rate = -0.5)), "-0.5");
    REFUSES(ops->update(stage, UPDATE(.microbatches = 1, .rate = NAN)), "nan");
    REFUSES(ops->update_begin(stage, UPDATE(.microbatches = 1, .rate = INFINITY)), "inf");
    REFUSES(ops->predict(stage, NULL), "NULL");
    REFUSES(ops->predict(stage, &unset_prediction),
            "tryst_stage_prediction: struct_size");
    REFUSES(ops->predict(stage, PREDICTION(.slot = 0)), "slot 0: the stage has 2 slots");
    REFUSES(ops->predict(stage, PREDICTION(.slot = 3)), "slot 3");
    REFUSES(ops->predict(stage, PREDICTION(.slot = -1)), "slot -1");
    REFUSES(ops->predict(stage, PREDICTION(.slot = 1, .ahead = INFINITY)), "inf");
    REFUSES(ops->predict(stage, PREDICTION(.slot = 1, .ahead = NAN)), "nan");
    REFUSES(ops->predict(stage, PREDICTION(.slot = 1, .direction = 2)), "direction 2");
    REFUSES(ops->predict(stage, PREDICTION(.slot = 1, .direction = -1)), "direction -1");
    if (!keeps_delta) {
        REFUSES(ops->predict(stage, PREDICTION(.slot = 1, .direction = 1)),
                "delta_decay");
    }
    ops->versions(stage, &oldest, &newest);
    assert_int_equal(newest, 0);
}

/* Check that all calls of a stage refuse `slot`, which it does not hold. */
static void check_refuses_slot(struct chain *c, int32_t slot, const char *word)
{
    tryst_stage *stage = c->stages[0];
    read_slot(c, slot);
    REFUSES(stage->ops->forward(stage, c->works), word);
    REFUSES(stage->ops->backward(stage, c->works), word);
    REFUSES(stage->ops->backward_input(stage, c->works), word);
    REFUSES(stage->ops->backward_weight(stage, c->works), word);
}

static void check_refuses_all(const tryst_model *model, const struct row *row,
                              double decay)
{
    tryst_stage_params params = row_params(row, NULL);
    struct chain c;
    params.delta_decay = decay;
    chain_open_params(model, 1, 1, &params, &c);
    assert_int_equal(c.stages[0]->info.slots_count, 2);
    assert_int_equal(c.stages[0]->info.keeps_delta, decay > 0);
    check_refuses(c.stages[0], decay > 0);
    chain_feed(&c, 0);
    check_refuses_slot(&c, 3, "cannot compute with weight slot 3: the stage holds 2");
    check_refuses_slot(&c, -1, "cannot compute with weight slot -1");
    check_refuses_slot(&c, 1, "slot 1: no prediction has filled it");
    predict(c.stages[0], 1, TRYST_DIRECTION_STEP, 1);
    check_refuses_slot(&c, 2, "slot 2: no prediction has filled it");
    read_slot(&c, 1);
    chain_forward(&c, 0, 77);
    chain_backward(&c, 0, 77, CHAIN_WHOLE);
    chain_close(&c);
}

static void test_refuses(void **state)
{
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        check_refuses_all(&small_gpt, &rows[r], 0);
        check_refuses_all(&small_gpt, &rows[r], 0.5);
    }
    check_refuses_all(&sleeper, &rows[0], 0);
    check_refuses_all(&sleeper, &rows[0], 0.5);
}

static tryst_status open_with(const tryst_model *model, int32_t slots_count, double decay)
{
    const tryst_stage_params params = {
        .struct_size = sizeof(params), .slots_count = slots_count, .delta_decay = decay};
    tryst_stage *stage = NULL;
    tryst_status status = tryst_stage_open(model, all, &params, &stage);
    assert_true((status == TRYST_OK) == (stage != NULL));
    tryst_stage_close(stage);
    return status;
}

static void test_open_refuses(void **state)
{
    const tryst_model *const models[] = {&small_gpt, &sleeper};
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        REFUSES(open_with(models[i], -1, 0), "slots_count is -1");
        REFUSES(open_with(models[i], 0, -0.1), "delta_decay is -0.1");
        REFUSES(open_with(models[i], 0, 1), "delta_decay is 1;");
        REFUSES(open_with(models[i], 0, NAN), "delta_decay is nan");
        assert_int_equal(open_with(models[i], 0, 0.999), TRYST_OK);
    }
}

/* A stage refuses to predict during an update by parts: some weights are old. */
static void test_refuses_open_update(void **state)
{
    const tryst_stage_params params = row_params(&rows[0], NULL);
    const tryst_model models[] = {small_gpt,
                                  {.struct_size = sizeof(tryst_model),
                                   .kind = TRYST_MODEL_SLEEP,
                                   .layers = 2,
                                   .sleep_gradient_bytes = 8}};
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        tryst_stage *stage = NULL;
        assert_int_equal(tryst_stage_open(&models[i], all, &params, &stage), TRYST_OK);
        const tryst_stage_ops *ops = stage->ops;
        assert_int_equal(ops->update_begin(stage, UPDATE(.microbatches = 1)), TRYST_OK);
        assert_int_equal(ops->update_part(stage, 0), TRYST_OK);
        REFUSES(ops->predict(stage, PREDICTION(.slot = 1)),
                "cannot predict weights: part 1 lacks the previous update");
        for (int32_t part = 1; part < ops->parts_count(stage); part++) {
            assert_int_equal(ops->update_part(stage, part), TRYST_OK);
        }
        predict(stage, 1, TRYST_DIRECTION_STEP, 1);
        tryst_stage_close(stage);
    }
}

/* ---- memory ------------------------------------------------------------------------ */

static tryst_stage_memory need_of(tryst_stage_params params, int32_t versions_count,
                                  int32_t slots_count, double decay)
{
    tryst_stage_memory need = {.struct_size = sizeof(need)};
    params.versions_count = versions_count;
    params.slots_count = slots_count;
    params.delta_decay = decay;
    assert_int_equal(tryst_stage_memory_need(&small_gpt, all, &params, &need), TRYST_OK);
    assert_int_equal(need.total_bytes, need.weights_bytes + need.gradients_bytes +
                                           need.moments_bytes + need.scratch_bytes);
    return need;
}

/* A slot takes the memory of a version more, the mean change that of a moment. */
static void test_memory_need(void **state)
{
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        tryst_stage_params params = row_params(&rows[r], &optimizers[0]);
        tryst_stage *stage = NULL;
        if (!params.reference) {
            continue;
        }
        const tryst_stage_memory none = need_of(params, 1, 0, 0);
        assert_int_equal(need_of(params, 1, 3, 0).weights_bytes,
                         need_of(params, 4, 0, 0).weights_bytes);
        assert_true(need_of(params, 1, 1, 0).weights_bytes > none.weights_bytes);
        assert_int_equal(need_of(params, 1, 3, 0).moments_bytes, none.moments_bytes);
        assert_int_equal(need_of(params, 1, 0, 0.5).moments_bytes,
                         2 * none.moments_bytes);
        assert_int_equal(need_of(params, 1, 0, 0.5).weights_bytes, none.weights_bytes);
        params.slots_count = 3;
        params.memory_bytes_max = need_of(params, 1, 3, DECAY).total_bytes;
        assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_OK);
        tryst_stage_close(stage);
        params.memory_bytes_max--;
        assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage),
                         TRYST_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predictions),  cmocka_unit_test(test_reads),
        cmocka_unit_test(test_rate),         cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_open_refuses), cmocka_unit_test(test_refuses_open_update),
        cmocka_unit_test(test_memory_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
