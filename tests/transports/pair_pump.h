/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the layer above one endpoint of shm or self: a socket as the link, the
 * events received, and a loop that pumps both. One node per thread or process, two per
 * test. */
#ifndef TRYST_TESTS_TRANSPORTS_PAIR_PUMP_H
#define TRYST_TESTS_TRANSPORTS_PAIR_PUMP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "transports/module.h"
#include "transports/transport.h"

extern const struct transport_ops transport_self;
extern const struct transport_ops transport_shm;

/** A check for children and threads, where cmocka's asserts do not work. */
#define CHECK(condition)                                                            \
    ((condition) ? (void)0                                                          \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), \
                    fflush(stderr), abort()))

struct node {
    const struct transport_ops *ops;
    struct tryst_host host;
    uint64_t ring_bytes; /**< configuration: shm_ring_bytes; 0: the default */
    uint64_t mech;       /**< configuration: shm_mech */
    uint64_t fake_ns;    /**< the time that the clock returns; 0: the real time */
    struct rail *rail;
    bool shares_rail; /**< `rail` is another node's, which is closed after this one */
    struct endpoint *ep;
    struct ep_params params;
    int link;            /**< this node's end of the socket pair; -1: loopback */
    bool link_is_closed; /**< the other end is closed */
    /** Events received. */
    bool ready, failed, closed;
    tryst_status ready_status, failed_status;
    char text[TRANSPORT_TEXT_MAX]; /**< from ready or failed */
    uint64_t frames, frames_bytes, mechs_dropped, unexpected, doorbells,
        doorbells_received;
    uint64_t last_tag;
    /** Called for each frame, if set. */
    void (*on_frame)(struct node *node, const void *data, size_t bytes);
    void *arg;
    bool drop_fds; /**< deliver connect messages without their descriptors */
};

/** Make two unconnected nodes in this process; a is the initiator. Set ring_bytes and
 *  mech before. */
void nodes_link(struct node *a, struct node *b, const struct transport_ops *ops);
/** Open rail and endpoint; false if either fails. */
bool node_open(struct node *node);
/** Deliver arrived messages and progress once; return the number of events of both. */
int node_pump(struct node *node);
/** Pump (both, if b) until *flag or for `ms` at most; return *flag. */
bool nodes_until(struct node *a, struct node *b, const bool *flag, unsigned ms);
/** Pump for `rounds`, whatever happens. */
void nodes_settle(struct node *a, struct node *b, unsigned rounds);
/** Sleep until the link is readable, if the rail can be armed; at most `ms`. */
void node_sleep(struct node *node, int ms);
void node_close_ep(struct node *node);
/** Close everything. The peer may have ended. */
void node_close(struct node *node);

/** Open, connect and make ready both nodes in one thread. */
void nodes_connect(struct node *a, struct node *b, const struct transport_ops *ops);
/** Open a loopback endpoint until it is ready. */
void node_loopback(struct node *node, const struct transport_ops *ops);

/** Fork: the child runs fn(b) with its own end and exits; the parent continues with a.
 *  The nodes are linked but not open. Return the child; pids and pidfds are set on both
 *  sides. */
pid_t nodes_fork(struct node *a, struct node *b, const struct transport_ops *ops,
                 void (*fn)(struct node *node));
/** Wait for the child; return its exit status, or 128 + signal. */
int child_wait(pid_t pid);

uint64_t now_ns(void);

/** A bulk and its result. */
struct test_bulk {
    struct bulk bulk;
    bool done;
    unsigned done_count;
    tryst_status status;
    size_t bytes;
    bool borrowed; /**< a receive that borrows: its message has come */
    unsigned borrowed_count;
};
void test_bulk_init(struct test_bulk *bulk, uint64_t tag, void *data, size_t bytes,
                    struct tryst_mem *mem);
/** Make a receive that borrows. */
void test_borrow_init(struct test_bulk *bulk, uint64_t tag, size_t bytes);
/** Read a piece of a borrowed bulk, and check that its bytes are those of `seed`. Return
 *  the status of bulk_read. */
tryst_status test_borrow_read(struct node *node, struct test_bulk *bulk, size_t at,
                              size_t bytes, uint64_t seed);

/** Fill `data` with bytes that depend on their offset and `seed`. */
void pattern_fill(void *data, size_t bytes, uint64_t seed);
bool pattern_is(const void *data, size_t bytes, uint64_t seed);

#endif
