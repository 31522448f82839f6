/* SPDX-License-Identifier: Apache-2.0 */
/** @file cuda_ipc.h
 *  Device memory that another process opens (cuda_ipc.c).
 */
#ifndef TRYST_TRANSPORTS_CUDA_CUDA_IPC_H
#define TRYST_TRANSPORTS_CUDA_CUDA_IPC_H

#include "cuda_private.h"

tryst_status cuda_ipc_export(int32_t device, const void *data, size_t bytes,
                             struct memory_ipc *ipc_p, int *fd_p);
tryst_status cuda_ipc_import(int32_t device, const struct memory_ipc *ipc, int fd,
                             void **data_p);
void cuda_ipc_close(int32_t device, void *data, const struct memory_ipc *ipc);

#endif
