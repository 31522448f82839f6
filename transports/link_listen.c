/* SPDX-License-Identifier: Apache-2.0 */
/* Listening for links: an abstract Unix socket always, TCP where an address is given.
 *
 * One idea: a connection is cheap until it has spoken. It stands in a bounded list,
 * oldest first, that it leaves with its first message; whoever stays too long, or is the
 * oldest when the list is full, is dropped. Invariant: at most `pending_max` accepted
 * links have not spoken. A Unix peer of another user never becomes a link. Callers:
 * rendezvous. */
#include "link_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"

enum {
    ACCEPTS_MAX = 16, /* per poller call */
    NAME_TRIES = 8    /* random names; one collision has a chance of 2^-64 */
};

/* How long an accepted connection may stay silent. */
#define SPEAK_WITHIN_NS (5 * NS_PER_S)
/* Until the layer above says better (link_user_timeout_set): peer_timeout's default. */
#define ACCEPTED_TIMEOUT_NS (15 * NS_PER_S)
#define LOG_EVERY_NS        (10 * NS_PER_S)

struct link_listener {
    struct poller_source unix_source, tcp_source; /* fd -1: none */
    struct poller *poller;
    const struct log *log;
    void (*accepted)(void *arg, struct link *link);
    void *arg;
    struct list pending; /* links that have not spoken, oldest first */
    unsigned pending_count, pending_max;
    int spare_fd; /* given up for a moment to refuse a connection when descriptors run out
                   */
    struct link_listener_counters counters;
    struct log_limit foreign_limit, silent_limit, failed_limit;
};

/* ---- the list of those that have not spoken ---- */

void link_spoke(struct link *link)
{
    if (!link->listener)
        return;
    list_remove(&link->pending);
    link->listener->pending_count--;
    link->listener = NULL;
}

static void pending_drop(struct link_listener *listener, const char *why)
{
    struct link *link =
        container_of(list_first(&listener->pending), struct link, pending);
    listener->counters.silent++;
    LOG_WARN_LIMITED(listener->log, &listener->silent_limit, LOG_EVERY_NS,
                     "dropped a connection that %s", why);
    link_spoke(link);
    link_break(link, TRYST_E_PROTOCOL, "dropped: it %s", why);
}

void link_listener_tick(struct link_listener *listener, uint64_t now_ns)
{
    while (!list_empty(&listener->pending)) {
        struct list_node *oldest = list_first(&listener->pending);
        if (now_ns <
            container_of(oldest, struct link, pending)->accepted_ns + SPEAK_WITHIN_NS)
            return;
        pending_drop(listener, "said nothing for 5 s");
    }
}

/* ---- accepting ---- */

static void accept_link(struct link_listener *listener, int fd, bool is_unix, int32_t pid)
{
    struct link *link =
        link_make(listener->poller, listener->log, fd, is_unix, LINK_OPEN);
    if (!link || link_watch(link) != TRYST_OK) {
        LOG_WARN_LIMITED(listener->log, &listener->failed_limit, LOG_EVERY_NS,
                         "no memory to accept a connection; refused it");
        listener->counters.failed++;
        mem_free(link);
        close(fd);
        return;
    }
    if (listener->pending_count == listener->pending_max)
        pending_drop(listener, "said nothing while others waited");
    link->peer_pid = pid;
    link->accepted_ns = clock_monotonic_ns();
    link->listener = listener;
    list_push_back(&listener->pending, &link->pending);
    listener->pending_count++;
    listener->counters.accepted++;
    link->inside = true;
    listener->accepted(listener->arg, link);
    link->inside = false;
    assert(link->closed || link->events); /* the callee sets events, or closes it */
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
                         "refused a connection of another user's process");
        close(fd);
        return;
    }
    accept_link(listener, fd, is_unix, pid);
}

/* Without a descriptor for it the connection would stay in the kernel's queue, and epoll would
 * report it for ever: take it with the spare one, and refuse it. False when there is none left
 * to refuse (accept says EMFILE before it looks). */
static bool accept_refuse(struct link_listener *listener, int listen_fd)
{
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        close(fd);
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    listener->counters.failed++;
    LOG_WARN_LIMITED(listener->log, &listener->failed_limit, LOG_EVERY_NS,
                     "refused a connection: no descriptors left (raise the limit of open "
                     "files)");
    return true;
}

static void accept_some(struct link_listener *listener, int listen_fd, bool is_unix)
{
    link_listener_tick(listener, clock_monotonic_ns());
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
        bool gone = fd < 0 && (errno == ECONNABORTED || errno == EINTR);
        if (fd >= 0)
            accept_fd(listener, fd, is_unix);
        else if (!gone && !(full && accept_refuse(listener, listen_fd)))
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
    accept_some(container_of(source, struct link_listener, tcp_source), source->fd,
                false);
}

/* ---- opening and closing ---- */

static int unix_bind(int fd, uint64_t *id_p)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        uint64_t id;
        if (random_secret(&id, sizeof id) != TRYST_OK)
            return -1;
        int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                              "tryst-%016llx", (unsigned long long)id);
        size_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length;
        if (bind(fd, (struct sockaddr *)&address, (socklen_t)bytes) == 0) {
            *id_p = id;
            return 0;
        }
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

/* A listening socket in `source`, watched; -1 and errno when something fails. */
static int source_listen(struct link_listener *listener, struct poller_source *source)
{
    source->events = EPOLLIN;
    if (listen(source->fd, SOMAXCONN) != 0)
        return -1;
    return poller_add(listener->poller, source) == TRYST_OK ? 0 : -1;
}

static int unix_listen(struct link_listener *listener, struct link_address *address)
{
    struct poller_source *source = &listener->unix_source;
    source->fn = unix_ready;
    source->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (source->fd < 0 || unix_bind(source->fd, &address->listener_id) != 0)
        return -1;
    return source_listen(listener, source);
}

static int tcp_address_read(int fd, struct link_address *address)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } bound = {.in6 = {0}};
    socklen_t bytes = sizeof bound;
    if (getsockname(fd, &bound.any, &bytes) != 0)
        return -1;
    if (bound.any.sa_family == AF_INET6) {
        address->family = 6;
        address->port = ntohs(bound.in6.sin6_port);
        address->scope = bound.in6.sin6_scope_id;
        memcpy(address->ip, &bound.in6.sin6_addr, 16);
    } else {
        address->family = 4;
        address->port = ntohs(bound.in.sin_port);
        memcpy(address->ip, &bound.in.sin_addr, 4);
    }
    return 0;
}

static int tcp_listen(struct link_listener *listener, const struct sockaddr *at,
                      struct link_address *address)
{
    struct poller_source *source = &listener->tcp_source;
    socklen_t bytes = at->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                : sizeof(struct sockaddr_in);
    source->fn = tcp_ready;
    source->fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (source->fd < 0 || bind(source->fd, at, bytes) != 0 ||
        tcp_address_read(source->fd, address) != 0)
        return -1;
    return source_listen(listener, source);
}

tryst_status link_listen(struct poller *poller, const struct log *log,
                         const struct sockaddr *tcp_address, unsigned pending_max,
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
    listener->unix_source.fd = listener->tcp_source.fd = -1;
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    list_init(&listener->pending);
    if (unix_listen(listener, &address) != 0 ||
        (tcp_address && tcp_listen(listener, tcp_address, &address) != 0)) {
        LOG_ERROR(log, "cannot listen for the links of other ranks: %s", strerror(errno));
        link_listener_close(listener);
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

void link_listener_close(struct link_listener *listener)
{
    if (!listener)
        return;
    list_for_each_safe (&listener->pending, node, after)
        link_spoke(container_of(node, struct link, pending));
    source_close(listener, &listener->tcp_source);
    source_close(listener, &listener->unix_source);
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
    const int fds[] = {listener->unix_source.fd, listener->tcp_source.fd,
                       listener->spare_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}
