/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the CUDA row of device kernels, and the entry of its module
 * (tryst_stage_cuda.so).
 *
 * A session has two non-blocking streams on the device's primary context: COMPUTE with a
 * priority in the middle of the range (libtryst's copies between devices have a higher
 * one), WEIGHT with the lowest. Between enter and leave that context is the thread's
 * current one; leave restores the caller's own. No function here waits for a stream:
 * device_finish.c polls whether a lane is idle, until its deadline.
 *
 * The runtime is linked statically and finds the driver when a session is first opened;
 * cuBLASLt is loaded with the module. The module is never unloaded. */
#include "cuda_product.h"
#include "cuda_session.h"

#include "pipeline/device/stage_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct device_kernels device_kernels_cuda;

static struct cuda_session *session_of(struct device_session *base)
{
    return (struct cuda_session *)base;
}

static cudaStream_t stream_of(const struct device_lane *lane)
{
    return (cudaStream_t)lane->stream;
}

/* True if `error` is cudaSuccess. Otherwise record it as the session's failure, unless
 * the session has failed before; the sentence is "cannot `what`". */
static bool session_check(struct device_session *session, cudaError_t error,
                          const char *what)
{
    if (error == cudaSuccess) {
        return true;
    }
    if (session->status == TRYST_OK) {
        session->status =
            error == cudaErrorMemoryAllocation ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
        snprintf(session->text, sizeof(session->text), "CUDA device %d: cannot %s: %s",
                 (int)session->device, what, cudaGetErrorString(error));
    }
    return false;
}

void cuda_launched(const struct device_lane *lane, const char *what)
{
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        char text[64];
        snprintf(text, sizeof text, "launch %s", what);
        session_check(lane->session, error, text);
    }
}

void cuda_product_failed(const struct device_lane *lane, const struct device_product *p,
                         cublasStatus_t status)
{
    struct device_session *session = lane->session;
    if (session->status == TRYST_OK) {
        session->status = TRYST_E_SYSTEM;
        snprintf(
            session->text, sizeof(session->text),
            "CUDA device %d: cuBLASLt cannot multiply [%d, %d] by [%d, %d] in precision "
            "%d: %s",
            (int)session->device, (int)p->m, (int)p->k, (int)p->k, (int)p->n,
            (int)session->precision, cublasLtGetStatusString(status));
    }
}

/* ---- the thread's context ---------------------------------------------------------- */

static void session_enter(struct device_session *base)
{
    struct cuda_session *session = session_of(base);
    session->entered = session->calls.push(session->context) == 0;
    if (!session->entered) {
        session_check(base, cudaErrorDeviceUninitialized, "enter its context");
    }
}

/* Pop the session's context. If session_enter could not push it, the current context is
 * the caller's and stays. */
static void session_leave(struct device_session *base)
{
    void *context;
    struct cuda_session *session = session_of(base);
    if (session->entered) {
        (void)session->calls.pop(&context);
    }
    session->entered = false;
}

static void *driver_call(const char *name, unsigned version)
{
    void *call = NULL;
    enum cudaDriverEntryPointQueryResult found;
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &call, version, cudaEnableDefault, &found);
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? call : NULL;
}

/* Find the driver's functions. Each version is the one of CUDA that introduced this form
 * of the function. False if a function is missing. */
static bool context_calls_find(struct cuda_context_calls *calls)
{
    void *found[4] = {driver_call("cuDevicePrimaryCtxRetain", 7000),
                      driver_call("cuDevicePrimaryCtxRelease", 11000),
                      driver_call("cuCtxPushCurrent", 4000),
                      driver_call("cuCtxPopCurrent", 4000)};
    if (!found[0] || !found[1] || !found[2] || !found[3]) {
        return false;
    }
    memcpy(&calls->retain, &found[0], sizeof(found[0]));
    memcpy(&calls->release, &found[1], sizeof(found[1]));
    memcpy(&calls->push, &found[2], sizeof(found[2]));
    memcpy(&calls->pop, &found[3], sizeof(found[3]));
    return true;
}

/* ---- open and close ---------------------------------------------------------------- */

struct open_error {
    char *text;
    size_t capacity;
};

static tryst_status open_fail(struct open_error to, tryst_status status, int32_t device,
                              const char *why)
{
    if (to.text && to.capacity > 0) {
        snprintf(to.text, to.capacity, "cannot use CUDA device %d: %s", (int)device, why);
    }
    return status;
}

/* Check that there is a driver, that the device exists, and that it supports the
 * precision. */
static tryst_status device_check(int32_t device, tryst_precision precision,
                                 struct open_error to)
{
    int count = 0, major = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver) {
        return open_fail(
            to, TRYST_E_UNSUPPORTED, device,
            "no CUDA driver is installed (libcuda.so.1), or it is older than the "
            "toolkit that the module was built with");
    }
    if (error != cudaSuccess) {
        return open_fail(to, TRYST_E_UNSUPPORTED, device, cudaGetErrorString(error));
    }
    if (device < 0 || device >= count) {
        char why[64];
        snprintf(why, sizeof(why), "must be below %d, the number of devices", count);
        return open_fail(to, TRYST_E_UNSUPPORTED, device, why);
    }
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) !=
        cudaSuccess) {
        return open_fail(to, TRYST_E_SYSTEM, device, "its compute capability is unknown");
    }
    if (major < 8 && precision != TRYST_PRECISION_F32) {
        return open_fail(to, TRYST_E_UNSUPPORTED, device,
                         "bf16 and tf32 need compute capability 8.0; use f32");
    }
    return TRYST_OK;
}

static bool lanes_open(struct cuda_session *session)
{
    int least = 0, greatest = 0;
    struct device_session *base = &session->base;
    if (!session_check(base, cudaDeviceGetStreamPriorityRange(&least, &greatest),
                       "read its stream priorities")) {
        return false;
    }
    for (int32_t i = 0; i < DEVICE_LANES; i++) {
        cudaStream_t stream = NULL;
        int priority = i == DEVICE_COMPUTE ? (least + greatest) / 2 : least;
        cudaError_t error =
            cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority);
        if (!session_check(base, error, "create a stream")) {
            return false;
        }
        session->opened[i] = true;
        base->lanes[i] =
            (struct device_lane){.session = base, .stream = stream, .index = i};
    }
    return true;
}

static void cuda_close(struct device_session *base)
{
    struct cuda_session *session = session_of(base);
    session_enter(base);
    for (int32_t i = 0; i < DEVICE_LANES; i++) {
        if (session->opened[i]) {
            (void)cudaStreamDestroy(stream_of(&base->lanes[i]));
        }
    }
    if (session->lt) {
        (void)cublasLtDestroy(session->lt);
    }
    session_leave(base);
    (void)session->calls.release(base->device);
    free(session);
}

/* Open the streams and cuBLASLt. Called with the context entered. The empty launch at the
 * end fails if this binary has no code for the device. */
static tryst_status session_fill(struct cuda_session *session)
{
    struct device_session *base = &session->base;
    if (lanes_open(session)) {
        if (cublasLtCreate(&session->lt) != CUBLAS_STATUS_SUCCESS) {
            session->lt = NULL;
            session_check(base, cudaErrorUnknown, "start cuBLASLt");
        } else {
            cuda_duplicate(&base->lanes[DEVICE_COMPUTE], 0, NULL, NULL);
        }
    }
    return base->status;
}

static tryst_status cuda_open(int32_t device, tryst_precision precision,
                              struct device_session **session_p, char *error,
                              size_t error_capacity)
{
    const struct open_error to = {.text = error, .capacity = error_capacity};
    tryst_status status = device_check(device, precision, to);
    if (status != TRYST_OK) {
        return status;
    }
    struct cuda_session *session = calloc(1, sizeof(*session));
    if (!session) {
        return open_fail(to, TRYST_E_NOMEM, device, "out of memory on the host");
    }
    session->base = (struct device_session){.kernels = &device_kernels_cuda,
                                            .precision = precision,
                                            .dtype = device_precision_dtype(precision),
                                            .wide = device_precision_wide(precision),
                                            .device = device};
    if (!context_calls_find(&session->calls)) {
        free(session);
        return open_fail(to, TRYST_E_UNSUPPORTED, device,
                         "the driver lacks functions of primary contexts (CUDA 11.0); "
                         "install a newer driver");
    }
    int code = session->calls.retain(&session->context, device);
    if (code != 0) {
        char why[80];
        (void)snprintf(why, sizeof(why),
                       "the driver gives no primary context for it (CUDA error %d)",
                       code);
        free(session);
        return open_fail(to, TRYST_E_UNSUPPORTED, device, why);
    }
    session_enter(&session->base);
    status = session_fill(session);
    session_leave(&session->base);
    if (status != TRYST_OK) {
        (void)open_fail(to, status, device, session->base.text);
        cuda_close(&session->base);
        return status;
    }
    *session_p = &session->base;
    return TRYST_OK;
}

/* ---- memory and order -------------------------------------------------------------- */

static tryst_status cuda_status(struct device_session *session)
{
    return session->status;
}

static tryst_status cuda_idle(const struct device_lane *lane)
{
    cudaError_t error = cudaStreamQuery(stream_of(lane));
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* clear the error: no launch failed */
        return TRYST_IN_PROGRESS;
    }
    session_check(lane->session, error, "finish the enqueued work");
    return TRYST_OK;
}

static void cuda_memory_left(struct device_session *session, uint64_t *free_p,
                             uint64_t *total_p)
{
    size_t left = 0, total = 0;
    (void)session;
    if (cudaMemGetInfo(&left, &total) != cudaSuccess) {
        (void)cudaGetLastError(); /* clear the error: no launch failed */
        left = total = 0;
    }
    *free_p = left;
    *total_p = total;
}

static tryst_status cuda_alloc(struct device_session *session, uint64_t bytes,
                               void **data_p)
{
    void *data = NULL;
    const struct device_lane *lane = &session->lanes[DEVICE_COMPUTE];
    if (cudaMalloc(&data, bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* clear the error: the status reports it */
        return TRYST_E_NOMEM;
    }
    session_check(session, cudaMemsetAsync(data, 0, bytes, stream_of(lane)),
                  "set memory to zero");
    *data_p = data;
    return TRYST_OK;
}

static void cuda_free(struct device_session *session, void *data)
{
    (void)session;
    (void)cudaFree(data);
}

static tryst_status cuda_pinned_alloc(struct device_session *session, uint64_t bytes,
                                      void **data_p)
{
    (void)session;
    if (cudaHostAlloc(data_p, bytes, cudaHostAllocDefault) != cudaSuccess) {
        (void)cudaGetLastError(); /* clear the error: the status reports it */
        return TRYST_E_NOMEM;
    }
    return TRYST_OK;
}

static void cuda_pinned_free(struct device_session *session, void *data)
{
    (void)session;
    (void)cudaFreeHost(data);
}

static void cuda_copy(struct device_session *session, void *to, const void *from,
                      uint64_t bytes)
{
    cudaStream_t stream = stream_of(&session->lanes[DEVICE_COMPUTE]);
    session_check(session, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream),
                  "copy memory");
}

static tryst_status cuda_event_open(struct device_session *session, void **event_p)
{
    cudaEvent_t event = NULL;
    if (!session_check(session, cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                       "create an event")) {
        return session->status;
    }
    *event_p = event;
    return TRYST_OK;
}

static void cuda_event_close(struct device_session *session, void *event)
{
    (void)session;
    if (event) {
        (void)cudaEventDestroy((cudaEvent_t)event);
    }
}

static void cuda_event_record(const struct device_lane *lane, void *event)
{
    session_check(lane->session, cudaEventRecord((cudaEvent_t)event, stream_of(lane)),
                  "record an event");
}

static void cuda_event_wait(const struct device_lane *lane, void *event)
{
    session_check(lane->session,
                  cudaStreamWaitEvent(stream_of(lane), (cudaEvent_t)event, 0),
                  "wait for an event");
}

/* ---- the row and the module -------------------------------------------------------- */

static const struct device_kernels device_kernels_cuda = {
    .struct_size = sizeof(struct device_kernels),
    .name = "cuda",
    .memory = TRYST_MEMORY_CUDA,
    .head_width_max = CUDA_HEAD_WIDTH_MAX,
    .open = cuda_open,
    .close = cuda_close,
    .enter = session_enter,
    .leave = session_leave,
    .status = cuda_status,
    .idle = cuda_idle,
    .memory_left = cuda_memory_left,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pinned_alloc = cuda_pinned_alloc,
    .pinned_free = cuda_pinned_free,
    .copy = cuda_copy,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .product = cuda_product,
    .column_sum = cuda_column_sum,
    .embedding_forward = cuda_embedding_forward,
    .embedding_backward = cuda_embedding_backward,
    .norm_forward = cuda_norm_forward,
    .norm_backward_input = cuda_norm_backward_input,
    .norm_backward_weight = cuda_norm_backward_weight,
    .attention_forward = cuda_attention_forward,
    .attention_backward = cuda_attention_backward,
    .gelu_backward = cuda_gelu_backward,
    .add = cuda_add,
    .duplicate = cuda_duplicate,
    .cross_entropy_forward = cuda_cross_entropy_forward,
    .cross_entropy_backward = cuda_cross_entropy_backward,
    .loss_mean = cuda_loss_mean,
    .update = cuda_update,
    .predict = cuda_predict,
    .round = cuda_round,
};

__attribute__((visibility("default"))) const struct tryst_stage_module *
tryst_stage_module_v1(const struct tryst_stage_host *host);

const struct tryst_stage_module *tryst_stage_module_v1(
    const struct tryst_stage_host *host)
{
    static const struct tryst_stage_module module = {.abi_id = TRYST_STAGE_ABI_ID,
                                                     .kernels = &device_kernels_cuda};
    (void)host;
    return &module;
}
