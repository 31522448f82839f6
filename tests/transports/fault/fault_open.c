/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the faults of TRYST_FAULT around each rail that the library opens.
 *
 * One idea: the linker replaces transport_rail_open, through which each rail is opened
 * (--wrap). So the library has no part in this. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fault.h"

static struct fault_script script;
static bool is_set;

static void script_read(void)
{
    char why[TRANSPORT_TEXT_MAX];
    const char *text = getenv("TRYST_FAULT");
    is_set = text && *text;
    if (!is_set || fault_script_parse(text, &script, why) == TRYST_OK)
        return;
    (void)fprintf(stderr, "TRYST_FAULT: %s\n", why);
    abort();
}

const struct fault_script *fault_script_find(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, script_read);
    return is_set ? &script : NULL;
}

tryst_status __real_transport_rail_open(const struct transport_ops *ops,
                                        const struct rail_params *params,
                                        struct rail **rail_p);
tryst_status __wrap_transport_rail_open(const struct transport_ops *ops,
                                        const struct rail_params *params,
                                        struct rail **rail_p);

tryst_status __wrap_transport_rail_open(const struct transport_ops *ops,
                                        const struct rail_params *params,
                                        struct rail **rail_p)
{
    const struct fault_script *faults = fault_script_find();
    return faults ? fault_rail_open(ops, faults, params, rail_p)
                  : __real_transport_rail_open(ops, params, rail_p);
}
