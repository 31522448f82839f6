/* SPDX-License-Identifier: Apache-2.0 */
/* The open descriptors of this process. */
#ifndef TRYST_TESTS_SUPPORT_DESCRIPTORS_H
#define TRYST_TESTS_SUPPORT_DESCRIPTORS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

struct descriptors {
    int all;
    /** The TCP connections among them, established or failed; without listeners. */
    int tcp;
};

static inline bool descriptor_is_tcp(int fd)
{
    int domain = 0, type = 0, listens = 0;
    socklen_t bytes = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 &&
           (domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM && !listens;
}

/** Count the descriptors, without the one that reads /proc; all 0 where /proc is not
 *  readable. */
static inline struct descriptors descriptors_count(void)
{
    struct descriptors found = {0};
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        found.all++;
        found.tcp += descriptor_is_tcp(fd);
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

static inline int descriptors_open(void)
{
    return descriptors_count().all;
}

#endif
