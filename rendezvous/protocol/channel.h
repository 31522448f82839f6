/* SPDX-License-Identifier: Apache-2.0 */
/** @file channel.h
 *  The channel: the protocol's state of a peer, in both directions. A peer is the first
 *  member of its channel, so both have one address and one life (struct peer_events). All
 *  in the progress domain.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_CHANNEL_H
#define TRYST_RENDEZVOUS_PROTOCOL_CHANNEL_H

#include "rendezvous/match/names.h"
#include "rendezvous/numbers/stream.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"

/** An answer that no operation carries as a flag. */
struct answer {
    uint64_t id;
    uint64_t step; /**< with a status: id of the step that the record was for */
    int32_t origin_rank;
    int16_t status; /**< tryst_status */
    uint8_t type;   /**< RECORD_DEFERRED, _CLOSED, _CANCELED, _KEPT or _DONE */
    bool for_want;  /**< its WANT counts as not taken up until the answer is sent */
};

/** The most steps that are noted for having new sends since the last ASK. */
enum { REQUESTS_NEW_MAX = 16 };

/** The most failures of flows that may wait for a peer's eager credit or for their WANTs,
 *  also after their step was closed. Further failures are dropped: their WANTs end with
 *  TRYST_E_CLOSED after the close. */
enum { FAILURES_MAX = 1024 };

/** State of the protocol for what this rank sends, and for the replies to it. */
struct peer_out {
    struct list_node idle_node;  /**< in rdv->idle_peers: see peer_idle_later */
    struct urgent_queue pending; /**< operations with records queued */
    /* This rank's receives: */
    struct urgent_queue wants_waiting; /**< receives that wait for WANT quota */
    struct urgent_queue deferred_ops;  /**< receives that the peer has deferred */
    uint32_t wants_sent, wants_acked;
    uint32_t pauses_sent; /**< rdv->bulk.pauses as of the newest frame sent */
    /** Flags for each frame's header: lane.path.slice_bytes as of the newest DONE. */
    uint8_t slice_flags;
    /* This rank's sends: */
    /** Large sends in state POSTED: their WANT has not come. */
    struct urgent_queue posted_sends;
    /** Small sends in state POSTED: they lack eager credit or a WANT. */
    struct urgent_queue blocked_sends;
    /** All sends in these two queues, and small flows that are not ready (closed.c). */
    struct list waiting_sends;
    /** Failures of flows that wait for eager credit or a WANT, at most FAILURES_MAX. */
    uint32_t failures_count;
    /** WANTs of the peer were deferred: OFFER each send when it is ready. */
    bool deferred;
    bool blocked;      /**< blocked_sends are to be reported by BLOCKED in frames */
    bool blocked_sent; /**< the newest frame carried BLOCKED */
    struct stream_out stream; /**< DATA that was sent */
    struct names_out names;   /**< names of keys in DATA that is sent */
    uint64_t eager_used;
    bool requests_due; /**< ASK is queued for all steps with sends that wait for a WANT */
    /** Under `requests_due`: first position in scopes.all that ASK has not covered
     *  yet. */
    uint32_t request_from;
    uint32_t requests_queued; /**< number of requests_new for which ASK is queued */
    /** Number of steps noted in requests_new, for which an idle pass queues ASK. */
    uint32_t requests_new_count;
    uint64_t requests_new[REQUESTS_NEW_MAX];
    /* Answers to the peer: */
    struct list want_answers; /**< struct want: CANCELED or CLOSED is queued */
    struct answer *answers;   /**< ring, allocated with the endpoint */
    uint32_t answers_head, answers_count;
};

/** State of the protocol for what the peer sends, and for the replies to it. */
struct peer_in {
    uint32_t frames_acked; /**< peer.frames.read in the newest header that was sent */
    /* Small tensors: */
    struct stream_in stream; /**< DATA that has come */
    uint32_t unacked;        /**< DATA done since the last header that was sent */
    /** out.stream.next when a thread last left the library with acks due. */
    uint64_t left_next;
    /** A header is to be sent for acks or for the flags below, even without records. */
    bool header_due;
    bool counted; /**< the header that header_due causes counts as a frame */
    /** The header that header_due causes probes the path: it requests a frame that counts
     *  (protocol.c). */
    bool probe;
    uint8_t header_flags;   /**< flags of the newest frame (wire.h) */
    struct names_in names;  /**< names of keys in the peer's DATA */
    struct list unexpected; /**< DATA that came before its receive (eager.h) */
    /** Bytes of the peer's eager credit that `unexpected` holds. */
    uint64_t unexpected_bytes;
    struct urgent_queue unannounced; /**< small receives that have not sent a WANT */
    /** In rdv->unannounced_peers while `unannounced` may have receives. */
    struct list_node unannounced_node;
    /* The peer's WANTs: */
    uint32_t wants_got;      /**< WANTs that came */
    uint32_t wants_refused;  /**< of these, refused by an answer that is still queued */
    uint32_t wants_acked;    /**< taken up, as the newest header reported */
    struct hash_table wants; /**< by the peer's ids (want.h) */
    struct list wants_list;
    uint32_t parked_count;
    uint32_t early_wants; /**< parked WANTs of steps not opened here yet */
    /** Steps closed here that the peer has sent ASK for: answers are queued. */
    uint64_t *closed_steps;
    /** closed_count is at most REQUESTS_MAX; at 0 a large array is freed. */
    uint32_t closed_count, closed_capacity;
    /* Posted slices: */
    /** Receives with a slice to post that wait for a free slot. */
    struct urgent_queue slots_waiting;
    /** The transport, or the pool, had no room for a slice: each pass tries again. */
    bool post_refused;
    uint32_t slots_ahead; /**< posted slices that may not be ready at the sender */
    uint32_t slots_ready; /**< posted slices that are ready at the sender */
    /** Bytes of slots_ready; a tensor's last slice counts as a whole one. */
    uint64_t ready_bytes;
};

struct channel {
    struct peer peer;
    struct peer_out out;
    struct peer_in in;
};

static inline struct peer_out *peer_out(const struct peer *peer)
{
    return &container_of(peer, struct channel, peer)->out;
}
static inline struct peer_in *peer_in(const struct peer *peer)
{
    return &container_of(peer, struct channel, peer)->in;
}

/** The protocol's state in the life of a peer (struct peer_events). */
void channel_open(struct peer *peer);
bool channel_connect(struct peer *peer);
void channel_close(struct peer *peer);

/** The most small tensors that are done and not acknowledged, however busy this rank
 *  is. */
enum { ACK_MAX = 32 };

/** Queue records (enum op_records) of `op` for its peer. */
void records_queue(tryst_op *op, unsigned records);
/** Mark the peer for peer_queue_waiting: in the next idle pass, when a thread leaves the
 *  engine (acknowledgements alone may then wait for TRYST_ACK_DELAY), or when the timers
 *  run. Acknowledgements also leave with any frame before that. */
void peer_idle_later(struct peer *peer);
/** Note that a thread leaves the engine. True if acknowledgements to the peer may wait
 *  for a reply: a small tensor was sent to the peer since a thread last left, so that the
 *  next one can carry them, and nothing else waits. */
bool peer_acks_wait(struct peer *peer);
/** Queue a header, which leaves even without records. */
static inline void peer_header_queue(struct peer *peer)
{
    peer_in(peer)->header_due = true;
    peer_flush_later(peer);
}
/** True if headers to the peer carry BLOCKED. */
static inline bool peer_is_blocked(const struct peer *peer)
{
    return peer_out(peer)->blocked && !urgent_empty(&peer_out(peer)->blocked_sends);
}
/** Note that acknowledgements have left; unmark the peer if nothing else waits for an
 *  idle pass. */
static inline void peer_acked(struct peer *peer)
{
    peer_in(peer)->unacked = 0;
    peer_in(peer)->header_due = false;
    if (!peer_out(peer)->requests_new_count &&
        urgent_empty(&peer_out(peer)->blocked_sends))
        list_remove(&peer_out(peer)->idle_node);
}
/** Acknowledge the DATA with this number, which is done. */
void peer_data_done(struct peer *peer, uint64_t number);
/** Answer a DATA of `step` that failed before a receive took it. */
void peer_data_refuse(struct peer *peer, uint64_t number, uint64_t step,
                      tryst_status status, int32_t origin_rank);
/** Queue the WANTs of small receives that have not been announced. */
void peer_announce(struct peer *peer);
/** True if records are queued for the peer that belong to no pending operation. */
static inline bool peer_has_answers(const struct peer *peer)
{
    return peer_out(peer)->answers_count | peer_in(peer)->closed_count |
           peer_out(peer)->requests_queued | peer_out(peer)->requests_due |
           !list_empty(&peer_out(peer)->want_answers);
}
/** True if records are queued for the peer. */
static inline bool peer_has_records(const struct peer *peer)
{
    return !urgent_empty(&peer_out(peer)->pending) || peer_has_answers(peer);
}
/** True if a header must return credit: half of the peer's frame credits or of its WANT
 *  quota can be returned. */
bool peer_credit_is_due(const struct peer *peer);
/** Return the most answers without an operation that can be queued at once. */
uint32_t peer_answers_max(const struct peer *peer);
/** Queue an answer without an operation, unless the peer is being given up. A full ring
 *  means that the peer has exceeded its credit, and ends the peer. */
void peer_answer(struct peer *peer, const struct answer *answer);

#endif
