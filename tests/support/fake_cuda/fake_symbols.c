/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress, as in drivers for CUDA 12 and newer. Left out of
 * libfake_cuda_old.so. */
#include "fake_private.h"

#include <stdlib.h>
#include <string.h>

/* The requested name, and the function to which the header's macro maps it. */
#define FUNCTION(name)                   \
    {                                    \
#name, (void *)(uintptr_t)(name) \
    }

static const struct {
    const char *name;
    void *function;
} functions[] = {FUNCTION(cuInit),
                 FUNCTION(cuDriverGetVersion),
                 FUNCTION(cuGetErrorName),
                 FUNCTION(cuGetErrorString),
                 FUNCTION(cuDeviceGetCount),
                 FUNCTION(cuDeviceGet),
                 FUNCTION(cuDeviceGetName),
                 FUNCTION(cuDeviceGetAttribute),
                 FUNCTION(cuDeviceGetPCIBusId),
                 FUNCTION(cuDeviceTotalMem),
                 FUNCTION(cuDeviceCanAccessPeer),
                 FUNCTION(cuDevicePrimaryCtxRetain),
                 FUNCTION(cuCtxPushCurrent),
                 FUNCTION(cuCtxPopCurrent),
                 FUNCTION(cuCtxGetStreamPriorityRange),
                 FUNCTION(cuCtxEnablePeerAccess),
                 FUNCTION(cuPointerGetAttributes),
                 FUNCTION(cuMemGetInfo),
                 FUNCTION(cuMemAlloc),
                 FUNCTION(cuMemFree),
                 FUNCTION(cuMemGetAddressRange),
                 FUNCTION(cuMemHostAlloc),
                 FUNCTION(cuMemFreeHost),
                 FUNCTION(cuMemHostRegister),
                 FUNCTION(cuMemHostUnregister),
                 FUNCTION(cuMemcpyAsync),
                 FUNCTION(cuStreamCreateWithPriority),
                 FUNCTION(cuStreamDestroy),
                 FUNCTION(cuStreamQuery),
                 FUNCTION(cuStreamWaitEvent),
                 FUNCTION(cuStreamWaitValue32),
                 FUNCTION(cuStreamWriteValue32),
                 FUNCTION(cuStreamIsCapturing),
                 FUNCTION(cuEventCreate),
                 FUNCTION(cuEventDestroy),
                 FUNCTION(cuEventRecord),
                 FUNCTION(cuEventQuery),
                 FUNCTION(cuModuleLoadData),
                 FUNCTION(cuModuleGetFunction),
                 FUNCTION(cuLaunchKernel),
                 FUNCTION(cuIpcGetMemHandle),
                 FUNCTION(cuIpcOpenMemHandle),
                 FUNCTION(cuIpcCloseMemHandle),
                 FUNCTION(cuMemRetainAllocationHandle),
                 FUNCTION(cuMemExportToShareableHandle),
                 FUNCTION(cuMemImportFromShareableHandle),
                 FUNCTION(cuMemRelease),
                 FUNCTION(cuMemAddressReserve),
                 FUNCTION(cuMemAddressFree),
                 FUNCTION(cuMemMap),
                 FUNCTION(cuMemUnmap),
                 FUNCTION(cuMemSetAccess)};

/* True if `name` is an entry of the list. */
static bool is_lacking(const char *name)
{
    const char *list = getenv("FAKE_CUDA_LACKS");
    size_t bytes = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += bytes)
        if ((at == list || at[-1] == ',') && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    return false;
}

CUresult cuGetProcAddress(const char *name, void **function, int version,
                          cuuint64_t flags, CUdriverProcAddressQueryResult *how)
{
    (void)version;
    *function = NULL;
    *how = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0 && !is_lacking(name))
            *function = functions[i].function;
    if (!*function)
        return CUDA_ERROR_NOT_FOUND;
    *how = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}
