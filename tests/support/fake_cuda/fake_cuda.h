/* SPDX-License-Identifier: Apache-2.0 */
/** @file fake_cuda.h
 *  A CUDA driver without a GPU: libfake_cuda.so has the functions of libcuda.so.1 that
 *  Tryst uses, and the functions below for tests.
 *
 *  One idea: an error on a GPU is an error here too, and is detected. The host cannot
 *  access device memory (its addresses are mapped without access rights; the bytes lie
 *  elsewhere). Streams are threads with delays. A copy that accesses freed memory aborts
 *  the process. A leak at exit, or a context that was not restored, ends the process with
 *  exit code 86.
 *
 *  Put the file's name into TRYST_CUDA_DRIVER, or link the library. Environment, read at
 *  cuInit:
 *
 *    FAKE_CUDA_DEVICES   number of devices (2)
 *    FAKE_CUDA_BYTES     memory of each (1 GiB, allocated when it is first written)
 *    FAKE_CUDA_START_MS  duration of each cuInit (0)
 *    FAKE_CUDA_DELAY_US  maximum of a random delay before each operation in a stream (0)
 *    FAKE_CUDA_COPY_MBPS rate of copies between host and device, in 10^6 bytes a second,
 *                        for each device and direction: copies of one direction run one
 *                        after another, whatever their streams. Half of a copy's bytes
 *                        move at its begin, the rest at its end (0: no limit)
 *    FAKE_CUDA_WAITS     1: closing an import and unmapping wait for all streams too, as
 *                        cuMemFree and cuMemFreeHost always do here (0)
 *    FAKE_CUDA_LAZY      1: the first launch of a kernel (lazy loading, CUDA's default)
 *                        and each call that pins, allocates or frees, creates a stream or
 *                        imports memory hold the context's lock until all streams are
 *                        idle, and all other calls wait for the lock: if a stream waits
 *                        for the program, both hang (0)
 *    FAKE_CUDA_FAVOUR    urgent, idle: while a stream of higher (lower) priority can
 *                        proceed, the others wait
 *    FAKE_CUDA_FAIL      cuMemAlloc:2,cuMemcpyAsync:5:700: the second call of the one
 *                        fails, and the fifth of the other with CUresult 700 (default
 *                        999); 0 is each call. `copy` is the copy itself: the device then
 *                        stays in error. A function that frees or closes has done so
 *                        when it fails
 *    FAKE_CUDA_LACKS     functions that an old driver does not have, separated by commas
 *
 *  FAKE_CUDA_LAZY models what a driver may do; not every driver does all of it, and one
 *  lock serves all devices here. It rests on reports, not on measurements:
 *  - a first launch hangs behind a kernel that waits (NVIDIA/nvbench issue 136);
 *  - allocating and pinning order the streams (CUDA's programming guide, "Implicit
 *    Synchronization");
 *  - while a stream waits in cuStreamWaitValue32, cuMemFree in one thread stops a copy's
 *    call in another (lupinemachines/lupine pull request 679);
 *  - creating streams and importing: recalled without a source.
 *
 *  Ranks may be processes: memory of one is opened by another through /proc. A child of a
 *  fork may use the driver if its parent has not. */
#ifndef TRYST_TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H
#define TRYST_TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FAKE_CUDA_EXIT = 86 };

/** Objects that exist now. */
struct fake_cuda_counts {
    int allocations, pinned, streams, events;
    int imports;  /**< legacy handles that are open */
    int handles;  /**< created by cuMemCreate or imported, and not released */
    int reserved; /**< reserved address ranges */
    int mapped;   /**< address ranges with memory mapped */
    int pushed;   /**< contexts pushed and not popped, over all threads */
};

void fake_cuda_counts(struct fake_cuda_counts *counts_p);

/** Let the `nth` call of `function` from now on (1: the next; 0: all) fail with `result`.
 *  NULL: no call fails any more. */
void fake_cuda_fail(const char *function, unsigned nth, int result);

/** Return the number of calls of `function`. */
unsigned fake_cuda_calls(const char *function);
/** Return the number of driver calls that a thread has begun. `thread` is the result of
 *  gettid there, or 0: this thread. Not counted: the texts of errors, cuGetProcAddress,
 *  cuCtxGetCurrent and cuCtxSetCurrent. Threads that have the same number, one after the
 *  other, share a count. */
unsigned fake_cuda_calls_by(pid_t thread);
/** Return the number of calls that allocate, pin or free memory, by all threads. */
unsigned fake_cuda_memory_calls(void);

/** Read bytes of a device in their current state: synchronise first. */
void fake_cuda_read(const void *device_data, void *data, size_t bytes);
void fake_cuda_write(void *device_data, const void *data, size_t bytes);

/** Return the host address of the device address `data`; `data` itself for any other
 *  address. For operations of a stream only. */
void *fake_cuda_reach(const void *data);
/** Let `stream` call `fn(arg)` in stream order, as if it were a kernel. */
void fake_cuda_call(void *stream, void (*fn)(void *arg), void *arg);
/** Begin the first launch of `kernel`, under FAKE_CUDA_LAZY; returns at once later. */
void fake_cuda_load(const void *kernel);
/** Wait until one stream is idle. */
void fake_cuda_finish(void *stream);

/** Begin or end the capture of `stream` into a graph, as far as cuStreamIsCapturing
 *  shows it. */
void fake_cuda_capture(void *stream, bool begins);

int fake_cuda_stream_priority(void *stream);
/** Wait until all streams of all devices are idle. */
void fake_cuda_drain(void);

/** Make a context other than the primary one, as a caller may have. Never freed. */
void *fake_cuda_context(int device);

/** Return the number of kinds of objects that leaked, and write a line on stderr for
 *  each; also called at exit. */
int fake_cuda_check(void);

#endif
