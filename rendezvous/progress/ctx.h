/* SPDX-License-Identifier: Apache-2.0 */
/** @file ctx.h
 *  The context as the files of commsched see it; context/context.c opens its parts.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_CTX_H
#define TRYST_RENDEZVOUS_PROGRESS_CTX_H

#include <stdatomic.h>
#include <stdint.h>

#include "ack_timer.h"
#include "core/config/config.h"
#include "core/log/log.h"
#include "core/log/trace.h"
#include "core/os/fork.h"
#include "core/os/poller.h"
#include "progress.h"
#include "tryst/tryst.h"

struct priorities;
struct recorder;
struct sched;
struct rendezvous;

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
    struct ack_timer ack_timer;
    struct rendezvous *rdv;
    struct tryst_group *group;
    /** Of the newest group, for files; 0 before the first one. Any thread reads them. */
    _Atomic(uint64_t) run;
    _Atomic(int32_t) size;
    bool cut; /**< the group's endpoints were closed by force, but not all have ended */
    struct progress progress;
    struct fork_handler fork;
    struct wiring *wiring; /**< of context/ alone: host table, memory, rails */
};

#endif
