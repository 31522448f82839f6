/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a bulk lie: on the host, or on a device.
 *
 * One idea: tests look at bytes through `view`. On the host that is the memory itself; a device's is
 * copied there and back by the row of its kind, so the suite needs no driver in particular.
 * Invariant: nothing but place_put writes `data`, and nothing else of ours reads it than place_get.
 * Callers: traffic.c; harness.c opens the devices. */
#ifndef TESTS_CONFORMANCE_PLACE_H
#define TESTS_CONFORMANCE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/memory/memory.h"

struct conf_ctx;

enum { PLACE_DEVICES_MAX = 2 };

/* The devices of one rank. */
struct place_devices {
    const struct memory_ops *memory; /* NULL: none are used */
    int32_t count;
    void *streams[PLACE_DEVICES_MAX], *events[PLACE_DEVICES_MAX];
};

struct place {
    struct conf_ctx *ctx;
    const struct memory_ops *memory; /* NULL: host */
    int32_t device;
    uint8_t *data; /* what a transport is told */
    uint8_t *view;
    size_t bytes;
    struct tryst_mem *mem; /* where bulk buffers are regions */
};

void place_devices_open(struct conf_ctx *ctx);
void place_devices_close(struct conf_ctx *ctx);

/* `device` is taken modulo how many there are. */
void place_open(struct conf_ctx *ctx, bool on_device, uint64_t device, size_t bytes,
                struct place *place);
void place_close(struct place *place);
/* What was written into `view` is in place when it returns; and the other way. */
void place_put(struct place *place);
void place_get(struct place *place);

#endif
