/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with deadlines for the bootstrap: see bootstrap_net.h. */
#include "bootstrap_net.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/os/fd.h"
#include "core/os/random.h"
#include "topology/net/netif.h"
#include "topology/net/netif_choose.h"

/* A cancel flag, or a clock other than the kernel's, is polled at this interval. */
#define POLL_LIMIT_MS 20
/* Connections that the kernel queues until they are accepted. */
#define BACKLOG 1024
/* Pause before a port in use is tried again. */
#define LISTEN_PAUSE_NS (20 * NS_PER_MS)

static int wait_ms(const struct bootstrap_wait *wait, uint64_t left_ns)
{
    uint64_t ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
    uint64_t most = wait->cancel || wait->clock ? POLL_LIMIT_MS : 60 * 1000;
    return (int)(ms < most ? ms : most);
}

tryst_status bootstrap_wait_fd(const struct bootstrap_wait *wait, int fd, short events,
                               uint64_t until_ns)
{
    uint64_t end_ns = until_ns < wait->deadline_ns ? until_ns : wait->deadline_ns;
    struct pollfd poll_fd = {.fd = fd, .events = events};
    for (;;) {
        if (wait->cancel && atomic_load_explicit(wait->cancel, memory_order_relaxed))
            return TRYST_E_CANCELED; /* relaxed: the flag carries no data */
        uint64_t now_ns = clock_now_ns(wait->clock);
        int ready =
            poll(&poll_fd, 1, now_ns < end_ns ? wait_ms(wait, end_ns - now_ns) : 0);
        if (ready > 0)
            return TRYST_OK;
        if (ready < 0 && errno != EINTR)
            return TRYST_E_SYSTEM;
        if (now_ns >= end_ns)
            return TRYST_E_TIMEOUT;
    }
}

static tryst_status address_refuse(const char *text, const char *why, struct err *err)
{
    return err_set(
        err, TRYST_E_CONFIG,
        "TRYST_BOOTSTRAP='%.80s' %s; write host:port, for example 10.0.0.1:4711 or "
        "[fd00::1]:4711",
        text, why);
}

static tryst_status address_parse(const char *text, struct err *err,
                                  struct bootstrap_address *address_p)
{
    struct bootstrap_address address;
    const char *host = text, *colon = strrchr(text, ':');
    if (!colon)
        return address_refuse(text, "has no port", err);
    size_t host_bytes = (size_t)(colon - text);
    if (host[0] == '[') {
        if (host_bytes < 2 || colon[-1] != ']')
            return address_refuse(text, "has a bracket that does not close", err);
        host++;
        host_bytes -= 2;
    } else if (memchr(host, ':', host_bytes)) {
        return address_refuse(text, "is an IPv6 address without brackets", err);
    }
    if (host_bytes == 0)
        return address_refuse(text, "has no host", err);
    if (host_bytes >= sizeof address.host)
        return address_refuse(text, "is too long", err);
    memcpy(address.host, host, host_bytes);
    address.host[host_bytes] = '\0';
    address.port = bootstrap_address_port(text);
    if (!address.port)
        return address_refuse(text, "has no port between 1 and 65535", err);
    *address_p = address;
    return TRYST_OK;
}

uint16_t bootstrap_address_port(const char *address)
{
    uint16_t port;
    const char *at = address ? strrchr(address, ':') : NULL;
    if (!at)
        return 0;
    at++;
    return port_read(&at, &port) && !*at ? port : 0;
}

tryst_status bootstrap_resolve(const char *text, struct err *err,
                               struct bootstrap_address *address_p,
                               struct addrinfo **found_p)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    *address_p = (struct bootstrap_address){.port = 0};
    tryst_status status = address_parse(text, err, address_p);
    if (status != TRYST_OK)
        return status;
    snprintf(port, sizeof port, "%u", address_p->port);
    unsigned held = fd_low_hold(); /* name services may keep a socket */
    int code = getaddrinfo(address_p->host, port, &hints, found_p);
    fd_low_release(held);
    if (code == 0)
        return TRYST_OK;
    if (code == EAI_MEMORY)
        return err_set(err, TRYST_E_NOMEM, "cannot resolve a name: out of memory");
    return err_set(err, TRYST_E_CONFIG,
                   "TRYST_BOOTSTRAP: cannot resolve the host '%s': %s", address_p->host,
                   code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
}

static int connect_finish(const struct bootstrap_wait *wait, int fd, uint64_t until_ns)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    tryst_status status = bootstrap_wait_fd(wait, fd, POLLOUT, until_ns);
    if (status == TRYST_E_CANCELED)
        return ECANCELED;
    if (status != TRYST_OK)
        return ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        return errno;
    return error;
}

/* True if TCP has connected the socket to itself: without a listener on the port, the
 * kernel may pick that port for this end. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

int bootstrap_connect(const struct bootstrap_wait *wait, const struct addrinfo *to,
                      uint64_t until_ns, int *error_p)
{
    int on = 1, error = 0;
    int fd =
        FD_MAKE(socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0) {
        *error_p = errno;
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        error = errno == EINPROGRESS ? connect_finish(wait, fd, until_ns) : errno;
    if (error == 0 && is_connected_to_itself(fd))
        error = ECONNREFUSED;
    if (error == 0)
        return fd;
    close(fd);
    *error_p = error;
    return -1;
}

static int listen_at(const struct sockaddr *at, socklen_t bytes)
{
    int on = 1;
    int fd =
        FD_MAKE(socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at, bytes) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool is_loopback(const struct sockaddr *address)
{
    static const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                          .sin_addr.s_addr = 0x7f /* 127, big-endian */};
    static const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                                           .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return netif_prefix_holds((const struct sockaddr *)&v4, 8, address) ||
           netif_prefix_holds((const struct sockaddr *)&v6, 128, address);
}

static bool is_numeric(const char *host)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

/* State of one bootstrap_listen. */
struct listening {
    struct bootstrap_listeners listeners;
    bool outside; /* at least one listener is not on loopback */
    int error;    /* errno of the last address that failed */
};

static void listening_add(struct listening *listening, const struct sockaddr *at,
                          socklen_t bytes)
{
    struct bootstrap_listeners *listeners = &listening->listeners;
    if (listeners->count == BOOTSTRAP_LISTENERS_MAX)
        return;
    int fd = listen_at(at, bytes);
    if (fd < 0) {
        if (listening->error != EADDRINUSE)
            listening->error = errno;
        return;
    }
    listeners->fds[listeners->count++] = fd;
    listening->outside |= !is_loopback(at);
}

static void port_put(struct sockaddr_storage *at, uint16_t port)
{
    if (at->ss_family == AF_INET)
        ((struct sockaddr_in *)at)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)at)->sin6_port = htons(port);
}

/* Listen at the first address of each family among the interfaces that TRYST_NET, or the
 * default, chooses. */
static tryst_status chosen_add(struct listening *listening, const char *net,
                               uint16_t port, struct err *err)
{
    struct netif_list *selected = NULL;
    bool done4 = false, done6 = false;
    tryst_status status = netif_choose(net, err, &selected);
    for (size_t i = 0; status == TRYST_OK && i < selected->count; i++) {
        struct netif *item = &selected->items[i];
        bool *done = item->family == AF_INET ? &done4 : &done6;
        if (*done)
            continue;
        *done = true;
        port_put(&item->address, port);
        listening_add(listening, (struct sockaddr *)&item->address,
                      netif_address_bytes((struct sockaddr *)&item->address));
    }
    netif_list_close(selected);
    return status;
}

static tryst_status listening_refuse(const struct listening *listening,
                                     const char *address, struct err *err)
{
    if (listening->error == EADDRINUSE)
        return err_set(
            err, TRYST_E_BOOTSTRAP,
            "rank 0 cannot serve at %s: the port is in use (another job?); choose "
            "another one in TRYST_BOOTSTRAP",
            address);
    if (listening->error == EADDRNOTAVAIL)
        return err_set(
            err, TRYST_E_BOOTSTRAP,
            "rank 0 cannot serve at %s: not an address of this machine; start "
            "rank 0 there, or name the interface to listen on in TRYST_NET if the "
            "address is forwarded to this machine",
            address);
    return err_set(err, TRYST_E_BOOTSTRAP, "rank 0 cannot serve at %s: %s", address,
                   err_reason(listening->error));
}

static tryst_status listening_start(struct listening *listening, const char *address,
                                    const char *net, struct err *err)
{
    struct bootstrap_address parts;
    struct addrinfo *found = NULL;
    tryst_status status = bootstrap_resolve(address, err, &parts, &found);
    if (status != TRYST_OK)
        return status;
    for (struct addrinfo *at = found; at; at = at->ai_next)
        listening_add(listening, at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    size_t count = listening->listeners.count;
    bool named_loopback = count > 0 && !listening->outside && !is_numeric(parts.host) &&
                          strcmp(parts.host, "localhost") != 0;
    bool forwarded = count == 0 && listening->error == EADDRNOTAVAIL && net && *net;
    if (named_loopback || forwarded)
        status = chosen_add(listening, net, parts.port, err);
    if (named_loopback && !(net && *net))
        status = TRYST_OK; /* loopback alone suffices */
    if (status == TRYST_OK && listening->listeners.count == 0)
        return listening_refuse(listening, address, err);
    return status;
}

tryst_status bootstrap_listen(const char *address, const char *net, uint64_t until_ns,
                              struct err *err, struct bootstrap_listeners *listeners_p)
{
    const struct timespec pause = {.tv_nsec = (long)LISTEN_PAUSE_NS};
    struct listening listening = {.error = 0};
    tryst_status status = listening_start(&listening, address, net, err);
    while (status != TRYST_OK && listening.error == EADDRINUSE &&
           clock_monotonic_ns() < until_ns) {
        bootstrap_listeners_close(&listening.listeners);
        nanosleep(&pause, NULL);
        listening = (struct listening){.error = 0};
        status = listening_start(&listening, address, net, err);
    }
    if (status == TRYST_OK)
        *listeners_p = listening.listeners;
    else
        bootstrap_listeners_close(&listening.listeners);
    return status;
}

void bootstrap_listeners_close(struct bootstrap_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        close(listeners->fds[i]);
    listeners->count = 0;
}

/* ---- at an address that Tryst chooses ---------------------------------------------- */

/* Choose the address to listen at: loopback, or, of the interfaces that `net` or the
 * default chooses, that of the best default route. */
static tryst_status here_choose(bool loopback, const char *net, struct err *err,
                                struct sockaddr_storage *at_p)
{
    struct netif_list *selected = NULL;
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(at_p, 0, sizeof *at_p);
    memcpy(at_p, &v4, sizeof v4);
    if (loopback)
        return TRYST_OK;
    tryst_status status = netif_choose(net, err, &selected);
    for (size_t i = 0, best = 0; status == TRYST_OK && i < selected->count; i++) {
        const struct netif *items = selected->items;
        if (items[i].default_metric < items[best].default_metric)
            best = i;
        *at_p = items[best].address;
    }
    netif_list_close(selected);
    return status;
}

/* Listen at a random port of the range, so that jobs that start together rarely collide.
 * Returns -1 with errno. */
static int here_bind(struct sockaddr_storage *at, struct port_range ports)
{
    uint32_t count = port_range_count(ports), tries = count ? count : 1;
    uint64_t start = 0;
    int fd = -1;
    if (count && random_secret(&start, sizeof start) != TRYST_OK)
        return -1;
    for (uint32_t i = 0; i < tries && fd < 0; i++) {
        if (i && errno != EADDRINUSE)
            break;
        port_put(at, count ? (uint16_t)(ports.first + (start % count + i) % count) : 0);
        fd = listen_at((struct sockaddr *)at, netif_address_bytes((struct sockaddr *)at));
    }
    return fd;
}

tryst_status bootstrap_listen_here(bool loopback, const char *net,
                                   struct port_range ports, struct err *err, int *fd_p,
                                   char address_p[BOOTSTRAP_ADDRESS_MAX])
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    tryst_status status = here_choose(loopback, net, err, &at);
    if (status != TRYST_OK)
        return status;
    int fd = here_bind(&at, ports);
    if (fd < 0)
        return err_set(err, TRYST_E_BOOTSTRAP, "rank 0 has no port to serve at: %s%s",
                       strerror(errno),
                       ports.first && errno == EADDRINUSE
                           ? " (every port that TRYST_PORT or TRYST_PORT_RANGE names)"
                           : "");
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        status = err_set(err, TRYST_E_SYSTEM, "cannot read a socket's address: %s",
                         strerror(errno));
        close(fd);
        return status;
    }
    bootstrap_peer_text(&at, address_p);
    *fd_p = fd;
    return TRYST_OK;
}

static unsigned port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return 0;
}

bool bootstrap_listener_adopt(int fd, const char *address)
{
    int listens = 0, on = 1;
    socklen_t bytes = sizeof listens;
    struct sockaddr_storage at = {0};
    socklen_t at_bytes = sizeof at;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || !listens)
        return false;
    if (getsockname(fd, (struct sockaddr *)&at, &at_bytes) != 0)
        return false;
    if (port_of(&at) == 0 || (address && port_of(&at) != bootstrap_address_port(address)))
        return false;
    /* Accepted sockets inherit SO_REUSEADDR; without it they keep the port from this
     * process's next session. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

char *bootstrap_peer_text(const struct sockaddr_storage *peer,
                          char text[BOOTSTRAP_PEER_TEXT_BYTES])
{
    char address[NETIF_TEXT_BYTES];
    netif_address_text((const struct sockaddr *)peer, address);
    snprintf(text, BOOTSTRAP_PEER_TEXT_BYTES,
             peer->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", address, port_of(peer));
    return text;
}
