/* SPDX-License-Identifier: Apache-2.0 */
/* The module tryst_topology.so: the planner, for rank 0 of a group. It holds copies of
 * the objects of core that it needs, so it works beside every form of libtryst. */
#include "topology/planner/planner.h"
#include "transports/module.h"
#include "tryst/tryst.h"

#define TEXT_OF(number)    #number
#define VERSION_OF(number) TEXT_OF(number)

static const struct tryst_module module = {
    .abi_id = TRYST_MODULE_ABI_ID,
    .name = PLANNER_MODULE,
    .version = VERSION_OF(TRYST_VERSION_MAJOR) "." VERSION_OF(
        TRYST_VERSION_MINOR) "." VERSION_OF(TRYST_VERSION_PATCH),
    .planner = &planner_ops};

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
    __attribute__((visibility("default")));

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    (void)host;
    return &module;
}
