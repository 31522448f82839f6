/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this module: devices, and how a call enters one.
 *
 * Every function of the memory ops runs between cuda_enter and cuda_leave, which push the
 * device's primary context and pop it again: the caller's current context never changes.
 * The primary context is the one that the CUDA runtime, and so every framework, uses. It
 * is retained when a device is first used and kept for the life of the process, like the
 * module itself.
 */
#ifndef TRYST_TRANSPORTS_CUDA_CUDA_PRIVATE_H
#define TRYST_TRANSPORTS_CUDA_CUDA_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_driver.h"
#include "transports/memory/memory.h"
#include "transports/transport.h"

/** Most devices that are used. Machines have up to 16 GPUs, and of GPUs that MIG divides
 *  a process sees one part. */
enum { CUDA_DEVICES_MAX = 64 };

enum cuda_kernel { CUDA_WAIT_WORD, CUDA_WRITE_WORD, CUDA_KERNELS };

struct cuda_device {
    CUdevice device;
    CUcontext context;
    int priority_plain, priority_urgent;
    _Atomic uint64_t peers_tried; /**< bit per device: cuda_peer_enable has tried it */
    /** The kernels of cuda_stream.c; NULL until a stream first needs one. */
    _Atomic(CUfunction) kernels[CUDA_KERNELS];
};

/** Make `device`'s primary context current; `device_p` may be NULL. TRYST_E_INVALID: no
 *  such device. */
tryst_status cuda_enter(int32_t device, struct cuda_device **device_p);
/** Restore the context that was current before cuda_enter. Returns `status`; keeps the
 *  text of cuda_error_text. */
tryst_status cuda_leave(tryst_status status);

/** Enable direct copies between `device`, which has the current context, and the memory
 *  of device `other`, where the machine can. Otherwise the driver copies through the
 *  host. */
void cuda_peer_enable(struct cuda_device *device, int32_t other);

/** Functions of the memory ops (cuda_module.c has the table; memory_ops.h the
 *  contracts). */
tryst_status cuda_devices(int32_t *count_p, char *text);
tryst_status cuda_describe(int32_t device, tryst_device_info *info_p);

#endif
