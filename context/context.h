/* SPDX-License-Identifier: Apache-2.0 */
/** @file context.h
 *  The parts of a context that only this folder uses; context.c opens and closes them.
 */
#ifndef TRYST_CONTEXT_CONTEXT_H
#define TRYST_CONTEXT_CONTEXT_H

#include "core/text/err.h"
#include "devices.h"
#include "rails.h"
#include "rendezvous/progress/ctx.h"
#include "transports/module.h"

struct wiring {
    struct tryst_host host;
    struct memory_cache *memory;
    struct rails rails;
    struct devices devices;
    struct colls *colls;
    struct profile_file *profile; /**< NULL: TRYST_PROFILE is not set, or no group */
};

#endif
