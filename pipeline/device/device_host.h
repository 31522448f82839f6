/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the rows in host memory share (device_kernels.h documents them).
 * Each call of a session completes before it returns. So both lanes are one, every event
 * has passed, and only an allocation can fail. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_HOST_H
#define TRYST_PIPELINE_DEVICE_DEVICE_HOST_H

#include "device_kernels.h"

/** Limit of the rows of a head's scores that the host's attention holds at one time. */
enum { DEVICE_HOST_SCORE_ROWS = 64 };

/** Return the bytes of a lane's workspace: that many rows of scores and of their
 *  gradients, in a type of 8 bytes or less. */
static inline uint64_t device_host_workspace_bytes(int32_t seq)
{
    int32_t rows = seq < DEVICE_HOST_SCORE_ROWS ? seq : DEVICE_HOST_SCORE_ROWS;
    return 2 * (uint64_t)rows * (uint64_t)seq * sizeof(double);
}

/** Open a session of `kernels`; their `open` calls device_host_open with its own
 *  table. */
tryst_status device_host_open(const struct device_kernels *kernels, int32_t device,
                              tryst_precision precision,
                              struct device_session **session_p, char *error,
                              size_t error_capacity);
void device_host_close(struct device_session *session);
void device_host_context(struct device_session *session);
tryst_status device_host_status(struct device_session *session);
tryst_status device_host_idle(const struct device_lane *lane);
void device_host_memory_left(struct device_session *session, uint64_t *free_p,
                             uint64_t *total_p);
tryst_status device_host_alloc(struct device_session *session, uint64_t bytes,
                               void **data_p);
void device_host_free(struct device_session *session, void *data);
void device_host_copy(struct device_session *session, void *to, const void *from,
                      uint64_t bytes);
tryst_status device_host_event_open(struct device_session *session, void **event_p);
void device_host_event_close(struct device_session *session, void *event);
void device_host_event(const struct device_lane *lane, void *event);

#endif
