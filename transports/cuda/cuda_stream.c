/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events, and words in pinned host memory that streams wait for and write.
 *
 * Streams are non-blocking: the default stream neither waits for them nor makes them
 * wait. Events record no time, so recording is cheap.
 */
#include "cuda_stream.h"
#include "cuda_private.h"
#include "cuda_words_ptx.h"

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

/* ---- words ---- */

/*
 * A stream waits for a word, and writes one, by the driver's own operations
 * (cuStreamWaitValue32, cuStreamWriteValue32) where the device supports them, else by a
 * kernel of one thread. The waiting kernel polls the word and sleeps 1 us in between. The
 * kernels are PTX text, which the driver compiles for the actual device. A host function
 * cannot wait instead: the driver calls the host functions of all streams from one
 * thread, so one that waits stops all streams.
 *
 * Wait and kernel compare as the driver defines GEQ: (int32_t)(*word - value) >= 0. They
 * read with acquire at system scope, so work behind them in the stream sees all that was
 * written before the word; and they write with release.
 */

/* Load both kernels. */
static tryst_status kernels_load(struct cuda_device *self)
{
    static const char *const names[] = {
        [CUDA_WAIT_WORD] = "tryst_wait_word", [CUDA_WRITE_WORD] = "tryst_write_word"};
    CUmodule module;
    tryst_status status = CUDA_CALL(module_load, &module, cuda_words_ptx);
    for (int i = 0; i < CUDA_KERNELS && status == TRYST_OK; i++) {
        CUfunction kernel;
        status = CUDA_CALL(module_function, &kernel, module, names[i]);
        if (status == TRYST_OK)
            atomic_store_explicit(&self->kernels[i], kernel, memory_order_release);
    }
    return status;
}

/* Launch a kernel. If two threads need the kernels first at the same time, both load
 * them, and one copy stays unused. Release and acquire: a kernel that is visible is
 * complete. */
static tryst_status kernel_launch(struct cuda_device *self, enum cuda_kernel which,
                                  CUstream stream, CUdeviceptr word, uint32_t value)
{
    void *arguments[] = {&word, &value};
    tryst_status status = TRYST_OK;
    if (!atomic_load_explicit(&self->kernels[which], memory_order_acquire))
        status = kernels_load(self);
    if (status != TRYST_OK)
        return status;
    CUfunction kernel = atomic_load_explicit(&self->kernels[which], memory_order_acquire);
    return CUDA_CALL(launch, kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* Refuse a stream that is being captured: what is queued in it would run in each launch
 * of the graph, and not now. */
static tryst_status capture_check(CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!cuda_driver.stream_is_capturing)
        return TRYST_OK;
    tryst_status status = CUDA_CALL(stream_is_capturing, stream, &capture);
    if (status != TRYST_OK || capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return status;
    return cuda_error_set(TRYST_E_UNSUPPORTED,
                          "the stream is being captured into a CUDA graph");
}

/* Pinned memory has one address for the host and for all devices (unified
 * addressing). */
static CUdeviceptr address_of(const uint32_t *word)
{
    return (CUdeviceptr)(uintptr_t)word;
}

/* An operation of a stream on a word: the driver's, or a kernel where it has none. */
struct word_call {
    CUresult (*call)(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags);
    unsigned flags;
    enum cuda_kernel kernel;
    const char *name;
};

static tryst_status word_queue(const struct word_call *how, int32_t device, void *stream,
                               const uint32_t *word, uint32_t value)
{
    struct cuda_device *self;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = capture_check(stream);
    if (status == TRYST_OK && how->call)
        result = how->call(stream, address_of(word), value, how->flags);
    if (status == TRYST_OK)
        status = result == CUDA_ERROR_NOT_SUPPORTED
                     ? kernel_launch(self, how->kernel, stream, address_of(word), value)
                     : cuda_status(result, how->name);
    return cuda_leave(status);
}

tryst_status cuda_stream_wait_word(int32_t device, void *stream, const uint32_t *word,
                                   uint32_t value)
{
    const struct word_call wait = {cuda_driver.stream_wait_value,
                                   CU_STREAM_WAIT_VALUE_GEQ, CUDA_WAIT_WORD,
                                   "stream_wait_value"};
    return word_queue(&wait, device, stream, word, value);
}

tryst_status cuda_stream_write_word(int32_t device, void *stream, uint32_t *word,
                                    uint32_t value)
{
    const struct word_call write = {cuda_driver.stream_write_value,
                                    CU_STREAM_WRITE_VALUE_DEFAULT, CUDA_WRITE_WORD,
                                    "stream_write_value"};
    return word_queue(&write, device, stream, word, value);
}
