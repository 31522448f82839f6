/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libhwloc that Tryst calls; the library is opened on first use.
 *
 * One idea: a program that loads libtryst and requests no topology needs no libhwloc,
 * even if Tryst was built with hwloc. The library is never closed.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_HWLOC_CALLS_H
#define TRYST_TOPOLOGY_MACHINE_HWLOC_CALLS_H

#include <hwloc.h>

#include "core/text/err.h"

#define HWLOC_CALLS(X)                    \
    X(hwloc_topology_init)                \
    X(hwloc_topology_destroy)             \
    X(hwloc_topology_load)                \
    X(hwloc_topology_set_flags)           \
    X(hwloc_topology_set_io_types_filter) \
    X(hwloc_topology_set_xmlbuffer)       \
    X(hwloc_get_obj_by_depth)             \
    X(hwloc_bitmap_list_snprintf)         \
    X(hwloc_bitmap_weight)                \
    X(hwloc_bitmap_first)                 \
    X(hwloc_memattr_get_value)            \
    X(hwloc_distances_get_by_name)        \
    X(hwloc_distances_release)

struct hwloc_calls {
#define HWLOC_MEMBER(name) __typeof__(&name) name;
    HWLOC_CALLS(HWLOC_MEMBER)
#undef HWLOC_MEMBER
};

/** Set *calls_p to the functions. Returns TRYST_OK, or TRYST_E_UNSUPPORTED with the
 *  reason in `err`. Threads: any. */
tryst_status hwloc_calls_get(struct err *err, const struct hwloc_calls **calls_p);

#endif
