/* SPDX-License-Identifier: Apache-2.0 */
/** @file context.h
 *  The context; context.c opens and closes its parts.
 */
#ifndef TRYST_CONTEXT_CONTEXT_H
#define TRYST_CONTEXT_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/log/trace.h"
#include "core/os/fork.h"
#include "core/os/poller.h"
#include "core/text/err.h"
#include "devices.h"
#include "rails.h"
#include "rendezvous/progress/submission.h"
#include "transports/module.h"
#include "tryst/tryst.h"

struct priorities;
struct recorder;
struct rendezvous;
struct sched;

struct tryst_config {
    struct config *config;
};

struct tryst_ctx {
    struct config *config;
    struct log log;
    struct poller poller;
    struct trace *trace;
    struct recorder *recorder;     /**< of steps, as profiles; NULL: off */
    struct priorities *priorities; /**< of collectives, from profiles; NULL: off */
    struct sched *sched;
    struct rendezvous *rdv;
    struct tryst_group *group;
    /** Of the newest group, for files; 0 before the first one. Any thread reads them. */
    _Atomic(uint64_t) run;
    _Atomic(int32_t) size;
    bool leaving; /**< the group is being closed; a call has not ended it yet */
    struct fork_handler fork;
    struct wiring *wiring; /**< host table, memory, rails */
};

struct wiring {
    struct tryst_host host;
    struct memory_cache *memory;
    struct rails rails;
    struct devices devices;
    struct colls *colls;
    struct profile_file *profile; /**< NULL: TRYST_PROFILE is not set, or no group */
};

/** True if this process is a forked child, in which the context is not usable. */
static inline bool is_forked(const tryst_ctx *ctx)
{
    return rendezvous_usable(ctx->rdv) == TRYST_E_FORKED;
}

#endif
