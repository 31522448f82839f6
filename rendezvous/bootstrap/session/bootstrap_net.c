/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with deadlines for the bootstrap: see bootstrap_net.h. */
#include "bootstrap_net.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap_name.h"
#include "bootstrap_text.h"
#include "core/net/netif.h"
#include "core/net/netif_choose.h"
#include "core/net/tcp_path.h"
#include "core/os/fd.h"
#include "core/os/random.h"

/* A cancel flag, or a clock other than the kernel's, is polled at this interval. */
#define POLL_LIMIT_MS 20
/* Connections that the kernel queues until they are accepted. */
#define BACKLOG 1024
/* Pause before rank 0 tries again to listen. */
#define LISTEN_PAUSE_NS (20 * NS_PER_MS)
/* Time for which a port in use is tried again. The previous job may be closing it, or the
 * kernel may have given it to an outgoing connection. */
#define LISTEN_BUSY_NS (2 * NS_PER_S)
/* The longest wait of rank 0 for a name service before it checks its other limits. */
#define LISTEN_NAME_NS (1 * NS_PER_S)

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

uint64_t bootstrap_warn_ns(const struct bootstrap_wait *wait)
{
    return wait->deadline_ns - wait->timeout_ns + BOOTSTRAP_WARN_NS;
}

bool bootstrap_wait_is_long(const struct bootstrap_wait *wait)
{
    return clock_now_ns(wait->clock) >= bootstrap_warn_ns(wait);
}

void bootstrap_wait_warn(const struct bootstrap_wait *wait, const struct log *log,
                         const char *why)
{
    char waited[SECONDS_TEXT_BYTES], all[SECONDS_TEXT_BYTES];
    LOG_WARN(log,
             "bootstrap: %s have passed: %s; the time-out is %s "
             "(TRYST_BOOTSTRAP_TIMEOUT)",
             seconds_text(BOOTSTRAP_WARN_NS, waited), why,
             seconds_text(wait->timeout_ns, all));
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
    tcp_path_segments_bound(fd);
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
    tcp_path_segments_bound(fd);
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

/* State of one bootstrap_listen. */
struct listening {
    const struct bootstrap_params *params; /* for messages */
    const struct bootstrap_wait *wait;
    uint64_t busy_until_ns; /* a port in use is tried again until then; 0: not in use */
    /* of the present try: */
    struct bootstrap_listeners listeners;
    bool outside; /* at least one listener is not on loopback */
    int error;    /* errno of the last address that failed */
};

static void listeners_drop(struct bootstrap_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        close(listeners->fds[i]);
    listeners->count = 0;
}

static bool listens_at(const struct bootstrap_listeners *listeners,
                       const struct sockaddr *at, socklen_t bytes)
{
    for (size_t i = 0; i < listeners->count; i++) {
        struct sockaddr_storage own = {0};
        socklen_t own_bytes = sizeof own;
        if (getsockname(listeners->fds[i], (struct sockaddr *)&own, &own_bytes) == 0 &&
            own_bytes == bytes && memcmp(&own, at, bytes) == 0)
            return true;
    }
    return false;
}

static void listening_add(struct listening *listening, const struct sockaddr *at,
                          socklen_t bytes)
{
    struct bootstrap_listeners *listeners = &listening->listeners;
    if (listens_at(listeners, at, bytes)) {
        listening->outside |= !is_loopback(at);
        return;
    }
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

/* Listen at the addresses of the interfaces that TRYST_NET, or the default, chooses: the
 * ranks of other hosts may resolve the name to any of them. */
static tryst_status chosen_add(struct listening *listening, struct err *err)
{
    struct netif_list *selected = NULL;
    tryst_status status = netif_choose(listening->listeners.net, err, &selected);
    for (size_t i = 0; status == TRYST_OK && i < selected->count; i++) {
        struct sockaddr_storage *at = &selected->items[i].address;
        port_put(at, listening->listeners.name.port);
        listening_add(listening, (struct sockaddr *)at,
                      netif_address_bytes((struct sockaddr *)at));
    }
    netif_list_close(selected);
    return status;
}

static tryst_status listening_refuse(const struct listening *listening, struct err *err)
{
    const struct bootstrap_params *params = listening->params;
    if (listening->error == EADDRINUSE)
        return err_set(
            err, TRYST_E_BOOTSTRAP,
            "rank 0 cannot serve at %s: the port is in use (another job?); choose "
            "another one in %s",
            params->address, params->port_setting);
    if (listening->error == EADDRNOTAVAIL)
        return err_set(
            err, TRYST_E_BOOTSTRAP,
            "rank 0 cannot serve at %s: not an address of this machine; start "
            "rank 0 there, or name the interface to listen on in TRYST_NET if the "
            "address is forwarded to this machine",
            params->address);
    return err_set(err, TRYST_E_BOOTSTRAP, "rank 0 cannot serve at %s: %s",
                   params->address, err_reason(listening->error));
}

/* Listen at each address of the name, and at those of the chosen interfaces where that
 * is needed. */
static tryst_status addresses_add(struct listening *listening, struct err *err)
{
    const struct bootstrap_listeners *listeners = &listening->listeners;
    const struct bootstrap_name *name = &listeners->name;
    const char *net = listeners->net;
    tryst_status status = TRYST_OK;
    for (struct addrinfo *at = name->found; at; at = at->ai_next)
        listening_add(listening, at->ai_addr, at->ai_addrlen);
    bool named_loopback = listeners->count > 0 && !listening->outside &&
                          !name->is_numeric && strcmp(name->host, "localhost") != 0;
    bool forwarded =
        listeners->count == 0 && listening->error == EADDRNOTAVAIL && net && *net;
    if (named_loopback || forwarded)
        status = chosen_add(listening, err);
    if (named_loopback && !(net && *net))
        status = TRYST_OK; /* loopback alone suffices */
    return status;
}

static tryst_status listening_start(struct listening *listening, struct err *err)
{
    tryst_status status = addresses_add(listening, err);
    if (status == TRYST_OK && listening->listeners.count == 0)
        return listening_refuse(listening, err);
    return status;
}

/* Return the time until which a try that failed is repeated; 0: it is not. A name may get
 * an address of this machine until the deadline. */
static uint64_t listening_until_ns(struct listening *listening, uint64_t now_ns)
{
    const struct bootstrap_wait *wait = listening->wait;
    uint64_t busy_ns = wait->timeout_ns / 4;
    if (listening->error == EADDRNOTAVAIL)
        return listening->listeners.name.is_numeric ? 0 : wait->deadline_ns;
    if (listening->error != EADDRINUSE)
        return 0;
    if (!listening->busy_until_ns)
        listening->busy_until_ns =
            now_ns + (busy_ns < LISTEN_BUSY_NS ? busy_ns : LISTEN_BUSY_NS);
    return listening->busy_until_ns;
}

/* Resolve the name, and listen. TRYST_AGAIN: a later try may succeed; `err` has the
 * sentence for the case that the time ends first. */
static tryst_status listening_try(struct listening *listening, struct err *err)
{
    const struct bootstrap_wait *wait = listening->wait;
    uint64_t now_ns = clock_now_ns(wait->clock), until_ns = wait->deadline_ns;
    tryst_status status =
        bootstrap_name_poll(&listening->listeners.name, wait, now_ns + LISTEN_NAME_NS);
    if (status == TRYST_AGAIN) {
        err_set(err, TRYST_E_BOOTSTRAP,
                "rank 0 cannot serve at %s: %s; check %s and the name service, or raise "
                "TRYST_BOOTSTRAP_TIMEOUT",
                listening->params->address, listening->listeners.name.why,
                listening->params->address_setting);
    } else if (status == TRYST_OK) {
        listening->outside = false;
        listening->error = 0;
        status = listening_start(listening, err);
        if (status == TRYST_OK)
            return status;
        listeners_drop(&listening->listeners);
        until_ns = listening_until_ns(listening, now_ns);
        if (status == TRYST_E_BOOTSTRAP && until_ns)
            status = TRYST_AGAIN;
    }
    if (status == TRYST_AGAIN && clock_now_ns(wait->clock) >= until_ns)
        return TRYST_E_BOOTSTRAP;
    return status;
}

static tryst_status listening_repeat(struct listening *listening, struct err *err)
{
    const struct bootstrap_wait *wait = listening->wait;
    bool warned = false;
    for (;;) {
        tryst_status status = listening_try(listening, err);
        if (status == TRYST_AGAIN) {
            if (!warned && bootstrap_wait_is_long(wait)) {
                bootstrap_wait_warn(wait, listening->params->log, err->text);
                warned = true;
            }
            status = bootstrap_wait_fd(wait, -1, 0,
                                       clock_now_ns(wait->clock) + LISTEN_PAUSE_NS);
            if (status == TRYST_E_TIMEOUT)
                continue;
        }
        if (status == TRYST_E_CANCELED)
            return err_set(err, status, "the bootstrap of rank 0 was cancelled");
        return status;
    }
}

tryst_status bootstrap_listen(const struct bootstrap_params *params,
                              const struct bootstrap_wait *wait, struct err *err,
                              struct bootstrap_listeners *listeners_p)
{
    struct listening listening = {
        .params = params, .wait = wait, .listeners.net = params->bind_interface};
    struct err why = ERR_INIT;
    tryst_status status =
        bootstrap_name_open(params->address, err, &listening.listeners.name);
    if (status != TRYST_OK)
        return status;
    status = listening_repeat(&listening, &why);
    if (status != TRYST_OK) {
        bootstrap_listeners_close(&listening.listeners);
        return err_set(err, status, "%s", why.text);
    }
    *listeners_p = listening.listeners;
    return status;
}

void bootstrap_listeners_renew(struct bootstrap_listeners *listeners,
                               const struct bootstrap_wait *wait)
{
    struct listening listening = {.wait = wait, .listeners = *listeners};
    struct bootstrap_name *name = &listening.listeners.name;
    if (!name->port || name->is_numeric)
        return;
    (void)bootstrap_name_poll(name, wait, 0);
    (void)addresses_add(&listening, NULL);
    *listeners = listening.listeners;
}

void bootstrap_listeners_close(struct bootstrap_listeners *listeners)
{
    listeners_drop(listeners);
    bootstrap_name_close(&listeners->name);
}

/* ---- at an address that Tryst chooses ---------------------------------------------- */

/* Choose the address to listen at: loopback, or, of the interfaces that `net` or the
 * default chooses, that of the best default route. */
static tryst_status here_choose(bool loopback, const char *net, struct err *err,
                                struct sockaddr_storage *at_p)
{
    struct netif_list *selected = NULL, *rails = NULL;
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(at_p, 0, sizeof *at_p);
    memcpy(at_p, &v4, sizeof v4);
    if (loopback)
        return TRYST_OK;
    tryst_status status = netif_choose(net, err, &selected);
    if (status == TRYST_OK)
        status = netif_rails(selected, err, &rails);
    if (status == TRYST_OK && rails->count)
        *at_p = rails->items[0].address;
    netif_list_close(rails);
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
    tcp_path_segments_bound(fd);
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
