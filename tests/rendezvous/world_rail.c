/* SPDX-License-Identifier: Apache-2.0 */
/* A transport that moves bytes at the test's command. */
#include "world.h"

struct world_frame {
    struct list_node node;
    size_t bytes;
    _Alignas(8) uint8_t data[];
};

/* Lives in bulk->scratch. */
struct bulk_state {
    struct list_node node;
    struct bulk *bulk;
    struct world_ep *from; /* of a borrowed receive: the sender's end, */
    struct bulk *send;     /* and what it lends; NULL: `copy` */
    void *copy;
    bool is_lent;
    bool is_told; /* `borrowed` was called for the copy */
    bool is_gone; /* what was read does not count: done(TRYST_E_PEER) follows */
};

static struct bulk_state *bulk_state(struct bulk *bulk)
{
    struct bulk_state *state = (void *)&bulk->scratch;
    assert_true(sizeof *state <= sizeof bulk->scratch);
    return state;
}

static void bulk_push(struct list *list, struct bulk *bulk)
{
    struct bulk_state *state = bulk_state(bulk);
    memset(state, 0, sizeof *state);
    state->bulk = bulk;
    list_push_back(list, &state->node);
}

static struct bulk *bulk_pop(struct list *list, bool backwards)
{
    struct list_node *node = backwards && !list_empty(list) ? list->head.prev : NULL;
    if (node)
        list_remove(node);
    else
        node = list_pop_front(list);
    return node ? container_of(node, struct bulk_state, node)->bulk : NULL;
}

static struct world_ep *world_ep(struct endpoint *ep)
{
    return container_of(ep, struct world_ep, base);
}

static struct world_rail *ep_rail(struct world_ep *ep)
{
    return container_of(ep->base.rail, struct world_rail, base);
}

static struct side *ep_side(struct world_ep *ep)
{
    return &ep_rail(ep)->world->sides[ep->rank];
}

struct world_ep *world_ep_find(struct world *world, int rank, int peer)
{
    return world->sides[rank].ep_of[peer];
}

static void ep_of_set(struct side *side, int peer)
{
    side->ep_of[peer] = NULL;
    list_for_each_safe (&side->eps, node, after) {
        struct world_ep *ep = container_of(node, struct world_ep, node);
        if (ep->peer == peer && !side->ep_of[peer])
            side->ep_of[peer] = ep;
    }
}

static bool candidate_is_refused(struct world *world, int a, int b)
{
    int candidate = world_peer(world, a, b)->endpoint.candidate;
    return candidate < world->sides[a].ways_refused ||
           candidate < world->sides[b].ways_refused;
}

static tryst_status on_ep_open(struct rail *rail, const struct ep_params *params,
                               struct endpoint **ep_p)
{
    struct world_rail *own = container_of(rail, struct world_rail, base);
    struct world_ep *ep = mem_zalloc(sizeof *ep);
    if (!ep)
        return TRYST_E_NOMEM;
    ep->base = (struct endpoint){.rail = rail, .arg = params->arg};
    ep->rank = params->local_rank;
    ep->peer = params->peer_rank;
    ep->unready = ep_side(ep)->unready > 0;
    ep_side(ep)->unready -= ep->unready;
    ep->refuses = !ep->unready && ep_side(ep)->refuses > 0;
    ep_side(ep)->refuses -= ep->refuses;
    ep->refuses |= candidate_is_refused(own->world, ep->rank, ep->peer);
    ep->id = ++own->world->ep_ids;
    list_init(&ep->frames_away);
    list_init(&ep->sends_away);
    list_init(&ep->frames);
    list_init(&ep->posted);
    list_init(&ep->canceled);
    list_init(&ep->lent);
    list_init(&ep->sends);
    list_init(&ep->sent);
    list_push_back(&ep_side(ep)->eps, &ep->node);
    ep_of_set(ep_side(ep), ep->peer);
    ep_side(ep)->has_events = true;
    *ep_p = &ep->base;
    return TRYST_OK;
}

static void on_ep_message(struct endpoint *ep, const void *data, size_t bytes, int fd)
{
}

static void on_ep_close(struct endpoint *ep)
{
    assert_false(world_ep(ep)->closing);
    world_ep(ep)->closing = true;
    ep_side(world_ep(ep))->has_events = true;
}

static _Alignas(8) uint8_t begun[FRAME_BYTES_MAX];

static tryst_status on_frame_begin(struct endpoint *base, size_t max, void **frame_p)
{
    struct world_ep *ep = world_ep(base);
    uint32_t under_way = 0;
    assert_false(ep->closing);
    assert_true(max <= FRAME_BYTES_MAX);
    if (ep_side(ep)->frames_fail)
        return TRYST_E_PEER;
    list_for_each_safe (&ep->frames, node, after)
        under_way++;
    if (ep_side(ep)->frames_max && under_way >= ep_side(ep)->frames_max)
        return TRYST_AGAIN;
    *frame_p = begun;
    return TRYST_OK;
}

static void on_frame_commit(struct endpoint *base, size_t bytes)
{
    struct world_ep *ep = world_ep(base);
    assert_true(bytes > 0 && bytes <= FRAME_BYTES_MAX);
    ep_side(ep)->frame_bytes = bytes;
    struct world_frame *frame = malloc(sizeof *frame + bytes);
    memset(frame, 0, sizeof *frame);
    frame->bytes = bytes;
    memcpy(frame->data, begun, bytes);
    const struct world_parts *parts = ep_rail(ep)->world->parts;
    list_push_back(parts ? &ep->frames_away : &ep->frames, &frame->node);
    if (parts)
        parts->frame_sent(ep, bytes);
}

static tryst_status on_bulk_recv(struct endpoint *base, struct bulk *bulk)
{
    struct world_ep *ep = world_ep(base);
    struct side *side = ep_side(ep);
    assert_false(ep->closing);
    if (side->recv_again) {
        side->recv_again--;
        return TRYST_AGAIN;
    }
    assert_true(ep->posted_now++ < base->rail->posted_max);
    if (++side->posted_now > side->posted_high)
        side->posted_high = side->posted_now;
    side->posted_mem = bulk->mem;
    bulk_push(&ep->posted, bulk);
    return TRYST_OK;
}

static tryst_status on_bulk_send(struct endpoint *base, struct bulk *bulk)
{
    struct side *side = ep_side(world_ep(base));
    assert_false(world_ep(base)->closing);
    if (side->send_again) {
        side->send_again--;
        return TRYST_AGAIN;
    }
    const struct world_parts *parts = side->world->parts;
    bulk_push(parts ? &world_ep(base)->sends_away : &world_ep(base)->sends, bulk);
    if (parts)
        parts->bulk_sent(world_ep(base), bulk);
    return TRYST_OK;
}

void world_arrive(struct world *world, int from, int to, uint64_t ep_id, bool is_bulk)
{
    struct world_ep *ep = world_ep_find(world, from, to);
    if (!ep || ep->id != ep_id)
        return; /* the endpoint has finished closing, and its sends with it */
    struct list_node *node = list_pop_front(is_bulk ? &ep->sends_away : &ep->frames_away);
    assert_non_null(node);
    list_push_back(is_bulk ? &ep->sends : &ep->frames, node);
    world->sides[to].has_events = true;
}

/* Release what a borrowed receive holds: the send completes. */
static void lent_end(struct bulk *bulk)
{
    struct bulk_state *state = bulk_state(bulk);
    if (state->send) {
        bulk_push(&state->from->sent, state->send);
        ep_side(state->from)->has_events = true;
    }
    free(state->copy);
    list_remove(&state->node);
    state->send = NULL;
    state->copy = NULL;
    state->is_lent = false;
}

/* Let the receive read the send's bytes where they are. */
static void lend(struct world_ep *ep, struct world_ep *from, struct bulk *recv,
                 struct bulk *send)
{
    struct bulk_state *state = bulk_state(recv);
    list_remove(&state->node);
    list_push_back(&ep->lent, &state->node);
    state->from = from;
    state->send = send;
    state->is_lent = true;
    recv->borrowed(recv, send->bytes);
}

/* End a borrowed receive of which nothing counts. */
static tryst_status lent_fail(struct world_ep *ep, struct bulk *bulk)
{
    lent_end(bulk);
    bulk_push(&ep->canceled, bulk);
    bulk_state(bulk)->is_gone = true;
    ep_side(ep)->has_events = true;
    return TRYST_E_PEER;
}

/* The endpoint `from` closes: what it lends is the sender's again. */
static void lent_revoke(struct world_ep *from)
{
    struct world_ep *ep = world_ep_find(ep_rail(from)->world, from->peer, from->rank);
    if (!ep)
        return;
    list_for_each_safe (&ep->lent, node, after) {
        struct bulk_state *state = container_of(node, struct bulk_state, node);
        if (state->from != from || !state->send)
            continue;
        bulk_push(&from->sent, state->send);
        state->send = NULL;
        state->is_gone = true;
    }
}

static tryst_status on_bulk_read(struct endpoint *base, struct bulk *bulk, size_t at,
                                 size_t bytes, bulk_use use, void *arg)
{
    struct world_ep *ep = world_ep(base);
    struct bulk_state *state = bulk_state(bulk);
    assert_true(state->is_lent && !ep->closing && bytes <= TRANSPORT_PIECE_BYTES);
    if (state->send && ep_side(ep)->read_again) {
        ep_side(ep)->read_again--;
        state->copy = malloc(state->send->bytes);
        memcpy(state->copy, state->send->data, state->send->bytes);
        bulk_push(&state->from->sent, state->send);
        state->send = NULL;
        ep_side(ep)->has_events = true;
        return TRYST_AGAIN;
    }
    if (state->is_gone)
        return lent_fail(ep, bulk);
    const uint8_t *data = state->send ? state->send->data : state->copy;
    use(arg, data + at, bytes);
    return TRYST_OK;
}

static tryst_status on_bulk_return(struct endpoint *base, struct bulk *bulk)
{
    struct world_ep *ep = world_ep(base);
    assert_true(bulk_state(bulk)->is_lent && !ep->closing);
    if (ep_side(ep)->returns_fail || bulk_state(bulk)->is_gone)
        return lent_fail(ep, bulk);
    lent_end(bulk);
    ep->posted_now--;
    ep_side(ep)->posted_now--;
    return TRYST_OK;
}

static void on_bulk_cancel(struct endpoint *base, struct bulk *bulk)
{
    struct world_ep *ep = world_ep(base);
    if (bulk_state(bulk)->is_lent)
        lent_end(bulk);
    list_remove(&bulk_state(bulk)->node);
    bulk_push(&ep->canceled, bulk);
    ep_side(ep)->has_events = true;
}

static void recv_done(struct world_ep *ep, struct bulk *bulk, tryst_status status,
                      size_t bytes)
{
    ep->posted_now--;
    ep_side(ep)->posted_now--;
    bulk->done(bulk, status, bytes);
}

static struct bulk *posted_find(struct world_ep *ep, uint64_t tag)
{
    list_for_each_safe (&ep->posted, node, after) {
        struct bulk *bulk = container_of(node, struct bulk_state, node)->bulk;
        if (bulk->tag == tag)
            return bulk;
    }
    return NULL;
}

/* Deliver a send of the peer here. */
static void bulk_arrive(struct world_ep *ep, struct world_ep *from, struct bulk *send)
{
    struct bulk *recv = posted_find(ep, send->tag);
    bool borrows = recv && recv->borrowed;
    if (borrows && !ep_side(from)->sends_fail && !ep_side(ep)->lend_nomem) {
        lend(ep, from, recv, send);
        return;
    }
    bulk_push(&from->sent, send);
    ep_side(from)->has_events = true;
    if (ep_side(from)->sends_fail)
        return;
    if (borrows) {
        ep_side(ep)->lend_nomem--;
        list_remove(&bulk_state(recv)->node);
        recv_done(ep, recv, TRYST_E_NOMEM, 0);
        return;
    }
    if (!recv) {
        ep_side(ep)->unexpected++;
        ep->base.rail->events->unexpected(&ep->base, send->tag, send->bytes);
        return;
    }
    list_remove(&bulk_state(recv)->node);
    assert_true(send->bytes <= recv->bytes);
    if (ep_rail(ep)->world->parts)
        ep_rail(ep)->world->parts->copy(send, recv);
    else
        memcpy(recv->data, send->data, send->bytes);
    bool fails = ep_side(ep)->recvs_fail;
    recv_done(ep, recv, fails ? TRYST_E_PEER : TRYST_OK, fails ? 0 : send->bytes);
}

static int ep_receive(struct world *world, struct world_ep *ep)
{
    struct side *side = ep_side(ep);
    struct world_ep *from = world_ep_find(world, ep->peer, ep->rank);
    struct list_node *node;
    struct bulk *bulk;
    int count = 0;
    while (from && !side->hold_frames && (node = list_pop_front(&from->frames)) != NULL) {
        struct world_frame *frame = container_of(node, struct world_frame, node);
        ep->base.rail->events->frame(&ep->base, frame->data, frame->bytes);
        free(frame);
        count++;
    }
    while (from && !side->hold_bulk &&
           (bulk = bulk_pop(&from->sends, side->bulk_backwards)) != NULL) {
        bulk_arrive(ep, from, bulk);
        count++;
    }
    return count;
}

static int ep_complete(struct world_ep *ep)
{
    struct side *side = ep_side(ep);
    struct bulk *bulk;
    int count = 0;
    while (!side->hold_sent &&
           (bulk = bulk_pop(&ep->sent, side->bulk_backwards)) != NULL) {
        bulk->done(bulk, side->sends_fail ? TRYST_E_PEER : TRYST_OK,
                   side->sends_fail ? 0 : bulk->bytes);
        count++;
    }
    while (!side->hold_cancels && (bulk = bulk_pop(&ep->canceled, false)) != NULL) {
        recv_done(ep, bulk, bulk_state(bulk)->is_gone ? TRYST_E_PEER : TRYST_E_CANCELED,
                  0);
        count++;
    }
    list_for_each_safe (&ep->lent, node, after) {
        struct bulk_state *state = container_of(node, struct bulk_state, node);
        if (!state->copy || state->is_told)
            continue;
        state->is_told = true;
        state->bulk->borrowed(state->bulk, state->bulk->bytes);
        count++;
    }
    return count;
}

static void ep_end(struct world_ep *ep)
{
    struct bulk *bulk;
    struct list_node *node;
    lent_revoke(ep);
    while ((bulk = bulk_pop(&ep->sends_away, false)) != NULL ||
           (bulk = bulk_pop(&ep->sends, false)) != NULL ||
           (bulk = bulk_pop(&ep->sent, false)) != NULL)
        bulk->done(bulk, TRYST_E_CANCELED, 0);
    while (!list_empty(&ep->lent)) {
        bulk = container_of(list_first(&ep->lent), struct bulk_state, node)->bulk;
        lent_end(bulk);
        recv_done(ep, bulk, TRYST_E_CANCELED, 0);
    }
    while ((bulk = bulk_pop(&ep->posted, false)) != NULL ||
           (bulk = bulk_pop(&ep->canceled, false)) != NULL)
        recv_done(ep, bulk, TRYST_E_CANCELED, 0);
    while ((node = list_pop_front(&ep->frames_away)) != NULL ||
           (node = list_pop_front(&ep->frames)) != NULL)
        free(container_of(node, struct world_frame, node));
    list_remove(&ep->node);
    ep_of_set(ep_side(ep), ep->peer);
    ep->base.rail->events->closed(&ep->base);
    mem_free(ep);
}

static int ep_progress(struct world *world, struct world_ep *ep)
{
    int count = 0;
    if (ep->closing) {
        if (ep_side(ep)->hold_close)
            return 0;
        ep_end(ep);
        return 1;
    }
    if (ep->unready)
        return 0;
    if (!ep->ready_reported) {
        ep->ready_reported = true;
        ep->base.borrows = ep_side(ep)->borrows;
        ep->base.rail->events->ready(&ep->base,
                                     ep->refuses ? TRYST_E_UNREACHABLE : TRYST_OK,
                                     ep->refuses ? "it cannot" : "made up");
        count++;
    }
    if (ep->refuses)
        return count;
    return count + ep_receive(world, ep) + ep_complete(ep);
}

static int on_progress(struct rail *rail)
{
    struct world_rail *own = container_of(rail, struct world_rail, base);
    int count = 0;
    list_for_each_safe (&own->world->sides[own->rank].eps, node, after)
        count += ep_progress(own->world, container_of(node, struct world_ep, node));
    return count;
}

static tryst_status on_arm(struct rail *rail)
{
    return TRYST_OK;
}

const struct transport_ops world_transport = {.name = "shm",
                                              .struct_size = sizeof(struct transport_ops),
                                              .progress = on_progress,
                                              .arm = on_arm,
                                              .ep_open = on_ep_open,
                                              .ep_message = on_ep_message,
                                              .ep_close = on_ep_close,
                                              .frame_begin = on_frame_begin,
                                              .frame_commit = on_frame_commit,
                                              .bulk_recv = on_bulk_recv,
                                              .bulk_send = on_bulk_send,
                                              .bulk_cancel = on_bulk_cancel,
                                              .bulk_read = on_bulk_read,
                                              .bulk_return = on_bulk_return};
