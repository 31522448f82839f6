/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a launcher, and how each is started: environment, socket, fork and exec. */
#ifndef TRYST_TOOLS_LAUNCHER_SPAWN_H
#define TRYST_TOOLS_LAUNCHER_SPAWN_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launcher.h"
#include "launcher_output.h"
#include "launcher_watch.h"

struct rank {
    pid_t pid;  /* also its process group; 0: not started */
    int pid_fd; /* -1: the kernel has none */
    bool ended;
    siginfo_t how; /* si_code CLD_EXITED, CLD_KILLED, CLD_DUMPED */
    struct stream streams[2];
};

struct launcher {
    const struct launcher_params *params;
    struct rank *ranks;
    struct sink sinks[2]; /* stdout, stderr */
    struct sink *errors;  /* the second; the first where both are one file */
    struct watch watch;
    int signal_fd, listen_fd;
    char address[64], token[40];
    /* as the caller had them, for the ranks */
    sigset_t mask;
    struct sigaction pipe_action;
    struct rlimit files;
};

/* Token and listening socket; false after a message. */
bool spawn_prepare(struct launcher *launcher);
/* One rank; 0, or the exit status to end with, after a message. */
int spawn_rank(struct launcher *launcher, int rank);

#endif
