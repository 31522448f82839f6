/* SPDX-License-Identifier: Apache-2.0 */
/** @file program_check.h
 *  Checks a flat program (program_check.c). */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_CHECK_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_CHECK_H

#include <tryst/pipeline.h>

/** Check a program that is not a loop, as tryst_program_check does. `words` begin the
 *  sentence of an error. */
tryst_status program_check_flat(const tryst_program *program,
                                const tryst_check_params *params,
                                tryst_program_peak *peaks, const char *words);

#endif
