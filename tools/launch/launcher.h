/* SPDX-License-Identifier: Apache-2.0 */
/** @file launcher.h
 *  Starts N processes on this machine as ranks, watches them, and ends them all.
 *
 *  Idea: the launcher is a small event loop over the ranks' pidfds, their output pipes
 *  and a signalfd. The launcher itself draws the job's token and creates the bootstrap's
 *  listening socket, so local ranks need no free port, no file and no secret on a command
 *  line.
 *  Invariant: no process that the launcher started outlives the launcher, however the
 *  launcher ends. The kernel kills a rank when its parent dies (PR_SET_PDEATHSIG). Each
 *  rank is also a separate process group, and a watcher process (in a separate session)
 *  kills the groups when the launcher's end of a pipe closes.
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
    char *const *env; /**< additional "K=V" for all ranks, NULL-terminated; may be NULL */
    uint64_t grace_ns; /**< time for the other ranks to end after the first failure */
    bool no_prefix;    /**< ranks write to the launcher's stdout and stderr directly */
};

#define LAUNCHER_GRACE_NS (10ull * 1000000000ull)

/** Return values of launcher_run if the launcher itself failed. */
enum { LAUNCHER_FAILED = 125, LAUNCHER_NOT_RUNNABLE = 126, LAUNCHER_NOT_FOUND = 127 };

/** Start the ranks and wait until all have ended.
 *
 *  Each rank gets TRYST_RANK, TRYST_SIZE, TRYST_LOCAL_RANK, TRYST_LOCAL_SIZE,
 *  TRYST_BOOTSTRAP (a loopback address) and TRYST_TOKEN; rank 0 also TRYST_BOOTSTRAP_FD.
 *  Rank 0 keeps the launcher's stdin unless that is a terminal; the others read
 *  /dev/null. Output is written as lines, "[2] text", to stdout or stderr as the rank
 *  wrote it; a line never has text of two ranks. The beginning of a line is written after
 *  100 ms or at its carriage return.
 *  SIGINT, SIGTERM and SIGHUP go to the ranks' process groups, SIGUSR1 and SIGUSR2 to the
 *  ranks. When a rank fails, a line on stderr names the rank and the reason.
 *
 *  Returns the exit status for the caller: 0; that of the rank that failed first (128 +
 *  signal if it was killed); 125 if the ranks could not be started or their output could
 *  not be written; 126 or 127 if the program cannot be run or is not found. A message on
 *  stderr explains 125 to 127. */
int launcher_run(const struct launcher_params *params);

/** Run a tool's own `-n`: `ranks` processes that call main_fn(arg, rank) and write to the
 *  tool's standard output and error directly. Returns as launcher_run. */
int launcher_run_local(const char *name, int ranks, int (*main_fn)(void *arg, int rank),
                       void *arg, uint64_t grace_ns);

/** Find out whether some launcher started this process as a rank (tryst_launch_find).
 *  Returns 1, with rank and size; 0: no launcher did; -1 after a message: the environment
 *  is incomplete. */
int launcher_place(const char *name, int *rank_p, int *size_p);

#endif
