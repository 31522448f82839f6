/* SPDX-License-Identifier: Apache-2.0 */
/* Large packets that are lost on the way to another host, as the kernel reports the state
 * of this process's TCP connections.
 *
 * One idea: links and the bootstrap send segments that fit every path, so they work where
 * a switch or a tunnel has a smaller MTU than the hosts and drops larger packets without
 * a report. The kernel then repeats the fabric's large packets without end, while the
 * link's packets to the same address are acknowledged. These two facts are the proof.
 *
 * Invariant: nothing is sent, and no connection is changed. */
#ifndef TRYST_CORE_NET_TCP_PATH_H
#define TRYST_CORE_NET_TCP_PATH_H

#include "netif.h"

/** Bytes of the largest packet that every path carries: IPv6's least MTU. */
#define TCP_PATH_SAFE_BYTES 1280u
/** Bytes of a segment in such a packet: without the largest headers, IPv6's and TCP's. */
#define TCP_PATH_SEGMENT_BYTES (TCP_PATH_SAFE_BYTES - 60u)

/** Bound the segments of a socket, in both directions, to TCP_PATH_SEGMENT_BYTES. Call
 *  before connect or listen; accepted sockets inherit the bound. */
void tcp_path_segments_bound(int fd);

/** Large packets that are lost on the way from this host. */
struct tcp_loss {
    uint32_t mtu; /**< the path's MTU in the kernel's view; packets up to it leave */
    uint32_t retransmits; /**< repetitions of one packet in a row */
    uint32_t interface_mtu;
    /** Name of the interface with the local address; "": not found. */
    char interface[NETIF_NAME_BYTES];
};

/** Find a connection of this process, between the two addresses of the connection `fd`,
 *  that loses large packets while small ones pass. `fd` is bounded
 *  (tcp_path_segments_bound), and is a proof that small packets pass only if this end has
 *  sent at least each half second for two seconds. Reads the state of every descriptor of
 *  the process: some microseconds each, and the list of interfaces if the result is true.
 *  False: no such connection, or no proof. */
bool tcp_loss_find(int fd, struct tcp_loss *loss_p);

#endif
