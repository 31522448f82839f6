/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a launcher, and the start of each: environment, socket, fork and exec. */
#ifndef TRYST_TOOLS_LAUNCH_LAUNCHER_SPAWN_H
#define TRYST_TOOLS_LAUNCH_LAUNCHER_SPAWN_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launcher.h"
#include "launcher_output.h"
#include "launcher_watch.h"

struct rank {
    pid_t pid;  /**< also the process group; 0: not started */
    int pid_fd; /**< -1: the kernel has no pidfds */
    bool ended;
    siginfo_t how; /**< how the rank ended: si_code, si_status */
    struct stream streams[2];
};

struct launcher {
    const struct launcher_params *params;
    struct rank *ranks;
    struct sink sinks[2]; /**< stdout, stderr */
    /** for the launcher's messages: sinks[1], or sinks[0] if both are one file */
    struct sink *errors;
    struct watch watch;
    int signal_fd, listen_fd;
    char address[64], token[40];
    /** The caller's settings, restored in the ranks. */
    sigset_t mask;
    struct sigaction pipe_action;
    struct rlimit files;
};

/** Create token and listening socket. False after a message. */
bool spawn_prepare(struct launcher *launcher);
/** Start one rank. Returns 0, or the exit status of the launcher after a message. */
int spawn_rank(struct launcher *launcher, int rank);

#endif
