/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: their number, properties and primary contexts.
 *
 * Idea: counting devices is cheap and creates no context. A device's context takes
 * hundreds of megabytes of its memory, and is created when the device is first used.
 * Invariant: once retained[i] is set, devices[i].context does not change. It is written
 * under device_lock, and read elsewhere only after retained[i] was found set (acquire).
 */
#include "cuda_private.h"

#include <stdio.h>
#include <string.h>

#include "transports/signal_guard.h"

static struct cuda_device devices[CUDA_DEVICES_MAX];
static _Atomic bool retained[CUDA_DEVICES_MAX]; /* stored with release */
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

static tryst_status count_get(int *count_p)
{
    int count = 0;
    tryst_status status = cuda_driver_open();
    if (status == TRYST_OK)
        status = CUDA_CALL(device_count, &count);
    if (status != TRYST_OK)
        return status;
    if (count == 0)
        return cuda_error_set(TRYST_E_UNSUPPORTED,
                              "no CUDA device is visible: check CUDA_VISIBLE_DEVICES");
    *count_p = count;
    return TRYST_OK;
}

/* Write, for example, "2: NVIDIA A, NVIDIA B; driver for CUDA 13.0". */
static tryst_status names_write(int count, char *text)
{
    char name[64];
    CUdevice device;
    int version = 0;
    size_t at = (size_t)snprintf(text, TRANSPORT_TEXT_MAX, "%d: ", count);
    for (int i = 0; i < count && at < TRANSPORT_TEXT_MAX; i++) {
        if (CUDA_CALL(device_get, &device, i) != TRYST_OK ||
            CUDA_CALL(device_name, name, sizeof name, device) != TRYST_OK)
            return TRYST_E_SYSTEM;
        at += (size_t)snprintf(text + at, TRANSPORT_TEXT_MAX - at, "%s%s", i ? ", " : "",
                               name);
    }
    tryst_status status = CUDA_CALL(driver_version, &version);
    if (status == TRYST_OK && at < TRANSPORT_TEXT_MAX)
        (void)snprintf(text + at, TRANSPORT_TEXT_MAX - at, "; driver for CUDA %d.%d",
                       version / 1000, version % 1000 / 10);
    return status;
}

tryst_status cuda_devices(int32_t *count_p, char *text)
{
    int count;
    tryst_status status = count_get(&count);
    if (status == TRYST_OK)
        status = names_write(count, text);
    if (status != TRYST_OK) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX, "%s", cuda_error_text());
        return TRYST_E_UNSUPPORTED;
    }
    *count_p = count < CUDA_DEVICES_MAX ? count : CUDA_DEVICES_MAX;
    return TRYST_OK;
}

/* --- contexts --- */

static tryst_status context_retain(struct cuda_device *self, int32_t ordinal)
{
    sigset_t mask;
    tryst_status status = CUDA_CALL(device_get, &self->device, ordinal);
    if (status != TRYST_OK)
        return status;
    signal_mask_begin(&mask); /* the driver starts threads */
    status = CUDA_CALL(primary_retain, &self->context, self->device);
    signal_mask_end(&mask);
    return status;
}

/* Retain a device's context. Under device_lock: only its holder reads a device that is
 * not retained yet. */
static tryst_status device_start(int32_t ordinal)
{
    struct cuda_device *self = &devices[ordinal];
    tryst_status status = context_retain(self, ordinal);
    if (status == TRYST_OK)
        status = CUDA_CALL(context_push, self->context);
    if (status == TRYST_OK)
        status = cuda_leave(
            CUDA_CALL(context_priorities, &self->priority_plain, &self->priority_urgent));
    if (status == TRYST_OK)
        atomic_store_explicit(&retained[ordinal], true, memory_order_release);
    return status;
}

static tryst_status device_start_once(int32_t ordinal)
{
    int count;
    tryst_status status = count_get(&count);
    if (status != TRYST_OK)
        return status;
    if (ordinal >= count)
        return cuda_error_set(TRYST_E_INVALID, "no CUDA device %d: there are %d", ordinal,
                              count);
    pthread_mutex_lock(&device_lock);
    if (!atomic_load_explicit(&retained[ordinal], memory_order_relaxed))
        status = device_start(ordinal);
    pthread_mutex_unlock(&device_lock);
    return status;
}

tryst_status cuda_enter(int32_t device, struct cuda_device **device_p)
{
    if (device < 0 || device >= CUDA_DEVICES_MAX)
        return cuda_error_set(TRYST_E_INVALID, "no CUDA device %d", device);
    if (!atomic_load_explicit(&retained[device], memory_order_acquire)) {
        tryst_status status = device_start_once(device);
        if (status != TRYST_OK)
            return status;
    }
    if (device_p)
        *device_p = &devices[device];
    return CUDA_CALL(context_push, devices[device].context);
}

tryst_status cuda_leave(tryst_status status)
{
    CUcontext ours;
    (void)cuda_driver.context_pop(&ours);
    return status;
}

void cuda_peer_enable(struct cuda_device *device, int32_t other)
{
    int can = 0;
    struct cuda_device *peer;
    uint64_t bit = UINT64_C(1) << other;
    if (atomic_fetch_or_explicit(&device->peers_tried, bit, memory_order_relaxed) & bit)
        return;
    if (cuda_enter(other, &peer) != TRYST_OK) /* creates its context if need be */
        return;
    (void)cuda_leave(TRYST_OK);
    if (cuda_driver.device_can_access(&can, device->device, peer->device) ==
            CUDA_SUCCESS &&
        can)
        (void)cuda_driver.context_enable_peer(peer->context, 0);
}

/* --- properties --- */

static tryst_status describe(CUdevice device, tryst_device_info *info)
{
    size_t bytes = 0;
    tryst_status status = CUDA_CALL(device_name, info->name, sizeof info->name, device);
    if (status == TRYST_OK)
        status = CUDA_CALL(device_bus_id, info->bus_id, sizeof info->bus_id, device);
    if (status == TRYST_OK)
        status = CUDA_CALL(device_total, &bytes, device);
    if (status == TRYST_OK)
        status = CUDA_CALL(device_attribute, &info->version_major,
                           CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (status == TRYST_OK)
        status = CUDA_CALL(device_attribute, &info->version_minor,
                           CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    info->bytes = bytes;
    return status;
}

/* Get the free bytes, which the driver reports inside a context only. If the device has
 * no context yet, leave *bytes_free_p unset: creating one would use up free memory. */
static tryst_status bytes_free_get(int32_t ordinal, uint64_t *bytes_free_p)
{
    size_t bytes = 0, bytes_free = 0;
    if (!atomic_load_explicit(&retained[ordinal], memory_order_acquire))
        return TRYST_OK;
    tryst_status status = cuda_enter(ordinal, NULL);
    if (status != TRYST_OK)
        return status;
    status = cuda_leave(CUDA_CALL(mem_info, &bytes_free, &bytes));
    *bytes_free_p = bytes_free;
    return status;
}

tryst_status cuda_describe(int32_t device, tryst_device_info *info_p)
{
    tryst_device_info info = *info_p;
    CUdevice found;
    int count;
    tryst_status status = count_get(&count);
    if (status != TRYST_OK)
        return status;
    if (device < 0 || device >= count || device >= CUDA_DEVICES_MAX)
        return cuda_error_set(TRYST_E_INVALID, "no CUDA device %d: there are %d", device,
                              count);
    status = CUDA_CALL(device_get, &found, device);
    if (status == TRYST_OK)
        status = describe(found, &info);
    if (status == TRYST_OK)
        status = bytes_free_get(device, &info.bytes_free);
    if (status == TRYST_OK)
        *info_p = info;
    return status;
}
