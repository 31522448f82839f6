/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_transfer.h
 *  Moves items between stages of different ranks (engine_transfer.c). */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_TRANSFER_H
#define TRYST_PIPELINE_ENGINE_ENGINE_TRANSFER_H

#include "engine.h"

/** Finish the frame that this step reuses, and open the scope `step`; where steps follow,
 *  that of the next step, too, unless this one is the last. */
tryst_status engine_frame_open(tryst_engine *engine, uint64_t step);
/** Begin with the actions from one mark to another. All receives so far have ended but
 *  those that the step before has posted for this one. */
void engine_range_begin(tryst_engine *engine, const struct engine_mark *from,
                        const struct engine_mark *to);
/** Wait for the sends of a step and close the step's scope. (The sends of the step before
 *  in this scope were waited for earlier.) No effect if `frame` is not open. */
tryst_status engine_frame_finish(tryst_engine *engine, struct engine_frame *frame);
/** Abort and close all scopes, send the cause to the other ranks, and wait until the
 *  operations have ended; if they do not end in time, set engine->unquiet. */
void engine_abandon(tryst_engine *engine);
/** True if a rank has aborted a scope of this rank. */
bool engine_is_aborted(const tryst_engine *engine);
/** Record which operations have ended, and drop the buffers of ended sends. Returns the
 *  first failure of an operation. */
tryst_status engine_reap(tryst_engine *engine);
/** Post the next receives, at most params.receives_ahead_max ahead of those taken; if the
 *  stages are on the host, behind the last one those of engine_post_early. */
tryst_status engine_post_receives(tryst_engine *engine);
/** In a loop, post the first receives of the next step. On a device only behind
 *  engine_device_drain: a receive waits for the event of its buffer's last user, and the
 *  next step uses that event again. */
tryst_status engine_post_early(tryst_engine *engine);
/** Wait for the items that action `index` needs from other ranks, and put their buffers
 *  into its cell. On a device, from the second step on, the device waits, not the
 *  host. */
tryst_status engine_take_receives(tryst_engine *engine, size_t index);
/** Fail because a receive that the device waits for did not arrive in time; TRYST_OK if
 *  the device waits for no receive. */
tryst_status engine_receive_late(tryst_engine *engine);
/** Fail with TRYST_E_DEADLINE: `what` ("receiving …, from rank 2") has taken
 *  params.timeout_ns. Returns the engine's status. */
tryst_status engine_late(tryst_engine *engine, const char *what);
/** Fail because an operation ended or could not start with `status`: with the cause from
 *  the rank that aborted a scope, if any, else with `what` and the text of `op` (may be
 *  NULL). Returns the engine's status. */
tryst_status engine_op_failed(tryst_engine *engine, const tryst_op *op,
                              tryst_status status, const char *what);
/** Pass `memory`, with one of its uses, to the user of `item`, which action `index` made:
 *  to a cell of this rank, or to a send. A failure drops the use. */
tryst_status engine_hand_on(tryst_engine *engine, size_t index, struct program_item item,
                            struct buffer *memory);
/** Return the send of the item that action `index` makes; NULL if its user is on this
 *  rank. */
struct engine_transfer *engine_send_of(const tryst_engine *engine, size_t index);

#endif
