/* SPDX-License-Identifier: Apache-2.0 */
/** @file peer.h
 *  One remote rank: its link, its endpoint, and the protocol's state in both directions.
 *
 *  Life:
 *
 *     ALIVE ──link closes, data path dies, timeout──▶ GIVING_UP ──endpoint closed──▶ GONE
 *       │ LEAVE                                           ▲
 *       └──────▶ LEFT ──all its frames read───────────────┘
 *
 *  Only GONE fails operations: by then nothing reads or writes this rank's memory.
 *
 *  Link:  NONE ─need─▶ CONNECTING ─HELLO each way─▶ UP     the rank that needs it first
 *         connects; when both do, the lower rank's connection stays.
 *  Endpoint, one candidate after the other, while the peer is ALIVE:
 *
 *     NONE ──need──▶ OPENING ──ready──▶ READY
 *       ▲              │   ▲              │ refused by the peer before its first frame
 *       │      refused │   │ closed: the  │
 *       │  or too late ▼   │ next opens   │
 *       └──closed──── REFUSED ◀───────────┘
 *         none is left, or the peer has left
 *
 *  STARTING comes before OPENING if the candidate's fabric has not started; a start that
 *  fails leads to REFUSED. CLOSING is GIVING_UP's only state, and NONE is GONE's: neither
 *  opens an endpoint.
 */
#ifndef TRYST_RENDEZVOUS_PEER_PEER_H
#define TRYST_RENDEZVOUS_PEER_PEER_H

#include "commsched/sched/transfer.h"
#include "core/memory/list.h"
#include "core/os/poller.h"
#include "rendezvous/match/names.h"
#include "rendezvous/numbers/stream.h"
#include "rendezvous/op/op.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/messages.h"
#include "transports/bounce.h"
#include "transports/link/link.h"
#include "transports/select.h"
#include "transports/transport.h"

struct want;

/** Bytes of the text of a peer's end: room for an address, an errno and a hint. */
enum { PEER_TEXT_MAX = 384 };

/** Bytes of the sentence about packets that are lost (loss.h). */
enum { PEER_LOSS_TEXT_MAX = 320 };

enum peer_life { PEER_ALIVE, PEER_LEFT, PEER_GIVING_UP, PEER_GONE };
enum peer_link_state { PEER_LINK_NONE, PEER_LINK_CONNECTING, PEER_LINK_UP };
/** STARTING: the candidate was chosen, and its fabric starts in another thread. */
enum peer_ep_state {
    PEER_EP_NONE,
    PEER_EP_OPENING,
    PEER_EP_READY,
    PEER_EP_CLOSING, /**< the peer is given up */
    PEER_EP_REFUSED, /**< being closed; the next candidate follows */
    PEER_EP_STARTING
};

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

/** A connect message that came before its endpoint was open. */
struct held_message {
    struct list_node node;
    uint32_t candidate;
    int fd;
    size_t bytes;
    uint8_t data[];
};

/** The peer's clock minus this rank's, between two bounds (clock_offset.c). */
struct peer_clock {
    bool known;
    uint32_t answers; /**< messages read; the first few are answered at once */
    int64_t low_ns, high_ns;
    uint64_t at_ns;    /**< time, by this rank's clock, at which the bounds were true */
    uint64_t their_ns; /**< the peer's time in its last message */
    /** Time, by this rank's clock, at which that message was read. */
    uint64_t read_ns;
};

/** The link to the peer, and connecting (link.c, accept.c). */
struct peer_link {
    struct link *link;
    uint8_t state; /**< enum peer_link_state */
    bool via_tcp;  /**< connecting by the Unix socket failed: TCP is used */
    /** CONNECTING: the listener's queue was full, or the listener dropped the connection:
     *  the next tick tries again. */
    bool again;
    bool by_unix; /**< CONNECTING: by the Unix socket */
    /** The Unix socket was refused. The peer's process has ended if its port is refused
     *  too; the socket alone may be one of another machine with the same boot id. */
    bool unix_refused;
    /** TCP was accepted once, or all of the peer's sockets were refused: a later failure
     *  means death. */
    bool met;
    uint32_t attempt; /**< number of the way that is or was dialled (reach.h) */
    uint32_t first;   /**< the way with which each round of attempts begins */
    uint32_t round;   /**< rounds that have ended: each has more time for a way */
    bool silent;      /**< in this round a way brought no answer */
    bool refused;     /**< in this round a host refused: no process listens there */
    struct link_address dialled;
    /** The ways of the first round that failed: "10.0.0.2:4567: no answer; …". */
    char tried[160];
    int32_t from; /**< the rail that gives the socket its address; -1: none */
    /** UP: the rail here on which the link has shown that the ranks reach each other. */
    uint32_t rail;
    /** CONNECTING: the listener's queue was full, so a process listens there. */
    bool queue_full;
    /** DUPLICATE came: the peer's own connection to this rank stays. */
    bool duplicate;
    bool tree_parent; /**< the peer is this rank's parent in the control tree */
    uint64_t nonce, peer_nonce;
    /** CONNECTING: time in which this rank made passes and the peer's kernel did not
     *  answer. */
    uint64_t unanswered_ns;
    uint64_t attempt_ns;       /**< of unanswered_ns, the part of this attempt */
    uint64_t attempt_since_ns; /**< the time at which it began */
};

/** The endpoint to the peer, and its candidates (endpoint.c). */
struct peer_endpoint {
    struct endpoint *ep;
    uint8_t state; /**< enum peer_ep_state */
    bool wanted;   /**< an operation waits for the endpoint */
    bool broken;   /**< READY, but nothing is sent any more */
    bool closing;  /**< ep_close was called on `ep`, and `closed` has not come */
    enum transport_kind candidates[TRANSPORT_KINDS];
    int candidates_count;
    int candidate;
    /** Candidates below this one were refused by the peer before they were tried. */
    int refused_ahead;
    uint64_t opening_ns; /**< OPENING: time in which both ranks made passes */
    /** Since the last tick the peer reported that its fabric starts. */
    bool peer_starts;
    struct list held; /**< struct held_message, for candidates that are not open yet */
    uint32_t held_count;
    char mechanism[TRANSPORT_TEXT_MAX];
    /** The candidates that were refused, and why: "ucx: …; ofi: …". */
    char refused[2 * TRANSPORT_TEXT_MAX];
};

/** State of the protocol for what this rank sends, and for the replies to it. */
struct peer_out {
    uint64_t frames_sent;
    uint32_t frames_acked;
    struct list_node flush_node; /**< in rdv->flush */
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
    uint64_t frames_read;
    uint32_t frames_acked;
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
    uint32_t wants_got, wants_unanswered, wants_acked;
    uint32_t text_bytes;     /**< bytes of kept texts of failures (peer_text_keep) */
    struct hash_table wants; /**< by the peer's ids (want.h) */
    struct list wants_list;
    uint32_t parked_count;
    uint32_t early_wants; /**< parked WANTs of steps not opened here yet */
    /** Aborts of steps that are not open here yet: of the peer itself, and of others that
     *  it has passed on. */
    uint32_t early_aborts, passed_aborts;
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

/** Reasons to suspect that the peer has ended. Whether it has left or died may be known
 *  only a little later. */
enum suspicion_reason {
    SUSPICION_NONE,
    SUSPICION_REFUSED,   /**< no link comes about */
    SUSPICION_UNREACHED, /**< no candidate for an endpoint is left */
    SUSPICION_LOST,      /**< the data path broke; endpoint.mechanism has the reason */
    /** The process has ended; its socket may hold its last messages. */
    SUSPICION_DIED,
    SUSPICION_REASONS
};
struct suspicion {
    uint8_t reason; /**< enum suspicion_reason; liveness.c has the grace of each */
    uint64_t since_ns;
};

/** Proofs that the peer lives or has ended (liveness.c). */
struct peer_liveness {
    struct poller_source pidfd; /**< fd -1: none */
    uint64_t heartbeat_sent;    /**< out.frames_sent in the last heartbeat */
    uint64_t heartbeat_read;
    uint64_t peer_sent; /**< frames sent, as the peer last reported */
    uint64_t peer_read; /**< frames read of this rank's, as the peer last reported */
    /** Last tick, or the start of connecting or opening: time counts from here. */
    uint64_t polled_ns;
    bool answered; /**< the peer has made a pass since the last EP_OPEN */
    /** The end is expected, not a failure: this rank leaves too. */
    bool end_expected;
    bool behind;          /**< in.frames_read < peer_sent at the last check */
    uint64_t behind_read; /**< in.frames_read at the last check */
    /** Time for which `behind` has held without progress while both ranks made passes. */
    uint64_t behind_ns;
    uint64_t leave_sent; /**< frames that the peer had sent when it left */
    struct suspicion suspicion;
    int32_t gone_status;
    char gone_text[PEER_TEXT_MAX + PEER_LOSS_TEXT_MAX];
};

/** Large packets that are lost on the way (loss.c). */
struct peer_loss {
    struct link_loss to;   /**< this rank's packets to the peer */
    struct link_loss from; /**< the peer's packets to this rank, as the peer reports */
    uint64_t since_ns;     /**< time of the report of `to` */
    uint32_t repeats;      /**< of a large packet, at the last search; 0: none was lost */
    uint32_t vain;         /**< searches in a row that found nothing */
    uint32_t probes;       /**< small packets sent while nothing moves */
    uint64_t mark;         /**< what had reached the peer at the last tick that moved */
    uint64_t search_ns; /**< time of the next search, if nothing moves; 0: no tick yet */
};

struct peer {
    struct rendezvous *rdv;
    struct list_node node; /**< in group->met */
    int32_t rank;
    uint8_t life; /**< enum peer_life */
    bool is_self;
    bool left; /**< LEAVE came */
    /** WANTs of the peer were deferred: OFFER each send when it is ready. */
    bool deferred;
    struct peer_link link;
    struct peer_endpoint endpoint;
    struct peer_out out;
    struct peer_in in;
    struct peer_liveness liveness;
    struct peer_loss loss;
    struct sched_lane lane;
    /** Copies of device memory for this peer, also those of small tensors. */
    struct bounce_lane bounce;
    struct peer_clock clock;
    uint64_t bytes_sent, bytes_received, wrong_cookies;
    uint64_t aborts_sent; /**< causes up to this abort_number were sent */
    bool pair_made;
    /** The key of this rank and the peer, if `pair_made`. */
    uint8_t pair[RANK_KEY_BYTES];
};

/** Functions that the protocol above offers to a peer. */
struct peer_events {
    /** Initialize a new peer, which is zeroed but for the members that this layer has
     *  set. */
    void (*open)(struct peer *peer);
    /** Allocate memory for frames before the endpoint is opened; false: out of memory. */
    bool (*connect)(struct peer *peer);
    /** Read a frame, aligned to 8. */
    void (*frame)(struct peer *peer, const void *frame, size_t bytes);
    /** Do a tick's work, each TICK_NS. */
    void (*tick)(struct peer *peer);
    /** End the operations of a peer that is gone: nothing reads or writes memory for
     *  it. */
    void (*gone)(struct peer *peer);
    /** Free the protocol's state: the peer is being freed. */
    void (*close)(struct peer *peer);
    /** Fail the operations of a scope that was just aborted, and answer the WANTs and the
     *  DATA of peers that wait in it. */
    void (*aborted)(struct scope *scope);
};

/** Create the peer of this rank, for peer_get. NULL: out of memory. */
struct peer *peer_make(struct tryst_group *group, int rank);
/** Return the peer of this rank, which the first call creates. NULL: out of memory. */
static inline struct peer *peer_get(struct tryst_group *group, int rank)
{
    struct peer *peer = group->peers[rank];
    return __builtin_expect(peer != NULL, 1) ? peer : peer_make(group, rank);
}
/** True if the peer has left, as its own LEAVE shows, or reports of other ranks since its
 *  last HELLO. */
bool peer_has_left(const struct peer *peer);
static inline bool peer_is_alive(const struct peer *peer)
{
    return peer->life == PEER_ALIVE && !peer_has_left(peer);
}
/** Free what a peer holds, but not the peer; its endpoint is closed already. */
void peer_close(struct peer *peer);

/** Connect on demand: the link, then the endpoint. */
void peer_connect_start(struct peer *peer);
/** Have frames sent to the peer at the end of this pass, if its endpoint is ready. */
void peer_flush_later(struct peer *peer);

/** Give the peer up: close its endpoint by force; operations fail when that is done.
 *  `text` is read after "rank 3 ". */
void peer_give_up(struct peer *peer, tryst_status status, const char *text);
/** Finish giving up: the endpoint is closed, so fail the operations. */
void peer_gone(struct peer *peer);
/** Copy the peer's state to the live page, if there is one. */
void peer_live_put(const struct peer *peer);

/** Return why an operation of this step with this peer (NULL: none) cannot start: the
 *  step is closed or aborted, or the peer has failed. TRYST_OK: it can; else `*text_p`
 *  is the reason. */
struct cause op_refusal(const struct scope *scope, const struct peer *peer,
                        const char **text_p);

#endif
