/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_action.h
 *  One action of the program (engine_action.c).
 */
#ifndef PIPELINE_ENGINE_ENGINE_ACTION_H
#define PIPELINE_ENGINE_ENGINE_ACTION_H

#include "engine.h"

/* Fail for want of `bytes` for `what`: says where, what there is, and what needs less. */
tryst_status engine_no_memory(tryst_engine *engine, tryst_status status, uint64_t bytes,
                              const char *what);
/* What a stage says of its failure, else what the status means. */
const char *engine_stage_text(const tryst_stage *stage, tryst_status status);
/* It ran from `begin_ns` to `end_ns`: count it, draw it. */
void engine_note_action(tryst_engine *engine, const tryst_action *action,
                        uint64_t begin_ns, uint64_t end_ns, uint64_t cpu_ns);
tryst_status engine_run_action(tryst_engine *engine, size_t index);

#endif
