/* SPDX-License-Identifier: Apache-2.0 */
/** @file device_name.h
 *  Device names: "/job:NAME/replica:N/task:N/device:TYPE:ID", and of old "/cpu:N", "/gpu:N".
 */
#ifndef RENDEZVOUS_DEVICE_NAME_H
#define RENDEZVOUS_DEVICE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "tryst/key.h"

/** NULL when `device` is a device name, whole or (`partly`) to the end of one of its parts; else the reason,
 *  with the place in *at_p. Pure; any thread. */
const char *device_name_check(tryst_view device, bool partly, size_t *at_p);

/** Does `prefix` cover `device`: is it the same, or the beginning of it by whole components? */
bool device_name_covers(tryst_view prefix, tryst_view device);
/** Below, equal to or above 0, in an order in which whatever a name covers stands directly behind it
 *  ('/' comes before every other character). */
int device_name_compare(tryst_view a, tryst_view b);

#endif
