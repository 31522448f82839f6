/* SPDX-License-Identifier: Apache-2.0 */
/* A link from the inside, shared by link.c (connecting, messages, closing) and
 * link_listen.c (accepting).
 *
 *                 connect_finish           link_break
 *   CONNECTING ──────────────────▶ OPEN ──────────────▶ BROKEN ──▶ events->closed,
 *       │                                                 ▲     once all that has arrived
 *       └─────────────────────────────────────────────────┘     is delivered
 *
 * Invariant: a BROKEN link's socket is shut down, so epoll reports it until `closed` was
 * called. So every ending, also one found inside link_send, is reported from a poller
 * function. */
#ifndef TRYST_TRANSPORTS_LINK_LINK_PRIVATE_H
#define TRYST_TRANSPORTS_LINK_LINK_PRIVATE_H

#include <netinet/in.h>
#include <sys/un.h>

#include "core/memory/list.h"
#include "transports/link/link.h"
#include "transports/link/link_wire.h"

/** Most bytes of one message with its header. */
#define LINK_RECORD_MAX (LINK_MESSAGE_MAX + (uint32_t)sizeof(struct link_header))
#define LINK_TEXT_MAX   160

enum link_state { LINK_CONNECTING, LINK_OPEN, LINK_BROKEN };

/** Bytes that the socket has not taken yet. `fd` (-1: none) is sent with the first of
 *  these bytes. */
struct link_chunk {
    struct list_node node; /**< in link->unsent */
    uint32_t begin, end;
    int fd;
    uint8_t bytes[LINK_RECORD_MAX];
};

struct link {
    struct poller_source source;
    struct poller *poller;
    const struct log *log;
    const struct link_events *events;
    void *arg;
    /** The listener's list of links that have sent nothing, if this link is in it; else
     *  NULL. */
    struct link_silent *silent;
    struct list_node pending; /**< in `silent` */
    uint64_t accepted_ns;
    struct list unsent;     /**< struct link_chunk */
    uint32_t backlog_bytes; /**< bytes in `unsent` */
    uint32_t partial_bytes; /**< bytes in `partial` */
    uint8_t *partial;       /**< beginning of a message that came in part, or NULL */
    int fds[2]; /**< received (or LINK_FD_LOST), with messages that are incomplete */
    uint8_t fds_count;
    uint8_t state; /**< enum link_state */
    bool is_unix;
    bool polled;    /**< registered with the poller */
    bool fd_lost;   /**< a descriptor was lost, and that has been logged */
    bool takes_fds; /**< link_fds_take was called */
    /** An accepted Unix connection before link_fds_take: descriptors stay in the socket's
     *  queue. */
    bool stranger;
    /** The link's poller function (or `accepted`) is on the stack: link_close leaves the
     *  free to it. */
    bool inside;
    bool ended;  /**< no more bytes are read */
    bool met;    /**< this side started the connection, and it was established */
    bool closed; /**< link_close was called */
    int32_t peer_pid;
    tryst_status status; /**< why it is BROKEN */
    char text[LINK_TEXT_MAX];
};

/** A listener's links that have sent nothing, oldest first. */
struct link_silent {
    struct list list;
    unsigned count;
};

static_assert(sizeof(struct link) <= 512, "an idle link costs one small struct");

/** Make a link over the socket `fd`, which the link owns on success. The socket is not
 *  polled before link_watch. NULL: out of memory. */
struct link *link_make(struct poller *poller, const struct log *log, int fd, bool is_unix,
                       enum link_state state);

/** Register the link with the poller. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status link_watch(struct link *link);

/** Break the link and drop the backlog, unless the link is broken already: the first
 *  reason counts. `closed` follows from the poller. */
void link_break(struct link *link, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** Remove the link from its listener's list of links that have sent nothing, if it is
 *  there. */
void link_pending_remove(struct link *link);

/** Set TCP's options: no delay, keep-alive and user timeout. */
void link_tcp_options(int fd, uint64_t user_timeout_ns);

/** Read and drop the bytes in the socket's queue, up to 256 KiB. */
void link_unread_discard(int fd);

/** Shut down and close a Unix socket. A thread closes it if descriptors are, or may be,
 *  in its queue. */
void link_unix_close(int fd);

/** Fill in the abstract address of that listener's Unix socket; returns the address's
 *  bytes. */
socklen_t link_unix_address(uint64_t listener_id, struct sockaddr_un *address_p);

/** A TCP socket's address. The port has the same offset in both families: `in.sin_port`
 *  serves. */
union link_ip {
    struct sockaddr_storage storage;
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};
static_assert(offsetof(struct sockaddr_in, sin_port) ==
                  offsetof(struct sockaddr_in6, sin6_port),
              "in.sin_port serves");

/** True if the peer of a Unix socket has this process's effective uid. *pid_p then
 *  receives the peer's pid, or 0 if this pid namespace does not have it. */
bool link_peer_is_ours(int fd, int32_t *pid_p);

#endif
