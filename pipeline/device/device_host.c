/* SPDX-License-Identifier: Apache-2.0 */
/* Implements device_host.h, for the tables of the rows `host` and `reference`. */
#include "device_host.h"

#include "pipeline/base/memory.h"

#include <stdio.h>

tryst_status device_host_open(const struct device_kernels *kernels, int32_t device,
                              tryst_precision precision,
                              struct device_session **session_p, char *error,
                              size_t error_capacity)
{
    if (device != 0) {
        snprintf(error, error_capacity,
                 "device %d does not exist for the %s kernels; must be 0, the host",
                 (int)device, kernels->name);
        return TRYST_E_UNSUPPORTED;
    }
    struct device_session *session = calloc(1, sizeof(*session));
    if (!session) {
        snprintf(error, error_capacity, "out of memory for a session of the %s kernels",
                 kernels->name);
        return TRYST_E_NOMEM;
    }
    *session = (struct device_session){.kernels = kernels,
                                       .precision = precision,
                                       .dtype = device_precision_dtype(precision),
                                       .wide = device_precision_wide(precision)};
    for (int32_t i = 0; i < DEVICE_LANES; i++) {
        session->lanes[i] = (struct device_lane){.session = session, .index = i};
    }
    *session_p = session;
    return TRYST_OK;
}

void device_host_close(struct device_session *session)
{
    free(session);
}

void device_host_context(struct device_session *session)
{
    (void)session;
}

tryst_status device_host_status(struct device_session *session)
{
    return session->status;
}

tryst_status device_host_idle(const struct device_lane *lane)
{
    (void)lane;
    return TRYST_OK;
}

void device_host_memory_left(struct device_session *session, uint64_t *free_p,
                             uint64_t *total_p)
{
    (void)session;
    *free_p = 0;
    *total_p = 0;
}

tryst_status device_host_alloc(struct device_session *session, uint64_t bytes,
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

void device_host_free(struct device_session *session, void *data)
{
    (void)session;
    free(data);
}

void device_host_copy(struct device_session *session, void *to, const void *from,
                      uint64_t bytes)
{
    (void)session;
    memcpy(to, from, bytes);
}

tryst_status device_host_event_open(struct device_session *session, void **event_p)
{
    (void)session;
    *event_p = NULL;
    return TRYST_OK;
}

void device_host_event_close(struct device_session *session, void *event)
{
    (void)session;
    (void)event;
}

void device_host_event(const struct device_lane *lane, void *event)
{
    (void)lane;
    (void)event;
}
