/* SPDX-License-Identifier: Apache-2.0 */
/** @file poller.h
 *  One epoll set per context, with a wake-up and one timer.
 *
 *  Idea: everything that can make a context runnable is a descriptor in one epoll set, so
 *  a host's event loop sleeps on one descriptor. A source is a member of the object that
 *  owns the descriptor; an event calls the source's function, under the progress lock.
 *
 *  Threads: all calls are made by the thread that progresses, except poller_wake.
 */
#ifndef TRYST_CORE_OS_POLLER_H
#define TRYST_CORE_OS_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

struct epoll_event;
struct poller_source;
typedef void (*poller_fn)(struct poller_source *source, uint32_t epoll_events);

/** A descriptor and its function; a member of the object that owns the descriptor. */
struct poller_source {
    int fd;
    uint32_t events; /**< EPOLLIN and the like, as registered */
    poller_fn fn;
};

struct poller {
    int epoll_fd;
    struct poller_source wake;  /**< eventfd */
    struct poller_source timer; /**< timerfd */
    uint64_t timer_ns;          /**< absolute expiry as armed, 0 when off */
    struct epoll_event *batch;  /**< events during delivery, else NULL */
    int batch_count;
    _Atomic(uint32_t) woken; /**< 1 while a wake-up is in the eventfd */
};

tryst_status poller_open(struct poller *poller);
void poller_close(struct poller *poller);

/** Register `source`; the caller has set its fd, events and fn. Returns TRYST_OK or
 *  TRYST_E_SYSTEM. */
tryst_status poller_add(struct poller *poller, struct poller_source *source);
/** Change the events of a registered source. */
tryst_status poller_modify(struct poller *poller, struct poller_source *source,
                           uint32_t events);
/** Remove `source`; its owner may free it at once, also inside a poller function. */
void poller_remove(struct poller *poller, struct poller_source *source);

/** Wait at most `timeout_ns` (0: not at all) and call the functions of the ready sources.
 *  Returns the number of sources called. */
int poller_run(struct poller *poller, uint64_t timeout_ns);

/** Make the epoll descriptor readable until the next poller_run. Any thread. */
void poller_wake(struct poller *poller);

/** Arm the timer for the absolute CLOCK_MONOTONIC time `at_ns`; 0 turns it off. */
void poller_timer_set(struct poller *poller, uint64_t at_ns);

#endif
