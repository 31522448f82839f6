/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a bulk lie: on the host, or on a device.
 *
 * One idea: tests access the bytes through `view`. For host memory, the view is the
 * memory itself; device memory is copied to and from the view by the memory ops of its
 * kind, so the suite depends on no particular driver.
 * Invariant: within the suite only place_put writes `data`, and only place_get reads
 * `data`. */
#ifndef TRYST_TESTS_TRANSPORTS_CONFORMANCE_PLACE_H
#define TRYST_TESTS_TRANSPORTS_CONFORMANCE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/memory/memory.h"

struct conf_ctx;

enum { PLACE_DEVICES_MAX = 2 };

/** The devices of one rank. */
struct place_devices {
    const struct memory_ops *memory; /**< NULL: no device is used */
    int32_t count;
    void *streams[PLACE_DEVICES_MAX], *events[PLACE_DEVICES_MAX];
};

struct place {
    struct conf_ctx *ctx;
    const struct memory_ops *memory; /**< NULL: host */
    int32_t device;
    uint8_t *data; /**< the address that the transport gets */
    uint8_t *view;
    size_t bytes;
    struct tryst_mem *mem; /**< set where bulk buffers are regions */
};

void place_devices_open(struct conf_ctx *ctx);
void place_devices_close(struct conf_ctx *ctx);

/** `device` is taken modulo the number of devices. */
void place_open(struct conf_ctx *ctx, bool on_device, uint64_t device, size_t bytes,
                struct place *place);
void place_close(struct place *place);
/** Copy the view to `data`, complete on return; place_get copies `data` to the view. */
void place_put(struct place *place);
void place_get(struct place *place);

#endif
