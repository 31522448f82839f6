/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_read.h
 *  Finds live pages and copies them, checked. */
#ifndef TOOLS_LIVE_READ_H
#define TOOLS_LIVE_READ_H

#include "live.h"

/** All pages of process `pid`, or of every process of this host (`pid` 0) whose name is `name`
 *  (NULL: whatever it is). False with a sentence in `error`; nothing found is an error too. */
bool live_read(pid_t pid, const char *name, struct live_ranks *ranks_p, char *error,
               size_t capacity);
void live_free(struct live_ranks *ranks);
/** One of them, which the list then has no more. */
void live_rank_free(struct live_rank *rank);

#endif
