/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver detects each error that it exists to detect. Each case is a process. */
#include <cuda.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/child.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/unit.h"

static CUcontext context;

static CUdeviceptr begin(size_t bytes)
{
    CUdeviceptr data = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context) ||
        (bytes && cuMemAlloc(&data, bytes)))
        _exit(2);
    return data;
}

static void end(CUdeviceptr data)
{
    if ((data && cuMemFree(data)) || cuCtxPopCurrent(&context))
        _exit(2);
}

/* Return how a child that runs `body` ended: its exit code, or 128 plus its signal. */
static int outcome(void (*body)(void))
{
    int status = 0;
    pid_t pid = child_fork();
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit code */
        signal(SIGABRT, SIG_DFL);
        (void)freopen("/dev/null", "w", stderr);
        body();
        exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void tidy(void)
{
    char bytes[4] = "abc";
    CUstream stream;
    CUevent event;
    CUdeviceptr data = begin(100);
    if (cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) ||
        cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) ||
        cuMemcpyAsync(data, (CUdeviceptr)bytes, 4, stream) ||
        cuEventRecord(event, stream))
        _exit(2);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        sched_yield();
    memset(bytes, 0, 4);
    fake_cuda_read((void *)data, bytes, 4);
    if (strcmp(bytes, "abc") != 0 || cuEventDestroy(event) || cuStreamDestroy(stream))
        _exit(2);
    end(data);
}

static void touch(void)
{
    *(volatile char *)begin(100) = 1;
}

static void leave_allocation(void)
{
    (void)begin(100);
    end(0);
}

static void leave_context(void)
{
    (void)begin(0);
}

static void leave_stream(void)
{
    CUstream stream;
    (void)begin(0);
    (void)cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    end(0);
}

static void beyond(void)
{
    static char bytes[200];
    CUdeviceptr data = begin(100);
    if (cuMemcpyAsync(data, (CUdeviceptr)bytes, 101, NULL) != CUDA_ERROR_INVALID_VALUE ||
        cuMemcpyAsync(data + 512, (CUdeviceptr)bytes, 1, NULL) !=
            CUDA_ERROR_INVALID_VALUE)
        _exit(2);
    end(data);
}

/* Close the import while a copy from it waits in its stream. */
static void copy_from_gone(void)
{
    static char bytes[100];
    struct CUmemLocation_st here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAllocationProp prop = {.location = here};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    void *word;
    (void)begin(0);
    if (cuMemCreate(&handle, 4096, &prop, 0) || cuMemAddressReserve(&at, 4096, 0, 0, 0) ||
        cuMemMap(at, 4096, 0, handle, 0) || cuMemSetAccess(at, 4096, &access, 1) ||
        cuMemHostAlloc(&word, 4, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ||
        cuStreamWaitValue32(NULL, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_GEQ) ||
        cuMemcpyAsync((CUdeviceptr)bytes, at, 100, NULL) || cuMemUnmap(at, 4096) ||
        cuMemAddressFree(at, 4096))
        _exit(2);
    __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
    fake_cuda_drain();
}

static void fails_in_turn(void)
{
    CUdeviceptr data = begin(0);
    fake_cuda_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
    if (cuMemAlloc(&data, 8) || cuMemFree(data) ||
        cuMemAlloc(&data, 8) != CUDA_ERROR_OUT_OF_MEMORY || cuMemAlloc(&data, 8))
        _exit(2);
    if (fake_cuda_calls("cuMemAlloc") != 3)
        _exit(2);
    end(data);
}

static void fails_by_environment(void)
{
    CUdeviceptr data;
    setenv("FAKE_CUDA_FAIL", "cuMemFree:7,cuMemAlloc:1:2", 1);
    (void)begin(0);
    if (cuMemAlloc(&data, 8) != CUDA_ERROR_OUT_OF_MEMORY)
        _exit(2);
    end(0);
}

static void test_tidy(void **state)
{
    assert_int_equal(outcome(tidy), 0);
    assert_int_equal(outcome(beyond), 0);
    assert_int_equal(outcome(fails_in_turn), 0);
    assert_int_equal(outcome(fails_by_environment), 0);
}

static void test_untidy(void **state)
{
    assert_int_equal(outcome(touch), 128 + SIGSEGV);
    assert_int_equal(outcome(leave_allocation), FAKE_CUDA_EXIT);
    assert_int_equal(outcome(leave_context), FAKE_CUDA_EXIT);
    assert_int_equal(outcome(leave_stream), FAKE_CUDA_EXIT);
    assert_int_equal(outcome(copy_from_gone), 128 + SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tidy),
                                       cmocka_unit_test(test_untidy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
