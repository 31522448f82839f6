/* SPDX-License-Identifier: Apache-2.0 */
/** @file stage.h
 *  Bulk from and to device memory, over any rail.
 *
 *  A rail says in `memory_kinds` what it moves by itself. What it does not goes through pinned
 *  slots here:
 *
 *    send     device ──copy──▶ slot ──rail──▶          (two or more slices are in flight)
 *    receive          ──rail──▶ slot ──copy──▶ device
 *
 *  The layer above calls stage_send, stage_recv and stage_cancel in place of the transport's bulk
 *  functions, for bulk whose `memory` is set, with the same contract (transport.h) and these
 *  additions:
 *
 *   - TRYST_AGAIN also means that no slot is free; `room` is called when one is again. After TRYST_AGAIN for a
 *     receive, the lane's `awaits_slot` is true for want of a slot, and false where the rail had no room.
 *   - A send completes with TRYST_E_CANCELED, or with the device's failure (TRYST_E_SYSTEM,
 *     TRYST_E_NOMEM), if it was never handed to the rail. Staged sends of a lane are handed over
 *     in their order, and `wanted` is asked right before: so of one transfer all that come behind
 *     one that was not sent are not sent either, if `wanted` then says so.
 *   - A receive that completes with TRYST_E_SYSTEM has taken its message, but could not copy it.
 *   - Nothing of a lane is copied any more when it is idle; of a closed one `idle` says so. Only then
 *     is a peer gone.
 *
 *  A receive holds a slot from its posting on. So it is posted only when its sender is known to be
 *  ready, and slots that come in are not those that go out (memory/slots.h).
 *
 *  Domain: the progress domain. The stage is a rail of its own that reaches nobody, so that it
 *  makes progress, and keeps its owner from sleeping too long, beside the others.
 */
#ifndef TRANSPORTS_STAGE_H
#define TRANSPORTS_STAGE_H

#include "transports/memory/copy.h"
#include "transports/memory/slots.h"
#include "transports/transport.h"

/** What the layer above installs. */
struct stage_events {
    /** Is this send still to go out? */
    bool (*wanted)(void *arg, const struct bulk *bulk);
    /** Receives that were told AGAIN may find a slot now. */
    void (*room)(void *arg);
    /** A closed lane is idle. */
    void (*idle)(void *arg);
};

/** One peer's; zeroed before stage_lane_init. */
struct stage_lane {
    struct list sends;     /**< staged sends that the rail does not have yet, in order */
    struct list_node node; /**< of stage->lanes while `sends` is not empty */
    uint32_t busy;         /**< staged bulks under way, and copies of the layer above */
    uint64_t in_bytes;     /**< of slots held by its receives */
    bool closed;           /**< its endpoint is being closed */
    bool refused;          /**< it takes no device memory after all; told once */
    bool
        awaits_slot; /**< its newest AGAIN of stage_recv was for want of a slot: `room` follows */
};

struct stage {
    struct rail rail; /**< first: what its owner lets progress and arm */
    const struct stage_events *events;
    void *arg;
    const struct tryst_host *host; /**< for a log line; may be NULL */
    struct copies copies;
    struct slots slots;
    struct list lanes;
    struct list unslotted; /* sends that the rail gave back, for which no slot is free */
    struct list items;     /* free ones */
    uint32_t out_used;     /* slots of sends that are taken */
    bool asked;            /* a receive was told AGAIN for want of a slot */
    bool room;             /* one has come back since */
};

void stage_init(struct stage *stage, const struct stage_events *events, void *arg,
                const struct tryst_host *host, struct memory_cache *cache,
                uint64_t limit_bytes);
void stage_end(struct stage *stage);
void stage_lane_init(struct stage_lane *lane);

/** Does memory of this kind always go through a slot, at this endpoint? */
static inline bool stage_is_needed(const struct endpoint *ep,
                                   const struct memory_ops *memory)
{
    return memory && !(ep->rail->memory_kinds & 1u << memory->kind);
}

/** `direct`: the receiver's memory is a device's too, so the rail may move it by itself. */
tryst_status stage_send(struct stage *stage, struct stage_lane *lane, struct endpoint *ep,
                        struct bulk *bulk, bool direct);
/** Through a slot: what the rail moves by itself is posted there instead, and what it refuses
 *  (TRYST_E_UNSUPPORTED) comes here. */
tryst_status stage_recv(struct stage *stage, struct stage_lane *lane, struct endpoint *ep,
                        struct bulk *bulk);
/** A receive of stage_recv's. */
void stage_cancel(struct endpoint *ep, struct bulk *bulk);
/** Its endpoint is about to be closed: nothing more is handed to it. */
void stage_lane_close(struct stage_lane *lane);
/** Copies that the layer above makes for this peer (small tensors) count as its own. */
void stage_lane_enter(struct stage_lane *lane);
void stage_lane_leave(struct stage *stage, struct stage_lane *lane);

#endif
