/* SPDX-License-Identifier: Apache-2.0 */
/* The memory ops of the cuda module, loaded as a context loads them, over the driver
 * named by TRYST_CUDA_DRIVER. */
#ifndef TRYST_TESTS_TRANSPORTS_CUDA_ROW_H
#define TRYST_TESTS_TRANSPORTS_CUDA_ROW_H

#include <cuda.h>

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/text/err.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/patience.h"
#include "support/unit.h"
#include "transports/device.h"
#include "transports/module.h"

#define CHECK(condition)                                                            \
    ((condition) ? (void)0                                                          \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), \
                    fflush(stderr), abort()))

static inline tryst_status row_load(const struct memory_ops **row_p, char *text)
{
    static struct log log = LOG_INIT;
    struct config *config;
    struct err err = {0};
    struct tryst_host host;
    CHECK(config_open(&log, &err, &config) == TRYST_OK);
    module_host_init(&host, config, &log);
    tryst_status status = memory_ops_load(&host, TRYST_MEMORY_CUDA, row_p, text);
    config_close(config);
    return status;
}

static inline const struct memory_ops *row_get(void)
{
    const struct memory_ops *row = NULL;
    char text[TRANSPORT_TEXT_MAX];
    tryst_status status = row_load(&row, text);
    if (status != TRYST_OK)
        fprintf(stderr, "%s\n", text);
    CHECK(status == TRYST_OK);
    return row;
}

/** Wait until an event has passed. */
static inline tryst_status row_wait(const struct memory_ops *row, int32_t device,
                                    void *event)
{
    tryst_status status;
    while ((status = row->event_query(device, event)) == TRYST_IN_PROGRESS)
        sched_yield();
    return status;
}

#endif
