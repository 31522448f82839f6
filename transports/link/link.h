/* SPDX-License-Identifier: Apache-2.0 */
/** @file link.h
 *  Links: one small socket between two ranks.
 *
 *  A link carries small typed messages in order (and descriptors, on a Unix socket). Its
 *  closing proves that the other *process* has died or left, which fabrics do not prove.
 *  On one host a link is a Unix socket (abstract, SO_PEERCRED checked), between hosts TCP
 *  with keep-alive and TCP_USER_TIMEOUT, so that silence means that the peer's kernel
 *  stopped answering. The layer above (handshake, heartbeat, leave, abort) and the
 *  transports (connect messages) define the messages.
 *
 *  An idle link costs one descriptor and one struct; buffers exist only while bytes are
 *  in them.
 *  Domain: progress domain; events come from inside poller functions.
 */
#ifndef TRYST_TRANSPORTS_LINK_LINK_H
#define TRYST_TRANSPORTS_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/os/poller.h"
#include "tryst/types.h"

/** Largest payload of one message. */
#define LINK_MESSAGE_MAX 4352u
/** Largest backlog in bytes. A peer that lets more queue up does not read, and its link
 *  breaks. */
#define LINK_BACKLOG_MAX (256u * 1024u)

/** Replaces a descriptor that the peer sent and this process could not receive. */
#define LINK_FD_LOST (-2)

struct link;
struct log;
struct tcp_loss;

struct link_events {
    /** A message arrived. `data` (8-byte aligned) is valid during the call; the callee
     *  owns `fd`, and closes it by foreign_fd_close (-1: none was sent; LINK_FD_LOST:
     *  this process has no descriptor left for it, which has been logged). The callee may
     *  call link_close on this link. */
    void (*message)(void *arg, struct link *link, uint8_t type, const void *data,
                    size_t bytes, int fd);
    /** The socket closed or broke. No more messages follow; all that arrived were
     *  delivered before. `text` has the reason. The callee calls link_close, now or
     *  later.
     *
     *  TRYST_E_PEER         the other process has died or left, does not read, or no
     *                       longer listens at the address
     *  TRYST_E_UNREACHABLE  the connection could not be established
     *  TRYST_E_PROTOCOL     the peer sent bytes that no link sends
     *  TRYST_E_TIMEOUT      the peer connected and sent nothing
     *  TRYST_E_NOMEM        this side ran out of memory in the middle of a message
     *  TRYST_E_SYSTEM       the process there has no descriptor left for a connection */
    void (*closed)(void *arg, struct link *link, tryst_status status, const char *text);
};

/** Where to connect to a rank: Unix and TCP may both be set. 32 bytes, sent in the
 *  bootstrap identity. */
struct link_address {
    uint64_t listener_id; /**< random: names the abstract Unix socket "\0tryst-<hex>" */
    uint8_t family;       /**< TCP: 4, 6 or 0 for none */
    uint8_t reserved;
    uint16_t port;  /**< host byte order */
    uint32_t scope; /**< IPv6 scope, of link-local addresses only */
    uint8_t ip[16];
};

/** Format an address: "10.0.0.2:4567" or "[fe80::1%eth0]:4567"; returns `text`. */
#define LINK_ADDRESS_TEXT_BYTES 80u
char *link_address_text(const struct link_address *address,
                        char text[LINK_ADDRESS_TEXT_BYTES]);

/** Connect without waiting; messages may be queued at once. `via_unix`: use the Unix
 *  socket, since the peer should be on this host. `from`: bind the TCP socket to this IP
 *  address here; NULL: the kernel's route chooses. A refused or unreachable address ends
 *  in events->closed. TRYST_AGAIN: the Unix listener's queue is full; try again a little
 *  later. TRYST_E_NOMEM, TRYST_E_SYSTEM: no link was made. */
tryst_status link_connect(struct poller *poller, const struct log *log,
                          const struct link_address *address,
                          const struct link_address *from, bool via_unix,
                          uint64_t user_timeout_ns, const struct link_events *events,
                          void *arg, struct link **link_p);

void link_events_set(struct link *link, const struct link_events *events, void *arg);

/** Take descriptors from here on, after the peer's HELLO. Before, a message with a
 *  descriptor breaks the link (TRYST_E_PROTOCOL). */
void link_fds_take(struct link *link);

/** Set how long a TCP peer's kernel may be silent before the link breaks
 *  (TRYST_PEER_TIMEOUT). Until this call an accepted link has that setting's default.
 *  Does nothing on a Unix link. */
void link_user_timeout_set(struct link *link, uint64_t user_timeout_ns);

/** Queue one message of at most LINK_MESSAGE_MAX bytes. fd >= 0: send a copy of that
 *  descriptor (Unix only, else TRYST_E_UNSUPPORTED). Data and descriptor are the caller's
 *  again on return.
 *
 *  TRYST_OK
 *  TRYST_E_PEER    the link is or has just been broken (the peer is gone, the backlog is
 *                  over LINK_BACKLOG_MAX, no memory for the rest); `closed` follows
 *  TRYST_E_NOMEM   nothing was queued
 *  TRYST_E_SYSTEM  nothing was queued: no descriptor left to keep `fd` by, or the kernel
 *                  holds as many of this user's descriptors in sockets as a process may
 *                  have open */
tryst_status link_send(struct link *link, uint8_t type, const void *data, size_t bytes,
                       int fd);

/** Get the pid of the peer by SO_PEERCRED; 0 where the kernel has none (TCP, other
 *  namespace). */
int32_t link_peer_pid(const struct link *link);
bool link_is_unix(const struct link *link);
/** Get the IP address of this end (family and `ip` alone). False: a Unix link, or the
 *  connection is not established. */
bool link_own_address(const struct link *link, struct link_address *address_p);
/** True if this process started the connection and it was established: if the link
 *  closes later, the process that listens there has closed it. False for an accepted
 *  link. */
bool link_has_met(const struct link *link);
/** True if connecting has succeeded or failed, which the poller may not have reported
 *  yet. */
bool link_is_decided(const struct link *link);
/** True if no bytes wait in this process: the kernel has all that was sent on this link.
 *  True also for a broken link, which has dropped its backlog. */
bool link_is_flushed(const struct link *link);
/** Find a connection of this process, between the hosts of the link, that loses large
 *  packets while those of the link arrive (core/net/tcp_path.h). Something must have
 *  been sent on the link each half second. False for a Unix link. */
bool link_loss_find(const struct link *link, struct tcp_loss *loss_p);
/** Describe the other end for a log line: "pid 12" or "10.0.0.2 port 4567". */
#define LINK_PEER_TEXT_BYTES 64u
void link_peer_text(const struct link *link, char text[LINK_PEER_TEXT_BYTES]);

/** Close the link. The backlog is sent as far as the socket takes it at once, for which a
 *  Unix socket gets a larger buffer; the rest is dropped. No event follows. */
void link_close(struct link *link);

/** In a forked child: close the descriptors and touch nothing else (async-signal-safe).
 *  The object stays unchanged and is never used again. */
void link_forked(struct link *link);

#endif
