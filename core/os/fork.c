/* SPDX-License-Identifier: Apache-2.0 */
/* The fork count and the handlers that run in a child; see fork.h.
 *
 * The lock is taken before a fork and released on both sides after it, so the child's
 * list of handlers is whole whatever other threads of the parent were changing. */
#include "core/os/fork.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* result of pthread_atfork; written inside the once, read after it */
static int watch_error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list handlers; /* guarded by lock */

/* Relaxed: written while the child has one thread, before it can start others. */
_Atomic uint64_t fork_count;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add_explicit(&fork_count, 1, memory_order_relaxed);
    list_for_each_safe (&handlers, node, after) {
        struct fork_handler *handler = container_of(node, struct fork_handler, node);
        handler->child(handler->arg);
    }
    pthread_mutex_unlock(&lock);
}

static void watch(void)
{
    list_init(&handlers);
    watch_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

uint64_t fork_generation(void)
{
    pthread_once(&once, watch);
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

tryst_status fork_handler_add(struct fork_handler *handler)
{
    pthread_once(&once, watch);
    if (watch_error)
        return TRYST_E_NOMEM;
    pthread_mutex_lock(&lock);
    list_push_back(&handlers, &handler->node);
    pthread_mutex_unlock(&lock);
    return TRYST_OK;
}

void fork_handler_remove(struct fork_handler *handler)
{
    pthread_once(&once, watch);
    pthread_mutex_lock(&lock);
    list_remove(&handler->node);
    pthread_mutex_unlock(&lock);
}
