/* SPDX-License-Identifier: Apache-2.0 */
/* See closer.h. */
#include "core/os/closer.h"

#include <signal.h>
#include <time.h>

#include "core/os/clock.h"

void closer_init(struct closer *closer)
{
    *closer = (struct closer){.made = false};
    pthread_mutex_init(&closer->lock, NULL);
    list_init(&closer->queue);
}

static void *closer_run(void *arg)
{
    struct closer *closer = arg;
    struct list_node *node;
    pthread_mutex_lock(&closer->lock);
    while ((node = list_pop_front(&closer->queue)) != NULL) {
        struct closer_job *job = container_of(node, struct closer_job, node);
        pthread_mutex_unlock(&closer->lock);
        job->run(job);
        pthread_mutex_lock(&closer->lock);
    }
    closer->runs = false;
    pthread_mutex_unlock(&closer->lock);
    return NULL;
}

/* Start a thread that takes no signals of the program. The caller holds the lock. An
 * earlier thread has cleared `runs`, so it is about to return and can be joined. */
static bool thread_start(struct closer *closer)
{
    sigset_t all, mask;
    if (closer->made)
        pthread_join(closer->thread, NULL);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    closer->made = pthread_create(&closer->thread, NULL, closer_run, closer) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return closer->made;
}

bool closer_add(struct closer *closer, struct closer_job *job)
{
    pthread_mutex_lock(&closer->lock);
    bool runs = closer->runs || thread_start(closer);
    closer->runs = runs;
    if (runs)
        list_push_back(&closer->queue, &job->node);
    pthread_mutex_unlock(&closer->lock);
    return runs;
}

/* Join the thread, if there is one that has ended. False: the thread still runs. */
static bool thread_join(struct closer *closer)
{
    pthread_mutex_lock(&closer->lock);
    bool rests = !closer->runs;
    if (rests && closer->made)
        pthread_join(closer->thread, NULL);
    closer->made &= !rests;
    pthread_mutex_unlock(&closer->lock);
    return rests;
}

bool closer_wait(struct closer *closer, uint64_t wait_ns)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t until_ns = clock_monotonic_ns() + wait_ns;
    while (!thread_join(closer)) {
        if (clock_monotonic_ns() >= until_ns)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

void closer_end(struct closer *closer)
{
    pthread_mutex_destroy(&closer->lock);
}
