/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in transports, in order of preference: the one place that names them.
 * Loadable ones (module_load.c) come after these. A rail of either opens here.
 */
#include "transports/transport.h"

extern const struct transport_ops transport_self; /* self/self.c */
extern const struct transport_ops transport_shm;  /* shm/shm.c */

const struct transport_ops *const transport_builtin[] = {&transport_self, &transport_shm,
                                                         NULL};

tryst_status transport_rail_open(const struct transport_ops *ops,
                                 const struct rail_params *params, struct rail **rail_p)
{
    tryst_status status = ops->rail_open(params, rail_p);
    if (status == TRYST_OK)
        (*rail_p)->ops = ops;
    return status;
}
