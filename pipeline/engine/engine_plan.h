/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_plan.h
 *  Plans an engine's transfers before the first step (engine_plan.c). */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_PLAN_H
#define TRYST_PIPELINE_ENGINE_ENGINE_PLAN_H

#include "engine.h"

/** Allocate the engine's arrays, check that its stages fit the program, and list the
 *  transfers. Call engine_plan_close also after a failure. */
tryst_status engine_plan_open(tryst_engine *engine);
void engine_plan_close(tryst_engine *engine);

#endif
