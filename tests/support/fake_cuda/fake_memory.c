/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's memory: which bytes have a device address, and at which host address
 * they lie. */
#include "fake_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 512 };

struct range *fake_ranges; /* sorted by address */

struct range *fake_range_find(uintptr_t address)
{
    for (struct range *range = fake_ranges; range; range = range->next)
        if (address >= range->start && address - range->start < range->bytes)
            return range;
    return NULL;
}

struct range *fake_range_add(const struct range *model)
{
    struct range **at = &fake_ranges, *range = malloc(sizeof *range);
    if (!range)
        abort();
    *range = *model;
    while (*at && (*at)->start < range->start)
        at = &(*at)->next;
    range->next = *at;
    *at = range;
    return range;
}

void fake_range_remove(struct range *range)
{
    struct range **at = &fake_ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    free(range);
}

static bool is_in_a_window(uintptr_t address)
{
    for (int i = 0; i < fake_devices_count; i++)
        if (address - (uintptr_t)fake_devices[i].window < fake_device_bytes)
            return true;
    return false;
}

char *fake_reach(uintptr_t address, size_t bytes)
{
    struct range *range = fake_range_find(address);
    if (!range)
        return is_in_a_window(address) ? NULL : (char *)address; /* host memory */
    if (!range->accessible || bytes > range->bytes - (address - range->start))
        return NULL;
    return range->shadow + (address - range->start);
}

static char *reach_or_abort(const void *data, size_t bytes)
{
    pthread_mutex_lock(&fake_lock);
    char *at = fake_reach((uintptr_t)data, bytes);
    pthread_mutex_unlock(&fake_lock);
    if (!at)
        abort();
    return at;
}

void fake_cuda_read(const void *device_data, void *data, size_t bytes)
{
    memcpy(data, reach_or_abort(device_data, bytes), bytes);
}

void fake_cuda_write(void *device_data, const void *data, size_t bytes)
{
    memcpy(reach_or_abort(device_data, bytes), data, bytes);
}

/* --- device memory --- */

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* First fit; NULL when the device is full. */
static char *place_find(const struct fake_device *self, size_t bytes)
{
    char *end = self->window + fake_device_bytes, *at = self->window;
    for (struct range *range = fake_ranges; range; range = range->next) {
        char *start = (char *)range->start;
        if (start < at || start >= end)
            continue;
        if ((size_t)(start - at) >= bytes)
            return at;
        at = start + rounded(range->bytes);
    }
    return (size_t)(end - at) >= bytes ? at : NULL;
}

CUresult cuMemAlloc(CUdeviceptr *data, size_t bytes)
{
    int device;
    FAKE_ENTER(cuMemAlloc, device);
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct fake_device *self = &fake_devices[device];
    pthread_mutex_lock(&fake_lock);
    char *at = bytes <= fake_device_bytes ? place_find(self, rounded(bytes)) : NULL;
    if (at) {
        struct range model = {.start = (uintptr_t)at,
                              .bytes = bytes,
                              .shadow = self->shadow + (at - self->window),
                              .device = device,
                              .is_legacy = true,
                              .accessible = true,
                              .file = self->file,
                              .file_at = at - self->window};
        (void)fake_range_add(&model);
        fake_counts.allocations++;
        *data = (CUdeviceptr)at;
    }
    pthread_mutex_unlock(&fake_lock);
    return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr data)
{
    CUresult failure = fake_begin("cuMemFree"), result = CUDA_ERROR_INVALID_VALUE;
    int device = fake_current();
    if (device < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    fake_synchronize(device);
    struct range *range = fake_range_find(data);
    if (range && range->start == data && range->is_legacy && range->file_at >= 0) {
        (void)fallocate(range->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        range->file_at, (off_t)rounded(range->bytes));
        fake_range_remove(range);
        fake_counts.allocations--;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return failure ? failure : result;
}

static size_t bytes_used(int device)
{
    size_t bytes = 0;
    for (struct range *range = fake_ranges; range; range = range->next)
        if (range->device == device && range->is_legacy)
            bytes += rounded(range->bytes);
    return bytes;
}

CUresult cuMemGetInfo(size_t *bytes_free, size_t *bytes)
{
    int device;
    FAKE_ENTER(cuMemGetInfo, device);
    pthread_mutex_lock(&fake_lock);
    *bytes_free = fake_device_bytes - bytes_used(device);
    pthread_mutex_unlock(&fake_lock);
    *bytes = fake_device_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr data)
{
    int device;
    FAKE_ENTER(cuMemGetAddressRange, device);
    pthread_mutex_lock(&fake_lock);
    struct range *range = fake_range_find(data);
    if (range && range->device >= 0) {
        *base = range->start;
        *bytes = range->bytes;
    }
    bool found = range && range->device >= 0;
    pthread_mutex_unlock(&fake_lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* --- pinned host memory --- */

CUresult cuMemHostAlloc(void **data, size_t bytes, unsigned flags)
{
    int device;
    FAKE_ENTER(cuMemHostAlloc, device);
    if (flags != (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))
        return CUDA_ERROR_INVALID_VALUE;
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct range model = {.start = (uintptr_t)at,
                          .bytes = bytes,
                          .shadow = at,
                          .device = -1,
                          .accessible = true};
    pthread_mutex_lock(&fake_lock);
    (void)fake_range_add(&model);
    fake_counts.pinned++;
    pthread_mutex_unlock(&fake_lock);
    *data = at;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *data)
{
    CUresult failure = fake_begin("cuMemFreeHost");
    if (fake_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    fake_synchronize(-1);
    struct range *range = fake_range_find((uintptr_t)data);
    bool found = range && range->start == (uintptr_t)data && range->device < 0 &&
                 !range->is_registered;
    if (found) {
        munmap(data, range->bytes);
        fake_range_remove(range);
        fake_counts.pinned--;
    }
    pthread_mutex_unlock(&fake_lock);
    return failure ? failure : found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_pinned(uintptr_t start, size_t bytes)
{
    for (struct range *range = fake_ranges; range; range = range->next)
        if (start < range->start + range->bytes && range->start < start + bytes)
            return true;
    return false;
}

CUresult cuMemHostRegister(void *data, size_t bytes, unsigned flags)
{
    int device;
    uintptr_t start = (uintptr_t)data;
    FAKE_ENTER(cuMemHostRegister, device);
    if (flags != (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) || !bytes ||
        start % 4096)
        return CUDA_ERROR_INVALID_VALUE;
    struct range model = {.start = start,
                          .bytes = bytes,
                          .shadow = data,
                          .device = -1,
                          .accessible = true,
                          .is_registered = true};
    pthread_mutex_lock(&fake_lock);
    bool pinned = is_pinned(start, bytes);
    if (!pinned) {
        (void)fake_range_add(&model);
        fake_counts.pinned++;
    }
    pthread_mutex_unlock(&fake_lock);
    return pinned ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *data)
{
    CUresult failure = fake_begin("cuMemHostUnregister");
    if (fake_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    fake_synchronize(-1);
    struct range *range = fake_range_find((uintptr_t)data);
    bool found = range && range->start == (uintptr_t)data && range->is_registered;
    if (found) {
        fake_range_remove(range);
        fake_counts.pinned--;
    }
    pthread_mutex_unlock(&fake_lock);
    return failure ? failure
           : found ? CUDA_SUCCESS
                   : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* --- attributes of addresses --- */

static void attribute_write(const struct range *range, CUpointer_attribute what,
                            void *value)
{
    switch (what) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *)value = !range              ? 0
                                 : range->device < 0 ? CU_MEMORYTYPE_HOST
                                                     : CU_MEMORYTYPE_DEVICE;
        return;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = range ? range->device : -2;
        return;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value = 0; return;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)value = range && range->is_legacy;
        return;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)value =
            range && range->handle ? fake_handle_types(range->handle) : 0;
        return;
    default: abort();
    }
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *wanted,
                                void **values, CUdeviceptr data)
{
    FAKE_BEGIN(cuPointerGetAttributes);
    pthread_mutex_lock(&fake_lock);
    const struct range *range = fake_range_find(data);
    for (unsigned i = 0; i < count; i++)
        attribute_write(range, wanted[i], values[i]);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
