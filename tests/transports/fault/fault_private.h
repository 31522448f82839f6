/* SPDX-License-Identifier: Apache-2.0 */
/* The fault wrapper's objects (fault.c), and the functions that hold frames and bulks
 * back (fault_hold.c). */
#ifndef TRYST_TESTS_TRANSPORTS_FAULT_FAULT_PRIVATE_H
#define TRYST_TESTS_TRANSPORTS_FAULT_FAULT_PRIVATE_H

#include <stddef.h>

#include "core/memory/list.h"
#include "core/os/poller.h"
#include "core/os/random.h"
#include "fault.h"
#include "transports/module.h"

/** Each kind of fault has a separate random stream: adding a kind does not change the
 *  others. */
enum fault_stream {
    STREAM_AGAIN,
    STREAM_DELAY,
    STREAM_REORDER,
    STREAM_UNREGISTERED,
    STREAMS
};

struct fault_rail {
    struct rail base;
    struct rail_events inner_events;
    /** The context's host, but with mem_handle of the wrapper. */
    struct tryst_host inner_host;
    const struct tryst_host *host;
    struct rail *inner;
    struct fault_script script;
    struct random random[STREAMS];
    /** Numbers of the newest sent frame, event, and read of a borrowed bulk. */
    uint64_t frames, events, reads;
    struct list eps;
    struct list failing; /**< endpoints with a `failed` to report */
    /** The script has returned TRYST_AGAIN where the inner transport has room: the caller
     *  must try again instead of sleeping. */
    bool again_reported;

    /** State of fault_hold.c. */
    uint64_t held_count; /**< number of held frames and bulks */
    /** A frame that is being built, and will be held; or NULL. */
    struct held_frame *begun;
    /** Earliest time at which a held frame or bulk may leave; UINT64_MAX: none waits for
     *  a time. */
    uint64_t due_ns;
    /** NULL: there is no timer, so arm returns UNSUPPORTED while due_ns is in the
     *  future. */
    struct poller *poller;
    struct poller_source timer; /**< makes the poller readable at due_ns */
};

struct fault_ep {
    struct endpoint base;
    struct endpoint *inner;
    struct list_node node;         /**< in rail->eps */
    struct list_node failing_node; /**< in rail->failing */
    bool spared;                   /**< the script is for another rank */
    bool silent, broken, failed_reported, closing;
    char text[TRANSPORT_TEXT_MAX];

    /** Held frames and bulks (fault_hold.c), in the order of their start. */
    struct list frames, bulks;
    unsigned frames_count;
    /** Due times of the newest held frame and bulk; a later one gets no earlier time. */
    uint64_t frame_due_ns, bulk_due_ns;
};

static inline struct fault_rail *ep_rail(const struct fault_ep *ep)
{
    return (struct fault_rail *)ep->base.rail;
}

/** Create the timer if something may be held. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status hold_open(struct fault_rail *rail);
/** Register the timer with the poller. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status hold_attach(struct fault_rail *rail);
void hold_close(struct fault_rail *rail);

/** Replace frame_begin, frame_commit and bulk_send of the inner transport. Each calls the
 *  inner function now, or hold_release calls it later. */
tryst_status hold_frame_begin(struct fault_ep *ep, size_t max, void **frame_p);
void hold_frame_commit(struct fault_ep *ep, size_t bytes);
tryst_status hold_bulk(struct fault_ep *ep, struct bulk *bulk);

/** Hand down the held frames and bulks that are due, and withdraw the bulks of closing
 *  endpoints. Returns the number of both. */
int hold_release(struct fault_rail *rail);
/** Prepare to sleep. TRYST_OK: the timer or the inner transport will wake the poller.
 *  TRYST_AGAIN: something is due now. TRYST_E_UNSUPPORTED: there is no timer. */
tryst_status hold_arm(struct fault_rail *rail);
/** Free the held frames of an endpoint that closes. Its held bulks end later, with
 *  TRYST_E_CANCELED, in hold_release or hold_bulks_withdraw. */
void hold_ep_close(struct fault_ep *ep);
/** Complete the held bulks with TRYST_E_CANCELED; returns their number. */
int hold_bulks_withdraw(struct fault_ep *ep);

#endif
