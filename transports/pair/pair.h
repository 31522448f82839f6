/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint that `shm` and `self` share: frames and bulk over two rings in common
 * memory.
 *
 * One idea: processes and threads differ in how two ends come to share memory, and in how
 * one reads the other's buffers; all else is the same. The differences are a table
 * (pair_ops), the rest is here.
 *
 *   pair_ring.h   one ring
 *   pair.c        rails, endpoints, frames, sleeping
 *   pair_bulk.c   bulk: offers, answers, and copies through the ring
 *   pair_device.c receives into device memory
 *
 * Invariant: after `closed`, neither end's private memory is touched on behalf of the
 * other. Each side writes only its own memory and the shared area, and reads the other's
 * private memory only between pair_ops.open and close, and in device_read. What was read
 * counts only while the other side's grant is not revoked.
 *
 * Domain: all in the progress domain.
 */
#ifndef TRYST_TRANSPORTS_PAIR_PAIR_H
#define TRYST_TRANSPORTS_PAIR_PAIR_H

#include "core/memory/list.h"
#include "pair_ring.h"
#include "transports/memory/copy.h"
#include "transports/memory/slots.h"
#include "transports/module.h"
#include "transports/transport.h"

/** Buckets of posted receives. Tags are consecutive, so chains stay short. */
#define PAIR_BUCKETS    32u
#define PAIR_POSTED_MAX 1024u /**< most posted receives per endpoint */

enum pair_state {
    PAIR_OPENING, /**< pair_ops.connect is at work */
    PAIR_READY,
    PAIR_REFUSED, /**< events->ready(UNREACHABLE) was reported */
    /** The data path has ended (pair_fail): bulk completes, and no bytes move. */
    PAIR_BROKEN,
    /** ep_close was called: progress frees the endpoint once no copy is under way. */
    PAIR_CLOSING
};

/** The outcome of one piece. */
enum pair_copy {
    PAIR_COPY_OK,
    PAIR_COPY_LATER, /**< the region's descriptor is still on its way: ep->waiting */
    PAIR_COPY_RETRY, /**< not readable: the sender must use the ring for this bulk */
    /** Not readable, like all other memory of this peer by this mechanism. */
    PAIR_COPY_DENIED,
    /** The peer withdrew its grant or died: the bytes read are dropped. */
    PAIR_COPY_GONE,
    PAIR_COPY_BAD /**< no honest peer offers such an address */
};

/** Private state of one bulk, in bulk->scratch. */
struct pair_op {
    struct list_node node; /**< first: bulk = container_of(node, struct bulk, scratch) */
    struct pair_ep *ep;
    uint64_t where;      /**< pair_offer.where of the bulk; where + bytes does not wrap */
    uint64_t region;     /**< pair_offer.region of the bulk */
    uint64_t bytes;      /**< bytes of the message */
    uint64_t moved;      /**< bytes of the message that are copied so far */
    tryst_status status; /**< valid once the bulk is in ep->finished */
    uint8_t mech;        /**< enum pair_mech */
    uint8_t slot;
    uint8_t started; /**< send through the ring: its first piece is in the ring */
    uint8_t is_lent; /**< receive that borrows: its message has come */
    union {
        struct pair_job *job; /**< receive into device memory (pair_device.c), or NULL */
        void *lent;           /**< receive that borrows: for pair_ops.lend */
    };
};
static_assert(sizeof(struct pair_op) <= sizeof(((struct bulk *)0)->scratch),
              "fits a bulk");

struct pair_ep;

/** Further state of a receive into device memory. */
struct pair_job {
    struct list_node node; /**< in rail->jobs while free */
    struct pair_ep *ep;
    struct bulk *bulk;
    struct slot *slot;       /**< slot for a message that comes as host memory, or NULL */
    struct list_node source; /**< self: in the area's list of reads */
    /** Memory that is being read: struct shm_mapped, or (self) the sender's pair_side. */
    void *region;
    struct copy copy;
};

/** The differences between shm and self. */
struct pair_ops {
    size_t rail_bytes; /**< bytes of the rail; pair_rail is its first member */
    size_t ep_bytes;   /**< bytes of the endpoint; pair_ep is its first member */
    /** Do the next step of connecting, called while OPENING and ep->due. The last step
     *  calls pair_connected or pair_refused. */
    void (*connect)(struct pair_ep *ep);
    /** Choose the best working mechanism to send `bulk`, and fill in its op's where and
     *  region. PAIR_MECH_NONE: this device memory cannot be sent. PAIR_MECH_FULL: not
     *  now; offers of this endpoint have no answer yet, which frees what is missing. */
    enum pair_mech (*choose)(struct pair_ep *ep, struct bulk *bulk);
    /** Handle PAIR_ANSWER_DENIED: drop `mech` from the choices (shm), or fail (self). */
    void (*denied)(struct pair_ep *ep, enum pair_mech mech);
    /** Make `bytes` bytes from byte `at` on of the peer's offer readable at *data_p,
     *  until `close`; bytes that must be copied for that are copied to `to`.
     *  PAIR_COPY_OK, or another outcome, without `close`. */
    enum pair_copy (*open)(struct pair_ep *ep, const struct bulk *bulk, uint64_t at,
                           uint64_t bytes, void *to, const void **data_p);
    void (*close)(struct pair_ep *ep); /**< NULL: nothing to do */
    /** Check, after all bytes of an offer were read, that they count: PAIR_COPY_OK or
     *  PAIR_COPY_GONE. NULL: what `open` has opened counts. */
    enum pair_copy (*confirm)(struct pair_ep *ep, const struct bulk *bulk);
    /** Hold what a borrowed offer lies in until `lent_back`, in op->lent. Outcomes as for
     *  `open`. NULL, like lent_back: nothing to hold. */
    enum pair_copy (*lend)(struct pair_ep *ep, struct bulk *bulk);
    void (*lent_back)(struct pair_ep *ep, struct bulk *bulk);
    /** Copy `bytes` bytes at op->moved of a send by PAIR_MECH_STAGE to where the peer
     *  will read them. */
    void (*stage)(struct pair_ep *ep, struct bulk *bulk, uint64_t bytes);
    /** Free what `choose` reserved for such a send. */
    void (*unstage)(struct pair_ep *ep, struct bulk *bulk);
    /** Begin to copy the whole offer from the peer's device memory by job->copy, in which
     *  only the source is missing. PAIR_COPY_OK: `copy.done` will call device_read_end.
     *  Other results as for `copy`. */
    enum pair_copy (*device_read)(struct pair_ep *ep, struct pair_job *job);
    /** End such a copy. False: the peer withdrew its grant or died meanwhile, and the
     *  copy does not count. */
    bool (*device_read_end)(struct pair_ep *ep, struct pair_job *job);
    /** True if, after the grant was revoked, no thread of this process reads this side's
     *  memory any more. (Another process that still reads detects the revocation
     *  afterwards and drops the bytes.) */
    bool (*quiet)(struct pair_ep *ep);
    /** Release the area and all else; the endpoint is freed next. */
    void (*detach)(struct pair_ep *ep);
};

struct pair_rail {
    struct rail base;
    const struct pair_ops *ops;
    const struct tryst_host *host;
    struct list eps;
    /** Bulks that are copied piece by piece, most urgent first: receives being
     *  read, of which those that waited for a region come last, and sends by
     *  PAIR_MECH_STAGE. */
    struct list reads;
    uint64_t ring_bytes; /**< per direction, as configured */
    bool armed;          /**< `asleep` may be set in some area */
    uint64_t *frame;     /**< the frame being delivered, out of the peer's reach */
    uint64_t *frame_out; /**< the frame being built: behind `frame` in the same memory */
    uint8_t *piece;      /**< for bulk_read: TRANSPORT_PIECE_BYTES behind that */
    struct copies *copies;    /**< into device memory: the host's, or `own_copies` */
    struct copies own_copies; /**< for a host without */
    struct slots slots;
    struct list jobs; /**< free jobs */
};

struct pair_ep {
    struct endpoint base;
    struct list_node node; /**< in rail->eps */
    /** Used by each poll. */
    uint8_t state;   /**< enum pair_state */
    bool due;        /**< progress has a step to take (due_progress) */
    bool loopback;   /**< both ends are this endpoint: one ring, one side */
    bool wants_room; /**< a frame or an offer found no room in the ring */
    bool failure_reported;
    uint32_t posted_count;
    uint32_t jobs_count;
    uint32_t copies;     /**< number of copies into device memory under way */
    uint64_t slots_used; /**< bit per offer of this side without an answer */
    /** Sends by PAIR_MECH_STAGE that wait to be offered, then sends through the ring; the
     *  first one of the latter is under way. */
    struct list jobs;
    struct list finished;   /**< bulks to complete from progress */
    struct pair_side *mine; /**< NULL until connected */
    struct pair_side *theirs;
    struct ring_rx rx;
    struct ring_tx tx;
    /** Bulk. */
    uint64_t slots_held;           /**< bit per offer of the peer without an answer */
    struct bulk *slot[PAIR_SLOTS]; /**< sends that this side has offered, by slot */
    struct list posted[PAIR_BUCKETS];
    struct list waiting;  /**< receives after PAIR_COPY_LATER */
    struct list borrowed; /**< receives that borrow, with a message that has come */
    /** Receive for the bulk that comes through the ring. NULL: none comes, or its bytes
     *  are dropped. */
    struct bulk *incoming;
    uint64_t incoming_left; /**< bytes of that bulk that have not come yet */
    /** Connecting, failing. */
    struct pair_header *area;
    struct ep_params params;
    tryst_status status; /**< why the endpoint is BROKEN */
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

/** Get the address where the host puts a receive's bytes. */
static inline uint8_t *pair_target(struct bulk *bulk)
{
    const struct pair_job *job = pair_op_of(bulk)->job;
    return __builtin_expect(!job, 1) ? bulk->data : job->slot->data;
}

/* --- for shm and self --- */

/** Open a rail of shm or self, zero but for this part. TRYST_OK, TRYST_E_NOMEM. */
tryst_status pair_rail_open(const struct rail_params *params,
                            const struct transport_ops *transport,
                            const struct pair_ops *ops, struct rail **rail_p);
/** Close and free the rail. */
void pair_rail_close(struct rail *base);

/** Open an endpoint in state OPENING, with a step due. TRYST_OK, TRYST_E_NOMEM. */
tryst_status pair_ep_open(struct rail *base, const struct ep_params *params,
                          struct endpoint **ep_p);

/** Write a fresh (zeroed) area's header. `initiator_nonce` belongs to side 0. */
void pair_area_init(struct pair_header *area, uint64_t ring_bytes,
                    uint64_t initiator_nonce, uint64_t responder_nonce);
/** Check that `area` has rings of that size and belongs to the endpoints with these
 *  nonces. NULL, or the fault. */
const char *pair_area_check(const struct pair_header *area, uint64_t ring_bytes,
                            uint64_t initiator_nonce, uint64_t responder_nonce);
/** Point the endpoint at an area that this process initialised or checked. */
void pair_attach(struct pair_ep *ep, struct pair_header *area, uint64_t ring_bytes);

/** End connecting, from pair_ops.connect; calls events->ready. */
void pair_connected(struct pair_ep *ep, const char *text);
void pair_refused(struct pair_ep *ep, const char *text);

/** End the data path: progress reports the failure and completes every bulk. */
void pair_fail(struct pair_ep *ep, tryst_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Check for room in the ring (ring_tx_room). TRYST_OK, TRYST_AGAIN. TRYST_E_PEER: the
 *  peer's tail is impossible, and the data path has ended. */
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

/** Ring the peer's doorbell if the peer sleeps and has set any of the bits `reasons`
 *  (PAIR_ASLEEP, …) in its `asleep`. */
void pair_wake(struct pair_ep *ep, uint32_t reasons);

/** Slots of struct transport_ops. */
int pair_progress(struct rail *base);
tryst_status pair_arm(struct rail *base);
void pair_ep_close(struct endpoint *base);
tryst_status pair_frame_begin(struct endpoint *base, size_t max, void **frame_p);
void pair_frame_commit(struct endpoint *base, size_t bytes);

#endif
