/* SPDX-License-Identifier: Apache-2.0 */
/** @file transport.h
 *  The whole transport contract. After reading this file one can write a transport.
 *
 *  A transport gives two channels between two ranks, and nothing else:
 *
 *    frames  small, ordered, reliable messages. The layer above bounds how many are
 *            unread, so the receiver always has room; locally the transport may answer
 *            AGAIN.
 *    bulk    a tagged, zero-copy message whose receive is always posted before its send
 *            starts. The receiver chooses the tag. Bulk and frames are not ordered among
 *            each other, and frames must never queue behind bulk.
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
 *                    │                   │ events->failed                ▲   events->closed
 *                    │ events->ready(UNREACHABLE)                        │
 *                    ▼                   ▼            ep_close           │
 *                 REFUSED             BROKEN ────────────────────────────┘
 *
 *  Connecting is an exchange of small messages over a *link*, a socket between the two
 *  ranks that the layer above owns (link/link.h): the endpoint asks events->connect_send to
 *  carry bytes (and at most one descriptor, on a Unix link) to the peer's endpoint, where
 *  ep_message delivers them. Both ends open their endpoint for the same transport and
 *  rails in the same order, so a message for an endpoint that is not open here yet is
 *  kept by the layer above until it is.
 *
 *  Domain: every function below but probe and rail_open is called by the one thread that progresses the context
 *  (docs/design.md, "Threads and the progress lock"), and every event and completion runs in that thread, from inside
 *  `progress` or a poller function, never from inside the call that started it (ep_open,
 *  ep_message, frame_*, bulk_*, ep_close): so no caller is re-entered. A transport
 *  needs no lock. Only probe and rail_open may block. connect_send and doorbell are no events
 *  but services of the layer above: a transport may call them from inside any function
 *  (mem_unregister too), and they call nothing of the transport's.
 *
 *  Statuses: TRYST_AGAIN means "no room now": nothing was taken, call again after
 *  progress.
 */
#ifndef TRANSPORTS_TRANSPORT_H
#define TRANSPORTS_TRANSPORT_H

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

/** Largest text that describes a mechanism or a reason, with its terminator. */
#define TRANSPORT_TEXT_MAX MEMORY_TEXT_MAX

/** Frames of this size every transport takes: an inline tensor of 4 KiB beside the longest key
 *  (1 KiB) and what heads them. */
#define TRANSPORT_FRAME_BYTES 5248u

/** In place of a descriptor that the peer sent and that this process had no room for. */
#define TRANSPORT_FD_LOST (-2)

/** A bulk message, send or receive: owned by the caller, embedded in its slice. The
 *  transport may use `scratch` from the call that takes it until `done` is called. */
struct bulk {
    /** Completion: exactly once for each bulk_send or bulk_recv that returned TRYST_OK.
     *  TRYST_OK: send: the buffer may be reused; receive: `bytes` bytes are in place.
     *  TRYST_E_CANCELED: withdrawn by bulk_cancel or ep_close. TRYST_E_MISMATCH: the
     *  message was longer than the receive. TRYST_E_PEER: the data path died. After the
     *  call the transport touches neither the bulk nor its buffer; `done` may free
     *  both. Device memory only: TRYST_E_UNSUPPORTED, send: nothing was sent, and the
     *  receive is posted still: send it from host memory. TRYST_E_SYSTEM, receive: the
     *  message came, and could not be copied to the device. */
    void (*done)(struct bulk *bulk, tryst_status status, size_t bytes);
    uint64_t tag;
    void *data; /**< for a send it is only read */
    size_t bytes;
    struct tryst_mem *mem; /**< registration that covers data, or NULL */
    /** Device memory: its row; the host must not touch the bytes. NULL: host memory. */
    const struct memory_ops *memory;
    int32_t device; /**< where `data` is, of that row */
    /** Of two bulks that a transport moves by itself, piece by piece, the more urgent goes first. */
    struct urgency urgency;
    union {
        uint64_t words[9];
        void *pointers[9];
    } scratch;
};

/** What the layer above installs, once per rail. `ep->arg` is the argument given to
 *  ep_open. */
struct rail_events {
    /** A frame arrived. `data` (8-byte aligned) is valid during the call only. The callee
     *  does not close the endpoint from inside. */
    void (*frame)(struct endpoint *ep, const void *data, size_t bytes);
    /** Connecting ended: TRYST_OK, or TRYST_E_UNREACHABLE (try the next transport).
     *  `text` says how bulk moves, or why not. Both ends of a pair get the same outcome,
     *  or the second learns of the first one's when its endpoint's messages stop (link
     *  closed). */
    void (*ready)(struct endpoint *ep, tryst_status status, const char *text);
    /** The data path died (a fabric error, a protocol violation). Called at most once. */
    void (*failed)(struct endpoint *ep, tryst_status status, const char *text);
    /** A bulk came for which no receive is posted: it was drained and nothing was
     *  written. */
    void (*unexpected)(struct endpoint *ep, uint64_t tag, size_t bytes);
    /** The endpoint that ep_close was called on is gone: every bulk has completed,
     *  nothing reads or writes our memory any more, and `ep` itself is freed when this
     *  returns. */
    void (*closed)(struct endpoint *ep);
    /** Carry `bytes` (at most 4096) and, if fd >= 0, a copy of that descriptor to the
     *  peer's endpoint. Ordered. The caller keeps its fd. TRYST_E_PEER when the link is
     *  gone. */
    tryst_status (*connect_send)(struct endpoint *ep, const void *data, size_t bytes,
                                 int fd);
    /** Wake the peer's process if it sleeps: cheap, unordered, may be merged; it makes
     *  the peer's poller run and its rails progress. (shm's doorbell.) */
    void (*doorbell)(struct endpoint *ep);
};

/** How to open a rail. */
struct rail_params {
    const struct tryst_host *host; /**< allocator, log, clock, configuration */
    const struct rail_events *events;
    struct poller *poller;      /**< register descriptors here, with `poller_source` */
    const char *interface_name; /**< network interface, or NULL */
    const struct sockaddr *interface_address; /**< its address, or NULL */
    uint32_t index;                           /**< of this rail within the context */
    /** false: TRYST_HOST_ID overrides: no shared memory of the fabric's own (ucx, ofi) */
    bool own_shm_allowed;
};

/** What is known of the peer when an endpoint is opened. */
struct ep_params {
    void *arg; /**< ends up in ep->arg */
    int32_t peer_rank;
    int32_t local_rank;
    /** exactly one of the two ends has true: whoever speaks first */
    bool initiator;
    bool loopback; /**< the peer is this very context: no link, no messages */
    bool same_process;
    bool same_host;   /**< a hint; what needs it verifies it */
    int32_t peer_pid; /**< as the peer announced it, 0 unknown */
    /** opened by the layer above before anything was read from the peer, or -1; stays the
     *  caller's; readable once the peer died */
    int peer_pidfd;
    /** session cookie: opens every connection of the transport's own */
    uint64_t cookie;
    uint64_t
        /** of this side: the transport may publish it to be read by the means in question
         *  (same_host is only a hint) */
        nonce;
    uint64_t peer_nonce; /**< what must be read there */
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
    /** Bulk of more bytes than this keeps the rail from its other messages for longer than it
     *  gains (>= 64 KiB): the layer above cuts no larger slices. 0: any size. */
    uint32_t slice_bytes;
    /** With fewer bytes in flight towards one peer its wire is idle at times, so the window is no
     *  smaller unless the user has set it. 0: any window will do. */
    uint64_t window_bytes;
    /** What the rail's interfaces move in each direction; set by its owner, 0: not known. */
    uint64_t bytes_per_s;
    /** Bit per tryst_memory_kind of a device: bulk in such memory may be given to this
     *  rail, which has asked whatever moves it; the same from rail_open on. It receives
     *  into it whatever the sender's memory is. It may still refuse some of it: a receive
     *  at once (TRYST_E_UNSUPPORTED), a send at once or by `done`. Any other device's memory
     *  it refuses at once, both ways (rail_takes). */
    uint32_t memory_kinds;
    /** Copies on devices' streams that only `progress` can end: who sleeps meanwhile
     *  looks again within COPY_NAP_NS (memory/copy.h). */
    uint32_t copies_busy;
};

/** May `bulk` be given to this rail? False: TRYST_E_UNSUPPORTED. */
static inline bool rail_takes(const struct rail *rail, const struct bulk *bulk)
{
    return !bulk->memory || rail->memory_kinds & 1u << bulk->memory->kind;
}

/** Base of every transport's endpoint (its first member). */
struct endpoint {
    struct rail *rail;
    void *arg;
};

struct transport_ops {
    const char *name; /**< "shm" */
    /** sizeof(struct transport_ops): a longer, newer table is refused */
    size_t struct_size;

    /** Can this transport work in this process? Touches nothing lasting.
     *  TRYST_OK or TRYST_E_UNSUPPORTED; `text` (TRANSPORT_TEXT_MAX) says what was found
     *  or why not, for tryst-info. */
    tryst_status (*probe)(const struct tryst_host *host, char *text);

    /** Open a worker. TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_UNSUPPORTED.
     *  Thread: any, for several rails at once; the one function that may block, for as long as the
     *  fabric takes to start. It calls no event and registers nothing with the poller. */
    tryst_status (*rail_open)(const struct rail_params *params, struct rail **rail_p);
    /** The rail is the context's from here on: register its descriptors with the poller. TRYST_OK,
     *  TRYST_E_SYSTEM. NULL: it has none. */
    tryst_status (*rail_attach)(struct rail *rail);
    /** Close it; every endpoint has reported `closed` before. One that was never attached: any
     *  thread, as rail_open. */
    void (*rail_close)(struct rail *rail);

    /** Handle what has arrived and complete what is done. Returns the number of events, 0
     *  when idle. Bounded work per call (a few dozen frames, a few MiB of copies). */
    int (*progress)(struct rail *rail);

    /** Prepare to sleep: TRYST_OK when a later event will make one of the descriptors
     *  that this rail registered with the poller readable (or ring the doorbell),
     *  TRYST_AGAIN when there is something to do now, TRYST_E_UNSUPPORTED when there is
     *  no such descriptor (the caller then sleeps at most 1 ms at a time). */
    tryst_status (*arm)(struct rail *rail);

    /** Begin connecting. TRYST_OK, TRYST_E_NOMEM, TRYST_E_UNREACHABLE. */
    tryst_status (*ep_open)(struct rail *rail, const struct ep_params *params,
                            struct endpoint **ep_p);
    /** A connect message from the peer's endpoint. The transport owns `fd` (-1: none;
     *  TRANSPORT_FD_LOST: one was sent and could not be received) from here on. Content is hostile until checked; a bad one ends in
     *  events->ready(UNREACHABLE) or events->failed(PROTOCOL). */
    void (*ep_message)(struct endpoint *ep, const void *data, size_t bytes, int fd);
    /** Close by force: unsent frames are dropped, every bulk completes (CANCELED, or what
     *  it achieved), the peer's later traffic goes nowhere, and then events->closed is
     *  called, within a bounded time and without help from the peer, which may be dead or
     *  stopped. */
    void (*ep_close)(struct endpoint *ep);

    /** Room for the next frame, of up to `max` bytes (1..frame_max): it is built at *frame_p, 8-byte
     *  aligned, which may be where it leaves from. It lasts until the next call of this rail or one of
     *  its endpoints: if that is not its frame_commit, no frame was begun.
     *  TRYST_OK, TRYST_AGAIN (no room now), TRYST_E_PEER (broken; events->failed tells why). */
    tryst_status (*frame_begin)(struct endpoint *ep, size_t max, void **frame_p);
    /** Queue the frame that was begun, `bytes` (1..max) of it. It has its room: it arrives, or the
     *  endpoint breaks (events->failed). */
    void (*frame_commit)(struct endpoint *ep, size_t bytes);

    /** Post a receive for `bulk->tag` from this endpoint's peer. TRYST_OK, TRYST_AGAIN
     *  (more than posted_max), TRYST_E_PEER, TRYST_E_UNSUPPORTED (this device memory). */
    tryst_status (*bulk_recv)(struct endpoint *ep, struct bulk *bulk);
    /** Send `bulk` to the receive that the peer has posted under its tag.
     *  TRYST_OK, TRYST_AGAIN, TRYST_E_PEER, TRYST_E_UNSUPPORTED (device memory, at this
     *  endpoint). */
    tryst_status (*bulk_send)(struct endpoint *ep, struct bulk *bulk);
    /** Withdraw a posted receive; `done` follows with TRYST_E_CANCELED, or with what it
     *  achieved when its message came first. Sends cannot be withdrawn. */
    void (*bulk_cancel)(struct endpoint *ep, struct bulk *bulk);

    /** Registration of a region with this rail; NULL where none is needed. The handle is
     *  kept in the region's slot of this rail (memory/memory.h). */
    tryst_status (*mem_register)(struct rail *rail, struct tryst_mem *mem,
                                 void **handle_p);
    void (*mem_unregister)(struct rail *rail, void *handle);
};

/** A frame that was built elsewhere, through `ops` (those of ep->rail, or what stands before them). As
 *  frame_begin; `data` is reusable on return. */
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

/** Open a rail and attach it: in the thread that progresses, where the start may take its time. Statuses of
 *  both. */
static inline tryst_status transport_rail_open(const struct transport_ops *ops,
                                               const struct rail_params *params,
                                               struct rail **rail_p)
{
    struct rail *rail;
    tryst_status status = ops->rail_open(params, &rail);
    if (status == TRYST_OK && ops->rail_attach)
        status = ops->rail_attach(rail);
    else if (status != TRYST_OK)
        return status;
    if (status != TRYST_OK)
        ops->rail_close(rail);
    else
        *rail_p = rail;
    return status;
}

/** Transports that are built in, in order of preference, ended by NULL (registry.c). */
extern const struct transport_ops *const transport_builtin[];

#endif
