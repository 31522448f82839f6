/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the layer above one endpoint of shm or self: a socket as the link, what the events
 * said, and a loop that pumps both. One node per thread or process, two per test. */
#ifndef TESTS_TRANSPORTS_PAIR_PUMP_H
#define TESTS_TRANSPORTS_PAIR_PUMP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "transports/module.h"
#include "transports/transport.h"

extern const struct transport_ops transport_self;
extern const struct transport_ops transport_shm;

/* Also where cmocka's asserts cannot go: children and threads. */
#define CHECK(condition)                                                            \
    ((condition) ? (void)0                                                          \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), \
                    fflush(stderr), abort()))

struct node {
    const struct transport_ops *ops;
    tryst_host host;
    uint64_t ring_bytes; /* configuration: shm_ring_bytes; 0: the default */
    uint64_t mech;       /* configuration: shm_mech */
    uint64_t fake_ns;    /* what the clock says; 0: the real one */
    struct rail *rail;
    struct endpoint *ep;
    struct ep_params params;
    int link;       /* our end of the socket pair, -1: loopback */
    bool link_lost; /* the other end is closed */
    /* what the events said */
    bool ready, failed, closed;
    tryst_status ready_status, failed_status;
    char text[TRANSPORT_TEXT_MAX]; /* of ready or failed */
    uint64_t frames, frames_bytes, unexpected, doorbells, doorbells_heard;
    uint64_t last_tag;
    /* called for each frame, if set */
    void (*on_frame)(struct node *node, const void *data, size_t bytes);
    void *arg;
    bool drop_fds; /* deliver connect messages without their descriptors */
};

/* Two unconnected nodes in this process: a is the initiator. Set ring_bytes and mech before. */
void nodes_link(struct node *a, struct node *b, const struct transport_ops *ops);
/* Rail and endpoint; false when either refuses. */
bool node_open(struct node *node);
/* Deliver what has come and progress once; what both together did. */
int node_pump(struct node *node);
/* Pump (both, if b) until *flag or for `ms` at most; whether *flag. */
bool nodes_until(struct node *a, struct node *b, const bool *flag, unsigned ms);
/* Pump for a while whatever happens. */
void nodes_settle(struct node *a, struct node *b, unsigned rounds);
/* Sleep until the link says something, if the rail lets us; at most `ms`. */
void node_sleep(struct node *node, int ms);
void node_close_ep(struct node *node);
/* Close all. The peer may be gone. */
void node_close(struct node *node);

/* Both open, connected and ready in one thread. */
void nodes_connect(struct node *a, struct node *b, const struct transport_ops *ops);
/* A loopback endpoint, ready. */
void node_loopback(struct node *node, const struct transport_ops *ops);

/* Fork: the child runs fn(b) with its own end and exits; the parent goes on with a. The nodes are
 * linked but not open. Returns the child; pids and pidfds are set on both sides. */
pid_t nodes_fork(struct node *a, struct node *b, const struct transport_ops *ops,
                 void (*fn)(struct node *node));
/* Wait for it; exit status, or 128 + signal. */
int child_wait(pid_t pid);

uint64_t now_ns(void);

/* A bulk and how it ended. */
struct test_bulk {
    struct bulk bulk;
    bool done;
    unsigned done_count;
    tryst_status status;
    size_t bytes;
};
void test_bulk_init(struct test_bulk *bulk, uint64_t tag, void *data, size_t bytes,
                    struct tryst_mem *mem);

/* Bytes that depend on their place and `seed`. */
void pattern_fill(void *data, size_t bytes, uint64_t seed);
bool pattern_is(const void *data, size_t bytes, uint64_t seed);

#endif
