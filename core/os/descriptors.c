/* SPDX-License-Identifier: Apache-2.0 */
/* See descriptors.h. */
#include "core/os/descriptors.h"
#include "core/os/fd.h"

#include <assert.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* number of active holds; acq_rel: the last release reads all of low_held */
static _Atomic unsigned low_holders;
static _Atomic unsigned low_held; /* one bit for each placeholder of an active hold */

bool descriptors_left(unsigned count)
{
    int fds[DESCRIPTORS_COUNT_MAX];
    unsigned made = 0;
    assert(count <= DESCRIPTORS_COUNT_MAX);
    while (made < count) {
        fds[made] = made ? fd_copy(fds[0]) : FD_MAKE(eventfd(0, EFD_CLOEXEC));
        if (fds[made] < 0)
            break;
        made++;
    }
    for (unsigned i = 0; i < made; i++)
        close(fds[i]);
    return made == count;
}

void descriptors_low_hold(void)
{
    atomic_fetch_add_explicit(&low_holders, 1, memory_order_acq_rel);
    atomic_fetch_or_explicit(&low_held, fd_low_hold(), memory_order_acq_rel);
}

void descriptors_low_release(void)
{
    if (atomic_fetch_sub_explicit(&low_holders, 1, memory_order_acq_rel) == 1)
        fd_low_release(atomic_exchange_explicit(&low_held, 0, memory_order_acq_rel));
}

void descriptors_low_refresh(void)
{
    if (atomic_load_explicit(&low_holders, memory_order_acquire))
        atomic_fetch_or_explicit(&low_held, fd_low_hold(), memory_order_acq_rel);
}
