/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breaks the TCP connections below a pair's fabric endpoint.
 *
 * Idea: fi_close closes an endpoint at once, even in the middle of a bulk to or from a
 * stopped peer. But rxm over the TCP of 1.17 crashes then. A read in progress is in two
 * places of tcp's endpoint (rma_read_queue and cur_rx, tcpx_op_read_rsp).
 * tcpx_ep_flush_all_queues reports the read from the first place, frees it and reports it
 * again, and rxm uses the freed memory. If the connection breaks before fi_close, the
 * read ends as after the peer's death. libfabric has no call that breaks a connection, so
 * this file finds the sockets by their addresses.
 *
 * Invariant: only libfabric's sockets match. A socket with the local port on which the
 * pair's endpoint listens was accepted there, and a socket that is connected to the port
 * of the peer's endpoint was connected by the pair's endpoint. The numbers of these
 * descriptors stay valid meanwhile: only libfabric closes them, and only in a call.
 */
#include "ofi_sockets.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

static bool same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)a)->sin_addr,
                      &((const struct sockaddr_in *)b)->sin_addr,
                      sizeof(struct in_addr)) == 0;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

/* Get the port, which has the same offset in both families. */
static in_port_t port_at(const struct sockaddr_storage *address)
{
    return ((const struct sockaddr_in *)address)->sin_port;
}

/* True if `end` is the address `place`, at which an endpoint listens. False if `place` is
 * unknown (AF_UNSPEC). */
static bool is_at(const struct sockaddr_storage *end,
                  const struct sockaddr_storage *place)
{
    return place->ss_family != AF_UNSPEC && end->ss_family == place->ss_family &&
           port_at(end) == port_at(place) && same_ip(end, place);
}

static bool socket_is_of(int fd, const struct sockaddr_storage *own,
                         const struct sockaddr_storage *peer)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    /* not a socket, or not connected, as a listener */
    if (getpeername(fd, (struct sockaddr *)&there, &there_bytes) != 0)
        return false;
    if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) != 0)
        return false;
    return is_at(&here, own) || is_at(&there, peer);
}

static void place_set(struct sockaddr_storage *place, int rc, const void *address,
                      size_t bytes)
{
    memset(place, 0, sizeof *place);
    if (rc == 0 && bytes <= sizeof *place)
        memcpy(place, address, bytes);
    if (place->ss_family != AF_INET && place->ss_family != AF_INET6)
        place->ss_family = AF_UNSPEC;
}

/* Get one above the highest descriptor to check. Checking a million descriptors would
 * take 0.3 s of the progress thread for each peer. The kernel gives out low numbers
 * first, and a pair over rxm has ten. */
static int descriptors_end(void)
{
    enum { MOST = 1 << 16 };
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MOST
               ? (int)limit.rlim_cur
               : MOST;
}

void ofi_sockets_break(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    unsigned char address[OFI_ADDRESS_MAX];
    size_t bytes = sizeof address;
    struct sockaddr_storage own, peer;
    int rc = fi_getname(&ep->bulk->fid, address, &bytes);
    place_set(&own, rc, address, bytes);
    bytes = sizeof address;
    rc = ep->peer_bulk == FI_ADDR_UNSPEC
             ? -FI_ENOENT
             : fi_av_lookup(rail->av, ep->peer_bulk, address, &bytes);
    place_set(&peer, rc, address, bytes);
    for (int fd = 0, end = descriptors_end(); fd < end; fd++)
        if (socket_is_of(fd, &own, &peer))
            (void)shutdown(fd, SHUT_RDWR);
}
