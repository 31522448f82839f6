/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the process that ends the ranks when the launcher itself is killed.
 *
 * One idea: the kernel closes a dead process's pipes, however that process died. The
 * watcher sleeps on the other end of a pipe from the launcher; end of file there means
 * that the launcher is dead, and the watcher kills the ranks' process groups,
 * grandchildren included.
 * Invariant: the watcher is in a separate session with all signals blocked, so a signal
 * that kills the launcher's group does not end the watcher, and it holds no descriptor
 * but its pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher_watch.h"

/* More than one round: a rank just being forked may set its group after the first. */
#define KILL_ROUNDS     5
#define DESCRIPTORS_MAX 65536

static void groups_kill(const struct watch_table *table)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int round = 0; round < KILL_ROUNDS; round++) {
        for (int rank = 0; rank < table->ranks; rank++) {
            /* Relaxed: a pid, written once; the end of file on the pipe orders the
             * rest. */
            pid_t group =
                atomic_load_explicit(&table->groups[rank], memory_order_relaxed);
            if (group > 0)
                kill(-group, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
}

static void descriptors_close(int keep)
{
    struct rlimit files;
    int most = DESCRIPTORS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < (rlim_t)most)
        most = (int)files.rlim_cur;
    for (int fd = 0; fd < most; fd++)
        if (fd != keep)
            close(fd);
}

static void watcher_main(const struct watch_table *table, int fd)
{
    char word;
    ssize_t got;
    setsid();
    prctl(PR_SET_NAME, "tryst-watch");
    descriptors_close(fd);
    do
        got = read(fd, &word, 1);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        groups_kill(table);
    _exit(0);
}

static pid_t watcher_fork(const struct watch_table *table, int read_fd)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        watcher_main(table, read_fd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

bool watch_open(int ranks, struct watch *watch)
{
    int fds[2];
    watch->table_bytes =
        sizeof *watch->table + (size_t)ranks * sizeof watch->table->groups[0];
    watch->table = mmap(NULL, watch->table_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watch->table == MAP_FAILED)
        return false;
    watch->table->ranks = ranks;
    if (pipe2(fds, O_CLOEXEC) != 0) {
        munmap(watch->table, watch->table_bytes);
        return false;
    }
    watch->fd = fds[1];
    watch->pid = watcher_fork(watch->table, fds[0]);
    close(fds[0]);
    if (watch->pid > 0)
        return true;
    close(fds[1]);
    munmap(watch->table, watch->table_bytes);
    return false;
}

void watch_close(struct watch *watch)
{
    ssize_t wrote = write(watch->fd, "q", 1);
    (void)wrote; /* failure: the watcher was killed, and kills no group either */
    close(watch->fd);
    while (waitpid(watch->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    munmap(watch->table, watch->table_bytes);
}
