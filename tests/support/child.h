/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that ends with the test, however the test ends. */
#ifndef TRYST_TESTS_SUPPORT_CHILD_H
#define TRYST_TESTS_SUPPORT_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

/** Fork. The child dies with the thread that forked it; buffered output is flushed
 *  before, so it is not written twice. */
static inline pid_t child_fork(void)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(3); /* the parent had died before the prctl */
    }
    return pid;
}

#endif
