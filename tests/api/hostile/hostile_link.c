/* SPDX-License-Identifier: Apache-2.0 */
/* The link messages of a hostile rank (hostile.h).
 *
 * Idea: the linker replaces sendmsg (--wrap), which only links call. A message that
 * begins with its header is taken apart, changed and sent; the rest of a message that a
 * socket took in part passes unchanged.
 * Invariant: the library's call returns what it would return without a change. A changed
 * message that the socket takes in part loses its end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"
#include "rendezvous/peer/messages.h"
#include "transports/link/link.h"
#include "transports/link/link_wire.h"

enum {
    BYTES_MAX = 2 * (LINK_MESSAGE_MAX + (int)sizeof(struct link_header)),
    HISTORY = 32,
    SENDS_MAX = 100 /* tries to send a message that the socket takes in part */
};

struct message {
    int socket; /* -1: none */
    ino_t inode;
    int fds[2]; /* descriptors that go along */
    unsigned fds_count;
    size_t bytes; /* header and payload */
    _Alignas(8) uint8_t data[BYTES_MAX];
};
static struct message history[HISTORY];
static unsigned history_count;
static struct message late = {.socket = -1};

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

static struct link_header *header_of(struct message *message)
{
    return (struct link_header *)(void *)message->data;
}

/* ---- sending ---------------------------------------------------------------------- */

static ssize_t bytes_send(const struct message *message, size_t from)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)(message->data + from), message->bytes - from};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t fds_bytes = message->fds_count * sizeof(int);
    if (fds_bytes && from == 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(fds_bytes);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
        *cmsg = (struct cmsghdr){CMSG_LEN(fds_bytes), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(cmsg), message->fds, fds_bytes);
    }
    return __real_sendmsg(message->socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Send the message. Return false, with errno, if the socket took none of it. */
static bool message_send(const struct message *message)
{
    ssize_t sent = bytes_send(message, 0);
    if (sent < 0)
        return false;
    size_t done = (size_t)sent;
    for (int i = 0; i < SENDS_MAX && done < message->bytes; i++) {
        struct pollfd writable = {.fd = message->socket, .events = POLLOUT};
        (void)poll(&writable, 1, 1);
        sent = bytes_send(message, done);
        done += sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* ---- changing --------------------------------------------------------------------- */

static size_t payload_bytes(const struct message *message)
{
    return message->bytes - sizeof(struct link_header);
}

static void payload_set(struct message *message, const struct message *from)
{
    uint8_t type = header_of((struct message *)from)->type;
    memcpy(message->data, from->data, from->bytes);
    message->bytes = from->bytes;
    header_of(message)->type = type;
    header_of(message)->flags = message->fds_count ? LINK_FLAG_FD : 0;
}

/* Change the payload's length, and mostly the header's with it. */
static void length_change(struct message *message, enum hostile_kind kind)
{
    size_t bytes = payload_bytes(message);
    if (kind == HOSTILE_TRUNCATE) {
        bytes = hostile_below(bytes + 1);
    } else {
        size_t more = hostile_below(LINK_MESSAGE_MAX - bytes + 1);
        for (size_t i = 0; i < more; i++)
            message->data[message->bytes + i] = (uint8_t)hostile_below(256);
        bytes += more;
    }
    message->bytes = sizeof(struct link_header) + bytes;
    if (hostile_below(4))
        header_of(message)->bytes = (uint32_t)bytes;
}

static void field_change(struct message *message)
{
    if (hostile_below(8) == 0)
        hostile_field_change(message->data, sizeof(struct link_header));
    else
        hostile_field_change(message->data + sizeof(struct link_header),
                             payload_bytes(message));
}

/* Return a memory file of any size, sealed as a region of shm is, or not. */
static int memfd_make(void)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0)
        (void)!ftruncate(fd, (off_t)hostile_below(1 << 20));
    if (fd >= 0 && hostile_below(2))
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    return fd;
}

static int descriptor_make(void)
{
    int ends[2] = {-1, -1};
    switch (hostile_below(5)) {
    case 0: return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        if (pipe2(ends, O_CLOEXEC) == 0)
            close(ends[1]);
        return ends[0];
    case 2:
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0)
            close(ends[1]);
        return ends[0];
    case 3: return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    default: return memfd_make();
    }
}

/* Send the message with other descriptors than it has. */
static bool descriptor_send(struct message *message)
{
    int made[2] = {-1, -1};
    message->fds_count = (unsigned)hostile_below(3);
    for (unsigned i = 0; i < message->fds_count; i++)
        message->fds[i] = made[i] = descriptor_make();
    if (message->fds_count && made[message->fds_count - 1] < 0)
        message->fds_count = 0;
    if (hostile_below(2))
        header_of(message)->flags = message->fds_count ? LINK_FLAG_FD : 0;
    bool sent = message_send(message);
    for (unsigned i = 0; i < 2; i++)
        if (made[i] >= 0)
            close(made[i]);
    return sent;
}

static const struct message *old_draw(void)
{
    unsigned known = history_count < HISTORY ? history_count : HISTORY;
    return &history[hostile_below(known)];
}

static void content_change(struct message *message, enum hostile_kind kind)
{
    switch (kind) {
    case HOSTILE_FIELD: field_change(message); break;
    case HOSTILE_FLAGS: header_of(message)->flags = (uint8_t)hostile_below(4); break;
    case HOSTILE_TYPE:
        header_of(message)->type = (uint8_t)hostile_below(LINK_EP_STARTING + 2);
        break;
    case HOSTILE_TRUNCATE:
    case HOSTILE_EXTEND: length_change(message, kind); break;
    case HOSTILE_SPLICE:
        payload_set(message, old_draw());
        field_change(message);
        break;
    default: hostile_bytes_change(kind, message->data, message->bytes); break;
    }
}

/* ---- the course of messages ------------------------------------------------------- */

/* Return the inode of a socket: descriptors are used again. */
static ino_t socket_inode(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

static void late_release(void)
{
    struct message message = late;
    late.socket = -1;
    if (socket_inode(message.socket) == message.inode)
        (void)message_send(&message);
    for (unsigned i = 0; i < message.fds_count; i++)
        close(message.fds[i]);
}

static void late_keep(const struct message *message)
{
    if (late.socket >= 0)
        late_release();
    late = *message;
    for (unsigned i = 0; i < late.fds_count; i++)
        late.fds[i] = dup(late.fds[i]);
}

static void history_add(const struct message *message)
{
    history[history_count++ % HISTORY] = *message;
}

static bool struck_send(struct message *message)
{
    enum hostile_kind kind =
        hostile_strike(HOSTILE_CONTENT | HOSTILE_COURSE | HOSTILE_BIT(DESCRIPTOR));
    struct message old;
    switch (kind) {
    case HOSTILE_NONE: return message_send(message);
    case HOSTILE_DROP: return true;
    case HOSTILE_LATE: late_keep(message); return true;
    case HOSTILE_REPEAT:
        for (uint64_t left = 1 + hostile_below(8); left; left--)
            if (!message_send(message))
                return false;
        return true;
    case HOSTILE_OLD:
        old = *message;
        old.fds_count = 0;
        payload_set(&old, old_draw());
        return message_send(message) && (message_send(&old) || true);
    case HOSTILE_STALL: hostile_stall(); return message_send(message);
    case HOSTILE_DESCRIPTOR: return descriptor_send(message);
    default: content_change(message, kind); return message_send(message);
    }
}

void hostile_link_make(void)
{
    if (!history_count)
        return;
    struct message made = *old_draw();
    if (socket_inode(made.socket) != made.inode)
        return; /* the link has ended */
    made.fds_count = 0;
    payload_set(&made, old_draw());
    if (hostile_below(2))
        header_of(&made)->type = (uint8_t)hostile_below(LINK_EP_STARTING + 2);
    for (uint64_t left = hostile_below(3); left; left--)
        field_change(&made);
    if (hostile_below(8) == 0)
        (void)descriptor_send(&made);
    else
        (void)message_send(&made);
}

/* ---- the library's call ----------------------------------------------------------- */

static void descriptors_take(const struct msghdr *from, struct message *message)
{
    const struct cmsghdr *cmsg = from->msg_controllen ? CMSG_FIRSTHDR(from) : NULL;
    if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
        return;
    message->fds_count = 1;
    memcpy(message->fds, CMSG_DATA(cmsg), sizeof(int));
}

/* Take the message apart. False: it does not begin with a link's header. */
static bool message_take(int fd, const struct msghdr *from, struct message *message)
{
    struct link_header header;
    message->socket = fd;
    message->inode = socket_inode(fd);
    message->fds_count = 0;
    message->bytes = 0;
    if (from->msg_iovlen < 1 || from->msg_iov[0].iov_len != sizeof header)
        return false;
    memcpy(&header, from->msg_iov[0].iov_base, sizeof header);
    if (header.magic != LINK_MAGIC)
        return false;
    for (size_t i = 0; i < from->msg_iovlen; i++) {
        const struct iovec *iov = &from->msg_iov[i];
        if (iov->iov_len)
            memcpy(message->data + message->bytes, iov->iov_base, iov->iov_len);
        message->bytes += iov->iov_len;
    }
    descriptors_take(from, message);
    return true;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *from, int flags)
{
    static struct message message;
    if (!hostile.on || !message_take(fd, from, &message))
        return __real_sendmsg(fd, from, flags);
    size_t bytes = message.bytes;
    history_add(&message);
    bool was_late = late.socket == fd;
    if (!struck_send(&message))
        return -1;
    if (was_late && late.socket == fd)
        late_release();
    return (ssize_t)bytes;
}
