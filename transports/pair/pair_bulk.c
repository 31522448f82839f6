/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk between the two ends of a pair.
 *
 * One idea: the receiver moves the bytes. A sender offers an address under one of 64
 * slots, and the answer is a bit in a word of the shared area, so answers need no ring
 * space and never wait behind other entries. The bytes go through the ring only where the
 * receiver cannot read the sender's memory, or where the bulk is small. They may fill
 * half of the ring, so frames find room in the other half. By PAIR_MECH_STAGE (shm) the
 * sender first copies the bytes to memory that the receiver can read.
 *
 *   sender                                        receiver
 *     OFFER{tag, bytes, where, slot}  ─ ring ─▶   posted? read piece by piece
 *     slot's bit in `answered`        ◀────────   TAKEN: done, or no such receive
 *                                                 RETRY, DENIED: cannot; use the ring
 *     FIRST{tag, bytes, data} PIECE…  ─ ring ─▶   copy out; no answer needed
 *
 * A receive that borrows leaves an offered message where it is until its owner returns
 * it. For a message that comes through the ring it allocates a buffer.
 *
 * Invariant: each bulk that was taken is in exactly one place. A send: finished, jobs,
 * slot[] or, by PAIR_MECH_STAGE, rail->reads. A receive: finished, posted[], waiting,
 * rail->reads, borrowed, `incoming`, or a job that copies (pair_device.c).
 */
#include "pair_bulk.h"

#include "core/memory/alloc.h"
#include "pair_device.h"

#define BIT(slot) (UINT64_C(1) << (slot))

/* Get the most bytes of one piece: with its head, its word and the line behind it, a
 * quarter of the ring. The reader gives space back a quarter at a time, so even when it
 * has read everything, up to a quarter counts as in use. A piece then fits into half of
 * the ring, which is its limit, so pieces never get stuck. */
static uint64_t piece_max(const struct pair_ep *ep)
{
    return ring_payload_max(ep->tx.bytes / 4) - sizeof(struct pair_first);
}

static struct pair_op *op_start(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    *op = (struct pair_op){.ep = ep, .status = TRYST_OK};
    return op;
}

/* Release what a receive holds: its borrowed message, or memory for the device. */
static void hold_drop(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    op->is_lent = false;
    if (!bulk->borrowed) {
        pair_job_drop(bulk);
        return;
    }
    if (op->lent)
        pair_ep_rail(ep)->ops->lent_back(ep, bulk);
    op->lent = NULL;
    mem_free(bulk->data); /* of a message that came through the ring */
    bulk->data = NULL;
}

/* Free what a send by PAIR_MECH_STAGE holds. */
static void unstage(struct pair_ep *ep, struct bulk *bulk)
{
    if (__builtin_expect(pair_op_of(bulk)->mech == PAIR_MECH_STAGE, 0))
        pair_ep_rail(ep)->ops->unstage(ep, bulk);
}

/* Complete the bulk from progress, later. */
static void finish(struct pair_ep *ep, struct bulk *bulk, tryst_status status)
{
    pair_op_of(bulk)->status = status;
    hold_drop(ep, bulk);
    unstage(ep, bulk);
    list_push_back(&ep->finished, &pair_op_of(bulk)->node);
}

int pair_finished_complete(struct pair_ep *ep)
{
    struct list told;
    struct list_node *node;
    int count = 0;
    list_init(&told);
    /* bulks that callbacks finish wait for the next call */
    list_append(&told, &ep->finished);
    while ((node = list_pop_front(&told))) {
        struct bulk *bulk = pair_bulk_of(node);
        struct pair_op *op = pair_op_of(bulk);
        bulk->done(bulk, op->status, op->bytes);
        count++;
    }
    return count;
}

/* --- receives --- */

static struct list *bucket(struct pair_ep *ep, uint64_t tag)
{
    return &ep->posted[tag % PAIR_BUCKETS];
}

static void post(struct pair_ep *ep, struct bulk *bulk)
{
    list_push_back(bucket(ep, bulk->tag), &pair_op_of(bulk)->node);
    ep->posted_count++;
}

/* Find and take out the receive for a message of `bytes` bytes with `tag`, or NULL. */
static struct bulk *receive_match(struct pair_ep *ep, uint64_t tag, uint64_t bytes)
{
    list_for_each_safe (bucket(ep, tag), node, after) {
        struct bulk *bulk = pair_bulk_of(node);
        if (bulk->tag != tag)
            continue;
        list_remove(node);
        ep->posted_count--;
        pair_op_of(bulk)->bytes = bytes;
        return bulk;
    }
    return NULL;
}

tryst_status pair_bulk_recv(struct endpoint *base, struct bulk *bulk)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    if (ep->state != PAIR_READY && ep->state != PAIR_OPENING)
        return TRYST_E_PEER;
    if (!rail_takes(base->rail, bulk))
        return TRYST_E_UNSUPPORTED;
    if (ep->posted_count >= PAIR_POSTED_MAX)
        return TRYST_AGAIN;
    op_start(ep, bulk);
    post(ep, bulk);
    return TRYST_OK;
}

/* Take the bulk out of ep->borrowed, and free the sender's buffer. */
static void borrowed_remove(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    list_remove(&op->node);
    if (op->mech != PAIR_MECH_RING)
        pair_answer_send(ep, op->slot, PAIR_ANSWER_TAKEN);
    hold_drop(ep, bulk);
}

void pair_bulk_cancel(struct endpoint *base, struct bulk *bulk)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    if (pair_op_of(bulk)->is_lent) {
        borrowed_remove(ep, bulk);
        finish(ep, bulk, TRYST_E_CANCELED);
        return;
    }
    if (bulk->borrowed && ep->incoming == bulk) {
        ep->incoming = NULL;
        finish(ep, bulk, TRYST_E_CANCELED);
        return;
    }
    list_for_each_safe (bucket(ep, bulk->tag), node, after) {
        if (pair_bulk_of(node) != bulk)
            continue;
        list_remove(node);
        ep->posted_count--;
        finish(ep, bulk, TRYST_E_CANCELED);
        return;
    }
    /* Not posted any more: the message has come, and the bulk completes with the
     * message's outcome. */
}

void pair_answer_send(struct pair_ep *ep, unsigned slot, uint8_t answer)
{
    ep->slots_held &= ~BIT(slot);
    /* relaxed: published by the next line. */
    atomic_store_explicit(&ep->theirs->answer[slot], answer, memory_order_relaxed);
    /* release: the reads of the sender's buffer and the answer come first. Partner:
     * pair_answers_handle. */
    atomic_fetch_or_explicit(&ep->theirs->answered, BIT(slot), memory_order_release);
    pair_wake(ep, PAIR_ASLEEP);
}

static void unexpected(struct pair_ep *ep, uint64_t tag, uint64_t bytes)
{
    ep->base.rail->events->unexpected(&ep->base, tag, bytes);
}

/* Queue a receive behind all receives of any peer that are at least as urgent. Progress
 * reads the first of the queue. */
static void read_queue(struct pair_rail *rail, struct bulk *bulk)
{
    struct list_node *place = &rail->reads.head;
    while (place->prev != &rail->reads.head &&
           urgency_before(&bulk->urgency, &pair_bulk_of(place->prev)->urgency))
        place = place->prev;
    list_insert_before(place, &pair_op_of(bulk)->node);
}

static void read_refuse(struct pair_ep *ep, struct bulk *bulk, uint8_t answer);

static void offer_bad(struct pair_ep *ep, const struct pair_op *op)
{
    pair_fail(ep, TRYST_E_PROTOCOL,
              "bulk: the peer offered memory that is not its own: mechanism %u, region "
              "%llu, where %llu, %llu bytes",
              op->mech, (unsigned long long)op->region, (unsigned long long)op->where,
              (unsigned long long)op->bytes);
}

/* Leave a message that has come where it is, for bulk_read. */
static void borrow(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    op->is_lent = true;
    list_push_back(&ep->borrowed, &op->node);
    bulk->borrowed(bulk, op->bytes);
}

/* Hold what the offer lies in. */
static enum pair_copy lend(struct pair_ep *ep, struct bulk *bulk)
{
    const struct pair_ops *ops = pair_ep_rail(ep)->ops;
    if (pair_op_of(bulk)->mech == PAIR_MECH_DEVICE)
        return PAIR_COPY_RETRY; /* as for each receive in host memory */
    return ops->lend ? ops->lend(ep, bulk) : PAIR_COPY_OK;
}

static void offer_borrow(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    op->is_lent = true;
    switch (lend(ep, bulk)) {
    case PAIR_COPY_OK: borrow(ep, bulk); break;
    case PAIR_COPY_LATER: list_push_back(&ep->waiting, &op->node); break;
    case PAIR_COPY_RETRY: read_refuse(ep, bulk, PAIR_ANSWER_RETRY); break;
    case PAIR_COPY_DENIED: read_refuse(ep, bulk, PAIR_ANSWER_DENIED); break;
    case PAIR_COPY_GONE:
    case PAIR_COPY_BAD:
        offer_bad(ep, op);
        finish(ep, bulk, TRYST_E_PEER);
        break;
    }
}

static void offer_handle(struct pair_ep *ep, const struct pair_offer *offer)
{
    struct bulk *bulk = receive_match(ep, offer->tag, offer->bytes);
    if (!bulk || offer->bytes > bulk->bytes) {
        pair_answer_send(ep, offer->slot, PAIR_ANSWER_TAKEN);
        if (bulk)
            finish(ep, bulk, TRYST_E_MISMATCH);
        else
            unexpected(ep, offer->tag, offer->bytes);
        return;
    }
    struct pair_op *op = pair_op_of(bulk);
    if (bulk->memory && offer->mech != PAIR_MECH_DEVICE && !pair_slot_get(ep, bulk)) {
        pair_answer_send(ep, offer->slot, PAIR_ANSWER_TAKEN);
        finish(ep, bulk, TRYST_E_NOMEM);
        return;
    }
    op->where = offer->where;
    op->region = offer->region;
    op->mech = (uint8_t)offer->mech;
    op->slot = (uint8_t)offer->slot;
    ep->slots_held |= BIT(offer->slot);
    if (offer->sort_key < bulk->urgency.sort_key)
        bulk->urgency.sort_key = offer->sort_key;
    if (bulk->borrowed)
        offer_borrow(ep, bulk);
    else
        read_queue(pair_ep_rail(ep), bulk);
}

static void offer_entry(struct pair_ep *ep, struct ring_entry entry)
{
    struct pair_offer offer;
    if (entry.bytes != sizeof offer) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: an offer of %u bytes", entry.bytes);
        return;
    }
    ring_rx_copy(&ep->rx, 0, &offer, sizeof offer);
    if (offer.slot >= PAIR_SLOTS || (ep->slots_held & BIT(offer.slot)) ||
        offer.bytes > ep->base.rail->bulk_max ||
        (offer.mech != PAIR_MECH_READ && offer.mech != PAIR_MECH_MAP &&
         offer.mech != PAIR_MECH_DEVICE)) {
        pair_fail(ep, TRYST_E_PROTOCOL,
                  "shared ring: an offer with slot %u, mechanism %u", offer.slot,
                  offer.mech);
        return;
    }
    if (offer.where > UINT64_MAX - offer.bytes) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: an offer of %llu bytes, where %llu",
                  (unsigned long long)offer.bytes, (unsigned long long)offer.where);
        return;
    }
    offer_handle(ep, &offer);
}

/* End a receive that was read completely, or that cannot be read. */
static void read_end(struct pair_ep *ep, struct bulk *bulk, tryst_status status)
{
    struct pair_op *op = pair_op_of(bulk);
    list_remove(&op->node);
    pair_answer_send(ep, op->slot, PAIR_ANSWER_TAKEN);
    if (op->job && status == TRYST_OK) {
        pair_slot_place(ep, bulk);
        return;
    }
    pair_job_drop(bulk);
    bulk->done(bulk, status, status == TRYST_OK ? op->bytes : op->moved);
}

static void read_refuse(struct pair_ep *ep, struct bulk *bulk, uint8_t answer)
{
    struct pair_op *op = pair_op_of(bulk);
    uint8_t slot = op->slot;
    list_remove(&op->node);
    hold_drop(ep, bulk);
    op_start(ep, bulk);
    post(ep, bulk); /* before the answer, after which the sender sends again */
    pair_answer_send(ep, slot, answer);
}

/* Begin to read an offer of device memory: one piece, and its own completion. */
static enum pair_copy device_begin(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    enum pair_copy got = pair_device_read(ep, bulk);
    if (got == PAIR_COPY_OK)
        list_remove(&op->node);
    return got;
}

static enum pair_copy confirm(struct pair_ep *ep, const struct bulk *bulk)
{
    const struct pair_ops *ops = pair_ep_rail(ep)->ops;
    return ops->confirm ? ops->confirm(ep, bulk) : PAIR_COPY_OK;
}

/* Copy the next `bytes` bytes of the offer into the receive's buffer. */
static enum pair_copy piece_copy(struct pair_ep *ep, struct bulk *bulk, uint64_t bytes)
{
    const struct pair_ops *ops = pair_ep_rail(ep)->ops;
    const struct pair_op *op = pair_op_of(bulk);
    uint8_t *to = pair_target(bulk) + op->moved;
    const void *data = to;
    enum pair_copy opened = ops->open(ep, bulk, op->moved, bytes, to, &data);
    if (opened != PAIR_COPY_OK)
        return opened;
    if (data != to)
        memcpy(to, data, bytes);
    if (ops->close)
        ops->close(ep);
    return op->moved + bytes == op->bytes ? confirm(ep, bulk) : PAIR_COPY_OK;
}

/* Get the bytes of the next piece to copy. */
static uint64_t piece_bytes(const struct pair_op *op)
{
    uint64_t left = op->bytes - op->moved;
    return left < TRANSPORT_PIECE_BYTES ? left : TRANSPORT_PIECE_BYTES;
}

static void stage_advance(struct pair_ep *ep, struct bulk *bulk);

int pair_reads_advance(struct pair_rail *rail)
{
    struct bulk *bulk = pair_bulk_of(list_first(&rail->reads));
    struct pair_op *op = pair_op_of(bulk);
    struct pair_ep *ep = op->ep;
    if (bulk->borrowed) { /* its region has come */
        list_remove(&op->node);
        offer_borrow(ep, bulk);
        return 1;
    }
    if (rail->base.ahead && !urgency_before(&bulk->urgency, rail->base.ahead))
        return 0;
    uint64_t bytes = piece_bytes(op);
    rail->base.copied_bytes = bytes;
    if (op->mech == PAIR_MECH_STAGE) {
        stage_advance(ep, bulk);
        return 1;
    }
    bool device = op->mech == PAIR_MECH_DEVICE;
    switch (device ? device_begin(ep, bulk) : piece_copy(ep, bulk, bytes)) {
    case PAIR_COPY_OK:
        if (device)
            break;
        op->moved += bytes;
        if (op->moved == op->bytes)
            read_end(ep, bulk, TRYST_OK);
        break;
    case PAIR_COPY_LATER:
        list_remove(&op->node);
        list_push_back(&ep->waiting, &op->node);
        break;
    case PAIR_COPY_RETRY: read_refuse(ep, bulk, PAIR_ANSWER_RETRY); break;
    case PAIR_COPY_DENIED: read_refuse(ep, bulk, PAIR_ANSWER_DENIED); break;
    case PAIR_COPY_GONE: read_end(ep, bulk, TRYST_E_PEER); break;
    case PAIR_COPY_BAD:
        offer_bad(ep, op);
        read_end(ep, bulk, TRYST_E_PEER);
        break;
    }
    return 1;
}

void pair_reads_resume(struct pair_ep *ep)
{
    struct list_node *node;
    while ((node = list_pop_front(&ep->waiting)))
        read_queue(pair_ep_rail(ep), pair_bulk_of(node));
}

/* --- borrowed messages --- */

/* Note how a read of a borrowed message has failed. */
static tryst_status borrowed_fail(struct pair_ep *ep, struct bulk *bulk,
                                  enum pair_copy outcome)
{
    switch (outcome) {
    case PAIR_COPY_RETRY: read_refuse(ep, bulk, PAIR_ANSWER_RETRY); return TRYST_AGAIN;
    case PAIR_COPY_DENIED: read_refuse(ep, bulk, PAIR_ANSWER_DENIED); return TRYST_AGAIN;
    case PAIR_COPY_BAD:
        offer_bad(ep, pair_op_of(bulk));
        return TRYST_E_PEER; /* pair_bulk_end follows */
    default:
        borrowed_remove(ep, bulk);
        finish(ep, bulk, TRYST_E_PEER);
        return TRYST_E_PEER;
    }
}

tryst_status pair_bulk_read(struct endpoint *base, struct bulk *bulk, size_t at,
                            size_t bytes, bulk_use use, void *arg)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    const struct pair_ops *ops = pair_ep_rail(ep)->ops;
    const struct pair_op *op = pair_op_of(bulk);
    uint8_t *piece = pair_ep_rail(ep)->piece;
    assert(op->is_lent && at <= op->bytes && bytes <= op->bytes - at);
    assert(bytes <= TRANSPORT_PIECE_BYTES);
    if (ep->state != PAIR_READY)
        return TRYST_E_PEER;
    if (op->mech == PAIR_MECH_RING) {
        use(arg, (const uint8_t *)bulk->data + at, bytes);
        return TRYST_OK;
    }
    const void *data = piece;
    enum pair_copy opened = ops->open(ep, bulk, at, bytes, piece, &data);
    if (opened != PAIR_COPY_OK)
        return borrowed_fail(ep, bulk, opened);
    use(arg, data, bytes);
    if (ops->close)
        ops->close(ep);
    return TRYST_OK;
}

tryst_status pair_bulk_return(struct endpoint *base, struct bulk *bulk)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    bool by_ring = pair_op_of(bulk)->mech == PAIR_MECH_RING;
    assert(pair_op_of(bulk)->is_lent);
    if (ep->state != PAIR_READY)
        return TRYST_E_PEER;
    enum pair_copy counts = by_ring ? PAIR_COPY_OK : confirm(ep, bulk);
    if (counts != PAIR_COPY_OK)
        return borrowed_fail(ep, bulk, counts);
    borrowed_remove(ep, bulk);
    return TRYST_OK;
}

/* --- copies through the ring: receiving --- */

/* Copy the payload, from byte `skip` on, as the next piece of `incoming`. */
static void piece_receive(struct pair_ep *ep, struct ring_entry entry, uint32_t skip)
{
    uint32_t bytes = entry.bytes - skip;
    struct bulk *bulk = ep->incoming;
    if (bytes > ep->incoming_left || (bytes == 0 && ep->incoming_left > 0)) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: a piece of %u bytes", bytes);
        return;
    }
    ep->incoming_left -= bytes;
    if (!bulk)
        return;
    struct pair_op *op = pair_op_of(bulk);
    ring_rx_copy(&ep->rx, skip, pair_target(bulk) + op->moved, bytes);
    op->moved += bytes;
    if (ep->incoming_left > 0)
        return;
    ep->incoming = NULL;
    if (bulk->borrowed)
        borrow(ep, bulk);
    else if (op->job)
        pair_slot_place(ep, bulk);
    else
        finish(ep, bulk, TRYST_OK);
}

/* Get memory for a message of `bytes` bytes that comes through the ring, where the
 * receive has none, or where the host cannot write it. False: out of memory. */
static bool memory_get(struct pair_ep *ep, struct bulk *bulk, uint64_t bytes)
{
    if (bulk->borrowed)
        return (bulk->data = mem_alloc(bytes ? bytes : 1)) != NULL;
    return !bulk->memory || !bytes || pair_slot_get(ep, bulk);
}

static void first_entry(struct pair_ep *ep, struct ring_entry entry)
{
    struct pair_first first;
    if (entry.bytes < sizeof first || ep->incoming_left > 0) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: a bulk begins out of turn");
        return;
    }
    ring_rx_copy(&ep->rx, 0, &first, sizeof first);
    if (first.bytes > ep->base.rail->bulk_max) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: a bulk of impossible size");
        return;
    }
    struct bulk *bulk = receive_match(ep, first.tag, first.bytes);
    bool fits = bulk && first.bytes <= bulk->bytes;
    bool lands = fits && memory_get(ep, bulk, first.bytes);
    ep->incoming_left = first.bytes;
    ep->incoming = lands ? bulk : NULL;
    piece_receive(ep, entry, sizeof first);
    if (bulk && !lands)
        finish(ep, bulk, fits ? TRYST_E_NOMEM : TRYST_E_MISMATCH);
    if (!bulk && ep->state == PAIR_READY)
        unexpected(ep, first.tag, first.bytes);
}

void pair_bulk_entry(struct pair_ep *ep, struct ring_entry entry)
{
    switch (entry.kind) {
    case PAIR_OFFER: offer_entry(ep, entry); break;
    case PAIR_FIRST: first_entry(ep, entry); break;
    default:
        piece_receive(ep, entry, 0);
        break; /* PAIR_PIECE; `incoming_left` decides whether it fits */
    }
}

/* --- sends --- */

/* Put one piece into the ring. False: there is no room now. */
static bool piece_put(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    struct pair_first first = {.tag = bulk->tag, .bytes = bulk->bytes};
    uint32_t head = op->started ? 0 : sizeof first;
    uint64_t left = bulk->bytes - op->moved;
    uint64_t bytes = left < piece_max(ep) ? left : piece_max(ep);
    if (pair_room(ep, head + bytes, ep->tx.bytes / 2) != TRYST_OK)
        return false;
    ring_tx_put(&ep->tx, op->started ? PAIR_PIECE : PAIR_FIRST, &first, head,
                (const uint8_t *)bulk->data + op->moved, (uint32_t)bytes);
    op->started = 1;
    op->moved += bytes;
    pair_wake(ep, PAIR_ASLEEP);
    return true;
}

/* Offer the bytes for reading. */
static tryst_status offer_put(struct pair_ep *ep, struct bulk *bulk, enum pair_mech mech)
{
    struct pair_op *op = pair_op_of(bulk);
    if (~ep->slots_used == 0)
        return TRYST_AGAIN;
    tryst_status status = pair_room(ep, sizeof(struct pair_offer), ep->tx.bytes);
    if (status != TRYST_OK) {
        ep->wants_room = true;
        return status;
    }
    unsigned slot = (unsigned)__builtin_ctzll(~ep->slots_used);
    struct pair_offer offer = {.tag = bulk->tag,
                               .bytes = bulk->bytes,
                               .where = op->where,
                               .region = op->region,
                               .slot = slot,
                               .mech = mech == PAIR_MECH_STAGE ? PAIR_MECH_MAP : mech,
                               .sort_key = bulk->urgency.sort_key};
    op->mech = (uint8_t)mech;
    op->bytes = bulk->bytes;
    ep->slots_used |= BIT(slot);
    ep->slot[slot] = bulk;
    ring_tx_put(&ep->tx, PAIR_OFFER, &offer, sizeof offer, NULL, 0);
    pair_wake(ep, PAIR_ASLEEP);
    return TRYST_OK;
}

int pair_jobs_advance(struct pair_ep *ep)
{
    struct list_node *node;
    int count = 0;
    while ((node = list_first(&ep->jobs))) {
        struct bulk *bulk = pair_bulk_of(node);
        bool staged = pair_op_of(bulk)->mech == PAIR_MECH_STAGE;
        if (staged ? offer_put(ep, bulk, PAIR_MECH_STAGE) != TRYST_OK
                   : !piece_put(ep, bulk))
            break;
        count++;
        if (!staged && pair_op_of(bulk)->moved < bulk->bytes)
            continue;
        list_remove(node);
        ep->jobs_count--;
        if (!staged)
            finish(ep, bulk, TRYST_OK);
    }
    return count;
}

static void job_add(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = op_start(ep, bulk);
    op->bytes = bulk->bytes;
    list_push_back(&ep->jobs, &op->node);
    ep->jobs_count++;
}

/* --- sends by PAIR_MECH_STAGE --- */

/* Queue the bulk among the reads, so that a pass copies one piece, of the most urgent
 * bulk. */
static void stage_begin(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    op->mech = PAIR_MECH_STAGE;
    op->bytes = bulk->bytes;
    read_queue(pair_ep_rail(ep), bulk);
}

/* Copy one piece, and offer the bulk after the last one. An offer that finds no room goes
 * before the sends through the ring: it is a small entry. */
static void stage_advance(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    uint64_t bytes = piece_bytes(op);
    pair_ep_rail(ep)->ops->stage(ep, bulk, bytes);
    op->moved += bytes;
    if (op->moved < op->bytes)
        return;
    list_remove(&op->node);
    if (ep->state == PAIR_READY && offer_put(ep, bulk, PAIR_MECH_STAGE) == TRYST_OK)
        return;
    list_push_front(&ep->jobs, &op->node);
    ep->jobs_count++;
}

tryst_status pair_bulk_send(struct endpoint *base, struct bulk *bulk)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    if (ep->state != PAIR_READY)
        return ep->state == PAIR_OPENING ? TRYST_AGAIN : TRYST_E_PEER;
    if (!rail_takes(base->rail, bulk))
        return TRYST_E_UNSUPPORTED;
    op_start(ep, bulk);
    enum pair_mech mech = pair_ep_rail(ep)->ops->choose(ep, bulk);
    if (mech == PAIR_MECH_NONE)
        return TRYST_E_UNSUPPORTED;
    if (mech == PAIR_MECH_FULL ||
        (mech == PAIR_MECH_RING && ep->jobs_count >= PAIR_SLOTS))
        return TRYST_AGAIN;
    if (mech == PAIR_MECH_STAGE) {
        stage_begin(ep, bulk);
        return TRYST_OK;
    }
    if (mech != PAIR_MECH_RING)
        return offer_put(ep, bulk, mech);
    job_add(ep, bulk);
    (void)pair_jobs_advance(ep);
    return TRYST_OK;
}

static void answer_handle(struct pair_ep *ep, unsigned slot)
{
    struct bulk *bulk = ep->slot[slot];
    /* relaxed: the exchange of `answered` acquired it. */
    uint8_t answer = atomic_load_explicit(&ep->mine->answer[slot], memory_order_relaxed);
    ep->slot[slot] = NULL;
    ep->slots_used &= ~BIT(slot);
    unstage(ep, bulk);
    if (answer == PAIR_ANSWER_TAKEN) {
        bulk->done(bulk, TRYST_OK, bulk->bytes);
        return;
    }
    if (answer == PAIR_ANSWER_DENIED)
        pair_ep_rail(ep)->ops->denied(ep, pair_op_of(bulk)->mech);
    else if (answer != PAIR_ANSWER_RETRY)
        pair_fail(ep, TRYST_E_PROTOCOL, "shared segment: an answer of kind %u", answer);
    if (bulk->memory) /* the host cannot put device memory through the ring */
        bulk->done(bulk, TRYST_E_UNSUPPORTED, 0);
    else
        job_add(ep, bulk);
}

int pair_answers_handle(struct pair_ep *ep)
{
    /* relaxed: keeps the line shared while no answer comes. */
    if (atomic_load_explicit(&ep->mine->answered, memory_order_relaxed) == 0)
        return 0;
    /* acquire: the reader is done with the buffers; pairs with pair_answer_send. */
    uint64_t bits =
        atomic_exchange_explicit(&ep->mine->answered, 0, memory_order_acquire);
    int count = 0;
    if (bits & ~ep->slots_used) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared segment: an answer to no offer");
        return 1;
    }
    /* A callback may close the endpoint; the other sends then complete as canceled. */
    for (; bits && ep->state == PAIR_READY; bits &= bits - 1, count++)
        answer_handle(ep, (unsigned)__builtin_ctzll(bits));
    return count;
}

/* --- the end --- */

static void all_finish(struct pair_ep *ep, struct list *list, tryst_status status)
{
    struct list_node *node;
    while ((node = list_pop_front(list)))
        finish(ep, pair_bulk_of(node), status);
}

static void reads_finish(struct pair_ep *ep, tryst_status status)
{
    list_for_each_safe (&pair_ep_rail(ep)->reads, node, after) {
        struct bulk *bulk = pair_bulk_of(node);
        if (pair_op_of(bulk)->ep != ep)
            continue;
        list_remove(node);
        finish(ep, bulk, status);
    }
}

void pair_bulk_end(struct pair_ep *ep, tryst_status status)
{
    for (unsigned i = 0; i < PAIR_BUCKETS; i++)
        all_finish(ep, &ep->posted[i], status);
    ep->posted_count = 0;
    all_finish(ep, &ep->jobs, status);
    ep->jobs_count = 0;
    all_finish(ep, &ep->waiting, status);
    all_finish(ep, &ep->borrowed, status);
    reads_finish(ep, status);
    if (ep->incoming)
        finish(ep, ep->incoming, status);
    ep->incoming = NULL;
    for (; ep->slots_used; ep->slots_used &= ep->slots_used - 1)
        finish(ep, ep->slot[__builtin_ctzll(ep->slots_used)], status);
    (void)pair_finished_complete(ep);
}
