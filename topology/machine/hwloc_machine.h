/* SPDX-License-Identifier: Apache-2.0 */
/* Describe a machine by hwloc: this machine, or another one from hwloc's XML. */
#ifndef TRYST_TOPOLOGY_MACHINE_HWLOC_MACHINE_H
#define TRYST_TOPOLOGY_MACHINE_HWLOC_MACHINE_H

#include "machine.h"

/** Fill the empty `machine` from hwloc's XML `xml`, or from this machine if `xml` is
 *  NULL. hwloc trusts an XML that is well-formed: a mistake in it may end the process.
 *  TRYST_E_NOMEM; TRYST_E_INVALID: hwloc rejects the XML; TRYST_E_SYSTEM;
 *  TRYST_E_UNSUPPORTED with `machine` unchanged: libhwloc is missing or too old, or this
 *  build has no hwloc. */
tryst_status hwloc_machine_read(const char *xml, struct err *err,
                                struct machine *machine);

#endif
