/* SPDX-License-Identifier: Apache-2.0 */
/** @file closer.h
 *  Runs jobs that may block in the kernel or in a driver, in a thread.
 *
 *  One idea: a close may wait for a process or a device, so the progress domain never
 *  makes such a call itself. The thread runs while there are jobs; a later job starts a
 *  new one.
 *  Invariant: under the lock, `runs` is set exactly while a thread will check `queue`
 *  once more. Any thread.
 */
#ifndef TRYST_CORE_OS_CLOSER_H
#define TRYST_CORE_OS_CLOSER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"

/** One job, embedded in the caller's object. */
struct closer_job {
    struct list_node node;
    /** Runs in the thread, and may free the job. */
    void (*run)(struct closer_job *job);
};

struct closer {
    pthread_mutex_t lock; /**< guards the rest */
    struct list queue;
    pthread_t thread;
    bool made; /**< a thread exists, to be joined */
    bool runs;
};

void closer_init(struct closer *closer);

/** Run the job in the thread, after the jobs added before. False: no thread could be
 *  started, and the job was not taken. */
bool closer_add(struct closer *closer, struct closer_job *job);

/** Wait up to `wait_ns` until all jobs have run, and join the thread. False: a job still
 *  blocks; the closer must stay. */
bool closer_wait(struct closer *closer, uint64_t wait_ns);

/** End a closer after closer_wait returned true. */
void closer_end(struct closer *closer);

#endif
