/* SPDX-License-Identifier: Apache-2.0 */
/* Listening for links: an abstract Unix socket always, TCP where an address is given.
 *
 * One idea: a connection is cheap until its first message. Until then it is in a bounded
 * list, oldest first. A connection that stays in the list too long, or is the oldest when
 * the list is full, is dropped. Invariant: at most `pending_max` accepted links have sent
 * no message. A Unix peer of another user never becomes a link. */
#include "transports/link/link_listen.h"

#include "link_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/net/netif.h"
#include "core/net/tcp_path.h"
#include "core/os/clock.h"
#include "core/os/fd.h"
#include "core/os/foreign_fd.h"
#include "core/os/random.h"

enum {
    ACCEPTS_MAX = 16, /* per poller call */
    NAME_TRIES = 8,   /* random names; a collision has a chance of 2^-64 */
    /* ports that are free at the first address, but maybe not at the others */
    PORT_TRIES = 16
};

/* Length of the kernel's queue: as long as the kernel allows (net.core.somaxconn). While
 * a rank computes, all ranks that connect to it wait there. */
#define QUEUE_MAX INT_MAX
/* How long an accepted connection may send nothing. */
#define FIRST_MESSAGE_NS (5 * NS_PER_S)
/* User timeout until the layer above sets one (link_user_timeout_set): peer_timeout's
 * default. */
#define ACCEPTED_TIMEOUT_NS (15 * NS_PER_S)
#define LOG_EVERY_NS        (10 * NS_PER_S)

struct tcp_listener {
    struct poller_source source;
    struct link_listener *owner;
};

struct link_listener {
    struct poller_source unix_source; /* fd -1: not open */
    struct tcp_listener tcp[LINK_TCP_MAX];
    unsigned tcp_count;
    struct poller *poller;
    const struct log *log;
    void (*accepted)(void *arg, struct link *link);
    void *arg;
    struct link_silent silent;
    unsigned pending_max;
    /* closed for a moment to refuse a connection when descriptors run out */
    int spare_fd;
    struct link_listener_counters counters;
    struct log_limit foreign_limit, silent_limit, failed_limit;
};

/* ---- the list of links that have sent nothing ---- */

static void pending_drop(struct link_listener *listener, const char *why)
{
    struct link *link =
        container_of(list_first(&listener->silent.list), struct link, pending);
    char peer[LINK_PEER_TEXT_BYTES];
    link_peer_text(link, peer);
    listener->counters.silent++;
    LOG_WARN_LIMITED(listener->log, &listener->silent_limit, LOG_EVERY_NS,
                     "dropped a connection from %s, which %s", peer, why);
    link_pending_remove(link);
    link_break(link, TRYST_E_TIMEOUT, "dropped: the peer %s", why);
    /* a message that comes now is too late, and is not read */
    link->ended = true;
}

void link_listener_tick(struct link_listener *listener, uint64_t now_ns)
{
    while (!list_empty(&listener->silent.list)) {
        struct list_node *oldest = list_first(&listener->silent.list);
        if (now_ns <
            container_of(oldest, struct link, pending)->accepted_ns + FIRST_MESSAGE_NS)
            return;
        pending_drop(listener, "sent nothing for 5 s");
    }
}

/* ---- accepting ---- */

static void accepted_close(int fd, bool is_unix)
{
    if (is_unix)
        link_unix_close(fd);
    else
        close(fd);
}

static void accept_link(struct link_listener *listener, int fd, bool is_unix, int32_t pid)
{
    struct link *link =
        link_make(listener->poller, listener->log, fd, is_unix, LINK_OPEN);
    if (!link || link_watch(link) != TRYST_OK) {
        LOG_WARN_LIMITED(listener->log, &listener->failed_limit, LOG_EVERY_NS,
                         "cannot accept a connection: out of memory; refused it");
        listener->counters.failed++;
        mem_free(link);
        accepted_close(fd, is_unix);
        return;
    }
    if (listener->silent.count == listener->pending_max)
        pending_drop(listener, "sent nothing while others waited");
    link->peer_pid = pid;
    link->stranger = is_unix;
    link->accepted_ns = clock_monotonic_ns();
    link->silent = &listener->silent;
    list_push_back(&listener->silent.list, &link->pending);
    listener->silent.count++;
    listener->counters.accepted++;
    link->inside = true;
    listener->accepted(listener->arg, link);
    link->inside = false;
    assert(link->closed || link->events); /* the callee sets events, or closes the link */
    if (link->closed)
        mem_free(link);
}

static void accept_fd(struct link_listener *listener, int fd, bool is_unix)
{
    int32_t pid = 0;
    if (!is_unix) {
        link_tcp_options(fd, ACCEPTED_TIMEOUT_NS);
    } else if (!link_peer_is_ours(fd, &pid)) {
        listener->counters.foreign++;
        LOG_WARN_LIMITED(listener->log, &listener->foreign_limit, LOG_EVERY_NS,
                         "refused a connection: the process belongs to another user");
        link_unix_close(fd);
        return;
    }
    accept_link(listener, fd, is_unix, pid);
}

/* Send the reason of a refusal. Over TCP the peer's bytes are read first: a close with
 * unread bytes resets the connection, and the peer would lose the reason. */
static void refusal_send(int fd, bool is_unix)
{
    const struct link_header header = {.flags = LINK_FLAG_REFUSED, .magic = LINK_MAGIC};
    if (!is_unix)
        link_unread_discard(fd);
    (void)send(fd, &header, sizeof header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Refuse a connection when descriptors run out. If it were not accepted, it would stay in
 * the kernel's queue, and epoll would report it again and again. So the spare descriptor
 * is closed, and the connection is accepted and closed. False: no connection was in the
 * queue (accept returns EMFILE before it checks the queue). */
static bool accept_refuse(struct link_listener *listener, int listen_fd, bool is_unix)
{
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    int fd = FD_MAKE(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd >= 0) {
        refusal_send(fd, is_unix);
        accepted_close(fd, is_unix);
    }
    listener->spare_fd = FD_MAKE(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return false;
    listener->counters.failed++;
    LOG_WARN_LIMITED(listener->log, &listener->failed_limit, LOG_EVERY_NS,
                     "refused a connection: no descriptors left; raise the limit of open "
                     "files (ulimit -n)");
    return true;
}

static void accept_some(struct link_listener *listener, int listen_fd, bool is_unix)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = FD_MAKE(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
        bool gone = fd < 0 && (errno == ECONNABORTED || errno == EINTR);
        if (fd >= 0)
            accept_fd(listener, fd, is_unix);
        else if (!gone && !(full && accept_refuse(listener, listen_fd, is_unix)))
            return;
    }
}

static void unix_ready(struct poller_source *source, uint32_t events)
{
    (void)events;
    accept_some(container_of(source, struct link_listener, unix_source), source->fd,
                true);
}

static void tcp_ready(struct poller_source *source, uint32_t events)
{
    (void)events;
    accept_some(container_of(source, struct tcp_listener, source)->owner, source->fd,
                false);
}

/* ---- opening and closing ---- */

static int unix_bind(int fd, uint64_t *id_p)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        struct sockaddr_un address;
        uint64_t id;
        if (random_secret(&id, sizeof id) != TRYST_OK)
            return -1;
        socklen_t bytes = link_unix_address(id, &address);
        if (bind(fd, (struct sockaddr *)&address, bytes) == 0) {
            *id_p = id;
            return 0;
        }
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

/* Listen on the socket in `source` and register it with the poller. 0, or -1 and
 * errno. */
static int source_listen(struct link_listener *listener, struct poller_source *source)
{
    source->events = EPOLLIN;
    if (listen(source->fd, QUEUE_MAX) != 0)
        return -1;
    return poller_add(listener->poller, source) == TRYST_OK ? 0 : -1;
}

static int unix_listen(struct link_listener *listener, struct link_address *address)
{
    struct poller_source *source = &listener->unix_source;
    source->fn = unix_ready;
    source->fd = FD_MAKE(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (source->fd < 0 || unix_bind(source->fd, &address->listener_id) != 0)
        return -1;
    return source_listen(listener, source);
}

static int tcp_address_read(int fd, struct link_address *address)
{
    union link_ip bound = {.in6 = {0}};
    socklen_t bytes = sizeof bound;
    if (getsockname(fd, &bound.any, &bytes) != 0)
        return -1;
    address->family = bound.any.sa_family == AF_INET6 ? 6 : 4;
    address->port = ntohs(bound.in.sin_port);
    if (address->family == 6) {
        address->scope = bound.in6.sin6_scope_id;
        memcpy(address->ip, &bound.in6.sin6_addr, 16);
    } else {
        memcpy(address->ip, &bound.in.sin_addr, 4);
    }
    return 0;
}

static void tcp_forget(struct link_listener *listener)
{
    int error = errno;
    while (listener->tcp_count)
        close(listener->tcp[--listener->tcp_count].source.fd);
    errno = error;
}

/* Open one more socket that listens at `from` and `port` (0: any). 0, or -1 and errno. */
static int tcp_add(struct link_listener *listener, const struct sockaddr_storage *from,
                   uint16_t port)
{
    int on = 1;
    union link_ip at = {.storage = *from};
    int fd =
        FD_MAKE(socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -1;
    struct tcp_listener *tcp = &listener->tcp[listener->tcp_count++];
    *tcp = (struct tcp_listener){.source = {.fn = tcp_ready, .fd = fd, .events = EPOLLIN},
                                 .owner = listener};
    at.in.sin_port = htons(port);
    /* A port of a range may still be in TIME_WAIT after an earlier job. */
    if (port)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    tcp_path_segments_bound(fd);
    if (bind(fd, &at.any, netif_address_bytes(&at.any)) != 0)
        return -1;
    return listen(fd, QUEUE_MAX);
}

/* Listen at every address on `port` (0: on a port that the kernel chooses at the first
 * address). 0, or -1 and errno. */
static int tcp_try(struct link_listener *listener, const struct link_tcp *tcp,
                   uint16_t port, struct link_address *address)
{
    for (unsigned i = 0; i < tcp->count; i++) {
        if (tcp_add(listener, &tcp->addresses[i], i ? address->port : port) != 0 ||
            (i == 0 && tcp_address_read(listener->tcp[0].source.fd, address) != 0)) {
            tcp_forget(listener);
            return -1;
        }
    }
    return 0;
}

static int tcp_bind(struct link_listener *listener, const struct link_tcp *tcp,
                    struct link_address *address)
{
    uint32_t ports = port_range_count(tcp->ports);
    uint32_t tries = ports ? ports : PORT_TRIES;
    /* a random start in the range, so that ranks of one host rarely collide */
    uint64_t start = 0;
    if (ports && random_secret(&start, sizeof start) != TRYST_OK)
        return -1;
    for (uint32_t i = 0; i < tries; i++) {
        uint64_t port = ports ? tcp->ports.first + (start % ports + i) % ports : 0;
        errno = EADDRINUSE;
        if (port && port == tcp->avoid)
            continue;
        if (tcp_try(listener, tcp, (uint16_t)port, address) == 0)
            return 0;
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

static int tcp_listen(struct link_listener *listener, const struct link_tcp *tcp,
                      struct link_address *address)
{
    assert(tcp->count <= LINK_TCP_MAX);
    if (tcp_bind(listener, tcp, address) != 0)
        return -1;
    for (unsigned i = 0; i < listener->tcp_count; i++)
        if (poller_add(listener->poller, &listener->tcp[i].source) != TRYST_OK)
            return -1;
    return 0;
}

tryst_status link_listen(struct poller *poller, const struct log *log,
                         const struct link_tcp *tcp, unsigned pending_max,
                         void (*accepted)(void *arg, struct link *link), void *arg,
                         struct link_listener **listener_p,
                         struct link_address *address_p)
{
    struct link_address address = {0};
    struct link_listener *listener = mem_zalloc(sizeof *listener);
    if (!listener)
        return TRYST_E_NOMEM;
    listener->poller = poller;
    listener->log = log;
    listener->accepted = accepted;
    listener->arg = arg;
    listener->pending_max = pending_max ? pending_max : 1;
    listener->unix_source.fd = -1;
    listener->spare_fd = FD_MAKE(open("/dev/null", O_RDONLY | O_CLOEXEC));
    list_init(&listener->silent.list);
    if (unix_listen(listener, &address) != 0 ||
        (tcp && tcp->count && tcp_listen(listener, tcp, &address) != 0)) {
        bool ports = errno == EADDRINUSE && tcp && tcp->ports.first;
        LOG_ERROR(log, "cannot listen for links of other ranks: %s%s", strerror(errno),
                  ports ? " (every port of TRYST_PORT_RANGE is taken; widen it)" : "");
        int error = errno;
        link_listener_close(listener);
        errno = error;
        return TRYST_E_SYSTEM;
    }
    *listener_p = listener;
    *address_p = address;
    return TRYST_OK;
}

static void source_close(struct link_listener *listener, struct poller_source *source)
{
    if (source->fd < 0)
        return;
    poller_remove(listener->poller, source);
    close(source->fd);
}

/* Close the Unix socket. Connections that wait there are accepted and closed first:
 * otherwise the kernel would close them, with the descriptors in their queues, and might
 * block. */
static void unix_listener_close(struct link_listener *listener)
{
    struct poller_source *source = &listener->unix_source;
    int fd;
    if (source->fd < 0)
        return;
    poller_remove(listener->poller, source);
    (void)shutdown(source->fd, SHUT_RDWR); /* no connection arrives any more */
    while ((fd = FD_MAKE(accept4(source->fd, NULL, NULL, SOCK_CLOEXEC))) >= 0)
        link_unix_close(fd);
    if (errno == EMFILE || errno == ENFILE)
        foreign_fd_close_later(source->fd);
    else
        close(source->fd);
}

void link_listener_close(struct link_listener *listener)
{
    if (!listener)
        return;
    list_for_each_safe (&listener->silent.list, node, after)
        link_pending_remove(container_of(node, struct link, pending));
    for (unsigned i = 0; i < listener->tcp_count; i++)
        source_close(listener, &listener->tcp[i].source);
    unix_listener_close(listener);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    mem_free(listener);
}

struct link_listener_counters link_listener_counters(const struct link_listener *listener)
{
    return listener->counters;
}

void link_listener_forked(struct link_listener *listener)
{
    const int fds[] = {listener->unix_source.fd, listener->spare_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    for (unsigned i = 0; i < listener->tcp_count; i++)
        close(listener->tcp[i].source.fd);
}
