/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's memory of other processes: legacy handles, and handles that are
 * mapped. Both refer to a memory file, which another process opens through /proc, or gets
 * as a descriptor. */
#include "fake_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The 64 bytes of either kind of handle. The inode proves that the number still refers to
 * the same file. */
struct ticket {
    uint32_t magic;
    int32_t pid, file, device;
    int64_t file_at;
    uint64_t bytes, inode;
};
enum { MAGIC = 0x66616b65 };
_Static_assert(sizeof(struct ticket) <= CU_IPC_HANDLE_SIZE, "fits");

struct handle {
    int references, device, file;
    size_t bytes;
    uint64_t types;
};

static uint64_t inode_of(int file)
{
    struct stat info;
    return fstat(file, &info) == 0 ? info.st_ino : 0;
}

/* Return a descriptor of the file behind a ticket, or -1. */
static int ticket_open(const struct ticket *ticket)
{
    char path[64];
    if (ticket->magic != MAGIC)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket->pid, ticket->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0 && inode_of(file) != ticket->inode) {
        close(file);
        return -1;
    }
    return file;
}

/* Reserve a range of addresses without access rights; 0: no room. */
static uintptr_t window_make(size_t bytes)
{
    void *at =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? 0 : (uintptr_t)at;
}

static char *shadow_make(int file, int64_t file_at, size_t bytes)
{
    int64_t page_at = file_at / 4096 * 4096, shift = file_at - page_at;
    char *at = mmap(NULL, bytes + (size_t)shift, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                    page_at);
    return at == MAP_FAILED ? NULL : at + shift;
}

static void shadow_drop(char *shadow, size_t bytes)
{
    uintptr_t shift = (uintptr_t)shadow % 4096;
    munmap(shadow - shift, bytes + shift);
}

/* --- legacy handles --- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr data)
{
    int device;
    FAKE_ENTER(cuIpcGetMemHandle, device);
    pthread_mutex_lock(&fake_lock);
    const struct range *range = fake_range_find(data);
    bool good = range && range->is_legacy;
    if (good) {
        struct ticket ticket = {
            MAGIC,          getpid(),     range->file,          range->device,
            range->file_at, range->bytes, inode_of(range->file)};
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &ticket, sizeof ticket);
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *data, CUipcMemHandle handle, unsigned flags)
{
    int device;
    struct ticket ticket;
    FAKE_ENTER(cuIpcOpenMemHandle, device);
    memcpy(&ticket, &handle, sizeof ticket);
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || ticket.magic != MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (ticket.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* as the driver does */
    int file = ticket_open(&ticket);
    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct range model = {.start = window_make(ticket.bytes),
                          .bytes = ticket.bytes,
                          .shadow = shadow_make(file, ticket.file_at, ticket.bytes),
                          .device = ticket.device,
                          .accessible = true,
                          .file_at = -1};
    close(file);
    if (!model.start || !model.shadow)
        return CUDA_ERROR_MAP_FAILED;
    pthread_mutex_lock(&fake_lock);
    (void)fake_range_add(&model);
    fake_counts.imports++;
    pthread_mutex_unlock(&fake_lock);
    *data = model.start;
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr data)
{
    CUresult failure = fake_begin("cuIpcCloseMemHandle");
    if (fake_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    if (fake_waits)
        fake_synchronize(-1);
    struct range *range = fake_range_find(data);
    bool good = range && range->start == data && !range->handle && range->file_at < 0;
    if (good) {
        shadow_drop(range->shadow, range->bytes);
        munmap((void *)range->start, range->bytes);
        fake_range_remove(range);
        fake_counts.imports--;
    }
    pthread_mutex_unlock(&fake_lock);
    return failure ? failure : good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- handles that are mapped --- */

static CUmemGenericAllocationHandle handle_make(int device, int file, size_t bytes,
                                                uint64_t types)
{
    struct handle *handle = malloc(sizeof *handle);
    if (!handle)
        abort();
    *handle = (struct handle){1, device, file, bytes, types};
    pthread_mutex_lock(&fake_lock);
    fake_counts.handles++;
    pthread_mutex_unlock(&fake_lock);
    return (CUmemGenericAllocationHandle)(uintptr_t)handle;
}

/* Drop a reference. Under the lock. */
static void handle_drop(struct handle *handle)
{
    if (--handle->references > 0)
        return;
    close(handle->file);
    free(handle);
}

uint64_t fake_handle_types(const struct handle *handle)
{
    return handle->types;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    FAKE_BEGIN(cuMemCreate);
    (void)flags;
    int file = memfd_create("fake-cuda-handle", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        abort();
    *handle = handle_make(prop->location.id, file, bytes, prop->requestedHandleTypes);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult failure = fake_begin("cuMemRelease");
    pthread_mutex_lock(&fake_lock);
    fake_counts.handles--;
    handle_drop((struct handle *)(uintptr_t)handle);
    pthread_mutex_unlock(&fake_lock);
    return failure;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *data)
{
    FAKE_BEGIN(cuMemRetainAllocationHandle);
    pthread_mutex_lock(&fake_lock);
    const struct range *range = fake_range_find((uintptr_t)data);
    bool good = range && range->handle;
    if (good) {
        range->handle->references++;
        fake_counts.handles++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)range->handle;
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle from,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    const struct handle *handle = (const struct handle *)(uintptr_t)from;
    FAKE_BEGIN(cuMemExportToShareableHandle);
    if (flags || !(handle->types & type))
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        *(int *)shareable = fcntl(handle->file, F_DUPFD_CLOEXEC, 3);
        return *(int *)shareable >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    }
    struct ticket ticket = {MAGIC, getpid(),      handle->file,          handle->device,
                            0,     handle->bytes, inode_of(handle->file)};
    memset(shareable, 0, sizeof(CUmemFabricHandle));
    memcpy(shareable, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                        void *shareable, CUmemAllocationHandleType type)
{
    struct ticket ticket;
    struct stat info;
    int file;
    FAKE_BEGIN(cuMemImportFromShareableHandle);
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        file = fcntl((int)(uintptr_t)shareable, F_DUPFD_CLOEXEC, 3);
    } else {
        memcpy(&ticket, shareable, sizeof ticket);
        file = ticket_open(&ticket);
    }
    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = handle_make(0, file, (size_t)info.st_size, (uint64_t)type);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *data, size_t bytes, size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags)
{
    FAKE_BEGIN(cuMemAddressReserve);
    (void)alignment;
    (void)wanted;
    (void)flags;
    uintptr_t at = window_make(bytes);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    fake_counts.reserved++;
    pthread_mutex_unlock(&fake_lock);
    *data = at;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr data, size_t bytes)
{
    CUresult failure = fake_begin("cuMemAddressFree");
    munmap((void *)(uintptr_t)data, bytes);
    pthread_mutex_lock(&fake_lock);
    fake_counts.reserved--;
    pthread_mutex_unlock(&fake_lock);
    return failure;
}

CUresult cuMemMap(CUdeviceptr data, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle from, unsigned long long flags)
{
    struct handle *handle = (struct handle *)(uintptr_t)from;
    FAKE_BEGIN(cuMemMap);
    if (offset || flags || bytes > handle->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct range model = {.start = data,
                          .bytes = bytes,
                          .shadow = shadow_make(handle->file, 0, bytes),
                          .device = handle->device,
                          .handle = handle,
                          .file_at = -1};
    if (!model.shadow)
        return CUDA_ERROR_MAP_FAILED;
    pthread_mutex_lock(&fake_lock);
    handle->references++;
    (void)fake_range_add(&model);
    fake_counts.mapped++;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr data, size_t bytes, const CUmemAccessDesc *access,
                        size_t count)
{
    FAKE_BEGIN(cuMemSetAccess);
    if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    struct range *range = fake_range_find(data);
    bool good = range && range->handle && range->bytes == bytes;
    if (good)
        range->accessible = true;
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr data, size_t bytes)
{
    CUresult failure = fake_begin("cuMemUnmap");
    pthread_mutex_lock(&fake_lock);
    if (fake_waits)
        fake_synchronize(-1);
    struct range *range = fake_range_find(data);
    bool good = range && range->handle && range->start == data && range->bytes == bytes;
    if (good) {
        shadow_drop(range->shadow, bytes);
        handle_drop(range->handle);
        fake_range_remove(range);
        fake_counts.mapped--;
    }
    pthread_mutex_unlock(&fake_lock);
    return failure ? failure : good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
