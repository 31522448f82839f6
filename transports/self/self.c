/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport between contexts of one process, and from a context to itself.
 *
 * One idea: the pair's common area is heap memory, found through a table of the process,
 * and the receiver copies straight from the sender's buffer. Two contexts in two threads
 * may close in any order: the area counts its holders, and a closing sender waits for a
 * reader in the middle of a piece (PAIR_READING in the sender's grant).
 * Invariant: an area is in the table from its publication until its responder claims it
 * or its initiator closes. A claim is checked by number and both nonces against the
 * table; no pointer from a message is used.
 *
 *   initiator                                  responder
 *     SELF_HELLO{cookie, nonces, number}  ──▶    claims the area
 *     ready                               ◀──    SELF_ANSWER{status}, ready
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "transports/pair/pair_bulk.h"

/* A common area: freed by its last holder. */
struct self_area {
    struct list_node node; /* in the process's table while unclaimed */
    uint64_t number;
    _Atomic uint32_t holders;
    uint64_t ring_bytes;
    struct pair_header *header;
    pthread_mutex_t lock; /* guards `reads` */
    struct list reads;    /* struct pair_job: copies by a device from either side */
};

/* Connect messages. They stay within the process. */
enum self_type { SELF_HELLO = 1, SELF_ANSWER = 2 };

struct self_message {
    uint32_t type;
    uint32_t status; /* HELLO: result of making the area; ANSWER: of claiming it */
    uint64_t cookie;
    uint64_t nonce;  /* nonce of the message's sender */
    uint64_t number; /* SELF_HELLO: number of the area */
};

enum self_step { STEP_START, STEP_WAIT, STEP_ANSWER, STEP_READY, STEP_REFUSED };

struct self_ep {
    struct pair_ep pair;
    struct self_area *area;
    enum self_step step;
    tryst_status answer;
};

static struct {
    pthread_mutex_t lock;
    struct list areas; /* unclaimed; under the lock */
    uint64_t number;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .areas = {{&table.areas.head, &table.areas.head}}};

/* --- areas --- */

static struct self_area *area_make(uint64_t ring_bytes, const struct ep_params *params)
{
    size_t bytes = pair_area_bytes(ring_bytes);
    struct self_area *area = mem_zalloc(sizeof *area);
    if (!area)
        return NULL;
    area->header = mem_alloc_aligned(PAIR_LINE_BYTES, bytes);
    if (!area->header) {
        mem_free(area);
        return NULL;
    }
    memset(area->header, 0, bytes);
    pair_area_init(area->header, ring_bytes, params->nonce, params->peer_nonce);
    area->ring_bytes = ring_bytes;
    pthread_mutex_init(&area->lock, NULL);
    list_init(&area->reads);
    atomic_init(&area->holders, 1);
    return area;
}

static void area_put(struct self_area *area)
{
    pthread_mutex_lock(&table.lock);
    list_remove(&area->node); /* no endpoint can claim the area any more */
    pthread_mutex_unlock(&table.lock);
    /* acq_rel: each holder's accesses to the area come before the free. */
    if (atomic_fetch_sub_explicit(&area->holders, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&area->lock);
    mem_free(area->header);
    mem_free(area);
}

static void area_publish(struct self_area *area)
{
    pthread_mutex_lock(&table.lock);
    area->number = ++table.number;
    list_push_back(&table.areas, &area->node);
    pthread_mutex_unlock(&table.lock);
}

/* Claim the area `number` of the endpoints with these nonces, and hold it. NULL: no such
 * area is in the table. */
static struct self_area *area_claim(uint64_t number, uint64_t initiator,
                                    uint64_t responder)
{
    struct self_area *found = NULL;
    pthread_mutex_lock(&table.lock);
    list_for_each_safe (&table.areas, node, after) {
        struct self_area *area = container_of(node, struct self_area, node);
        if (area->number != number)
            continue;
        if (pair_area_check(area->header, area->ring_bytes, initiator, responder))
            break;
        list_remove(node);
        atomic_fetch_add_explicit(&area->holders, 1, memory_order_relaxed);
        found = area;
        break;
    }
    pthread_mutex_unlock(&table.lock);
    return found;
}

/* --- connecting --- */

static tryst_status message_send(struct self_ep *ep, enum self_type type,
                                 tryst_status status)
{
    struct self_message message = {.type = type,
                                   .status = (uint32_t)status,
                                   .cookie = ep->pair.params.cookie,
                                   .nonce = ep->pair.params.nonce,
                                   .number = ep->area ? ep->area->number : 0};
    struct endpoint *base = &ep->pair.base;
    return base->rail->events->connect_send(base, &message, sizeof message, -1);
}

static void area_attach(struct self_ep *ep, struct self_area *area)
{
    ep->area = area;
    ep->pair.base.borrows = true;
    pair_attach(&ep->pair, area->header, area->ring_bytes);
}

/* Start connecting: the initiator makes the area and announces it. A loopback makes the
 * area and is ready. */
static void step_start(struct self_ep *ep)
{
    const struct ep_params *params = &ep->pair.params;
    ep->step = STEP_WAIT;
    if (!params->initiator && !params->loopback)
        return;
    struct self_area *area = area_make(pair_ep_rail(&ep->pair)->ring_bytes, params);
    if (area)
        area_attach(ep, area);
    if (params->loopback) {
        if (area)
            pair_connected(&ep->pair, "self: loopback, copied in place");
        else
            pair_refused(&ep->pair, "self: cannot allocate the ring: out of memory");
        return;
    }
    if (area)
        area_publish(area);
    if (message_send(ep, SELF_HELLO, area ? TRYST_OK : TRYST_E_NOMEM) != TRYST_OK ||
        !area)
        pair_refused(&ep->pair, area ? "self: the link closed while connecting"
                                     : "self: cannot allocate the ring: out of memory");
}

static void self_connect(struct pair_ep *pair)
{
    struct self_ep *ep = (struct self_ep *)pair;
    switch (ep->step) {
    case STEP_START: step_start(ep); break;
    case STEP_ANSWER:
        (void)message_send(ep, SELF_ANSWER, ep->answer);
        if (ep->answer == TRYST_OK)
            pair_connected(pair, "self: copied by the receiver from the sender's buffer");
        else
            pair_refused(pair, "self: the peer's area is not in this process");
        break;
    case STEP_READY:
        pair_connected(pair, "self: copied by the receiver from the sender's buffer");
        break;
    case STEP_REFUSED: pair_refused(pair, "self: the peer refused"); break;
    case STEP_WAIT: break;
    }
}

static void self_hello_handle(struct self_ep *ep, const struct self_message *message)
{
    const struct ep_params *params = &ep->pair.params;
    struct self_area *area = NULL;
    if (message->status == TRYST_OK)
        area = area_claim(message->number, params->peer_nonce, params->nonce);
    if (area)
        area_attach(ep, area);
    ep->answer = area ? TRYST_OK : TRYST_E_UNREACHABLE;
    ep->step = STEP_ANSWER;
    ep->pair.due = true;
}

static void self_message(struct endpoint *base, const void *data, size_t bytes, int fd)
{
    struct self_ep *ep = (struct self_ep *)base;
    const struct ep_params *params = &ep->pair.params;
    struct self_message message;
    (void)fd; /* these messages carry no descriptors */
    if (ep->pair.state != PAIR_OPENING || bytes != sizeof message)
        return;
    memcpy(&message, data, sizeof message);
    if (message.cookie != params->cookie || message.nonce != params->peer_nonce)
        return;
    if (message.type == SELF_HELLO && !params->initiator && ep->step <= STEP_WAIT) {
        self_hello_handle(ep, &message);
    } else if (message.type == SELF_ANSWER && params->initiator &&
               ep->step == STEP_WAIT) {
        ep->step = message.status == TRYST_OK ? STEP_READY : STEP_REFUSED;
        ep->pair.due = true;
    }
}

/* --- moving bytes --- */

/* Up to this size two copies through the ring take less time than an offer, one copy and
 * its answer. Measured: ../shm/README.md. */
enum { INLINE_BYTES = 512 };

static enum pair_mech self_choose(struct pair_ep *pair, struct bulk *bulk)
{
    (void)pair;
    if (bulk->bytes <= INLINE_BYTES && !bulk->memory)
        return PAIR_MECH_RING;
    pair_op_of(bulk)->where = (uint64_t)(uintptr_t)bulk->data;
    return bulk->memory ? PAIR_MECH_DEVICE : PAIR_MECH_READ;
}

static void self_denied(struct pair_ep *pair, enum pair_mech mech)
{
    pair_fail(pair, TRYST_E_PROTOCOL,
              "self: protocol error: the peer refuses mechanism %u", mech);
}

/* Mark the sender's grant as in use, for one piece. False: the grant is revoked. */
static bool reading_begin(_Atomic uint32_t *grant)
{
    uint32_t granted = 0;
    /* acquire: the reads of the buffer stay behind this. Partner: grant_revoke, after
     * which self_quiet sees PAIR_READING. */
    return atomic_compare_exchange_strong_explicit(
        grant, &granted, PAIR_READING, memory_order_acquire, memory_order_relaxed);
}

static enum pair_copy self_open(struct pair_ep *pair, const struct bulk *bulk,
                                uint64_t at, uint64_t bytes, void *to,
                                const void **data_p)
{
    const struct pair_op *op = pair_op_of((struct bulk *)bulk);
    (void)bytes;
    (void)to;
    if (op->mech != PAIR_MECH_READ)
        return PAIR_COPY_BAD;
    if (!reading_begin(&pair->theirs->grant))
        return PAIR_COPY_GONE;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it came as a number through the ring
    *data_p = (const uint8_t *)(uintptr_t)op->where + at;
    return PAIR_COPY_OK;
}

static void self_close(struct pair_ep *pair)
{
    /* release: the reads of the buffer come before this. Partner: self_quiet. */
    atomic_fetch_and_explicit(&pair->theirs->grant, ~(uint32_t)PAIR_READING,
                              memory_order_release);
}

/* Begin a device's copy from the sender's memory. The area lists the copy, so that a
 * sender that closes can poll it without this thread. */
static enum pair_copy self_device_read(struct pair_ep *pair, struct pair_job *job)
{
    struct self_area *area = ((struct self_ep *)pair)->area;
    pthread_mutex_lock(&area->lock);
    /* acquire: partner of grant_revoke. A sender that revokes takes the lock afterwards
     * (devices_quiet), so no copy begins unseen. */
    bool granted = !(atomic_load_explicit(&pair->theirs->grant, memory_order_acquire) &
                     PAIR_REVOKED);
    if (granted) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): it came as a number through the ring
        job->copy.src = (const void *)(uintptr_t)pair_op_of(job->bulk)->where;
        copies_start(pair_ep_rail(pair)->copies, &job->copy);
        job->region = pair->theirs;
        list_push_back(&area->reads, &job->source);
    }
    pthread_mutex_unlock(&area->lock);
    return granted ? PAIR_COPY_OK : PAIR_COPY_GONE;
}

static bool self_device_read_end(struct pair_ep *pair, struct pair_job *job)
{
    struct self_area *area = ((struct self_ep *)pair)->area;
    pthread_mutex_lock(&area->lock);
    list_remove(&job->source);
    pthread_mutex_unlock(&area->lock);
    return !(atomic_load_explicit(&pair->theirs->grant, memory_order_acquire) &
             PAIR_REVOKED);
}

/* True if every device copy from this side's memory has ended. */
static bool devices_quiet(struct pair_ep *pair)
{
    struct self_area *area = ((struct self_ep *)pair)->area;
    bool quiet = true;
    pthread_mutex_lock(&area->lock);
    list_for_each_safe (&area->reads, node, after) {
        const struct pair_job *job = container_of(node, struct pair_job, source);
        quiet = quiet && (job->region != pair->mine || copy_has_ended(&job->copy));
    }
    pthread_mutex_unlock(&area->lock);
    return quiet;
}

static bool self_quiet(struct pair_ep *pair)
{
    if (pair->mine && !devices_quiet(pair))
        return false;
    /* acquire: a reader's last loads come before this thread's next writes. Partner:
     * self_close. */
    return !pair->mine ||
           !(atomic_load_explicit(&pair->mine->grant, memory_order_acquire) &
             PAIR_READING);
}

static void self_detach(struct pair_ep *pair)
{
    struct self_ep *ep = (struct self_ep *)pair;
    if (ep->area)
        area_put(ep->area);
}

/* --- the ops tables --- */

static const struct pair_ops self_pair_ops = {
    .rail_bytes = sizeof(struct pair_rail),
    .ep_bytes = sizeof(struct self_ep),
    .connect = self_connect,
    .choose = self_choose,
    .denied = self_denied,
    .open = self_open,
    .close = self_close,
    .device_read = self_device_read,
    .device_read_end = self_device_read_end,
    .quiet = self_quiet,
    .detach = self_detach,
};

static tryst_status self_probe(const struct tryst_host *host, char *text)
{
    (void)host;
    snprintf(text, TRANSPORT_TEXT_MAX, "contexts of one process, copied in place");
    return TRYST_OK;
}

static tryst_status self_rail_open(const struct rail_params *params,
                                   struct rail **rail_p);

const struct transport_ops transport_self = {
    .name = "self",
    .struct_size = sizeof(struct transport_ops),
    .probe = self_probe,
    .rail_open = self_rail_open,
    .rail_close = pair_rail_close,
    .progress = pair_progress,
    .arm = pair_arm,
    .ep_open = pair_ep_open,
    .ep_message = self_message,
    .ep_close = pair_ep_close,
    .frame_begin = pair_frame_begin,
    .frame_commit = pair_frame_commit,
    .bulk_recv = pair_bulk_recv,
    .bulk_send = pair_bulk_send,
    .bulk_cancel = pair_bulk_cancel,
    .bulk_read = pair_bulk_read,
    .bulk_return = pair_bulk_return,
};

static tryst_status self_rail_open(const struct rail_params *params, struct rail **rail_p)
{
    return pair_rail_open(params, &transport_self, &self_pair_ops, rail_p);
}
