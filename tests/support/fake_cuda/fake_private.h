/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the fake driver. */
#ifndef TRYST_TESTS_SUPPORT_FAKE_CUDA_FAKE_PRIVATE_H
#define TRYST_TESTS_SUPPORT_FAKE_CUDA_FAKE_PRIVATE_H

#include <pthread.h>

#include <cuda.h>

#include "fake_cuda.h"

enum { FAKE_DEVICES_MAX = 8 };

/** Guards all state except the bytes of copies. `fake_changed` is signalled when an
 *  operation ends. */
extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;
extern struct fake_cuda_counts fake_counts;

struct CUctx_st {
    int device;
};

/** Bytes with a device address: allocations, imports, mappings; and pinned host
 *  memory. */
struct range {
    struct range *next;
    uintptr_t start;
    size_t bytes;
    char *shadow; /**< address on the host */
    int device;   /**< -1: host memory */
    bool is_legacy, accessible;
    bool is_registered; /**< host memory of the program, pinned by cuMemHostRegister */
    int file;           /**< of the memory behind the range */
    int64_t file_at;
    struct handle *handle;
};

struct fake_device {
    struct CUctx_st primary;
    CUstream default_stream;
    CUresult sticky; /**< the result of all calls since a copy failed */
    int file;        /**< the memory file; device memory begins at offset 0 */
    char *window;    /**< the device addresses, without access rights */
    char *shadow;    /**< the same bytes, accessible */
};

extern struct fake_device fake_devices[FAKE_DEVICES_MAX];
extern int fake_devices_count;
extern size_t fake_device_bytes;
extern unsigned fake_delay_us, fake_copy_mbps;
extern bool fake_waits;
extern int
    fake_favour; /* 1: streams with the largest priority number first, -1: the smallest */
extern struct range *fake_ranges;

/** Begin a function: wait for the context's lock, count the call, and fail it if that was
 *  requested. A function that frees or closes does so even if it fails, also on a device
 *  in error: it calls fake_begin first and returns that result last. */
#define FAKE_BEGIN(function)                       \
    do {                                           \
        CUresult fake_bad = fake_begin(#function); \
        if (fake_bad != CUDA_SUCCESS)              \
            return fake_bad;                       \
    } while (0)

CUresult fake_begin(const char *function);
/** Return the device of the current context; -1 without one. */
int fake_current(void);
/** Return CUDA_ERROR_INVALID_CONTEXT without a current context, or the device's lasting
 *  error. */
CUresult fake_usable(int *device_p);
#define FAKE_ENTER(function, device)               \
    do {                                           \
        CUresult fake_bad = fake_begin(#function); \
        if (fake_bad == CUDA_SUCCESS)              \
            fake_bad = fake_usable(&(device));     \
        if (fake_bad != CUDA_SUCCESS)              \
            return fake_bad;                       \
    } while (0)

/** Return the kinds of handles that the memory was made for, as bits. */
uint64_t fake_handle_types(const struct handle *handle);
/** Return the range that holds an address, or NULL. Under the lock. */
struct range *fake_range_find(uintptr_t address);
struct range *fake_range_add(const struct range *model);
void fake_range_remove(struct range *range);
/** Return the host address of bytes; NULL unless all of them exist. Under the lock. */
char *fake_reach(uintptr_t address, size_t bytes);
/** Wait until the streams of a device (-1: all) are idle. Under the lock. */
void fake_synchronize(int device);
/** Return a random number below `limit`. */
unsigned fake_random(unsigned limit);

#endif
