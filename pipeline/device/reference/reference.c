/* SPDX-License-Identifier: Apache-2.0 */
/* The reference row of device kernels: plain C, in host memory, done when a call returns. So its
 * lanes are one, its events have always passed, and nothing fails but an allocation.
 *
 * Every operation is as short as its definition: what the CUDA kernels are compared
 * with, as in Karpathy's llm.c. Called by device_stage.c through the table. */
#include "attention.h"
#include "column_sum.h"
#include "cross_entropy.h"
#include "elements.h"
#include "embedding.h"
#include "gelu.h"
#include "norm.h"
#include "product.h"
#include "update.h"

#include "pipeline/base/fail.h"
#include "pipeline/base/memory.h"

static tryst_status reference_open(int32_t device, tryst_precision precision,
                                   device_session **session_p, char *error,
                                   size_t error_capacity)
{
    if (device != 0) {
        return fail_text(TRYST_E_UNSUPPORTED, error, error_capacity,
                         "there is no device %d for the reference kernels; the host is 0",
                         (int)device);
    }
    device_session *session = calloc(1, sizeof(*session));
    if (!session) {
        return fail_text(TRYST_E_NOMEM, error, error_capacity,
                         "no memory for a session of the reference kernels");
    }
    *session = (device_session){.kernels = &device_kernels_reference,
                                .precision = precision,
                                .dtype = device_precision_dtype(precision),
                                .wide = device_precision_wide(precision)};
    for (int32_t i = 0; i < DEVICE_LANES; i++) {
        session->lanes[i] = (device_lane){.session = session, .index = i};
    }
    *session_p = session;
    return TRYST_OK;
}

static void reference_close(device_session *session)
{
    free(session);
}

static void reference_context(device_session *session)
{
    (void)session;
}

static tryst_status reference_status(device_session *session)
{
    return session->status;
}

static tryst_status reference_idle(const device_lane *lane)
{
    (void)lane;
    return TRYST_OK;
}

static void reference_memory_left(device_session *session, uint64_t *free_p,
                                  uint64_t *total_p)
{
    (void)session;
    *free_p = 0;
    *total_p = 0;
}

static tryst_status reference_alloc(device_session *session, uint64_t bytes,
                                    void **data_p)
{
    (void)session;
    void *data = memory_alloc_aligned(bytes);
    if (!data) {
        return TRYST_E_NOMEM;
    }
    *data_p = data;
    return TRYST_OK;
}

static void reference_free(device_session *session, void *data)
{
    (void)session;
    free(data);
}

static void reference_copy(device_session *session, void *to, const void *from,
                           uint64_t bytes)
{
    (void)session;
    memcpy(to, from, bytes);
}

static tryst_status reference_event_open(device_session *session, void **event_p)
{
    (void)session;
    *event_p = NULL;
    return TRYST_OK;
}

static void reference_event_close(device_session *session, void *event)
{
    (void)session;
    (void)event;
}

static void reference_event(const device_lane *lane, void *event)
{
    (void)lane;
    (void)event;
}

const device_kernels device_kernels_reference = {
    .struct_size = sizeof(device_kernels),
    .name = "reference",
    .memory = TRYST_MEMORY_HOST,
    .head_width_max = REFERENCE_HEAD_WIDTH_MAX,
    .open = reference_open,
    .close = reference_close,
    .enter = reference_context,
    .leave = reference_context,
    .status = reference_status,
    .idle = reference_idle,
    .memory_left = reference_memory_left,
    .alloc = reference_alloc,
    .free = reference_free,
    .pinned_alloc = reference_alloc,
    .pinned_free = reference_free,
    .copy = reference_copy,
    .event_open = reference_event_open,
    .event_close = reference_event_close,
    .event_record = reference_event,
    .event_wait = reference_event,
    .product = reference_product,
    .column_sum = reference_column_sum,
    .embedding_forward = reference_embedding_forward,
    .embedding_backward = reference_embedding_backward,
    .norm_forward = reference_norm_forward,
    .norm_backward_input = reference_norm_backward_input,
    .norm_backward_weight = reference_norm_backward_weight,
    .attention_forward = reference_attention_forward,
    .attention_backward = reference_attention_backward,
    .gelu_backward = reference_gelu_backward,
    .add = reference_add,
    .duplicate = reference_duplicate,
    .cross_entropy_forward = reference_cross_entropy_forward,
    .cross_entropy_backward = reference_cross_entropy_backward,
    .loss_mean = reference_loss_mean,
    .update = reference_update,
    .round = reference_round,
};
