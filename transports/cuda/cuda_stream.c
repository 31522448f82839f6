/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events.
 *
 * Our streams are non-blocking: the default stream neither waits for them nor makes them wait.
 * Events measure no time, which makes recording them cheap.
 */
#include "cuda_stream.h"
#include "cuda_private.h"

tryst_status cuda_stream_open(int32_t device, bool urgent, void **stream_p)
{
    struct cuda_device *self;
    CUstream stream = NULL;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(stream_create, &stream, CU_STREAM_NON_BLOCKING,
                       urgent ? self->priority_urgent : self->priority_plain);
    cuda_leave();
    if (status == TRYST_OK)
        *stream_p = stream;
    return status;
}

void cuda_stream_close(int32_t device, void *stream)
{
    struct cuda_device *self;
    if (cuda_enter(device, &self) != TRYST_OK)
        return;
    (void)CUDA_CALL(stream_destroy, stream);
    cuda_leave();
}

tryst_status cuda_event_open(int32_t device, void **event_p)
{
    struct cuda_device *self;
    CUevent event = NULL;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(event_create, &event, CU_EVENT_DISABLE_TIMING);
    cuda_leave();
    if (status == TRYST_OK)
        *event_p = event;
    return status;
}

void cuda_event_close(int32_t device, void *event)
{
    struct cuda_device *self;
    if (cuda_enter(device, &self) != TRYST_OK)
        return;
    (void)CUDA_CALL(event_destroy, event);
    cuda_leave();
}

tryst_status cuda_event_record(int32_t device, void *stream, void *event)
{
    struct cuda_device *self;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(event_record, event, stream);
    cuda_leave();
    return status;
}

tryst_status cuda_event_query(int32_t device, void *event)
{
    struct cuda_device *self;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(event_query, event);
    cuda_leave();
    return status;
}

tryst_status cuda_stream_wait(int32_t device, void *stream, void *event)
{
    struct cuda_device *self;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(stream_wait_event, stream, event, 0);
    cuda_leave();
    return status;
}
