/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory, pinned host memory, and copies between them.
 *
 * Allocations are plain ones (cuMemAlloc), which other processes may open by legacy
 * handles. Freeing waits until the device has completed all earlier work: a program that
 * frees often should use the pool (tryst/pool.h).
 */
#include "cuda_memory.h"
#include "cuda_private.h"

tryst_status cuda_alloc(int32_t device, size_t bytes, void **data_p, int *fd_p)
{
    CUdeviceptr data = 0;
    tryst_status status = cuda_enter(device, NULL);
    if (status == TRYST_OK)
        status = cuda_leave(CUDA_CALL(mem_alloc, &data, bytes ? bytes : 1));
    if (status != TRYST_OK)
        return status;
    *data_p = (void *)(uintptr_t)data;
    *fd_p = -1;
    return TRYST_OK;
}

void cuda_free(int32_t device, void *data, size_t bytes, int fd)
{
    (void)bytes;
    (void)fd;
    if (cuda_enter(device, NULL) == TRYST_OK)
        (void)cuda_leave(CUDA_CALL(mem_free, (CUdeviceptr)(uintptr_t)data));
}

/* Allocate pinned memory. Portable: pinned for all devices. Mapped: streams can wait for
 * words in it. */
tryst_status cuda_pinned_alloc(int32_t device, size_t bytes, void **data_p)
{
    void *data = NULL;
    tryst_status status = cuda_enter(device, NULL);
    if (status == TRYST_OK)
        status =
            cuda_leave(CUDA_CALL(host_alloc, &data, bytes ? bytes : 1,
                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (status == TRYST_OK)
        *data_p = data;
    return status;
}

void cuda_pinned_free(int32_t device, void *data, size_t bytes)
{
    (void)bytes;
    if (cuda_enter(device, NULL) == TRYST_OK)
        (void)cuda_leave(CUDA_CALL(host_free, data));
}

tryst_status cuda_pin(int32_t device, void *data, size_t bytes)
{
    tryst_status status = cuda_enter(device, NULL);
    if (status == TRYST_OK)
        status = cuda_leave(
            CUDA_CALL(host_register, data, bytes,
                      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    return status;
}

void cuda_unpin(int32_t device, void *data, size_t bytes)
{
    (void)bytes;
    if (cuda_enter(device, NULL) == TRYST_OK)
        (void)cuda_leave(CUDA_CALL(host_unregister, data));
}

/* Get the device that holds `data`, or -1 for host memory, pinned or not. */
static int32_t device_of(const void *data)
{
    CUmemorytype type = 0;
    int ordinal = -1;
    unsigned managed = 0;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &ordinal, &managed};
    /* For an unknown address the driver reports zero and no error. */
    if (cuda_driver.pointer_attributes(3, wanted, values, (CUdeviceptr)(uintptr_t)data) !=
            CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE || managed)
        return -1;
    return ordinal < CUDA_DEVICES_MAX ? ordinal : -1;
}

tryst_status cuda_locate(const void *data, int32_t *device_p)
{
    tryst_status status = cuda_driver_open();
    if (status != TRYST_OK)
        return status;
    int32_t device = device_of(data);
    if (device < 0)
        return cuda_error_set(TRYST_E_INVALID, "not CUDA device memory: %p", data);
    *device_p = device;
    return TRYST_OK;
}

/* Enable peer access to the devices of `a` and `b`, so that copies between devices go
 * directly. */
static void peers_enable(struct cuda_device *self, int32_t device, const void *a,
                         const void *b)
{
    int32_t at_a = device_of(a), at_b = device_of(b);
    if (at_a >= 0 && at_a != device)
        cuda_peer_enable(self, at_a);
    if (at_b >= 0 && at_b != device)
        cuda_peer_enable(self, at_b);
}

tryst_status cuda_copy_async(int32_t device, void *stream, void *dst, const void *src,
                             size_t bytes)
{
    struct cuda_device *self;
    tryst_status status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    peers_enable(self, device, dst, src);
    return cuda_leave(CUDA_CALL(copy_async, (CUdeviceptr)(uintptr_t)dst,
                                (CUdeviceptr)(uintptr_t)src, bytes, stream));
}
