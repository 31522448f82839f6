/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc_machine.h in a build without hwloc. */
#include "hwloc_machine.h"

tryst_status hwloc_machine_read(const char *xml, struct err *err, struct machine *machine)
{
    (void)xml;
    (void)machine;
    return err_set(err, TRYST_E_UNSUPPORTED,
                   "this build has no hwloc: build with libhwloc-dev");
}
