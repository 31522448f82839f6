/* SPDX-License-Identifier: Apache-2.0 */
/** @file standard_files.h
 *  Standard input, output and error of a tool: its main begins with standard_files_open
 *  and ends with standard_output_end.
 *
 *  Idea: the result of a tool is its output. If the output could not be written, the tool
 *  has failed: it reports that once and does not end with 0. stdio keeps the error of a
 *  failed write, so single writes are not checked. */
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
