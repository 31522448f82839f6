/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"

/* The kernel answers during the request's system call; 2 s allow for a machine that
 * swaps. */
#define ANSWER_SECONDS 2

tryst_status netlink_open(struct err *err, struct netlink *netlink_p)
{
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    struct netlink netlink = {.sequence = 0, .buffer = mem_alloc(NETLINK_BUFFER_BYTES)};
    if (!netlink.buffer)
        return err_set(err, TRYST_E_NOMEM, "cannot list the interfaces: out of memory");
    netlink.fd = FD_MAKE(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (netlink.fd < 0 ||
        setsockopt(netlink.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
        tryst_status status = err_set(err, TRYST_E_SYSTEM,
                                      "cannot list the interfaces: no netlink socket: %s",
                                      err_reason(errno));
        netlink_close(&netlink);
        return status;
    }
    *netlink_p = netlink;
    return TRYST_OK;
}

void netlink_close(struct netlink *netlink)
{
    if (netlink->fd >= 0)
        close(netlink->fd);
    mem_free(netlink->buffer);
    *netlink = (struct netlink){.fd = -1};
}

static bool error_get(const struct nlmsghdr *message, int *error_p)
{
    struct nlmsgerr answer;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof answer.error))
        return false;
    memcpy(&answer.error, NLMSG_DATA(message), sizeof answer.error);
    *error_p = -answer.error;
    return true;
}

enum netlink_end netlink_walk(const void *data, size_t bytes, uint32_t sequence,
                              netlink_fn fn, void *arg, tryst_status *status_p,
                              int *error_p)
{
    const struct nlmsghdr *message = data;
    bool interrupted = false, multi = false;
    *status_p = TRYST_OK;
    for (; bytes >= sizeof *message && message->nlmsg_len >= sizeof *message &&
           message->nlmsg_len <= bytes;
         message =
             (const void *)((const char *)message + NLMSG_ALIGN(message->nlmsg_len))) {
        size_t step = NLMSG_ALIGN(message->nlmsg_len);
        bytes = step < bytes ? bytes - step : 0;
        if (message->nlmsg_seq != sequence)
            continue;
        interrupted |= (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
        multi |= (message->nlmsg_flags & NLM_F_MULTI) != 0;
        if (message->nlmsg_type == NLMSG_DONE)
            return interrupted ? NETLINK_INTERRUPTED : NETLINK_DONE;
        if (message->nlmsg_type == NLMSG_ERROR) {
            if (!error_get(message, error_p))
                *error_p = EBADMSG;
            return *error_p ? NETLINK_ERROR : NETLINK_DONE;
        }
        *status_p = fn(arg, message);
        if (*status_p != TRYST_OK)
            return NETLINK_DONE;
        if (!multi)
            return NETLINK_DONE;
    }
    return interrupted ? NETLINK_INTERRUPTED : NETLINK_MORE;
}

static tryst_status request_send(struct netlink *netlink, struct nlmsghdr *request,
                                 struct err *err)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    request->nlmsg_seq = ++netlink->sequence;
    request->nlmsg_flags |= NLM_F_REQUEST;
    ssize_t sent = sendto(netlink->fd, request, request->nlmsg_len, 0,
                          (struct sockaddr *)&kernel, sizeof kernel);
    if (sent == (ssize_t)request->nlmsg_len)
        return TRYST_OK;
    return err_set(err, TRYST_E_SYSTEM,
                   "cannot list the interfaces: cannot send a netlink request: %s",
                   strerror(errno));
}

/* Receive one datagram of the kernel; return its size, or -1 with errno. Datagrams of
 * other senders are ignored. */
static ssize_t answer_read(struct netlink *netlink)
{
    for (;;) {
        struct sockaddr_nl from = {.nl_pid = 1};
        struct iovec room = {netlink->buffer, NETLINK_BUFFER_BYTES};
        struct msghdr header = {.msg_name = &from,
                                .msg_namelen = sizeof from,
                                .msg_iov = &room,
                                .msg_iovlen = 1};
        ssize_t got = recvmsg(netlink->fd, &header, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got >= 0 && (header.msg_flags & MSG_TRUNC)) {
            errno = EMSGSIZE;
            return -1;
        }
        if (got < 0 || from.nl_pid == 0)
            return got;
    }
}

tryst_status netlink_request(struct netlink *netlink, struct nlmsghdr *request,
                             netlink_fn fn, void *arg, struct err *err, int *error_p)
{
    *error_p = 0;
    tryst_status status = request_send(netlink, request, err);
    while (status == TRYST_OK) {
        ssize_t got = answer_read(netlink);
        if (got < 0)
            return err_set(err, TRYST_E_SYSTEM,
                           "cannot list the interfaces: no netlink answer: %s",
                           strerror(errno));
        switch (netlink_walk(netlink->buffer, (size_t)got, netlink->sequence, fn, arg,
                             &status, error_p)) {
        case NETLINK_MORE: break;
        case NETLINK_INTERRUPTED: *error_p = EINTR; return TRYST_E_SYSTEM;
        case NETLINK_ERROR: return TRYST_E_SYSTEM;
        case NETLINK_DONE: return status;
        }
    }
    return status;
}

bool netlink_attributes(const struct nlmsghdr *message, size_t fixed_bytes,
                        void (*fn)(void *arg, const struct rtattr *attribute), void *arg)
{
    size_t skip = NLMSG_LENGTH(0) + NLMSG_ALIGN(fixed_bytes);
    if (message->nlmsg_len < NLMSG_LENGTH(fixed_bytes))
        return false;
    const char *at = (const char *)message + skip;
    size_t left = message->nlmsg_len > skip ? message->nlmsg_len - skip : 0;
    while (left >= sizeof(struct rtattr)) {
        const struct rtattr *attribute = (const void *)at;
        if (attribute->rta_len < sizeof *attribute || attribute->rta_len > left)
            return false;
        fn(arg, attribute);
        size_t step = RTA_ALIGN(attribute->rta_len);
        at += step;
        left = step < left ? left - step : 0;
    }
    return true;
}

bool netlink_copy(const struct rtattr *attribute, void *value_p, size_t bytes)
{
    if (RTA_PAYLOAD(attribute) != bytes)
        return false;
    memcpy(value_p, RTA_DATA(attribute), bytes);
    return true;
}
