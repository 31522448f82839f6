/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_action.h
 *  Runs one action of the program (engine_action.c). */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_ACTION_H
#define TRYST_PIPELINE_ENGINE_ENGINE_ACTION_H

#include "engine.h"

/** Fail because `bytes` bytes for `what` could not be allocated. The sentence has the
 *  place, the memory in use, and ways to need less. */
tryst_status engine_no_memory(tryst_engine *engine, tryst_status status, uint64_t bytes,
                              const char *what);
/** Return the stage's own text about its failure; if it has none, the text of
 *  `status`. */
const char *engine_stage_text(const tryst_stage *stage, tryst_status status);
/** Count an action in the statistics of this rank and of its stage. */
void engine_count_action(tryst_engine *engine, const tryst_action *action);
/** Add action `index`, of the step that runs or of the one `before`, to the statistics,
 *  the spans and the trace. */
void engine_note_action(tryst_engine *engine, size_t index, bool before,
                        uint64_t begin_ns, uint64_t end_ns, uint64_t cpu_ns);
/** Return the factor of the learning rate of an UPDATE; 0 where the program sets none
 *  (tryst_program_rate_set). */
double engine_rate_of(const tryst_engine *engine, const tryst_action *action);
/** Begin a call of a stage on the host, for the figures of `action`, and end it. */
void engine_call_begin(tryst_engine *engine, const tryst_action *action);
void engine_call_end(tryst_engine *engine);
/** Leave the time until engine_call_resume out of the running call's figures; with `cut`,
 *  out of its span, too. Returns the call, for engine_call_resume. */
struct engine_call engine_call_pause(tryst_engine *engine, bool cut);
void engine_call_resume(tryst_engine *engine, struct engine_call call, bool cut);
/** Run action `index`. The items that it needs from other ranks are in its cell. */
tryst_status engine_run_action(tryst_engine *engine, size_t index);

#endif
