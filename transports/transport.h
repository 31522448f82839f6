/* SPDX-License-Identifier: Apache-2.0 */
/** @file transport.h
 *  The whole transport contract. After reading this file one can write a transport.
 *
 *  A transport provides two channels between two ranks:
 *
 *    frames  small, ordered, reliable messages. The layer above bounds how many are
 *            unread, so the receiver always has room; the sending side may answer AGAIN.
 *    bulk    a tagged, zero-copy message: its receive is always posted before its send
 *            starts. The receiver chooses the tag. Bulk and frames are not ordered with
 *            each other, and frames must never queue behind bulk. A receive may *borrow*:
 *            the bytes stay with the sender, and the receiver reads them there.
 *
 *  Objects:
 *
 *    rail      one worker of the transport on one network interface (or on none: self,
 *              shm)
 *    endpoint  one remote rank as seen from one rail; both ends hold one each
 *
 *  Endpoint states:
 *
 *      ep_open          events->ready(OK)                 ep_close
 *    ───────────▶ OPENING ───────────▶ READY ───────────────────────▶ CLOSING ──▶ (freed)
 *                    │                   │ events->failed                ▲ events->closed
 *                    │ events->ready(UNREACHABLE)                        │
 *                    ▼                   ▼            ep_close           │
 *                 REFUSED             BROKEN ────────────────────────────┘
 *
 *  Endpoints connect by small messages over a *link*, a socket between the two ranks that
 *  the layer above owns (link/link.h). An endpoint sends by events->connect_send (bytes,
 *  and at most one descriptor on a Unix link); the peer's endpoint receives by
 *  ep_message. Both ends open their endpoints for the same transports and rails in the
 *  same order. So the layer above can keep a message for an endpoint that is not open
 *  here yet, and deliver the message once the endpoint is open.
 *
 *  Domain: the one thread that progresses the context calls every function below but
 *  probe and rail_open (docs/design.md, "Threads and the progress lock").
 *  Every event and completion runs in that thread too, from inside `progress` or a poller
 *  function, never from inside the call that started it (ep_open, ep_message, frame_*,
 *  bulk_*, ep_close). So no caller is re-entered, and a transport needs no lock. Only
 *  probe and rail_open may block. connect_send and doorbell are no events but services of
 *  the layer above: a transport may call them from inside any function (mem_unregister
 *  too), and they call no function of the transport.
 *
 *  Statuses: TRYST_AGAIN means "no room now": nothing was taken, call again after
 *  progress.
 */
#ifndef TRYST_TRANSPORTS_TRANSPORT_H
#define TRYST_TRANSPORTS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "core/memory/urgency.h"
#include "transports/memory/memory.h"
#include "tryst/types.h"

struct endpoint;
struct poller;
struct rail;
struct tryst_host; /* module.h: what core offers to transports */

/** Bytes of the largest text that describes a mechanism or a reason, with the
 *  terminator. */
#define TRANSPORT_TEXT_MAX MEMORY_TEXT_MAX

/** Every transport takes frames of this size: an inline tensor of 4 KiB, the longest key
 *  (1 KiB) and the headers. */
#define TRANSPORT_FRAME_BYTES 5248u

/** Replaces a descriptor that the peer sent and this process could not receive. */
#define TRANSPORT_FD_LOST (-2)

/** A bulk message, send or receive: owned by the caller, embedded in its slice. The
 *  transport may use `scratch` from the call that takes the bulk until `done` is
 *  called. */
struct bulk {
    /** Completion, called exactly once for each bulk_send or bulk_recv that returned
     *  TRYST_OK. After the call the transport touches neither the bulk nor its buffer;
     *  `done` may free both.
     *
     *  TRYST_OK            send: the buffer may be reused; receive: `bytes` have arrived
     *  TRYST_E_CANCELED    withdrawn by bulk_cancel or ep_close
     *  TRYST_E_MISMATCH    the message was longer than the receive
     *  TRYST_E_PEER        the data path died
     *
     *  Device memory only:
     *  TRYST_E_UNSUPPORTED send: nothing was sent, and the peer's receive is still
     *                      posted: send the bytes from host memory
     *  TRYST_E_SYSTEM,
     *  TRYST_E_NOMEM       receive: the message came; its copy to the device failed
     *
     *  A receive that borrows:
     *  TRYST_E_NOMEM       no buffer could be allocated for a message that is copied */
    void (*done)(struct bulk *bulk, tryst_status status, size_t bytes);
    /** Not NULL: the receive borrows, at an endpoint that `borrows`, and `data` is NULL.
     *  Called when the message has come: its `bytes` can be read (bulk_read), until
     *  bulk_return or `done`. Host memory only. */
    void (*borrowed)(struct bulk *bulk, size_t bytes);
    uint64_t tag;
    void *data; /**< a send only reads it */
    size_t bytes;
    struct tryst_mem *mem; /**< registration that covers `data`, or NULL */
    /** Memory ops of a device: the host must not touch the bytes. NULL: host memory. */
    const struct memory_ops *memory;
    int32_t device; /**< ordinal of the device that holds `data` */
    bool hot; /**< send: this rank has just computed the bytes; they are in its cache */
    /** Of two bulks that a transport moves by itself, piece by piece, the more urgent
     *  goes first. */
    struct urgency urgency;
    union {
        uint64_t words[9];
        void *pointers[9];
    } scratch;
};

/** The events that the layer above installs, once per rail. `ep->arg` is the argument
 *  given to ep_open. */
struct rail_events {
    /** A frame arrived from the peer, which the transport has verified by the session's
     *  cookie: for the connection, or in each message. `data` (8-byte aligned) is valid
     *  during the call only. The callee does not close the endpoint from inside. */
    void (*frame)(struct endpoint *ep, const void *data, size_t bytes);
    /** Connecting ended: TRYST_OK, or TRYST_E_UNREACHABLE (try the next transport).
     *  `text` describes how bulk moves, or the reason. Both ends of a pair get the same
     *  outcome, unless one end fails, or the link closes, when the other is ready
     *  already: the ready end then gets `failed`, or loses its link. */
    void (*ready)(struct endpoint *ep, tryst_status status, const char *text);
    /** The data path died (a fabric error, a protocol violation). Called at most once. */
    void (*failed)(struct endpoint *ep, tryst_status status, const char *text);
    /** A mechanism for bulk to this peer is not used any more, for want of memory or
     *  descriptors or because the peer refuses it; a slower one replaces it. */
    void (*mech_dropped)(struct endpoint *ep);
    /** A bulk came without a posted receive: it was drained and written nowhere. */
    void (*unexpected)(struct endpoint *ep, uint64_t tag, size_t bytes);
    /** Closing has ended: every bulk has completed, neither the transport nor the peer
     *  reads or writes this process's memory for this endpoint any more, and the
     *  transport frees `ep` when the call returns. */
    void (*closed)(struct endpoint *ep);
    /** Carry `bytes` (at most 4096) and, if fd >= 0, a copy of that descriptor to the
     *  peer's endpoint. Ordered. The caller keeps its fd. TRYST_OK, TRYST_E_PEER (the
     *  link is gone), or another status of link_send: nothing was sent. */
    tryst_status (*connect_send)(struct endpoint *ep, const void *data, size_t bytes,
                                 int fd);
    /** Wake the peer's process if it sleeps: its poller runs and its rails progress.
     *  Cheap, unordered, may be merged. (shm's doorbell.) */
    void (*doorbell)(struct endpoint *ep);
};

/** Parameters of transport_ops.rail_open. */
struct rail_params {
    const struct tryst_host *host; /**< allocator, log, clock, configuration */
    const struct rail_events *events;
    /** For rail_attach, which registers the rail's descriptors here. */
    struct poller *poller;
    const char *interface_name;               /**< network interface, or NULL */
    const struct sockaddr *interface_address; /**< the interface's address, or NULL */
    uint32_t index;                           /**< index of this rail in the context */
    /** Receives the reason of a failure (TRANSPORT_TEXT_MAX), for a message. NULL: not
     *  wanted. */
    char *text;
    bool first; /**< on the host's first interface: serves hardware without one, too */
    /** False when TRYST_HOST_ID is set: the fabric (ucx, ofi) must not use its own shared
     *  memory. */
    bool own_shm_allowed;
};

/** Parameters of transport_ops.ep_open. */
struct ep_params {
    void *arg; /**< goes to ep->arg */
    int32_t peer_rank;
    int32_t local_rank;
    /** True at one of the two ends, so that a transport can let that end begin; false at
     *  the other end, and for a loopback. */
    bool initiator;
    bool loopback; /**< the peer is this very context: no link, no messages */
    bool same_process;
    bool same_host;   /**< a hint; a transport that relies on it verifies it */
    int32_t peer_pid; /**< as the peer announced it; 0: unknown */
    /** pidfd of the peer's process, readable once the peer has died; -1: none. The layer
     *  above opened it before reading anything from the peer, and keeps it. */
    int peer_pidfd;
    /** Cookie of the session: the transport's messages carry it, and a message without it
     *  is not from a rank of the session. */
    uint64_t cookie;
    /** This side's nonce. To verify a way to read the peer's memory (same_host is only a
     *  hint), the transport puts it where only that way can find it. */
    uint64_t nonce;
    uint64_t peer_nonce; /**< value that a read of the peer's memory must find */
};

/** Base of every transport's rail (its first member). */
struct rail {
    const struct transport_ops *ops;
    const struct rail_events *events;
    uint32_t index;
    uint32_t tag_bits;   /**< width of a bulk tag, >= 48 */
    uint32_t frame_max;  /**< largest frame in bytes, >= TRANSPORT_FRAME_BYTES */
    uint64_t bulk_max;   /**< largest bulk in bytes */
    uint32_t posted_max; /**< bulk receives that may be posted per endpoint, >= 64 */
    /** Largest useful slice (>= 64 KiB): a larger bulk delays the rail's other messages
     *  by more than it gains, so the layer above cuts no larger slices. 0: any size. */
    uint32_t slice_bytes;
    /** Least useful window towards one peer: with fewer bytes in flight the wire is idle
     *  at times. A window that the user sets may be smaller. 0: any window. */
    uint64_t window_bytes;
    /** Speed of the rail's interfaces in each direction; set by the rail's owner. 0:
     *  unknown. */
    uint64_t bytes_per_s;
    /** Name of the rail's network interface, for messages; set by the rail's owner. "":
     *  none. */
    char interface_name[16];
    /** Bit per tryst_memory_kind of a device: this rail takes bulk in such memory. The
     *  transport has verified that its library moves such memory; constant from
     *  rail_open on. A receive into such memory accepts any memory of the sender. The
     *  rail may still refuse some of it: a receive at once (TRYST_E_UNSUPPORTED), a
     *  send at once or by `done`. Any other device memory is refused at once, both
     *  ways (rail_takes). */
    uint32_t memory_kinds;
    /** Connect messages to this rail's endpoints may bring a descriptor. */
    bool takes_fds;
    /** Number of copies on device streams, which only `progress` completes; set by `arm`.
     *  While it is not 0, a sleeper polls again within COPY_NAP_NS (memory/copy.h). */
    uint32_t copies_busy;
    /** Set by the owner before each `progress`: the urgency of work of the owner's that
     *  was left undone in the pass before; NULL: none. A rail that copies bulk by itself
     *  leaves a copy to a later pass unless that copy is more urgent, so both share the
     *  time of a pass. */
    const struct urgency *ahead;
    /** Set by `progress`: bytes of bulk that it has copied by itself. */
    uint64_t copied_bytes;
};

/** True if `bulk` may be given to this rail. False: TRYST_E_UNSUPPORTED. */
static inline bool rail_takes(const struct rail *rail, const struct bulk *bulk)
{
    return !bulk->memory || rail->memory_kinds & 1u << bulk->memory->kind;
}

/** Base of every transport's endpoint (its first member). */
struct endpoint {
    struct rail *rail;
    void *arg;
    /** From `ready` on: receives may borrow. The peer's bulk is then read by this side
     *  alone: once a message has arrived here, the peer's transport reads its buffer no
     *  more. */
    bool borrows;
};

/** Use of `bytes` bytes at `data`, which are valid during the call. */
typedef void (*bulk_use)(void *arg, const void *data, size_t bytes);
/** Most bytes that one bulk_read reads: all that it reads are valid at once. */
#define TRANSPORT_PIECE_BYTES (UINT64_C(128) << 10)

struct transport_ops {
    const char *name; /**< "shm" */
    /** sizeof(struct transport_ops): a table of another size is refused */
    size_t struct_size;

    /** Check whether this transport works in this process; changes nothing lasting.
     *  TRYST_OK or TRYST_E_UNSUPPORTED; `text` (TRANSPORT_TEXT_MAX) receives what was
     *  found or the reason, for tryst-info. */
    tryst_status (*probe)(const struct tryst_host *host, char *text);

    /** Open a worker. TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_UNSUPPORTED.
     *  Thread: any, for several rails at once; the one function besides probe that may
     *  block, for as long as the fabric takes to start. It calls no event and registers
     *  nothing with the poller. */
    tryst_status (*rail_open)(const struct rail_params *params, struct rail **rail_p);
    /** Register the rail's descriptors with the poller: from here on the rail is the
     *  context's. TRYST_OK, TRYST_E_SYSTEM. NULL: the transport has no descriptors. */
    tryst_status (*rail_attach)(struct rail *rail);
    /** Close the rail; every endpoint has reported `closed` before. Thread of a rail that
     *  was never attached: any, as for rail_open. */
    void (*rail_close)(struct rail *rail);

    /** Handle what has arrived and complete what is done. Returns the number of events, 0
     *  when idle. Bounded work per call (a few dozen frames, a few MiB of copies). */
    int (*progress)(struct rail *rail);

    /** Prepare to sleep. TRYST_OK: a later event will make a descriptor that this rail
     *  registered with the poller readable (or ring the doorbell). TRYST_AGAIN: there is
     *  work now. TRYST_E_UNSUPPORTED: the rail has no descriptor for that (the caller
     *  then sleeps at most 1 ms at a time). */
    tryst_status (*arm)(struct rail *rail);

    /** Begin to connect. TRYST_OK, TRYST_E_NOMEM, TRYST_E_UNREACHABLE, TRYST_E_SYSTEM
     *  (logged). */
    tryst_status (*ep_open)(struct rail *rail, const struct ep_params *params,
                            struct endpoint **ep_p);
    /** Take a connect message from the peer's endpoint. The transport owns `fd` from here
     *  on (-1: none, as always unless rail->takes_fds; TRANSPORT_FD_LOST: one was sent
     *  and could not be received). Its close may block (core/os/foreign_fd.h). The
     *  content is hostile until checked; a bad message ends in events->ready(UNREACHABLE)
     *  or events->failed(PROTOCOL). */
    void (*ep_message)(struct endpoint *ep, const void *data, size_t bytes, int fd);
    /** Close by force: unsent frames are dropped, every bulk completes (CANCELED, or with
     *  what it achieved), the peer's later traffic is discarded, and then events->closed
     *  is called, within a bounded time and without help from the peer, which may be dead
     *  or stopped. */
    void (*ep_close)(struct endpoint *ep);

    /** Get room for the next frame, of up to `max` bytes (1..frame_max), to be built at
     *  *frame_p (8-byte aligned; maybe where it leaves from). The room lasts until the
     *  next call of this rail or one of its endpoints; unless that call is its
     *  frame_commit, no frame was begun. TRYST_OK, TRYST_AGAIN (no room now),
     *  TRYST_E_PEER (broken; events->failed gives the reason). */
    tryst_status (*frame_begin)(struct endpoint *ep, size_t max, void **frame_p);
    /** Queue the frame that was begun, `bytes` (1..max) of it. It arrives, or the
     *  endpoint breaks (events->failed). */
    void (*frame_commit)(struct endpoint *ep, size_t bytes);

    /** Post a receive for `bulk->tag` from this endpoint's peer. TRYST_OK, TRYST_AGAIN
     *  (posted_max are posted, or no room now), TRYST_E_PEER, TRYST_E_UNSUPPORTED (this
     *  device memory). */
    tryst_status (*bulk_recv)(struct endpoint *ep, struct bulk *bulk);
    /** Send `bulk` to the receive that the peer has posted under its tag. TRYST_OK,
     *  TRYST_AGAIN, TRYST_E_PEER, TRYST_E_UNSUPPORTED (device memory, at this
     *  endpoint). */
    tryst_status (*bulk_send)(struct endpoint *ep, struct bulk *bulk);
    /** Withdraw a posted or borrowed receive. `done` follows with TRYST_E_CANCELED, or
     *  with the outcome of its message if that came first; `borrowed` is not called any
     *  more. Sends cannot be withdrawn. */
    void (*bulk_cancel)(struct endpoint *ep, struct bulk *bulk);
    /** Read `bytes` (at most TRANSPORT_PIECE_BYTES) from byte `at` on of a borrowed bulk:
     *  `use` is called once, inside the call. What was read counts only after
     *  bulk_return. TRYST_OK. TRYST_AGAIN: the bytes cannot be read there and come by
     *  copy; `borrowed` is called again, with equal bytes. TRYST_E_PEER: `done`
     *  follows. NULL, like bulk_return, where no endpoint borrows. */
    tryst_status (*bulk_read)(struct endpoint *ep, struct bulk *bulk, size_t at,
                              size_t bytes, bulk_use use, void *arg);
    /** Return a borrowed bulk to its sender. TRYST_OK: all that was read counts, and the
     *  bulk is the caller's; `done` is not called. TRYST_E_PEER: nothing counts, and
     *  `done` follows. */
    tryst_status (*bulk_return)(struct endpoint *ep, struct bulk *bulk);

    /** Register a region with this rail. The caller keeps the handle (NULL: this region
     *  needs none) in the region's slot of this rail (memory/memory.h). Both functions
     *  are NULL where the transport needs no registrations. */
    tryst_status (*mem_register)(struct rail *rail, struct tryst_mem *mem,
                                 void **handle_p);
    void (*mem_unregister)(struct rail *rail, void *handle);

    /** Announce a region of the host's memory to the peer of a ready endpoint, which may
     *  then map it. TRYST_OK (also if that was done before), TRYST_E_UNSUPPORTED (the
     *  peer cannot map it), TRYST_E_NOMEM. NULL, like mem_view: no peer maps memory. */
    tryst_status (*mem_share)(struct endpoint *ep, struct tryst_mem *mem);
    /** Map the region that the peer has announced by this id (tryst_mem.id), for reading.
     *  The caller unmaps it; until then it stays, whatever becomes of endpoint and
     *  peer.
     *  TRYST_OK, TRYST_AGAIN (not announced yet), TRYST_E_UNSUPPORTED, TRYST_E_NOMEM. */
    tryst_status (*mem_view)(struct endpoint *ep, uint64_t id, const void **data_p,
                             size_t *bytes_p);
};

/** Send a frame that was built elsewhere, through `ops` (those of ep->rail, or of a
 *  wrapper). Statuses of frame_begin; `data` may be reused on return. */
static inline tryst_status transport_frame_send(const struct transport_ops *ops,
                                                struct endpoint *ep, const void *data,
                                                size_t bytes)
{
    void *frame;
    tryst_status status = ops->frame_begin(ep, bytes, &frame);
    if (status != TRYST_OK)
        return status;
    memcpy(frame, data, bytes);
    ops->frame_commit(ep, bytes);
    return TRYST_OK;
}

/* registry.c */

/** The built-in transports, in order of preference, ended by NULL. */
extern const struct transport_ops *const transport_builtin[];

/** Open a rail of `ops`, which becomes rail->ops. Contract and statuses of rail_open. The
 *  only way to a rail: tests wrap it at link time to inject faults
 *  (tests/transports/fault). */
tryst_status transport_rail_open(const struct transport_ops *ops,
                                 const struct rail_params *params, struct rail **rail_p);

#endif
