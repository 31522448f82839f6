/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake runtime share: how kernels and products get into a stream. */
#ifndef FAKE_RUNTIME_H
#define FAKE_RUNTIME_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cudaFuncSetAttribute for the size of shared memory. */
void fake_runtime_allow(const void *kernel, size_t shared_bytes);
/* Whether a launch of this shape is one; if not, cudaGetLastError says why. */
int fake_runtime_launch(void *stream, const void *kernel, const unsigned grid[3],
                        const unsigned block[3], size_t shared_bytes);
/* run(arg, skip) when the stream comes to it, once; `skip` where the device has failed before. */
void fake_runtime_enqueue(void *stream, void (*run)(void *arg, int skip), void *arg);
/* Where the host reaches bytes of a device; ends the process where they are not there. */
void *fake_runtime_reach(const void *data, size_t bytes, const char *what);
/* Primary contexts that are retained. */
int fake_runtime_retained(void);

#ifdef __cplusplus
}
#endif
#endif
