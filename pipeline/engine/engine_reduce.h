/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_reduce.h
 *  Sums the gradients of replicated stages, and updates their parts (engine_reduce.c).
 *  Without a replicated stage on this rank all functions return at once. */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_REDUCE_H
#define TRYST_PIPELINE_ENGINE_ENGINE_REDUCE_H

#include "engine.h"

/** Find the replicated stages of this rank, and prepare the sums of their parts. */
tryst_status engine_reduce_open(tryst_engine *engine);
/** Free the prepared sums. No sum is under way. */
void engine_reduce_close(tryst_engine *engine);

/** Let the work of action `index` report parts: a forward those that it needs, the last
 *  backward before a REDUCE_GRAD those that it has completed. An action that touches
 *  weights or gradients in any other way first waits for all updates of its stage. */
tryst_status engine_reduce_work(tryst_engine *engine, size_t index,
                                tryst_stage_work *work);
/** Run a REDUCE_GRAD: start the sums of parts that no backward has reported. */
tryst_status engine_reduce_run(tryst_engine *engine, size_t index);
/** Run an UPDATE of a replicated stage: its parts are updated as their sums end. */
tryst_status engine_reduce_update(tryst_engine *engine, size_t index);
/** True if `stage` is replicated. */
bool engine_reduce_has(const tryst_engine *engine, int stage);

/** Record which sums have ended, and update their parts. Never waits. */
tryst_status engine_reduce_poll(tryst_engine *engine);
/** Wait for the sums that began in the scope of `frame` (NULL: in any) and update their
 *  parts. */
tryst_status engine_reduce_settle(tryst_engine *engine, const struct engine_frame *frame);
/** Release the operations of the scope of `frame`, which have ended. */
void engine_reduce_abandon(tryst_engine *engine, const struct engine_frame *frame);

#endif
