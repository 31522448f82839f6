/* SPDX-License-Identifier: Apache-2.0 */
/** @file rendezvous.h
 *  The rendezvous engine of one context: operations meet by key and become transfers.
 *
 *  Domain: all functions are called by the thread that holds the context's progress lock,
 *  except rendezvous_eager_max.
 */
#ifndef TRYST_RENDEZVOUS_RENDEZVOUS_H
#define TRYST_RENDEZVOUS_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/log/trace.h"
#include "core/os/clock.h"
#include "core/os/poller.h"
#include "core/text/err.h"
#include "rendezvous/op/coll_calls.h"
#include "tryst/live.h"
#include "tryst/types.h"

struct link_address;
struct link_tcp;
struct rail;
struct rail_events;
struct rendezvous;
struct memory_cache;
struct recorder;
struct sched;
struct transfer;
struct tryst_group;
struct tryst_host;

struct rendezvous_params {
    tryst_ctx *ctx; /**< passed to the functions below, not used */
    const struct config *config;
    const struct log *log;
    const struct clock *clock;
    struct poller *poller;
    struct trace *trace;       /**< NULL: off */
    struct recorder *recorder; /**< gets the time of waits; NULL: off */
    /** The host, which loads kinds of memory. NULL: host memory only. */
    const struct tryst_host *host;
    struct memory_cache *memory;
    struct sched *sched;          /**< belongs to the caller */
    struct coll_calls coll_calls; /**< all zero: no collectives */
    /** Open the rail of transport `kind` (enum transport_kind) at NIC `nic`, numbered as
     *  announced (0 for transports without a network), and add it: called at the first
     *  need, in the progress domain. TRYST_OK; TRYST_IN_PROGRESS: it opens in
     *  another thread, and rendezvous_rail_opened follows (a call before that may return
     *  an error). Else `text` (TRANSPORT_TEXT_MAX) receives the reason of a failure. */
    tryst_status (*rail_open)(tryst_ctx *ctx, int kind, uint32_t nic, char *text);
    /** Start the driver of devices of `kind`, in another thread, `device` first. Any
     *  thread; never blocks. TRYST_OK (started already), TRYST_IN_PROGRESS:
     *  rendezvous_device_started follows; or an error. NULL: the first use of a device
     *  starts the driver, and blocks. */
    tryst_status (*device_start)(tryst_ctx *ctx, tryst_memory_kind kind, int32_t device);
};

/** The events that the rails of this context are opened with. */
extern const struct rail_events *const rendezvous_rail_events;
/** Starts slices, for sched_params. */
extern tryst_status (*const rendezvous_slice_start)(struct transfer *transfer);
/** WIRE_VERSION, which must be equal on all ranks of a group: the roster compares it. */
extern const uint32_t rendezvous_wire_version;

/** Return the most bytes that travel as DATA: TRYST_EAGER_MAX, or the room of a frame if
 *  that is less. Any thread. */
uint64_t rendezvous_eager_max(const struct config *config);

tryst_status rendezvous_open(const struct rendezvous_params *params, struct err *err,
                             struct rendezvous **rdv_p);
/** Fill in what the rails of the context share: tryst_host.closed and `copies`. */
void rendezvous_host_fill(struct rendezvous *rdv, struct tryst_host *host);
/** Close the engine; no group is left. Handles that the user still holds stay readable,
 *  and the engine's memory stays until the last of them is released. */
void rendezvous_close(struct rendezvous *rdv);

/** Add the rail of transport `kind` (enum transport_kind) at NIC `nic`. The rail belongs
 *  to the caller, and is closed after rendezvous_group_close. At most MEMORY_RAILS_MAX
 *  rails are added. */
void rendezvous_rail_add(struct rendezvous *rdv, int kind, uint32_t nic,
                         struct rail *rail);
/** Open the endpoints that wait for this rail: the start has ended, and the rail was
 *  added, or `text` is the reason of the error. */
void rendezvous_rail_opened(struct rendezvous *rdv, int kind, uint32_t nic,
                            tryst_status status, const char *text);
/** Release the operations that wait for the driver of `kind`: the start has ended, and
 *  its functions are known, or `text` is the reason of the error. */
void rendezvous_device_started(struct rendezvous *rdv, tryst_memory_kind kind,
                               tryst_status status, const char *text);
/** Forget all rails: they are about to be closed, or were. */
void rendezvous_rails_forget(struct rendezvous *rdv);
/** Listen for links (`tcp` NULL: on this host only), and return in `*address_p` the
 *  address for the roster. */
tryst_status rendezvous_listen(struct rendezvous *rdv, const struct link_tcp *tcp,
                               struct link_address *address_p);
void rendezvous_listen_stop(struct rendezvous *rdv);

#endif
