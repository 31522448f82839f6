/* SPDX-License-Identifier: Apache-2.0 */
/* The module of CUDA stages over stand-ins for the CUDA runtime and cuBLASLt
 * (tests/support/fake_cudart): each call that the module makes fails once in turn. The
 * result is a status and an error text, or a step with the same loss; no crash, no leak,
 * and the caller's context stays current. Each case is a process, because a device that
 * failed stays failed.
 *
 *   test_cuda_stage [all]    all: every call of a function fails, not only the first, a
 *                            middle and the last one */
#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include "pipeline/device/device_module.h"
#include "pipeline/device/device_stage.h"
#include "stage_update.h"
#include "support/child.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/unit.h"

/* The functions, and whether a failure may have no effect (the function frees, or there
 * is a fallback). */
static const struct function {
    const char *name;
    bool may_pass;
} functions[] = {
    {"cudaGetDeviceCount", false},
    {"cudaDeviceGetAttribute", false},
    {"cudaGetDriverEntryPointByVersion", false},
    {"cuCtxPushCurrent", true}, /* at the close */
    {"cuCtxPopCurrent", true},
    {"cuDevicePrimaryCtxRetain", false},
    {"cuDevicePrimaryCtxRelease", true},
    {"cudaDeviceGetStreamPriorityRange", false},
    {"cudaStreamCreateWithPriority", false},
    {"cudaStreamQuery", true}, /* at the close */
    {"cudaStreamDestroy", true},
    {"cudaEventCreateWithFlags", false},
    {"cudaEventDestroy", true},
    {"cudaEventRecord", false},
    {"cudaStreamWaitEvent", false},
    {"cudaMemGetInfo", true},
    {"cudaMalloc", false},
    {"cudaFree", true},
    {"cudaHostAlloc", false},
    {"cudaFreeHost", true},
    {"cudaMemsetAsync", false},
    {"cudaMemcpyAsync", false},
    {"cudaFuncSetAttribute", false},
    {"launch", false},
    {"kernel", false},
    {"cublasLtCreate", false},
    {"cublasLtDestroy", true},
    {"cublasLtMatrixLayoutInit", true}, /* with less fused, the next variant is made */
    {"cublasLtMatmulDescInit", true},
    {"cublasLtMatmulDescSetAttribute", true},
    {"cublasLtMatmulPreferenceInit", true},
    {"cublasLtMatmulPreferenceSetAttribute", true},
    {"cublasLtMatmulAlgoGetHeuristic", true},
    {"cublasLtMatmul", false},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* The result of a case, in memory that the case and the test share. */
static struct report {
    tryst_status status;
    double loss;
    char error[512];
    unsigned calls[FUNCTIONS];
} * report;

static bool walk_all;

/* ---- a training that may fail anywhere --------------------------------------------- */

struct training {
    const struct device_kernels *kernels;
    tryst_stage *stage;
    CUcontext context;
    CUdeviceptr tokens, loss, saved, kept;
    tryst_stage_work work;
};

/* Allocate the caller's own memory from the driver: not under test. */
static CUdeviceptr memory_of(uint64_t bytes)
{
    CUdeviceptr data = 0;
    assert_int_equal(cuMemAlloc(&data, bytes + 256), CUDA_SUCCESS);
    return data;
}

static void buffers_open(struct training *t)
{
    const tryst_stage_info *info = &t->stage->info;
    uint8_t tokens[64];
    assert_true(info->input_count < sizeof tokens);
    for (size_t i = 0; i < sizeof tokens; i++) {
        tokens[i] = (uint8_t)(i * 37 % 101);
    }
    t->tokens = memory_of(sizeof tokens);
    t->loss = memory_of(sizeof(double));
    t->saved = memory_of(info->saved_bytes);
    t->kept = memory_of(info->kept_bytes);
    fake_cuda_write((void *)t->tokens, tokens, sizeof tokens);
    t->work = (tryst_stage_work){.struct_size = sizeof t->work,
                                 .input = (void *)t->tokens,
                                 .target = (const uint8_t *)t->tokens + 1,
                                 .output = (void *)t->loss,
                                 .saved = (void *)t->saved,
                                 .kept = (void *)t->kept};
}

static void buffers_close(struct training *t)
{
    const CUdeviceptr all[] = {t->tokens, t->loss, t->saved, t->kept};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        (void)cuMemFree(all[i]);
    }
}

static int parameter_skip(void *arg, const tryst_parameter *parameter)
{
    (void)arg;
    (void)parameter;
    return 0;
}

/* Run forward, both halves of backward on their lanes, an update, a prediction, and read
 * the weights. */
static tryst_status training_step(struct training *t)
{
    const tryst_stage_ops *ops = t->stage->ops;
    tryst_status status = ops->forward(t->stage, &t->work);
    if (status == TRYST_OK) {
        status = ops->backward_input(t->stage, &t->work);
    }
    if (status == TRYST_OK) {
        status = ops->backward_weight(t->stage, &t->work);
    }
    if (status == TRYST_OK) {
        status = ops->update(t->stage, UPDATE(.microbatches = 1));
    }
    if (status == TRYST_OK) {
        status = ops->predict(t->stage, PREDICTION(.slot = 1, .ahead = 2));
    }
    return status == TRYST_OK
               ? (tryst_status)ops->parameter_visit(t->stage, parameter_skip, NULL)
               : status;
}

static tryst_status stage_open(struct training *t)
{
    static const tryst_optimizer optimizer = {.struct_size = sizeof(optimizer),
                                              .kind = TRYST_OPTIMIZER_ADAM};
    const tryst_model model = {.struct_size = sizeof(model),
                               .kind = TRYST_MODEL_GPT,
                               .layers = 1,
                               .hidden = 8,
                               .heads = 2,
                               .seq = 5,
                               .microbatch_size = 1};
    const tryst_stage_params params = {.struct_size = sizeof(params),
                                       .versions_count = 1,
                                       .optimizer = &optimizer,
                                       .memory = TRYST_MEMORY_CUDA,
                                       .precision = TRYST_PRECISION_BF16,
                                       .slots_count = 1,
                                       .delta_decay = 0.5};
    tryst_model resolved = {.struct_size = sizeof(resolved)};
    assert_int_equal(tryst_model_resolve(&model, &resolved), TRYST_OK);
    const tryst_layers all = {0, resolved.layers};
    return device_stage_open(&resolved, all, &params, t->kernels, &t->stage);
}

static void training_run(struct training *t)
{
    report->status = stage_open(t);
    if (report->status != TRYST_OK) {
        snprintf(report->error, sizeof report->error, "%s", tryst_last_error());
        return;
    }
    buffers_open(t);
    report->status = training_step(t);
    if (report->status != TRYST_OK) {
        snprintf(report->error, sizeof report->error, "%s",
                 t->stage->ops->error(t->stage));
    }
    fake_cuda_drain();
    fake_cuda_read((void *)t->loss, &report->loss, sizeof report->loss);
    tryst_stage_close(t->stage);
    buffers_close(t);
}

/* ---- a case ------------------------------------------------------------------------ */

/* Run a case in a child process. Exit status 0: as expected; 1: after printing the error;
 * a fake library that finds an error ends the process otherwise. */
static void case_run(int function, unsigned nth)
{
    struct training t = {0};
    CUcontext current;
    struct fake_cuda_counts counts;
    if (device_module_kernels(TRYST_MEMORY_CUDA, &t.kernels) != TRYST_OK ||
        cuInit(0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&t.context, 0) != CUDA_SUCCESS ||
        cuCtxPushCurrent(t.context) != CUDA_SUCCESS) {
        printf("%s\n", tryst_last_error());
        exit(1);
    }
    if (function >= 0) {
        fake_cuda_fail(functions[function].name, nth, CUDA_ERROR_UNKNOWN);
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        report->calls[i] = fake_cuda_calls(functions[i].name);
    }
    training_run(&t);
    for (int i = 0; i < FUNCTIONS; i++) { /* calls during the training */
        report->calls[i] = fake_cuda_calls(functions[i].name) - report->calls[i];
    }
    fake_cuda_fail(NULL, 0, 0);
    fake_cuda_counts(&counts);
    (void)cuCtxGetCurrent(&current);
    /* A pop that failed on demand has popped. */
    if (current != t.context || counts.pushed != 1) {
        printf("the caller's context has changed: %d pushed\n", counts.pushed);
        exit(1);
    }
    (void)cuCtxPopCurrent(&current);
    exit(0); /* at exit the fake libraries check for leaks */
}

static void case_expect(int function, unsigned nth)
{
    const char *name = function < 0 ? "nothing" : functions[function].name;
    int status = 0;
    memset(report, 0, sizeof *report);
    pid_t pid = child_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        case_run(function, nth);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("%s, call %u: ended with %#x, %s", name, nth, (unsigned)status,
                 report->error);
    }
}

/* Fail one function at its first, middle and last of `count` calls (all: at each); return
 * the number of cases. */
static unsigned walk(int function, unsigned count, double loss)
{
    unsigned step = walk_all || count < 3 ? 1 : (count - 1) / 2;
    unsigned cases = 0;
    for (unsigned nth = 1; nth <= count; nth += step, cases++) {
        case_expect(function, nth);
        bool passed = report->status == TRYST_OK;
        if (passed && !functions[function].may_pass) {
            fail_msg("%s fails at call %u, and no status reports it",
                     functions[function].name, nth);
        }
        if (passed && !(fabs(report->loss / loss - 1) < 1e-3)) {
            fail_msg("%s fails at call %u, and the loss is %g, not %g",
                     functions[function].name, nth, report->loss, loss);
        }
        if (!passed && !report->error[0]) {
            fail_msg("%s fails at call %u without an error text",
                     functions[function].name, nth);
        }
    }
    return cases;
}

static void test_failures(void **state)
{
    unsigned counts[FUNCTIONS], cases = 0;
    case_expect(-1, 0);
    assert_int_equal(report->status, TRYST_OK);
    double loss = report->loss;
    assert_true(loss > 3 && loss < 8);
    memcpy(counts, report->calls, sizeof counts);
    for (int i = 0; i < FUNCTIONS; i++) {
        if (counts[i] == 0) {
            fail_msg("%s is never called", functions[i].name);
        }
        cases += walk(i, counts[i], loss);
    }
    print_message("%u cases\n", cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failures)};
    walk_all = argc > 1 && strcmp(argv[1], "all") == 0;
    setenv("TRYST_MODULE_PATH", TRYST_TEST_MODULE_PATH, 1);
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(report != MAP_FAILED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
