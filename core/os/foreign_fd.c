/* SPDX-License-Identifier: Apache-2.0 */
/* See foreign_fd.h. One closer serves the whole process: a descriptor may be closed after
 * the context that received it. */
#include "core/os/foreign_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/closer.h"
#include "core/os/fork.h"

struct foreign_fd {
    struct closer_job job;
    int fd;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct closer closer;

/* Initialise the closer again in a child: its thread, which may hold the lock, runs in
 * the parent only. Descriptors that waited stay open in the child until exec, since a
 * close could block here. */
static void child_init(void *arg)
{
    closer_init(arg);
}

static void init(void)
{
    static struct fork_handler handler = {.child = child_init, .arg = &closer};
    closer_init(&closer);
    (void)fork_handler_add(&handler);
}

/* Close without lingering: the kernel sends or drops unsent bytes after the call. The
 * progress domain must not call this, because setsockopt waits while the sender uses the
 * socket. */
static void lingerless_close(int fd)
{
    const struct linger off = {0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
    close(fd);
}

static void foreign_fd_run(struct closer_job *job)
{
    struct foreign_fd *foreign = container_of(job, struct foreign_fd, job);
    int fd = foreign->fd;
    mem_free(foreign);
    lingerless_close(fd);
}

void foreign_fd_close_later(int fd)
{
    int before = errno;
    pthread_once(&once, init);
    struct foreign_fd *foreign = mem_zalloc(sizeof *foreign);
    if (foreign)
        *foreign = (struct foreign_fd){.job.run = foreign_fd_run, .fd = fd};
    if (!foreign || !closer_add(&closer, &foreign->job)) {
        mem_free(foreign);
        lingerless_close(fd);
    }
    errno = before;
}

void foreign_fd_close(int fd)
{
    int before = errno;
    if (fd < 0)
        return;
    if (fcntl(fd, F_GET_SEALS) >= 0)
        close(fd);
    else
        foreign_fd_close_later(fd);
    errno = before;
}

bool foreign_fds_wait(uint64_t wait_ns)
{
    pthread_once(&once, init);
    return closer_wait(&closer, wait_ns);
}
