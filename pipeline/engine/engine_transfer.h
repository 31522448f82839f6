/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_transfer.h
 *  What moves between stages in one frame (engine_transfer.c).
 */
#ifndef PIPELINE_ENGINE_ENGINE_TRANSFER_H
#define PIPELINE_ENGINE_ENGINE_TRANSFER_H

#include "engine.h"

tryst_status engine_frame_open(tryst_engine *engine, uint64_t step);
/* Wait for the sends of `frame` and close its scope. */
tryst_status engine_frame_finish(tryst_engine *engine, engine_frame *frame);
/* Abort and close all scopes, tell the others why, and see that operations end. */
void engine_abandon(tryst_engine *engine);
/* Note which operations have ended; free what they held. */
tryst_status engine_reap(tryst_engine *engine);
tryst_status engine_post_receives(tryst_engine *engine);
/* Wait for all that action `index` needs from other ranks and put it into its cell; on a
 * device, have the device wait. */
tryst_status engine_take_receives(tryst_engine *engine, size_t index);
/* Fail with the first receive that the device waits for; TRYST_OK: it waits for none. */
tryst_status engine_receive_late(tryst_engine *engine);
/* Hand `memory`, one use of which goes along, to the user of `item`: a cell here or a
 * send. */
tryst_status engine_hand_on(tryst_engine *engine, size_t index, program_item item,
                            buffer *memory);
/* The send that takes what action `index` makes next; NULL: its user is here. */
engine_transfer *engine_send_of(const tryst_engine *engine, size_t index);

#endif
