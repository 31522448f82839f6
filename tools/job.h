/* SPDX-License-Identifier: Apache-2.0 */
/** @file job.h
 *  Joins a rank of a tool to its job. */
#ifndef TRYST_TOOLS_JOB_H
#define TRYST_TOOLS_JOB_H

#include <tryst/tryst.h>

/** Open a context, with settings that override those of the environment, and the group of
 *  `params`. `settings` are names and values in turn, NULL at the end; a pair with the
 *  value NULL is skipped. Returns TRYST_OK, or the status of the call that failed, with
 *  nothing open; tryst_last_error has the reason. */
tryst_status job_open(const char *const *settings, const tryst_group_params *params,
                      tryst_ctx **ctx_p, tryst_group **group_p);

/** Find the rank that a launcher gave this process (tryst_launch_find). Returns 1, with
 *  rank and size; 0: no launcher; -1 after a message: the environment is incomplete. */
int job_place(const char *name, int *rank_p, int *size_p);

#endif
