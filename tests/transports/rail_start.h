/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a rail for a test, in the thread that progresses it. */
#ifndef TRYST_TESTS_TRANSPORTS_RAIL_START_H
#define TRYST_TESTS_TRANSPORTS_RAIL_START_H

#include "transports/transport.h"

/** Open a rail and attach it. Statuses of rail_open and rail_attach. */
static inline tryst_status rail_start(const struct transport_ops *ops,
                                      const struct rail_params *params,
                                      struct rail **rail_p)
{
    struct rail *rail;
    tryst_status status = transport_rail_open(ops, params, &rail);
    if (status == TRYST_OK && rail->ops->rail_attach)
        status = rail->ops->rail_attach(rail);
    else if (status != TRYST_OK)
        return status;
    if (status != TRYST_OK)
        rail->ops->rail_close(rail);
    else
        *rail_p = rail;
    return status;
}

#endif
