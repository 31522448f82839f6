/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that block at their last close, as a faulty process may send them. */
#ifndef TRYST_TESTS_SUPPORT_LINGERING_H
#define TRYST_TESTS_SUPPORT_LINGERING_H

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/** How long such a close blocks, unless the other end closes. */
enum { LINGER_S = 20 };

struct lingering {
    int fd;    /**< a TCP socket with unsent bytes and SO_LINGER */
    int other; /**< its other end, which does not read; closing it ends the block */
};

static inline void lingering_check(int ok)
{
    if (!ok)
        assert(!"cannot make a lingering socket"), _exit(99);
}

static inline struct lingering lingering_make(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    static const char bytes[65536];
    socklen_t size = sizeof at;
    struct lingering made;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    lingering_check(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
                    listen(listener, 1) == 0 &&
                    getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    made.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    lingering_check(connect(made.fd, (struct sockaddr *)&at, sizeof at) == 0);
    made.other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    lingering_check(made.other >= 0);
    close(listener);
    while (send(made.fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    lingering_check(setsockopt(made.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) ==
                    0);
    return made;
}

/** Send `bytes` over the Unix socket `to`, with `count` copies of each descriptor (253 at
 *  most in all); the caller's are closed. Returns the result of sendmsg. */
static inline ssize_t fds_send(int to, const void *data, size_t bytes, const int *fds,
                               unsigned count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(253 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec iov = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    ssize_t sent = sendmsg(to, &message, MSG_NOSIGNAL);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    return sent;
}

/** Put a lingering socket into the queue of a Unix socket, and return that one: its close
 *  blocks too, and has no option that changes this. */
static inline int lingering_wrap(struct lingering inner)
{
    int pair[2];
    lingering_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
                    fds_send(pair[0], "x", 1, &inner.fd, 1) == 1);
    close(pair[0]);
    return pair[1];
}

#endif
