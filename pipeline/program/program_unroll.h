/* SPDX-License-Identifier: Apache-2.0 */
/** @file program_unroll.h
 *  Steps of a program as a flat one (program_unroll.c). */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_UNROLL_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_UNROLL_H

#include <tryst/pipeline.h>

/** Unroll a program to `steps_count` steps, as tryst_program_unroll does. Without
 *  `clamps` bodies and the epilogue may name negative versions: those of steps before the
 *  first. The prologue's are always clamped. */
tryst_status program_unroll(const tryst_program *program, int steps_count, bool clamps,
                            tryst_program **flat_p);

#endif
