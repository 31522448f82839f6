/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of the replay, in the memory of its stages: the host's, or a device's.
 *
 * Nothing here is fast: arrays are allocated and freed one by one, and every copy and every call of a
 * stage is waited for, so that the replay stays the plain loop that it is. */
#ifndef TRYST_PIPELINE_REPLAY_MEMORY_H
#define TRYST_PIPELINE_REPLAY_MEMORY_H

#include <tryst/device.h>
#include <tryst/stage.h>
#include <tryst/tryst.h>

typedef struct replay_memory {
    tryst_ctx *ctx;
    tryst_memory_kind kind;
    int32_t ordinal;
    tryst_device *handle; /* NULL on the host */
    void *stream;         /* for copies; NULL on the host */
    void *done;           /* event for the stages' calls; NULL on the host */
    double *loss;         /* where last stages put theirs: pinned for a device */
} replay_memory;

typedef struct replay_array {
    void *data;     /* NULL: not there */
    tryst_mem *mem; /* NULL in plain memory */
} replay_array;

/* Memory of the kind that `info` names. TRYST_OK, TRYST_E_INVALID (a device, and no context),
 * or what the device says. */
tryst_status replay_memory_open(replay_memory *self, tryst_ctx *ctx,
                                const tryst_stage_info *info);
/* After every array was closed. One that was never opened is allowed. */
void replay_memory_close(replay_memory *self);

/* An array, 64-byte aligned, of 0 bytes too. `host_p` (may be NULL) receives where the host fills it in:
 * the array itself, or for a device another one of its size. */
tryst_status replay_array_open(const replay_memory *memory, uint64_t bytes,
                               replay_array *array_p, replay_array *host_p);
/* What was filled in at `host` is in `array` when this returns. */
tryst_status replay_array_bring(const replay_memory *memory, replay_array *array,
                                const replay_array *host, uint64_t bytes);
void replay_array_close(replay_array *array);
/* Of a pair that replay_array_open made: the host's, where that is another one. */
void replay_array_host_close(const replay_array *array, replay_array *host);

/* Wait for the call that was given `done`. */
tryst_status replay_memory_wait(const replay_memory *memory);

#endif
