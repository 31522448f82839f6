/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_job.h
 *  Who waits for whom: the ranks of one job. */
#ifndef TOOLS_LIVE_JOB_H
#define TOOLS_LIVE_JOB_H

#include "live.h"

/** Keep the ranks of one job. False with a sentence when it is not clear which. */
bool live_job_choose(struct live_ranks *ranks, uint64_t session, char *error,
                     size_t capacity);
/** Who waits for whom, for which key, and where that rank is: one sentence. */
void live_job_sentence(const struct live_ranks *ranks, char *text, size_t capacity);

#endif
