/* SPDX-License-Identifier: Apache-2.0 */
/** @file launcher.h
 *  Local ranks: start N processes on this machine, watch them, end them all.
 *
 *  Idea: the launcher is a small event loop over the ranks' pidfds, their output pipes
 *  and a signalfd. It draws the job's token and makes the bootstrap's listening socket
 *  itself, so local ranks need no free port, no file and no secret on a command line.
 *  Invariant: nothing that it started outlives it, however it ends: each rank is a
 *  process group of its own, asks the kernel to be killed with its parent, and a watcher
 *  process (in a session of its own) kills the groups when the launcher's end of a pipe
 *  closes.
 *
 *      running ──a rank fails──▶ grace ──time──▶ TERM sent ──2 s──▶ KILL sent ──5 s──▶ given up
 *         │                        │                │                  │
 *         └──────────── all ranks have ended ───────┴──────────────────┘──▶ drain output, end
 *
 *  Callers: tryst-run; pp_bench and tryst-perf for `-n` (they start themselves again).
 *  Call it before the process has other threads, and after standard_files_open().
 */
#ifndef TRYST_TOOLS_LAUNCHER_H
#define TRYST_TOOLS_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

/** Most ranks that one launcher starts. */
#define LAUNCHER_RANKS_MAX 4096

struct launcher_params {
    const char *name;  /**< before our own messages: "tryst-run" */
    int ranks;         /**< how many */
    char *const *argv; /**< program (searched in PATH) and arguments, NULL-terminated */
    int (*main_fn)(void *arg, int rank); /**< instead of argv: run this after fork */
    void *arg;
    char *const *env;  /**< more "K=V" for all ranks, NULL-terminated; may be NULL */
    uint64_t grace_ns; /**< after the first failure: LAUNCHER_GRACE_NS, usually */
    bool no_prefix;    /**< ranks write to our stdout and stderr themselves */
};

#define LAUNCHER_GRACE_NS (10ull * 1000000000ull)

/** What launcher_run returns when it is the launcher that failed. */
enum { LAUNCHER_FAILED = 125, LAUNCHER_NOT_RUNNABLE = 126, LAUNCHER_NOT_FOUND = 127 };

/** Start the ranks and wait until all have ended.
 *
 *  Each rank sees TRYST_RANK, TRYST_SIZE, TRYST_LOCAL_RANK, TRYST_LOCAL_SIZE,
 *  TRYST_BOOTSTRAP (a loopback address) and TRYST_TOKEN; rank 0 also TRYST_BOOTSTRAP_FD.
 *  Rank 0 keeps our stdin unless that is a terminal; the others read /dev/null. Lines of
 *  output come as "[2] text" on the stream that they were written to, never mixed within
 *  a line; the beginning of one comes after 100 ms or at its carriage return. INT, TERM, HUP go to the ranks' process groups, USR1 and USR2 to the ranks.
 *  When a rank fails, a line on stderr says which and why.
 *
 *  Returns the exit status for the caller: 0, that of the rank that failed first (128 +
 *  signal if it was killed), or 125 when the ranks could not be started or their output not
 *  be written (said on stderr).
 */
int launcher_run(const struct launcher_params *params);

/** The same for a tool's own `-n`: `ranks` processes that run main_fn(arg, rank) and write to our standard output
 *  and error themselves. */
int launcher_run_local(const char *name, int ranks, int (*main_fn)(void *arg, int rank),
                       void *arg, uint64_t grace_ns);

/** Is this process a rank that some launcher started (tryst_launch_find)? 1, with its place; 0:
 *  no; -1 after a message: what is set is half of something. */
int launcher_place(const char *name, int *rank_p, int *size_p);

#endif
