/* SPDX-License-Identifier: Apache-2.0 */
/* The fault wrapper's objects (fault.c), and what holds frames and bulks back (fault_hold.c). */
#ifndef TRANSPORTS_FAULT_PRIVATE_H
#define TRANSPORTS_FAULT_PRIVATE_H

#include <stddef.h>

#include "core/memory/list.h"
#include "core/os/poller.h"
#include "core/os/random.h"
#include "transports/fault.h"
#include "transports/fault_script.h"
#include "transports/module.h"

/* Each kind of fault draws from a stream of its own: one more kind does not move the others. */
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
    tryst_host inner_host; /* the context's, but registrations go through us */
    const tryst_host *host;
    struct rail *inner;
    struct fault_script script;
    struct random random[STREAMS];
    uint64_t frames, events;
    struct list eps;
    struct list failing; /* endpoints that are to say `failed` */
    bool again_said;     /* without need: the caller must not sleep on it */

    /* of fault_hold.c */
    uint64_t held_count;        /* frames and bulks that are held */
    struct held_frame *begun;   /* a frame that is being built, and will be; or NULL */
    uint64_t due_ns;            /* when the next one may go, UINT64_MAX: not by time */
    struct poller *poller;      /* NULL: who arms sleeps shortly instead */
    struct poller_source timer; /* makes the poller readable at due_ns */
};

struct fault_ep {
    struct endpoint base;
    struct endpoint *inner;
    struct list_node node;         /* of rail->eps */
    struct list_node failing_node; /* of rail->failing */
    bool spared;                   /* the script is for another rank */
    bool silent, broken, failed_said, closing;
    char text[TRANSPORT_TEXT_MAX];

    /* of fault_hold.c, in the order of their start */
    struct list frames, bulks;
    unsigned frames_count;
    uint64_t frame_due_ns, bulk_due_ns; /* of the newest: none before it */
};

static inline struct fault_rail *ep_rail(const struct fault_ep *ep)
{
    return (struct fault_rail *)ep->base.rail;
}

/* TRYST_OK or TRYST_E_SYSTEM. */
tryst_status hold_open(struct fault_rail *rail);
/* Register the timer with the poller. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status hold_attach(struct fault_rail *rail);
void hold_close(struct fault_rail *rail);

/* Instead of the inner transport's functions: now, or later from hold_release. */
tryst_status hold_frame_begin(struct fault_ep *ep, size_t max, void **frame_p);
void hold_frame_commit(struct fault_ep *ep, size_t bytes);
tryst_status hold_bulk(struct fault_ep *ep, struct bulk *bulk);

/* Hand down what is due, and withdraw what belongs to closing endpoints. Returns how many. */
int hold_release(struct fault_rail *rail);
/* TRYST_OK: what is held will wake the poller, or waits for the inner transport. */
tryst_status hold_arm(struct fault_rail *rail);
/* The endpoint closes: its frames go, its bulks end (CANCELED) in hold_release or hold_bulks_withdraw. */
void hold_ep_close(struct fault_ep *ep);
int hold_bulks_withdraw(struct fault_ep *ep);

#endif
