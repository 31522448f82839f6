/* SPDX-License-Identifier: Apache-2.0 */
/* A little world for tests of the engine: up to 64 `struct rendezvous` in one thread, over links,
 * rails and a dispatch that are made here, under a clock that stands still.
 *
 * Idea: nothing moves unless world_pass is called, and every queue can be held, so each crossing of
 * records and bulk is a test of a few lines. The links replace those of transports/link/link.c: all of
 * link.h is defined in world_link.c, so the linker never looks for the others.
 *
 * tests/sim/ is the same world with its own parts (struct world_parts): a network that takes time, and the
 * scheduler of commsched. */
#ifndef TESTS_RENDEZVOUS_WORLD_H
#define TESTS_RENDEZVOUS_WORLD_H

#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "rendezvous/dump.h"
#include "rendezvous/group_info.h"
#include "rendezvous/late.h"
#include "rendezvous/membership.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/liveness.h"
#include "rendezvous/peer/messages.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/closed.h"
#include "rendezvous/protocol/frames.h"
#include "rendezvous/protocol/wire/wire.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/step.h"
#include "rendezvous/submission.h"
#include "support/fake_clock.h"
#include "support/unit.h"

enum { WORLD_RANKS_MAX = 64 };

struct side;
struct world;
struct world_ep;

/* What a simulator has in the place of the world's own parts. */
struct world_parts {
    const struct dispatch_ops *dispatch;
    void *(*dispatch_arg)(struct side *side);
    /* The layer above, once the side has its settings; NULL: none. */
    struct above (*above)(struct side *side);
    /* `from` sent something: it is under way until world_arrive brings it before the peer. */
    void (*frame_sent)(struct world_ep *from, size_t bytes);
    void (*bulk_sent)(struct world_ep *from, const struct bulk *bulk);
    /* A bulk and the receive that it came for: move the bytes, or do not. */
    void (*copy)(const struct bulk *send, const struct bulk *recv);
    void (*settle)(struct world *world);
};

struct world_rail {
    struct rail base;
    struct world *world;
    int rank;
};

/* One end; what it sent waits in its own queues until the other end's rail progresses. */
struct world_ep {
    struct endpoint base;
    struct list_node node; /* of the side's */
    uint64_t id;           /* no other ever has it */
    int rank, peer;
    bool told_ready, closing;
    bool unready; /* nothing comes of it */
    bool refuses; /* it does not become ready, and says so */
    uint32_t posted_now;
    struct list frames_away, sends_away; /* not arrived; empty without parts */
    struct list frames;                  /* struct world_frame, on the way to the peer */
    struct list posted;                  /* struct bulk: receives, by scratch */
    struct list canceled;
    struct list sends; /* on the way to the peer */
    struct list sent;  /* arrived, completion due here */
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
    struct world_ep *ep_of[WORLD_RANKS_MAX]; /* the oldest towards each */
    bool stirred;          /* something came for it: a pass may do something */
    struct list transfers; /* what the dispatch may start */
    uint64_t in_flight_bytes, in_flight_high_bytes;
    /* knobs */
    bool still;          /* makes no pass at all, but hears what its links bring */
    bool away;           /* does not look: no pass, no link read or accepted */
    bool hold_frames;    /* frames towards it stay where they are */
    bool hold_bulk;      /* bulk towards it */
    bool hold_sent;      /* completions of its sends */
    bool hold_cancels;   /* completions of its withdrawn receives */
    bool bulk_backwards; /* the newest bulk arrives, and completes, first */
    bool
        frames_fail; /* its endpoints are broken, which only a frame that is begun finds */
    bool sends_fail;    /* or a slice that was sent */
    bool recvs_fail;    /* or one that was to come */
    bool hold_close;    /* its endpoints do not come to an end */
    bool hold_dispatch; /* its transfers do not start */
    bool busy_dispatch; /* it says that one has started, always */
    bool hold_accepts;  /* it does not accept links: they stand, and nobody reads them */
    bool silent;        /* its kernel answers no new connection */
    bool no_rails;      /* it has no transport but self */
    int no_kind;        /* nor this one; 0: (self) all */
    uint32_t unready;   /* so many endpoints of it never become ready */
    uint32_t refuses;   /* so many of those that follow report that they cannot */
    int ways_refused; /* neither of a pair gets so many of its first candidates to work */
    uint32_t frames_max; /* frames under way from it until AGAIN; 0: any number */
    uint32_t recv_again; /* so many bulk_recv answer AGAIN */
    uint32_t send_again; /* so many bulk_send answer AGAIN */
    uint64_t window_bytes;
    /* seen */
    uint32_t posted_high, posted_now;
    uint32_t unexpected;
    uint32_t pauses_here, pauses_there; /* the dispatch was told of: its own, a peer's */
    size_t frame_bytes;                 /* of the newest frame from it */
    char log_text[8192];
};

struct world {
    struct clock_fake clock;
    int size;
    struct side sides[WORLD_RANKS_MAX];
    uint64_t ep_ids;
    const struct world_parts *parts; /* NULL: the world's own */
    struct list links;
    bool links_stirred;
    bool hold_links;      /* no link moves */
    bool links_backwards; /* the youngest link first */
    bool
        links_slow; /* as TCP's: they stand, and what was said leaves, once their owner has looked */
    /* Messages that a socket holds; the others wait at the sender. 0: any number. */
    uint32_t links_room;
    uint32_t link_again;     /* so many link_connect find a full queue */
    tryst_status link_fails; /* link_connect finds no way; TRYST_OK: it does */
    uint32_t link_drops;     /* so many accepted links are dropped before they are read */
    struct link_listener *listeners[WORLD_RANKS_MAX];
};

struct world_setting {
    const char *name, *value;
};

/* All but `size` ranks' settings are defaults. `settings` ends with a NULL name. */
tryst_status world_try_open(struct world *world, int size,
                            const struct world_setting *settings);
void world_open(struct world *world, int size, const struct world_setting *settings);
tryst_status world_open_parts(struct world *world, int size,
                              const struct world_setting *settings,
                              const struct world_parts *parts);
/* Leave, tell, cut, close; fails the test when an object is left. */
void world_close(struct world *world);

/* One pass of every side; returns the number of events. */
int world_pass(struct world *world);
/* All sides are about to sleep, and do not. */
void world_doze(struct world *world);
/* Until nothing moves. */
void world_settle(struct world *world);
void world_advance(struct world *world, uint64_t ns);
/* Every two ranks have so many candidates to choose from: shm, ucx, ofi. */
void world_ways(struct world *world, int count);
/* Let two ranks have an endpoint before the test begins. */
void world_join(struct world *world, int a, int b);

struct peer *world_peer(struct world *world, int rank, int of);
/* The first frame or bulk that is under way from that endpoint arrives. */
void world_arrive(struct world *world, int from, int to, uint64_t ep_id, bool is_bulk);
/* `bytes` of a frame arrive at `rank` as if `from` had sent them. */
void world_inject(struct world *world, int rank, int from, const void *frame,
                  size_t bytes);
/* The link between the two breaks, as by a death. */
void world_link_cut(struct world *world, int a, int b);
/* The rank dies: all its links break, nobody listens there any more, and it makes no pass. */
void world_kill(struct world *world, int rank);

tryst_step *world_step(struct world *world, int rank, uint64_t id);
const char *world_key(struct world *world, int src, int dst, const char *edge);
tryst_op *world_send(struct world *world, int rank, tryst_step *step, const char *key,
                     void *data, size_t bytes, const tryst_op_params *params);
tryst_op *world_recv(struct world *world, int rank, tryst_step *step, const char *key,
                     void *data, size_t bytes, const tryst_op_params *params);
/* The operation is complete with `status`; then it is released. */
#define world_done(op, wanted)                         \
    do {                                               \
        assert_int_equal(tryst_op_test(op), (wanted)); \
        tryst_op_release(op);                          \
    } while (0)

/* world_link.c */
int world_links_run(struct world *world);
void world_links_close(struct world *world);
/* world_rail.c */
extern const struct transport_ops world_transport;
int world_rail_progress(struct world *world, struct side *side);
struct world_ep *world_ep_find(struct world *world, int rank, int peer);
extern struct world *world_current;

#endif
