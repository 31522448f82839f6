/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_read.h
 *  Finds live pages, checks and copies them. */
#ifndef TRYST_TOOLS_LIVE_LIVE_READ_H
#define TRYST_TOOLS_LIVE_LIVE_READ_H

#include "live.h"

/** Read all pages of process `pid`, or of every process of this host (`pid` 0) with the
 *  name `name` (NULL: any). False with a sentence in `error`; finding nothing is an error
 *  too. */
bool live_read(pid_t pid, const char *name, struct live_ranks *ranks_p, char *error,
               size_t capacity);
void live_free(struct live_ranks *ranks);
/** Free one rank's memory. The caller removes the rank from the list. */
void live_rank_free(struct live_rank *rank);

#endif
