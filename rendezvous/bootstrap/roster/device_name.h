/* SPDX-License-Identifier: Apache-2.0 */
/** @file device_name.h
 *  Device names: "/job:NAME/replica:N/task:N/device:TYPE:ID", and the legacy names
 *  "/cpu:N" and "/gpu:N".
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_DEVICE_NAME_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_DEVICE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "tryst/key.h"

/** Check that `device` is a whole device name or, if `partly`, one that ends after any of
 *  its parts. Returns NULL if so; else the reason, with the offset of the fault in *at_p.
 *  Pure; any thread. */
const char *device_name_check(tryst_view device, bool partly, size_t *at_p);

/** True if `prefix` covers `device`: both are the same, or `device` begins with
 *  `prefix` by whole components. */
bool device_name_covers(tryst_view prefix, tryst_view device);
/** Compare names: below, equal to or above 0. In this order the names that a name covers
 *  come directly after it ('/' precedes every other character). */
int device_name_compare(tryst_view a, tryst_view b);

#endif
