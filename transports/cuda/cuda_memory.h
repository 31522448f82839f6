/* SPDX-License-Identifier: Apache-2.0 */
/** @file cuda_memory.h
 *  Device and pinned memory: locate, allocate, copy (cuda_memory.c).
 */
#ifndef TRYST_TRANSPORTS_CUDA_CUDA_MEMORY_H
#define TRYST_TRANSPORTS_CUDA_CUDA_MEMORY_H

#include "cuda_private.h"

tryst_status cuda_locate(const void *data, int32_t *device_p);
tryst_status cuda_alloc(int32_t device, size_t bytes, void **data_p, int *fd_p);
void cuda_free(int32_t device, void *data, size_t bytes, int fd);
tryst_status cuda_pinned_alloc(int32_t device, size_t bytes, void **data_p);
void cuda_pinned_free(int32_t device, void *data, size_t bytes);
tryst_status cuda_pin(int32_t device, void *data, size_t bytes);
void cuda_unpin(int32_t device, void *data, size_t bytes);
tryst_status cuda_copy_async(int32_t device, void *stream, void *dst, const void *src,
                             size_t bytes);

#endif
