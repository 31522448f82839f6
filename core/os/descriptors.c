/* SPDX-License-Identifier: Apache-2.0 */
/* See descriptors.h. */
#include "core/descriptors.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool descriptors_left(unsigned count)
{
    int fds[DESCRIPTORS_ASKED_MAX];
    unsigned made = 0;
    assert(count <= DESCRIPTORS_ASKED_MAX);
    while (made < count) {
        fds[made] = made ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : eventfd(0, EFD_CLOEXEC);
        if (fds[made] < 0)
            break;
        made++;
    }
    for (unsigned i = 0; i < made; i++)
        close(fds[i]);
    return made == count;
}
