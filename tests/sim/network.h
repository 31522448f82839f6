/* SPDX-License-Identifier: Apache-2.0 */
/* A network in virtual time: nodes, and between them links with a rate, a latency and
 * queues.
 *
 * Idea: what a rank sends is cut into packets, which take each link of their route one
 * after the other, whole (store and forward). A link has two queues, one for frames and
 * one for bulk, each first come, first served, and takes a packet of each in turn, as two
 * connections that share a wire do. Nothing is lost: a link that is cut keeps what it has
 * until it is mended. Where a pair has several routes, its packets take them in turn, in
 * the shares that the pair was given, and the receiver puts messages back into order.
 * Invariant: what one node sends another by one of the two queues arrives in order. Of
 * two events of one time the one that was scheduled first comes first, so equal inputs
 * give equal runs. */
#ifndef TESTS_SIM_NETWORK_H
#define TESTS_SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"

struct net_message {
    struct list_node node; /* in the order in which its pair sent */
    int from, to;          /* of its whole way */
    bool is_bulk;
    uint32_t packets; /* that have not arrived */
    uint64_t ep_id;   /* the rest is the sender's affair */
    int32_t which;
    uint32_t slice;
};

struct net_packet {
    struct list_node node;
    struct net_message *message;
    int link; /* that it is on */
    uint32_t bytes;
    uint64_t at_ns, number; /* of its event at the link's end */
};

struct net_link {
    int from, to;
    uint64_t bytes_per_s, latency_ns;
    bool is_cut;
    bool is_busy;
    bool bulk_is_next;     /* where both queues have something */
    struct list queues[2]; /* frames, bulk */
    struct list flying;    /* packets that have left, and are not at its end */
    uint64_t bytes;        /* that it has taken */
};

struct net_event {
    uint64_t at_ns, number;
    int link;
    bool is_arrival; /* its first flying packet is at its end; else its packet has left */
};

/* A link on the routes of a pair. */
struct net_way {
    int link;
    double share; /* of the pair's packets */
    uint64_t taken;
};

struct net_pair {
    struct net_way *ways; /* NULL: one route, by net->next */
    int ways_count;
    struct list sent[2]; /* messages that have not arrived: frames, bulk */
};

struct net {
    int nodes, ends; /* the ends come first */
    uint32_t packet_bytes;
    int links_count;
    struct net_link *links;
    int *next;                /* [from * nodes + to]: the link to take, -1 none */
    struct net_pair *pairs;   /* [from * ends + to] */
    struct net_event *events; /* a heap */
    int events_count, events_room;
    uint64_t numbers;
    uint64_t under_way; /* packets */
    struct list free, free_messages;
    void (*arrived)(void *arg, const struct net_message *message);
    void *arg;
};

/* Nodes below `ends` send and receive, and never pass on what is not theirs. */
void net_init(struct net *net, int nodes, int ends, uint32_t packet_bytes);
void net_free(struct net *net);
/* One direction; its number. */
int net_link_add(struct net *net, int from, int to, uint64_t bytes_per_s,
                 uint64_t latency_ns);
/* Both directions; the number of the first, the other's is one more. */
int net_link_pair(struct net *net, int a, int b, uint64_t bytes_per_s,
                  uint64_t latency_ns);
/* All links are there: routes with the fewest links, of those the first. */
void net_routes(struct net *net);
/* After net_routes: this share of the packets from one end to another takes `link`. What
 * a pair is given replaces its route. */
void net_way_add(struct net *net, int from, int to, int link, double share);
/* Links of the route; 0 where there is none. */
int net_route(const struct net *net, int from, int to, int *links, int links_max);

/* `message` says from, to, is_bulk and the rest; it is cut into packets. */
void net_send(struct net *net, uint64_t now_ns, const struct net_message *message,
              uint64_t bytes);
/* When something happens next, UINT64_MAX never. */
uint64_t net_next_ns(const struct net *net);
/* What happens at `now_ns`, which net_next_ns said. */
void net_run(struct net *net, uint64_t now_ns);
/* From the next packet on. */
void net_link_rate(struct net *net, int link, uint64_t bytes_per_s);
void net_link_cut(struct net *net, uint64_t now_ns, int link, bool is_cut);

#endif
