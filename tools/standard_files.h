/* SPDX-License-Identifier: Apache-2.0 */
/** @file standard_files.h
 *  Standard input, output and error of every tool: the first and the last line of its
 *  main.
 *
 *  Idea: the result of a tool is its output. Where the output could not be written, the
 *  tool failed: it reports that once and does not end with 0. stdio remembers a failed
 *  write, so single writes are not checked. */
#ifndef TRYST_TOOLS_STANDARD_FILES_H
#define TRYST_TOOLS_STANDARD_FILES_H

/** Open /dev/null at those of the descriptors 0 to 2 that are closed, so that no file or
 *  socket opened later becomes standard output by accident. A write to such a descriptor
 *  fails as before. */
void standard_files_open(void);

/** Write what stdout still holds. Returns `exit_status`, or `failed` after a message of
 *  `tool` if some of the output could not be written. */
int standard_output_end(const char *tool, int exit_status, int failed);

/** Report on stderr that standard output cannot be written. `error` is an errno; 0:
 *  unknown. */
void standard_output_refused(const char *tool, int error);

#endif
