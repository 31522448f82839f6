/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the ranks: lines with prefixes, never mixed, written by another process. */
#ifndef TRYST_TOOLS_LAUNCH_LAUNCHER_OUTPUT_H
#define TRYST_TOOLS_LAUNCH_LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <sys/types.h>

struct output;

/** Create the pipes of `ranks` ranks and of the launcher's messages. NULL, with errno
 *  set, on failure. */
struct output *output_open(int ranks);
/** Create the pipes for stdout and stderr of a rank; the rank's ends are in `fds_p`.
 *  False, with errno set, on failure. */
bool output_rank_open(struct output *output, int rank, int fds_p[2]);
/** Start the process, which ends after output_end, once all pipes are at their end. Its
 *  exit status is the errno of a failed write to stdout. Returns its pid, or -1. */
pid_t output_start(struct output *output);
/** Write a line of the launcher, after all that the ranks have written before. */
void output_message(struct output *output, const char *line);
/** No message follows. */
void output_end(struct output *output);

#endif
