/* SPDX-License-Identifier: Apache-2.0 */
/* A plain and slow model of when a program can run, written from the text of
 * tryst/pipeline.h alone: the second opinion on tryst_program_check. It shares no code
 * with the library and reads programs through their public getters. */
#ifndef TRYST_TESTS_PIPELINE_PLAIN_MODEL_H
#define TRYST_TESTS_PIPELINE_PLAIN_MODEL_H

#include <tryst/pipeline.h>

/** True if `program` can run. `why` receives a sentence if it cannot, else "". */
bool plain_model_accepts(const tryst_program *program, char *why, size_t capacity);

/** Count the most that a rank holds in any run of an accepted program: forwards without
 *  their last backward, and weight versions of one stage that are still read, the newest
 *  included. */
tryst_program_peak plain_model_peak(const tryst_program *program, int rank);

/** Write `steps` steps of a loop (or so many runs of another program) as a flat program
 *  of steps × M micro-batches, with versions counted from the first step and never below
 *  0. NULL where tryst_program_append refuses an action. The caller closes it. */
tryst_program *plain_model_unroll(const tryst_program *program, int steps);

#endif
