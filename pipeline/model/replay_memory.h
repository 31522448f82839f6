/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of the replay, in the memory of its stages: the host's, or a device's.
 *
 * Simple, not fast: arrays are allocated and freed one by one, and the replay waits for
 * every copy and every call of a stage but update, so that it stays a plain loop. */
#ifndef TRYST_PIPELINE_MODEL_REPLAY_MEMORY_H
#define TRYST_PIPELINE_MODEL_REPLAY_MEMORY_H

#include <tryst/device.h>
#include <tryst/stage.h>
#include <tryst/tryst.h>

struct replay_memory {
    tryst_ctx *ctx;
    tryst_memory_kind kind;
    int32_t ordinal;
    tryst_device *handle; /**< NULL on the host */
    void *stream;         /**< stream of copies; NULL on the host */
    void *done;   /**< event after a copy or a call of a stage; NULL on the host */
    double *loss; /**< output of the last stage; pinned memory for a device */
};

struct replay_array {
    void *data;     /**< NULL: not allocated */
    tryst_mem *mem; /**< NULL in plain memory */
};

/** Open memory of the kind in `info`. Returns TRYST_OK, TRYST_E_INVALID (a device without
 *  a context), or the device's error. */
tryst_status replay_memory_open(struct replay_memory *self, tryst_ctx *ctx,
                                const tryst_stage_info *info);
/** Close the memory. Close all arrays first. Zeroed memory that was never opened is
 *  allowed. */
void replay_memory_close(struct replay_memory *self);

/** Allocate an array, 64-byte aligned, also of 0 bytes. `*host_p` (host_p may be NULL)
 *  receives the array that the host fills in: the same array, or for a device an array of
 *  the same size in host memory. Close both also after a failure. */
tryst_status replay_array_open(const struct replay_memory *memory, uint64_t bytes,
                               struct replay_array *array_p, struct replay_array *host_p);
/** Copy the bytes of `host` to `array`, and wait for the copy. No effect if the two are
 *  the same, or if `host` is not allocated. */
tryst_status replay_array_bring(const struct replay_memory *memory,
                                struct replay_array *array,
                                const struct replay_array *host, uint64_t bytes);
void replay_array_close(struct replay_array *array);
/** Free `host`, which replay_array_open gave with `array`, unless the two are the
 *  same. */
void replay_array_host_close(const struct replay_array *array, struct replay_array *host);

/** Wait until the event `done` has passed. Returns TRYST_OK, the device's error, or
 *  TRYST_E_DEADLINE after 10 minutes. Returns at once on the host. */
tryst_status replay_memory_wait(const struct replay_memory *memory);

#endif
