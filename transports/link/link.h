/* SPDX-License-Identifier: Apache-2.0 */
/** @file link.h
 *  Links: one small socket of ours between two ranks.
 *
 *  A link carries small typed messages in order (and descriptors, on a Unix socket), and
 *  its closing proves that the other *process* is gone (or left): fabrics do not prove
 *  that. Unix sockets (abstract, SO_PEERCRED checked) on one host, TCP with keep-alive
 *  and TCP_USER_TIMEOUT between hosts, so that silence means that the peer's kernel
 *  stopped answering. What the messages mean is the business of the layer above
 *  (handshake, heartbeat, leave, abort) and of the transports (connect messages).
 *
 *  Cost of an idle link: one descriptor and one struct; buffers only while bytes are in
 *  them.
 *  Domain: progress domain; events come from inside poller functions.
 */
#ifndef TRANSPORTS_LINK_H
#define TRANSPORTS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/os/poller.h"
#include "tryst/types.h"

/** Largest payload of one message. */
#define LINK_MESSAGE_MAX 4352u
/** Bytes that may wait for a peer that does not read, before the link counts as
 *  broken. */
#define LINK_BACKLOG_MAX (256u * 1024u)

/** In place of a descriptor that the peer sent and that this process had no room for. */
#define LINK_FD_LOST (-2)

struct link;
struct log;

struct link_events {
    /** A message. `data` (8-byte aligned) is valid during the call; the callee owns `fd`
     *  (-1: none was sent; LINK_FD_LOST: this process has no descriptor left for it, which
     *  has been logged). It may call link_close on this link. */
    void (*message)(void *arg, struct link *link, uint8_t type, const void *data,
                    size_t bytes, int fd);
    /** The socket closed or broke: no more messages will come (all that arrived were
     *  delivered before). `text` says how. The callee calls link_close, now or later.
     *  TRYST_E_PEER: the other process is gone, or left, or does not read; also when
     *  nobody listens any more at the address. TRYST_E_UNREACHABLE: no connection came
     *  about. TRYST_E_PROTOCOL: it sent what no link of ours sends. TRYST_E_TIMEOUT: it was
     *  accepted and never spoke.
     *  TRYST_E_NOMEM, TRYST_E_SYSTEM: this side could not go on, or the process there has no
     *  descriptor left for a connection. */
    void (*closed)(void *arg, struct link *link, tryst_status status, const char *text);
};

/** Where to reach a rank: both may be set; 32 bytes, travels in the bootstrap
 *  identity. */
struct link_address {
    uint64_t listener_id; /**< random: names the abstract Unix socket "\0tryst-<hex>" */
    uint8_t family;       /**< TCP: 4, 6 or 0 for none */
    uint8_t reserved;
    uint16_t port;  /**< host byte order */
    uint32_t scope; /**< IPv6 scope of nothing else than link-local addresses */
    uint8_t ip[16];
};

/** "10.0.0.2:4567" or "[fe80::1%eth0]:4567"; returns `text`. */
#define LINK_ADDRESS_TEXT_BYTES 80u
char *link_address_text(const struct link_address *address,
                        char text[LINK_ADDRESS_TEXT_BYTES]);

/** Connect without waiting; messages may be queued at once. `via_unix`: the peer is said
 *  to be on this host. A refused or unreachable address ends in events->closed.
 *  TRYST_AGAIN: the Unix listener's queue is full; try again a little later. TRYST_E_NOMEM,
 *  TRYST_E_SYSTEM: no link was made. */
tryst_status link_connect(struct poller *poller, const struct log *log,
                          const struct link_address *address, bool via_unix,
                          uint64_t user_timeout_ns, const struct link_events *events,
                          void *arg, struct link **link_p);

void link_events_set(struct link *link, const struct link_events *events, void *arg);

/** TCP: give the peer's kernel up after this much silence (TRYST_PEER_TIMEOUT). An
 *  accepted link has the setting's default until then. */
void link_user_timeout_set(struct link *link, uint64_t user_timeout_ns);

/** Queue one message of at most LINK_MESSAGE_MAX bytes; fd >= 0 sends a copy of that
 *  descriptor (Unix only, else TRYST_E_UNSUPPORTED); the caller keeps its own. Both are
 *  the caller's again on return. TRYST_OK, TRYST_E_PEER (broken or over LINK_BACKLOG_MAX;
 *  `closed` follows), TRYST_E_NOMEM, TRYST_E_SYSTEM (no descriptor left to keep `fd` by, or
 *  the kernel holds as many of this user's descriptors in sockets as a process may have
 *  open): nothing was queued. */
tryst_status link_send(struct link *link, uint8_t type, const void *data, size_t bytes,
                       int fd);

/** Pid of the peer by SO_PEERCRED, 0 where the kernel cannot tell (TCP, other
 *  namespace). */
int32_t link_peer_pid(const struct link *link);
bool link_is_unix(const struct link *link);
/** A link of ours that was connecting: whether the connection came about, and what closed it later
 *  was the process that listens there. */
bool link_has_met(const struct link *link);
/** True if the kernel has all that was sent on this link, and delivers it whatever this process does. */
bool link_is_flushed(const struct link *link);
/** Who is at the other end, for a log line: "pid 12" or "10.0.0.2 port 4567". */
#define LINK_PEER_TEXT_BYTES 64u
void link_peer_text(const struct link *link, char text[LINK_PEER_TEXT_BYTES]);

/** Close. What is queued (link_is_flushed) is sent if the socket takes it at once, for which a Unix socket gets
 *  more room than usual. No event follows. */
void link_close(struct link *link);

/** In a forked child: close the descriptors and touch nothing else (async-signal-safe). The
 *  objects stay as they are and are never used again. */
void link_forked(struct link *link);

#endif
