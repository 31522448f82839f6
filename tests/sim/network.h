/* SPDX-License-Identifier: Apache-2.0 */
/* A network in virtual time: nodes, and between them links with a rate, a latency and queues.
 *
 * Idea: what a rank sends is cut into packets, which take each link of their route one after the other, whole
 * (store and forward). A link has two queues, one for frames and one for bulk, each first come, first
 * served, and takes a packet of each in turn, as two connections that share a wire do. Nothing is lost: a
 * link that is cut keeps what it has until it is mended.
 * Invariant: what one node sends another by one of the two queues arrives in order. Of two events of one
 * time the one that was scheduled first comes first, so equal inputs give equal runs. */
#ifndef TESTS_SIM_NETWORK_H
#define TESTS_SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"

struct net_packet {
    struct list_node node;
    int from, to; /* of its whole way */
    int link;     /* that it is on */
    bool is_bulk;
    bool is_last; /* of its message */
    uint32_t bytes;
    uint64_t ep_id; /* the rest is the sender's affair */
    int32_t which;
    uint32_t slice;
};

struct net_link {
    int from, to;
    uint64_t bytes_per_s, latency_ns;
    bool is_cut;
    bool is_busy;
    bool bulk_is_next;     /* where both queues have something */
    struct list queues[2]; /* frames, bulk */
    uint64_t bytes;        /* that it has taken */
};

struct net_event {
    uint64_t at_ns, number;
    int link;                  /* its packet has left, */
    struct net_packet *packet; /* or NULL; this one is at the link's end */
};

struct net {
    int nodes, ends; /* the ends come first */
    uint32_t packet_bytes;
    int links_count;
    struct net_link *links;
    int *next;                /* [from * nodes + to]: the link to take, -1 none */
    struct net_event *events; /* a heap */
    int events_count, events_room;
    uint64_t numbers;
    uint64_t under_way; /* packets */
    struct list free;
    void (*arrived)(void *arg,
                    const struct net_packet *packet); /* the last of a message */
    void *arg;
};

/* Nodes below `ends` send and receive, and never pass on what is not theirs. */
void net_open(struct net *net, int nodes, int ends, uint32_t packet_bytes);
void net_close(struct net *net);
/* One direction; its number. */
int net_link_add(struct net *net, int from, int to, uint64_t bytes_per_s,
                 uint64_t latency_ns);
/* Both directions; the number of the first, the other's is one more. */
int net_link_pair(struct net *net, int a, int b, uint64_t bytes_per_s,
                  uint64_t latency_ns);
/* All links are there: routes with the fewest links, of those the first. */
void net_routes(struct net *net);
/* Links of the route; 0 where there is none. */
int net_route(const struct net *net, int from, int to, int *links, int links_max);

/* `message` says from, to, is_bulk and the rest; it is cut into packets. */
void net_send(struct net *net, uint64_t now_ns, const struct net_packet *message,
              uint64_t bytes);
/* When something happens next, UINT64_MAX never. */
uint64_t net_next_ns(const struct net *net);
/* What happens at `now_ns`, which net_next_ns said. */
void net_run(struct net *net, uint64_t now_ns);
/* From the next packet on. */
void net_link_rate(struct net *net, int link, uint64_t bytes_per_s);
void net_link_cut(struct net *net, uint64_t now_ns, int link, bool is_cut);

#endif
