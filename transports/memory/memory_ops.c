/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the kinds that are known: host memory's from the start.
 *
 * Invariant: a row that is known stays.
 * Callers: whoever moves bytes of some kind; transports/memory_kinds.c makes rows known.
 */
#include "transports/memory/memory_ops.h"

#include <stdatomic.h>

extern const struct memory_ops memory_host; /* memory_host.c */

enum { KINDS = 2 };

/* Release where a row is stored, acquire where it is read. */
static _Atomic(const struct memory_ops *) rows[KINDS] = {&memory_host};

const struct memory_ops *memory_ops_get(tryst_memory_kind kind)
{
    if ((unsigned)kind >= KINDS)
        return NULL;
    return atomic_load_explicit(&rows[kind], memory_order_acquire);
}

void memory_ops_set(const struct memory_ops *ops)
{
    atomic_store_explicit(&rows[ops->kind], ops, memory_order_release);
}
