/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_action.h
 *  Runs one action of the program (engine_action.c). */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_ACTION_H
#define TRYST_PIPELINE_ENGINE_ENGINE_ACTION_H

#include "engine.h"

/** Fail for lack of `bytes` of memory for `what`. The sentence has the place, the memory
 *  in use, and ways to need less. */
tryst_status engine_no_memory(tryst_engine *engine, tryst_status status, uint64_t bytes,
                              const char *what);
/** Return the stage's text about its failure, or that of the status. */
const char *engine_stage_text(const tryst_stage *stage, tryst_status status);
/** Count and draw an action that ran from `begin_ns` to `end_ns`. */
void engine_note_action(tryst_engine *engine, const tryst_action *action,
                        uint64_t begin_ns, uint64_t end_ns, uint64_t cpu_ns);
tryst_status engine_run_action(tryst_engine *engine, size_t index);

#endif
