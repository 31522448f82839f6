/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of memory: the one place that names their rows.
 *
 * Idea: a kind that is not built in is a module of its name, loaded when somebody first asks for
 * such memory, so a run without device tensors maps no driver. Invariant: a row that has been
 * found stays; before that, its driver and at least one device answered.
 * Callers: the memory cache, operations on device tensors, tryst-info.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "transports/memory.h"
#include "transports/module.h"
#include "transports/transport.h"

extern const struct memory_ops memory_host; /* memory_host.c */

enum { KINDS = 2 };
static const char *const module_names[KINDS] = {
    [TRYST_MEMORY_HOST] = NULL, [TRYST_MEMORY_CUDA] = "cuda"};

/* Release where a row is stored, acquire where it is read. */
static _Atomic(const struct memory_ops *) rows[KINDS] = {&memory_host};

const struct memory_ops *memory_ops_get(tryst_memory_kind kind)
{
    if ((unsigned)kind >= KINDS)
        return NULL;
    return atomic_load_explicit(&rows[kind], memory_order_acquire);
}

tryst_status memory_ops_load(const struct tryst_host *host, tryst_memory_kind kind,
                             const struct memory_ops **ops_p, char *text)
{
    const struct memory_ops *ops = memory_ops_get(kind);
    int32_t count;
    if ((unsigned)kind >= KINDS) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX, "there is no memory of kind %d",
                       (int)kind);
        return TRYST_E_UNSUPPORTED;
    }
    tryst_status status =
        ops ? TRYST_OK : module_load_memory(host, module_names[kind], &ops, text);
    if (status == TRYST_OK)
        status = ops->devices(&count, text);
    if (status != TRYST_OK)
        return status;
    atomic_store_explicit(&rows[kind], ops, memory_order_release);
    *ops_p = ops;
    return TRYST_OK;
}
