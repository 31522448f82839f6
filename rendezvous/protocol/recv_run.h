/* SPDX-License-Identifier: Apache-2.0 */
/** @file recv_run.h
 *  The slices of one receive that are posted at the transport, a bounded run of them.
 *
 *  Posted slices are bounded per peer. Half of them may be held by slices that their sender is not
 *  known to have ready; the rest is kept for those that it has (it sent an OFFER, or bulk). So
 *  slices posted early, in any order, can never keep a ready slice from being posted. An ordinary send is ready
 *  as a whole; of a flow (flow.h), each slice by itself.
 *
 *  Invariant: an operation has a run from before its WANT leaves until nothing of it is posted and
 *  its id has ended.
 */
#ifndef RENDEZVOUS_RECV_RUN_H
#define RENDEZVOUS_RECV_RUN_H

#include "rendezvous/peer/peer.h"

struct recv_slice {
    struct bulk bulk;
    tryst_op *op;
    struct list_node node; /**< run->slots */
    uint32_t index;
    bool posted;
    bool staged;  /**< through a pinned slot (stage.h) */
    bool arrived; /**< out of order: waits for the ones before it */
};

/** The posted slices of one receive. */
struct recv_run {
    struct list slots; /**< struct recv_slice from `upto` on, in order */
    uint32_t slices;
    uint32_t slice_bytes;
    uint32_t depth;       /**< so many slots at most */
    uint32_t next;        /**< first slice that was never posted */
    uint32_t upto;        /**< all before it have arrived */
    uint32_t outstanding; /**< posted and not complete */
    uint32_t
        told; /**< slices that the sender is known to have ready: these count in slots_ready, */
    uint32_t ahead; /**< and so many of the outstanding ones in slots_ahead */
    bool withdrawn; /**< the id ended: nothing more is posted */
    bool refused;   /**< the transport does not take this device memory after all */
    /* Of a flow whose owner places its slices: the memory of slice placed - 1, the newest. */
    uint32_t placed;
    void *place_data;
    struct tryst_mem *place_mem;
};

/** For a receive of bulk: `op->run`, nothing posted yet. TRYST_OK, TRYST_E_NOMEM,
 *  TRYST_E_UNSUPPORTED (too many slices). */
tryst_status recv_run_open(tryst_op *op);
/** Nothing of it is posted. */
void recv_run_close(tryst_op *op);
/** Post as many slices as there is room for. True if there would be more to post: no slot is free, or the
 *  transport has no room. */
bool recv_run_post(tryst_op *op, struct recv_run *run);
/** The sender is known to have `told` slices ready. */
void recv_run_tell(struct peer *peer, struct recv_run *run, uint32_t told);
/** Give the run the next slots, in its turn (consumer_slots_serve). */
void recv_run_wait(tryst_op *op);
/** The id has ended after `upto` slices were started: withdraw the others. */
void recv_run_withdraw(tryst_op *op, uint32_t upto);
/** A slice is no longer posted. */
void recv_run_slot_back(struct peer *peer, struct recv_slice *slice);
/** The slice's bytes are in place: `upto` moves as far as there is no gap, and slots end. */
void recv_run_advance(struct recv_run *run, struct recv_slice *slice);

/** Post slices for receives whose senders are ready. */
void consumer_slots_serve(struct peer *peer);

#endif
