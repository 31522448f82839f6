/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the ranks: lines with prefixes, never mixed, written by another process. */
#ifndef TRYST_TOOLS_LAUNCH_LAUNCHER_OUTPUT_H
#define TRYST_TOOLS_LAUNCH_LAUNCHER_OUTPUT_H

#include <sys/types.h>

/** Start the process that writes what comes through pipes: fds[2 * rank] and the next one
 *  for stdout and stderr of a rank, and last one for lines of the launcher itself, which
 *  come after all that the ranks have written before (that descriptor does not block).
 *  The process ends when all pipes have; its exit status is the errno of a failed write
 *  to stdout. Returns its pid; -1, with errno set, on failure. */
pid_t output_start(int ranks, int *fds);

#endif
