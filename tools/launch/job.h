/* SPDX-License-Identifier: Apache-2.0 */
/** @file job.h
 *  A rank of a tool joins its job. Callers: pp_bench, tryst-perf, tryst-topo. */
#ifndef TRYST_TOOLS_JOB_H
#define TRYST_TOOLS_JOB_H

#include <tryst/tryst.h>

/** Open a context, with settings over those of the environment, and the group of `params`. `settings` are
 *  names and values in turn, NULL at the end; one whose value is NULL is passed over. Returns the status of
 *  what failed, with nothing open; tryst_last_error has the reason. */
tryst_status job_open(const char *const *settings, const tryst_group_params *params,
                      tryst_ctx **ctx_p, tryst_group **group_p);

#endif
