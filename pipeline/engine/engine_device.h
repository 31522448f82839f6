/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine keeps of a device's time, where its stages compute on one.
 *
 * The one idea: an action of a device stage is only put into queues, so whatever the engine would
 * wait for on the host, it hands on as an event. `buffer.after` is the event behind which a buffer is
 * its next user's, whoever that is: the stage waits for it on the device, a receive carries it as the
 * event behind which its bytes may be overwritten, a send as the one behind which they are there.
 *
 *   received   op ──▶ gate stream waits for it ──▶ `arrived` is recorded ──▶ after = arrived
 *   fed        host bytes ──▶ copied on the feed stream ──▶ after = fed
 *   used       by an action that waits for `after`, and leaves after = its `done`
 *
 * Invariants. The host queues at most ENGINE_DEVICE_AHEAD actions more than the device has done, so
 * buffers come back in time and a picture of the step can be drawn. A step ends on the host only when
 * the device has done all of it; then every event has passed and every `after` is cleared, so no event
 * is recorded anew while somebody still means its last record. Sends alone outlive their step: each of
 * the two frames has events of its own.
 *
 * A rank whose stages are on the host has none of this: `used` is false. */
#ifndef TRYST_PIPELINE_ENGINE_DEVICE_H
#define TRYST_PIPELINE_ENGINE_DEVICE_H

#include <stdbool.h>
#include <tryst/device.h>
#include <tryst/stage.h>

#include "engine_buffer.h"

/* Actions in the device's queues beyond the one that it works on: enough to hide what a call costs the
 * host, few enough that a failure stops soon. */
#define ENGINE_DEVICE_AHEAD 3
/* Events that one action waits for at most: its input, target, saved, kept, both gradients, output. */
#define ENGINE_DEVICE_WAITS 8

struct tryst_engine;

/* One action as the device sees it. */
typedef struct engine_moment {
    void *done; /* event: through with every buffer */
    void *fed;  /* event: its data are there; NULL where it takes none */
    /* Pinned: the data's way to the device. */
    void *pinned_input;
    void *pinned_target;
    uint64_t begin_ns; /* queued, or what it waited for came: the later */
    uint64_t cpu_ns;   /* what queueing it cost the host */
} engine_moment;

typedef struct engine_device {
    bool used;
    tryst_memory_kind memory;
    int32_t ordinal;
    tryst_device *handle;
    void *gate;             /* stream that waits for operations */
    void *feeder;           /* stream that brings data */
    void *idle[2];          /* events: these two have come to their ends */
    engine_moment *moments; /* [actions] */
    size_t queued;
    size_t passed;
    uint64_t passed_ns; /* when the last one was seen to pass */
    void *pinned;       /* of all moments, then the losses */
    size_t pinned_bytes;
    void *waits[ENGINE_DEVICE_WAITS]; /* of the action that is being put together */
    int32_t waits_count;
} engine_device;

/* Of the engine's stages: where they are, streams, events, pinned memory. Sets engine->losses to
 * pinned memory where the loss is made here. */
tryst_status engine_device_open(struct tryst_engine *engine);
/* Wait until nothing is under way any more, whether it went well or not, when no operation holds it
 * up; false: something still is. */
bool engine_device_stop(struct tryst_engine *engine, uint64_t timeout_ns);
/* Everything back, once it has stopped; where it has not (engine->unquiet), all is left to the device. */
void engine_device_close(struct tryst_engine *engine);

/* Wait until the queues have room for one action more. */
tryst_status engine_device_room(struct tryst_engine *engine);
/* Wait until the device has done all that was queued, and forget all events. */
tryst_status engine_device_drain(struct tryst_engine *engine);

/* The content of `memory` comes with `op`: the device will wait, the host need not. `arrived` is an
 * event of the transfer's. */
tryst_status engine_device_gate(struct tryst_engine *engine, tryst_op *op, void *arrived,
                                buffer *memory);
/* Bring what lies in the moment's pinned memory to `input` and `target` (either may be NULL). */
tryst_status engine_device_feed(struct tryst_engine *engine, size_t index, buffer *input,
                                buffer *target);

/* `memory` is used by action `index`, which is being put together: it waits for who had it before, and
 * whoever has it next waits for the action. NULL is allowed. */
void engine_device_use(struct tryst_engine *engine, size_t index, buffer *memory);
/* Events of action `index` into `work`; `ready` is the event of the send that takes its output. */
void engine_device_work(struct tryst_engine *engine, size_t index, void *ready,
                        tryst_stage_work *work);
/* The action was queued: it is what its buffers' next users wait for. */
void engine_device_queued(struct tryst_engine *engine, size_t index, uint64_t begin_ns,
                          uint64_t cpu_ns);
/* What an action waited for came at `now_ns`. */
void engine_device_came(struct tryst_engine *engine, size_t index, uint64_t now_ns);

#endif
