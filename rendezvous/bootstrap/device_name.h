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

#endif
