/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake driver share. */
#ifndef FAKE_PRIVATE_H
#define FAKE_PRIVATE_H

#include <pthread.h>

#include <cuda.h>

#include "fake_cuda.h"

enum { FAKE_DEVICES_MAX = 8 };

/* Guards everything but the bytes of copies. `fake_changed`: something ended. */
extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;
extern struct fake_cuda_counts fake_counts;

struct CUctx_st {
    int device;
};

/* Bytes that have a device address: allocations, imports, mappings; and pinned host memory. */
struct range {
    struct range *next;
    uintptr_t start;
    size_t bytes;
    char *shadow; /* where the host reaches them */
    int device;   /* -1: the host's */
    bool is_legacy, accessible;
    int file; /* of the memory behind */
    int64_t file_at;
    struct handle *handle;
};

struct fake_device {
    struct CUctx_st primary;
    CUstream default_stream;
    CUresult sticky; /* what all calls return since a copy failed */
    int file;        /* memory, from 0 */
    char *window;    /* its addresses, without access */
    char *shadow;    /* the same bytes */
};

extern struct fake_device fake_devices[FAKE_DEVICES_MAX];
extern int fake_devices_count;
extern size_t fake_device_bytes;
extern unsigned fake_delay_us;
extern bool fake_waits;
extern int
    fake_favour; /* of a stream's priority: 1 the largest number goes first, -1 the smallest */
extern struct range *fake_ranges;

/* Every function begins so: counts the call, and fails it if it is its turn. */
#define FAKE_BEGIN(function)                       \
    do {                                           \
        CUresult fake_bad = fake_begin(#function); \
        if (fake_bad != CUDA_SUCCESS)              \
            return fake_bad;                       \
    } while (0)

CUresult fake_begin(const char *function);
/* The device whose context is current, -1 without one. */
int fake_current(void);
/* CUDA_ERROR_INVALID_CONTEXT without a current context, or the device's lasting error. */
CUresult fake_usable(int *device_p);
#define FAKE_ENTER(function, device)               \
    do {                                           \
        CUresult fake_bad = fake_begin(#function); \
        if (fake_bad == CUDA_SUCCESS)              \
            fake_bad = fake_usable(&(device));     \
        if (fake_bad != CUDA_SUCCESS)              \
            return fake_bad;                       \
    } while (0)

/* Every function that frees or closes ends so: what it does has been done when it fails, and a device
 * in error lets go of things too. */
#define FAKE_LEAVE(function, result)                           \
    do {                                                       \
        CUresult fake_bad = fake_begin(#function);             \
        return fake_bad != CUDA_SUCCESS ? fake_bad : (result); \
    } while (0)

/* Kinds of handles that the memory was made for, as bits. */
uint64_t fake_handle_types(const struct handle *handle);
/* The range that holds an address, or NULL. Under the lock. */
struct range *fake_range_find(uintptr_t address);
struct range *fake_range_add(const struct range *model);
void fake_range_remove(struct range *range);
/* Where the host reaches bytes: NULL when they are no longer, or not wholly, there. Under the lock. */
char *fake_reach(uintptr_t address, size_t bytes);
/* Wait until the streams of a device (-1: all) are idle. Under the lock. */
void fake_synchronize(int device);
/* A random number below `limit`. */
unsigned fake_random(unsigned limit);

#endif
