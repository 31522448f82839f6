/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint that `shm` and `self` share: frames and bulk over two rings in common memory.
 *
 * One idea: how two ends come to share memory, and how one reads the other's buffers, differs
 * between processes and threads; everything else does not. The first is a table (pair_ops), the
 * second is here.
 *
 *   pair_ring.h   one ring
 *   pair.c        rails, endpoints, frames, sleeping
 *   pair_bulk.c   bulk: offers, answers, and copies through the ring
 *   pair_device.c receives into device memory
 *
 * Invariant: after `closed`, neither end's private memory is touched on behalf of the other: each
 * side writes only its own memory and the shared area, and reads the other's private memory only
 * in pair_ops.copy, whose result counts only while the other side's grant stands.
 *
 * Callers: shm/, self/. All in the progress domain.
 */
#ifndef TRANSPORTS_PAIR_H
#define TRANSPORTS_PAIR_H

#include "core/memory/list.h"
#include "pair_ring.h"
#include "transports/memory/copy.h"
#include "transports/memory/slots.h"
#include "transports/module.h"
#include "transports/transport.h"

#define PAIR_BUCKETS \
    32u /* of posted receives; tags are consecutive, so chains stay short */
#define PAIR_POSTED_MAX 1024u /* receives per endpoint */

/* How much one call of progress reads from a peer at most: at ~10 GB/s about 13 us, the longest
 * that a frame, or a more urgent copy, waits behind one. */
#define PAIR_PIECE_BYTES (UINT64_C(128) << 10)

enum pair_state {
    PAIR_OPENING, /* pair_ops.connect is at work */
    PAIR_READY,
    PAIR_REFUSED, /* events->ready(UNREACHABLE) was said */
    PAIR_BROKEN, /* the peer broke the protocol; bulk completes, nothing moves any more */
    PAIR_CLOSING /* ep_close was called: the next progress ends it */
};

/* What became of one piece. */
enum pair_copy {
    PAIR_COPY_OK,
    PAIR_COPY_LATER,  /* the region's descriptor is still on its way: ep->waiting */
    PAIR_COPY_RETRY,  /* not readable; the sender shall put it through the ring */
    PAIR_COPY_DENIED, /* the same, and this mechanism works for nothing from this peer */
    PAIR_COPY_GONE,   /* the peer withdrew its grant or died: what was read is dropped */
    PAIR_COPY_BAD     /* no honest peer offers such an address */
};

/* Our state of one bulk, in bulk->scratch. */
struct pair_op {
    struct list_node node; /* first: bulk = container_of(node, struct bulk, scratch) */
    struct pair_ep *ep;
    uint64_t where;  /* as in pair_offer */
    uint64_t region; /* as in pair_offer */
    uint64_t bytes;  /* of the message */
    uint64_t moved;
    tryst_status status; /* once in ep->finished */
    uint8_t mech;        /* enum pair_mech */
    uint8_t slot;
    uint8_t started; /* send through the ring: its first piece is out */
    uint8_t reserved;
    struct pair_job *job; /* a receive into device memory: pair_device.c */
};
static_assert(sizeof(struct pair_op) <= sizeof(((struct bulk *)0)->scratch),
              "fits a bulk");

struct pair_ep;

/* What a receive into device memory has besides. */
struct pair_job {
    struct list_node node; /* of rail->jobs while free */
    struct pair_ep *ep;
    struct bulk *bulk;
    struct slot *slot;       /* what comes as host memory lands here */
    struct list_node source; /* shm, self: what is being read */
    void *region;
    struct copy copy;
};

/* What differs between shm and self. */
struct pair_ops {
    size_t rail_bytes; /* of the rail, of which pair_rail is the first member */
    size_t ep_bytes;   /* of the endpoint, of which pair_ep is the first member */
    /* OPENING and ep->due: the next step. Ends in pair_connected or pair_refused. */
    void (*connect)(struct pair_ep *ep);
    /* How to send `bulk` (its op's where and region are filled in): the best that still works;
     * PAIR_MECH_NONE: none, for device memory. */
    enum pair_mech (*choose)(struct pair_ep *ep, struct bulk *bulk);
    /* The peer cannot use `mech` at all: choose it no more. */
    void (*denied)(struct pair_ep *ep, enum pair_mech mech);
    /* Read `bytes` at op->moved of what the peer offered into the receive's buffer. */
    enum pair_copy (*copy)(struct pair_ep *ep, struct bulk *bulk, uint64_t bytes);
    /* Begin to copy all of what the peer offered in its device memory (job->copy, complete but for
     * its source). OK: device_read_end follows, from `copy.done`. Else as `copy`. */
    enum pair_copy (*device_read)(struct pair_ep *ep, struct pair_job *job);
    /* It has ended; false: the peer withdrew its grant or died meanwhile, and it does not count. */
    bool (*device_read_end)(struct pair_ep *ep, struct pair_job *job);
    /* Has every reader of our memory seen that the grant is revoked? Only threads of this
     * process are waited for; a process that still reads finds out by itself. */
    bool (*quiet)(struct pair_ep *ep);
    /* Let go of the area and all else; the endpoint is freed next. */
    void (*detach)(struct pair_ep *ep);
};

struct pair_rail {
    struct rail base;
    const struct pair_ops *ops;
    const tryst_host *host;
    struct list eps;
    struct list reads;    /* receives being read by pair_ops.copy, oldest first */
    uint64_t ring_bytes;  /* per direction, as configured */
    bool armed;           /* `asleep` may be set in some area */
    uint64_t *frame;      /* the frame being delivered, out of the peer's reach */
    uint64_t *frame_out;  /* the one being built: behind it in the same memory */
    struct copies copies; /* into device memory */
    struct slots slots;
    struct list jobs; /* free ones */
};

struct pair_ep {
    struct endpoint base;
    struct list_node node; /* in rail->eps */
    /* what each poll looks at */
    uint8_t state; /* enum pair_state */
    bool due;      /* a step waits for progress */
    bool loopback; /* both ends are this endpoint: one ring, one side */
    bool wants_room;
    bool failure_told;
    uint32_t posted_count;
    uint32_t jobs_count;
    uint32_t copies;        /* into device memory, under way */
    uint64_t slots_used;    /* our offers without an answer */
    struct list jobs;       /* sends through the ring; the first one is moving */
    struct list finished;   /* bulks to complete from progress */
    struct pair_side *mine; /* NULL until connected */
    struct pair_side *theirs;
    struct ring_rx rx;
    struct ring_tx tx;
    /* bulk */
    uint64_t slots_held;           /* the peer's offers that we have not answered */
    struct bulk *slot[PAIR_SLOTS]; /* our offers */
    struct list posted[PAIR_BUCKETS];
    struct list waiting;   /* PAIR_COPY_LATER */
    struct bulk *incoming; /* coming through the ring; NULL: dropped */
    uint64_t incoming_left;
    /* connecting, failing */
    struct pair_header *area;
    struct ep_params params;
    tryst_status status; /* BROKEN, REFUSED: why */
    char text[TRANSPORT_TEXT_MAX];
};

static inline struct pair_rail *pair_ep_rail(const struct pair_ep *ep)
{
    return (struct pair_rail *)ep->base.rail;
}

static inline struct pair_op *pair_op_of(struct bulk *bulk)
{
    return (struct pair_op *)(void *)&bulk->scratch;
}

static inline struct bulk *pair_bulk_of(struct list_node *node)
{
    return container_of(node, struct bulk, scratch);
}

/* Where the host puts a receive's bytes. */
static inline uint8_t *pair_target(struct bulk *bulk)
{
    const struct pair_job *job = pair_op_of(bulk)->job;
    return __builtin_expect(!job, 1) ? bulk->data : job->slot->data;
}

/* --- for shm and self --- */

/* A rail of theirs, zero but for this part of it. TRYST_OK, TRYST_E_NOMEM. */
tryst_status pair_rail_open(const struct rail_params *params,
                            const struct transport_ops *transport,
                            const struct pair_ops *ops, struct rail **rail_p);
void pair_rail_close(struct rail *base); /* frees it */

/* A new endpoint in `rail`, OPENING and due. TRYST_OK, TRYST_E_NOMEM. */
tryst_status pair_ep_open(struct rail *base, const struct ep_params *params,
                          struct endpoint **ep_p);

/* Write a fresh (zeroed) area's header. `initiator_nonce` belongs to side 0. */
void pair_area_init(struct pair_header *area, uint64_t ring_bytes,
                    uint64_t initiator_nonce, uint64_t responder_nonce);
/* Is this an area of that size for these two? NULL, or what is wrong. */
const char *pair_area_check(const struct pair_header *area, uint64_t ring_bytes,
                            uint64_t initiator_nonce, uint64_t responder_nonce);
/* Point the endpoint at an area that was checked. */
void pair_attach(struct pair_ep *ep, struct pair_header *area, uint64_t ring_bytes);

/* From pair_ops.connect: the end of connecting; the event is called. */
void pair_connected(struct pair_ep *ep, const char *text);
void pair_refused(struct pair_ep *ep, const char *text);

/* The data path ends here: the next progress tells, and completes every bulk. */
void pair_fail(struct pair_ep *ep, tryst_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Is there room in the ring for `payload` bytes, such that at most `limit` are in use? TRYST_OK, TRYST_AGAIN;
 * TRYST_E_PEER: the peer says what cannot be, and the data path has ended. */
static inline tryst_status pair_room(struct pair_ep *ep, uint64_t payload, uint64_t limit)
{
    enum ring_answer room = ring_tx_room(&ep->tx, payload, limit);
    if (__builtin_expect(room == RING_YES, 1))
        return TRYST_OK;
    if (room == RING_NO)
        return TRYST_AGAIN;
    pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: the reader's tail is not possible");
    return TRYST_E_PEER;
}

/* Ring the peer's doorbell if it sleeps and asked for one of `reasons` (PAIR_ASLEEP, …). */
void pair_wake(struct pair_ep *ep, uint32_t reasons);

/* Slots of struct transport_ops. */
int pair_progress(struct rail *base);
tryst_status pair_arm(struct rail *base);
void pair_ep_close(struct endpoint *base);
tryst_status pair_frame_begin(struct endpoint *base, size_t max, void **frame_p);
void pair_frame_commit(struct endpoint *base, size_t bytes);

#endif
