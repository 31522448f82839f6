/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are never 0, 1 or 2.
 *
 * A program may close these numbers and still write to them. If such a number were a
 * socket or a memfd of the library, the program's text would arrive as a peer's bytes.
 * One idea: while a descriptor is made, each closed number of 0 to 2 is held by a
 * placeholder (O_PATH: reads and writes fail with EBADF, as on a closed number), so the
 * kernel returns a higher one. If the program closes one of these numbers meanwhile, and
 * the descriptor gets it, fd_move moves the descriptor. Invariant: a result of FD_MAKE or
 * fd_move is negative or above 2, and close-on-exec where it was moved; errno is that of
 * the call. Inline, because modules do not link this library. tests/build/descriptors.sh
 * finds calls outside FD_MAKE. */
#ifndef TRYST_CORE_OS_FD_H
#define TRYST_CORE_OS_FD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/** The smallest number that FD_MAKE returns. */
enum { FD_FIRST = STDERR_FILENO + 1 };

/** Put a placeholder on each closed number of 0 to 2. Returns the set of the
 *  placeholders, bit n for number n. */
static inline unsigned fd_low_hold(void)
{
    unsigned held = 0;
    for (int fd = 0; fd < FD_FIRST; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int placeholder = open("/", O_PATH | O_CLOEXEC);
        if (placeholder >= FD_FIRST)
            close(placeholder);
        else if (placeholder >= 0)
            held |= 1u << placeholder;
    }
    return held;
}

/** Close the placeholders of `held`, except where the program has put another file
 *  there. */
static inline void fd_low_release(unsigned held)
{
    int kept_errno = errno;
    for (int fd = 0; held && fd < FD_FIRST; fd++) {
        int flags = held & 1u << fd ? fcntl(fd, F_GETFL) : -1;
        if (flags >= 0 && (flags & O_PATH))
            close(fd);
    }
    errno = kept_errno;
}

/** Move `fd` above 2 if it is 0, 1 or 2; the low number is closed. Returns the new number
 *  (`fd` itself if it is not one of these, also if negative), or -1 with errno set if no
 *  descriptor is left. */
static inline int fd_move(int fd)
{
    if (fd < 0 || fd >= FD_FIRST)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST);
    int kept_errno = errno;
    close(fd);
    errno = kept_errno;
    return moved;
}

/** Evaluate `create`, which makes a descriptor, and return the descriptor moved above
 *  2. */
#define FD_MAKE(create)                    \
    __extension__({                        \
        unsigned fd_held_ = fd_low_hold(); \
        int fd_made_ = fd_move(create);    \
        fd_low_release(fd_held_);          \
        fd_made_;                          \
    })

/** Copy `fd` to a number above 2, close-on-exec. Returns -1 with errno set on failure. */
static inline int fd_copy(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST);
}

/** Make a socketpair of descriptors above 2. Returns 0, or -1 with errno set. */
static inline int fd_socketpair(int family, int type, int pair[2])
{
    unsigned held = fd_low_hold();
    int made = socketpair(family, type, 0, pair);
    for (int i = 0; made == 0 && i < 2; i++)
        pair[i] = fd_move(pair[i]);
    fd_low_release(held);
    if (made != 0 || (pair[0] >= 0 && pair[1] >= 0))
        return made;
    int kept_errno = errno;
    close(pair[pair[0] < 0]);
    errno = kept_errno;
    return -1;
}

/** Open a file or a folder as fopen and opendir do, for the caller to read and close at
 *  once. The number is above 2 unless the program closes a low number during this
 *  call. */
static inline FILE *fd_file_open(const char *path, const char *mode)
{
    unsigned held = fd_low_hold();
    FILE *file = fopen(path, mode);
    fd_low_release(held);
    return file;
}

static inline DIR *fd_folder_open(const char *path)
{
    unsigned held = fd_low_hold();
    DIR *folder = opendir(path);
    fd_low_release(held);
    return folder;
}

#endif
