/* SPDX-License-Identifier: Apache-2.0 */
/* A link: one socket between two ranks that carries small typed messages.
 *
 * One idea: the socket is the queue. A message goes straight into the socket, and from
 * the receiver's stack buffer straight to the callee. Memory is allocated only for
 * bytes that the socket does not take, and for the tail of a message that came in
 * part. Invariant: messages are delivered whole and in order, each descriptor with its
 * own message, and all that arrived before `closed`, also from a peer that was killed.
 *
 * A descriptor is sent with the first byte of its message. The kernel ends a read
 * behind the piece that carries descriptors, so at most one is held for an incomplete
 * message.
 *
 * A descriptor's close may block, also one that the kernel makes itself: for descriptors
 * that a read has no room for, and for those in the queue of a socket that is closed. So
 * reads have room for all descriptors of a message, an accepted connection is peeked at
 * until its peer is known (descriptors are then left in the queue), and a Unix socket
 * with descriptors in its queue is closed by a thread (core/os/foreign_fd.h). */
#include "link_private.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
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

enum {
    READ_BYTES = 16 * 1024, /* per read, on the stack: a dozen connect messages */
    READS_MAX = 16, /* per poller call, so that one peer does not starve the others */
    DRAIN_READS_MAX = 64, /* from a peer that keeps sending on a broken link: 1 MiB */
    FDS_MAX = 253         /* of one message: the kernel's limit (SCM_MAX_FD) */
};

static void link_ready(struct poller_source *source, uint32_t events);
static void link_flush(struct link *link);

struct link *link_make(struct poller *poller, const struct log *log, int fd, bool is_unix,
                       enum link_state state)
{
    struct link *link = mem_zalloc(sizeof *link);
    if (!link)
        return NULL;
    link->source = (struct poller_source){.fd = fd, .fn = link_ready};
    link->source.events = state == LINK_CONNECTING ? EPOLLIN | EPOLLOUT : EPOLLIN;
    link->poller = poller;
    link->log = log;
    link->is_unix = is_unix;
    link->state = (uint8_t)state;
    list_init(&link->unsent);
    return link;
}

tryst_status link_watch(struct link *link)
{
    tryst_status status = poller_add(link->poller, &link->source);
    link->polled = status == TRYST_OK;
    return status;
}

static void link_unwatch(struct link *link)
{
    if (link->polled)
        poller_remove(link->poller, &link->source);
    link->polled = false;
}

void link_events_set(struct link *link, const struct link_events *events, void *arg)
{
    link->events = events;
    link->arg = arg;
}

int32_t link_peer_pid(const struct link *link)
{
    return link->peer_pid;
}

bool link_is_unix(const struct link *link)
{
    return link->is_unix;
}

bool link_own_address(const struct link *link, struct link_address *address_p)
{
    union link_ip local = {.in6 = {0}};
    socklen_t bytes = sizeof local;
    if (link->is_unix || link->state != LINK_OPEN ||
        getsockname(link->source.fd, &local.any, &bytes) != 0)
        return false;
    *address_p = (struct link_address){.family = local.any.sa_family == AF_INET6 ? 6 : 4};
    if (address_p->family == 6)
        memcpy(address_p->ip, &local.in6.sin6_addr, 16);
    else
        memcpy(address_p->ip, &local.in.sin_addr, 4);
    return true;
}

bool link_has_met(const struct link *link)
{
    return link->met;
}

bool link_is_decided(const struct link *link)
{
    struct pollfd socket = {.fd = link->source.fd, .events = POLLOUT};
    return link->state != LINK_CONNECTING || poll(&socket, 1, 0) > 0;
}

bool link_is_flushed(const struct link *link)
{
    return link->state == LINK_BROKEN || list_empty(&link->unsent);
}

bool link_loss_find(const struct link *link, struct tcp_loss *loss_p)
{
    return !link->is_unix && link->state == LINK_OPEN &&
           tcp_loss_find(link->source.fd, loss_p);
}

void link_peer_text(const struct link *link, char text[LINK_PEER_TEXT_BYTES])
{
    union link_ip peer = {.in6 = {0}};
    char ip[NETIF_TEXT_BYTES];
    socklen_t bytes = sizeof peer;
    if (link->is_unix) {
        (void)snprintf(text, LINK_PEER_TEXT_BYTES, "pid %d", link->peer_pid);
        return;
    }
    (void)getpeername(link->source.fd, &peer.any, &bytes);
    (void)snprintf(text, LINK_PEER_TEXT_BYTES, "%s port %u",
                   netif_address_text(&peer.any, ip), ntohs(peer.in.sin_port));
}

/* ---- breaking and closing ---- */

void link_pending_remove(struct link *link)
{
    if (!link->silent)
        return;
    list_remove(&link->pending);
    link->silent->count--;
    link->silent = NULL;
}

static void chunk_drop(struct link *link, struct link_chunk *chunk)
{
    link->backlog_bytes -= chunk->end - chunk->begin;
    list_remove(&chunk->node);
    if (chunk->fd >= 0)
        close(chunk->fd);
    mem_free(chunk);
}

static void unsent_drop(struct link *link)
{
    list_for_each_safe (&link->unsent, node, after)
        chunk_drop(link, container_of(node, struct link_chunk, node));
}

void link_break(struct link *link, tryst_status status, const char *fmt, ...)
{
    if (link->state == LINK_BROKEN)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(link->text, sizeof link->text, fmt, args);
    va_end(args);
    link->status = status;
    link->state = LINK_BROKEN;
    unsent_drop(link);
    (void)shutdown(link->source.fd, SHUT_RDWR);
}

static void break_system(struct link *link, tryst_status status, const char *doing,
                         int error)
{
    char reason[64];
    link_break(link, status, "%s: %s", doing, strerror_r(error, reason, sizeof reason));
}

static void received_drop(struct link *link)
{
    mem_free(link->partial);
    link->partial = NULL;
    link->partial_bytes = 0;
    for (int i = 0; i < link->fds_count; i++)
        foreign_fd_close(link->fds[i]);
    link->fds_count = 0;
}

/* Read unread bytes before a close: TCP resets a connection that closes with bytes
 * unread, and the peer then loses the last bytes sent to it. */
void link_unread_discard(int fd)
{
    char buffer[4096];
    for (int i = 0; i < DRAIN_READS_MAX; i++)
        if (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) <= 0)
            return;
}

/* Read from a Unix socket, except where the next bytes bring descriptors: those stay in
 * the queue, and the result is -1 with EPERM. */
static ssize_t plain_receive(int fd, void *data, size_t bytes)
{
    struct iovec iov = {data, bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_PEEK);
    if (got <= 0)
        return got;
    if (!(message.msg_flags & MSG_CTRUNC))
        return recv(fd, data, (size_t)got, MSG_DONTWAIT);
    errno = EPERM;
    return -1;
}

void link_unix_close(int fd)
{
    char buffer[4096];
    ssize_t got = 1;
    (void)shutdown(fd, SHUT_RDWR); /* nothing arrives any more */
    for (int i = 0; i < DRAIN_READS_MAX && got > 0; i++)
        got = plain_receive(fd, buffer, sizeof buffer);
    if (got > 0 || (got < 0 && errno == EPERM))
        foreign_fd_close_later(fd);
    else
        close(fd);
}

/* Flush the backlog before the close: it ends with LEAVE, and a close without LEAVE is a
 * death. The send buffer is full, so raise its limit first; not for TCP, where setting it
 * would shrink a buffer that the kernel has grown. */
static void last_words_send(struct link *link)
{
    int room = 4 * (int)LINK_BACKLOG_MAX;
    if (link->is_unix)
        (void)setsockopt(link->source.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    link_flush(link);
}

void link_close(struct link *link)
{
    assert(!link->closed);
    if (link->state == LINK_OPEN && !list_empty(&link->unsent))
        last_words_send(link);
    if (link->state == LINK_OPEN && !link->is_unix)
        link_unread_discard(link->source.fd);
    unsent_drop(link);
    received_drop(link);
    link_pending_remove(link);
    link_unwatch(link);
    if (link->is_unix)
        link_unix_close(link->source.fd);
    else
        close(link->source.fd);
    link->source.fd = -1;
    link->closed = true;
    if (!link->inside)
        mem_free(link);
}

/* ---- sending ---- */

static ssize_t socket_send(int fd, struct iovec *iov, size_t count, int pass_fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t sent;
    if (pass_fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
        *cmsg = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(cmsg), &pass_fd, sizeof pass_fd);
    }
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

/* Results of link_put besides the bytes taken. */
enum { PUT_BROKEN = -1, PUT_NO_FD = -2 };

/* Write to the socket. Returns the bytes taken, 0 when the socket is full, PUT_BROKEN
 * when the link broke. PUT_NO_FD: too many of this user's descriptors are in sockets
 * already; there is room once they have been read. */
static ssize_t link_put(struct link *link, struct iovec *iov, size_t count, int pass_fd)
{
    ssize_t sent = socket_send(link->source.fd, iov, count, pass_fd);
    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == ENOBUFS)
        return 0;
    if (errno == ETOOMANYREFS)
        return PUT_NO_FD;
    break_system(link, TRYST_E_PEER, "the connection broke while sending", errno);
    return PUT_BROKEN;
}

static void link_flush(struct link *link)
{
    struct list_node *node;
    while ((node = list_first(&link->unsent)) != NULL) {
        struct link_chunk *chunk = container_of(node, struct link_chunk, node);
        struct iovec iov = {chunk->bytes + chunk->begin, chunk->end - chunk->begin};
        ssize_t sent = link_put(link, &iov, 1, chunk->fd);
        if (sent <= 0)
            return;
        if (chunk->fd >= 0)
            close(chunk->fd);
        chunk->fd = -1;
        chunk->begin += (uint32_t)sent;
        link->backlog_bytes -= (uint32_t)sent;
        if (chunk->begin == chunk->end)
            chunk_drop(link, chunk);
    }
    if (link->polled)
        (void)poller_modify(link->poller, &link->source, EPOLLIN);
}

/* Get the chunk for `bytes` more, with that descriptor (or -1), which must be first in
 * its chunk. */
static struct link_chunk *chunk_get(struct link *link, size_t bytes, int fd)
{
    struct link_chunk *chunk =
        container_of(link->unsent.head.prev, struct link_chunk, node);
    if (!list_empty(&link->unsent) && fd < 0 && sizeof chunk->bytes - chunk->end >= bytes)
        return chunk;
    chunk = mem_alloc(sizeof *chunk);
    if (!chunk)
        return NULL;
    list_node_init(&chunk->node);
    chunk->begin = chunk->end = 0;
    chunk->fd = fd;
    list_push_back(&link->unsent, &chunk->node);
    return chunk;
}

static void chunk_append(struct link *link, struct link_chunk *chunk, const void *data,
                         size_t bytes)
{
    if (bytes)
        memcpy(chunk->bytes + chunk->end, data, bytes);
    chunk->end += (uint32_t)bytes;
    link->backlog_bytes += (uint32_t)bytes;
}

/* Queue what the socket did not take: the header and payload beyond the first `sent`
 * bytes. */
static tryst_status link_queue(struct link *link, const struct link_header *header,
                               const void *data, size_t sent, int fd)
{
    size_t head_left = sent < sizeof *header ? sizeof *header - sent : 0;
    size_t skip = sent > sizeof *header ? sent - sizeof *header : 0;
    size_t left = head_left + header->bytes - skip;
    int pass_fd = -1;
    if (link->backlog_bytes + left > LINK_BACKLOG_MAX) {
        link_break(link, TRYST_E_PEER, "the peer does not read: its backlog is %u bytes",
                   link->backlog_bytes);
        return TRYST_E_PEER;
    }
    if (fd >= 0 && sent == 0 && (pass_fd = fd_copy(fd)) < 0)
        return TRYST_E_SYSTEM;
    struct link_chunk *chunk = chunk_get(link, left, pass_fd);
    if (!chunk) {
        if (pass_fd >= 0)
            close(pass_fd);
        if (sent == 0)
            return TRYST_E_NOMEM;
        link_break(link, TRYST_E_NOMEM,
                   "cannot queue the rest of a message: out of memory");
        return TRYST_E_PEER;
    }
    chunk_append(link, chunk, (const uint8_t *)header + sizeof *header - head_left,
                 head_left);
    chunk_append(link, chunk, (const uint8_t *)data + skip, header->bytes - skip);
    if (link->polled)
        (void)poller_modify(link->poller, &link->source, EPOLLIN | EPOLLOUT);
    return TRYST_OK;
}

tryst_status link_send(struct link *link, uint8_t type, const void *data, size_t bytes,
                       int fd)
{
    assert(!link->closed && bytes <= LINK_MESSAGE_MAX);
    struct link_header header = {.bytes = (uint32_t)bytes,
                                 .type = type,
                                 .flags = fd >= 0 ? LINK_FLAG_FD : 0,
                                 .magic = LINK_MAGIC};
    ssize_t sent = 0;
    if (fd >= 0 && !link->is_unix)
        return TRYST_E_UNSUPPORTED;
    if (link->state == LINK_BROKEN)
        return TRYST_E_PEER;
    if (link->state == LINK_OPEN && list_empty(&link->unsent)) {
        struct iovec iov[2] = {{&header, sizeof header},
                               {(void *)(uintptr_t)data, bytes}};
        sent = link_put(link, iov, bytes ? 2 : 1, fd);
        if (sent < 0)
            return sent == PUT_NO_FD ? TRYST_E_SYSTEM : TRYST_E_PEER;
        if ((size_t)sent == sizeof header + bytes)
            return TRYST_OK;
    }
    return link_queue(link, &header, data, (size_t)sent, fd);
}

/* ---- receiving ---- */

static void protocol_break(struct link *link, const char *what)
{
    link_break(link, TRYST_E_PROTOCOL, "the peer broke the link's protocol: %s", what);
    link->ended = true;
}

static void fd_queue(struct link *link, int fd)
{
    if (link->fds_count < sizeof link->fds / sizeof *link->fds) {
        link->fds[link->fds_count++] = fd;
        return;
    }
    foreign_fd_close(fd);
    protocol_break(link, "descriptors without messages");
}

/* Handle a descriptor that the kernel delivered and this process has no room for: its
 * message goes without. */
static void fd_lost(struct link *link)
{
    if (!link->fd_lost)
        LOG_WARN(link->log, "cannot receive a peer's descriptor: this process has no "
                            "descriptor left; raise the limit (ulimit -n)");
    link->fd_lost = true;
    fd_queue(link, LINK_FD_LOST);
}

/* Take the descriptors of one read; the kernel delivers those of one sendmsg at a
 * time. */
static void fds_queue(struct link *link, struct msghdr *message)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
         cmsg = CMSG_NXTHDR(message, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
            fd_queue(link, fd_move(fd));
        }
    }
    if (message->msg_flags & MSG_CTRUNC)
        fd_lost(link);
}

/* Read from an accepted connection before link_fds_take. */
static ssize_t stranger_receive(struct link *link, void *data, size_t bytes)
{
    ssize_t got = plain_receive(link->source.fd, data, bytes);
    if (got < 0 && errno == EPERM)
        protocol_break(link, "a descriptor from a peer that is not known yet");
    return got;
}

static ssize_t socket_receive(struct link *link, void *data, size_t bytes)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {data, bytes};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    if (link->stranger)
        return stranger_receive(link, data, bytes);
    unsigned held = link->is_unix ? fd_low_hold() : 0; /* TCP carries no descriptors */
    do
        got = recvmsg(link->source.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        fds_queue(link, &message);
    fd_low_release(held);
    return got;
}

static const char *header_fault(const struct link *link, const struct link_header *header)
{
    if (header->magic != LINK_MAGIC)
        return "a message with a wrong magic";
    if (header->bytes > LINK_MESSAGE_MAX)
        return "a message that is too long";
    if (header->flags & ~(LINK_FLAG_FD | LINK_FLAG_REFUSED))
        return "an unknown flag";
    if ((header->flags & LINK_FLAG_FD) && link->fds_count == 0)
        return "a message lacks its descriptor";
    if ((header->flags & LINK_FLAG_FD) && !link->takes_fds)
        return "a descriptor from a peer that is not known yet";
    return NULL;
}

static void message_deliver(struct link *link, const struct link_header *header,
                            const uint8_t *data)
{
    _Alignas(8) uint8_t aligned[LINK_MESSAGE_MAX];
    int fd = -1;
    if (header->flags & LINK_FLAG_FD) {
        fd = link->fds[0];
        link->fds[0] = link->fds[1];
        link->fds_count--;
    }
    if ((uintptr_t)data % 8) {
        memcpy(aligned, data, header->bytes);
        data = aligned;
    }
    link_pending_remove(link);
    link->events->message(link->arg, link, header->type, data, header->bytes, fd);
}

/* Deliver the whole messages in `data`; returns their bytes. */
static size_t messages_deliver(struct link *link, const uint8_t *data, size_t bytes)
{
    size_t used = 0;
    while (bytes - used >= sizeof(struct link_header) && !link->closed && !link->ended) {
        struct link_header header;
        memcpy(&header, data + used, sizeof header);
        const char *fault = header_fault(link, &header);
        if (fault) {
            protocol_break(link, fault);
            break;
        }
        if (header.flags & LINK_FLAG_REFUSED) {
            link_break(link, TRYST_E_SYSTEM,
                       "the peer's process has no descriptor left: raise its limit of "
                       "open files (ulimit -n)");
            link->ended = true;
            break;
        }
        if (bytes - used - sizeof header < header.bytes)
            break;
        used += sizeof header + header.bytes;
        message_deliver(link, &header, data + used - header.bytes);
    }
    return used;
}

/* Keep the rest of the data, the beginning of one message; at most one descriptor can
 * belong to it. */
static void partial_keep(struct link *link, const uint8_t *data, size_t bytes)
{
    assert(bytes < LINK_RECORD_MAX);
    link->partial_bytes = (uint32_t)bytes;
    if (link->fds_count > (bytes ? 1 : 0)) {
        protocol_break(link, "descriptors without messages");
        return;
    }
    if (bytes && !link->partial && !(link->partial = mem_alloc(LINK_RECORD_MAX))) {
        link_break(link, TRYST_E_NOMEM,
                   "cannot keep a message that came in part: out of memory");
        link->ended = true;
        return;
    }
    if (bytes) {
        memcpy(link->partial, data, bytes);
    } else {
        mem_free(link->partial);
        link->partial = NULL;
    }
}

/* Handle the end of a read that returned nothing. */
static void receive_end(struct link *link, ssize_t got, int error)
{
    if (got < 0 && error == EAGAIN && link->state != LINK_BROKEN)
        return;
    if (got < 0)
        break_system(link, TRYST_E_PEER, "the connection broke", error);
    else
        link_break(link, TRYST_E_PEER,
                   link->partial_bytes ? "the peer closed the connection inside a message"
                                       : "the peer closed the connection");
    link->ended = true;
}

static void link_receive(struct link *link)
{
    _Alignas(8) uint8_t buffer[LINK_RECORD_MAX + READ_BYTES];
    bool draining = link->state == LINK_BROKEN;
    int reads_max = draining ? DRAIN_READS_MAX : READS_MAX;
    for (int i = 0; i < reads_max && !link->closed && !link->ended; i++) {
        size_t have = link->partial_bytes;
        if (have)
            memcpy(buffer, link->partial, have);
        ssize_t got = socket_receive(link, buffer + have, READ_BYTES);
        if (got <= 0) {
            receive_end(link, got, errno);
            return;
        }
        size_t bytes = have + (size_t)got;
        size_t used = messages_deliver(link, buffer, bytes);
        if (!link->closed && !link->ended)
            partial_keep(link, buffer + used, bytes - used);
        /* most likely all; if not, epoll reports it again */
        if (got < READ_BYTES && link->state != LINK_BROKEN)
            return;
    }
    if (draining)
        link->ended = true;
}

void link_fds_take(struct link *link)
{
    link->takes_fds = true;
    link->stranger = false;
}

/* ---- connecting ---- */

/* True if a connection is to its own socket: TCP may draw the port of a listener that is
 * gone as the local port, and then connects to itself. */
static bool connected_to_self(int fd)
{
    struct sockaddr_storage local = {0}, remote = {0};
    socklen_t local_bytes = sizeof local, remote_bytes = sizeof remote;
    return getsockname(fd, (struct sockaddr *)&local, &local_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&remote, &remote_bytes) == 0 &&
           local_bytes == remote_bytes && memcmp(&local, &remote, local_bytes) == 0;
}

static void connect_failed(struct link *link, int error)
{
    bool nobody = error == ECONNREFUSED || error == ECONNRESET;
    break_system(link, nobody ? TRYST_E_PEER : TRYST_E_UNREACHABLE,
                 nobody && link->is_unix ? "no process listens at the address any more"
                                         : "cannot connect",
                 error);
}

static void connect_done(struct link *link)
{
    link->state = LINK_OPEN;
    link->met = true;
}

static void connect_finish(struct link *link)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(link->source.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0 && connected_to_self(link->source.fd))
        error = ECONNREFUSED;
    if (error)
        connect_failed(link, error);
    else
        connect_done(link);
}

bool link_peer_is_ours(int fd, int32_t *pid_p)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
        peer.uid != geteuid())
        return false;
    *pid_p = (int32_t)peer.pid;
    return true;
}

socklen_t link_unix_address(uint64_t listener_id, struct sockaddr_un *address_p)
{
    *address_p = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address_p->sun_path + 1, sizeof address_p->sun_path - 1,
                          "tryst-%016llx", (unsigned long long)listener_id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* False: the listener's queue is full. Such a connect does not go on by itself, unlike
 * TCP's. */
static bool unix_connect(struct link *link, uint64_t listener_id)
{
    struct sockaddr_un address;
    socklen_t bytes = link_unix_address(listener_id, &address);
    int error = connect(link->source.fd, (struct sockaddr *)&address, bytes) ? errno : 0;
    if (error == EAGAIN)
        return false;
    if (error)
        connect_failed(link, error);
    else if (!link_peer_is_ours(link->source.fd, &link->peer_pid))
        link_break(link, TRYST_E_PEER,
                   "a process of another user listens at the address");
    else
        connect_done(link);
    return true;
}

static void tcp_address_fill(const struct link_address *from, union link_ip *to)
{
    *to = (union link_ip){.in6 = {.sin6_scope_id = from->scope}};
    to->any.sa_family = from->family == 6 ? AF_INET6 : AF_INET;
    to->in.sin_port = htons(from->port);
    if (from->family == 6)
        memcpy(&to->in6.sin6_addr, from->ip, 16);
    else
        memcpy(&to->in.sin_addr, from->ip, 4);
}

char *link_address_text(const struct link_address *address,
                        char text[LINK_ADDRESS_TEXT_BYTES])
{
    union link_ip at;
    char ip[NETIF_TEXT_BYTES];
    tcp_address_fill(address, &at);
    (void)snprintf(text, LINK_ADDRESS_TEXT_BYTES,
                   address->family == 6 ? "[%s]:%u" : "%s:%u",
                   netif_address_text(&at.any, ip), address->port);
    return text;
}

/* Bind to the IP address `from`, port 0. The kernel chooses the port when it connects, so
 * that connections to different peers may have the same one. */
static bool tcp_bind(struct link *link, const struct link_address *from)
{
    union link_ip address;
    int on = 1;
    tcp_address_fill(from, &address);
    address.in.sin_port = 0;
    (void)setsockopt(link->source.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on,
                     sizeof on);
    return bind(link->source.fd, &address.any, netif_address_bytes(&address.any)) == 0;
}

static void tcp_connect(struct link *link, const struct link_address *to,
                        const struct link_address *from, uint64_t timeout_ns)
{
    union link_ip address;
    tcp_address_fill(to, &address);
    if (to->family != 4 && to->family != 6) {
        link_break(link, TRYST_E_UNREACHABLE, "the peer announced no TCP address");
        return;
    }
    link_tcp_options(link->source.fd, timeout_ns);
    tcp_path_segments_bound(link->source.fd);
    if (from && !tcp_bind(link, from))
        connect_failed(link, errno);
    else if (connect(link->source.fd, &address.any, netif_address_bytes(&address.any)) ==
             0)
        connect_finish(link);
    else if (errno != EINPROGRESS)
        connect_failed(link, errno);
}

static int seconds_clamp(uint64_t ns, int most)
{
    uint64_t seconds = ns / NS_PER_S;
    return seconds < 1 ? 1 : seconds > (uint64_t)most ? most : (int)seconds;
}

/* Give up a kernel that is silent for the timeout: the first probe after a third of
 * it, then one each sixth. The limits are the kernel's (MAX_TCP_KEEPIDLE,
 * MAX_TCP_KEEPCNT). */
void link_tcp_options(int fd, uint64_t user_timeout_ns)
{
    int on = 1;
    int idle_s = seconds_clamp(user_timeout_ns / 3, 32767);
    int interval_s = seconds_clamp(user_timeout_ns / 6, 32767);
    int total_s = seconds_clamp(user_timeout_ns, 86400);
    int count = (total_s - idle_s) / interval_s;
    unsigned timeout_ms = (unsigned)(user_timeout_ns / NS_PER_MS);
    count = count < 1 ? 1 : count > 127 ? 127 : count;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

void link_user_timeout_set(struct link *link, uint64_t user_timeout_ns)
{
    if (!link->is_unix)
        link_tcp_options(link->source.fd, user_timeout_ns);
}

tryst_status link_connect(struct poller *poller, const struct log *log,
                          const struct link_address *address,
                          const struct link_address *from, bool via_unix,
                          uint64_t user_timeout_ns, const struct link_events *events,
                          void *arg, struct link **link_p)
{
    int family = via_unix ? AF_UNIX : address->family == 6 ? AF_INET6 : AF_INET;
    int fd = FD_MAKE(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0) {
        LOG_ERROR(log, "cannot create a socket to connect to a peer: %s",
                  strerror(errno));
        return TRYST_E_SYSTEM;
    }
    struct link *link = link_make(poller, log, fd, via_unix, LINK_CONNECTING);
    if (!link) {
        close(fd);
        return TRYST_E_NOMEM;
    }
    link_events_set(link, events, arg);
    if (via_unix && !unix_connect(link, address->listener_id)) {
        link_close(link);
        return TRYST_AGAIN;
    }
    if (!via_unix)
        tcp_connect(link, address, from, user_timeout_ns);
    if (link->state == LINK_OPEN)
        link->source.events = EPOLLIN;
    if (link_watch(link) != TRYST_OK) {
        LOG_ERROR(log, "cannot poll a connection to a peer: %s", strerror(errno));
        link_close(link);
        return TRYST_E_SYSTEM;
    }
    *link_p = link;
    return TRYST_OK;
}

/* ---- the poller's call ---- */

static void link_ready(struct poller_source *source, uint32_t events)
{
    struct link *link = container_of(source, struct link, source);
    link->inside = true;
    if (link->state == LINK_CONNECTING)
        connect_finish(link);
    if (link->state == LINK_BROKEN || (events & ~(uint32_t)EPOLLOUT))
        link_receive(link);
    if (!link->closed && link->state == LINK_OPEN && (events & EPOLLOUT))
        link_flush(link);
    if (!link->closed && link->ended) {
        link_unwatch(link);
        link_pending_remove(link);
        link->events->closed(link->arg, link, link->status, link->text);
    }
    link->inside = false;
    if (link->closed)
        mem_free(link);
}

void link_forked(struct link *link)
{
    if (link->source.fd >= 0)
        close(link->source.fd);
    for (unsigned i = 0; i < link->fds_count; i++)
        if (link->fds[i] >= 0)
            close(link->fds[i]); /* the parent has it too: not the last close */
}
