/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rails, endpoints, frames and sleeping over shared rings.
 *
 * One idea: an endpoint changes its state only in calls from above and in its own turn of
 * pair_progress, and is freed only in that turn. So callbacks may call any function but
 * progress.
 * Invariant: an endpoint outside READY reads and writes no word of the shared area but
 * its own grant and `asleep`.
 */
#include "pair.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/memory/alloc.h"
#include "pair_bulk.h"
#include "pair_device.h"

static_assert(PAIR_FRAME_MAX >= TRANSPORT_FRAME_BYTES, "the contract");
static_assert(PAIR_FRAME_MAX + 2 * PAIR_LINE_BYTES <=
                  PAIR_RING_BYTES_MIN - PAIR_RING_BYTES_MIN / 4,
              "beside a quarter that is not given back");

/* Entries handled in one endpoint's turn, so that one busy peer does not starve the
 * others. */
enum { ENTRIES_PER_PASS = 32 };

/* --- rails --- */

static uint64_t ring_bytes_configured(const struct tryst_host *host)
{
    uint64_t bytes = host->config_number(host, "shm_ring_bytes");
    if (bytes < PAIR_RING_BYTES_MIN)
        bytes = PAIR_RING_BYTES_MIN;
    if (bytes > PAIR_RING_BYTES_MAX)
        bytes = PAIR_RING_BYTES_MAX;
    return bytes & ~(uint64_t)(PAIR_LINE_BYTES - 1);
}

tryst_status pair_rail_open(const struct rail_params *params,
                            const struct transport_ops *transport,
                            const struct pair_ops *ops, struct rail **rail_p)
{
    static_assert(PAIR_FRAME_MAX % PAIR_LINE_BYTES == 0, "frame_out begins at a line");
    struct pair_rail *rail = mem_zalloc(ops->rail_bytes);
    if (!rail)
        return TRYST_E_NOMEM;
    rail->frame =
        mem_alloc_aligned(PAIR_LINE_BYTES, 2 * PAIR_FRAME_MAX + TRANSPORT_PIECE_BYTES);
    if (!rail->frame) {
        mem_free(rail);
        return TRYST_E_NOMEM;
    }
    rail->frame_out = rail->frame + PAIR_FRAME_MAX / sizeof *rail->frame;
    rail->piece = (uint8_t *)rail->frame + (size_t)2 * PAIR_FRAME_MAX;
    rail->base = (struct rail){.ops = transport,
                               .events = params->events,
                               .index = params->index,
                               .tag_bits = 64,
                               .frame_max = PAIR_FRAME_MAX,
                               .bulk_max = UINT64_C(1) << 48,
                               .posted_max = PAIR_POSTED_MAX,
                               .memory_kinds = 1u << TRYST_MEMORY_CUDA};
    rail->ops = ops;
    rail->host = params->host;
    rail->ring_bytes = ring_bytes_configured(params->host);
    list_init(&rail->eps);
    list_init(&rail->reads);
    pair_devices_init(rail);
    *rail_p = &rail->base;
    return TRYST_OK;
}

void pair_rail_close(struct rail *base)
{
    struct pair_rail *rail = (struct pair_rail *)base;
    assert(list_empty(&rail->eps) && "every endpoint has reported closed");
    pair_devices_end(rail);
    mem_free(rail->frame);
    mem_free(rail);
}

/* --- endpoints --- */

tryst_status pair_ep_open(struct rail *base, const struct ep_params *params,
                          struct endpoint **ep_p)
{
    struct pair_rail *rail = (struct pair_rail *)base;
    struct pair_ep *ep = mem_zalloc(rail->ops->ep_bytes);
    if (!ep)
        return TRYST_E_NOMEM;
    ep->base = (struct endpoint){.rail = base, .arg = params->arg};
    ep->state = PAIR_OPENING;
    ep->due = true;
    ep->loopback = params->loopback;
    ep->params = *params;
    list_init(&ep->jobs);
    list_init(&ep->finished);
    list_init(&ep->waiting);
    list_init(&ep->borrowed);
    for (unsigned i = 0; i < PAIR_BUCKETS; i++)
        list_init(&ep->posted[i]);
    list_push_back(&rail->eps, &ep->node);
    *ep_p = &ep->base;
    return TRYST_OK;
}

void pair_area_init(struct pair_header *area, uint64_t ring_bytes,
                    uint64_t initiator_nonce, uint64_t responder_nonce)
{
    area->magic = PAIR_MAGIC;
    area->version = PAIR_VERSION;
    area->header_bytes = PAIR_HEADER_BYTES;
    area->ring_bytes = ring_bytes;
    area->nonce[0] = initiator_nonce;
    area->nonce[1] = responder_nonce;
}

const char *pair_area_check(const struct pair_header *area, uint64_t ring_bytes,
                            uint64_t initiator_nonce, uint64_t responder_nonce)
{
    if (area->magic != PAIR_MAGIC)
        return "not a segment of Tryst";
    if (area->version != PAIR_VERSION)
        return "the segment has another layout version";
    if (area->header_bytes != PAIR_HEADER_BYTES || area->ring_bytes != ring_bytes)
        return "the segment's sizes are not as announced";
    if (area->nonce[0] != initiator_nonce || area->nonce[1] != responder_nonce)
        return "the segment belongs to other endpoints (nonces differ)";
    return NULL;
}

void pair_attach(struct pair_ep *ep, struct pair_header *area, uint64_t ring_bytes)
{
    /* A loopback writes to itself: side 0 and ring 0 serve both directions. */
    unsigned me = ep->params.initiator || ep->loopback ? 0 : 1;
    unsigned peer = ep->loopback ? 0 : 1 - me;
    uint8_t *rings = (uint8_t *)area + PAIR_HEADER_BYTES;
    ep->area = area;
    ep->mine = &area->side[me];
    ep->theirs = &area->side[peer];
    ep->tx = (struct ring_tx){.data = rings + me * ring_bytes,
                              .tail = &area->ring[me].tail,
                              .bytes = ring_bytes,
                              .lap = 1};
    ep->rx = (struct ring_rx){.data = rings + peer * ring_bytes,
                              .tail = &area->ring[peer].tail,
                              .bytes = ring_bytes,
                              .lap = 1};
}

void pair_connected(struct pair_ep *ep, const char *text)
{
    ep->state = PAIR_READY;
    ep->due = false;
    ep->base.rail->events->ready(&ep->base, TRYST_OK, text);
}

void pair_refused(struct pair_ep *ep, const char *text)
{
    ep->state = PAIR_REFUSED;
    ep->due = false;
    ep->base.rail->events->ready(&ep->base, TRYST_E_UNREACHABLE, text);
}

/* Revoke the grant: from here on a peer's reads of this side's memory do not count. */
static void grant_revoke(struct pair_ep *ep)
{
    /* seq_cst read-modify-write: later writes to the buffers cannot come before it.
     * Partners: the reader's read-modify-writes of this word (shm_read_confirm,
     * reading_begin). */
    if (ep->mine)
        atomic_fetch_or(&ep->mine->grant, PAIR_REVOKED);
}

void pair_fail(struct pair_ep *ep, tryst_status status, const char *format, ...)
{
    va_list args;
    if (ep->state == PAIR_BROKEN || ep->state == PAIR_CLOSING)
        return;
    va_start(args, format);
    vsnprintf(ep->text, sizeof ep->text, format, args);
    va_end(args);
    ep->state = PAIR_BROKEN;
    ep->status = status;
    ep->due = true;
    grant_revoke(ep);
    pair_ep_rail(ep)->host->log(pair_ep_rail(ep)->host, TRYST_LOG_WARN, ep->text);
}

void pair_ep_close(struct endpoint *base)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    ep->state = PAIR_CLOSING;
    ep->due = true;
    grant_revoke(ep);
}

static int closing_progress(struct pair_ep *ep)
{
    struct pair_rail *rail = pair_ep_rail(ep);
    if (ep->copies || !rail->ops->quiet(ep))
        return 0;
    pair_bulk_end(ep, TRYST_E_CANCELED);
    rail->ops->detach(ep);
    list_remove(&ep->node);
    rail->base.events->closed(&ep->base);
    mem_free(ep);
    return 1;
}

static int broken_progress(struct pair_ep *ep)
{
    if (!ep->failure_reported) {
        ep->failure_reported = true;
        ep->base.rail->events->failed(&ep->base, ep->status, ep->text);
    }
    if (ep->state != PAIR_BROKEN || ep->copies || !pair_ep_rail(ep)->ops->quiet(ep))
        return 1;
    ep->due = false;
    pair_bulk_end(ep, TRYST_E_PEER);
    return 1;
}

/* --- frames --- */

tryst_status pair_frame_begin(struct endpoint *base, size_t max, void **frame_p)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    assert(max >= 1 && max <= PAIR_FRAME_MAX);
    if (__builtin_expect(ep->state != PAIR_READY, 0))
        return ep->state == PAIR_OPENING ? TRYST_AGAIN : TRYST_E_PEER;
    tryst_status status = pair_room(ep, max, ep->tx.bytes);
    if (__builtin_expect(status != TRYST_OK, 0)) {
        ep->wants_room = true;
        return status;
    }
    *frame_p = pair_ep_rail(ep)->frame_out;
    return TRYST_OK;
}

/* Copy the frame into the ring. A frame is not built there: the reader polls the line
 * where the frame begins, and would take that line from the writer at every store. */
void pair_frame_commit(struct endpoint *base, size_t bytes)
{
    struct pair_ep *ep = (struct pair_ep *)base;
    assert(bytes >= 1 && bytes <= PAIR_FRAME_MAX);
    ring_tx_put(&ep->tx, PAIR_FRAME, NULL, 0, pair_ep_rail(ep)->frame_out,
                (uint32_t)bytes);
    pair_wake(ep, PAIR_ASLEEP);
}

static void frame_deliver(struct pair_ep *ep, struct ring_entry entry)
{
    uint64_t *frame = pair_ep_rail(ep)->frame;
    if (entry.bytes < 1 || entry.bytes > PAIR_FRAME_MAX) {
        pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: a frame of %u bytes", entry.bytes);
        return;
    }
    /* Copied first: the peer could change the bytes while the layer above parses them. */
    ring_rx_copy(&ep->rx, 0, frame, entry.bytes);
    if (ring_rx_next(&ep->rx, entry.bytes))
        pair_wake(ep, PAIR_WANTS_ROOM);
    ep->base.rail->events->frame(&ep->base, frame, entry.bytes);
}

static int entries_read(struct pair_ep *ep)
{
    struct ring_entry entry = {0};
    int count = 0;
    while (ep->state == PAIR_READY && count < ENTRIES_PER_PASS) {
        enum ring_answer answer = ring_rx_peek(&ep->rx, &entry);
        if (answer == RING_NO)
            break;
        count++;
        if (answer == RING_BAD) {
            pair_fail(ep, TRYST_E_PROTOCOL, "shared ring: an entry of kind %#x, %u bytes",
                      entry.kind, entry.bytes);
        } else if (entry.kind == PAIR_FRAME) {
            frame_deliver(ep, entry);
        } else {
            pair_bulk_entry(ep, entry);
            if (ring_rx_next(&ep->rx, entry.bytes))
                pair_wake(ep, PAIR_WANTS_ROOM);
        }
    }
    return count;
}

/* --- progress and sleep --- */

static int ready_progress(struct pair_ep *ep)
{
    int count = entries_read(ep);
    if (ep->slots_used && ep->state == PAIR_READY)
        count += pair_answers_handle(ep);
    if (ep->jobs_count && ep->state == PAIR_READY)
        count += pair_jobs_advance(ep);
    if (!list_empty(&ep->finished))
        count += pair_finished_complete(ep);
    return count;
}

static int due_progress(struct pair_ep *ep)
{
    switch ((enum pair_state)ep->state) {
    case PAIR_OPENING:
        ep->due = false;
        pair_ep_rail(ep)->ops->connect(ep);
        return 1;
    case PAIR_BROKEN: return broken_progress(ep);
    case PAIR_CLOSING: return closing_progress(ep);
    case PAIR_READY:
    case PAIR_REFUSED: ep->due = false; return 0;
    }
    return 0;
}

static void disarm(struct pair_rail *rail)
{
    rail->armed = false;
    list_for_each_safe (&rail->eps, node, after) {
        struct pair_ep *ep = container_of(node, struct pair_ep, node);
        /* acq_rel: keeps all writes of `asleep` in one order, see pair_ring.h. */
        if (ep->state == PAIR_READY)
            (void)atomic_exchange_explicit(&ep->mine->asleep, 0, memory_order_acq_rel);
    }
}

int pair_progress(struct rail *base)
{
    struct pair_rail *rail = (struct pair_rail *)base;
    int count = 0;
    if (rail->armed)
        disarm(rail);
    if (__builtin_expect(rail->copies->count > 0, 0))
        count += copies_poll(rail->copies);
    list_for_each_safe (&rail->eps, node, after) {
        struct pair_ep *ep = container_of(node, struct pair_ep, node);
        if (ep->state == PAIR_READY)
            count += ready_progress(ep);
        if (ep->due)
            count += due_progress(ep);
    }
    base->copied_bytes = 0;
    if (!list_empty(&rail->reads))
        count += pair_reads_advance(rail);
    return count;
}

void pair_wake(struct pair_ep *ep, uint32_t reasons)
{
    /* acq_rel read-modify-writes, like all writes of `asleep`: they come behind the store
     * that the sleeper checks for. Partner: sleep_begin. pair_ring.h has the proof. */
    if (!(atomic_fetch_add_explicit(&ep->theirs->asleep, 0, memory_order_acq_rel) &
          reasons))
        return;
    /* One doorbell per sleep: the thread that clears `asleep` rings. */
    if (atomic_exchange_explicit(&ep->theirs->asleep, 0, memory_order_acq_rel) == 0)
        return;
    ep->base.rail->events->doorbell(&ep->base);
}

/* True if an answer waits for an offer of this side. */
static bool is_answered(const struct pair_ep *ep)
{
    return ep->slots_used &&
           atomic_load_explicit(&ep->mine->answered, memory_order_relaxed) != 0;
}

/* Set `asleep`, then check for work once more. False: there is work. */
static bool sleep_begin(struct pair_ep *ep)
{
    bool room = ep->wants_room || ep->jobs_count > 0;
    if (ep->loopback)
        return !ring_rx_ready(&ep->rx) && !is_answered(ep) && !ep->jobs_count;
    /* acq_rel: the checks below come after it. Partner: pair_wake, which comes after each
     * store that the checks can find. */
    (void)atomic_exchange_explicit(&ep->mine->asleep,
                                   PAIR_ASLEEP | (room ? PAIR_WANTS_ROOM : 0),
                                   memory_order_acq_rel);
    if (ring_rx_ready(&ep->rx) || is_answered(ep))
        return false;
    if (!room || !ring_tx_moved(&ep->tx))
        return true;
    /* space has come back: a sender that still needs room tries again */
    ep->wants_room = false;
    return false;
}

tryst_status pair_arm(struct rail *base)
{
    struct pair_rail *rail = (struct pair_rail *)base;
    if (!list_empty(&rail->reads))
        return TRYST_AGAIN;
    rail->armed = true;
    list_for_each_safe (&rail->eps, node, after) {
        struct pair_ep *ep = container_of(node, struct pair_ep, node);
        if (ep->due || !list_empty(&ep->finished) ||
            (ep->state == PAIR_READY && !sleep_begin(ep))) {
            disarm(rail);
            return TRYST_AGAIN;
        }
    }
    base->copies_busy = rail->copies->count;
    return base->copies_busy ? TRYST_E_UNSUPPORTED : TRYST_OK;
}
