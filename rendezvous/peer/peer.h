/* SPDX-License-Identifier: Apache-2.0 */
/** @file peer.h
 *  One remote rank: its link, its endpoint, and what is sent and has come in both directions.
 *
 *  Life:
 *
 *     ALIVE ──link closes, data path dies, timeout──▶ GIVING_UP ──endpoint closed──▶ GONE
 *       │ LEAVE                                           ▲
 *       └──────▶ LEFT ──all its frames read───────────────┘
 *
 *  Only GONE fails operations: by then nothing reads or writes our memory.
 *
 *  Link:  NONE ─need─▶ CONNECTING ─HELLO each way─▶ UP        whoever needs it first connects; when
 *         both do, the lower rank's connection stays.
 *  Endpoint, one candidate after the other, while the peer is ALIVE:
 *
 *     NONE ──need──▶ OPENING ──ready──▶ READY
 *       ▲              │   ▲              │ refused by the peer before its first frame
 *       │      refused │   │ closed: the  │
 *       │  or too late ▼   │ next opens   │
 *       └──closed──── REFUSED ◀───────────┘
 *         none is left, or the peer has left
 *
 *  Where the candidate's fabric has not started, STARTING comes before OPENING; a start that fails leads to
 *  REFUSED. CLOSING is GIVING_UP's only state, and NONE GONE's: from neither of them is an endpoint opened.
 */
#ifndef RENDEZVOUS_PEER_PEER_H
#define RENDEZVOUS_PEER_PEER_H

#include "core/memory/list.h"
#include "core/os/poller.h"
#include "rendezvous/match/names.h"
#include "rendezvous/numbers/stream.h"
#include "rendezvous/op/op.h"
#include "rendezvous/op/transfer.h"
#include "rendezvous/peer/group.h"
#include "transports/link/link.h"
#include "transports/select.h"
#include "transports/stage.h"
#include "transports/transport.h"

struct want;

/** Bytes of a text of a peer's end: an address, an errno and a hint have room in it. */
enum { PEER_TEXT_MAX = 256 };

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

/** An answer that has no operation to hang on. */
struct answer {
    uint64_t id;
    int32_t origin_rank;
    int16_t status; /**< tryst_status */
    uint8_t type;   /**< RECORD_DEFERRED, _CLOSED, _CANCELED, _KEPT or _DONE */
    bool for_want;  /**< counts as a WANT not yet taken up until it is sent */
};

/** Steps with sends that were posted since the last question, as far as they are remembered. */
enum { ASKS_NEW_MAX = 16 };

/** Failures of flows that may wait for eager credit of a peer, or for their WANTs, also when their step was closed. Of more,
 *  the peer receives none ahead of its WANT: it ends with TRYST_E_CLOSED after the close. */
enum { FAILURES_MAX = 1024 };

/** A connect message that came before its endpoint was open. */
struct held_message {
    struct list_node node;
    uint32_t candidate;
    int fd;
    size_t bytes;
    uint8_t data[];
};

/** The peer's clock minus ours, between two bounds (clock_offset.c). */
struct peer_clock {
    bool known;
    uint32_t answers; /**< messages that were answered at once */
    int64_t low_ns, high_ns;
    uint64_t at_ns;    /**< of our clock, when they were true */
    uint64_t their_ns; /**< what its last message said, */
    uint64_t read_ns;  /**< and when that was read */
};

/** Its link, and connecting (link.c, accept.c). */
struct peer_link {
    struct link *link;
    uint8_t state; /**< enum peer_link_state */
    bool via_tcp;  /**< the Unix socket did not lead there */
    bool again; /**< CONNECTING: its listener was full, or dropped us: at the next tick */
    bool by_unix; /**< CONNECTING: by the Unix socket */
    bool
        met; /**< TCP was accepted once, or the Unix socket was refused: to fail now is its end */
    uint32_t attempt; /**< number of `dialled` (reach.h) */
    struct link_address dialled;
    bool queue_full;  /**< CONNECTING: the former, so somebody listens there */
    bool duplicate;   /**< it said that its own connection to us stays */
    bool tree_parent; /**< it belongs to the control tree */
    uint64_t nonce, peer_nonce;
    uint64_t unanswered_ns; /**< CONNECTING: we looked, and its kernel did not answer */
};

/** Its endpoint, and the candidates for one (endpoint.c). */
struct peer_endpoint {
    struct endpoint *ep;
    uint8_t state; /**< enum peer_ep_state */
    bool wanted;   /**< something waits for it */
    bool broken;   /**< READY, and nothing leaves any more */
    bool closing;  /**< ep_close was called on `ep`, and `closed` has not come */
    enum transport_kind candidates[TRANSPORT_KINDS];
    int candidates_count;
    int candidate;
    int refused_ahead; /**< candidates below this one were refused by the peer before we tried them */
    uint64_t opening_ns; /**< OPENING: so long did both look */
    bool peer_starts; /**< since the last tick the peer reported that its fabric starts */
    struct list held; /**< struct held_message */
    uint32_t held_count;
    char mechanism[TRANSPORT_TEXT_MAX];
};

/** What we send it, and what comes back for that (the protocol). */
struct peer_out {
    uint64_t frames_sent;
    uint32_t frames_acked;
    struct list_node flush_node; /**< in rdv->flush */
    struct list_node idle_node;  /**< in rdv->idle_peers: see peer_idle_later */
    struct urgent_queue pending; /**< operations with records queued */
    /* receives of ours */
    struct urgent_queue wants_waiting; /**< for WANT quota */
    struct urgent_queue deferred_ops;  /**< that it deferred */
    uint32_t wants_sent, wants_acked;
    uint32_t pauses_told; /**< rdv->pauses, as a frame said last */
    uint8_t
        slice_flags; /**< of each frame: lane.path.slice_bytes as of the newest DONE */
    /* sends of ours */
    struct urgent_queue posted_sends; /**< POSTED and large, that it has not asked for */
    struct urgent_queue
        blocked_sends; /**< POSTED and small: for want of eager credit, or of a WANT */
    uint32_t
        failures_count; /**< and failures of flows that wait for either, at most FAILURES_MAX */
    bool blocked;       /**< frames say that there are some */
    bool blocked_sent;        /**< and the last one did */
    struct stream_out stream; /**< DATA that has left */
    struct names_out names;   /**< by which DATA names keys */
    uint64_t eager_used;
    bool ask; /**< ASK is queued: for all steps with sends that wait for a WANT, */
    uint32_t ask_from;       /**< from this one on, in the order of scopes.all; */
    uint32_t asks_queued;    /**< else for the newest ones: so many of asks_new, */
    uint32_t asks_new_count; /**< which will be queued when nothing else happens */
    uint64_t asks_new[ASKS_NEW_MAX];
    /* answers to it */
    struct list want_answers; /**< struct want: CANCELED or CLOSED is queued */
    struct answer *answers;   /**< ring, allocated with the endpoint */
    uint32_t answers_head, answers_count;
};

/** What it sends us, and what goes back for that (the protocol). */
struct peer_in {
    uint64_t frames_read;
    uint32_t frames_acked;
    /* small tensors */
    struct stream_in stream; /**< DATA that has come */
    uint32_t unacked;        /**< of it, done since our last header */
    uint64_t
        left_next; /**< out.stream.next when a thread that left last had some to send */
    bool
        ack_alone; /**< a header leaves for that, or for what follows, if no frame does, */
    bool counted;  /**< and counts as a frame: */
    bool probe;    /**< we ask whether the path lives, or answer that (protocol.c) */
    uint8_t header_flags;      /**< of the newest frame (wire.h) */
    struct names_in names;     /**< by which it names keys */
    struct list unexpected;    /**< struct unexpected */
    uint64_t unexpected_bytes; /**< of its eager credit, held by them */
    struct urgent_queue
        unannounced; /**< small receives that have not announced themselves */
    struct list_node
        unannounced_node; /**< in rdv->unannounced_peers since there was one */
    /* its WANTs */
    uint32_t wants_got, wants_unanswered, wants_acked;
    struct hash_table wants; /**< by its ids (want.h) */
    struct list wants_list;
    uint32_t parked_count;
    uint32_t early_wants;  /**< of those, in steps not opened here yet */
    uint32_t early_aborts; /**< steps not opened here yet of whose abort it told us */
    uint64_t *
        closed_steps; /**< that it asked about and that are closed here: answers queued */
    uint32_t closed_count,
        closed_capacity; /**< at most ASKS_MAX; little memory while none are */
    /* posted slices */
    /** Receives that have ready slices at their sender, and wait for posted slots. */
    struct urgent_queue slots_waiting;
    /** The transport, or the pool, had no room for a slice: each pass tries again. */
    bool post_refused;
    uint32_t slots_ahead; /**< receives posted for senders not known to be ready */
    uint32_t slots_ready; /**< receives posted that the sender has ready */
    uint64_t ready_bytes; /**< of those, the last slice of a tensor as a whole one */
};

/** What may be its end, and may have a cause of which we hear a moment later: it has left, or died. */
enum suspicion_reason {
    SUSPICION_NONE,
    SUSPICION_REFUSED,   /**< no link comes about */
    SUSPICION_UNREACHED, /**< no candidate for an endpoint is left */
    SUSPICION_LOST,      /**< its data path broke; the endpoint's mechanism says how */
    SUSPICION_DIED, /**< its process has ended; its socket may hold what it said last */
    SUSPICION_REASONS
};
struct suspicion {
    uint8_t reason; /**< enum suspicion_reason; liveness.c has how long each is given */
    uint64_t since_ns;
};

/** Whether it is there (liveness.c). */
struct peer_liveness {
    struct poller_source pidfd; /**< fd -1: none */
    uint64_t heartbeat_sent;    /**< frames_sent as last told */
    uint64_t heartbeat_read;
    uint64_t peer_sent; /**< frames that the peer says it has sent */
    uint64_t peer_read; /**< frames of ours that the peer says it has read */
    uint64_t looked_ns; /**< time counts from here: the last tick, or when it began to */
    bool answered;      /**< it has looked since we asked it (EP_OPEN) whether it does */
    bool end_expected;  /**< its end is no news for us: we leave too */
    bool behind;        /**< frames_read < peer_sent when that was last looked at; */
    uint64_t behind_read; /**< frames_read then, */
    uint64_t behind_ns;   /**< which has stayed so while both looked for so long */
    uint64_t leave_sent;  /**< frames that it had sent when it left */
    struct suspicion suspicion;
    int32_t gone_status;
    char gone_text[PEER_TEXT_MAX];
};

struct peer {
    struct rendezvous *rdv;
    struct list_node node; /**< group->met */
    int32_t rank;
    uint8_t life; /**< enum peer_life */
    bool is_self;
    bool left;     /**< LEAVE came, or somebody who knows it said so */
    bool deferred; /**< some of its WANTs were: offer it what becomes ready */
    struct peer_link link;
    struct peer_endpoint endpoint;
    struct peer_out out;
    struct peer_in in;
    struct peer_liveness liveness;
    struct dispatch_lane lane;
    struct stage_lane stage; /**< of device memory, and its small tensors' copies */
    struct peer_clock clock;
    uint64_t bytes_sent, bytes_received, wrong_cookies;
};

/** What the protocol above does for a peer. */
struct peer_events {
    /** It is new: zeroed, but for what this layer has set. */
    void (*open)(struct peer *peer);
    /** Its endpoint is about to be opened: memory for frames. False: there is none. */
    bool (*connect)(struct peer *peer);
    /** A frame has come, aligned to 8. */
    void (*frame)(struct peer *peer, const void *frame, size_t bytes);
    /** Housekeeping, each TICK_NS. */
    void (*tick)(struct peer *peer);
    /** It is gone, and nothing of it reads or writes our memory: its operations end. */
    void (*gone)(struct peer *peer);
    /** It is freed. */
    void (*close)(struct peer *peer);
    /** `scope` was aborted, just now: its operations fail, and who asks is told. */
    void (*aborted)(struct scope *scope);
};

/** Part of peer_get. */
struct peer *peer_make(struct tryst_group *group, int rank);
/** The peer of this rank, which has memory from the first call on; NULL: there is none for it. */
static inline struct peer *peer_get(struct tryst_group *group, int rank)
{
    struct peer *peer = group->peers[rank];
    return __builtin_expect(peer != NULL, 1) ? peer : peer_make(group, rank);
}
/** Everything of it is closed already. */
void peer_close(struct peer *peer);

/** Connect on demand: the link, then the endpoint. */
void peer_need(struct peer *peer);
/** Something is to be said: frames leave at the end of this pass. */
void peer_flush_later(struct peer *peer);

/** The peer is lost: close by force what leads to it; operations fail when that is done. */
void peer_give_up(struct peer *peer, tryst_status status, const char *text);
/** Continue giving up once its endpoint is closed. */
void peer_gone(struct peer *peer);
/** Its state has changed: onto the live page, if there is one. */
void peer_show(const struct peer *peer);

#endif
