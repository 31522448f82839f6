/* SPDX-License-Identifier: Apache-2.0 */
/** @file standard_files.h
 *  Standard input, output and error of every tool: first and last line of its main.
 *
 *  Idea: what a tool prints is its result. Where that could not be written, the tool failed, says so
 *  once, and does not end with 0. stdio remembers a failed write, so nobody looks at each one.
 */
#ifndef TRYST_TOOLS_STANDARD_FILES_H
#define TRYST_TOOLS_STANDARD_FILES_H

/** Takes the numbers 0 to 2 where they are closed, so that no file or socket that is opened later becomes
 *  somebody's standard output. Writing to a number that was closed fails as it would have. */
void standard_files_open(void);

/** Writes what stdout still holds. Returns `exit_status`, or `failed` after a message of `tool` where
 *  some of the output could not be written. */
int standard_output_end(const char *tool, int exit_status, int failed);

/** The message: `error` is an errno, 0: unknown. */
void standard_output_refused(const char *tool, int error);

#endif
