/* SPDX-License-Identifier: Apache-2.0 */
/* A run of tryst-run (TRYST_TEST_RUN) with its output, for the tests of the launcher.
 * Include this after support/unit.h. */
#ifndef TRYST_TESTS_TOOLS_COMMAND_H
#define TRYST_TESTS_TOOLS_COMMAND_H

#include <sys/types.h>

struct command {
    pid_t pid;
    int fds[2]; /**< its stdout and stderr */
    char *text[2];
    size_t bytes[2];
    int status; /**< exit status as a shell reports it */
    double seconds, began;
};

double command_now_s(void);

/** Start tryst-run with these arguments (NULL-terminated). */
void command_start(struct command *command, const char *const *arguments);
/** Start with one pipe for both outputs, which is read as stdout. */
void command_start_joined(struct command *command, const char *const *arguments);
/** Read until stdout holds `wanted` (NULL: until both are closed), for 40 s at most. */
void command_read(struct command *command, const char *wanted);
/** Read everything, and reap the process. */
void command_end(struct command *command);
void command_free(struct command *command);

/** Run `script` in `ranks` shells, with one more option (may be NULL). */
void run_script(struct command *command, const char *ranks, const char *option,
                const char *script);
/** Fail unless the command ended with `status` and its stderr contains `in_errors` (may
 *  be NULL). */
void expect(const struct command *command, int status, const char *in_errors);
/** Count the lines of stdout that are exactly `line`. */
int lines_count(const struct command *command, const char *line);

#endif
