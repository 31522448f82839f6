/* SPDX-License-Identifier: Apache-2.0 */
/* A network in virtual time: nodes, and links between them with a rate, a latency and
 * queues.
 *
 * Idea: a message is cut into packets, which take the links of their route one after the
 * other, each packet as a whole (store and forward). A link has two queues, one for
 * frames and one for bulk. Each is first come, first served, and the link takes a packet
 * of each in turn, as if two connections shared a wire. No packet is lost: a link that is
 * cut keeps its packets until it is mended. If a pair has several routes, its packets
 * take them in turn, in the shares given for the pair, and the receiver restores the
 * order of the messages.
 * Invariant: the messages from one node to another in one queue arrive in order. Of two
 * events at one time the one that was scheduled first runs first, so equal inputs give
 * equal runs. */
#ifndef TRYST_TESTS_SIM_NETWORK_H
#define TRYST_TESTS_SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"

struct net_message {
    /** Link in the list of the pair's messages, in the order of sending. */
    struct list_node node;
    int from, to; /**< the two ends of the route */
    bool is_bulk;
    uint32_t packets; /**< packets that have not arrived */
    uint64_t ep_id;   /**< the members from here on are for the sender only */
    int32_t which;
    uint32_t slice;
};

struct net_packet {
    struct list_node node;
    struct net_message *message;
    int link; /**< link that the packet is on */
    uint32_t bytes;
    uint64_t at_ns, number; /**< time and number of the event at the link's end */
};

struct net_link {
    int from, to;
    uint64_t bytes_per_s, latency_ns;
    bool is_cut;
    bool is_busy;
    /** bytes by which the frames are ahead of the bulk, since neither queue is empty */
    int64_t frames_ahead;
    struct list queues[2]; /**< queued packets: frames, bulk */
    /** Packets that have left, and have not reached the link's end. */
    struct list flying;
    uint64_t bytes; /**< bytes that the link has taken */
};

struct net_event {
    uint64_t at_ns, number;
    int link;
    /** true: the first flying packet reaches the link's end; false: the link's current
     *  packet has left */
    bool is_arrival;
};

/** A link on the routes of a pair. */
struct net_way {
    int link;
    double share; /**< share of the pair's packets */
    uint64_t taken;
};

struct net_pair {
    struct net_way *ways; /**< NULL: one route, by net->next */
    int ways_count;
    struct list sent[2]; /**< messages that have not arrived: frames, bulk */
};

struct net {
    int nodes, ends; /**< the ends have the first numbers */
    uint32_t packet_bytes;
    int links_count;
    struct net_link *links;
    int *next;                /**< [from * nodes + to]: the link to take, -1: none */
    struct net_pair *pairs;   /**< [from * ends + to] */
    struct net_event *events; /**< a heap ordered by time, then by number */
    int events_count, events_room;
    uint64_t numbers;
    uint64_t under_way; /**< packets in flight */
    struct list free, free_messages;
    void (*arrived)(void *arg, const struct net_message *message);
    void *arg;
};

/** Initialize a network. Nodes below `ends` send and receive; they never forward packets
 *  of others. */
void net_init(struct net *net, int nodes, int ends, uint32_t packet_bytes);
void net_free(struct net *net);
/** Add a link in one direction, and return its number. */
int net_link_add(struct net *net, int from, int to, uint64_t bytes_per_s,
                 uint64_t latency_ns);
/** Add links in both directions. Return the number of the first; the other has the next
 *  number. */
int net_link_pair(struct net *net, int a, int b, uint64_t bytes_per_s,
                  uint64_t latency_ns);
/** Compute the routes, after all links are added: those with the fewest links, and of
 *  equal ones the first. */
void net_routes(struct net *net);
/** Let `link` carry this share of the packets from one end to another. The ways of a pair
 *  replace its route. Call net_routes first. */
void net_way_add(struct net *net, int from, int to, int link, double share);
/** Write the links of the route, and return their number; 0: no route. */
int net_route(const struct net *net, int from, int to, int *links, int links_max);

/** Send `bytes`, cut into packets. `message` gives from, to, is_bulk and the sender's own
 *  members. */
void net_send(struct net *net, uint64_t now_ns, const struct net_message *message,
              uint64_t bytes);
/** Return the time of the next event, or UINT64_MAX if there is none. */
uint64_t net_next_ns(const struct net *net);
/** Run the events at `now_ns`, a time that net_next_ns has returned. */
void net_run(struct net *net, uint64_t now_ns);
/** Change the rate, from the next packet on. */
void net_link_rate(struct net *net, int link, uint64_t bytes_per_s);
void net_link_cut(struct net *net, uint64_t now_ns, int link, bool is_cut);

#endif
