/* SPDX-License-Identifier: Apache-2.0 */
/** @file fake_cuda.h
 *  A CUDA driver without a GPU: libfake_cuda.so has the functions of libcuda.so.1 that we use, and
 *  these, by which a test looks behind them.
 *
 *  One idea: what is wrong on a GPU is wrong here too, and noticed. Device memory cannot be touched
 *  by the host (its addresses are mapped without any access; the bytes lie elsewhere); streams are
 *  threads that take their time; a copy that touches memory which is gone aborts the process; what
 *  is left at exit, and a context that was not put back, ends it with exit code 86.
 *
 *  Name the file in TRYST_CUDA_DRIVER, or link it. From the environment, read at cuInit:
 *
 *    FAKE_CUDA_DEVICES   how many devices there are (2)
 *    FAKE_CUDA_BYTES     memory of each (1 GiB, used as it is touched)
 *    FAKE_CUDA_START_MS  what each cuInit takes (0)
 *    FAKE_CUDA_DELAY_US  each thing in a stream begins after a random time of up to so long (0)
 *    FAKE_CUDA_WAITS     1: closing an import and unmapping wait for all streams too, as cuMemFree and
 *                        cuMemFreeHost always do here (0)
 *    FAKE_CUDA_FAVOUR    urgent, idle: while a stream of higher (lower) priority can go on, others
 *                        stand still
 *    FAKE_CUDA_FAIL      cuMemAlloc:2,cuMemcpyAsync:5:700: the second call of the one fails, and the
 *                        fifth of the other with that CUresult (else 999); 0 is each call. `copy` is
 *                        the work itself: the device is then in error for good. What frees or
 *                        closes has done so when it fails
 *    FAKE_CUDA_LACKS     functions that the driver is too old to have, separated by commas
 *
 *  Ranks may be processes: memory of one is opened by another through /proc. A child of a fork may
 *  use it when its parent has not.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_CUDA_EXIT = 86 };

/** What there is just now. */
struct fake_cuda_counts {
    int allocations, pinned, streams, events;
    int imports;  /**< legacy handles that are open */
    int handles;  /**< of cuMemCreate, or imported, not released */
    int reserved; /**< ranges of addresses */
    int mapped;   /**< of them, with memory behind */
    int pushed;   /**< contexts pushed and not popped, all threads */
};

void fake_cuda_counts(struct fake_cuda_counts *counts_p);

/** The `nth` call of `function` from now on (1 is the next one; 0: all) fails with `result`.
 *  NULL: nothing fails any more. */
void fake_cuda_fail(const char *function, unsigned nth, int result);

/** How often `function` was called. */
unsigned fake_cuda_calls(const char *function);

/** Bytes of a device, as they are just now: synchronise first. */
void fake_cuda_read(const void *device_data, void *data, size_t bytes);
void fake_cuda_write(void *device_data, const void *data, size_t bytes);

/** Where the host reaches what `data` means to the device; `data` itself where that is nothing. Only
 *  for what runs in a stream. */
void *fake_cuda_reach(const void *data);
/** Let `stream` call `fn(arg)` when its turn comes: a kernel, for what stands in for one. */
void fake_cuda_call(void *stream, void (*fn)(void *arg), void *arg);
/** Wait until one stream is idle. */
void fake_cuda_finish(void *stream);

int fake_cuda_stream_priority(void *stream);
/** Wait until all streams of all devices are idle. */
void fake_cuda_drain(void);

/** A context that is not the primary one, as a caller may have. Never freed. */
void *fake_cuda_context(int device);

/** How many kinds of things are left, each with a line on stderr; what happens at exit. */
int fake_cuda_check(void);

#endif
