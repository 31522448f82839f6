/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of other processes of this machine.
 *
 * Memory is exported in one of three ways, which depend on its allocation. A plain
 * allocation has a *legacy* handle. Memory that was mapped piecewise (cuMemMap, as
 * PyTorch's expandable segments are) is exported as a *descriptor* or as a *fabric*
 * handle, if it was allocated with that type of handle. Memory of a stream-ordered pool
 * (cudaMallocAsync) has none of these. Each handle names the whole allocation, and an
 * offset leads to the range.
 *
 * An offer to import comes from a peer: its sizes are checked here, and the driver
 * refuses a mapping that is longer than the allocation behind it.
 */
#include "cuda_ipc.h"
#include "cuda_private.h"

#include <string.h>

_Static_assert(sizeof(CUipcMemHandle) == sizeof((struct memory_ipc *)0)->handle,
               "a legacy handle fits");
_Static_assert(sizeof(CUmemFabricHandle) == sizeof((struct memory_ipc *)0)->handle,
               "a fabric handle fits");

/* --- export --- */

/* The driver's attributes of an address. */
struct range {
    CUdeviceptr base;
    size_t bytes;
    uint32_t is_legacy;    /* a legacy handle can be exported */
    uint64_t handle_types; /* CUmemAllocationHandleType, as bits */
};

static tryst_status range_get(const void *data, struct range *range)
{
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES};
    void *values[] = {&range->is_legacy, &range->handle_types};
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)data;
    tryst_status status = CUDA_CALL(mem_range, &range->base, &range->bytes, address);
    if (status == TRYST_OK)
        status = CUDA_CALL(pointer_attributes, 2, wanted, values, address);
    return status;
}

static tryst_status legacy_export(const struct range *range, struct memory_ipc *ipc)
{
    CUipcMemHandle handle;
    tryst_status status = CUDA_CALL(ipc_get, &handle, range->base);
    if (status != TRYST_OK)
        return status;
    ipc->how = MEMORY_IPC_LEGACY;
    memcpy(ipc->handle, &handle, sizeof handle);
    return TRYST_OK;
}

static tryst_status mapped_export(const void *data, CUmemAllocationHandleType type,
                                  void *shareable)
{
    CUmemGenericAllocationHandle handle;
    tryst_status status = CUDA_CALL(handle_retain, &handle, (void *)(uintptr_t)data);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(handle_export, shareable, handle, type, 0);
    (void)cuda_driver.handle_release(handle);
    return status;
}

static tryst_status descriptor_export(const void *data, struct memory_ipc *ipc, int *fd_p)
{
    int fd = -1;
    tryst_status status =
        mapped_export(data, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, &fd);
    if (status != TRYST_OK)
        return status;
    ipc->how = MEMORY_IPC_DESCRIPTOR;
    *fd_p = fd;
    return TRYST_OK;
}

static tryst_status fabric_export(const void *data, struct memory_ipc *ipc)
{
    ipc->how = MEMORY_IPC_FABRIC;
    return mapped_export(data, CU_MEM_HANDLE_TYPE_FABRIC, ipc->handle);
}

static bool mapping_is_there(void)
{
    const struct cuda_driver *driver = &cuda_driver;
    return driver->handle_retain && driver->handle_export && driver->handle_import &&
           driver->handle_release && driver->address_reserve && driver->address_free &&
           driver->map && driver->unmap && driver->map_access;
}

static tryst_status range_export(const struct range *range, const void *data,
                                 struct memory_ipc *ipc, int *fd_p)
{
    if (range->is_legacy)
        return legacy_export(range, ipc);
    if (mapping_is_there() &&
        (range->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return descriptor_export(data, ipc, fd_p);
    if (mapping_is_there() && (range->handle_types & CU_MEM_HANDLE_TYPE_FABRIC))
        return fabric_export(data, ipc);
    return cuda_error_set(TRYST_E_UNSUPPORTED,
                          "cannot export the CUDA memory at %p: it was allocated without "
                          "a handle for other processes (cudaMallocAsync?)",
                          data);
}

/* Check that the range lies in one allocation: a range that spans several has no
 * handle. */
static tryst_status range_check(const struct range *range, const void *data, size_t bytes)
{
    uint64_t offset = (uintptr_t)data - range->base;
    if (bytes <= range->bytes && offset <= range->bytes - bytes)
        return TRYST_OK;
    return cuda_error_set(
        TRYST_E_UNSUPPORTED,
        "cannot export %zu bytes at %p: not within one CUDA allocation (%zu bytes)",
        bytes, data, range->bytes);
}

tryst_status cuda_ipc_export(int32_t device, const void *data, size_t bytes,
                             struct memory_ipc *ipc_p, int *fd_p)
{
    struct memory_ipc ipc = {0};
    struct range range = {0};
    int fd = -1;
    tryst_status status = cuda_enter(device, NULL);
    if (status != TRYST_OK)
        return status;
    status = range_get(data, &range);
    if (status == TRYST_OK)
        status = range_check(&range, data, bytes);
    if (status == TRYST_OK)
        status = range_export(&range, data, &ipc, &fd);
    if (cuda_leave(status) != TRYST_OK)
        return status;
    ipc.base = range.base;
    ipc.bytes = range.bytes;
    ipc.offset = (uintptr_t)data - range.base;
    *ipc_p = ipc;
    *fd_p = fd;
    return TRYST_OK;
}

/* --- import --- */

/* Check a peer's offer: sizes that would wrap, or a range outside of its allocation, are
 * refused. */
static tryst_status offer_check(const struct memory_ipc *ipc, int fd)
{
    bool known = ipc->how == MEMORY_IPC_LEGACY || ipc->how == MEMORY_IPC_FABRIC ||
                 (ipc->how == MEMORY_IPC_DESCRIPTOR && fd >= 0);
    if (known && ipc->bytes > 0 && ipc->bytes <= PTRDIFF_MAX && ipc->offset < ipc->bytes)
        return TRYST_OK;
    return cuda_error_set(TRYST_E_INVALID,
                          "not a valid offer of CUDA memory: kind %u, %llu bytes",
                          ipc->how, (unsigned long long)ipc->bytes);
}

static tryst_status legacy_import(const struct memory_ipc *ipc, CUdeviceptr *base_p)
{
    CUipcMemHandle handle;
    memcpy(&handle, ipc->handle, sizeof handle);
    return CUDA_CALL(ipc_open, base_p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* Map `handle`. The caller releases the handle in any case, since the mapping keeps the
 * memory. */
static tryst_status handle_map(const struct cuda_device *self, size_t bytes,
                               CUmemGenericAllocationHandle handle, CUdeviceptr *base_p)
{
    CUdeviceptr base = 0;
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = self->device},
        /* read and write: devices support no other protection */
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    tryst_status status = CUDA_CALL(address_reserve, &base, bytes, 0, 0, 0);
    if (status != TRYST_OK)
        return status;
    status = CUDA_CALL(map, base, bytes, 0, handle, 0);
    if (status != TRYST_OK)
        goto free_address;
    status = CUDA_CALL(map_access, base, bytes, &access, 1);
    if (status != TRYST_OK)
        goto unmap;
    *base_p = base;
    return TRYST_OK;
unmap:
    (void)cuda_driver.unmap(base, bytes);
free_address:
    (void)cuda_driver.address_free(base, bytes);
    return status;
}

static tryst_status mapped_import(const struct cuda_device *self,
                                  const struct memory_ipc *ipc, int fd,
                                  CUdeviceptr *base_p)
{
    CUmemGenericAllocationHandle handle;
    bool by_fd = ipc->how == MEMORY_IPC_DESCRIPTOR;
    CUmemFabricHandle fabric;
    void *shareable = by_fd ? (void *)(uintptr_t)fd : &fabric;
    memcpy(&fabric, ipc->handle, sizeof fabric);
    if (!mapping_is_there())
        return cuda_error_set(
            TRYST_E_UNSUPPORTED,
            "cannot import CUDA memory: this driver cannot map handles");
    tryst_status status = CUDA_CALL(handle_import, &handle, shareable,
                                    by_fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                          : CU_MEM_HANDLE_TYPE_FABRIC);
    if (status != TRYST_OK)
        return status;
    status = handle_map(self, ipc->bytes, handle, base_p);
    (void)cuda_driver.handle_release(handle);
    return status;
}

tryst_status cuda_ipc_import(int32_t device, const struct memory_ipc *ipc, int fd,
                             void **data_p)
{
    struct cuda_device *self;
    CUdeviceptr base = 0;
    tryst_status status = offer_check(ipc, fd);
    if (status == TRYST_OK)
        status = cuda_enter(device, &self);
    if (status != TRYST_OK)
        return status;
    status = ipc->how == MEMORY_IPC_LEGACY ? legacy_import(ipc, &base)
                                           : mapped_import(self, ipc, fd, &base);
    if (cuda_leave(status) == TRYST_OK)
        *data_p = (void *)(uintptr_t)(base + ipc->offset);
    return status;
}

void cuda_ipc_close(int32_t device, void *data, const struct memory_ipc *ipc)
{
    CUdeviceptr base = (CUdeviceptr)(uintptr_t)data - ipc->offset;
    if (cuda_enter(device, NULL) != TRYST_OK)
        return;
    if (ipc->how == MEMORY_IPC_LEGACY) {
        (void)CUDA_CALL(ipc_close, base);
    } else {
        (void)CUDA_CALL(unmap, base, ipc->bytes);
        (void)CUDA_CALL(address_free, base, ipc->bytes);
    }
    (void)cuda_leave(TRYST_OK);
}
