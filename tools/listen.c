/* SPDX-License-Identifier: Apache-2.0 */
/* A listening TCP socket: see listen.h. */
#include "listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

int tool_listen(unsigned port, int backlog)
{
    int on = 1, off = 0;
    struct sockaddr_in6 at = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_ANY_INIT,
                              .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_port = at.sin6_port};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool v6 = fd >= 0;
    if (!v6) /* a host without IPv6 */
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    int rc = v6 ? bind(fd, (struct sockaddr *)&at, sizeof at)
                : bind(fd, (struct sockaddr *)&at4, sizeof at4);
    if (rc == 0 && listen(fd, backlog) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}
