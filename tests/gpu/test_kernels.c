/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_kernels [--bench]: run every CUDA kernel on the first GPU against its reference,
 * each twice with equal bits; and a stage of these kernels against one of the reference
 * kernels, whole, split and recomputed. Exits with 77 without a GPU.
 *
 * --bench instead times each kernel at the shapes of GPT-2 small in bf16 and prints
 * "bench NAME FIGURE UNIT LIMIT UNIT". The limits come from the same run: for products
 * and attention the rate of the largest product, for all others that of a copy by Tryst's
 * own kernel. Each array counts once, so a kernel that reads an array twice stays below
 * its limit. */
#include <math.h>
#include <string.h>
#include <time.h>
#include <tryst/tryst.h>

#include "pipeline/device/device_finish.h"
#include "pipeline/device/device_module.h"
#include "pipeline/kernel_cases.h"
#include "pipeline/stage_trial.h"
#include "support/unit.h"

static const struct device_kernels *kernels;

static struct device_session *session_open(tryst_precision precision)
{
    char error[256] = "";
    struct device_session *session = NULL;
    if (kernels->open(0, precision, &session, error, sizeof(error)) != TRYST_OK) {
        fail_msg("%s", error);
    }
    kernel_workspace_open(session);
    return session;
}

static void session_close(struct device_session *session)
{
    kernel_workspace_close(session);
    kernels->close(session);
}

/* ---- tests ------------------------------------------------------------------------- */

static void check_all(tryst_precision precision)
{
    struct device_session *session = session_open(precision);
    for (int i = 0; i < kernel_cases_count; i++) {
        for (int32_t j = 0; j < kernel_cases[i].shapes_count; j++) {
            kernel_case_check(session, &kernel_cases[i], kernel_cases[i].shapes[j]);
            kernel_case_check_repeats(session, &kernel_cases[i],
                                      kernel_cases[i].shapes[j], NULL);
        }
    }
    session_close(session);
}

static void test_f32(void **state)
{
    check_all(TRYST_PRECISION_F32);
}

static void test_tf32(void **state)
{
    check_all(TRYST_PRECISION_TF32);
}

static void test_bf16(void **state)
{
    check_all(TRYST_PRECISION_BF16);
}

static void check_stage(tryst_precision precision, double tolerance)
{
    struct stage_trial trial = {.kernels = &device_kernels_reference,
                                .precision = precision,
                                .model = {.struct_size = sizeof(tryst_model),
                                          .kind = TRYST_MODEL_GPT,
                                          .layers = 2,
                                          .hidden = 32,
                                          .heads = 2,
                                          .seq = 40,
                                          .microbatch_size = 2}};
    struct stage_trial_result expected = stage_trial_run(&trial);
    trial.kernels = kernels;
    struct stage_trial_result whole = stage_trial_run(&trial);
    double distance = stage_trial_distance(&whole, &expected);
    print_message("gradients differ by %.2g\n", distance);
    assert_true(distance < tolerance);
    for (int variant = 0; variant < 6; variant++) {
        trial.backward = (enum stage_trial_backward)(variant / 2);
        trial.recompute = variant % 2;
        struct stage_trial_result other = stage_trial_run(&trial);
        stage_trial_assert_equal(&other, &whole);
        stage_trial_free(&other);
    }
    stage_trial_free(&whole);
    stage_trial_free(&expected);
}

static void test_stage(void **state)
{
    check_stage(TRYST_PRECISION_F32, 1e-4);
    check_stage(TRYST_PRECISION_TF32, 1e-2);
    check_stage(TRYST_PRECISION_BF16, 5e-2);
}

/* ---- benchmarks -------------------------------------------------------------------- */

enum { BENCH_RUNS = 5, BENCH_CALLS = 20 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Return the seconds of one call: the median of runs of queued calls. */
static double bench_case(struct device_session *session, const struct kernel_case *with,
                         const int32_t *shape, double *bytes_p)
{
    struct kernel_arrays arrays = kernel_arrays_open(session, with, shape, 1);
    double runs[BENCH_RUNS];
    *bytes_p = 0;
    for (int i = 0; i < arrays.operands_count; i++) {
        *bytes_p += (double)kernel_arrays_bytes(&arrays, i);
    }
    kernel_arrays_run(&arrays, with); /* includes the one-time setup */
    kernels->enter(session);
    for (int run = 0; run < BENCH_RUNS; run++) {
        double begin = now_s();
        for (int call = 0; call < BENCH_CALLS; call++) {
            with->run(&arrays.run);
        }
        assert_int_equal(device_session_finish(session, "a benchmark"), TRYST_OK);
        runs[run] = (now_s() - begin) / BENCH_CALLS;
    }
    kernels->leave(session);
    kernel_arrays_close(&arrays);
    qsort(runs, BENCH_RUNS, sizeof(runs[0]), by_value);
    return runs[BENCH_RUNS / 2];
}

static int copy_describe(const int32_t *shape, struct operand *operands)
{
    for (int i = 0; i < 2; i++) {
        operands[i] = (struct operand){OPERAND_T, i == 1, (uint64_t)shape[0], 1};
    }
    return 2;
}

static void copy_run(const struct kernel_run *run)
{
    run->kernels->duplicate(run->lane, (uint64_t)run->shape[0], run->at[0], run->at[1]);
}

static void bench(void **state)
{
    static const struct kernel_case copy = {"copy", copy_describe, copy_run,
                                            .large = {1 << 27}};
    static const int32_t square[SHAPE_MAX] = {8192, 8192, 4096};
    struct device_session *session = session_open(TRYST_PRECISION_BF16);
    double bytes;
    double copy_s = bench_case(session, &copy, copy.large, &bytes);
    double bytes_limit = bytes / copy_s;
    double product_s = bench_case(session, &kernel_cases[0], square, &bytes);
    double flops_limit = kernel_cases[0].flops(square) / product_s;
    for (int i = 0; i < kernel_cases_count; i++) {
        const struct kernel_case *with = &kernel_cases[i];
        double seconds = bench_case(session, with, with->large, &bytes);
        if (with->flops) {
            printf("bench %s %.1f TFLOP/s %.1f TFLOP/s\n", with->name,
                   with->flops(with->large) / seconds / 1e12, flops_limit / 1e12);
        } else {
            printf("bench %s %.1f GB/s %.1f GB/s\n", with->name, bytes / seconds / 1e9,
                   bytes_limit / 1e9);
        }
    }
    session_close(session);
}

/* ---- main -------------------------------------------------------------------------- */

/* True if there is a GPU. A missing GPU is not a failure. */
static bool gpu_found(void)
{
    char error[512] = "";
    struct device_session *session = NULL;
    tryst_status status = TRYST_E_UNSUPPORTED;
    if (device_module_kernels(TRYST_MEMORY_CUDA, &kernels) != TRYST_OK) {
        snprintf(error, sizeof(error), "%s", tryst_last_error());
    } else {
        status = kernels->open(0, TRYST_PRECISION_F32, &session, error, sizeof(error));
    }
    if (status == TRYST_OK) {
        kernels->close(session);
        return true;
    }
    printf("skipped: %s\n", error);
    if (status != TRYST_E_UNSUPPORTED) {
        exit(1); /* the module does not load, or a device fails */
    }
    return false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_stage),
    };
    const struct CMUnitTest benches[] = {cmocka_unit_test(bench)};
    setenv("TRYST_MODULE_PATH", TRYST_TEST_MODULE_PATH, 0); /* outside of ctest */
    if (!gpu_found()) {
        return 77;
    }
    return argc > 1 && strcmp(argv[1], "--bench") == 0
               ? cmocka_run_group_tests(benches, NULL, NULL)
               : cmocka_run_group_tests(tests, NULL, NULL);
}
