/* SPDX-License-Identifier: Apache-2.0 */
/** @file context.h
 *  What a context is wired of, for the files of this folder; opened and closed in context.c.
 */
#ifndef COMMSCHED_CONTEXT_CONTEXT_H
#define COMMSCHED_CONTEXT_CONTEXT_H

#include "commsched/progress/ctx.h"
#include "core/text/err.h"
#include "devices.h"
#include "rails.h"
#include "transports/module.h"

struct wiring {
    tryst_host host;
    struct memory_cache *memory;
    struct rails rails;
    struct devices devices;
    struct colls *colls;
};

#endif
