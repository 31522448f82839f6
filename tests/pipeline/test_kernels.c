/* SPDX-License-Identifier: Apache-2.0 */
/* The host's kernels against plain formulae in double, at sizes on both sides of a
 * vector's width and at the limits of their ranges; and against the reference kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_cases.h"
#include "pipeline/base/memory.h"
#include "pipeline/host/host.h"
#include "pipeline/host/real_exp.h"

/* The kernels use only the attention workspace of a lane. */
static const struct device_lane lane;
static const struct device_kernels *const k = &device_kernels_host;

static const int widths[] = {1, 2, 15, 16, 17, 31, 64, 100, 257};
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]), WIDTH_MAX = 257, ROWS = 3 };

static float random_float(uint64_t *state, float bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return bound * ((float)(*state >> 40) / 8388608.0f - 1.0f);
}

static void fill(float *x, int count, float bound, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        x[i] = random_float(&seed, bound);
    }
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) {
        fail_msg("%.9g is not %.9g (tolerance %.3g)", value, expected, tolerance);
    }
}

static void test_exp(void **state)
{
    double worst = 0;
    for (double x = -60; x <= 60; x += 0.00037) {
        double expected = exp((double)(float)x);
        double ulp = expected * 0x1p-23;
        double error = fabs(real_exp((float)x) - expected) / ulp;
        worst = error > worst ? error : worst;
    }
    print_message("real_exp: %.2f ulp at most\n", worst);
    assert_true(worst < 2);
    assert_true(real_exp(0.0f) == 1.0f);
    assert_true(real_exp(-1e30f) > 0 && real_exp(-1e30f) < 1e-25f);
    assert_true(isfinite(real_exp(1e30f)) && real_exp(1e30f) > 1e25f);
    assert_true(real_exp(-INFINITY) < 1e-25f && isfinite(real_exp(INFINITY)));
    assert_true(isnan(real_exp(NAN)));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

static void test_gelu(void **state)
{
    enum { COUNT = 2001 };
    static float x[COUNT], y[COUNT], dy[COUNT], dx[COUNT], before[COUNT];
    float one = 1;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - COUNT / 2) * 0.02f;
        dy[i] = 0.5f;
    }
    const struct device_product product = {.m = 1,
                                           .n = COUNT,
                                           .k = 1,
                                           .epilogue = DEVICE_EPILOGUE_GELU,
                                           .a = &one,
                                           .b = x,
                                           .aux = before,
                                           .d = y};
    k->product(&lane, &product);
    k->gelu_backward(&lane, COUNT, x, dy, dx);
    for (int i = 0; i < COUNT; i++) {
        double v = x[i], h = 1e-5;
        assert_near(y[i], gelu(v), 1e-6 * (1 + fabs(v)));
        assert_near(dx[i], 0.5 * (gelu(v + h) - gelu(v - h)) / (2 * h), 2e-6);
    }
}

static void test_norm(void **state)
{
    static float x[ROWS * WIDTH_MAX], y[ROWS * WIDTH_MAX], gain[WIDTH_MAX],
        bias[WIDTH_MAX];
    float mean[ROWS], rstd[ROWS];
    for (int w = 0; w < WIDTHS; w++) {
        int width = widths[w];
        fill(x, ROWS * width, 3, 11);
        fill(gain, width, 1, 12);
        fill(bias, width, 1, 13);
        k->norm_forward(&lane, ROWS, width, x, gain, bias, y, mean, rstd);
        for (int i = 0; i < ROWS; i++) {
            double m = 0, v = 0;
            for (int j = 0; j < width; j++) {
                m += x[i * width + j];
            }
            m /= width;
            for (int j = 0; j < width; j++) {
                v += (x[i * width + j] - m) * (x[i * width + j] - m);
            }
            double r = 1 / sqrt(v / width + 1e-5);
            for (int j = 0; j < width; j++) {
                double expected = (x[i * width + j] - m) * r * gain[j] + bias[j];
                assert_near(y[i * width + j], expected, 1e-5);
            }
        }
    }
}

/* Sums over lanes against plain sums: the input gradient is orthogonal to 1 and, nearly,
 * x. */
static void test_norm_backward(void **state)
{
    static float x[ROWS * WIDTH_MAX], y[ROWS * WIDTH_MAX], gain[WIDTH_MAX],
        zero[WIDTH_MAX];
    static float dy[ROWS * WIDTH_MAX], dx[ROWS * WIDTH_MAX], also[ROWS * WIDTH_MAX];
    float mean[ROWS], rstd[ROWS];
    for (int w = 2; w < WIDTHS; w++) {
        int width = widths[w];
        fill(x, ROWS * width, 3, 21);
        fill(gain, width, 1, 22);
        fill(dy, ROWS * width, 1, 23);
        k->norm_forward(&lane, ROWS, width, x, gain, zero, y, mean, rstd);
        k->norm_backward_input(&lane, ROWS, width, x, gain, mean, rstd, dy, NULL, dx);
        k->norm_backward_input(&lane, ROWS, width, x, gain, mean, rstd, dy, dy, also);
        for (int i = 0; i < ROWS; i++) {
            double sum = 0, along = 0;
            for (int j = 0; j < width; j++) {
                double n = ((double)x[i * width + j] - mean[i]) * rstd[i];
                sum += dx[i * width + j];
                along += dx[i * width + j] * n;
                assert_near(also[i * width + j], dx[i * width + j] + dy[i * width + j],
                            1e-6);
            }
            assert_near(sum, 0, 1e-4);
            assert_near(along, 0, 1e-3);
        }
    }
}

/* Extreme logits: no overflow, and a loss that grows without bound. */
static void test_cross_entropy(void **state)
{
    enum { CLASSES = 256 };
    static float logits[2 * CLASSES], gradient[2 * CLASSES];
    const uint8_t target[2] = {3, 200};
    fill(logits, CLASSES, 2, 41);
    double sum = 0;
    for (int j = 0; j < CLASSES; j++) {
        sum += exp(logits[j]);
    }
    double first = log(sum) - logits[3];
    logits[CLASSES + 7] = 5000;
    logits[CLASSES + 200] = -5000;
    float losses[2], lse[2];
    double loss;
    k->cross_entropy_forward(&lane, 2, CLASSES, logits, target, losses, lse);
    k->loss_mean(&lane, 2, losses, &loss);
    assert_near(loss, (first + 10000) / 2, 1e-3);
    k->cross_entropy_backward(&lane, 2, CLASSES, 0.5, logits, target, lse, gradient);
    assert_near(gradient[CLASSES + 7], 0.5, 1e-6);
    assert_near(gradient[CLASSES + 200], -0.5, 1e-6);
    double total = 0;
    for (int j = 0; j < CLASSES; j++) {
        total += gradient[j];
    }
    assert_near(total, 0, 1e-6);
}

static void test_linear(void **state)
{
    enum { IN = 5, OUT = 7 };
    float *x = memory_alloc_aligned(ROWS * IN * 4),
          *w = memory_alloc_aligned(OUT * IN * 4);
    float *y = memory_alloc_aligned(ROWS * OUT * 4),
          *dw = memory_alloc_aligned(OUT * IN * 4);
    float bias[OUT], db[OUT];
    fill(x, ROWS * IN, 1, 51);
    fill(w, OUT * IN, 1, 52);
    fill(bias, OUT, 1, 53);
    fill(dw, OUT * IN, 1, 54);
    fill(db, OUT, 1, 55);
    float dw_before = dw[2 * IN + 3], db_before = db[2];
    const struct device_product forward = {.m = ROWS,
                                           .n = OUT,
                                           .k = IN,
                                           .b_transposed = true,
                                           .a = x,
                                           .b = w,
                                           .bias = bias,
                                           .d = y};
    k->product(&lane, &forward);
    double expected = bias[2];
    for (int i = 0; i < IN; i++) {
        expected += (double)x[IN + i] * w[2 * IN + i];
    }
    assert_near(y[OUT + 2], expected, 1e-6);
    const struct device_product backward = {.m = OUT,
                                            .n = IN,
                                            .k = ROWS,
                                            .a_transposed = true,
                                            .a = y,
                                            .b = x,
                                            .add = dw,
                                            .d = dw};
    k->product(&lane, &backward);
    k->column_sum(&lane, ROWS, OUT, y, db);
    double dw_expected = dw_before, db_expected = db_before;
    for (int i = 0; i < ROWS; i++) {
        dw_expected += (double)y[i * OUT + 2] * x[i * IN + 3];
        db_expected += y[i * OUT + 2];
    }
    assert_near(dw[2 * IN + 3], dw_expected, 1e-5);
    assert_near(db[2], db_expected, 1e-5);
    free(dw);
    free(y);
    free(w);
    free(x);
}

/* Every operation at every shape, with equal bits when repeated. */
static void test_against_reference(void **state)
{
    struct device_session *session = NULL;
    assert_int_equal(k->open(0, TRYST_PRECISION_F32, &session, NULL, 0), TRYST_OK);
    kernel_workspace_open(session);
    for (int i = 0; i < kernel_cases_count; i++) {
        const struct kernel_case *with = &kernel_cases[i];
        for (int32_t j = 0; j < with->shapes_count; j++) {
            kernel_case_check(session, with, with->shapes[j]);
        }
        kernel_case_check_repeats(session, with, with->shapes[with->shapes_count / 2],
                                  NULL);
    }
    kernel_workspace_close(session);
    k->close(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_norm_backward),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_against_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
