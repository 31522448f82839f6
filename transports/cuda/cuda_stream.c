/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events, and a stream that waits for a word in pinned host memory.
 *
 * Streams are non-blocking: the default stream neither waits for them nor makes them
 * wait. Events record no time, so recording is cheap.
 */
#include "cuda_stream.h"
#include "cuda_private.h"
#include "cuda_wait_ptx.h"

tryst_status cuda_stream_open(int32_t device, bool urgent, void **stream_p)
{
    struct cuda_device *self;
    CUstream stream = NULL;
    tryst_status status = cuda_enter(device, &self);
    if (status == TRYST_OK)
        status =
            cuda_leave(CUDA_CALL(stream_create, &stream, CU_STREAM_NON_BLOCKING,
                                 urgent ? self->priority_urgent : self->priority_plain));
    if (status == TRYST_OK)
        *stream_p = stream;
    return status;
}

void cuda_stream_close(int32_t device, void *stream)
{
    if (cuda_enter(device, NULL) == TRYST_OK)
        (void)cuda_leave(CUDA_CALL(stream_destroy, stream));
}

tryst_status cuda_event_open(int32_t device, void **event_p)
{
    CUevent event = NULL;
    tryst_status status = cuda_enter(device, NULL);
    if (status == TRYST_OK)
        status = cuda_leave(CUDA_CALL(event_create, &event, CU_EVENT_DISABLE_TIMING));
    if (status == TRYST_OK)
        *event_p = event;
    return status;
}

void cuda_event_close(int32_t device, void *event)
{
    if (cuda_enter(device, NULL) == TRYST_OK)
        (void)cuda_leave(CUDA_CALL(event_destroy, event));
}

tryst_status cuda_event_record(int32_t device, void *stream, void *event)
{
    tryst_status status = cuda_enter(device, NULL);
    return status == TRYST_OK ? cuda_leave(CUDA_CALL(event_record, event, stream))
                              : status;
}

tryst_status cuda_event_query(int32_t device, void *event)
{
    tryst_status status = cuda_enter(device, NULL);
    return status == TRYST_OK ? cuda_leave(CUDA_CALL(event_query, event)) : status;
}

tryst_status cuda_stream_wait(int32_t device, void *stream, void *event)
{
    tryst_status status = cuda_enter(device, NULL);
    return status == TRYST_OK ? cuda_leave(CUDA_CALL(stream_wait_event, stream, event, 0))
                              : status;
}

/* ---- waiting for a word ---- */

/*
 * A stream waits for a word by the driver's own wait (cuStreamWaitValue32) where the
 * device supports it, else by a kernel of one thread that polls the word and sleeps 1 us
 * in between. The kernel is PTX text, which the driver compiles for the actual device. A
 * host function cannot wait instead: the driver calls the host functions of all streams
 * from one thread, so one that waits stops all streams.
 *
 * Wait and kernel compare as the driver defines GEQ: (int32_t)(*word - value) >= 0. They
 * read with acquire at system scope, so work behind them in the stream sees all that was
 * written before the word.
 */

/* Get the kernel. If two threads need it first at the same time, both load it, and one
 * copy stays unused. Release and acquire: a kernel that is visible is complete. */
static tryst_status kernel_get(struct cuda_device *self, CUfunction *kernel_p)
{
    CUmodule module;
    CUfunction kernel = atomic_load_explicit(&self->wait_kernel, memory_order_acquire);
    tryst_status status = TRYST_OK;
    if (!kernel) {
        status = CUDA_CALL(module_load, &module, cuda_wait_ptx);
        if (status == TRYST_OK)
            status = CUDA_CALL(module_function, &kernel, module, "tryst_wait_word");
        if (status != TRYST_OK)
            return status;
        atomic_store_explicit(&self->wait_kernel, kernel, memory_order_release);
    }
    *kernel_p = kernel;
    return TRYST_OK;
}

static tryst_status kernel_wait(struct cuda_device *self, CUstream stream,
                                CUdeviceptr word, uint32_t value)
{
    CUfunction kernel;
    void *arguments[] = {&word, &value};
    tryst_status status = kernel_get(self, &kernel);
    if (status != TRYST_OK)
        return status;
    return CUDA_CALL(launch, kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* Make a stream wait for a word. Pinned memory has one address for the host and for all
 * devices (unified addressing). */
tryst_status cuda_stream_wait_word(int32_t device, void *stream, const uint32_t *word,
                                   uint32_t value)
{
    struct cuda_device *self;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)word;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    if (cuda_driver.stream_wait_value)
        result = cuda_driver.stream_wait_value(stream, address, value,
                                               CU_STREAM_WAIT_VALUE_GEQ);
    return cuda_leave(result == CUDA_ERROR_NOT_SUPPORTED
                          ? kernel_wait(self, stream, address, value)
                          : cuda_status(result, "stream_wait_value"));
}
