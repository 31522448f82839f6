/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_calls.h"

#include "topology/base/library.h"

static struct hwloc_calls calls;
#define HWLOC_SYMBOL(name) {#name, (void **)&calls.name},
static const struct library_symbol symbols[] = {HWLOC_CALLS(HWLOC_SYMBOL){NULL, NULL}};
static struct library library = LIBRARY_INIT("libhwloc.so.15", symbols);

tryst_status hwloc_calls_get(struct err *err, const struct hwloc_calls **calls_p)
{
    struct err why = ERR_INIT;
    tryst_status status = library_need(&library, &why);
    if (status != TRYST_OK)
        return err_set(err, status, "%s; install hwloc (libhwloc15)", why.text);
    *calls_p = &calls;
    return TRYST_OK;
}
