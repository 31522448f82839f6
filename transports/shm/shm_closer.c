/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes imports of peers' device memory in a thread.
 *
 * Idea: a driver closes an import when the device has done all its work, and a stream of
 * that device may be waiting for an operation of this library (tryst_op_stream_wait). In
 * the progress domain such a close could wait for itself. So a separate thread closes
 * imports, and nothing waits for it. The thread runs while there are imports to close;
 * later ones start another thread.
 * Invariant: under the lock, `runs` is set exactly while a thread will check `queue` once
 * more.
 */
#include <pthread.h>
#include <time.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "shm_closer.h"
#include "transports/signal_guard.h"

/* How long the rail's close waits for the thread. No stream waits for this library any
 * more by then; kernels of the program may still run. */
#define CLOSER_END_NS (2 * NS_PER_S)

/* The imports of one region. */
struct closing {
    struct list_node node;
    struct list imports;
    struct memory_ipc ipc;
};

struct shm_closer {
    pthread_mutex_t lock; /* guards the rest */
    struct list queue;
    pthread_t thread;
    bool made; /* a thread exists, to be joined */
    bool runs;
};

static void imports_close(struct list *imports, const struct memory_ipc *ipc)
{
    struct list_node *node;
    while ((node = list_pop_front(imports)) != NULL) {
        struct shm_import *import = container_of(node, struct shm_import, node);
        import->memory->ipc_close(import->device, import->data, ipc);
        mem_free(import);
    }
}

static void *closer_run(void *arg)
{
    struct shm_closer *closer = arg;
    struct list_node *node;
    pthread_mutex_lock(&closer->lock);
    while ((node = list_pop_front(&closer->queue)) != NULL) {
        struct closing *closing = container_of(node, struct closing, node);
        pthread_mutex_unlock(&closer->lock);
        imports_close(&closing->imports, &closing->ipc);
        mem_free(closing);
        pthread_mutex_lock(&closer->lock);
    }
    closer->runs = false;
    pthread_mutex_unlock(&closer->lock);
    return NULL;
}

/* Start a thread, under the lock. The earlier one does not run any more and has nothing
 * left to do but return. */
static bool thread_start(struct shm_closer *closer)
{
    sigset_t mask;
    if (closer->made)
        pthread_join(closer->thread, NULL);
    signal_mask_begin(&mask);
    closer->made = pthread_create(&closer->thread, NULL, closer_run, closer) == 0;
    signal_mask_end(&mask);
    return closer->made;
}

static struct shm_closer *closer_get(struct shm_rail *rail)
{
    if (!rail->closer) {
        rail->closer = mem_zalloc(sizeof *rail->closer);
        if (!rail->closer)
            return NULL;
        pthread_mutex_init(&rail->closer->lock, NULL);
        list_init(&rail->closer->queue);
    }
    return rail->closer;
}

static bool closing_add(struct shm_closer *closer, struct shm_mapped *mapped)
{
    struct closing *closing = mem_zalloc(sizeof *closing);
    if (!closing)
        return false;
    pthread_mutex_lock(&closer->lock);
    bool runs = closer->runs || thread_start(closer);
    closer->runs = runs;
    if (runs) {
        list_init(&closing->imports);
        list_append(&closing->imports, &mapped->imports);
        closing->ipc = mapped->ipc;
        list_push_back(&closer->queue, &closing->node);
    }
    pthread_mutex_unlock(&closer->lock);
    if (!runs)
        mem_free(closing);
    return runs;
}

void shm_imports_close(struct shm_rail *rail, struct shm_mapped *mapped)
{
    if (list_empty(&mapped->imports))
        return;
    struct shm_closer *closer = closer_get(rail);
    /* closes here, and waits as long as the driver does */
    if (!closer || !closing_add(closer, mapped))
        imports_close(&mapped->imports, &mapped->ipc);
}

static bool closer_rests(struct shm_closer *closer)
{
    pthread_mutex_lock(&closer->lock);
    bool rests = !closer->runs;
    pthread_mutex_unlock(&closer->lock);
    return rests;
}

void shm_closer_end(struct shm_rail *rail)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t until_ns = clock_monotonic_ns() + CLOSER_END_NS;
    struct shm_closer *closer = rail->closer;
    if (!closer)
        return;
    while (!closer_rests(closer) && clock_monotonic_ns() < until_ns)
        nanosleep(&nap, NULL);
    /* the thread goes on alone, and the memory that it uses stays */
    if (!closer_rests(closer)) {
        pthread_detach(closer->thread);
        rail->pair.host->log(
            rail->pair.host, TRYST_LOG_WARN,
            "shm: cannot close imported device memory of other processes yet: it stays "
            "open until the device's streams are idle");
        return;
    }
    if (closer->made)
        pthread_join(closer->thread, NULL);
    pthread_mutex_destroy(&closer->lock);
    mem_free(closer);
    rail->closer = NULL;
}
