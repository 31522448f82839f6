/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that names the modules of memory kinds.
 *
 * Invariant: a row is made known (memory_ops_set) when its driver and at least one device have
 * answered.
 * Callers: the memory cache, operations on device tensors, tryst-info.
 */
#include "transports/memory_kinds.h"

#include <stdio.h>

#include "transports/module_load.h"

static const char *module_name(tryst_memory_kind kind)
{
    return kind == TRYST_MEMORY_CUDA ? "cuda" : NULL;
}

tryst_status memory_ops_load(const struct tryst_host *host, tryst_memory_kind kind,
                             const struct memory_ops **ops_p, char *text)
{
    const struct memory_ops *ops = memory_ops_get(kind);
    int32_t count;
    if (!ops && !module_name(kind)) {
        (void)snprintf(text, MEMORY_TEXT_MAX, "there is no memory of kind %d", (int)kind);
        return TRYST_E_UNSUPPORTED;
    }
    tryst_status status =
        ops ? TRYST_OK : module_load_memory(host, module_name(kind), &ops, text);
    if (status == TRYST_OK)
        status = ops->devices(&count, text);
    if (status != TRYST_OK)
        return status;
    memory_ops_set(ops);
    *ops_p = ops;
    return TRYST_OK;
}
