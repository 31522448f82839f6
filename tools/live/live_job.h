/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_job.h
 *  Who waits for whom: the ranks of one job. */
#ifndef TOOLS_LIVE_JOB_H
#define TOOLS_LIVE_JOB_H

#include "live.h"

/** Keep the ranks of one job. False with a sentence when it is not clear which. */
bool live_job_choose(struct live_ranks *ranks, uint64_t session, char *error,
                     size_t capacity);
/** Shorter waits are usual while a job runs. */
#define LIVE_JOB_WAIT_S 1.0
/** True if the sentence needs no further sample: no rank waits for another, or the wait that the sentence begins with
 *  is in two samples (live_compare) and has lasted for LIVE_JOB_WAIT_S. */
bool live_job_is_clear(const struct live_ranks *ranks);
/** Who waits for whom, for which key, and where that rank is: one sentence. */
void live_job_sentence(const struct live_ranks *ranks, char *text, size_t capacity);

#endif
