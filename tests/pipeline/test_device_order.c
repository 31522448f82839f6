/* SPDX-License-Identifier: Apache-2.0 */
/* A device stage's two lanes over a table that only enqueues (deferred_row.h): in any
 * order or mixture of the lanes, the bits are those of synchronous calls. TRYST_TEST_SEED
 * replays a run. */
#include "deferred_row.h"
#include "stage_trial.h"
#include "support/unit.h"

static const tryst_model models[] = {
    {.struct_size = sizeof(tryst_model),
     .kind = TRYST_MODEL_GPT,
     .layers = 2,
     .hidden = 6,
     .heads = 2,
     .seq = 5,
     .microbatch_size = 1},
    {.struct_size = sizeof(tryst_model),
     .kind = TRYST_MODEL_MLP,
     .layers = 3,
     .hidden = 8,
     .seq = 6,
     .microbatch_size = 1},
};

static void check_order(const struct device_kernels *(*row)(int, uint64_t), int order,
                        uint64_t seed, struct stage_trial trial,
                        const struct stage_trial_result *expected)
{
    trial.kernels = row(order, seed);
    struct stage_trial_result got = stage_trial_run(&trial);
    stage_trial_assert_equal(&got, expected);
    stage_trial_free(&got);
}

/* Check whole, split and mixed backward, each with and without recomputation. */
static void check_variants(const tryst_model *model, tryst_precision precision,
                           bool predicts, uint64_t seed)
{
    enum { RANDOM_RUNS = 4 };
    struct stage_trial trial = {.kernels = &device_kernels_reference,
                                .precision = precision,
                                .model = *model,
                                .predicts = predicts};
    struct stage_trial_result expected = stage_trial_run(&trial);
    for (int variant = 0; variant < 6; variant++) {
        trial.backward = (enum stage_trial_backward)(variant / 2);
        trial.recompute = variant % 2;
        check_order(deferred_row, DEFERRED_COMPUTE_FIRST, 0, trial, &expected);
        check_order(deferred_row, DEFERRED_WEIGHT_FIRST, 0, trial, &expected);
        for (uint64_t run = 0; run < RANDOM_RUNS; run++) {
            check_order(deferred_row, DEFERRED_RANDOM, seed + run, trial, &expected);
        }
    }
    stage_trial_free(&expected);
}

static void test_f32(void **state)
{
    uint64_t seed = unit_seed();
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        check_variants(&models[i], TRYST_PRECISION_F32, false, seed);
    }
}

static void test_bf16(void **state)
{
    check_variants(&models[0], TRYST_PRECISION_BF16, false, unit_seed());
}

/* A prediction overwrites its slot when all earlier calls have read it. */
static void test_predictions(void **state)
{
    uint64_t seed = unit_seed();
    check_variants(&models[0], TRYST_PRECISION_BF16, true, seed);
    check_variants(&models[1], TRYST_PRECISION_F32, true, seed);
}

/* Without waits the test must fail: otherwise it proves nothing. */
static void wait_for_nothing(const struct device_lane *lane, void *event)
{
    (void)lane;
    (void)event;
}

static void test_finds_missing_waits(void **state)
{
    struct stage_trial trial = {.kernels = &device_kernels_reference,
                                .precision = TRYST_PRECISION_F32,
                                .model = models[0],
                                .backward = STAGE_TRIAL_SPLIT};
    struct stage_trial_result expected = stage_trial_run(&trial);
    struct device_kernels careless = *deferred_row(DEFERRED_WEIGHT_FIRST, 0);
    careless.event_wait = wait_for_nothing;
    trial.kernels = &careless;
    struct stage_trial_result got = stage_trial_run(&trial);
    assert_true(!(stage_trial_distance(&got, &expected) < 1e-3));
    stage_trial_free(&got);
    stage_trial_free(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_finds_missing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
