/* SPDX-License-Identifier: Apache-2.0 */
/* A small world for tests of the engine: up to 64 `struct rendezvous` in one thread, over
 * links, rails and a scheduler that are made here, under a clock that stands still.
 *
 * Idea: nothing moves unless world_pass is called, and every queue can be held, so each
 * crossing of records and bulk is a test of a few lines. The links replace those of
 * transports/link/link.c: world_link.c defines all of link.h, so the linker never needs
 * link.c. world_sched.c replaces the scheduler in the same way.
 *
 * tests/sim/ is the same world with other parts (struct world_parts): a network that
 * takes time, and the scheduler of commsched. */
#ifndef TRYST_TESTS_RENDEZVOUS_WORLD_H
#define TRYST_TESTS_RENDEZVOUS_WORLD_H

#include <string.h>

#include "core/memory/alloc.h"
#include "core/net/tcp_path.h"
#include "core/os/random.h"
#include "rendezvous/dump.h"
#include "rendezvous/group_info.h"
#include "rendezvous/membership.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/liveness.h"
#include "rendezvous/peer/messages.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/progress/overdue.h"
#include "rendezvous/progress/pass.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/protocol/closed.h"
#include "rendezvous/protocol/frames.h"
#include "rendezvous/protocol/wire/wire.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/step.h"
#include "support/fake_clock.h"
#include "support/unit.h"

enum { WORLD_RANKS_MAX = 64 };

struct side;
struct world;
struct world_ep;

/** What a simulator puts in the place of the world's own parts. */
struct world_parts {
    /** Return the side's scheduler. */
    struct sched *(*sched)(struct side *side);
    /** Return the layer above, once the side has its settings. NULL: no such layer. */
    struct coll_calls (*coll_calls)(struct side *side);
    /** Called when `from` has sent a frame. The frame is in flight until world_arrive
     *  delivers it. */
    void (*frame_sent)(struct world_ep *from, size_t bytes);
    void (*bulk_sent)(struct world_ep *from, const struct bulk *bulk);
    /** Move the bytes of a bulk into its receive; a simulator may leave that out. */
    void (*copy)(const struct bulk *send, const struct bulk *recv);
    void (*settle)(struct world *world);
};

struct world_rail {
    struct rail base;
    struct world *world;
    int rank;
};

/** One end. What it sent waits in its own queues until the other end's rail
 *  progresses. */
struct world_ep {
    struct endpoint base;
    struct list_node node; /**< in the side's `eps` */
    uint64_t id;           /**< never used for another endpoint */
    int rank, peer;
    bool ready_reported, closing;
    bool unready; /**< the endpoint never becomes ready */
    bool refuses; /**< the endpoint reports that it cannot become ready */
    uint32_t posted_now;
    /** Frames and bulk that have not arrived. Empty without `parts`. */
    struct list frames_away, sends_away;
    struct list frames; /**< struct world_frame, on the way to the peer */
    struct list posted; /**< struct bulk: receives, linked in `scratch` */
    struct list canceled;
    struct list lent;  /**< struct bulk: receives that borrow the send in `from` */
    struct list sends; /**< bulk on the way to the peer */
    struct list sent;  /**< bulk that has arrived, with its completion due here */
};

struct side {
    struct world *world;
    int rank;
    struct rendezvous *rdv;
    struct config *config;
    struct log log;
    struct poller poller;
    struct tryst_group group;
    struct world_rail rail;
    struct list eps;
    struct world_ep *ep_of[WORLD_RANKS_MAX]; /**< the oldest endpoint towards each rank */
    bool has_events;       /**< something arrived for this side: a pass may have work */
    struct list transfers; /**< transfers that the scheduler may start */
    uint64_t in_flight_bytes, in_flight_high_bytes;
    /* Knobs: */
    bool still;          /**< makes no pass, but its links deliver messages */
    bool away;           /**< makes no pass, and neither reads nor accepts a link */
    bool hold_frames;    /**< frames towards this side do not arrive */
    bool hold_bulk;      /**< bulk towards this side does not arrive */
    bool hold_sent;      /**< completions of this side's sends are held */
    bool hold_cancels;   /**< completions of this side's withdrawn receives are held */
    bool bulk_backwards; /**< the newest bulk arrives, and completes, first */
    /** The side's endpoints are broken: beginning a frame fails, without an event
     *  before. */
    bool frames_fail;
    bool sends_fail; /**< sending a slice fails */
    bool recvs_fail; /**< receiving a slice fails */
    bool hold_close; /**< the side's endpoints do not finish closing */
    bool borrows;    /**< set before its endpoints are ready: they borrow */
    bool hold_sched; /**< the side's transfers do not start */
    bool busy_sched; /**< each pass reports an event of the scheduler */
    /** The side does not accept links: they are connected, but never read. */
    bool hold_accepts;
    bool silent;   /**< the side's kernel answers no new connection */
    bool no_rails; /**< the side has no transport but self */
    /** A transport that the side does not have; 0 (self): it has all. */
    int no_kind;
    uint32_t unready; /**< number of the side's next endpoints that never become ready */
    /** Number of the endpoints after those that report that they cannot become ready. */
    uint32_t refuses;
    /** Number of first candidates that fail at both ranks of a pair. */
    int ways_refused;
    /** Frames in flight from this side until AGAIN; 0: any number. */
    uint32_t frames_max;
    uint32_t recv_again; /**< number of next calls of bulk_recv that answer AGAIN */
    uint32_t send_again; /**< number of next calls of bulk_send that answer AGAIN */
    /** Number of next calls of bulk_read that answer AGAIN: the bytes come by copy in the
     *  next pass. */
    uint32_t read_again;
    uint32_t lend_nomem; /**< number of next borrowed bulks for which memory is out */
    bool returns_fail;   /**< what is returned does not count */
    uint64_t window_bytes;
    /* Observations: */
    uint32_t posted_high, posted_now;
    const struct tryst_mem *posted_mem; /**< registration of the last posted slice */
    uint32_t unexpected;
    /** Pauses reported to the scheduler: its own, a peer's. */
    uint32_t pauses_here, pauses_there;
    size_t frame_bytes; /**< size of the newest frame from this side */
    char log_text[8192];
};

struct world {
    struct clock_fake clock;
    int size;
    struct side sides[WORLD_RANKS_MAX];
    uint64_t ep_ids;
    const struct world_parts *parts; /**< NULL: the world's own parts */
    struct list links;
    bool links_have_events;
    bool forged;          /**< a frame was injected, so counters of two ends may differ */
    bool spoilt;          /**< a fault was planted: counters do not return to zero */
    bool hold_links;      /**< no link moves */
    struct tcp_loss loss; /**< the result of each search for lost packets; mtu 0: none */
    bool links_backwards; /**< the youngest link is served first */
    /** Links behave as TCP's: a connection is up, and its messages leave, only after a
     *  pass of its owner. */
    bool links_slow;
    /** Messages that a socket holds; the others wait at the sender, and break the link if
     *  they are more than LINK_BACKLOG_MAX. 0: any number. */
    uint32_t links_room;
    uint64_t links_sent[256]; /**< number of messages sent, by type */
    /** Number of next calls of link_connect that find a full queue. */
    uint32_t link_again;
    tryst_status link_fails; /**< the error of link_connect; TRYST_OK: it succeeds */
    tryst_status unix_fails; /**< the error of a Unix socket; TRYST_OK: link_fails */
    /** Number of accepted links that are dropped before they are read. */
    uint32_t link_drops;
    struct link_listener *listeners[WORLD_RANKS_MAX];
};

struct world_setting {
    const char *name, *value;
};

/** Open a world of `size` ranks. `settings` override the defaults and end with a NULL
 *  name. */
tryst_status world_try_open(struct world *world, int size,
                            const struct world_setting *settings);
void world_open(struct world *world, int size, const struct world_setting *settings);
tryst_status world_open_parts(struct world *world, int size,
                              const struct world_setting *settings,
                              const struct world_parts *parts);
/** Let all ranks leave the group and close; fails the test when an object is left. */
void world_close(struct world *world);
/** Take the rank of `rdv` one state further on its way out of the group, even before the
 *  present state has had its effect, as when the time of that is over. */
void world_leave_next(struct rendezvous *rdv);

/** Make one pass of every side; return the number of events. */
int world_pass(struct world *world);
/** Let all sides prepare to sleep, and wake them at once. */
void world_doze(struct world *world);
/** Make passes until nothing moves. */
void world_settle(struct world *world);
void world_advance(struct world *world, uint64_t ns);
/** Give every two ranks `count` candidates to choose from: shm, ucx, ofi. */
void world_ways(struct world *world, int count);
/** Let two ranks have an endpoint before the test begins. */
void world_join(struct world *world, int a, int b);

struct peer *world_peer(struct world *world, int rank, int of);
/** Deliver the first frame or bulk in flight from that endpoint. */
void world_arrive(struct world *world, int from, int to, uint64_t ep_id, bool is_bulk);
/** Deliver `bytes` bytes of a frame at `rank` as if `from` had sent them. */
void world_inject(struct world *world, int rank, int from, const void *frame,
                  size_t bytes);
/** Break the link between the two ranks, as a death does. */
void world_link_cut(struct world *world, int a, int b);
/** Let the rank die: all its links break, its listener is gone, and it makes no pass. */
void world_kill(struct world *world, int rank);

tryst_step *world_step(struct world *world, int rank, uint64_t id);
const char *world_key(struct world *world, int src, int dst, const char *edge);
tryst_op *world_send(struct world *world, int rank, tryst_step *step, const char *key,
                     void *data, size_t bytes, const tryst_op_params *params);
tryst_op *world_recv(struct world *world, int rank, tryst_step *step, const char *key,
                     void *data, size_t bytes, const tryst_op_params *params);
/** Check that the operation is complete with `status`, and release it. */
#define world_done(op, wanted)                         \
    do {                                               \
        assert_int_equal(tryst_op_test(op), (wanted)); \
        tryst_op_release(op);                          \
    } while (0)

/** in world_counters.c: check the counters of ranks that live and have no operation with
 *  each other, and those of all ranks after their groups have closed. */
void world_counters_check_idle(const struct world *world);
void world_counters_check_end(const struct world *world);
/** in world_link.c */
int world_links_run(struct world *world);
void world_links_close(struct world *world);
/** in world_rail.c */
extern const struct transport_ops world_transport;
int world_rail_progress(struct world *world, struct side *side);
struct world_ep *world_ep_find(struct world *world, int rank, int peer);
extern struct world *world_current;

#endif
