/* SPDX-License-Identifier: Apache-2.0 */
/* Looped programs for tests, written here and not by a generator: one stage on each rank
 * of p, w = p - 1 - rank micro-batches ahead of the last. The caller closes them. */
#ifndef TRYST_TESTS_PIPELINE_LOOPS_H
#define TRYST_TESTS_PIPELINE_LOOPS_H

#include <tryst/pipeline.h>

/** PipeDream (Harlap et al. 2018) with an UPDATE behind each B: F and B of micro-batch n,
 *  counted over all steps, read version max(0, n - w). */
tryst_program *loop_pipedream(int ranks, int microbatches);
/** PipeDream-2BW (Narayanan et al. 2021) with an UPDATE behind the last B of a step: F
 *  and B read the version before that of the micro-batch's step. */
tryst_program *loop_2bw(int ranks, int microbatches);

/** True if the program is a loop. */
bool program_loops(const tryst_program *program);
/** Close `program` and return a copy with an R before the B or I of each micro-batch but
 *  the last `left_out`. */
tryst_program *program_recomputed(tryst_program *program, int left_out);
/** Close a loop and return a copy with an R before each B or I of its body alone. */
tryst_program *program_recomputed_body(tryst_program *program);

#endif
