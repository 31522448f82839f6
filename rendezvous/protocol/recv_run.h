/* SPDX-License-Identifier: Apache-2.0 */
/** @file recv_run.h
 *  The slices of one receive that are posted at the transport: a bounded run.
 *
 *  Posted slices are bounded per peer. At most half of the slots hold slices that are not
 *  announced as ready; the rest is kept for slices that are ready at the sender (an OFFER
 *  or bulk has come). So slices posted early, in any order, never keep a ready slice from
 *  being posted. An ordinary send is ready as a whole; of a flow (flow.h), each slice by
 *  itself.
 *
 *  Where several peers send (a reduction, an incast), the slices posted for all peers
 *  with ready slices share one window of the rail in equal parts. So the senders have no
 *  more in flight than the receiver's own link moves in a round trip, whatever their
 *  windows are. Each peer has two slices at least: one arrives while the DONE of the one
 *  before is in flight. A share depends on the number of senders only, never on the
 *  posted slices of another peer, so a stalled peer keeps no other from moving.
 *
 *  Invariant: an operation has a run from before its WANT leaves until none of its slices
 *  is posted and its id has ended.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_RECV_RUN_H
#define TRYST_RENDEZVOUS_PROTOCOL_RECV_RUN_H

#include "channel.h"
#include "flow.h"

/** The ready slices that a peer may always have posted: one in flight, and one that is
 *  being acknowledged. */
enum { POST_SHARE_LEAST = 2 };

/** True if one more slice of `slice_bytes` may be posted for a peer. The peer has `slots`
 *  ready slices posted, of `bytes` in all. `senders` peers with ready slices share the
 *  window of the rail. */
static inline bool post_share_has_room(uint64_t window_bytes, uint32_t senders,
                                       uint32_t slots, uint64_t bytes,
                                       uint64_t slice_bytes)
{
    uint64_t share = window_bytes / (senders ? senders : 1);
    return slots < POST_SHARE_LEAST || bytes + slice_bytes <= share;
}

struct recv_slice {
    struct bulk bulk;
    tryst_op *op;
    struct list_node node; /**< in run->slots */
    uint32_t index;
    bool posted;
    bool borrowed; /**< of a flow: its bytes can be read at the transport */
    bool staged;   /**< moves through a pinned slot (bounce.h) */
    bool arrived;  /**< arrived out of order: an earlier slice is missing */
};

/** The posted slices of one receive. */
struct recv_run {
    struct list slots; /**< struct recv_slice from `upto` on, in order */
    uint32_t slices;
    uint32_t slice_bytes;
    uint32_t depth;       /**< the most slices between `upto` and `next` */
    uint32_t next;        /**< first slice that was never posted */
    uint32_t upto;        /**< all slices below have arrived */
    uint32_t outstanding; /**< posted and not complete */
    /** The first slices, which are ready at the sender: their slots count in
     *  slots_ready. */
    uint32_t slices_announced;
    /** Outstanding slices beyond `slices_announced`: their slots count in slots_ahead. */
    uint32_t ahead;
    bool withdrawn; /**< the id has ended: no further slice is posted */
    bool refused;   /**< the transport has refused this device memory */
    /** For a flow with `place`: slices [0, placed) have been given memory; the memory of
     *  slice placed - 1. */
    uint32_t placed;
    void *place_data;
    struct tryst_mem *place_mem;
    /** Called when a posted slice (a recv_slice) has ended. */
    void (*slice_done)(struct bulk *bulk, tryst_status status, size_t bytes);
    /** Called when a slice that is borrowed can be read. */
    void (*slice_borrowed)(struct bulk *bulk, size_t bytes);
};

/** Open `op->run` for a receive of bulk; nothing is posted yet. Returns TRYST_OK,
 *  TRYST_E_NOMEM or TRYST_E_UNSUPPORTED (too many slices). */
tryst_status recv_run_open(tryst_op *op);
/** Free the run: none of its slices is posted. */
void recv_run_close(tryst_op *op);
/** Post as many slices as there is room for. True if the next slice is ready at the
 *  sender but not posted: no slot or share of the rail's window is free, or the transport
 *  has no room. */
bool recv_run_post(tryst_op *op, struct recv_run *run);
/** Count the first `slices_announced` slices as ready at the sender, and their posted
 *  slots in slots_ready. */
void recv_run_announce(struct peer *peer, struct recv_run *run,
                       uint32_t slices_announced);
/** Post further slices after one has come back. Receives from the same peer that wait for
 *  slots and are not less urgent go first. */
void recv_run_repost(tryst_op *op, struct recv_run *run);
/** Post slices of the receive, in the order of urgency among the receives that wait for
 *  slots. */
void recv_run_serve(tryst_op *op);
/** Withdraw the posted slices from `upto` on: the id has ended after `upto` slices were
 *  started. */
void recv_run_withdraw(tryst_op *op, uint32_t upto);
/** True if the receive's endpoint borrows. */
bool recv_may_borrow(const tryst_op *op);
/** Return the slice `index` of a flow if it can be read (bulk_read), else NULL. */
struct recv_slice *recv_run_borrowed(const tryst_op *op, uint32_t index);
/** Return the first slice that can be read; NULL: there is none. */
struct recv_slice *recv_run_borrowed_first(const tryst_op *op);
/** Free the slot of a slice that has come back. */
void recv_run_slot_back(struct peer *peer, struct recv_slice *slice);
/** Note that a slice is in place: advance `upto` to the first gap, and free the slots
 *  below. */
void recv_run_advance(struct recv_run *run, struct recv_slice *slice);

/** Post slices for the receives that wait for slots. */
void consumer_slots_serve(struct peer *peer);

#endif
