/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-written gradients, built with real = double, against central finite
 * differences of the loss; and the library's fp32 build against the double build.
 *
 * The sources of the arithmetic are compiled into this program again (CMakeLists.txt), so
 * every tryst_stage_open here makes a stage of doubles; the fp32 stage comes from the
 * shared library by dlopen. TRYST_TEST_SEED replays a run. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chain.h"

/* Central differences of fourth order: their errors are step⁴/30 · f⁽⁵⁾ and
 * rounding/step, both near 1e-11 here. (Second order has errors of 1e-7 where a layer
 * norm's variance is small.) */
#define STEP               2e-4
#define TOLERANCE_RELATIVE 1e-7
#define TOLERANCE_ABSOLUTE 1e-9

static uint64_t test_seed(void)
{
    const char *text = getenv("TRYST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 7;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

struct check {
    struct chain *chain;
    uint64_t stride; /* every stride-th element is checked */
    uint64_t at;
    uint64_t checked;
    double worst;
};

static double total_loss(struct chain *c)
{
    double loss = 0;
    for (int m = 0; m < c->microbatches_count; m++) {
        loss += chain_forward(c, m, 0);
    }
    return loss;
}

static double loss_at(struct chain *c, double *value, double at)
{
    double kept = *value;
    *value = at;
    double loss = total_loss(c);
    *value = kept;
    return loss;
}

static double finite_difference(struct chain *c, double *value)
{
    double x = *value;
    double near = loss_at(c, value, x + STEP) - loss_at(c, value, x - STEP);
    double far = loss_at(c, value, x + 2 * STEP) - loss_at(c, value, x - 2 * STEP);
    return (8 * near - far) / (12 * STEP);
}

static int check_parameter(void *arg, const tryst_parameter *parameter)
{
    struct check *k = arg;
    double *value = parameter->value;
    const double *gradient = parameter->gradient;
    assert_int_equal(parameter->dtype, TRYST_DTYPE_F64);
    for (uint64_t i = 0; i < parameter->count; i++) {
        if (k->at++ % k->stride != 0) {
            continue;
        }
        double expected = finite_difference(k->chain, &value[i]);
        double error = fabs(gradient[i] - expected);
        if (error > TOLERANCE_ABSOLUTE + TOLERANCE_RELATIVE * fabs(expected)) {
            fail_msg("%s[%llu]: gradient %.12g, finite difference %.12g", parameter->name,
                     (unsigned long long)i, gradient[i], expected);
        }
        k->worst = error > k->worst ? error : k->worst;
        k->checked++;
    }
    return 0;
}

/* Move weights far from their special initial values (gains of one, biases of zero). */
static int shake_parameter(void *arg, const tryst_parameter *parameter)
{
    uint64_t *state = arg;
    double *value = parameter->value;
    for (uint64_t i = 0; i < parameter->count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        value[i] += 0.4 * ((double)(*state >> 11) / 9007199254740992.0 - 0.5);
    }
    return 0;
}

static void check_model(const tryst_model *model, int stages_count, uint64_t stride)
{
    uint64_t seed = test_seed();
    struct chain c;
    chain_open(model, stages_count, 2, NULL, 1, &c);
    chain_feed(&c, seed);
    for (int s = 0; s < stages_count; s++) {
        c.stages[s]->ops->parameter_visit(c.stages[s], shake_parameter, &seed);
    }
    for (int m = 0; m < c.microbatches_count; m++) {
        chain_forward(&c, m, 0);
        chain_backward(&c, m, 0, CHAIN_WHOLE);
    }
    struct check k = {.chain = &c, .stride = stride};
    for (int s = 0; s < stages_count; s++) {
        c.stages[s]->ops->parameter_visit(c.stages[s], check_parameter, &k);
    }
    print_message("%s: %llu elements, largest error %.3g\n",
                  tryst_model_kind_name(model->kind), (unsigned long long)k.checked,
                  k.worst);
    assert_true(k.checked > 300);
    chain_close(&c);
}

static void test_mlp(void **state)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = TRYST_MODEL_MLP,
                         .layers = 3,
                         .hidden = 20,
                         .seq = 5,
                         .microbatch_size = 2};
    check_model(&model, 2, 11);
}

/* Check every element of a small model. */
static void test_gpt_all(void **state)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = TRYST_MODEL_GPT,
                         .layers = 2,
                         .hidden = 6,
                         .heads = 2,
                         .seq = 5,
                         .microbatch_size = 2};
    check_model(&model, 1, 1);
}

/* Sizes on both sides of a vector's width, cut into stages. */
static void test_gpt_odd(void **state)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = TRYST_MODEL_GPT,
                         .layers = 3,
                         .hidden = 39,
                         .heads = 3,
                         .seq = 19,
                         .microbatch_size = 1};
    check_model(&model, 3, 131);
}

/* ---- fp32 against fp64 ------------------------------------------------------------- */

typedef tryst_status (*stage_open_fn)(const tryst_model *, tryst_layers,
                                      const tryst_stage_params *, tryst_stage **);

enum { GRADIENTS_MAX = 1 << 16 };

struct gradients {
    double values[GRADIENTS_MAX];
    uint64_t count;
};

static int collect_gradient(void *arg, const tryst_parameter *parameter)
{
    struct gradients *g = arg;
    for (uint64_t i = 0; i < parameter->count; i++) {
        assert_true(g->count < GRADIENTS_MAX);
        g->values[g->count++] = parameter->dtype == TRYST_DTYPE_F64
                                    ? ((const double *)parameter->gradient)[i]
                                    : (double)((const float *)parameter->gradient)[i];
    }
    return 0;
}

/* Run the whole model as one stage made by `open`; return its loss, and its gradients. */
static double run_once(stage_open_fn open, const struct chain *c, struct gradients *g)
{
    tryst_stage *stage = NULL;
    tryst_layers all = {0, c->model.layers};
    double loss = 0;
    assert_int_equal(open(&c->model, all, NULL, &stage), TRYST_OK);
    tryst_stage_work work = c->works[0];
    work.saved = chain_alloc(stage->info.saved_bytes);
    work.output = &loss;
    assert_int_equal(stage->ops->forward(stage, &work), TRYST_OK);
    assert_int_equal(stage->ops->backward(stage, &work), TRYST_OK);
    g->count = 0;
    stage->ops->parameter_visit(stage, collect_gradient, g);
    free(work.saved);
    tryst_stage_close(stage);
    return loss;
}

static void test_fp32_agrees(void **state)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = TRYST_MODEL_GPT,
                         .layers = 2,
                         .hidden = 32,
                         .heads = 2,
                         .seq = 33,
                         .microbatch_size = 2};
    static struct gradients exact, rounded;
    void *library = dlopen(PIPELINE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fail_msg("%s", dlerror());
    }
    stage_open_fn open_fp32 = NULL;
    void *symbol = dlsym(library, "tryst_stage_open");
    assert_non_null(symbol);
    memcpy(&open_fp32, &symbol, sizeof(symbol));
    assert_true(open_fp32 != tryst_stage_open);
    struct chain c;
    chain_open(&model, 1, 1, NULL, 1, &c);
    uint64_t seed = test_seed();
    chain_feed(&c, seed);
    double loss = run_once(tryst_stage_open, &c, &exact);
    double loss_fp32 = run_once(open_fp32, &c, &rounded);
    print_message("loss %.9f in fp64, %.9f in fp32\n", loss, loss_fp32);
    assert_true(fabs(loss - loss_fp32) < 1e-5 * loss);
    if (seed ==
        7) { /* the fp32 loss of an independent second implementation of the model */
        assert_true(fabs(loss - 5.500169747) < 1e-6);
    }
    assert_int_equal(exact.count, rounded.count);
    for (uint64_t i = 0; i < exact.count; i++) {
        double error = fabs(exact.values[i] - rounded.values[i]);
        if (error > 1e-6 + 1e-4 * fabs(exact.values[i])) {
            fail_msg("gradient %llu: %.9g in fp64, %.9g in fp32", (unsigned long long)i,
                     exact.values[i], rounded.values[i]);
        }
    }
    chain_close(&c);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_gpt_all),
        cmocka_unit_test(test_gpt_odd),
        cmocka_unit_test(test_fp32_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
