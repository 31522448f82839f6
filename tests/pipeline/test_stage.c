/* SPDX-License-Identifier: Apache-2.0 */
/* Stages as seen by a user: models and their split, bitwise equality over any cut into
 * stages and over both forms of backward, weight versions, optimisers, sleeping, and
 * shortage of memory. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tryst/tryst.h>

#include <cmocka.h>

#include <tryst/weights.h>

#include "chain.h"

static const tryst_model small_gpt = {.struct_size = sizeof(tryst_model),
                                      .kind = TRYST_MODEL_GPT,
                                      .layers = 5,
                                      .hidden = 24,
                                      .heads = 3,
                                      .seq = 17,
                                      .microbatch_size = 3};

static tryst_model small_model(tryst_model_kind kind)
{
    tryst_model model = small_gpt;
    model.kind = kind;
    return model;
}

/* Return all weights of a chain, in layer order; the caller frees them. */
static float *chain_weights(struct chain *c, uint64_t *count_p)
{
    *count_p = tryst_model_weights_count(&c->model);
    float *weights = calloc(*count_p + 1, sizeof(*weights)), *next = weights;
    assert_non_null(weights);
    for (int s = 0; s < c->stages_count; s++) {
        assert_int_equal(tryst_stage_weights_copy(c->stages[s], next), TRYST_OK);
        next += c->stages[s]->info.weights_count;
    }
    assert_int_equal((uint64_t)(next - weights), *count_p);
    return weights;
}

static void chain_digest(struct chain *c, char digest[TRYST_DIGEST_TEXT_BYTES])
{
    uint64_t count;
    float *weights = chain_weights(c, &count);
    tryst_weights_digest(weights, count, digest);
    free(weights);
}

/* ---- models ------------------------------------------------------------------------ */

static void test_parse(void **state)
{
    tryst_model model = {.struct_size = sizeof(model), .layers = 3};
    assert_int_equal(tryst_model_parse("gpt", &model), TRYST_OK);
    assert_int_equal(model.kind, TRYST_MODEL_GPT);
    assert_int_equal(tryst_model_parse("mlp", &model), TRYST_OK);
    assert_int_equal(model.kind, TRYST_MODEL_MLP);
    assert_int_equal(tryst_model_parse("sleep:1.5,20", &model), TRYST_OK);
    assert_int_equal(model.kind, TRYST_MODEL_SLEEP);
    assert_int_equal(model.sleep_forward_ns, 1500000);
    assert_int_equal(model.sleep_backward_ns, 20000000);
    assert_int_equal(model.layers, 3);
    assert_int_equal(tryst_model_parse("sleep:1,2.5,0.5", &model), TRYST_OK);
    assert_int_equal(model.sleep_forward_ns, 1000000);
    assert_int_equal(model.sleep_backward_ns, 3000000);
    assert_int_equal(model.sleep_input_grad_ns, 2500000);
    assert_int_equal(model.sleep_weight_grad_ns, 500000);
    assert_int_equal(tryst_model_parse("sleep:1,2", &model), TRYST_OK);
    assert_int_equal(model.sleep_backward_ns, 2000000);
    assert_int_equal(model.sleep_input_grad_ns, 0);
    assert_int_equal(model.sleep_weight_grad_ns, 0);
    static const char *const bad[] = {
        "",          "GPT",         "sleep",         "sleep:",       "sleep:1",
        "sleep:1,",  "sleep:1,2,",  "sleep:1,2,3,4", "sleep:1,2,-3", "sleep:-1,2",
        "sleep:1 2", "sleep:nan,1", "sleep:1,inf",   "gpt2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tryst_model before = model;
        (void)tryst_last_error_set(TRYST_OK, "%s", "");
        assert_int_equal(tryst_model_parse(bad[i], &model), TRYST_E_CONFIG);
        assert_non_null(strstr(tryst_last_error(), "sleep:F_ms,B_ms"));
        assert_non_null(strstr(tryst_last_error(), "sleep:F_ms,I_ms,W_ms"));
        assert_memory_equal(&before, &model, sizeof(model));
    }
}

static void test_resolve(void **state)
{
    tryst_model model = {.struct_size = sizeof(model), .kind = TRYST_MODEL_GPT},
                resolved = {.struct_size = sizeof(resolved)};
    assert_int_equal(tryst_model_resolve(&model, &resolved), TRYST_OK);
    assert_true(resolved.layers > 0 && resolved.hidden > 0 && resolved.heads > 0);
    assert_true(resolved.seq > 0 && resolved.microbatch_size > 0);
    assert_int_equal(resolved.vocabulary, 256);
    const struct {
        tryst_model model;
        const char *word;
    } bad[] = {
        {{.struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_INVALID}, "kind"},
        {{.struct_size = sizeof(tryst_model), .kind = (tryst_model_kind)9}, "kind"},
        {{.struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_GPT, .layers = -1},
         "layers"},
        {{.struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_MLP, .hidden = -5},
         "hidden"},
        {{.struct_size = sizeof(tryst_model),
          .kind = TRYST_MODEL_GPT,
          .hidden = 64,
          .heads = 5},
         "heads"},
        {{.struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_GPT, .vocabulary = 255},
         "vocabulary"},
        {{.struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_GPT, .seq = 1 << 20},
         "2^31"},
        {{.struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_MLP, .hidden = 1 << 15},
         "2^31"},
        {{.struct_size = sizeof(tryst_model),
          .kind = TRYST_MODEL_MLP,
          .microbatch_size = INT32_MAX,
          .seq = INT32_MAX},
         "2^31"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)tryst_last_error_set(TRYST_OK, "%s", "");
        assert_int_equal(tryst_model_resolve(&bad[i].model, &resolved), TRYST_E_INVALID);
        assert_non_null(strstr(tryst_last_error(), bad[i].word));
    }
}

static void test_split(void **state)
{
    static const struct {
        int32_t layers, stages, bounds[6];
    } cases[] = {
        {4, 4, {0, 1, 2, 3, 4}}, {5, 4, {0, 2, 3, 4, 5}},    {7, 3, {0, 3, 5, 7}},
        {3, 1, {0, 3}},          {8, 5, {0, 2, 4, 6, 7, 8}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tryst_model model = {.struct_size = sizeof(model),
                             .kind = TRYST_MODEL_MLP,
                             .layers = cases[i].layers};
        for (int32_t s = 0; s < cases[i].stages; s++) {
            tryst_layers layers;
            assert_int_equal(tryst_model_split(&model, cases[i].stages, s, &layers),
                             TRYST_OK);
            assert_int_equal(layers.first, cases[i].bounds[s]);
            assert_int_equal(layers.last, cases[i].bounds[s + 1]);
        }
    }
    tryst_model model = {
        .struct_size = sizeof(model), .kind = TRYST_MODEL_MLP, .layers = 3};
    tryst_layers layers = {-7, -7};
    assert_int_equal(tryst_model_split(&model, 4, 0, &layers), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "fewer ranks or more layers"));
    assert_int_equal(tryst_model_split(&model, 2, 2, &layers), TRYST_E_INVALID);
    assert_int_equal(tryst_model_split(&model, 0, 0, &layers), TRYST_E_INVALID);
    assert_int_equal(layers.first, -7);
}

static void test_open_refuses(void **state)
{
    tryst_stage *stage = NULL;
    tryst_stage_params params = {.struct_size = sizeof(params)};
    static const tryst_layers bad[] = {{0, 0}, {-1, 2}, {2, 1}, {0, 6}, {5, 6}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)tryst_last_error_set(TRYST_OK, "%s", "");
        assert_int_equal(tryst_stage_open(&small_gpt, bad[i], &params, &stage),
                         TRYST_E_INVALID);
        assert_non_null(strstr(tryst_last_error(), "model of 5 layers"));
    }
    const tryst_layers all = {0, 5};
    params.versions_count = -1;
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_E_INVALID);
    params.versions_count = 0;
    tryst_optimizer optimizer = {.struct_size = sizeof(optimizer),
                                 .kind = (tryst_optimizer_kind)7};
    params.optimizer = &optimizer;
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_E_INVALID);
    optimizer = (tryst_optimizer){.struct_size = sizeof(tryst_optimizer), .beta2 = 1};
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_E_INVALID);
    optimizer = (tryst_optimizer){.struct_size = sizeof(tryst_optimizer), .lr = NAN};
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_E_INVALID);
    assert_null(stage);
    tryst_stage_close(NULL);
}

/* ---- bitwise equality -------------------------------------------------------------- */

enum { STEPS = 3 };

/* Train; return the losses, and the digest of the weights after a few steps. */
static void train(const tryst_model *model, int stages, enum chain_backward_kind kind,
                  int versions, const tryst_optimizer *optimizer, double *losses,
                  char digest[TRYST_DIGEST_TEXT_BYTES])
{
    struct chain c;
    chain_open(model, stages, 4, optimizer, versions, &c);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        losses[step] = chain_step(&c, (uint64_t)step, kind);
    }
    chain_digest(&c, digest);
    chain_close(&c);
}

static void check_equal_cuts(tryst_model_kind kind, tryst_optimizer_kind optimizer_kind)
{
    const tryst_model model = small_model(kind);
    const tryst_optimizer optimizer = {.struct_size = sizeof(optimizer),
                                       .kind = optimizer_kind};
    double expected_losses[STEPS], losses[STEPS];
    char expected[TRYST_DIGEST_TEXT_BYTES], digest[TRYST_DIGEST_TEXT_BYTES];
    train(&model, 1, CHAIN_WHOLE, 1, &optimizer, expected_losses, expected);
    assert_true(expected_losses[STEPS - 1] < expected_losses[0]);
    for (int stages = 1; stages <= 5; stages++) {
        for (int versions = 1; versions <= 3; versions++) {
            enum chain_backward_kind back =
                (stages + versions) % 2 ? CHAIN_SPLIT : CHAIN_WHOLE;
            train(&model, stages, back, versions, &optimizer, losses, digest);
            assert_memory_equal(losses, expected_losses, sizeof(losses));
            assert_string_equal(digest, expected);
        }
    }
}

static void test_equal_cuts(void **state)
{
    check_equal_cuts(TRYST_MODEL_GPT, TRYST_OPTIMIZER_ADAM);
    check_equal_cuts(TRYST_MODEL_GPT, TRYST_OPTIMIZER_SGD);
    check_equal_cuts(TRYST_MODEL_MLP, TRYST_OPTIMIZER_ADAM);
}

/* The digest is sensitive to the seed and to the order of micro-batches. */
static void test_digest_differs(void **state)
{
    tryst_model model = small_gpt;
    double losses[STEPS];
    char digest[TRYST_DIGEST_TEXT_BYTES], other[TRYST_DIGEST_TEXT_BYTES];
    train(&model, 1, CHAIN_WHOLE, 1, NULL, losses, digest);
    model.seed = 1;
    train(&model, 1, CHAIN_WHOLE, 1, NULL, losses, other);
    assert_string_not_equal(digest, other);

    struct chain c;
    chain_open(&small_gpt, 2, 4, NULL, 1, &c);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        for (int m = 3; m >= 0; m--) {
            chain_forward(&c, m, (uint64_t)step);
            chain_backward(&c, m, (uint64_t)step, CHAIN_WHOLE);
        }
        chain_update(&c);
    }
    chain_digest(&c, other);
    assert_string_not_equal(digest, other);
    chain_close(&c);
}

/* Where OpenBLAS is used, its number of threads is set once a stage is open. */
extern void openblas_set_num_threads(int) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

static void test_blas_threads(void **state)
{
    char text[64];
    if (!openblas_set_num_threads) {
        skip();
    }
    openblas_set_num_threads(2);
    double losses[STEPS];
    char digest[TRYST_DIGEST_TEXT_BYTES];
    train(&small_gpt, 1, CHAIN_WHOLE, 1, NULL, losses, digest);
    assert_int_equal(openblas_get_num_threads(), 1);
    assert_non_null(strstr(tryst_blas_describe(text, sizeof(text)), "1 thread"));
    print_message("%s; hint: %s\n", text,
                  tryst_blas_core_hint() ? tryst_blas_core_hint() : "-");
}

/* Ranks as threads: stages of one process compute concurrently and independently. */
enum { THREADS = 4 };

struct rank_thread {
    pthread_t thread;
    double losses[STEPS];
    char digest[TRYST_DIGEST_TEXT_BYTES];
};

static void *rank_main(void *arg)
{
    struct rank_thread *self = arg;
    train(&small_gpt, 2, CHAIN_WHOLE, 1, NULL, self->losses, self->digest);
    return NULL;
}

static void test_threads(void **state)
{
    struct rank_thread ranks[THREADS];
    double losses[STEPS];
    char digest[TRYST_DIGEST_TEXT_BYTES];
    train(&small_gpt, 2, CHAIN_WHOLE, 1, NULL, losses, digest);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]),
                             0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
            assert_string_equal(ranks[i].digest, digest);
            assert_memory_equal(ranks[i].losses, losses, sizeof(losses));
        }
    }
}

/* ---- versions ---------------------------------------------------------------------- */

/* A stage with three versions computes with each version like a stage that stopped
 * there. */
static void test_versions(void **state)
{
    enum { UPDATES = 5, HELD = 3 };
    double loss_of[UPDATES + 1];
    struct chain c;
    chain_open(&small_gpt, 2, 2, NULL, HELD, &c);
    chain_feed(&c, 1);
    for (uint64_t newest = 0; newest <= UPDATES; newest++) {
        loss_of[newest] = chain_forward(&c, 0, newest);
        for (int s = 0; s < 2; s++) {
            uint64_t oldest, last;
            c.stages[s]->ops->versions(c.stages[s], &oldest, &last);
            assert_int_equal(last, newest);
            assert_int_equal(oldest, newest < HELD ? 0 : newest - HELD + 1);
            tryst_stage_work work = c.works[s];
            work.version = newest + 1;
            assert_int_equal(c.stages[s]->ops->forward(c.stages[s], &work),
                             TRYST_E_INVALID);
            assert_int_equal(c.stages[s]->ops->backward(c.stages[s], &work),
                             TRYST_E_INVALID);
            if (oldest > 0) {
                work.version = oldest - 1;
                assert_int_equal(c.stages[s]->ops->forward(c.stages[s], &work),
                                 TRYST_E_INVALID);
            }
        }
        for (uint64_t v = newest < HELD ? 0 : newest - HELD + 1; v <= newest; v++) {
            assert_true(chain_forward(&c, 0, v) == loss_of[v]);
        }
        /* As in PipeDream, gradients of an older version make the next one. */
        uint64_t stale = newest > 0 ? newest - 1 : 0;
        chain_forward(&c, 0, stale);
        chain_backward(&c, 0, stale, CHAIN_WHOLE);
        chain_update(&c);
    }
    for (int v = 1; v <= UPDATES; v++) {
        assert_true(loss_of[v] != loss_of[v - 1]);
    }
    assert_int_equal(c.stages[0]->ops->update(c.stages[0], UPDATE(.microbatches = 0)),
                     TRYST_E_INVALID);
    chain_close(&c);
}

/* ---- optimisers against plain references ------------------------------------------- */

struct snapshot {
    double *values, *gradients;
    uint64_t count;
};

static int snapshot_one(void *arg, const tryst_parameter *p)
{
    struct snapshot *s = arg;
    for (uint64_t i = 0; i < p->count; i++) {
        s->values[s->count] = ((const float *)p->value)[i];
        s->gradients[s->count++] = ((const float *)p->gradient)[i];
    }
    return 0;
}

static void snapshot_take(struct chain *c, struct snapshot *s)
{
    s->count = 0;
    c->stages[0]->ops->parameter_visit(c->stages[0], snapshot_one, s);
}

static void check_optimizer(tryst_optimizer o)
{
    const tryst_model model = small_model(TRYST_MODEL_MLP);
    struct chain c;
    chain_open(&model, 1, 2, &o, 1, &c);
    uint64_t count = c.stages[0]->info.weights_count;
    double *m = calloc(count, sizeof(*m)), *v = calloc(count, sizeof(*v));
    struct snapshot before = {calloc(count, sizeof(double)),
                              calloc(count, sizeof(double)), 0};
    struct snapshot after = {calloc(count, sizeof(double)), calloc(count, sizeof(double)),
                             0};
    for (int t = 1; t <= 3; t++) {
        chain_feed(&c, (uint64_t)t);
        for (int i = 0; i < 2; i++) {
            chain_forward(&c, i, (uint64_t)t - 1);
            chain_backward(&c, i, (uint64_t)t - 1, CHAIN_WHOLE);
        }
        snapshot_take(&c, &before);
        assert_int_equal(before.count, count);
        chain_update(&c);
        snapshot_take(&c, &after);
        for (uint64_t i = 0; i < count; i++) {
            double g = before.gradients[i] / 2;
            double step;
            if (o.kind == TRYST_OPTIMIZER_SGD) {
                m[i] = o.momentum * m[i] + g;
                step = o.lr * m[i];
            } else {
                m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
                v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
                step = o.lr * (m[i] / (1 - pow(o.beta1, t))) /
                       (sqrt(v[i] / (1 - pow(o.beta2, t))) + o.epsilon);
            }
            assert_true(fabs(before.values[i] - step - after.values[i]) <
                        2e-7 + 1e-3 * fabs(step));
            assert_true(after.gradients[i] == 0);
        }
    }
    free(after.gradients);
    free(after.values);
    free(before.gradients);
    free(before.values);
    free(v);
    free(m);
    chain_close(&c);
}

static void test_optimizers(void **state)
{
    check_optimizer((tryst_optimizer){.struct_size = sizeof(tryst_optimizer),
                                      .kind = TRYST_OPTIMIZER_SGD,
                                      .lr = 0.05,
                                      .momentum = 0.7});
    check_optimizer((tryst_optimizer){.struct_size = sizeof(tryst_optimizer),
                                      .kind = TRYST_OPTIMIZER_ADAM,
                                      .lr = 0.01,
                                      .beta1 = 0.8,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-6});
}

/* ---- parameters, costs, sleeping --------------------------------------------------- */

struct names {
    char text[2][64];
    int32_t last_layer;
    uint64_t count;
};

static int names_one(void *arg, const tryst_parameter *p)
{
    struct names *n = arg;
    strcpy(n->text[n->count > 0], p->name);
    assert_true(p->layer >= n->last_layer);
    assert_true(!p->value || (uintptr_t)p->value % 64 == 0);
    assert_int_equal(p->count, p->shape[0] * (p->rank == 2 ? p->shape[1] : 1));
    n->last_layer = p->layer;
    n->count++;
    return 0;
}

static int stop_at_third(void *arg, const tryst_parameter *p)
{
    (void)p;
    return ++*(int *)arg == 3 ? 77 : 0;
}

static void test_parameters(void **state)
{
    tryst_stage *stage = NULL;
    const tryst_layers middle = {1, 3}, first = {0, 1}, last = {4, 5};
    struct names n = {.last_layer = -1};
    assert_int_equal(tryst_stage_open(&small_gpt, middle, NULL, &stage), TRYST_OK);
    assert_int_equal(stage->ops->parameter_visit(stage, names_one, &n), 0);
    assert_int_equal(n.count, 24);
    assert_string_equal(n.text[0], "blocks.1.norm1.weight");
    assert_string_equal(n.text[1], "blocks.2.mlp.down.bias");
    int seen = 0;
    assert_int_equal(stage->ops->parameter_visit(stage, stop_at_third, &seen), 77);
    tryst_stage_cost cost = {.struct_size = sizeof cost};
    stage->ops->cost(stage, &cost);
    assert_int_equal(cost.weights_bytes, stage->info.weights_count * 4);
    /* 12·H² weights a block, two flops for each weight and row, and two products of
     * attention. */
    assert_true(cost.forward_flops == 2 * (24.0 * 51 * 24 * 24 + 4.0 * 51 * 24 * 17));
    tryst_stage_close(stage);

    assert_int_equal(tryst_stage_open(&small_gpt, first, NULL, &stage), TRYST_OK);
    assert_int_equal(stage->info.input_dtype, TRYST_DTYPE_U8);
    assert_int_equal(stage->info.input_count, 51);
    assert_int_equal(stage->info.output_count, 51 * 24);
    assert_int_equal(stage->info.target_count, 0);
    tryst_stage_close(stage);
    assert_int_equal(tryst_stage_open(&small_gpt, last, NULL, &stage), TRYST_OK);
    assert_int_equal(stage->info.output_dtype, TRYST_DTYPE_F64);
    assert_int_equal(stage->info.output_count, 1);
    assert_int_equal(stage->info.target_count, 51);
    tryst_stage_close(stage);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void test_sleep(void **state)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = TRYST_MODEL_SLEEP,
                         .layers = 2,
                         .sleep_forward_ns = 4000000,
                         .sleep_backward_ns = 8000000,
                         .sleep_activation_bytes = 4098};
    struct chain c;
    chain_open(&model, 2, 1, NULL, 2, &c);
    assert_int_equal(c.stages[0]->info.output_count, 1025);
    assert_int_equal(c.stages[0]->info.input_count, 0);
    assert_int_equal(c.stages[1]->info.input_count, 1025);
    assert_int_equal(tryst_model_weights_count(&model), 0);
    uint64_t begin = now_ns();
    assert_true(chain_forward(&c, 0, 0) == 0);
    uint64_t middle = now_ns();
    chain_backward(&c, 0, 0, CHAIN_WHOLE);
    uint64_t end = now_ns();
    chain_backward(&c, 0, 0, CHAIN_SPLIT);
    uint64_t split = now_ns();
    assert_true(middle - begin >= 8000000);
    assert_true(end - middle >= 16000000);
    assert_true(split - end >= 16000000);
    chain_update(&c);
    assert_true(chain_forward(&c, 0, 0) == 0); /* two versions are kept */
    chain_update(&c);
    tryst_stage_work work = c.works[0];
    assert_int_equal(c.stages[0]->ops->forward(c.stages[0], &work), TRYST_E_INVALID);
    chain_close(&c);
}

/* Both parts of a split backward have times of their own, which add up to the whole. */
static void test_sleep_split(void **state)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = TRYST_MODEL_SLEEP,
                         .layers = 1,
                         .sleep_input_grad_ns = 1000000,
                         .sleep_weight_grad_ns = 9000000};
    tryst_model resolved = {.struct_size = sizeof(resolved)};
    struct chain c;
    (void)state;
    assert_int_equal(tryst_model_resolve(&model, &resolved), TRYST_OK);
    assert_int_equal(resolved.sleep_backward_ns, 10000000);
    assert_int_equal(tryst_model_resolve(&resolved, &resolved), TRYST_OK);
    resolved.sleep_backward_ns++;
    assert_int_equal(tryst_model_resolve(&resolved, &resolved), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "1000000 and 9000000 ns"));
    chain_open(&model, 1, 1, NULL, 1, &c);
    tryst_stage *stage = c.stages[0];
    assert_true(chain_forward(&c, 0, 0) == 0);
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t begin = now_ns();
        assert_int_equal(stage->ops->backward_input(stage, &c.works[0]), TRYST_OK);
        uint64_t middle = now_ns();
        assert_int_equal(stage->ops->backward_weight(stage, &c.works[0]), TRYST_OK);
        uint64_t end = now_ns();
        assert_true(middle - begin >= 1000000);
        assert_true(end - middle >= 9000000);
        least_ns = middle - begin < least_ns ? middle - begin : least_ns;
    }
    assert_true(least_ns < 4000000); /* a wake-up may be late, but not all of them */
    chain_close(&c);
}

/* ---- memory ------------------------------------------------------------------------ */

/* The linker redirects the stages' allocations here (--wrap). */
static int allocations_left = -1;

/* Visible, because the linker also wraps the calls of the shared libraries. */
#define WRAPPED __attribute__((visibility("default")))
void *__real_calloc(size_t count, size_t bytes);
WRAPPED void *__wrap_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
WRAPPED void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static int allocation_fails(void)
{
    if (allocations_left == 0) {
        return 1;
    }
    if (allocations_left > 0) { /* any number of threads may be here otherwise */
        allocations_left--;
    }
    return 0;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

static void check_memory(tryst_model_kind kind, int at_least)
{
    const tryst_model model = small_model(kind);
    tryst_stage_params params = {.struct_size = sizeof(params), .slots_count = 2};
    for (int allowed = 0;; allowed++) {
        tryst_stage *stage = NULL;
        const tryst_layers all = {0, 5};
        allocations_left = allowed;
        tryst_status status = tryst_stage_open(&model, all, &params, &stage);
        allocations_left = -1;
        if (status == TRYST_OK) {
            tryst_stage_close(stage);
            assert_true(allowed >= at_least);
            return;
        }
        assert_int_equal(status, TRYST_E_NOMEM);
        assert_non_null(strstr(tryst_last_error(), "out of memory"));
        assert_null(stage);
    }
}

static void test_memory(void **state)
{
    check_memory(TRYST_MODEL_GPT, 5);
    check_memory(TRYST_MODEL_SLEEP, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_split),        cmocka_unit_test(test_open_refuses),
        cmocka_unit_test(test_equal_cuts),   cmocka_unit_test(test_digest_differs),
        cmocka_unit_test(test_blas_threads), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_versions),     cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_parameters),   cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_sleep_split),  cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
