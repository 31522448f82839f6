/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a job, which keeps the ranks of two jobs with one address and one token
 * apart.
 *
 * One idea: TRYST_JOB, else the variables in which the launcher names the job, equal on
 * all ranks that it has started. Invariant: no value that a launcher counts separately on
 * each host is part of it (torchelastic's number of restarts). */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_LAUNCH_JOB_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_LAUNCH_JOB_H

#include "rendezvous/bootstrap/launch/launch.h"

/** Write the identity of the job of ranks that `launcher` has started, or "". A long one
 *  is cut and ends in its hash. */
void launch_job_find(const struct config *config, char *(*get)(const char *name),
                     enum launcher launcher, char job_p[BOOTSTRAP_JOB_BYTES]);

#endif
