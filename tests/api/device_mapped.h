/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that is unmapped without waiting for streams, so that a copy after its
 * time is found. */
#ifndef TRYST_TESTS_API_DEVICE_MAPPED_H
#define TRYST_TESTS_API_DEVICE_MAPPED_H

#include <cuda.h>

#include "harness.h"

/** Device memory that is unmapped without waiting for the streams: a copy that touches it
 * afterwards ends the process. */
struct mapped {
    CUdeviceptr at;
    size_t bytes;
};

static inline struct mapped mapped_open(size_t bytes, int device)
{
    struct CUmemLocation_st here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAllocationProp prop = {.location = here,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle handle;
    struct mapped mapped = {.bytes = bytes};
    CHECK_EQ(cuMemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemAddressReserve(&mapped.at, bytes, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemMap(mapped.at, bytes, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemSetAccess(mapped.at, bytes, &access, 1), CUDA_SUCCESS);
    CHECK_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    return mapped;
}

static inline void mapped_close(struct mapped *mapped)
{
    CHECK_EQ(cuMemUnmap(mapped->at, mapped->bytes), CUDA_SUCCESS);
}

/** Give the addresses back, after all copies of them would have been executed. */
static inline void mapped_forget(struct mapped *mapped)
{
    CHECK_EQ(cuMemAddressFree(mapped->at, mapped->bytes), CUDA_SUCCESS);
}

#endif
