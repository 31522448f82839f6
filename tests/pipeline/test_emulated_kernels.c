/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of the CUDA kernels without a GPU: over the emulation
 * (tests/support/emulated_cuda.h) against the reference, each in three orders of its
 * threads with equal bits; and a stage over the emulated kernels against one over the
 * reference. Only a device can show the rest. */
#include <math.h>

#include "emulated_row.h"
#include "kernel_cases.h"
#include "stage_trial.h"
#include "support/unit.h"

static struct device_session *session_open(tryst_precision precision)
{
    struct device_session *session = NULL;
    assert_int_equal(device_kernels_reference.open(0, precision, &session, NULL, 0),
                     TRYST_OK);
    session->kernels = emulated_row();
    return session;
}

static void check_all(tryst_precision precision)
{
    struct device_session *session = session_open(precision);
    uint64_t before = emulated_threads_count();
    for (int i = 0; i < kernel_cases_count; i++) {
        for (int32_t j = 0; j < kernel_cases[i].shapes_count; j++) {
            kernel_case_check(session, &kernel_cases[i], kernel_cases[i].shapes[j]);
        }
    }
    print_message("%llu threads\n",
                  (unsigned long long)(emulated_threads_count() - before));
    assert_true(emulated_threads_count() - before > 10000);
    session->kernels->close(session);
}

static void test_f32(void **state)
{
    check_all(TRYST_PRECISION_F32);
}

static void test_bf16(void **state)
{
    check_all(TRYST_PRECISION_BF16);
}

static void order_backward(void)
{
    emulated_order_set(1);
}

static void order_odd_first(void)
{
    emulated_order_set(2);
}

/* No result depends on which thread of a block runs first. */
static void test_orders(void **state)
{
    struct device_session *session = session_open(TRYST_PRECISION_BF16);
    for (int i = 0; i < kernel_cases_count; i++) {
        const struct kernel_case *with = &kernel_cases[i];
        const int32_t *shape = with->shapes[with->shapes_count / 2];
        kernel_case_check_repeats(session, with, shape, order_backward);
        emulated_order_set(0);
        kernel_case_check_repeats(session, with, shape, order_odd_first);
        emulated_order_set(0);
    }
    session->kernels->close(session);
}

/* ---- a stage ----------------------------------------------------------------------- */

static void check_stage(tryst_precision precision, bool predicts, double tolerance)
{
    struct stage_trial trial = {.precision = precision,
                                .predicts = predicts,
                                .model = {.struct_size = sizeof(tryst_model),
                                          .kind = TRYST_MODEL_GPT,
                                          .layers = 1,
                                          .hidden = 8,
                                          .heads = 2,
                                          .seq = 5,
                                          .microbatch_size = 1}};
    trial.kernels = &device_kernels_reference;
    struct stage_trial_result expected = stage_trial_run(&trial);
    trial.kernels = emulated_row();
    struct stage_trial_result got = stage_trial_run(&trial);
    double distance = stage_trial_distance(&got, &expected);
    print_message("loss %.7f and %.7f, gradients differ by %.2g\n", got.losses[1][2],
                  expected.losses[1][2], distance);
    assert_true(distance < tolerance);
    assert_true(fabs(got.losses[1][2] / expected.losses[1][2] - 1) < tolerance);
    stage_trial_free(&got);
    stage_trial_free(&expected);
}

static void test_stage(void **state)
{
    check_stage(TRYST_PRECISION_F32, false, 1e-5);
    check_stage(TRYST_PRECISION_F32, true, 1e-5);
    check_stage(TRYST_PRECISION_BF16, false, 4e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
