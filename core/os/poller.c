/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoll set per context, with a wake-up and one timer; see poller.h.
 *
 * Invariant: an event is delivered only to a source that is still registered. A poller
 * function may remove (and free) any source; events that epoll has already returned for
 * that source are then removed from the batch.
 */
#include "core/os/poller.h"
#include "core/os/fd.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "core/memory/list.h"
#include "core/os/clock.h"

enum { POLLER_BATCH = 32 };

static void wake_drain(struct poller_source *source, uint32_t events)
{
    struct poller *poller = container_of(source, struct poller, wake);
    uint64_t count;
    (void)events;
    if (read(source->fd, &count, sizeof count) < 0) {
        /* EAGAIN: an earlier drain has read the wake-up; nothing to do. */
    }
    /* acq_rel: an exchange reads the newest value, so it pairs with every poller_wake
     * that found 1 and therefore wrote nothing: what that thread did before its wake is
     * visible after this line. */
    (void)atomic_exchange_explicit(&poller->woken, 0, memory_order_acq_rel);
}

static void timer_drain(struct poller_source *source, uint32_t events)
{
    struct poller *poller = container_of(source, struct poller, timer);
    uint64_t count;
    (void)events;
    if (read(source->fd, &count, sizeof count) > 0)
        poller->timer_ns = 0;
}

tryst_status poller_open(struct poller *poller)
{
    memset(poller, 0, sizeof *poller);
    poller->wake.fd = poller->timer.fd = -1;
    poller->epoll_fd = FD_MAKE(epoll_create1(EPOLL_CLOEXEC));
    poller->wake.fd = FD_MAKE(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    poller->timer.fd =
        FD_MAKE(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    poller->wake.events = poller->timer.events = EPOLLIN;
    poller->wake.fn = wake_drain;
    poller->timer.fn = timer_drain;
    if (poller->epoll_fd < 0 || poller->wake.fd < 0 || poller->timer.fd < 0 ||
        poller_add(poller, &poller->wake) != TRYST_OK ||
        poller_add(poller, &poller->timer) != TRYST_OK) {
        poller_close(poller);
        return TRYST_E_SYSTEM;
    }
    return TRYST_OK;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void poller_close(struct poller *poller)
{
    fd_close(&poller->timer.fd);
    fd_close(&poller->wake.fd);
    fd_close(&poller->epoll_fd);
}

tryst_status poller_add(struct poller *poller, struct poller_source *source)
{
    struct epoll_event event = {.events = source->events, .data.ptr = source};
    int rc = epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, source->fd, &event);
    return rc == 0 ? TRYST_OK : TRYST_E_SYSTEM;
}

tryst_status poller_modify(struct poller *poller, struct poller_source *source,
                           uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (source->events == events)
        return TRYST_OK;
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) != 0)
        return TRYST_E_SYSTEM;
    source->events = events;
    return TRYST_OK;
}

void poller_remove(struct poller *poller, struct poller_source *source)
{
    if (source->fd >= 0)
        (void)epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    for (int i = 0; i < poller->batch_count; i++)
        if (poller->batch[i].data.ptr == source)
            poller->batch[i].data.ptr = NULL;
}

static int batch_deliver(struct poller *poller, struct epoll_event *events, int count)
{
    int called = 0;
    poller->batch = events;
    poller->batch_count = count;
    for (int i = 0; i < count; i++) {
        struct poller_source *source = events[i].data.ptr;
        if (!source)
            continue;
        called++;
        source->fn(source, events[i].events);
    }
    poller->batch = NULL;
    poller->batch_count = 0;
    return called;
}

int poller_run(struct poller *poller, uint64_t timeout_ns)
{
    struct epoll_event events[POLLER_BATCH];
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % NS_PER_S)};
    int count = epoll_pwait2(poller->epoll_fd, events, POLLER_BATCH, &timeout, NULL);
    if (count < 0 && errno == ENOSYS)
        count = epoll_wait(poller->epoll_fd, events, POLLER_BATCH,
                           (int)((timeout_ns + 999999) / 1000000));
    assert(!poller->batch); /* no poller function runs the poller */
    return count > 0 ? batch_deliver(poller, events, count) : 0;
}

void poller_wake(struct poller *poller)
{
    uint64_t one = 1;
    /* acq_rel: pairs with the exchange in wake_drain, so at most one write is outstanding
     * and none is lost: a wake that finds 1 is covered by an eventfd that is still
     * readable. */
    if (atomic_exchange_explicit(&poller->woken, 1, memory_order_acq_rel) != 0)
        return;
    if (write(poller->wake.fd, &one, sizeof one) < 0) {
        /* EAGAIN cannot happen below 2^64 - 1 wake-ups; a closed fd has no sleeper. */
    }
}

void poller_timer_set(struct poller *poller, uint64_t at_ns)
{
    struct itimerspec spec = {.it_value.tv_sec = (time_t)(at_ns / NS_PER_S),
                              .it_value.tv_nsec = (long)(at_ns % NS_PER_S)};
    if (poller->timer_ns == at_ns)
        return;
    if (timerfd_settime(poller->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0)
        poller->timer_ns = at_ns;
}
