/* SPDX-License-Identifier: Apache-2.0 */
/** @file peer.h
 *  One remote rank: its link, its endpoint, and what is owed in both directions.
 *
 *  Life:
 *
 *     ALIVE ──link closes, data path dies, timeout──▶ GIVING_UP ──endpoint closed──▶ GONE
 *       │ LEAVE                                           ▲
 *       └──────▶ LEFT ──all its frames read───────────────┘
 *
 *  Only GONE fails operations: by then nothing reads or writes our memory (DESIGN §5).
 *
 *  Link:  NONE ─need─▶ CONNECTING ─HELLO each way─▶ UP        whoever needs it first connects; when
 *         both do, the lower rank's connection stays.
 *  Endpoint:  NONE ─need─▶ OPENING ─ready─▶ READY             refused, or not ready in time: the next
 *         candidate
 */
#ifndef RENDEZVOUS_PEER_H
#define RENDEZVOUS_PEER_H

#include "core/list.h"
#include "core/poller.h"
#include "rendezvous/match/names.h"
#include "rendezvous/numbers/idmap.h"
#include "rendezvous/numbers/stream.h"
#include "rendezvous/op.h"
#include "rendezvous/transfer.h"
#include "transports/link/link.h"
#include "transports/select.h"
#include "transports/stage.h"
#include "transports/transport.h"
#include "wire.h"

struct want;

enum peer_life { PEER_ALIVE, PEER_LEFT, PEER_GIVING_UP, PEER_GONE };
enum peer_link_state { PEER_LINK_NONE, PEER_LINK_CONNECTING, PEER_LINK_UP };
enum peer_ep_state { PEER_EP_NONE, PEER_EP_OPENING, PEER_EP_READY, PEER_EP_CLOSING };

/** An answer that has no operation to hang on. */
struct answer {
    uint64_t id;
    int32_t origin_rank;
    int16_t status; /**< tryst_status */
    uint8_t type;   /**< RECORD_DEFERRED, _CLOSED, _CANCELED, _KEPT or _DONE */
    bool for_want;  /**< counts as a WANT not yet taken up until it is sent */
};

/** After a process has died its socket closes at once; wait this long for what it still holds. */
#define PEER_DEATH_GRACE_NS (200 * NS_PER_MS)

/** Small tensors that are acknowledged at the latest when so many have come, however busy we are. */
enum { ACK_MAX = 32 };

/** Answers to questions about steps that may be owed at once: who asks for more asks again. */
enum { ASKS_MAX = 1024 };
/** Steps with sends that were posted since the last question, as far as they are remembered. */
enum { ASKS_NEW_MAX = 16 };

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

struct peer {
    struct rendezvous *rdv;
    int32_t rank;
    uint8_t life;
    uint8_t link_state;
    uint8_t ep_state;
    bool is_self;
    bool ep_wanted;    /**< something waits for an endpoint */
    bool ep_next;      /**< the endpoint is being closed to try the next candidate */
    bool via_tcp;      /**< the Unix socket did not lead there */
    bool left;         /**< LEAVE came, or somebody who knows it said so */
    bool end_expected; /**< its end is no news for us: we leave too */
    bool deferred;     /**< some of its WANTs were: offer it what becomes ready */
    bool tree_parent;  /**< its link belongs to the control tree */

    /* link */
    struct link *link;
    struct poller_source pidfd; /**< fd -1: none */
    uint64_t nonce, peer_nonce;
    uint64_t unanswered_ns; /**< CONNECTING: we looked, and its kernel did not answer */
    bool connect_again;     /**< its listener was full, or dropped us: at the next tick */
    bool queue_full;        /**< CONNECTING: the former, so somebody listens there */
    bool duplicate;         /**< it said that its own connection to us stays */
    uint64_t
        refused_ns; /**< no link comes about; dead, unless we hear that it has left. 0 not */

    /* endpoint */
    struct endpoint *ep;
    enum transport_kind candidates[TRANSPORT_KINDS];
    int candidates_count;
    int candidate;
    int refused_ahead; /**< candidates below this one were refused by the peer before we tried them */
    uint64_t opening_ns;   /**< OPENING: so long did both look */
    uint64_t unreached_ns; /**< no candidate is left; so, unless its link closes. 0 not */
    struct list held;
    uint32_t held_count;
    char mechanism[TRANSPORT_TEXT_MAX];

    /* why it is gone */
    int32_t gone_status;
    char gone_text[TRANSPORT_TEXT_MAX];

    /* frames out */
    uint64_t frames_sent;
    uint32_t frames_acked;
    struct list pending;
    struct list wants_waiting; /**< for WANT quota */
    struct list deferred_ops;  /**< receives that it deferred, oldest first */
    struct list posted_sends;  /**< POSTED and large, that it has not asked for */
    struct list
        blocked_sends; /**< POSTED and small: for want of eager credit, or of a WANT */
    bool blocked;      /**< frames say that there are some */
    bool blocked_told; /**< and the last one did */
    struct stream_out out;      /**< DATA that has left */
    uint64_t names_told;        /**< names that were declared for keys of it */
    struct list_node idle_node; /**< in rdv->idle_peers: see peer_idle_later */
    struct list slots_waiting;  /**< receives whose sender is ready, for posted slots */
    struct list_node flush_node;
    struct list want_answers; /**< struct want: CANCELED or CLOSED is owed */
    struct answer *answers;   /**< ring, allocated with the endpoint */
    uint32_t answers_head, answers_count;
    uint32_t wants_sent, wants_acked;
    uint64_t eager_used;
    bool ask;          /**< ASK is owed: for all steps with sends that wait for a WANT, */
    uint32_t ask_from; /**< from this one on, in the order of scopes.all; */
    uint32_t asks_owed;      /**< else for the newest ones: so many of asks_new, */
    uint32_t asks_new_count; /**< which will be owed when nothing else happens */
    uint64_t asks_new[ASKS_NEW_MAX];

    /* frames in */
    uint64_t frames_read;
    uint32_t frames_told;
    struct stream_in in;  /**< DATA that has come */
    uint32_t unacked;     /**< of it, done since our last header */
    uint64_t left_next;   /**< out.next when a thread that left last had some to send */
    bool ack_alone;       /**< a header leaves for that, if no frame does */
    struct name *names;   /**< NAMES_MAX, by which it names keys */
    bool wants_announced; /**< it lacks credit: small receives announce themselves */
    struct list unannounced; /**< small receives that have not */
    struct list_node
        unannounced_node; /**< in rdv->unannounced_peers since there was one */
    uint32_t wants_got, wants_unanswered, wants_told;
    struct idmap wants; /**< its ids → struct want */
    struct list wants_list;
    uint32_t parked_count;
    uint32_t early_wants;  /**< of those, in steps not opened here yet */
    uint32_t early_aborts; /**< steps not opened here yet of whose abort it told us */
    struct list early_list;
    uint64_t early_bytes; /**< of its eager credit, held by early_list */
    uint64_t
        *over; /**< steps that it asked about and that are closed here: answers owed */
    uint32_t over_count, over_capacity; /**< at most ASKS_MAX; no memory while none are */

    /* bulk */
    struct dispatch_lane lane;
    uint32_t slots_ahead; /**< receives posted for senders not known to be ready */
    uint32_t slots_ready;
    struct stage_lane stage; /**< of device memory, and its small tensors' copies */

    /* liveness */
    uint64_t heartbeat_sent; /**< frames_sent as last told */
    uint64_t heartbeat_read;
    uint64_t peer_sent; /**< frames that the peer says it has sent */
    uint64_t peer_read; /**< frames of ours that the peer says it has read */
    uint64_t looked_ns; /**< time counts from here: the last tick, or when it began to */
    bool answered;      /**< it has looked since we asked it (EP_OPEN) whether it does */
    bool behind;        /**< frames_read < peer_sent when that was last looked at; */
    uint64_t behind_read; /**< frames_read then, */
    uint64_t behind_ns;   /**< which has stayed so while both looked for so long */
    uint64_t leave_sent;  /**< frames that it had sent when it left */
    uint64_t died_ns;     /**< its pidfd became readable, 0 not */
    uint64_t lost_ns;     /**< its data path broke, 0 not; `mechanism` says how */

    struct peer_clock clock;

    /* counters */
    uint64_t bytes_sent, bytes_received, wrong_cookies;
};

tryst_status peer_open(struct peer *peer, struct rendezvous *rdv, int rank);
/** Everything of it is closed already. */
void peer_close(struct peer *peer);

/** Begin what is missing between us and the peer: link, then endpoint. */
void peer_need(struct peer *peer);
/** Something was added to pending or answers: flush at the end of this pass. */
void peer_flush_later(struct peer *peer);
/** What may wait a little leaves with any frame, or else when nothing happens, when our thread leaves the
 *  engine, and at a tick: acknowledgements, BLOCKED, ASK. */
void peer_idle_later(struct peer *peer);
/** Nothing happens, or our thread leaves: it leaves now. */
void peer_idle(struct peer *peer);
/** Do our frames say BLOCKED? */
static inline bool peer_is_blocked(const struct peer *peer)
{
    return peer->blocked && !list_empty(&peer->blocked_sends);
}
/** Acknowledgements have left: what else waits for an idle pass? */
static inline void peer_acked(struct peer *peer)
{
    peer->unacked = 0;
    peer->ack_alone = false;
    if (!peer->asks_new_count && list_empty(&peer->blocked_sends))
        list_remove(&peer->idle_node);
}
/** DATA with this number is done: acknowledge it. */
void peer_data_done(struct peer *peer, uint64_t number);
/** It has failed, and no receive has taken it. */
void peer_data_refuse(struct peer *peer, uint64_t number, tryst_status status,
                      int32_t origin_rank);
/** Small receives that have not announced themselves do. */
void peer_announce(struct peer *peer);
/** Build and send frames while there is something to say and credit to say it. */
int peer_flush(struct peer *peer);
/** Is there a record for it that no operation waits to send? */
static inline bool peer_owes_rest(const struct peer *peer)
{
    return peer->answers_count | peer->over_count | peer->asks_owed | peer->ask |
           !list_empty(&peer->want_answers);
}
/** Is there a record for it? */
static inline bool peer_is_owed(const struct peer *peer)
{
    return !list_empty(&peer->pending) || peer_owes_rest(peer);
}
/** Does the peer wait for credit or for its WANTs to be taken up? */
bool peer_credit_is_due(const struct peer *peer);
/** WANT quota came back: announce those that waited for it. */
void peer_wants_resume(struct peer *peer);
/** Answers without an operation that can be owed at once. */
uint32_t peer_answers_max(const struct peer *peer);
/** Answer without an operation; a full ring is a violation by the peer. */
void peer_answer(struct peer *peer, const struct answer *answer);

/* peer_link.c */
void peer_link_accept(struct rendezvous *rdv, struct link *link);
void peer_hello_links_close(struct rendezvous *rdv);
void peer_hello_links_forked(struct rendezvous *rdv);
/** Which interfaces of both ends join the two (select_rails); false: none is known to. */
bool peer_rails(const struct peer *peer, uint32_t *mine_p, uint32_t *theirs_p);
void peer_link_connect(struct peer *peer);
void peer_heartbeat(struct peer *peer);
/** The peer asks whether we look. */
void peer_heartbeat_answer(struct peer *peer);
/** We have given the peer up, in gone_text, and it lives. */
void peer_gave_up_send(struct peer *peer);
void peer_leave(struct peer *peer);
/** Its kernel has what we said, or nothing more can be done for that. */
bool peer_is_told(const struct peer *peer);
void peer_link_close(struct peer *peer);
/** Housekeeping: kernels that do not answer, heartbeats, silent data paths. */
void peer_tick(struct peer *peer, uint64_t now_ns);

/* peer_tree.c */
/** The rank that this one's link in the control tree leads to, as far as we know who lives; -1: none. */
int peer_tree_parent(const struct tryst_group *group, int rank);
/** Is one of the two the other's parent there? */
bool peer_tree_neighbours(const struct tryst_group *group, int a, int b);
/** Connect to our parent. */
void peer_tree_join(struct rendezvous *rdv);
/** The peer is gone: if it was our parent, join another. */
void peer_tree_repair(struct peer *peer);
/** The rank has left in good order, says `from`; all hear of it. */
void peer_left_note(struct peer *peer, const struct peer *from);
void peer_left_read(struct peer *from, const void *data, size_t bytes);
/** Tell the peer of all who have left. */
void peer_left_send_all(struct peer *to);

/* clock_offset.c */
/** Tell the peer what time it is here, if this rank traces. */
void peer_clock_send(struct peer *peer);
void peer_clock_read(struct peer *peer, const void *data, size_t bytes);

/* peer_ep.c */
void peer_ep_open(struct peer *peer, int candidate);
void peer_ep_message(struct peer *peer, uint32_t candidate, const void *data,
                     size_t bytes, int fd);
void peer_ep_refused(struct peer *peer, uint32_t candidate, const char *text,
                     size_t bytes);
/** Ask the peer whether it looks (`answered`); that it does is what makes time count. */
void peer_ep_ask(struct peer *peer);
/** Housekeeping: an endpoint that does not become ready, after `passed_ns` more in which both ranks
 *  looked. */
void peer_ep_tick(struct peer *peer, uint64_t passed_ns);
/** No candidate works, and the peer lives: give it up. */
void peer_ep_unreached(struct peer *peer);
/** End of a pass: close, reopen or finish giving up. */
void peer_ep_reap(struct peer *peer);
extern const struct rail_events peer_rail_events;

/** The peer is lost: close by force what leads to it; operations fail when that is done. */
void peer_give_up(struct peer *peer, tryst_status status, const char *text);
/** Continue giving up once its endpoint is closed. */
void peer_gone(struct peer *peer);

/* abort.c */
void abort_send(struct peer *peer, const struct scope *scope);
/** A link came up: all that it has missed. */
void abort_send_all(struct peer *peer);
/** An abort of a step that is not open here any more: it may be, behind us in the control tree.
 *  `head` without text_bytes. */
void abort_pass_on(struct rendezvous *rdv, const struct link_abort *head,
                   const char *text, const struct peer *from);
/** An aborted scope is being freed: links that come up later are told of it all the same. */
void abort_note_scope(struct rendezvous *rdv, const struct scope *scope);
/** Why `step`, which is closed here, was aborted; NULL: not that we remember. */
const struct link_abort *abort_note_find(const struct rendezvous *rdv, uint64_t step);
/** A step opens here: if it was aborted before, and only a note of that could be kept, it is now. */
void abort_note_take(struct rendezvous *rdv, struct scope *scope);
/** Of two causes the earlier one counts. */
bool abort_is_earlier(uint64_t time_ns, int32_t rank, uint64_t than_ns,
                      int32_t than_rank);

/* records.c */
void records_read(struct peer *peer, const void *frame, size_t bytes);
/** Pack what the peer is owed into `frame`; returns its bytes, 0 when there is nothing to say. */
size_t records_pack(struct peer *peer, uint8_t *frame, size_t capacity);
void frame_header_put(struct peer *peer, uint8_t *frame, unsigned records,
                      unsigned flags);

/* producer.c */
void producer_submit(tryst_op *op);
void producer_want(struct peer *peer, const struct record_want *want, const char *key);
void producer_cancel(struct peer *peer, const struct record_answer *cancel);
/** Records about a DATA, by its number. */
void producer_data_done(struct peer *peer, const struct record_answer *done);
void producer_data_kept(struct peer *peer, uint64_t number);
/** The consumer has dropped this DATA's bytes; its receive, if one comes, ends as cancelled. */
void producer_data_canceled(struct peer *peer, uint64_t number);
/** A header says that this DATA is done. */
void producer_acked(struct stream_send *send);
/** Part of producer_unblock. */
void producer_unblock_some(struct peer *peer);
/** Eager credit may have come back: small sends that waited for it leave. */
static inline void producer_unblock(struct peer *peer)
{
    if (!list_empty(&peer->blocked_sends))
        producer_unblock_some(peer);
}
/** Cancel a send, or fail it with `status`. */
void producer_fail(tryst_op *op, tryst_status status, int32_t origin_rank,
                   const char *text);
/** The ready event of a held send has passed, or failed (`status`). */
void producer_released(tryst_op *op, tryst_status status);
/** The bytes of a small send on a device are in its slot, or cannot be had. */
void producer_fetched(tryst_op *op, tryst_status status);
/** The peer is gone: drop its wants, end the send. */
void producer_peer_gone(tryst_op *op);
void producer_wants_drop(struct peer *peer);
/** The answer of `want` has been packed. */
void producer_want_answered(struct want *want);
/** The send's DATA was answered: its eager credit is free again. */
void producer_eager_return(tryst_op *op);
/** Answer and drop all that peers have parked in `scope` (closed or aborted). */
void producer_scope_answer(struct scope *scope, uint8_t type, tryst_status status,
                           int32_t origin_rank);

/* consumer.c */
void consumer_submit(tryst_op *op);
/** The WANT of `op` is about to be packed: give it an id and post receives. TRYST_OK, or
 *  TRYST_AGAIN when it may not be announced now (it then waits in a list of the peer). */
tryst_status consumer_announce(tryst_op *op);
/** The ready event of a held receive has passed, or failed (`status`). */
void consumer_released(tryst_op *op, tryst_status status);
/** The bytes of a small receive are on its device, or could not be copied there. */
void consumer_placed(tryst_op *op, tryst_status status);
/** A small tensor as it came. */
struct arrived {
    uint64_t number;
    const void *payload;
    int32_t status; /**< why it has no bytes, or TRYST_OK */
    uint32_t bytes;
    uint8_t dtype;
};
/** It is this receive's: copy, report, answer. */
void consumer_take(tryst_op *op, const struct arrived *arrived);
/** Announce the oldest deferred receives again, in case the producer's step was closed. */
void consumer_tick(struct peer *peer);
void consumer_offer(struct peer *peer, const struct record_offer *offer, const char *key);
void consumer_ended(struct peer *peer, const struct record_answer *answer);
void consumer_fail(tryst_op *op, tryst_status status, int32_t origin_rank,
                   const char *text);
void consumer_peer_gone(tryst_op *op);
/** A receive that waits to hear why its step was aborted now knows. */
void consumer_cause(tryst_op *op, int32_t origin_rank, const char *text);

/* recv_run.c */
/** Post slices for receives whose senders are ready. */
void consumer_slots_serve(struct peer *peer);

/* closed.c */
/** A send of the step waits for a WANT: ask the peer about it, once nothing else happens. */
void producer_ask_later(struct peer *peer, struct scope *scope);
/** Ask about those steps. */
void producer_ask_new(struct peer *peer);
/** Ask the peer about all steps in which sends wait. */
void producer_ask(struct peer *peer);
/** The peer has closed a step (after an abort, if the status says so): what it has not asked for
 *  fails. */
void producer_step_closed(struct peer *peer, const struct record_answer *closed);
/** The producer asks whether `step` is closed here: answered once it is. */
void consumer_asked(struct peer *peer, uint64_t step);
/** All answers have left, or the peer has gone. */
void consumer_asks_forget(struct peer *peer);
/** `scope` closes: answer those who asked and whose receives in it have all ended. */
void consumer_askers_answer(struct rendezvous *rdv, struct scope *scope);

#endif
