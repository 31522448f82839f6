/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the fake runtime: queue kernels and products in a
 * stream. */
#ifndef TRYST_TESTS_SUPPORT_FAKE_CUDART_FAKE_RUNTIME_H
#define TRYST_TESTS_SUPPORT_FAKE_CUDART_FAKE_RUNTIME_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Set the size of shared memory, as cudaFuncSetAttribute. */
void fake_runtime_allow(const void *kernel, size_t shared_bytes);
/** Return nonzero if a launch of this shape is valid; else cudaGetLastError has the
 *  reason. */
int fake_runtime_launch(void *stream, const void *kernel, const unsigned grid[3],
                        const unsigned block[3], size_t shared_bytes);
/** Call run(arg, skip) once, in stream order; `skip` is true if the device has failed
 *  before. */
void fake_runtime_enqueue(void *stream, void (*run)(void *arg, int skip), void *arg);
/** Return the host address of a device's bytes; end the process if they do not exist. */
void *fake_runtime_reach(const void *data, size_t bytes, const char *what);
/** Return the number of retained primary contexts. */
int fake_runtime_retained(void);

#ifdef __cplusplus
}
#endif
#endif
