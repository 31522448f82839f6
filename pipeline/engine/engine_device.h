/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a device, for an engine with stages on a device.
 *
 * The one idea: an action of a device stage is only put into queues, so the engine passes
 * on as an event what it would wait for on the host. `buffer.after` is the event after
 * which the next user may use the buffer: a stage waits for it on the device, a receive
 * carries it as the event after which its bytes may be overwritten, a send as the event
 * after which its bytes are there.
 *
 *   received   op ──▶ gate stream waits for it ──▶ `arrived` recorded ──▶ after = arrived
 *   fed        host bytes ──▶ copied on the feed stream ──▶ after = fed
 *   used       by an action that waits for `after`, and leaves after = its `done`
 *
 * Invariants. The host queues at most ENGINE_DEVICE_AHEAD actions more than the device
 * has done, so buffers return in time and the step can be drawn. A step ends on the host
 * only after the device has done all of its actions; then every event has passed and
 * every `after` is cleared, so no event is recorded again while its last record is still
 * needed. Only sends outlive their step: each of the two frames has its own events.
 *
 * On a rank with its stages on the host `used` is false and all else is unset. */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_DEVICE_H
#define TRYST_PIPELINE_ENGINE_ENGINE_DEVICE_H

#include <stdbool.h>
#include <tryst/device.h>
#include <tryst/stage.h>

#include "engine_buffer.h"

/** Actions in the device's queues beyond the current one: enough to hide the host's cost
 *  of a call, few enough that a failure stops soon. */
#define ENGINE_DEVICE_AHEAD 3
/** Limit of the events that one action waits for: those of input, target, saved, kept,
 *  output gradient, and of the buffer that it makes. */
#define ENGINE_DEVICE_WAITS 8

struct tryst_engine;

/** The events and times of one action. */
struct engine_moment {
    void *done; /**< event: the action no longer uses any buffer */
    void *fed;  /**< event: the action's data are there; NULL if it takes none */
    /** Pinned host memory from which the data are copied to the device. */
    void *pinned_input;
    void *pinned_target;
    /** The later of the times when the action was queued and when its receives
     *  arrived. */
    uint64_t begin_ns;
    uint64_t cpu_ns; /**< host time spent on queueing */
};

struct engine_device {
    bool used;
    tryst_memory_kind memory;
    int32_t ordinal;
    tryst_device *handle;
    void *gate;                    /**< stream that waits for operations */
    void *feeder;                  /**< stream that copies data */
    void *idle[2];                 /**< events recorded at the ends of gate and feeder */
    struct engine_moment *moments; /**< [actions] */
    size_t queued;
    size_t passed;
    uint64_t passed_ns; /**< when the last action was seen to pass */
    void *pinned;       /**< data of all moments, then the losses */
    size_t pinned_bytes;
    void *waits[ENGINE_DEVICE_WAITS]; /**< events that the next queued action waits for */
    int32_t waits_count;
};

/** Open the device of the engine's stages: find it, open streams, events and pinned
 *  memory. Moves engine->losses to pinned memory. */
tryst_status engine_device_open(struct tryst_engine *engine);
/** Wait until no work is left on the device, failed or not. False if some is left after
 *  `timeout_ns`. No operation may hold the device up. */
bool engine_device_stop(struct tryst_engine *engine, uint64_t timeout_ns);
/** Free everything after the device has stopped; if it has not (engine->unquiet), leave
 *  all to the device. */
void engine_device_close(struct tryst_engine *engine);

/** Wait until the queues have room for one more action. */
tryst_status engine_device_room(struct tryst_engine *engine);
/** Wait until the device has done all queued actions, and forget all events. */
tryst_status engine_device_drain(struct tryst_engine *engine);

/** Let the device, not the host, wait for the content of `memory`, which arrives with
 *  `op`. `arrived` is the transfer's event. */
tryst_status engine_device_gate(struct tryst_engine *engine, tryst_op *op, void *arrived,
                                struct buffer *memory);
/** Copy the moment's pinned data to `input` and `target` (either may be NULL). */
tryst_status engine_device_feed(struct tryst_engine *engine, size_t index,
                                struct buffer *input, struct buffer *target);

/** Add `memory` to the buffers of action `index`, which is not queued yet: the action
 *  waits for the buffer's user before, and the next user waits for the action. NULL is
 *  allowed. */
void engine_device_use(struct tryst_engine *engine, size_t index, struct buffer *memory);
/** Put the events of action `index` into `work`; `ready` is the event of the send that
 *  takes its output. */
void engine_device_work(struct tryst_engine *engine, size_t index, void *ready,
                        tryst_stage_work *work);
/** Record that the action was queued at `begin_ns`, which took `cpu_ns` of the host. */
void engine_device_queued(struct tryst_engine *engine, size_t index, uint64_t begin_ns,
                          uint64_t cpu_ns);
/** Record that a receive of action `index` arrived at `now_ns`. */
void engine_device_came(struct tryst_engine *engine, size_t index, uint64_t now_ns);

#endif
