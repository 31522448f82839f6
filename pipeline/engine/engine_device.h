/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a device, for an engine with stages on a device.
 *
 * The one idea: a call of a device stage only enqueues work. Where the engine would wait
 * on the host, it hands an event to the next user instead. `buffer.after` is the event
 * after which the next user may use the buffer: a stage waits for it on the device, and a
 * receive carries it as the event after which the buffer may be overwritten. A send
 * carries its own event (engine_transfer.event), which the stage records when the bytes
 * have been computed.
 *
 *   received   op ──▶ gate stream waits for it ──▶ `arrived` recorded ──▶ after = arrived
 *   fed        host bytes ──▶ copied on the feed stream ──▶ after = fed
 *   used       action waits for `after`, and sets after = the action's `done`
 *
 * Invariants. When the host queues an action, the device has at most ENGINE_DEVICE_AHEAD
 * earlier actions left to do, and at most half of the step's: so buffers return in time,
 * and actions of two steps at most are left. A step ends on the host when all of its data
 * have come and its losses are there; without a promise of another step, when the device
 * has done all of its actions. Every `after` that has passed is cleared then. So no event
 * is recorded again while its last record is still needed: those of actions, data and
 * sends are recorded in every second step.
 *
 * If the stages of this rank are on the host, `used` is false, and no stream, event or
 * pinned memory exists. */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_DEVICE_H
#define TRYST_PIPELINE_ENGINE_ENGINE_DEVICE_H

#include <stdbool.h>
#include <tryst/device.h>
#include <tryst/stage.h>

#include "engine_buffer.h"

/** Limit of the earlier actions in the device's queues when the host queues another one:
 *  enough to hide the host's cost of a call, few enough that a failed step stops soon. */
#define ENGINE_DEVICE_AHEAD 3
/** Limit of the events that one action waits for: those of input, target, saved, kept,
 *  output gradient, and of the buffer that it makes. */
#define ENGINE_DEVICE_WAITS 8

struct tryst_engine;

/** The events and times of one action in every second step. */
struct engine_moment {
    void *done; /**< event: the action no longer uses any buffer */
    void *fed;  /**< event: the action's data are on the device; NULL: it takes no data */
    /** Pinned host memory from which the data are copied to the device; NULL: none. */
    void *pinned_input;
    void *pinned_target;
    /** The time when the action was queued or when the last of its receives arrived,
     *  whichever is later. */
    uint64_t begin_ns;
    uint64_t cpu_ns; /**< CPU time of the host for queueing the action */
};

/** An action in the device's queue. */
struct engine_queued {
    size_t index;
    uint64_t step; /**< number of the step, as engine->steps_done counts */
};

struct engine_device {
    bool used;
    tryst_memory_kind memory;
    int32_t ordinal;
    tryst_device *handle;
    void *gate;                    /**< stream that waits for operations */
    void *feeder;                  /**< stream that copies data */
    void *idle[2];                 /**< events for the ends of gate and feeder */
    struct engine_moment *moments; /**< [2 × actions], for even and odd steps */
    uint64_t queued;               /**< actions that were queued so far */
    uint64_t passed;               /**< of these, those whose ends the host has seen */
    /** Action n of those queued, from 0, at index n mod (AHEAD + 1). */
    struct engine_queued queue[ENGINE_DEVICE_AHEAD + 1];
    uint64_t losses_end; /**< `queued` behind the last forward that made a loss */
    uint64_t passed_ns;  /**< when the host saw the last action end */
    void *pinned;        /**< data of all actions, twice, then the losses */
    size_t pinned_bytes;
    void *waits[ENGINE_DEVICE_WAITS]; /**< events that the next queued action waits for */
    int32_t waits_count;
};

/** Open the device of the engine's stages: find it, and open streams, events and pinned
 *  memory. Moves engine->losses to pinned memory. If the stages are on the host, only
 *  check that all of them are. */
tryst_status engine_device_open(struct tryst_engine *engine);
/** Wait until the device has ended the engine's work, successfully or not. False if some
 *  is left after `timeout_ns`. Call engine_abandon first: the gate stream waits for
 *  operations. */
bool engine_device_stop(struct tryst_engine *engine, uint64_t timeout_ns);
/** Free everything. If the device has not stopped (engine->unquiet), free nothing, since
 *  the device may still use it. */
void engine_device_close(struct tryst_engine *engine);

/** Return the moment of action `index` in the step that runs, or in the next one. */
struct engine_moment *engine_device_moment(const struct tryst_engine *engine,
                                           size_t index, bool next);
/** Wait until the host may queue one more action; drive transfers meanwhile. */
tryst_status engine_device_room(struct tryst_engine *engine);
/** End the actions from a mark to another: wait until the step may end (see above), or,
 *  if it is the first or the last, until the device has done all queued actions. */
tryst_status engine_device_end(struct tryst_engine *engine);

/** Let the device, not the host, wait for the receive `op` into `memory`. Records the
 *  event `arrived` behind it, and sets memory->after to `arrived`. */
tryst_status engine_device_gate(struct tryst_engine *engine, tryst_op *op, void *arrived,
                                struct buffer *memory);
/** Enqueue copies of the pinned data of action `index` to `input` and `target`. Either
 *  may be NULL if the action takes no such data. */
tryst_status engine_device_feed(struct tryst_engine *engine, size_t index,
                                struct buffer *input, struct buffer *target);

/** Add `memory` to the buffers of action `index` before that action is queued: the action
 *  will wait for the buffer's previous user, and its next user for the action. NULL is
 *  allowed. */
void engine_device_use(struct tryst_engine *engine, size_t index, struct buffer *memory);
/** Put the events of action `index` into `work`. `ready` is the event of the send that
 *  takes the action's result; NULL: no send does. */
void engine_device_work(struct tryst_engine *engine, size_t index, void *ready,
                        tryst_stage_work *work);
/** Record that the action was queued at `begin_ns`, and that this took `cpu_ns` of CPU
 *  time. */
void engine_device_queued(struct tryst_engine *engine, size_t index, uint64_t begin_ns,
                          uint64_t cpu_ns);
/** Record that a receive of action `index`, of this step or the next, arrived at
 *  `now_ns`. No effect on the host. */
void engine_device_came(struct tryst_engine *engine, size_t index, bool next,
                        uint64_t now_ns);

#endif
