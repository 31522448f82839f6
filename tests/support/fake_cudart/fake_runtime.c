/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime without a GPU: the functions of libcudart that the stages' module
 * uses, over the fake driver (fake_cuda.h); streams are the driver's threads, and the
 * host cannot access device memory.
 *
 * One idea: an error that happens to work on a GPU fails here. A call without a current
 * context, for which the runtime would create one on device 0, ends the process; a launch
 * must keep the limits that the driver documents; the error of a call stays until
 * cudaGetLastError, and the error of an operation on the device stays permanently.
 *
 * Each function fails on demand under its name (FAKE_CUDA_FAIL, fake_cuda_fail), launches
 * under `launch`, and kernels, when they run, under `kernel`. */
#include "fake_runtime.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "support/fake_cuda/fake_private.h"

/* The limits of a device of compute capability 9.0. */
enum {
    THREADS_MAX = 1024,
    BLOCK_Z_MAX = 64,
    GRID_YZ_MAX = 65535,
    SHARED_PLAIN_BYTES = 48 << 10, /* without cudaFuncSetAttribute */
    SHARED_BYTES_MAX = 227 << 10
};

static _Thread_local cudaError_t last_error;

static cudaError_t keep(cudaError_t error)
{
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

/* The driver's error numbers are the runtime's. */
static cudaError_t kept(CUresult result)
{
    return keep((cudaError_t)result);
}

static void complain(const char *what)
{
    fprintf(stderr, "fake CUDA runtime: %s\n", what);
    abort();
}

static cudaError_t begin_anywhere(const char *function)
{
    return kept(fake_begin(function));
}

/* Begin a call that needs the current context: return its failure on demand, or the
 * device's lasting error. */
static cudaError_t begin(const char *function)
{
    int device;
    cudaError_t error = begin_anywhere(function);
    if (fake_current() < 0) {
        complain("a call without a current context would take device 0's");
    }
    return error == cudaSuccess ? kept(fake_usable(&device)) : error;
}

#define BEGIN(function)                      \
    do {                                     \
        cudaError_t begun = begin(function); \
        if (begun != cudaSuccess) {          \
            return begun;                    \
        }                                    \
    } while (0)

#define BEGIN_ANYWHERE(function)                      \
    do {                                              \
        cudaError_t begun = begin_anywhere(function); \
        if (begun != cudaSuccess) {                   \
            return begun;                             \
        }                                             \
    } while (0)

/* ---- errors ------------------------------------------------------------------------ */

cudaError_t cudaGetLastError(void)
{
    int device;
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    if (error != cudaSuccess || fake_current() < 0) {
        return error;
    }
    return (cudaError_t)fake_usable(&device);
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation       ? "out of memory"
           : error == cudaErrorInvalidConfiguration ? "invalid configuration argument"
           : error == cudaErrorInvalidValue
               ? "invalid argument"
               : "a failure requested by FAKE_CUDA_FAIL or by the test";
}

/* ---- devices and the driver -------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
    CUresult result;
    BEGIN_ANYWHERE("cudaGetDeviceCount");
    result = cuInit(0);
    return kept(result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    BEGIN_ANYWHERE("cudaDeviceGetAttribute");
    return kept(cuDeviceGetAttribute(value, (CUdevice_attribute)what, device));
}

/* Number of retained primary contexts. */
static int retained;

static CUresult retain(CUcontext *context_p, CUdevice device)
{
    CUresult result = cuDevicePrimaryCtxRetain(context_p, device);
    __atomic_add_fetch(&retained, result == CUDA_SUCCESS, __ATOMIC_RELAXED);
    return result;
}

static CUresult release(CUdevice device)
{
    (void)device;
    if (__atomic_sub_fetch(&retained, 1, __ATOMIC_RELAXED) < 0) {
        complain("a primary context is released more often than it was retained");
    }
    return fake_begin("cuDevicePrimaryCtxRelease");
}

int fake_runtime_retained(void)
{
    return __atomic_load_n(&retained, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void at_exit(void)
{
    if (fake_runtime_retained() != 0) {
        fprintf(stderr, "fake CUDA runtime: %d primary contexts left\n", retained);
        _Exit(FAKE_CUDA_EXIT);
    }
}

/* Versions are those of cudaTypedefs.h: an older version returns a function of another
 * type. */
cudaError_t cudaGetDriverEntryPointByVersion(
    const char *name, void **function, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *found_p)
{
    static const struct {
        const char *name;
        unsigned version;
        void *function;
    } calls[] = {{"cuDevicePrimaryCtxRetain", 7000, (void *)(uintptr_t)retain},
                 {"cuDevicePrimaryCtxRelease", 11000, (void *)(uintptr_t)release},
                 {"cuCtxPushCurrent", 4000, (void *)(uintptr_t)cuCtxPushCurrent},
                 {"cuCtxPopCurrent", 4000, (void *)(uintptr_t)cuCtxPopCurrent}};
    BEGIN_ANYWHERE("cudaGetDriverEntryPointByVersion");
    *found_p = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) == 0 && calls[i].version == version &&
            flags == 0) {
            *function = calls[i].function;
            *found_p = cudaDriverEntryPointSuccess;
        }
    }
    return cudaSuccess;
}

/* ---- memory ------------------------------------------------------------------------ */

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    BEGIN("cudaMemGetInfo");
    return kept(cuMemGetInfo(left, total));
}

cudaError_t cudaMalloc(void **data, size_t bytes)
{
    CUdeviceptr at = 0;
    BEGIN("cudaMalloc");
    CUresult result = cuMemAlloc(&at, bytes);
    *data = (void *)(uintptr_t)at;
    return kept(result);
}

/* A function that frees or closes has done so when it fails, as in the fake driver. */
cudaError_t cudaFree(void *data)
{
    CUresult result = data ? cuMemFree((CUdeviceptr)(uintptr_t)data) : CUDA_SUCCESS;
    cudaError_t error = begin("cudaFree");
    return error != cudaSuccess ? error : kept(result);
}

struct filling {
    void *data;
    int value;
    size_t bytes;
};

static void fill(void *arg)
{
    struct filling *filling = arg;
    memset(fake_runtime_reach(filling->data, filling->bytes, "a memset"), filling->value,
           filling->bytes);
    free(filling);
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream)
{
    BEGIN("cudaMemsetAsync");
    struct filling *filling = malloc(sizeof *filling);
    if (!filling) {
        abort();
    }
    *filling = (struct filling){data, value, bytes};
    fake_cuda_call(stream, fill, filling);
    return cudaSuccess;
}

/* The copy reads pageable memory when its turn comes, which the runtime may do. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    BEGIN("cudaMemcpyAsync");
    if (kind != cudaMemcpyDefault) {
        return keep(cudaErrorInvalidMemcpyDirection);
    }
    return kept(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                              bytes, stream));
}

void *fake_runtime_reach(const void *data, size_t bytes, const char *what)
{
    pthread_mutex_lock(&fake_lock);
    void *reached = fake_reach((uintptr_t)data, bytes);
    pthread_mutex_unlock(&fake_lock);
    if (!reached) {
        fprintf(stderr, "fake CUDA runtime: %s touches %zu bytes that are not there\n",
                what, bytes);
        abort();
    }
    return reached;
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned flags)
{
    BEGIN("cudaHostAlloc");
    if (flags != cudaHostAllocDefault) {
        return keep(cudaErrorInvalidValue);
    }
    return kept(cuMemHostAlloc(data, bytes,
                               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
}

cudaError_t cudaFreeHost(void *data)
{
    CUresult result = data ? cuMemFreeHost(data) : CUDA_SUCCESS;
    cudaError_t error = begin("cudaFreeHost");
    return error != cudaSuccess ? error : kept(result);
}

/* ---- streams and events ------------------------------------------------------------ */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    BEGIN("cudaDeviceGetStreamPriorityRange");
    return kept(cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority)
{
    BEGIN("cudaStreamCreateWithPriority");
    return kept(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    BEGIN("cudaStreamQuery");
    return kept(cuStreamQuery(stream));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CUresult result = cuStreamDestroy(stream);
    cudaError_t error = begin("cudaStreamDestroy");
    return error != cudaSuccess ? error : kept(result);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    BEGIN("cudaEventCreateWithFlags");
    return kept(cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    CUresult result = cuEventDestroy(event);
    cudaError_t error = begin("cudaEventDestroy");
    return error != cudaSuccess ? error : kept(result);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN("cudaEventRecord");
    return kept(cuEventRecord(event, stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    BEGIN("cudaStreamWaitEvent");
    return kept(cuStreamWaitEvent(stream, event, flags));
}

/* ---- launches ---------------------------------------------------------------------- */

/* The shared memory that each kernel was allowed. */
enum { KERNELS_MAX = 64 };
static struct {
    const void *kernel;
    size_t bytes;
} asked[KERNELS_MAX];

static size_t shared_max(const void *kernel)
{
    size_t bytes = SHARED_PLAIN_BYTES;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < KERNELS_MAX && asked[i].kernel; i++) {
        if (asked[i].kernel == kernel && asked[i].bytes > bytes) {
            bytes = asked[i].bytes;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return bytes;
}

static void shared_bytes_set(const void *kernel, size_t bytes)
{
    int i = 0;
    pthread_mutex_lock(&fake_lock);
    while (i < KERNELS_MAX && asked[i].kernel && asked[i].kernel != kernel) {
        i++;
    }
    if (i < KERNELS_MAX) {
        asked[i].kernel = kernel;
        asked[i].bytes = bytes;
    }
    pthread_mutex_unlock(&fake_lock);
    if (i == KERNELS_MAX) {
        complain("more kernels than it has room for");
    }
}

void fake_runtime_allow(const void *kernel, size_t shared_bytes)
{
    if (begin("cudaFuncSetAttribute") != cudaSuccess) {
        return;
    }
    if (shared_bytes > SHARED_BYTES_MAX) {
        (void)keep(cudaErrorInvalidValue);
        return;
    }
    shared_bytes_set(kernel, shared_bytes);
}

static bool extents_good(const unsigned grid[3], const unsigned block[3])
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return grid[0] > 0 && grid[0] <= INT32_MAX && grid[1] > 0 && grid[1] <= GRID_YZ_MAX &&
           grid[2] > 0 && grid[2] <= GRID_YZ_MAX && threads > 0 &&
           threads <= THREADS_MAX && block[2] <= BLOCK_Z_MAX;
}

struct launch {
    int device;
    void (*run)(void *arg, int skip);
    void *arg;
};

/* After a failure no kernel runs. */
static void launch_run(void *arg)
{
    struct launch *launch = arg;
    CUresult result = fake_begin("kernel");
    pthread_mutex_lock(&fake_lock);
    CUresult *lasting = &fake_devices[launch->device].sticky;
    if (result != CUDA_SUCCESS && *lasting == CUDA_SUCCESS) {
        *lasting = result;
    }
    bool skip = *lasting != CUDA_SUCCESS;
    pthread_mutex_unlock(&fake_lock);
    launch->run(launch->arg, skip);
    free(launch);
}

void fake_runtime_enqueue(void *stream, void (*run)(void *arg, int skip), void *arg)
{
    struct launch *launch = malloc(sizeof *launch);
    if (!launch) {
        abort();
    }
    *launch = (struct launch){fake_current(), run, arg};
    fake_cuda_call(stream, launch_run, launch);
}

int fake_runtime_launch(void *stream, const void *kernel, const unsigned grid[3],
                        const unsigned block[3], size_t shared_bytes)
{
    if (begin("launch") != cudaSuccess) {
        return 0;
    }
    if (!extents_good(grid, block)) {
        (void)keep(cudaErrorInvalidConfiguration);
        return 0;
    }
    if (shared_bytes > shared_max(kernel)) {
        (void)keep(cudaErrorInvalidValue);
        return 0;
    }
    if ((uintptr_t)stream <= 2) {
        complain("a launch on a default stream");
    }
    fake_cuda_load(kernel);
    return 1;
}
