/* SPDX-License-Identifier: Apache-2.0 */
/** @file peer_probe.h
 *  Measures each path from an address of this host to one of another: does TCP connect,
 *  its round trip, and the largest packet that arrives.
 *
 *  Idea: the other host's kernel acknowledges packets by itself, so a packet's size is
 *  bounded by the segments of its connection (TCP_MAXSEG), and TCP_INFO shows whether it
 *  arrived. The program there (probe_answer) only repeats what comes, with its own id. */
#ifndef TRYST_TOOLS_INFO_PEER_PROBE_H
#define TRYST_TOOLS_INFO_PEER_PROBE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PROBE_ADDRESSES_MAX = 16, PROBE_PATHS_MAX = 256, PROBE_WHY_MAX = 48 };

struct probe_address {
    char interface[IF_NAMESIZE];
    struct sockaddr_storage at; /**< port 0 */
    unsigned mtu;
};

struct probe_list {
    struct probe_address items[PROBE_ADDRESSES_MAX];
    unsigned count;
};

/** One path, by indices of two lists. */
struct probe_path {
    unsigned from, to;
    bool connects;
    double round_trip_us;
    unsigned passes; /**< bytes of the largest packet that arrived; 0: unknown */
    unsigned lost;   /**< bytes of the smallest larger packet that did not; 0: none */
    char why[PROBE_WHY_MAX]; /**< reason why it does not connect */
};

/** List this host's addresses that are up, without 127/8, ::1 and link-local ones of
 *  IPv6. */
void probe_addresses(struct probe_list *list);
/** Write the address without port; returns `text`. */
enum { PROBE_TEXT_MAX = 64 };
char *probe_text(const struct probe_address *address, char text[PROBE_TEXT_MAX]);

/** Answer probes on the listening socket `fd` with `id`, in a thread that ends with the
 *  process. False: no thread. */
bool probe_answer(int fd, uint64_t id);

/** Probe all pairs of one family, where `id` answers at `port`; `own` is the id of this
 *  host's answers. Takes some seconds. Returns the number of paths. */
unsigned probe_all(const struct probe_list *from, const struct probe_list *to,
                   unsigned port, uint64_t id, uint64_t own,
                   struct probe_path paths[PROBE_PATHS_MAX]);

/** Connect to `to`, at most for `seconds`. Returns the socket, or -1 with errno. */
int probe_connect(const struct sockaddr *from, const struct sockaddr *to,
                  int segment_bytes, int seconds);
/** Read or write all bytes, at most for `seconds`. */
bool probe_move(int fd, void *data, size_t bytes, bool write, int seconds);

#endif
