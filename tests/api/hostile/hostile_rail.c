/* SPDX-License-Identifier: Apache-2.0 */
/* The frames and bulk of a hostile rank (hostile.h).
 *
 * Idea: the linker replaces transport_rail_open (--wrap). The replacement opens the rail
 * with a copy of the transport's table in which a few functions are those below. Rails
 * and endpoints stay the transport's own, so receives borrow where the transport's do.
 * Invariant: towards the library above the contract of transport.h holds: a frame that
 * was begun can be committed, each bulk is done once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/list.h"
#include "hostile.h"
#include "rendezvous/protocol/wire/wire.h"
#include "transports/transport.h"

enum {
    TABLES_MAX = 8,
    HISTORY = 64,         /* frames that SPLICE and OLD take from */
    PASSED_MAX = 4,       /* later frames that a LATE one waits for */
    WAIT_PROGRESS = 500,  /* calls of progress after which it leaves in any case */
    LONGER_MAX = 1 << 16, /* bytes by which SIZE makes a bulk longer */
    QUEUE_MAX = 256,      /* frames that wait for room */
    TAGS = 32,
    EACH = 32 /* of so many calls of progress one sends what is made */
};

/* A transport's table with the functions below, and the transport's own. */
struct table {
    struct transport_ops ops;
    const struct transport_ops *inner;
};
static struct table tables[TABLES_MAX];

struct frame {
    struct list_node node; /* in `queue` */
    struct endpoint *ep;
    unsigned passes; /* later frames of any endpoint that go before it */
    unsigned waits;  /* calls of progress until it goes in any case; 0: goes now */
    size_t bytes;
    _Alignas(8) uint8_t data[FRAME_BYTES_MAX];
};
static struct list queue; /* of struct frame: LATE, or without room at the transport */
static unsigned queue_count;
static struct frame begun;
static struct endpoint *last_ep; /* of the newest frame; NULL: none, or closed */
static uint64_t tags[TAGS];      /* of the newest bulk, sent and received */
static unsigned tags_count;
static struct frame history[HISTORY];
static unsigned history_count;

/* A bulk of the library that does not reach the transport: it is done by progress. */
struct parked {
    struct list_node node; /* in `parked_list`; in bulk->scratch */
    struct endpoint *ep;
    bool is_send, ends;
    tryst_status status;
};
static struct list parked_list;

/* A bulk of this file. */
struct extra {
    struct bulk bulk;
    uint8_t data[];
};

static const struct transport_ops *inner_of(const struct rail *rail)
{
    return ((const struct table *)(const void *)rail->ops)->inner;
}

/* ---- the content of a frame ------------------------------------------------------- */

static struct record_header *record_at(struct frame *frame, size_t at)
{
    return (struct record_header *)(void *)(frame->data + at);
}

/* Draw a record of the frame: its offset, or 0 where the frame has none. */
static size_t record_draw(struct frame *frame)
{
    size_t at = sizeof(struct frame_header), drawn = 0;
    for (uint64_t count = 1; at + sizeof(struct record_header) <= frame->bytes; count++) {
        size_t bytes = record_at(frame, at)->bytes;
        if (bytes < sizeof(struct record_header) || bytes > frame->bytes - at)
            break;
        if (hostile_below(count) == 0)
            drawn = at;
        at += bytes;
    }
    return drawn;
}

/* Change a field of the frame's header or of a record; keys and payloads seldom
 * matter. */
static void frame_field_change(struct frame *frame)
{
    size_t at = record_draw(frame);
    size_t bytes = at ? record_at(frame, at)->bytes : sizeof(struct frame_header);
    if (at && hostile_below(4) == 0) {
        at = 0;
        bytes = sizeof(struct frame_header);
    }
    if (at && bytes > sizeof(struct record_want))
        bytes = sizeof(struct record_want);
    hostile_field_change(frame->data + at, bytes);
}

static void frame_flags_change(struct frame *frame)
{
    size_t at = record_draw(frame);
    struct frame_header *header = (void *)frame->data;
    if (at && hostile_below(2))
        record_at(frame, at)->flags = (uint8_t)hostile_below(256);
    else
        header->flags = (uint8_t)hostile_below(256);
}

static void frame_type_change(struct frame *frame)
{
    size_t at = record_draw(frame);
    if (at)
        record_at(frame, at)->type = (uint8_t)hostile_below(RECORD_RAISE + 2);
}

/* Add a record of an earlier frame, to whichever peer that went, or put it in the place
 * of one. */
static void frame_splice(struct frame *frame)
{
    unsigned known = history_count < HISTORY ? history_count : HISTORY;
    struct frame *from = known ? &history[hostile_below(known)] : frame;
    struct frame_header *header = (void *)frame->data;
    size_t from_at = record_draw(from), at = frame->bytes, taken = 0;
    if (!from_at)
        return;
    size_t bytes = record_at(from, from_at)->bytes;
    size_t place = record_draw(frame);
    if (place && hostile_below(2)) {
        at = place;
        taken = record_at(frame, place)->bytes;
    }
    if (frame->bytes - taken + bytes > FRAME_BYTES_MAX)
        return;
    _Alignas(8) uint8_t record[FRAME_BYTES_MAX];
    memcpy(record, from->data + from_at, bytes);
    memmove(frame->data + at + bytes, frame->data + at + taken,
            frame->bytes - at - taken);
    memcpy(frame->data + at, record, bytes);
    frame->bytes += bytes - taken;
    header->records += taken == 0;
    header->flags &= (uint8_t)~FRAME_HEADER_ONLY;
    if (hostile_below(4) == 0)
        hostile_field_change(frame->data + at, bytes < 64 ? bytes : 64);
}

/* Fill the frame with an OFFER of an earlier one, of 0 bytes. */
static void frame_fill_empty(struct frame *frame)
{
    unsigned known = history_count < HISTORY ? history_count : HISTORY;
    struct frame *from = known ? &history[hostile_below(known)] : frame;
    struct frame_header *header = (void *)frame->data;
    size_t at = sizeof *header;
    while (at < from->bytes && record_at(from, at)->type != RECORD_OFFER)
        at += record_at(from, at)->bytes;
    if (at >= from->bytes)
        return;
    _Alignas(8) uint8_t record[FRAME_BYTES_MAX];
    size_t bytes = record_at(from, at)->bytes;
    memcpy(record, from->data + at, bytes);
    ((struct record_offer *)(void *)record)->bytes = 0;
    for (; frame->bytes + bytes <= FRAME_BYTES_MAX; frame->bytes += bytes) {
        memcpy(frame->data + frame->bytes, record, bytes);
        header->records++;
    }
    header->flags &= (uint8_t)~FRAME_HEADER_ONLY;
}

static void frame_extend(struct frame *frame)
{
    size_t more = hostile_below(FRAME_BYTES_MAX - frame->bytes + 1);
    for (size_t i = 0; i < more; i++)
        frame->data[frame->bytes + i] = (uint8_t)hostile_below(256);
    frame->bytes += more;
}

static void frame_change(enum hostile_kind kind, struct frame *frame)
{
    switch (kind) {
    case HOSTILE_FIELD: frame_field_change(frame); break;
    case HOSTILE_FLAGS: frame_flags_change(frame); break;
    case HOSTILE_TYPE: frame_type_change(frame); break;
    case HOSTILE_SPLICE: frame_splice(frame); break;
    case HOSTILE_TRUNCATE: frame->bytes = 1 + hostile_below(frame->bytes); break;
    case HOSTILE_EXTEND: frame_extend(frame); break;
    case HOSTILE_EMPTY: frame_fill_empty(frame); break;
    default: hostile_bytes_change(kind, frame->data, frame->bytes); break;
    }
}

/* ---- the course of frames --------------------------------------------------------- */

static bool frame_push(const struct frame *frame)
{
    return transport_frame_send(inner_of(frame->ep->rail), frame->ep, frame->data,
                                frame->bytes) != TRYST_AGAIN;
}

static void frame_queue(const struct frame *frame, unsigned passes, unsigned waits)
{
    struct frame *copy = queue_count < QUEUE_MAX ? malloc(sizeof *copy) : NULL;
    if (!copy)
        return;
    *copy = *frame;
    list_node_init(&copy->node);
    copy->passes = passes;
    copy->waits = waits;
    list_push_back(&queue, &copy->node);
    queue_count++;
}

static void frame_unqueue(struct frame *frame)
{
    list_remove(&frame->node);
    queue_count--;
    free(frame);
}

/* Send the queued frames of `rail` that are due. */
static int queue_send(struct rail *rail)
{
    int count = 0;
    list_for_each_safe (&queue, node, after) {
        struct frame *frame = container_of(node, struct frame, node);
        if (frame->ep->rail != rail)
            continue;
        frame->waits -= frame->waits > 0;
        if ((frame->waits && frame->passes) || !frame_push(frame))
            continue;
        frame_unqueue(frame);
        count++;
    }
    return count;
}

static void frame_send(const struct frame *frame)
{
    if (!frame_push(frame))
        frame_queue(frame, 0, 0);
    list_for_each_safe (&queue, node, after) {
        struct frame *late = container_of(node, struct frame, node);
        late->passes -= late->passes > 0;
    }
}

static void history_add(const struct frame *frame)
{
    history[history_count++ % HISTORY] = *frame;
}

static void old_send(struct endpoint *ep)
{
    unsigned known = history_count < HISTORY ? history_count : HISTORY;
    if (!known)
        return;
    struct frame old = history[hostile_below(known)];
    old.ep = ep;
    frame_send(&old);
}

/* Send a frame of old records, to whichever peer they went, with the newest header that
 * this peer got: its counts are right. */
static void frame_make(struct endpoint *ep)
{
    unsigned known = history_count < HISTORY ? history_count : HISTORY;
    struct frame made = {.bytes = 0};
    for (unsigned i = 1; i <= known && !made.bytes; i++) {
        const struct frame *old = &history[(history_count - i) % HISTORY];
        if (old->ep == ep)
            made = *old;
    }
    if (!made.bytes)
        return;
    made.bytes = sizeof(struct frame_header);
    ((struct frame_header *)(void *)made.data)->records = 0;
    for (uint64_t left = 1 + hostile_below(4); left; left--)
        frame_splice(&made);
    if (hostile_below(4) == 0)
        frame_flags_change(&made);
    frame_send(&made);
}

static tryst_status hostile_frame_begin(struct endpoint *ep, size_t max, void **frame_p)
{
    if (!hostile.on)
        return inner_of(ep->rail)->frame_begin(ep, max, frame_p);
    void *room;
    tryst_status status = inner_of(ep->rail)->frame_begin(ep, FRAME_BYTES_MAX, &room);
    if (status != TRYST_OK)
        return status;
    *frame_p = begun.data;
    begun.ep = ep;
    return TRYST_OK;
}

static void hostile_frame_commit(struct endpoint *ep, size_t bytes)
{
    if (begun.ep != ep) { /* begun before hostile_start */
        inner_of(ep->rail)->frame_commit(ep, bytes);
        return;
    }
    begun.bytes = bytes;
    last_ep = ep;
    history_add(&begun);
    enum hostile_kind kind =
        hostile_strike(HOSTILE_CONTENT | HOSTILE_COURSE | HOSTILE_BIT(EMPTY));
    switch (kind) {
    case HOSTILE_NONE: frame_send(&begun); break;
    case HOSTILE_DROP: break;
    case HOSTILE_LATE:
        frame_queue(&begun, 1 + (unsigned)hostile_below(PASSED_MAX), WAIT_PROGRESS);
        break;
    case HOSTILE_REPEAT:
        for (uint64_t left = 1 + hostile_below(8); left; left--)
            frame_send(&begun);
        frame_send(&begun);
        break;
    case HOSTILE_OLD:
        frame_send(&begun);
        old_send(ep);
        break;
    case HOSTILE_STALL:
        hostile_stall();
        frame_send(&begun);
        break;
    default:
        frame_change(kind, &begun);
        frame_send(&begun);
        break;
    }
    begun.ep = NULL;
}

/* ---- bulk ------------------------------------------------------------------------- */

uint64_t hostile_tag_draw(void)
{
    unsigned known = tags_count < TAGS ? tags_count : TAGS;
    uint64_t tag = known ? tags[hostile_below(known)] : 0;
    return hostile_below(4) ? tag + hostile_below(4) : hostile_extreme(tag, sizeof tag);
}

static struct parked *parked_of(struct bulk *bulk)
{
    return (struct parked *)(void *)&bulk->scratch;
}

static void park(struct endpoint *ep, struct bulk *bulk, bool is_send)
{
    struct parked *parked = parked_of(bulk);
    *parked = (struct parked){
        .ep = ep, .is_send = is_send, .ends = is_send, .status = TRYST_OK};
    list_push_back(&parked_list, &parked->node);
}

static int parked_complete(const struct rail *rail)
{
    int count = 0;
    struct list ending;
    struct list_node *node;
    list_init(&ending);
    list_for_each_safe (&parked_list, at, after) {
        struct parked *parked = container_of(at, struct parked, node);
        if (!parked->ends || parked->ep->rail != rail)
            continue;
        list_remove(at);
        list_push_back(&ending, at);
    }
    while ((node = list_pop_front(&ending)) != NULL) {
        struct parked *parked = container_of(node, struct parked, node);
        struct bulk *bulk = container_of(node, struct bulk, scratch);
        bulk->done(bulk, parked->status, bulk->bytes);
        count++;
    }
    return count;
}

static void extra_done(struct bulk *bulk, tryst_status status, size_t bytes)
{
    (void)status;
    (void)bytes;
    free(container_of(bulk, struct extra, bulk));
}

/* Send a copy of the bulk with another tag or another size. */
static void extra_send(struct endpoint *ep, const struct bulk *bulk,
                       enum hostile_kind kind)
{
    size_t bytes = bulk->bytes;
    if (kind == HOSTILE_SIZE)
        bytes = hostile_below(2) ? hostile_below(bytes + 1)
                                 : bytes + 1 + hostile_below(LONGER_MAX);
    struct extra *extra = calloc(1, sizeof *extra + bytes);
    if (!extra)
        return;
    extra->bulk = (struct bulk){.done = extra_done,
                                .tag = bulk->tag,
                                .data = extra->data,
                                .bytes = bytes,
                                .urgency = bulk->urgency};
    if (kind == HOSTILE_TAG)
        extra->bulk.tag = hostile_extreme(bulk->tag, sizeof bulk->tag);
    memcpy(extra->data, bulk->data, bytes < bulk->bytes ? bytes : bulk->bytes);
    if (inner_of(ep->rail)->bulk_send(ep, &extra->bulk) != TRYST_OK)
        free(extra);
}

static tryst_status hostile_bulk_send(struct endpoint *ep, struct bulk *bulk)
{
    const struct transport_ops *inner = inner_of(ep->rail);
    tags[tags_count++ % TAGS] = bulk->tag;
    enum hostile_kind kind =
        hostile_strike(HOSTILE_BIT(TAG) | HOSTILE_BIT(SIZE) | HOSTILE_BIT(REPEAT) |
                       HOSTILE_BIT(DROP) | HOSTILE_BIT(STALL));
    if (kind == HOSTILE_STALL)
        hostile_stall();
    if (kind == HOSTILE_NONE || kind == HOSTILE_STALL || bulk->memory)
        return inner->bulk_send(ep, bulk);
    if (kind != HOSTILE_DROP)
        extra_send(ep, bulk, kind);
    if (kind == HOSTILE_REPEAT)
        return inner->bulk_send(ep, bulk);
    park(ep, bulk, true);
    return TRYST_OK;
}

static tryst_status hostile_bulk_recv(struct endpoint *ep, struct bulk *bulk)
{
    if (hostile_strike(HOSTILE_BIT(UNPOSTED)) == HOSTILE_NONE)
        return inner_of(ep->rail)->bulk_recv(ep, bulk);
    park(ep, bulk, false);
    return TRYST_OK;
}

static void hostile_bulk_cancel(struct endpoint *ep, struct bulk *bulk)
{
    list_for_each_safe (&parked_list, node, after) {
        struct parked *parked = container_of(node, struct parked, node);
        if (parked != parked_of(bulk))
            continue;
        parked->ends = true;
        parked->status = TRYST_E_CANCELED;
        return;
    }
    inner_of(ep->rail)->bulk_cancel(ep, bulk);
}

/* ---- rails and endpoints ---------------------------------------------------------- */

static void hostile_ep_close(struct endpoint *ep)
{
    list_for_each_safe (&queue, node, after) {
        struct frame *frame = container_of(node, struct frame, node);
        if (frame->ep == ep)
            frame_unqueue(frame);
    }
    list_for_each_safe (&parked_list, at, next) {
        struct parked *parked = container_of(at, struct parked, node);
        if (parked->ep != ep || parked->ends)
            continue;
        parked->ends = true;
        parked->status = TRYST_E_CANCELED;
    }
    if (last_ep == ep)
        last_ep = NULL;
    inner_of(ep->rail)->ep_close(ep);
}

/* Send what no message of the library calls for. */
static void made_send(struct rail *rail)
{
    hostile_words_change(rail);
    if (hostile_strike(HOSTILE_BIT(MADE)) == HOSTILE_NONE)
        return;
    struct endpoint *ep = last_ep;
    if (hostile_below(2))
        hostile_link_make();
    else if (ep && ep->rail == rail)
        frame_make(ep);
}

static int hostile_progress(struct rail *rail)
{
    int count = 0;
    if (hostile.on) {
        count = queue_send(rail) + parked_complete(rail);
        if (hostile_below(EACH) == 0)
            made_send(rail);
    }
    return count + inner_of(rail)->progress(rail);
}

static tryst_status hostile_arm(struct rail *rail)
{
    if (!list_empty(&queue) || !list_empty(&parked_list))
        return TRYST_AGAIN;
    return inner_of(rail)->arm(rail);
}

/* Return the table for `inner`; made at its first rail. */
static const struct transport_ops *table_of(const struct transport_ops *inner)
{
    struct table *table = tables;
    if (!queue.head.next) {
        list_init(&queue);
        list_init(&parked_list);
    }
    while (table->inner && table->inner != inner)
        table++;
    if (table->inner)
        return &table->ops;
    table->inner = inner;
    table->ops = *inner;
    table->ops.progress = hostile_progress;
    table->ops.arm = hostile_arm;
    table->ops.ep_close = hostile_ep_close;
    table->ops.frame_begin = hostile_frame_begin;
    table->ops.frame_commit = hostile_frame_commit;
    table->ops.bulk_recv = hostile_bulk_recv;
    table->ops.bulk_send = hostile_bulk_send;
    table->ops.bulk_cancel = hostile_bulk_cancel;
    return &table->ops;
}

tryst_status __real_transport_rail_open(const struct transport_ops *ops,
                                        const struct rail_params *params,
                                        struct rail **rail_p);
tryst_status __wrap_transport_rail_open(const struct transport_ops *ops,
                                        const struct rail_params *params,
                                        struct rail **rail_p);

/* Each transport's rails are opened by a thread of their own. */
tryst_status __wrap_transport_rail_open(const struct transport_ops *ops,
                                        const struct rail_params *params,
                                        struct rail **rail_p)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&opening);
    const struct transport_ops *hostile_ops = table_of(ops);
    pthread_mutex_unlock(&opening);
    return __real_transport_rail_open(hostile_ops, params, rail_p);
}
