/* SPDX-License-Identifier: Apache-2.0 */
/** @file bounce.h
 *  Bulk from and to device memory, over any rail.
 *
 *  A rail announces in `memory_kinds` the memory that it moves by itself. Other memory
 *  goes through bounce buffers here, which are pinned slots:
 *
 *    send     device ──copy──▶ slot ──rail──▶          (two or more slices are in flight)
 *    receive          ──rail──▶ slot ──copy──▶ device
 *
 *  The layer above calls bounce_send, bounce_recv and bounce_cancel in place of the
 *  transport's bulk functions, for bulk with `memory` set. Their contract is that of
 *  transport.h with these additions:
 *
 *  - TRYST_AGAIN also means that no slot is free. After TRYST_AGAIN for a receive, the
 *    lane's `awaits_slot` is true for want of a slot (`room` is called when one may be
 *    free), and false where the rail or the allocator had no room.
 *  - A send that the rail never took completes with TRYST_E_CANCELED, with the device's
 *    failure (TRYST_E_SYSTEM, TRYST_E_NOMEM), or with the rail's status (TRYST_E_PEER).
 *    Staged sends of a lane go to the rail in their order, and `wanted` is called right
 *    before each. So if `wanted` returns false for a transfer from some send on, no later
 *    send of that transfer goes out.
 *  - A receive that completes with TRYST_E_SYSTEM has taken its message, but could not
 *    copy it.
 *  - An idle lane has no copy under way; `idle` reports it for a closed lane. Only then
 *    is a peer gone.
 *
 *  A receive holds a slot from its posting on. So the layer above posts it only when its
 *  sender is known to be ready, and receives use other slots than sends (memory/slots.h).
 *
 *  Domain: the progress domain. `struct bounce` is a rail without endpoints: its owner
 *  calls progress and arm on it as on the others, so staged copies advance and bound the
 *  sleep.
 */
#ifndef TRYST_TRANSPORTS_BOUNCE_H
#define TRYST_TRANSPORTS_BOUNCE_H

#include "transports/memory/copy.h"
#include "transports/memory/slots.h"
#include "transports/transport.h"

/** The events that the layer above installs. */
struct bounce_events {
    /** True if this send must still go out. */
    bool (*wanted)(void *arg, const struct bulk *bulk);
    /** A slot may be free for the receives that got TRYST_AGAIN. */
    void (*room)(void *arg);
    /** A closed lane has become idle. */
    void (*idle)(void *arg);
};

/** The staged bulk of one peer; zeroed before bounce_lane_init. */
struct bounce_lane {
    struct list sends;     /**< staged sends that the rail does not have yet, in order */
    struct list_node node; /**< in bounce->lanes while `sends` is not empty */
    uint32_t busy;         /**< staged bulks under way, and copies of the layer above */
    uint64_t in_bytes;     /**< bytes of the slots that this peer's receives hold */
    bool closed;           /**< the endpoint is being closed */
    bool refused; /**< the endpoint takes no device memory after all; logged once */
    /** The newest AGAIN of bounce_recv was for want of a slot: `room` follows. */
    bool awaits_slot;
};

struct bounce {
    struct rail rail; /**< first: its owner calls progress and arm on it */
    const struct bounce_events *events;
    void *arg;
    const struct tryst_host *host; /**< for a log line; may be NULL */
    struct copies copies;
    struct slots slots;
    struct list lanes;
    struct list unslotted; /**< sends that the rail refused, and that wait for a slot */
    struct list items;     /**< free items */
    uint32_t out_used;     /**< slots that sends hold */
    bool recv_starved;     /**< a receive got AGAIN for want of a slot; `room` is due */
    bool room;             /**< a receive has ended since the newest such AGAIN */
};

void bounce_init(struct bounce *bounce, const struct bounce_events *events, void *arg,
                 const struct tryst_host *host, struct memory_cache *cache,
                 uint64_t limit_bytes);
void bounce_end(struct bounce *bounce);
void bounce_lane_init(struct bounce_lane *lane);

/** True if memory of this kind always goes through a slot at this endpoint. False for
 *  host memory (NULL). */
static inline bool bounce_is_needed(const struct endpoint *ep,
                                    const struct memory_ops *memory)
{
    return memory && !(ep->rail->memory_kinds & 1u << memory->kind);
}

/** Send a bulk of device memory. `direct`: the receiver's memory is a device's too, so
 *  the rail may move it by itself. */
tryst_status bounce_send(struct bounce *bounce, struct bounce_lane *lane,
                         struct endpoint *ep, struct bulk *bulk, bool direct);
/** Receive into device memory through a slot. For memory that the rail moves by itself
 *  the caller tries the rail's bulk_recv first, and calls this after
 *  TRYST_E_UNSUPPORTED. */
tryst_status bounce_recv(struct bounce *bounce, struct bounce_lane *lane,
                         struct endpoint *ep, struct bulk *bulk);
/** Withdraw a receive that bounce_recv took, unless its message has come. */
void bounce_cancel(struct endpoint *ep, struct bulk *bulk);
/** Close the lane before its endpoint is closed: no more sends are handed over. */
void bounce_lane_close(struct bounce_lane *lane);
/** Count a copy that the layer above makes for this peer (a small tensor) in lane->busy,
 *  until bounce_lane_leave. */
void bounce_lane_enter(struct bounce_lane *lane);
void bounce_lane_leave(struct bounce *bounce, struct bounce_lane *lane);

#endif
