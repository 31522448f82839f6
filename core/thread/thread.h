/* SPDX-License-Identifier: Apache-2.0 */
/** @file thread.h
 *  Threads of the library that run foreign code, and the exit of the process.
 *
 *  One idea: exit() runs the destructors of all libraries while other threads still run.
 *  A destructor of a fabric's library beside a thread inside that library crashes the
 *  process. So exit() first ends the threads of this file: each gets `stop`, and the exit
 *  waits until `run` has returned (thread.c).
 *
 *  Ownership: the creator owns `struct thread`, which must stay until the thread has been
 *  joined, or until the thread itself has called thread_leave.
 */
#ifndef TRYST_CORE_THREAD_THREAD_H
#define TRYST_CORE_THREAD_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "core/log/log.h"
#include "core/memory/list.h"
#include "core/os/clock.h"

struct thread_params {
    void (*run)(void *arg);
    /** Make `run` return soon: called at the exit of the process, in the exiting thread,
     *  again every 0.1 s until `run` has returned. Must not block. NULL: `run` polls
     *  thread_exits. */
    void (*stop)(void *arg);
    void *arg;
    const char *name;      /**< for the line of a slow exit, as "ucx"; static */
    const struct log *log; /**< whether that line is written; the line goes to stderr */
};

struct thread {
    pthread_t id;
    struct thread_params params;
    struct log log; /**< a copy without the sink, which ends with the context */
    struct list_node node;
    clockid_t clock; /**< the processor time of the thread; valid while `runs` */
    bool runs;
    _Atomic bool exits;
};

/** Create a thread in which every signal is blocked. The caller joins or detaches
 *  `thread->id`. Returns an errno: ENOMEM also where the process is past its exit
 *  handlers. Any thread. */
int thread_open(struct thread *thread, const struct thread_params *params);
/** End this thread's stay in foreign code before `run` returns, so that `run` may free
 *  the record. In a thread of thread_open; in any other, nothing happens. */
void thread_leave(void);
/** True in a thread of thread_open if the process exits: `run` should return as soon as
 *  possible, and call nothing of the program. */
bool thread_exits(void);
/** Register the exit handler again if libraries were loaded since it was registered: exit
 *  handlers run in the reverse order, and this one must precede those of a fabric's
 *  library. Called between two steps of a start. */
void thread_exit_watch(void);

/** Create a condition that counts time by clock_monotonic_ns. Returns an errno. */
int thread_cond_open(pthread_cond_t *cond);

/** Convert a time of clock_monotonic_ns. */
static inline struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                             .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
