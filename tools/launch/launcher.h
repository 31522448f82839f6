/* SPDX-License-Identifier: Apache-2.0 */
/** @file launcher.h
 *  Starts N processes on this machine as ranks, watches them, and ends them all.
 *
 *  Idea: the launcher waits for signals, which report deaths too; another process
 *  writes the ranks' output. The launcher itself draws the job's token and creates the
 *  bootstrap's listening socket, so local ranks need no free port, no file and no secret
 *  on a command line.
 *  Invariant: no rank outlives the launcher, however the launcher ends: the kernel
 *  kills a rank when its parent dies (PR_SET_PDEATHSIG), unless the rank has executed a
 *  program with set-user-ID or file capabilities meanwhile. Each rank is a process
 *  group, which is killed with all its processes once all ranks have ended.
 *
 *      running ──a rank fails──▶ grace ──time──▶ TERM sent ──2 s──▶ KILL sent ──5 s─▶ end
 *        │                        │                │                  │
 *        └──────────── all ranks have ended ───────┴──────────────────┘──▶ drain output
 *
 *  Call launcher_run before the process has other threads, and after
 *  standard_files_open(). */
#ifndef TRYST_TOOLS_LAUNCH_LAUNCHER_H
#define TRYST_TOOLS_LAUNCH_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

/** Most ranks that one launcher starts. */
#define LAUNCHER_RANKS_MAX 4096

struct launcher_params {
    const char *name;  /**< begins the launcher's own messages: "tryst-run" */
    int ranks;         /**< number of ranks, 1 to LAUNCHER_RANKS_MAX */
    char *const *argv; /**< program (searched in PATH) and arguments, NULL-terminated */
    int (*main_fn)(void *arg, int rank); /**< instead of argv: runs after fork */
    void *arg;
    uint64_t grace_ns; /**< time for the other ranks to end after the first failure */
    bool no_prefix;    /**< ranks write to the launcher's stdout and stderr directly, as
                     *   those of a tool's own -n */
};

#define LAUNCHER_GRACE_NS (10ull * 1000000000ull)

/** Exit statuses of the launcher, as in env(1) and timeout(1), and of a rank without a
 *  program that runs. */
enum { LAUNCHER_FAILED = 125, LAUNCHER_NOT_RUNNABLE = 126, LAUNCHER_NOT_FOUND = 127 };

/** Start the ranks and wait until all have ended (README.md). Returns the exit status for
 *  the caller: 0; that of the rank that failed first (128 + signal if it was killed); 125
 *  after a message if the ranks could not be started or their output not be written. */
int launcher_run(const struct launcher_params *params);

#endif
