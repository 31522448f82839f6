/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions, resolved when the module is first used.
 *
 * Idea: the module links nothing of CUDA, so the file loads on any machine. libcuda.so.1
 * is opened at first use, and each function is resolved in the version for which this
 * code was written: by cuGetProcAddress (CUDA 12 and newer), else by its symbol.
 * Invariant: cuda_driver is written before cuda_driver_open first returns TRYST_OK, and
 * only read afterwards.
 */
#ifndef TRYST_TRANSPORTS_CUDA_CUDA_DRIVER_H
#define TRYST_TRANSPORTS_CUDA_CUDA_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "tryst/types.h"

/** X(member, function, CUDA version of the function's current form, suffix of that form's
 *  symbol) */
#define CUDA_FUNCTIONS_NEEDED(X)                                 \
    X(init, cuInit, 2000, "")                                    \
    X(driver_version, cuDriverGetVersion, 2020, "")              \
    X(error_name, cuGetErrorName, 6000, "")                      \
    X(error_string, cuGetErrorString, 6000, "")                  \
    X(device_count, cuDeviceGetCount, 2000, "")                  \
    X(device_get, cuDeviceGet, 2000, "")                         \
    X(device_name, cuDeviceGetName, 2000, "")                    \
    X(device_attribute, cuDeviceGetAttribute, 2000, "")          \
    X(device_bus_id, cuDeviceGetPCIBusId, 4010, "")              \
    X(device_total, cuDeviceTotalMem, 3020, "_v2")               \
    X(device_can_access, cuDeviceCanAccessPeer, 4000, "")        \
    X(primary_retain, cuDevicePrimaryCtxRetain, 7000, "")        \
    X(context_push, cuCtxPushCurrent, 4000, "_v2")               \
    X(context_pop, cuCtxPopCurrent, 4000, "_v2")                 \
    X(context_priorities, cuCtxGetStreamPriorityRange, 5050, "") \
    X(context_enable_peer, cuCtxEnablePeerAccess, 4000, "")      \
    X(pointer_attributes, cuPointerGetAttributes, 7000, "")      \
    X(mem_info, cuMemGetInfo, 3020, "_v2")                       \
    X(mem_alloc, cuMemAlloc, 3020, "_v2")                        \
    X(mem_free, cuMemFree, 3020, "_v2")                          \
    X(mem_range, cuMemGetAddressRange, 3020, "_v2")              \
    X(host_alloc, cuMemHostAlloc, 2020, "")                      \
    X(host_free, cuMemFreeHost, 2000, "")                        \
    X(host_register, cuMemHostRegister, 6050, "_v2")             \
    X(host_unregister, cuMemHostUnregister, 4000, "")            \
    X(copy_async, cuMemcpyAsync, 4000, "")                       \
    X(stream_create, cuStreamCreateWithPriority, 5050, "")       \
    X(stream_destroy, cuStreamDestroy, 4000, "_v2")              \
    X(stream_wait_event, cuStreamWaitEvent, 3020, "")            \
    X(event_create, cuEventCreate, 2000, "")                     \
    X(event_destroy, cuEventDestroy, 4000, "_v2")                \
    X(event_record, cuEventRecord, 2000, "")                     \
    X(event_query, cuEventQuery, 2000, "")                       \
    X(module_load, cuModuleLoadData, 2000, "")                   \
    X(module_function, cuModuleGetFunction, 2000, "")            \
    X(launch, cuLaunchKernel, 4000, "")                          \
    X(ipc_get, cuIpcGetMemHandle, 4010, "")                      \
    X(ipc_open, cuIpcOpenMemHandle, 11000, "_v2")                \
    X(ipc_close, cuIpcCloseMemHandle, 4010, "")

/** Functions that older drivers lack; the member is then NULL. cuda_stream.c and
 *  cuda_ipc.c check before each use. */
#define CUDA_FUNCTIONS_OPTIONAL(X)                              \
    X(stream_wait_value, cuStreamWaitValue32, 11070, "_v2")     \
    X(stream_write_value, cuStreamWriteValue32, 11070, "_v2")   \
    X(stream_is_capturing, cuStreamIsCapturing, 10000, "")      \
    X(handle_retain, cuMemRetainAllocationHandle, 11000, "")    \
    X(handle_export, cuMemExportToShareableHandle, 10020, "")   \
    X(handle_import, cuMemImportFromShareableHandle, 10020, "") \
    X(handle_release, cuMemRelease, 10020, "")                  \
    X(address_reserve, cuMemAddressReserve, 10020, "")          \
    X(address_free, cuMemAddressFree, 10020, "")                \
    X(map, cuMemMap, 10020, "")                                 \
    X(unmap, cuMemUnmap, 10020, "")                             \
    X(map_access, cuMemSetAccess, 10020, "")

struct cuda_driver {
#define CUDA_MEMBER(member, function, version, ending) PFN_##function##_v##version member;
    CUDA_FUNCTIONS_NEEDED(CUDA_MEMBER)
    CUDA_FUNCTIONS_OPTIONAL(CUDA_MEMBER)
#undef CUDA_MEMBER
};

extern struct cuda_driver cuda_driver;

/** Set the name of the driver's file; called once, by the module's entry. */
void cuda_driver_name(const char *file);

/** Open the driver and start it (cuInit), once; after a failure the next call tries
 *  again. Thread: any. TRYST_OK, TRYST_E_UNSUPPORTED (cuda_error_text has the reason). */
tryst_status cuda_driver_open(void);

/** Convert `result` of `function` into a status. An error also sets this thread's error
 *  text. (The memory ops have no context and no log, so their caller reports the
 *  text.) */
tryst_status cuda_status(CUresult result, const char *function);
void cuda_error_write(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Set this thread's error text. An expression with the value `status`. */
#define cuda_error_set(status, ...) (cuda_error_write(__VA_ARGS__), (status))
/** Get the reason of this thread's last failed call. */
const char *cuda_error_text(void);

/** Call the driver's function `member`; its result becomes a status, and the error text
 *  names it. */
#define CUDA_CALL(member, ...) cuda_status(cuda_driver.member(__VA_ARGS__), #member)

#endif
