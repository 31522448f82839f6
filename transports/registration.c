/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations of regions with rails, made when a bulk first uses the region there.
 *
 * Callers: transports, by their host table (host.c).
 */
#include "transports/registration.h"

#include "transports/memory/memory.h"
#include "transports/transport.h"

tryst_status memory_rail_handle(struct tryst_mem *mem, struct rail *rail, void **handle_p)
{
    void *handle = NULL;
    if (rail->index >= MEMORY_RAILS_MAX)
        return TRYST_E_UNSUPPORTED;
    if (mem->registrations[rail->index].rail != rail) {
        tryst_status status = TRYST_OK;
        if (rail->ops->mem_register)
            status = rail->ops->mem_register(rail, mem, &handle);
        if (status != TRYST_OK)
            return status;
        mem->registrations[rail->index].rail = rail;
        mem->registrations[rail->index].handle = handle;
        mem->registrations[rail->index].undo = rail->ops->mem_unregister;
    }
    *handle_p = mem->registrations[rail->index].handle;
    return TRYST_OK;
}
