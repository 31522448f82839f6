/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_job.h
 *  Finds which rank of a job waits for which. */
#ifndef TRYST_TOOLS_LIVE_LIVE_JOB_H
#define TRYST_TOOLS_LIVE_LIVE_JOB_H

#include "live.h"

/** Keep the ranks of the job with this session. `session` 0: there must be one job only;
 *  false, with a sentence in `error`, if there are several. */
bool live_job_choose(struct live_ranks *ranks, uint64_t session, char *error,
                     size_t capacity);
/** Shorter waits are normal while a job runs. */
#define LIVE_JOB_WAIT_S 1.0
/** True if the sentence needs no further sample: no rank waits for another; or two
 *  samples have been compared (live_compare), and they are LIVE_JOB_WAIT_S apart or each
 *  rank of the sentence has slept that long on its operation. */
bool live_job_is_clear(const struct live_ranks *ranks);
/** Write one sentence: which rank waits for which, for which key, and what the last of
 *  them is doing. */
void live_job_sentence(const struct live_ranks *ranks, char *text, size_t capacity);

#endif
