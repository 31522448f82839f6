/* SPDX-License-Identifier: Apache-2.0 */
/** @file registration.h
 *  What a rail knows of a region (transports/memory/memory.h).
 *
 *  Domain: the progress domain. Undone by memory_release and memory_rail_forget.
 */
#ifndef TRANSPORTS_REGISTRATION_H
#define TRANSPORTS_REGISTRATION_H

#include "tryst/types.h"

struct rail;
struct tryst_mem;

/** This rail's registration of `mem`, made now if need be; NULL where the rail needs
 *  none. */
tryst_status memory_rail_handle(struct tryst_mem *mem, struct rail *rail,
                                void **handle_p);

#endif
