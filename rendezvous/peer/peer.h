/* SPDX-License-Identifier: Apache-2.0 */
/** @file peer.h
 *  One remote rank: its link, its endpoint, and the proofs that it lives. The protocol's
 *  state of a peer is behind this struct (protocol/channel.h).
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
#include "rendezvous/op/op.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/messages.h"
#include "transports/bounce.h"
#include "transports/link/link.h"
#include "transports/select.h"
#include "transports/transport.h"

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

/** The frames that count, as the protocol sends and reads them. */
struct peer_frames {
    uint64_t sent, read;
    uint32_t acked; /**< of `sent`: the peer has read them; the lower half */
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
    uint64_t heartbeat_sent;    /**< frames.sent in the last heartbeat */
    uint64_t heartbeat_read;
    uint64_t peer_sent; /**< frames sent, as the peer last reported */
    uint64_t peer_read; /**< frames read of this rank's, as the peer last reported */
    /** Last tick, or the start of connecting or opening: time counts from here. */
    uint64_t polled_ns;
    bool answered; /**< the peer has made a pass since the last EP_OPEN */
    /** The end is expected, not a failure: this rank leaves too. */
    bool end_expected;
    bool behind;          /**< frames.read < peer_sent at the last check */
    uint64_t behind_read; /**< frames.read at the last check */
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
    struct peer_link link;
    struct peer_endpoint endpoint;
    struct peer_frames frames;   /**< set by the protocol */
    struct list_node flush_node; /**< in rdv->flush */
    struct peer_liveness liveness;
    struct peer_loss loss;
    struct sched_lane lane;
    /** Copies of device memory for this peer, also those of small tensors. */
    struct bounce_lane bounce;
    struct peer_clock clock;
    uint64_t bytes_sent, bytes_received;
    uint32_t text_bytes;  /**< bytes of kept texts of failures (peer_text_keep) */
    uint64_t aborts_sent; /**< causes up to this abort_number were sent */
    /** Aborts of steps that are not open here yet: of the peer itself, and of others that
     *  it has passed on. */
    uint32_t early_aborts, passed_aborts;
    bool pair_made;
    /** The key of this rank and the peer, if `pair_made`. */
    uint8_t pair[RANK_KEY_BYTES];
};

/** Functions that the protocol above offers to a peer. */
struct peer_events {
    /** The bytes of a peer with the protocol's state; struct peer is its first member. */
    size_t peer_bytes;
    /** Initialize the protocol's state of a new peer, which is zeroed. */
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
