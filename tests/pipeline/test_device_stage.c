/* SPDX-License-Identifier: Apache-2.0 */
/* The device stages over their reference kernels: everything of a device stage but a
 * device's arithmetic. Checked against the host stages in fp32 and bf16; gradients
 * against finite differences in fp64; bitwise equality over cuts, split and whole
 * backward, saved and recomputed activations; versions, required memory, refusals.
 * TRYST_TEST_SEED replays a run. */
#include <math.h>
#include <string.h>
#include <tryst/tryst.h>

#include <tryst/weights.h>

#include "chain.h"
#include "pipeline/device/device_stage.h"
#include "pipeline/device/reference/number.h"
#include "support/unit.h"

#define SMALL_GPT                                                                 \
    {                                                                             \
        .struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_GPT, .layers = 3, \
        .hidden = 12, .heads = 3, .seq = 9, .microbatch_size = 2                  \
    }
#define SMALL_MLP                                                                 \
    {                                                                             \
        .struct_size = sizeof(tryst_model), .kind = TRYST_MODEL_MLP, .layers = 3, \
        .hidden = 12, .seq = 7, .microbatch_size = 2                              \
    }

static const tryst_model small_gpt = SMALL_GPT;
static const tryst_model small_mlp = SMALL_MLP;

static tryst_stage_params reference_params(tryst_precision precision)
{
    return (tryst_stage_params){.struct_size = sizeof(tryst_stage_params),
                                .reference = 1,
                                .precision = precision};
}

/* ---- parameters of a chain, as doubles --------------------------------------------- */

struct collected {
    double *values, *gradients;
    uint64_t count;
};

static int collect_one(void *arg, const tryst_parameter *p)
{
    struct collected *c = arg;
    c->values = realloc(c->values, (c->count + p->count) * sizeof(double));
    c->gradients = realloc(c->gradients, (c->count + p->count) * sizeof(double));
    assert_true(c->values && c->gradients);
    for (uint64_t i = 0; i < p->count; i++, c->count++) {
        c->values[c->count] = number_get(p->value, p->dtype, i);
        c->gradients[c->count] = number_get(p->gradient, p->dtype, i);
    }
    return 0;
}

static struct collected collect(struct chain *c)
{
    struct collected all = {0};
    for (int s = 0; s < c->stages_count; s++) {
        assert_int_equal(
            c->stages[s]->ops->parameter_visit(c->stages[s], collect_one, &all), 0);
    }
    return all;
}

static void collected_free(struct collected *all)
{
    free(all->values);
    free(all->gradients);
}

/* Return |a − b| / |b|, in the 2-norm. */
static double distance(const double *a, const double *b, uint64_t count)
{
    double error = 0, size = 0;
    for (uint64_t i = 0; i < count; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(error / size);
}

/* ---- against the host stages ------------------------------------------------------- */

static void run_all(struct chain *c, int microbatches)
{
    chain_feed(c, 5);
    for (int m = 0; m < microbatches; m++) {
        chain_forward(c, m, 0);
        chain_backward(c, m, 0, CHAIN_WHOLE);
    }
}

static void check_host(const tryst_model *model, tryst_precision precision,
                       double loss_tolerance, double gradient_tolerance)
{
    const tryst_stage_params params = reference_params(precision);
    struct chain host, device;
    chain_open(model, 1, 2, NULL, 1, &host);
    chain_open_params(model, 1, 2, &params, &device);
    run_all(&host, 2);
    run_all(&device, 2);
    struct collected expected = collect(&host), got = collect(&device);
    assert_int_equal(expected.count, got.count);
    assert_memory_equal(expected.values, got.values, got.count * sizeof(double));
    double loss = fabs(device.losses[1] / host.losses[1] - 1);
    double gradient = distance(got.gradients, expected.gradients, got.count);
    print_message("%s %d: loss differs by %.2g, gradients by %.2g\n",
                  tryst_model_kind_name(model->kind), (int)precision, loss, gradient);
    assert_true(loss <= loss_tolerance);
    assert_true(gradient <= gradient_tolerance);
    collected_free(&expected);
    collected_free(&got);
    chain_close(&host);
    chain_close(&device);
}

static const struct {
    const char *what;
    tryst_model model;
} shapes[] = {
    {"small gpt", SMALL_GPT},
    {"small mlp", SMALL_MLP},
    {"one head, one layer",
     {.struct_size = sizeof(tryst_model),
      .kind = TRYST_MODEL_GPT,
      .layers = 1,
      .hidden = 10,
      .heads = 1,
      .seq = 33,
      .microbatch_size = 1}},
    {"one row",
     {.struct_size = sizeof(tryst_model),
      .kind = TRYST_MODEL_GPT,
      .layers = 2,
      .hidden = 6,
      .heads = 2,
      .seq = 1,
      .microbatch_size = 1}},
    {"heads of one column",
     {.struct_size = sizeof(tryst_model),
      .kind = TRYST_MODEL_GPT,
      .layers = 1,
      .hidden = 3,
      .heads = 3,
      .seq = 5,
      .microbatch_size = 2}},
    {"more rows than a chunk",
     {.struct_size = sizeof(tryst_model),
      .kind = TRYST_MODEL_MLP,
      .layers = 1,
      .hidden = 4,
      .seq = 513,
      .microbatch_size = 2}},
};

static void test_host_fp32(void **state)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        print_message("%s: ", shapes[i].what);
        check_host(&shapes[i].model, TRYST_PRECISION_F32, 1e-6, 1e-5);
    }
}

/* bf16 has 8 bits: each rounding has an error of 2^-9, and a deep chain the error of a
 * few roundings. */
static void test_host_bf16(void **state)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        print_message("%s: ", shapes[i].what);
        check_host(&shapes[i].model, TRYST_PRECISION_BF16, 5e-3, 4e-2);
    }
}

/* ---- against finite differences ---------------------------------------------------- */

/* Central differences of fourth order, as in test_gradient.c. */
#define STEP               2e-4
#define TOLERANCE_RELATIVE 1e-7
#define TOLERANCE_ABSOLUTE 1e-9

struct check {
    struct chain *chain;
    uint64_t stride, at, checked;
    double worst;
};

static double loss_at(struct chain *c, double *value, double at)
{
    double kept = *value;
    *value = at;
    double loss = chain_forward(c, 0, 0);
    *value = kept;
    return loss;
}

static int check_parameter(void *arg, const tryst_parameter *p)
{
    struct check *k = arg;
    double *value = p->value;
    assert_int_equal(p->dtype, TRYST_DTYPE_F64);
    for (uint64_t i = 0; i < p->count; i++) {
        if (k->at++ % k->stride != 0) {
            continue;
        }
        double x = value[i], h = STEP;
        double near =
            loss_at(k->chain, &value[i], x + h) - loss_at(k->chain, &value[i], x - h);
        double far = loss_at(k->chain, &value[i], x + 2 * h) -
                     loss_at(k->chain, &value[i], x - 2 * h);
        double expected = (8 * near - far) / (12 * h);
        double got = ((const double *)p->gradient)[i];
        double error = fabs(got - expected);
        if (!(error <= TOLERANCE_ABSOLUTE + TOLERANCE_RELATIVE * fabs(expected))) {
            fail_msg("%s[%llu]: gradient %.12g, finite difference %.12g", p->name,
                     (unsigned long long)i, got, expected);
        }
        k->worst = error > k->worst ? error : k->worst;
        k->checked++;
    }
    return 0;
}

/* Move weights far from their special initial values (gains of one, biases of zero). */
static int shake_parameter(void *arg, const tryst_parameter *p)
{
    uint64_t *state = arg;
    double *value = p->value;
    for (uint64_t i = 0; i < p->count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        value[i] += 0.4 * ((double)(*state >> 11) / 9007199254740992.0 - 0.5);
    }
    return 0;
}

static void check_gradient(const tryst_model *model, int stages, uint64_t stride)
{
    const tryst_stage_params params = reference_params(TRYST_PRECISION_F64);
    uint64_t seed = unit_seed();
    struct chain c;
    chain_open_params(model, stages, 1, &params, &c);
    chain_feed(&c, seed);
    for (int s = 0; s < stages; s++) {
        c.stages[s]->ops->parameter_visit(c.stages[s], shake_parameter, &seed);
    }
    chain_forward(&c, 0, 0);
    chain_backward(&c, 0, 0, CHAIN_WHOLE);
    struct check k = {.chain = &c, .stride = stride};
    for (int s = 0; s < stages; s++) {
        c.stages[s]->ops->parameter_visit(c.stages[s], check_parameter, &k);
    }
    print_message("%s: %llu elements, largest error %.3g\n",
                  tryst_model_kind_name(model->kind), (unsigned long long)k.checked,
                  k.worst);
    assert_true(k.checked > 80);
    chain_close(&c);
}

static void test_gradient(void **state)
{
    check_gradient(&(tryst_model){.struct_size = sizeof(tryst_model),
                                  .kind = TRYST_MODEL_GPT,
                                  .layers = 1,
                                  .hidden = 6,
                                  .heads = 2,
                                  .seq = 5,
                                  .microbatch_size = 2},
                   1, 17);
    check_gradient(&(tryst_model){.struct_size = sizeof(tryst_model),
                                  .kind = TRYST_MODEL_GPT,
                                  .layers = 2,
                                  .hidden = 15,
                                  .heads = 3,
                                  .seq = 7,
                                  .microbatch_size = 1},
                   2, 131);
    check_gradient(&(tryst_model){.struct_size = sizeof(tryst_model),
                                  .kind = TRYST_MODEL_MLP,
                                  .layers = 2,
                                  .hidden = 10,
                                  .seq = 5,
                                  .microbatch_size = 2},
                   2, 41);
}

/* ---- bitwise equality -------------------------------------------------------------- */

enum { STEPS = 3 };

struct outcome {
    double losses[STEPS];
    char digest[TRYST_DIGEST_TEXT_BYTES];
};

static void chain_digest(struct chain *c, char digest[TRYST_DIGEST_TEXT_BYTES])
{
    uint64_t count = tryst_model_weights_count(&c->model);
    float *weights = calloc(count, sizeof(*weights)), *next = weights;
    assert_non_null(weights);
    for (int s = 0; s < c->stages_count; s++) {
        assert_int_equal(tryst_stage_weights_copy(c->stages[s], next), TRYST_OK);
        next += c->stages[s]->info.weights_count;
    }
    tryst_weights_digest(weights, count, digest);
    free(weights);
}

static struct outcome train(const tryst_model *model, const tryst_stage_params *params,
                            int stages, enum chain_backward_kind kind)
{
    struct outcome o;
    struct chain c;
    chain_open_params(model, stages, 3, params, &c);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        o.losses[step] = chain_step(&c, (uint64_t)step, kind);
    }
    chain_digest(&c, o.digest);
    chain_close(&c);
    return o;
}

static void assert_equal(const struct outcome *a, const struct outcome *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
    assert_string_equal(a->digest, b->digest);
}

/* Run once more, cut, split, recomputed, with more versions: the bits are always the
 * same. */
static void check_equal(const tryst_model *model, tryst_precision precision,
                        tryst_optimizer_kind optimizer_kind)
{
    const tryst_optimizer optimizer = {.struct_size = sizeof(optimizer),
                                       .kind = optimizer_kind};
    tryst_stage_params params = reference_params(precision);
    params.optimizer = &optimizer;
    const struct outcome expected = train(model, &params, 1, CHAIN_WHOLE);
    assert_true(expected.losses[STEPS - 1] < expected.losses[0]);
    for (int variant = 0; variant < 8; variant++) {
        params.recompute = variant & 1;
        params.versions_count = variant & 2 ? 2 : 1;
        const struct outcome got = train(model, &params, 1 + variant % 3,
                                         variant & 4 ? CHAIN_SPLIT : CHAIN_WHOLE);
        assert_equal(&got, &expected);
    }
}

static void test_equal(void **state)
{
    check_equal(&small_gpt, TRYST_PRECISION_F32, TRYST_OPTIMIZER_ADAM);
    check_equal(&small_gpt, TRYST_PRECISION_BF16, TRYST_OPTIMIZER_ADAM);
    check_equal(&small_mlp, TRYST_PRECISION_BF16, TRYST_OPTIMIZER_SGD);
}

/* Training follows the host's; fp32 far more closely than bf16. */
static void test_train(void **state)
{
    struct chain host;
    double expected[STEPS];
    chain_open(&small_gpt, 1, 3, NULL, 1, &host);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&host, (uint64_t)step);
        expected[step] = chain_step(&host, (uint64_t)step, CHAIN_WHOLE);
    }
    chain_close(&host);
    tryst_stage_params params = reference_params(TRYST_PRECISION_F32);
    const struct outcome exact = train(&small_gpt, &params, 1, CHAIN_WHOLE);
    params.precision = TRYST_PRECISION_BF16;
    const struct outcome rounded = train(&small_gpt, &params, 1, CHAIN_WHOLE);
    for (int step = 0; step < STEPS; step++) {
        assert_true(fabs(exact.losses[step] / expected[step] - 1) < 1e-5);
        assert_true(fabs(rounded.losses[step] / expected[step] - 1) < 1e-2);
    }
}

/* A stage with three versions computes with each version like a stage that stopped
 * there. */
static void check_versions(tryst_precision precision)
{
    enum { UPDATES = 4, HELD = 3 };
    tryst_stage_params params = reference_params(precision);
    double loss_of[UPDATES + 1];
    struct chain c;
    params.versions_count = HELD;
    chain_open_params(&small_mlp, 2, 1, &params, &c);
    chain_feed(&c, 1);
    for (uint64_t newest = 0; newest <= UPDATES; newest++) {
        uint64_t oldest = newest < HELD ? 0 : newest - HELD + 1;
        uint64_t first, last;
        loss_of[newest] = chain_forward(&c, 0, newest);
        c.stages[1]->ops->versions(c.stages[1], &first, &last);
        assert_int_equal(first, oldest);
        assert_int_equal(last, newest);
        tryst_stage_work work = c.works[1];
        work.version = newest + 1;
        assert_int_equal(c.stages[1]->ops->forward(c.stages[1], &work), TRYST_E_INVALID);
        assert_int_equal(c.stages[1]->ops->backward(c.stages[1], &work), TRYST_E_INVALID);
        for (uint64_t v = oldest; v <= newest; v++) {
            assert_true(chain_forward(&c, 0, v) == loss_of[v]);
        }
        chain_forward(&c, 0, oldest);
        chain_backward(&c, 0, oldest, CHAIN_SPLIT);
        chain_update(&c);
    }
    assert_true(loss_of[UPDATES] != loss_of[0]);
    assert_int_equal(c.stages[0]->ops->update(c.stages[0], UPDATE(.microbatches = 0)),
                     TRYST_E_INVALID);
    chain_close(&c);
}

static void test_versions(void **state)
{
    check_versions(TRYST_PRECISION_F32);
    check_versions(TRYST_PRECISION_BF16);
}

/* ---- memory and refusals ----------------------------------------------------------- */

static void test_memory_need(void **state)
{
    tryst_stage_params params = reference_params(TRYST_PRECISION_BF16);
    const tryst_layers all = {0, 3};
    tryst_stage_memory need = {.struct_size = sizeof need},
                       lean = {.struct_size = sizeof lean};
    tryst_stage *stage = NULL;
    assert_int_equal(tryst_stage_memory_need(&small_gpt, all, &params, &need), TRYST_OK);
    assert_int_equal(need.total_bytes, need.weights_bytes + need.gradients_bytes +
                                           need.moments_bytes + need.scratch_bytes);
    assert_true(need.moments_bytes == 2 * need.gradients_bytes);
    params.recompute = 1;
    assert_int_equal(tryst_stage_memory_need(&small_gpt, all, &params, &lean), TRYST_OK);
    assert_true(lean.saved_bytes * 4 < need.saved_bytes);
    assert_int_equal(lean.kept_bytes, need.kept_bytes);

    params.recompute = 0;
    params.memory_bytes_max = need.total_bytes;
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_OK);
    assert_int_equal(stage->info.saved_bytes, need.saved_bytes);
    tryst_stage_close(stage);
    params.memory_bytes_max = need.total_bytes - 1;
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_E_NOMEM);
    print_message("%s\n", tryst_last_error());
    assert_non_null(strstr(tryst_last_error(), "its first 2 of 3 layers would fit"));
    params.memory_bytes_max = 1000;
    assert_int_equal(tryst_stage_open(&small_gpt, all, &params, &stage), TRYST_E_NOMEM);
    assert_non_null(strstr(tryst_last_error(), "not one of its layers would fit"));

    params = (tryst_stage_params){.struct_size = sizeof(params)};
    assert_int_equal(tryst_stage_memory_need(&small_gpt, all, &params, &need),
                     TRYST_E_UNSUPPORTED);
}

static void test_refuses(void **state)
{
    const tryst_layers all = {0, 3};
    const tryst_model sleeper = {
        .struct_size = sizeof(sleeper), .kind = TRYST_MODEL_SLEEP, .layers = 3};
    tryst_model wide = small_gpt;
    wide.hidden = 4096;
    wide.heads = 1;
    const struct {
        const tryst_model *model;
        tryst_stage_params params;
        tryst_status status;
        const char *word;
    } cases[] = {
        {&sleeper,
         {.struct_size = sizeof(tryst_stage_params), .reference = 1},
         TRYST_E_INVALID,
         "runs on the host"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params),
          .reference = 1,
          .memory = TRYST_MEMORY_CUDA},
         TRYST_E_INVALID,
         "host memory"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params), .reference = 1, .device = 3},
         TRYST_E_UNSUPPORTED,
         "device 3"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params),
          .reference = 1,
          .precision = (tryst_precision)9},
         TRYST_E_INVALID,
         "precision 9"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params),
          .memory = TRYST_MEMORY_CUDA,
          .precision = TRYST_PRECISION_F64},
         TRYST_E_INVALID,
         "precision 4"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params), .memory = (tryst_memory_kind)77},
         TRYST_E_INVALID,
         "kind 77"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params), .recompute = 1},
         TRYST_E_UNSUPPORTED,
         "host stages"},
        {&small_gpt,
         {.struct_size = sizeof(tryst_stage_params), .precision = TRYST_PRECISION_BF16},
         TRYST_E_UNSUPPORTED,
         "host stages"},
        {&wide,
         {.struct_size = sizeof(tryst_stage_params), .reference = 1},
         TRYST_E_UNSUPPORTED,
         "more heads"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        tryst_stage *stage = NULL;
        tryst_stage_params params = cases[i].params;
        assert_int_equal(tryst_stage_open(cases[i].model, all, &params, &stage),
                         cases[i].status);
        if (!strstr(tryst_last_error(), cases[i].word)) {
            fail_msg("\"%s\" does not contain \"%s\"", tryst_last_error(), cases[i].word);
        }
        assert_null(stage);
    }
}

/* ---- a device that never finishes -------------------------------------------------- */

/* The reference, whose weight lane never finishes once `stuck` is set. The variables keep
 * the memory and session that a stage abandons on such a device. */
static struct device_kernels stuck_row;
static bool stuck;
static struct device_session *stuck_session;
static void *stuck_memory;

static tryst_status stuck_open(int32_t device, tryst_precision precision,
                               struct device_session **session_p, char *error,
                               size_t capacity)
{
    tryst_status status =
        device_kernels_reference.open(device, precision, &stuck_session, error, capacity);
    stuck_session->kernels = &stuck_row;
    *session_p = stuck_session;
    return status;
}

static tryst_status stuck_alloc(struct device_session *session, uint64_t bytes,
                                void **data_p)
{
    tryst_status status = device_kernels_reference.alloc(session, bytes, &stuck_memory);
    *data_p = stuck_memory;
    return status;
}

static tryst_status stuck_idle(const struct device_lane *lane)
{
    return stuck && lane->index == DEVICE_WEIGHT ? TRYST_IN_PROGRESS : TRYST_OK;
}

static void stuck_reclaim(void)
{
    free(stuck_memory);
    device_kernels_reference.close(stuck_session);
}

static tryst_status stuck_stage_open(tryst_stage **stage_p)
{
    const tryst_stage_params params = {.struct_size = sizeof(params),
                                       .versions_count = 1,
                                       .precision = TRYST_PRECISION_F32,
                                       .timeout_ns = 20 * 1000 * 1000};
    tryst_model model = {.struct_size = sizeof(model)};
    assert_int_equal(tryst_model_resolve(&small_mlp, &model), TRYST_OK);
    stuck_row = device_kernels_reference;
    stuck_row.name = "stuck";
    stuck_row.open = stuck_open;
    stuck_row.alloc = stuck_alloc;
    stuck_row.idle = stuck_idle;
    return device_stage_open(&model, (tryst_layers){0, 3}, &params, &stuck_row, stage_p);
}

/* Every wait of a stage ends with a text that names its purpose; afterwards the stage
 * touches no memory that the device may use. */
static void test_deadline(void **state)
{
    tryst_stage *stage = NULL;
    stuck = true;
    assert_int_equal(stuck_stage_open(&stage), TRYST_E_DEADLINE);
    assert_null(stage);
    print_message("%s\n", tryst_last_error());
    assert_non_null(strstr(tryst_last_error(),
                           "initial weights: its weight lane has not ended for 0.02 s"));
    assert_non_null(strstr(tryst_last_error(), "stuck 0: "));
    stuck_reclaim();

    stuck = false;
    assert_int_equal(stuck_stage_open(&stage), TRYST_OK);
    struct collected all = {0};
    stuck = true;
    assert_int_equal(stage->ops->parameter_visit(stage, collect_one, &all),
                     TRYST_E_DEADLINE);
    assert_int_equal(all.count, 0);
    assert_non_null(strstr(stage->ops->error(stage), "a visit of parameters"));
    assert_int_equal(stage->ops->update(stage, UPDATE(.microbatches = 1)),
                     TRYST_E_DEADLINE);
    tryst_stage_close(stage);
    stuck_reclaim();
    stuck = false;
}

/* The linker redirects the stages' allocations here (--wrap). */
static int allocations_left = -1;

#define WRAPPED __attribute__((visibility("default")))
void *__real_calloc(size_t count, size_t bytes);
WRAPPED void *__wrap_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
WRAPPED void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static bool allocation_fails(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

static void test_memory_short(void **state)
{
    const tryst_layers all = {0, 3};
    tryst_stage_params params = reference_params(TRYST_PRECISION_F32);
    params.slots_count = 2;
    for (int allowed = 0;; allowed++) {
        tryst_stage *stage = NULL;
        (void)tryst_last_error_set(TRYST_OK, "%s", "");
        allocations_left = allowed;
        tryst_status status = tryst_stage_open(&small_gpt, all, &params, &stage);
        allocations_left = -1;
        if (status == TRYST_OK) {
            tryst_stage_close(stage);
            assert_true(allowed >= 5); /* one for the slots */
            return;
        }
        assert_int_equal(status, TRYST_E_NOMEM);
        assert_non_null(strstr(tryst_last_error(), "out of memory"));
        assert_null(stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_fp32),    cmocka_unit_test(test_host_bf16),
        cmocka_unit_test(test_gradient),     cmocka_unit_test(test_equal),
        cmocka_unit_test(test_train),        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_memory_need),  cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_memory_short), cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
