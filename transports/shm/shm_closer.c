/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes imports of peers' device memory in a thread.
 *
 * Idea: a driver closes an import when the device has done all its work, and a stream of
 * that device may be waiting for an operation of this library (tryst_op_stream_wait). In
 * the progress domain such a close could wait for an operation that only progress can
 * complete. So a thread closes imports (core/os/closer.h), and only the rail's close
 * waits for the thread.
 */
#include "shm_closer.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/closer.h"

/* How long the rail's close waits for the thread. No stream waits for this library then,
 * but kernels of the program may still run. */
#define CLOSER_END_NS (2 * NS_PER_S)

/* The imports of one region. */
struct closing {
    struct closer_job job;
    struct list imports;
    struct memory_ipc ipc;
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

static void closing_run(struct closer_job *job)
{
    struct closing *closing = container_of(job, struct closing, job);
    imports_close(&closing->imports, &closing->ipc);
    mem_free(closing);
}

static struct closer *closer_get(struct shm_rail *rail)
{
    if (!rail->closer) {
        rail->closer = mem_zalloc(sizeof *rail->closer);
        if (!rail->closer)
            return NULL;
        closer_init(rail->closer);
    }
    return rail->closer;
}

/* Give the imports to the thread. False: they stay in `mapped`. */
static bool closing_add(struct closer *closer, struct shm_mapped *mapped)
{
    struct closing *closing = mem_zalloc(sizeof *closing);
    if (!closing)
        return false;
    closing->job.run = closing_run;
    closing->ipc = mapped->ipc;
    list_init(&closing->imports);
    list_append(&closing->imports, &mapped->imports);
    if (closer_add(closer, &closing->job))
        return true;
    list_append(&mapped->imports, &closing->imports);
    mem_free(closing);
    return false;
}

void shm_imports_close(struct shm_rail *rail, struct shm_mapped *mapped)
{
    if (list_empty(&mapped->imports))
        return;
    struct closer *closer = closer_get(rail);
    /* without the thread: wait here for as long as the driver does */
    if (!closer || !closing_add(closer, mapped))
        imports_close(&mapped->imports, &mapped->ipc);
}

void shm_closer_end(struct shm_rail *rail)
{
    struct closer *closer = rail->closer;
    if (!closer)
        return;
    /* on a time-out the thread goes on alone, and the memory that it uses stays */
    if (!closer_wait(closer, CLOSER_END_NS)) {
        rail->pair.host->log(
            rail->pair.host, TRYST_LOG_WARN,
            "shm: cannot close imported device memory of other processes yet: it stays "
            "open until the device's streams are idle");
        return;
    }
    closer_end(closer);
    mem_free(closer);
    rail->closer = NULL;
}
