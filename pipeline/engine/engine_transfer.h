/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_transfer.h
 *  Moves items between stages of different ranks in one frame (engine_transfer.c). */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_TRANSFER_H
#define TRYST_PIPELINE_ENGINE_ENGINE_TRANSFER_H

#include "engine.h"

tryst_status engine_frame_open(tryst_engine *engine, uint64_t step);
/** Wait for the sends of `frame` and close its scope. */
tryst_status engine_frame_finish(tryst_engine *engine, struct engine_frame *frame);
/** Abort and close all scopes, send the cause to the other ranks, and wait until the
 *  operations have ended. */
void engine_abandon(tryst_engine *engine);
/** Record which operations have ended, and drop their buffers. */
tryst_status engine_reap(tryst_engine *engine);
tryst_status engine_post_receives(tryst_engine *engine);
/** Wait for the items that action `index` needs from other ranks, and put them into its
 *  cell; on a device, let the device wait. */
tryst_status engine_take_receives(tryst_engine *engine, size_t index);
/** Fail with the first receive that the device waits for; TRYST_OK: there is none. */
tryst_status engine_receive_late(tryst_engine *engine);
/** Pass `memory`, with one of its uses, to the user of `item`: a cell of this rank, or a
 *  send. */
tryst_status engine_hand_on(tryst_engine *engine, size_t index, struct program_item item,
                            struct buffer *memory);
/** Return the send of the item that action `index` makes next; NULL: its user is on this
 *  rank. */
struct engine_transfer *engine_send_of(const tryst_engine *engine, size_t index);

#endif
