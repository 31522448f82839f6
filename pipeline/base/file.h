/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files at descriptors above 2.
 *
 * A program may close descriptors 0 to 2 and still write to them. A file opened at such a
 * descriptor would receive that text. core/os/fd.h does the same for libtryst, and cannot
 * be included here. */
#ifndef TRYST_PIPELINE_BASE_FILE_H
#define TRYST_PIPELINE_BASE_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/** Return a descriptor above 2 for the file of `fd`: `fd` itself, or, if `fd` is 0, 1 or
 *  2, a duplicate; `fd` is then closed. Returns -1 with errno if `fd` is negative or no
 *  descriptor is left. */
static inline int file_move(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int kept_errno = errno;
    close(fd);
    errno = kept_errno;
    return moved;
}

/** Open a file as fopen does, but at a descriptor above 2. On failure returns NULL with
 *  errno. */
static inline FILE *file_open(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (!file || fileno(file) > STDERR_FILENO)
        return file;
    int moved = fcntl(fileno(file), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int kept_errno = errno;
    (void)fclose(file);
    errno = kept_errno;
    file = moved >= 0 ? fdopen(moved, mode) : NULL;
    if (!file && moved >= 0)
        close(moved);
    return file;
}

#endif
