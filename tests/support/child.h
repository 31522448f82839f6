/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that does not outlive the test, however that ends. */
#ifndef TRYST_TESTS_CHILD_H
#define TRYST_TESTS_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

/* As fork. The child dies with the thread that made it; nothing that is buffered is written twice. */
static inline pid_t child_fork(void)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(3); /* it had died before that took effect */
    }
    return pid;
}

#endif
