/* SPDX-License-Identifier: Apache-2.0 */
/* Flows: slices become ready one by one, get memory one by one, and arrive in any order.
 * Whatever ends a flow must end it once, with nothing left behind. test_flow_trees.c runs
 * trees of flows.
 *
 * With the argument "borrow", slices that `place` gives memory to are borrowed instead,
 * and read into that memory and returned in the next pass. */
#include "world.h"

#include "rendezvous/op/deadline.h"
#include "rendezvous/protocol/flow.h"
#include "rendezvous/protocol/want.h"

#define SLICE 4096u

enum { SLICES_MAX = 64, EDGES = 8 };

/* One end of a flow. */
struct edge {
    struct flow flow;
    uint8_t data[SLICES_MAX * SLICE];
    uint32_t granted; /* receive: slices that get memory */
    uint32_t placed;  /* receive: slices that have memory */
    /* Receive: ready slices at the last call of `slices_announced`. */
    uint32_t slices_announced;
    uint32_t tolds, refusals;
    uint32_t came; /* receive: slices that have arrived or were taken */
    uint32_t sent;
    bool here[SLICES_MAX];
    bool lent[SLICES_MAX]; /* receive: slices to read and return */
    int ended;
    tryst_status status;
    int32_t origin_rank, origin_status;
    char text[256];
};

static struct world world;
static struct edge out[EDGES], in[EDGES];
static tryst_step *steps[2];
static uint64_t flow_step = 1;      /* the step of the flows that start */
static const uint64_t *flow_number; /* the number of the flows that start */
static struct random dice;
static bool borrow;  /* slices are borrowed */
static bool keep;    /* borrowed slices are not returned now */
static bool ordered; /* every slice arrived after the slice before it */

/* ---- hooks ------------------------------------------------------------------------- */

static struct edge *edge_of(struct flow *flow)
{
    struct edge *edge = container_of(flow, struct edge, flow);
    assert_int_equal(edge->ended, 0);
    return edge;
}

static tryst_status on_place(struct flow *flow, uint32_t index, void **data_p,
                             struct tryst_mem **mem_p)
{
    struct edge *edge = edge_of(flow);
    if (flow->ahead && index < edge->placed) { /* its WANT was deferred */
        *data_p = NULL;
        return TRYST_OK;
    }
    assert_int_equal(index, edge->placed);
    assert_true(index < flow->slices_announced || flow->ahead);
    assert_true(index < flow->slices);
    assert_null(*mem_p);
    if (index >= edge->granted) {
        edge->refusals++;
        return TRYST_AGAIN;
    }
    edge->placed++;
    assert_int_equal(flow_may_borrow(flow), borrow);
    *data_p = borrow ? NULL : edge->data + (size_t)index * SLICE;
    *mem_p = *data_p; /* a registration that only the test's transport compares */
    return TRYST_OK;
}

static void on_announced(struct flow *flow)
{
    struct edge *edge = edge_of(flow);
    assert_true(flow->slices_announced > edge->slices_announced &&
                flow->slices_announced <= flow->slices);
    edge->slices_announced = flow->slices_announced;
    edge->tolds++;
}

static void on_arrived(struct flow *flow, uint32_t index)
{
    struct edge *edge = edge_of(flow);
    assert_true(index < flow->slices && index < flow->slices_announced);
    if (edge->here[index] && borrow) {
        edge->lent[index] = true; /* it comes by copy */
        return;
    }
    assert_false(edge->here[index]);
    edge->lent[index] = borrow && index < edge->placed;
    ordered = ordered && index == edge->came;
    edge->here[index] = true;
    edge->came++;
}

static void on_take(struct flow *flow, const void *payload, size_t bytes)
{
    struct edge *edge = edge_of(flow);
    assert_int_equal(edge->came++, 0);
    assert_true(bytes <= SLICE);
    memcpy(edge->data, payload, bytes);
}

static void on_sent(struct flow *flow, uint32_t index)
{
    struct edge *edge = edge_of(flow);
    assert_int_equal(index, edge->sent);
    assert_true(index < flow->ready);
    edge->sent++;
    /* The owner may overwrite the slice now. */
    if (flow->slice_bytes == SLICE)
        memset(edge->data + (size_t)index * SLICE, 0xee, SLICE);
}

static void on_ended(struct flow *flow, struct cause cause, const char *text)
{
    struct edge *edge = edge_of(flow);
    assert_null(flow->op);
    edge->ended++;
    edge->status = cause.status;
    edge->origin_rank = cause.origin_rank;
    edge->origin_status = (int32_t)cause.origin_status;
    snprintf(edge->text, sizeof edge->text, "%s", text ? text : "");
    /* the memory belongs to the owner again */
    memset(edge->data, 0xdd, sizeof edge->data);
}

static const struct flow_ops plain_ops = {.slices_announced = on_announced,
                                          .arrived = on_arrived,
                                          .take = on_take,
                                          .sent = on_sent,
                                          .ended = on_ended};
static const struct flow_ops placed_ops = {.place = on_place,
                                           .slices_announced = on_announced,
                                           .arrived = on_arrived,
                                           .take = on_take,
                                           .sent = on_sent,
                                           .ended = on_ended};

/* ---- borrowed slices --------------------------------------------------------------- */

/* Where a piece of a borrowed slice goes. */
struct piece {
    uint8_t *to;
    size_t bytes;
};

static void on_use(void *arg, const void *data, size_t bytes)
{
    struct piece *piece = arg;
    assert_int_equal(bytes, piece->bytes);
    memcpy(piece->to, data, bytes);
}

/* Read a borrowed slice, in two pieces, and return it. */
static void slice_return(struct edge *edge, uint32_t index)
{
    size_t at = (size_t)index * edge->flow.slice_bytes;
    size_t left = edge->flow.op->bytes - at, half = edge->flow.slice_bytes / 2;
    edge->lent[index] = false;
    while (left) {
        size_t from = at % edge->flow.slice_bytes, bytes = left < half ? left : half;
        struct piece piece = {edge->data + at, bytes};
        if (flow_read(&edge->flow, index, from, bytes, on_use, &piece) != TRYST_OK)
            return;
        at += bytes;
        left = from + bytes == edge->flow.slice_bytes ? 0 : left - bytes;
    }
    (void)flow_return(&edge->flow, index);
}

static int slices_return(void *arg, uint64_t copied_bytes)
{
    int count = 0;
    for (int n = 0; n < EDGES && !keep; n++)
        for (uint32_t i = 0; i < SLICES_MAX; i++)
            if (in[n].lent[i] && in[n].flow.op) {
                slice_return(&in[n], i);
                count++;
            }
    return count;
}

/* ---- setting ----------------------------------------------------------------------- */

static void begin(const struct world_setting *settings)
{
    world_open(&world, 2, settings);
    world.sides[1].borrows = borrow;
    world.sides[1].rdv->coll_calls.run = slices_return;
    world_join(&world, 0, 1);
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    ordered = true;
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    world_settle(&world);
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        if (steps[i])
            assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static uint8_t byte_of(int n, size_t at)
{
    return (uint8_t)((size_t)n * 31 + at / SLICE * 7 + at);
}

/* Start one end of flow `n`, which goes from rank 0 to rank 1. */
static tryst_status start(bool send, int n, struct edge *edge, size_t bytes)
{
    int rank = send ? 0 : 1;
    struct rendezvous *rdv = world.sides[rank].rdv;
    char name[16];
    tryst_key *key;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = TRYST_DTYPE_U8,
                           .count = bytes,
                           .data = edge->data};
    snprintf(name, sizeof name, "f%d", n);
    assert_int_equal(
        tryst_key_prepare(&world.sides[rank].group, world_key(&world, 0, 1, name), &key),
        TRYST_OK);
    struct flow_params params = {
        .scope = scope_find(&rdv->scopes, flow_step),
        .step_id = flow_step,
        .key = key,
        .urgency = {.sort_key = urgency_sort_key(URGENCY_TRAINING, 0), .step = 1},
        .tensor = &tensor,
        .number = flow_number};
    assert_non_null(params.scope);
    edge->flow.slice_bytes = edge->flow.slice_bytes ? edge->flow.slice_bytes : SLICE;
    if (!edge->flow.ops)
        edge->flow.ops = &plain_ops;
    if (send)
        for (size_t i = 0; i < bytes; i++)
            edge->data[i] = byte_of(n, i);
    tryst_status status = send ? flow_send(rdv, &edge->flow, &params)
                               : flow_recv(rdv, &edge->flow, &params);
    tryst_key_release(key);
    return status;
}

static void start_both(int n, size_t bytes, const struct flow_ops *recv_ops)
{
    in[n].flow.ops = recv_ops;
    assert_int_equal(start(false, n, &in[n], bytes), TRYST_OK);
    assert_int_equal(start(true, n, &out[n], bytes), TRYST_OK);
}

static void grant(struct edge *edge, uint32_t granted)
{
    edge->granted = granted;
    flow_place_again(&edge->flow);
}

static void bytes_check(int n, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (in[n].data[i] != byte_of(n, i))
            fail_msg("flow %d, byte %zu", n, i);
}

/* Check that both ends have ended with TRYST_OK. */
static void done_check(int n)
{
    assert_int_equal(in[n].ended, 1);
    assert_int_equal(out[n].ended, 1);
    assert_int_equal(in[n].status, TRYST_OK);
    assert_int_equal(out[n].status, TRYST_OK);
    assert_int_equal(in[n].came, in[n].flow.slices);
    assert_int_equal(out[n].sent, out[n].flow.slices);
}

static void slots_max(uint32_t most)
{
    for (int i = 0; i < 2; i++)
        world.sides[i].rail.base.posted_max = most;
}

/* ---- slices become ready ----------------------------------------------------------- */

/* No slice starts before it is ready, whether posted or not. A ready slice does not wait
 * for the next one. */
static void test_ready(void **state)
{
    enum { N = 8 }; /* all slices may be posted ahead */
    for (int placed = 0; placed < 2; placed++) {
        begin(NULL);
        in[0].granted = UINT32_MAX;
        start_both(0, N * SLICE - 100, placed ? &placed_ops : &plain_ops);
        assert_int_equal(in[0].flow.slices, N);
        world_settle(&world);
        assert_int_equal(world.sides[0].rdv->counters.slices_started, 0);
        assert_int_equal(world.sides[1].posted_now, placed ? 0 : N);
        for (uint32_t i = 0; i < N - 1; i++) {
            flow_ready(&out[0].flow, i + 1);
            world_settle(&world);
            assert_int_equal(in[0].came, i + 1);
            assert_int_equal(out[0].sent, i + 1);
            assert_int_equal(in[0].tolds, placed ? i + 1 : 0);
            bytes_check(0, i * SLICE, (i + 1) * SLICE);
        }
        /* One OFFER leaves for each slice that was not posted when it became ready; else
         * none. */
        assert_int_equal(world.sides[0].rdv->counters.offers, placed ? N - 1 : 0);
        flow_ready(&out[0].flow, N);
        world_settle(&world);
        done_check(0);
        end();
    }
}

/* Slices that become ready before the OFFER leaves go into one OFFER. An older OFFER
 * changes nothing. */
static void test_offers_merge(void **state)
{
    enum { N = 12 };
    begin(NULL);
    in[0].granted = UINT32_MAX;
    start_both(0, N * SLICE, &placed_ops);
    world_settle(&world);
    for (uint32_t i = 1; i <= 5; i++)
        flow_ready(&out[0].flow, i);
    world_settle(&world);
    assert_int_equal(world.sides[0].rdv->counters.offers, 1);
    assert_int_equal(in[0].tolds, 1);
    assert_int_equal(in[0].came, 5);
    /* several are in flight, and are read one after the other */
    world.sides[1].hold_frames = true;
    for (uint32_t i = 6; i <= N; i++) {
        flow_ready(&out[0].flow, i);
        world_pass(&world);
    }
    assert_true(world.sides[0].rdv->counters.offers > 2);
    world.sides[1].hold_frames = false;
    world_settle(&world);
    assert_int_equal(in[0].slices_announced, N);
    done_check(0);
    end();
}

/* Slices are ready before the receive exists, and before the send does: one OFFER at the
 * match announces them. */
static void test_ready_first(void **state)
{
    enum { N = 6 };
    for (int ready = 0; ready <= N; ready += 3) {
        begin(NULL);
        out[0].flow.ready = (uint32_t)ready;
        assert_int_equal(start(true, 0, &out[0], N * SLICE), TRYST_OK);
        world_settle(&world);
        in[0].flow.ops = &placed_ops;
        in[0].granted = UINT32_MAX;
        assert_int_equal(start(false, 0, &in[0], N * SLICE), TRYST_OK);
        world_settle(&world);
        assert_int_equal(in[0].came, ready);
        assert_int_equal(world.sides[0].rdv->counters.offers, ready > 0);
        flow_ready(&out[0].flow, N);
        world_settle(&world);
        done_check(0);
        end();
    }
}

/* Run many flows with few slots; ready, grant, hold and deliver at random. */
static void random_round(uint32_t slots)
{
    uint32_t slices[EDGES];
    slots_max(slots);
    for (int n = 0; n < EDGES; n++) {
        slices[n] = 2 + (uint32_t)random_range(&dice, SLICES_MAX - 2);
        start_both(n, slices[n] * SLICE,
                   random_range(&dice, 2) ? &placed_ops : &plain_ops);
    }
    for (int left = EDGES, turns = 0; left; turns++) {
        int n = (int)random_range(&dice, EDGES);
        assert_true(turns < 200000);
        world.sides[1].hold_frames = random_range(&dice, 3) == 0;
        world.sides[0].hold_frames = random_range(&dice, 3) == 0;
        world.sides[1].hold_bulk = random_range(&dice, 3) == 0;
        world.sides[1].bulk_backwards = random_range(&dice, 2);
        world.sides[0].bulk_backwards = random_range(&dice, 2);
        world.sides[1].read_again = random_range(&dice, 8) == 0;
        world.sides[0].send_again = (uint32_t)random_range(&dice, 2);
        world.sides[1].recv_again = (uint32_t)random_range(&dice, 2);
        if (out[n].flow.ready < slices[n])
            flow_ready(&out[n].flow,
                       out[n].flow.ready + 1 +
                           (uint32_t)random_range(&dice, slices[n] - out[n].flow.ready));
        if (!in[n].ended && in[n].granted < slices[n])
            grant(&in[n], in[n].granted + 1);
        world_pass(&world);
        assert_true(peer_in(world_peer(&world, 1, 0))->slots_ahead <= slots / 2);
        left = 0;
        for (int i = 0; i < EDGES; i++)
            left += (!in[i].ended && in[i].granted < slices[i]) ||
                    out[i].flow.ready < slices[i];
    }
    world.sides[0].hold_frames = world.sides[1].hold_frames = false;
    world.sides[1].hold_bulk = false;
    world.sides[0].send_again = world.sides[1].recv_again = 0;
    world_settle(&world);
    for (int n = 0; n < EDGES; n++)
        done_check(n);
}

static void test_random(void **state)
{
    static const uint32_t slots[] = {1, 2, 3, 8, 64};
    random_seed(&dice, unit_seed());
    for (size_t i = 0; i < COUNT_OF(slots); i++)
        for (int round = 0; round < 4; round++) {
            begin(NULL);
            random_round(slots[i]);
            assert_int_equal(peer_in(world_peer(&world, 1, 0))->slots_ahead, 0);
            assert_int_equal(peer_in(world_peer(&world, 1, 0))->slots_ready, 0);
            end();
        }
}

/* ---- slices get memory ------------------------------------------------------------- */

/* Slices that are borrowed ahead of the OFFER need none, and a WANT that is deferred with
 * them comes again. The sender has its slice, and its window, back at the return, not
 * before; what a return refuses does not count. */
static void test_borrow(void **state)
{
    enum { N = 4 };
    static const struct world_setting narrow[] = {{"parked_max", "1"}, {0}};
    if (!borrow)
        return;
    begin(narrow);
    for (int n = 0; n < EDGES; n++) {
        in[n].flow.ops = &placed_ops;
        in[n].flow.ahead = true;
        in[n].granted = UINT32_MAX;
        assert_int_equal(start(false, n, &in[n], N * SLICE), TRYST_OK);
    }
    world_settle(&world);
    assert_true(world.sides[1].posted_now > 0);
    keep = true;
    for (int n = 0; n < EDGES; n++) {
        out[n].flow.ready = N;
        assert_int_equal(start(true, n, &out[n], N * SLICE), TRYST_OK);
    }
    world_settle(&world);
    for (int n = 0; n < EDGES; n++) {
        assert_int_equal(out[n].sent, 0);
        assert_true(in[n].came > 0 && !out[n].ended);
    }
    assert_true(world.sides[0].in_flight_bytes >= (uint64_t)EDGES * SLICE);
    keep = false;
    world_settle(&world);
    assert_int_equal(world.sides[0].in_flight_bytes, 0);
    for (int n = 0; n < EDGES; n++) {
        done_check(n);
    }
    end();
    begin(NULL);
    in[0].granted = UINT32_MAX;
    out[0].flow.ready = N - 1;
    world.sides[1].lend_nomem = 1;
    start_both(0, N * SLICE, &placed_ops);
    world_settle(&world);
    assert_int_equal(in[0].status, TRYST_E_NOMEM);
    assert_int_equal(out[0].status, TRYST_E_NOMEM);
    assert_int_equal(in[0].origin_rank, 1);
    assert_int_equal(out[0].origin_rank, 1);
    assert_int_equal(in[0].ended + out[0].ended, 2);
    end();
    begin(NULL);
    in[0].granted = UINT32_MAX;
    out[0].flow.ready = N;
    world.sides[1].returns_fail = true;
    start_both(0, N * SLICE, &placed_ops);
    for (int i = 0; i < 40 && !in[0].ended; i++)
        world_advance(&world, TICK_NS);
    assert_int_equal(in[0].ended, 1);
    assert_int_equal(in[0].status, TRYST_E_PEER);
    end();
}

/* Slices are borrowed ahead after the WANT has left and before its send exists: they
 * count at the parked WANT. */
static void test_borrow_before_the_send(void **state)
{
    enum { N = 4 };
    if (!borrow)
        return;
    begin(NULL);
    in[0].flow.ops = &placed_ops;
    in[0].flow.ahead = true;
    assert_int_equal(start(false, 0, &in[0], N * SLICE), TRYST_OK);
    world_settle(&world);
    assert_int_equal(world.sides[1].posted_now, 0);
    grant(&in[0], 2);
    world_settle(&world);
    assert_int_equal(world.sides[1].posted_now, 2);
    out[0].flow.ready = N;
    assert_int_equal(start(true, 0, &out[0], N * SLICE), TRYST_OK);
    world_settle(&world);
    assert_int_equal(in[0].came, 2);
    grant(&in[0], UINT32_MAX);
    world_settle(&world);
    done_check(0);
    end();
}

/* A flow without memory keeps no slot from another receive, and goes on when it has
 * memory. */
static void test_place_again(void **state)
{
    enum { N = 8 };
    static uint8_t large_out[1u << 20], large_in[1u << 20];
    begin(NULL);
    slots_max(2);
    out[0].flow.ready = N;
    start_both(0, N * SLICE, &placed_ops);
    world_settle(&world);
    assert_int_equal(in[0].slices_announced, N);
    assert_int_equal(in[0].refusals, 1);
    const char *key = world_key(&world, 0, 1, "plain");
    tryst_op *recv =
        world_recv(&world, 1, steps[1], key, large_in, sizeof large_in, NULL);
    tryst_op *send =
        world_send(&world, 0, steps[0], key, large_out, sizeof large_out, NULL);
    world_settle(&world);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    for (uint32_t i = 1; i < N; i++) {
        grant(&in[0], i);
        world_settle(&world);
        assert_int_equal(in[0].came, i);
        bytes_check(0, (i - 1) * SLICE, i * SLICE);
    }
    grant(&in[0], UINT32_MAX);
    world_settle(&world);
    done_check(0);
    flow_place_again(&in[0].flow); /* the flow has ended: no effect */
    flow_ready(&out[0].flow, N);
    end();
}

/* Without a slot, `place` is not called. Where the transport has no room, memory from
 * `place` is kept for the next try. */
static void test_place_once(void **state)
{
    enum { N = 4 };
    begin(NULL);
    slots_max(1);
    in[0].granted = in[1].granted = UINT32_MAX;
    out[0].flow.ready = out[1].flow.ready = N;
    world.sides[1].hold_bulk = true;
    start_both(0, N * SLICE, &placed_ops);
    start_both(1, N * SLICE, &placed_ops);
    world_settle(&world);
    assert_int_equal(in[0].placed + in[1].placed, 1);
    if (!borrow)
        assert_ptr_equal(world.sides[1].posted_mem, in[in[1].placed].data);
    world.sides[1].recv_again = 3;
    world.sides[1].hold_bulk = false;
    world_settle(&world);
    done_check(0);
    done_check(1);
    end();
}

/* ---- order ------------------------------------------------------------------------- */

static void test_any_order(void **state)
{
    enum { N = 16 };
    for (int placed = 0; placed < 2; placed++) {
        begin(NULL);
        world.sides[0].bulk_backwards = world.sides[1].bulk_backwards = true;
        world.sides[1].hold_bulk = true;
        in[0].granted = UINT32_MAX;
        out[0].flow.ready = N;
        start_both(0, N * SLICE, placed ? &placed_ops : &plain_ops);
        world_settle(&world);
        world.sides[1].hold_bulk = false;
        world_settle(&world);
        assert_false(ordered);
        done_check(0); /* each call of `sent` was in order too */
        end();
    }
}

/* Ids of small slices: when the ids wrap, the ids of a live receive are skipped as a
 * whole. */
static void test_ids(void **state)
{
    enum { N = 40 };
    begin(NULL);
    struct rendezvous *rdv = world.sides[1].rdv;
    rdv->ids.next = 1;
    start_both(0, N * SLICE, &plain_ops);
    world_settle(&world);
    assert_int_equal(rdv->ids.next, N + 1);
    rdv->ids.next = rdv->ids.clear_end = rdv->ids.mask - 1; /* as after a wrap */
    start_both(1, N * SLICE, &plain_ops);
    world_settle(&world);
    assert_int_equal(rdv->ids.next, 2 * N + 1);
    for (int n = 0; n < 2; n++)
        flow_ready(&out[n].flow, N);
    world_settle(&world);
    done_check(0);
    done_check(1);
    end();
}

/* The plan's slices may be larger than those of ordinary receives. */
static void test_large_slices(void **state)
{
    begin(NULL);
    in[0].flow.slice_bytes = out[0].flow.slice_bytes = 2u << 20;
    start_both(0, 50 * SLICE, &plain_ops);
    assert_int_equal(in[0].flow.slices, 1);
    flow_ready(&out[0].flow, 1);
    world_settle(&world);
    done_check(0);
    end();
}

/* ---- small flows ------------------------------------------------------------------- */

static const struct world_setting no_eager[] = {{"eager_max", "0"}, {0}};
static const struct world_setting little_credit[] = {{"eager_credit", "4K"}, {0}};

/* A small flow travels as DATA when it is ready; its receive may come later. Numbers
 * follow the order of the starts, though the second flow is ready first. */
static void test_small(void **state)
{
    static const size_t sizes[] = {0, 1, 4096};
    static const struct world_setting *const settings[] = {NULL, no_eager, little_credit};
    for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(settings) * 2; i++) {
        size_t bytes = sizes[i / 2 % COUNT_OF(sizes)];
        bool late = i % 2, bulk = settings[i / 6] == no_eager && bytes;
        begin(settings[i / 6]);
        for (int n = 0; n < 2 && !late; n++)
            assert_int_equal(start(false, 0, &in[n], bytes), TRYST_OK);
        for (int n = 0; n < 2; n++)
            assert_int_equal(start(true, 0, &out[n], bytes), TRYST_OK);
        memset(out[1].data, 0x77, bytes);
        world_settle(&world);
        flow_ready(&out[1].flow, 1);
        world_settle(&world);
        assert_int_equal(in[0].came, 0);
        for (int n = 0; n < 2 && late; n++)
            assert_int_equal(start(false, 0, &in[n], bytes), TRYST_OK);
        world_settle(&world);
        assert_int_equal(in[1].came, 1);
        if (bytes && bulk)
            assert_int_equal(in[1].ended, 1);
        assert_int_equal(world.sides[0].rdv->counters.slices_started, bulk);
        flow_ready(&out[0].flow, 1);
        world_settle(&world);
        done_check(0);
        done_check(1);
        assert_int_equal(peer_out(world_peer(&world, 0, 1))->eager_used, 0);
        end();
    }
}

/* ---- the ends do not agree --------------------------------------------------------- */

static void test_slice_bytes_differ(void **state)
{
    begin(NULL);
    in[0].flow.slice_bytes = 2 * SLICE;
    out[0].flow.ready = 4;
    start_both(0, 8 * SLICE, &plain_ops);
    world_settle(&world);
    assert_int_equal(in[0].ended + out[0].ended, 2);
    assert_int_equal(in[0].status, TRYST_E_MISMATCH);
    assert_int_equal(out[0].status, TRYST_E_MISMATCH);
    assert_non_null(strstr(in[0].text, "slices"));
    assert_non_null(strstr(out[0].text, "slices"));
    assert_int_equal(in[0].came + out[0].sent, 0);
    end();
}

static void test_device(void **state)
{
    begin(NULL);
    in[0].flow.slice_bytes = SLICE;
    in[0].flow.ops = &plain_ops;
    tryst_tensor tensor = {
        .dtype = TRYST_DTYPE_U8, .count = 4, .memory = TRYST_MEMORY_CUDA};
    struct flow_params params = {.tensor = &tensor};
    assert_int_equal(flow_recv(world.sides[1].rdv, &in[0].flow, &params),
                     TRYST_E_UNSUPPORTED);
    assert_null(in[0].flow.op);
    end();
}

/* ---- hostile ----------------------------------------------------------------------- */

/* Inject a record as if rank 0 had sent it. */
static void inject(const void *record, size_t bytes)
{
    struct peer *peer = world_peer(&world, 1, 0);
    _Alignas(8) uint8_t frame[256];
    struct frame_header header = {.frames_read = peer->frames.acked,
                                  .wants_taken = peer_out(peer)->wants_acked,
                                  .done_base = (uint32_t)peer_out(peer)->stream.acked,
                                  .done_mask = peer_out(peer)->stream.mask,
                                  .records = 1};
    memcpy(frame, &header, sizeof header);
    memcpy(frame + sizeof header, record, bytes);
    world_inject(&world, 1, 0, frame, sizeof header + bytes);
}

static void inject_offer(uint32_t ready)
{
    const struct {
        struct record_offer offer;
        struct flow_shape shape;
    } shaped = {
        {.header = {.type = RECORD_OFFER, .flags = RECORD_SHAPE, .bytes = sizeof shaped},
         .want = in[0].flow.op->id,
         .step = 1,
         .bytes = 8 * SLICE,
         .ready = ready,
         .dtype = TRYST_DTYPE_U8},
        in[0].flow.shape};
    inject(&shaped, sizeof shaped);
}

static void inject_deferred(void)
{
    const struct record_answer answer = {
        .header = {.type = RECORD_DEFERRED, .bytes = sizeof answer},
        .id = in[0].flow.op->id,
        .origin_rank = -1};
    inject(&answer, sizeof answer);
}

static void test_hostile(void **state)
{
    static const struct {
        uint32_t first, second;
        bool deferred, dies;
        uint32_t slices_announced;
    } rows[] = {{5, 3, false, false, 5},         {5, 0, false, false, 5},
                {8, 8, false, false, 8},         {9, 0, false, true, 0},
                {2, UINT32_MAX, false, true, 2}, {2, 2, true, true, 2}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        start_both(0, 8 * SLICE, &placed_ops);
        world_settle(&world);
        inject_offer(rows[i].first);
        if (world_peer(&world, 1, 0)->life == PEER_ALIVE && rows[i].deferred)
            inject_deferred();
        else if (world_peer(&world, 1, 0)->life == PEER_ALIVE)
            inject_offer(rows[i].second);
        assert_int_equal(world_peer(&world, 1, 0)->life != PEER_ALIVE, rows[i].dies);
        assert_int_equal(in[0].slices_announced, rows[i].slices_announced);
        if (!rows[i].dies)
            assert_int_equal(in[0].flow.slices_announced, rows[i].slices_announced);
        world_settle(&world);
        assert_int_equal(in[0].ended, rows[i].dies);
        if (rows[i].dies)
            assert_int_equal(in[0].status, TRYST_E_PROTOCOL);
        end();
        assert_int_equal(in[0].ended, 1);
        assert_int_equal(out[0].ended, 1);
    }
}

/* ---- every way to end -------------------------------------------------------------- */

enum action {
    FAIL_SEND,
    FAIL_RECV,
    CANCEL_SEND,
    CANCEL_RECV,
    ABORT,
    CLOSE_SEND,
    CLOSE_RECV,
    KILL,
    ACTIONS
};

static void close_step(int rank)
{
    assert_int_equal(tryst_step_close(steps[rank], NULL), TRYST_OK);
    steps[rank] = NULL;
}

static void act(enum action action)
{
    bool gives_up = action == CANCEL_SEND || action == CANCEL_RECV;
    tryst_status status = gives_up ? TRYST_E_CANCELED : TRYST_E_PEER;
    for (int n = 0; n < 3; n++) {
        if (action == FAIL_SEND || action == CANCEL_SEND)
            flow_fail(&out[n].flow, (struct cause){status, 0, TRYST_E_PEER}, "the cause");
        if (action == FAIL_RECV || action == CANCEL_RECV)
            flow_fail(&in[n].flow, (struct cause){status, 1, TRYST_E_PEER}, "the cause");
    }
    if (action == ABORT)
        assert_int_equal(tryst_step_abort(steps[1], TRYST_E_MISMATCH, "no"), TRYST_OK);
    if (action == CLOSE_SEND || action == CLOSE_RECV)
        close_step(action == CLOSE_RECV);
    if (action == KILL)
        world_kill(&world, 0);
}

static bool all_ended(bool recv)
{
    for (int n = 0; n < 3; n++)
        if (!(recv ? in : out)[n].ended)
            return false;
    return true;
}

/* Start a small, a placed and a posted flow, make `passes` passes, then do `action`.
 * Return true if all flows had ended before. */
static bool end_after(enum action action, int passes, unsigned held)
{
    begin(NULL);
    slots_max(6);
    world.sides[0].window_bytes = 3 * SLICE;
    if (passes != 1) {
        start_both(0, 100, &plain_ops);
        start_both(1, 10 * SLICE, &placed_ops);
        start_both(2, 10 * SLICE, &plain_ops);
    } else { /* the receives come later, if at all */
        for (int n = 0; n < 3; n++)
            assert_int_equal(start(true, n, &out[n], n ? 10 * SLICE : 100), TRYST_OK);
    }
    world.sides[1].hold_bulk = held & 1;
    world.sides[0].hold_sent = held & 2;
    keep = held & 4;
    for (int i = 0; i < passes && passes > 1; i++) {
        for (int n = 0; n < 3; n++) {
            uint32_t slices = out[n].flow.slices;
            if (n && !out[n].ended)
                flow_ready(&out[n].flow,
                           (uint32_t)i + 1 < slices ? (uint32_t)i + 1 : slices);
            if (n == 0 && i > 8)
                flow_ready(&out[n].flow, 1);
        }
        if (i % 2)
            grant(&in[1], in[1].granted + 2);
        world_pass(&world);
    }
    if (passes == 1 && action != ABORT && action != CLOSE_RECV)
        for (int n = 0; n < 3; n++)
            assert_int_equal(start(false, n, &in[n], n ? 10 * SLICE : 100), TRYST_OK);
    bool early = all_ended(true) && all_ended(false);
    act(action);
    for (int i = 0; i < 3; i++)
        world_pass(&world);
    world.sides[1].hold_bulk = world.sides[0].hold_sent = keep = false;
    world_settle(&world);
    return early;
}

static void end_check(enum action action, int passes)
{
    bool receives = passes != 1 || (action != ABORT && action != CLOSE_RECV);
    if (action == KILL) {
        assert_true(all_ended(true));
    } else {
        for (int i = 0; i < 3 && !all_ended(false); i++)
            world_advance(&world, TICK_NS);
        assert_true(all_ended(false));
        assert_true(!receives || all_ended(true));
    }
    for (int n = 0; n < 3; n++) {
        assert_true(in[n].ended <= 1 && out[n].ended <= 1);
        if (receives && in[n].status == TRYST_OK && in[n].ended)
            assert_int_equal(in[n].came, in[n].flow.slices);
    }
}

static void test_ends(void **state)
{
    for (int action = 0; action < ACTIONS; action++)
        for (unsigned held = 0; held < (borrow ? 8 : 4); held++)
            for (int passes = 0; passes < 40; passes++) {
                bool early = end_after((enum action)action, passes, held);
                end_check((enum action)action, passes);
                end();
                for (int n = 0; n < 3; n++)
                    assert_true(in[n].ended <= 1 && out[n].ended == 1);
                if (early)
                    break;
            }
}

/* Check that the flow ended once with TRYST_E_PEER, and with the origin that flow_fail
 * was given. */
static void check_cause(const struct edge *edge, int32_t origin_rank)
{
    assert_int_equal(edge->ended, 1);
    assert_int_equal(edge->status, TRYST_E_PEER);
    assert_int_equal(edge->origin_rank, origin_rank);
    assert_int_equal(edge->origin_status, TRYST_E_SYSTEM);
}

/* A flow that fails before it is ready fails at the other end at once, not at a tick. */
static void test_failure_travels(void **state)
{
    for (int i = 0; i < 8; i++) {
        bool send = i & 1, small = i & 2;
        int32_t origin = i / 4;
        begin(NULL);
        start_both(0, small ? 8 : 8 * SLICE, &placed_ops);
        world_settle(&world);
        flow_fail(send ? &out[0].flow : &in[0].flow,
                  (struct cause){TRYST_E_PEER, origin, TRYST_E_SYSTEM}, "it died");
        world_settle(&world);
        check_cause(&in[0], origin);
        check_cause(&out[0], origin);
        end();
    }
}

static struct cause on_failing(const struct flow *flow)
{
    (void)flow;
    return (struct cause){TRYST_E_PEER, 1, TRYST_E_SYSTEM};
}

/* The owner is failing, and the step is closed before the owner has failed its flows.
 * Both ends must report the owner's cause. */
static void test_close_while_failing(void **state)
{
    struct flow_ops ops = plain_ops;
    ops.failing = on_failing;
    for (int i = 0; i < 4; i++) {
        bool send = i & 1, small = i & 2;
        struct edge *own = send ? out : in, *other = send ? in : out;
        begin(NULL);
        out[0].flow.ops = send ? &ops : &plain_ops;
        start_both(0, small ? 8 : 8 * SLICE, send ? &plain_ops : &ops);
        world_settle(&world);
        close_step(send ? 0 : 1);
        world_settle(&world);
        end();
        check_cause(own, 1);
        check_cause(other, 1);
    }
}

/* ---- failures of a closed step ----------------------------------------------------- */

static const struct cause died = {TRYST_E_PEER, 1, TRYST_E_SYSTEM};

/* Let rank 0 fail flow `n` before its WANT comes. */
static void fail_early(int n, size_t bytes)
{
    assert_int_equal(start(true, n, &out[n], bytes), TRYST_OK);
    flow_fail(&out[n].flow, died, "it died");
    check_cause(&out[n], 1);
}

static bool step_is_gone(int rank)
{
    return !scope_find(&world.sides[rank].rdv->scopes, flow_step);
}

/* The failure has not left (as before a connection) when the step is closed and the WANT
 * arrives. The failure must answer the WANT. */
static void test_want_before_failure(void **state)
{
    for (int small = 0; small < 2; small++) {
        size_t bytes = small ? 8 : 8 * SLICE;
        begin(NULL);
        world.sides[1].hold_frames = true;
        world.sides[0].frames_max = 1;
        tryst_op *first = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "s"),
                                     out[1].data, 8, NULL);
        world_settle(&world);
        fail_early(0, bytes);
        close_step(0);
        world_settle(&world);
        assert_int_equal(start(false, 0, &in[0], bytes), TRYST_OK);
        world_doze(&world); /* announces the receive */
        world_settle(&world);
        assert_int_equal(in[0].ended, 0);
        world.sides[1].hold_frames = false;
        world_settle(&world);
        check_cause(&in[0], 1);
        tryst_op_release(first);
        end();
    }
}

/* Let flows fail while all eager credit is out. Their failures wait for WANTs or for
 * credit, also after the close. */
static void begin_without_credit(tryst_op **taker_p)
{
    static const struct world_setting little[] = {
        {"eager_credit", "4K"}, {"eager_max", "4000"}, {0}};
    begin(little);
    *taker_p = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "taker"),
                          out[EDGES - 1].data, 3900, NULL);
    world_settle(&world);
    fail_early(0, 8);
    fail_early(1, 8 * SLICE);
    for (int i = 0; i < 70; i++)
        world_pass(&world);
    assert_true(peer_in(world_peer(&world, 1, 0))->header_flags & FRAME_BLOCKED);
    assert_int_equal(peer_out(world_peer(&world, 0, 1))->failures_count, 2);
    close_step(0);
    world_settle(&world);
    assert_false(step_is_gone(0));
}

static void end_without_credit(tryst_op *taker)
{
    const struct peer *peer = world_peer(&world, 0, 1);
    assert_int_equal(peer_out(peer)->failures_count, 0);
    assert_true(urgent_empty(&peer_out(peer)->blocked_sends));
    tryst_op_release(taker);
    end();
}

static void test_failures_without_credit(void **state)
{
    enum { WANTED, CREDITED, CLOSED, DIED, LEFT, HOWS };
    for (int how = 0; how < HOWS; how++) {
        tryst_op *taker;
        begin_without_credit(&taker);
        if (how == CREDITED) {
            tryst_op *op =
                world_recv(&world, 1, steps[1], world_key(&world, 0, 1, "taker"),
                           in[EDGES - 1].data, 3900, NULL);
            world_settle(&world);
            assert_int_equal(peer_out(world_peer(&world, 0, 1))->failures_count, 0);
            assert_true(peer_in(world_peer(&world, 1, 0))->unexpected_bytes > 0);
            tryst_op_release(op);
        }
        if (how == WANTED || how == CREDITED) {
            assert_int_equal(start(false, 0, &in[0], 8), TRYST_OK);
            assert_int_equal(start(false, 1, &in[1], 8 * SLICE), TRYST_OK);
        } else if (how == CLOSED) {
            close_step(1);
        } else if (how == DIED) {
            world_kill(&world, 1);
        } else {
            tryst_op_release(taker);
            end(); /* the group closes with failures that wait */
            continue;
        }
        world_settle(&world);
        for (int i = 0; i < 2 && how != DIED; i++)
            world_advance(&world, TICK_NS);
        if (how == WANTED || how == CREDITED) {
            check_cause(&in[0], 1);
            check_cause(&in[1], 1);
        }
        if (how == CREDITED || how == CLOSED)
            assert_true(step_is_gone(0));
        if (how == DIED) {
            tryst_op_release(taker);
            end();
        } else {
            end_without_credit(taker);
        }
    }
}

/* The peer opens the step after this rank has closed it, and closes it without a receive.
 * This rank must send ASK at each tick until the failures are dropped. */
static void test_failures_asked(void **state)
{
    static const struct world_setting little[] = {
        {"eager_credit", "4K"}, {"eager_max", "4000"}, {0}};
    begin(little);
    close_step(0);
    close_step(1);
    tryst_step *before[2] = {world_step(&world, 0, 2), world_step(&world, 1, 2)};
    tryst_op *taker = world_send(&world, 0, before[0], world_key(&world, 0, 1, "taker"),
                                 out[EDGES - 1].data, 3900, NULL);
    world_settle(&world);
    flow_step = 3;
    steps[0] = world_step(&world, 0, flow_step);
    world_settle(&world);
    fail_early(0, 8);
    close_step(0);
    world_advance(&world, TICK_NS);
    steps[1] = world_step(&world, 1, flow_step);
    close_step(1);
    for (int i = 0; i < 2; i++)
        world_advance(&world, TICK_NS);
    assert_true(step_is_gone(0));
    assert_int_equal(peer_out(world_peer(&world, 0, 1))->failures_count, 0);
    flow_step = 1;
    tryst_op_release(taker);
    steps[0] = before[0];
    steps[1] = before[1];
    end();
}

/* A peer that takes nothing makes this rank keep FAILURES_MAX failures. Later failures
 * must end with TRYST_E_CLOSED at the peer. */
static void test_failures_max(void **state)
{
    static const struct world_setting little[] = {{"eager_credit", "4K"}, {0}};
    enum { CREDIT = 4096 / (EAGER_OVERHEAD_BYTES + 8), KEPT = CREDIT + FAILURES_MAX };
    begin(little);
    for (int i = 0; i < KEPT + 2; i++) {
        out[0].ended = 0;
        fail_early(0, 8);
    }
    fail_early(1, 8);
    assert_int_equal(peer_out(world_peer(&world, 0, 1))->failures_count, FAILURES_MAX);
    close_step(0);
    world_settle(&world);
    assert_int_equal(start(false, 1, &in[1], 8), TRYST_OK);
    world_doze(&world);
    world_settle(&world);
    assert_int_equal(in[1].ended, 1);
    assert_int_equal(in[1].status, TRYST_E_CLOSED);
    for (int i = 0; i < KEPT + 2; i++) {
        in[0].ended = 0;
        assert_int_equal(start(false, 0, &in[0], 8), TRYST_OK);
        world_doze(&world);
        world_settle(&world);
        if (i < KEPT)
            check_cause(&in[0], 1);
        assert_int_equal(in[0].ended, 1);
    }
    assert_int_equal(in[0].status, TRYST_E_CLOSED);
    assert_int_equal(in[0].origin_rank, 0);
    assert_true(step_is_gone(0));
    end();
}

/* DATA is being withdrawn, and the step is aborted before the CANCEL leaves. The CANCEL
 * must carry one cause, not parts of two. */
static void test_abort_while_taking_back(void **state)
{
    begin(NULL);
    out[0].flow.ready = 1;
    assert_int_equal(start(true, 0, &out[0], 8), TRYST_OK);
    world_settle(&world);
    world.hold_links = true;
    flow_fail(&out[0].flow, (struct cause){TRYST_E_DEADLINE, 1, TRYST_E_DEADLINE},
              "late");
    assert_int_equal(tryst_step_abort(steps[0], TRYST_E_IO, "no"), TRYST_OK);
    world_settle(&world);
    assert_int_equal(out[0].status, TRYST_E_ABORTED);
    assert_int_equal(start(false, 0, &in[0], 8), TRYST_OK);
    world_settle(&world);
    world.hold_links = false;
    world_settle(&world);
    assert_int_equal(in[0].ended, 1);
    assert_int_equal(in[0].status, TRYST_E_ABORTED);
    assert_int_equal(in[0].origin_rank, 0);
    assert_int_equal(in[0].origin_status, TRYST_E_IO);
    end();
}

/* All bytes are in flight when the receive fails. The bytes must be dropped, and the
 * receive must report its cause. */
static void test_late_failure(void **state)
{
    for (int small = 0; small < 2; small++) {
        begin(NULL);
        world.sides[1].hold_bulk = world.sides[1].hold_frames = small;
        out[0].flow.ready = small ? 1 : 4;
        in[0].granted = UINT32_MAX;
        start_both(0, small ? 8 : 4 * SLICE, &placed_ops);
        if (small) {
            world_doze(&world); /* announces the receive: else it would fail at once */
            world_pass(&world);
        } else {
            world_settle(&world);
            assert_int_equal(in[0].ended, 1);
            end();
            begin(NULL);
            world.sides[1].hold_bulk = true;
            out[0].flow.ready = 4;
            in[0].granted = UINT32_MAX;
            start_both(0, 4 * SLICE, &placed_ops);
            world_settle(&world);
        }
        flow_fail(&in[0].flow, (struct cause){TRYST_E_PEER, 1, TRYST_E_SYSTEM},
                  "it died");
        world.sides[1].hold_bulk = world.sides[1].hold_frames = false;
        world_settle(&world);
        check_cause(&in[0], 1);
        assert_int_equal(in[0].came, 0);
        assert_int_equal(out[0].ended, 1);
        end();
    }
}

/* The transport sends none of the slices: none counts as sent, so the owner does not
 * overwrite them. */
static void test_unsent(void **state)
{
    begin(NULL);
    out[0].flow.ready = 4;
    start_both(0, 4 * SLICE, &plain_ops);
    world.sides[0].sends_fail = true;
    world_settle(&world);
    world_advance(&world, 1500 * NS_PER_MS);
    world_settle(&world);
    assert_int_equal(out[0].ended, 1);
    assert_int_equal(out[0].status, TRYST_E_PEER);
    assert_int_equal(out[0].sent, 0);
    end();
}

/* A flow that cannot start: `ended` is called within the start. */
static void test_cannot_start(void **state)
{
    for (int how = 0; how < 3; how++) {
        begin(NULL);
        struct scope *scope = scope_find(&world.sides[1].rdv->scopes, 1);
        start_both(1, 8 * SLICE, &placed_ops); /* keeps the scope of the closed step */
        world_settle(&world);
        if (how == 0)
            assert_int_equal(tryst_step_abort(steps[1], TRYST_E_MISMATCH, "no"),
                             TRYST_OK);
        else if (how == 1)
            close_step(1);
        else
            world_kill(&world, 0);
        pass_run(world.sides[1].rdv);
        if (how == 2)
            world_settle(&world);
        assert_true(how == 1 || scope == scope_find(&world.sides[1].rdv->scopes, 1));
        if (scope_find(&world.sides[1].rdv->scopes, 1)) {
            assert_int_equal(start(false, 0, &in[0], 8), TRYST_OK);
            assert_int_equal(in[0].ended, 1);
            assert_int_equal(in[0].status, how == 0   ? TRYST_E_ABORTED
                                           : how == 1 ? TRYST_E_CLOSED
                                                      : TRYST_E_PEER);
            assert_int_equal(in[0].origin_rank, how == 0 ? 1 : how == 1 ? -1 : 0);
        }
        end();
    }
}

/* ---- numbers that are given -------------------------------------------------------- */

/* Start one end of a ready flow of key 0 with this number. */
static void start_numbered(bool send, struct edge *edge, uint64_t number)
{
    flow_number = &number;
    edge->flow.ready = send;
    assert_int_equal(start(send, 0, edge, 100), TRYST_OK);
    flow_number = NULL;
}

/* Start the send of a flow of key 0 with this number; its bytes are not ready. */
static void start_held(struct edge *edge, uint64_t number)
{
    flow_number = &number;
    assert_int_equal(start(true, 0, edge, 100), TRYST_OK);
    flow_number = NULL;
}

/* A receive waits for a number that the sender skips, whether its WANT comes before or
 * after: later numbers meet, and the receive ends when it fails or when the sender closes
 * the step. */
static void test_send_skips(void **state)
{
    for (int i = 0; i < 8; i++) {
        bool is_first = i & 1, closes = i & 2, fails = i & 4;
        begin(NULL);
        if (is_first) {
            start_numbered(false, &in[0], 0);
            world_settle(&world);
            world_advance(&world, TICK_NS);
        }
        start_numbered(true, &out[1], 1);
        world_settle(&world);
        if (!is_first)
            start_numbered(false, &in[0], 0);
        world_settle(&world);
        world_advance(&world, TICK_NS);
        start_numbered(false, &in[1], 1);
        world_settle(&world);
        assert_int_equal(in[1].ended, 1);
        assert_int_equal(in[1].status, TRYST_OK);
        assert_int_equal(in[1].came, 1);
        assert_int_equal(in[0].ended, 0);
        if (fails)
            flow_fail(&in[0].flow, (struct cause){TRYST_E_DEADLINE, 1, TRYST_E_DEADLINE},
                      "late");
        world_settle(&world);
        if (closes) {
            assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK);
            steps[0] = NULL;
        }
        world_settle(&world);
        assert_int_equal(in[0].ended, fails || closes);
        if (fails || closes)
            assert_int_equal(in[0].status, fails ? TRYST_E_DEADLINE : TRYST_E_CLOSED);
        assert_int_equal(in[0].came, 0);
        end();
    }
}

/* DATA for a number that the receiver skips is dropped, whether it comes before or after,
 * and its send ends. */
static void test_recv_skips(void **state)
{
    for (int is_first = 0; is_first < 2; is_first++) {
        begin(NULL);
        if (is_first) {
            start_numbered(true, &out[0], 0);
            world_settle(&world);
        }
        start_numbered(false, &in[1], 1);
        world_settle(&world);
        if (!is_first)
            start_numbered(true, &out[0], 0);
        start_numbered(true, &out[1], 1);
        world_settle(&world);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(out[i].ended, 1);
            assert_int_equal(out[i].status, TRYST_OK);
        }
        assert_int_equal(in[1].status, TRYST_OK);
        assert_int_equal(in[1].came, 1);
        end();
    }
}

/* The WANT of a numbered flow waits for the bytes of its send, and the send fails. The
 * receive ends, with its own failure or that of the send, also when the step of the send
 * is closed before or after the failure, or the receive is failing too. */
static void test_held_numbered_fails(void **state)
{
    static const struct cause given_up = {TRYST_E_CANCELED, 0, TRYST_E_CANCELED};
    static const struct cause late = {TRYST_E_DEADLINE, 1, TRYST_E_DEADLINE};
    for (int i = 0; i < 16; i++) {
        bool fails = i & 1, closes = i & 2, receive_fails = i & 4, crosses = i & 8;
        begin(NULL);
        start_numbered(false, &in[0], 1);
        world_settle(&world);
        world_advance(&world, TICK_NS);
        start_held(&out[0], 1);
        world_settle(&world);
        assert_int_equal(peer_in(world_peer(&world, 0, 1))->parked_count, 1);
        world.sides[0].hold_frames = crosses;
        if (receive_fails)
            flow_fail(&in[0].flow, late, "late");
        if (!crosses)
            world_settle(&world);
        if (fails)
            flow_fail(&out[0].flow, given_up, "given up");
        if (closes) {
            assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK);
            steps[0] = NULL;
        }
        world.sides[0].hold_frames = false;
        world_settle(&world);
        assert_int_equal(out[0].ended, fails || closes || receive_fails);
        assert_int_equal(in[0].ended, fails || closes || receive_fails);
        assert_int_equal(in[0].came, 0);
        end();
    }
}

/* The step is closed while the DATA of a flow waits for a frame, and the WANT comes. The
 * DATA must answer it, with and without a number that is given. */
static void test_want_before_data(void **state)
{
    tryst_status status[2];
    for (int numbered = 0; numbered < 2; numbered++) {
        begin(NULL);
        world.sides[1].hold_frames = true;
        world.sides[0].frames_max = 1;
        tryst_op *first = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "s"),
                                     out[1].data, 8, NULL);
        world_settle(&world);
        uint64_t number = 0;
        flow_number = numbered ? &number : NULL;
        out[0].flow.ready = 1;
        assert_int_equal(start(true, 0, &out[0], 100), TRYST_OK);
        close_step(0);
        world_settle(&world);
        assert_int_equal(start(false, 0, &in[0], 100), TRYST_OK);
        flow_number = NULL;
        world_doze(&world); /* announces the receive */
        world_settle(&world);
        assert_int_equal(in[0].ended, 0);
        world.sides[1].hold_frames = false;
        world_settle(&world);
        assert_int_equal(in[0].ended, 1);
        status[numbered] = in[0].status;
        tryst_op_release(first);
        end();
    }
    assert_int_equal(status[0], status[1]);
}

/* WANTs that cross the DATA of their numbers leave nothing behind. */
static void test_wants_cross_data(void **state)
{
    begin(NULL);
    for (uint64_t i = 0; i < 4; i++) {
        struct edge *from = &in[i], *to = &out[i];
        start_numbered(false, from, i);
        world.sides[1].hold_frames = true;
        start_numbered(true, to, i);
        world_settle(&world);
        world.sides[1].hold_frames = false;
        world_settle(&world);
        assert_int_equal(from->status, TRYST_OK);
        assert_int_equal(to->ended, 1);
        assert_int_equal(peer_in(world_peer(&world, 0, 1))->parked_count, 0);
    }
    end();
}

/* ---- failures that follow the DATA ------------------------------------------------- */

struct late {
    int count;
    char key[TRYST_KEY_MAX + 1];
    uint64_t step, number;
    struct cause cause;
    char text[256];
};

static void on_late_failure(void *arg, const tryst_key *key, uint64_t step,
                            uint64_t number, struct cause cause, const char *text)
{
    struct late *late = arg;
    late->count++;
    late->step = step;
    late->number = number;
    late->cause = cause;
    snprintf(late->key, sizeof late->key, "%s", key->string);
    snprintf(late->text, sizeof late->text, "%s", text ? text : "");
}

static void fail_late(struct edge *edge, struct cause cause)
{
    tryst_key *key;
    tryst_tensor none = {.struct_size = sizeof none, .dtype = TRYST_DTYPE_U8};
    struct rendezvous *rdv = world.sides[0].rdv;
    assert_int_equal(
        tryst_key_prepare(&world.sides[0].group, world_key(&world, 0, 1, "f0"), &key),
        TRYST_OK);
    struct flow_params params = {
        .scope = scope_find(&rdv->scopes, 1), .step_id = 1, .key = key, .tensor = &none};
    flow_fail_late(rdv, &edge->flow, &params, cause, "too late");
    tryst_key_release(key);
    world_settle(&world);
}

/* Once the DATA of a flow was taken, its failure is reported to the layer above, with the
 * number of the flow. If the DATA still waits for its receive, the receive fails. */
static void test_fail_late(void **state)
{
    const struct cause cause = {TRYST_E_CANCELED, 0, TRYST_E_CANCELED};
    for (int taken = 0; taken < 2; taken++) {
        struct late late = {0};
        begin(NULL);
        world.sides[1].rdv->coll_calls.arg = &late;
        world.sides[1].rdv->coll_calls.late_failure = on_late_failure;
        for (int i = 0; i < 3; i++) {
            out[i].flow.ready = 1;
            assert_int_equal(start(true, 0, &out[i], 100), TRYST_OK);
            if (taken || i < 2)
                assert_int_equal(start(false, 0, &in[i], 100), TRYST_OK);
        }
        world_settle(&world);
        fail_late(&out[2], cause);
        fail_late(&out[2], cause); /* once more: nothing else happens */
        if (!taken)
            assert_int_equal(start(false, 0, &in[2], 100), TRYST_OK);
        world_settle(&world);
        assert_int_equal(late.count, 2 * taken);
        assert_int_equal(in[2].status, taken ? TRYST_OK : TRYST_E_CANCELED);
        assert_int_equal(in[2].came, taken);
        if (taken) {
            assert_string_equal(late.key, world_key(&world, 0, 1, "f0"));
            assert_int_equal(late.step, 1);
            assert_int_equal(late.number, 2);
            assert_int_equal(late.cause.status, TRYST_E_CANCELED);
            assert_int_equal(late.cause.origin_rank, 0);
            assert_string_equal(late.text, "rank 0: too late");
        }
        assert_int_equal(world_peer(&world, 1, 0)->life, PEER_ALIVE);
        out[3].flow.ready = 1; /* the next one of the key */
        assert_int_equal(start(true, 0, &out[3], 100), TRYST_OK);
        assert_int_equal(start(false, 0, &in[3], 100), TRYST_OK);
        world_settle(&world);
        assert_int_equal(in[3].status, TRYST_OK);
        assert_int_equal(in[3].came, 1);
        end();
    }
}

/* ---- dumps and stalls -------------------------------------------------------------- */

static void test_seen(void **state)
{
    static const struct world_setting stall[] = {{"stall_warn", "1s"}, {0}};
    char text[4096] = "";
    FILE *file = tmpfile();
    begin(stall);
    uint64_t before = world.sides[0].rdv->counters.operations;
    start_both(0, 8 * SLICE, &placed_ops);
    start_both(1, 8, &plain_ops);
    for (int i = 0; i < 6; i++)
        world_advance(&world, NS_PER_S);
    for (int i = 0; i < 2; i++)
        assert_null(strstr(world.sides[i].log_text, "stalled"));
    rendezvous_dump(world.sides[0].rdv, fileno(file));
    rewind(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    assert_non_null(strstr(text, "flow's send"));
    assert_non_null(strstr(text, "more of its bytes"));
    flow_ready(&out[0].flow, 8);
    grant(&in[0], 8);
    flow_ready(&out[1].flow, 1);
    world_settle(&world);
    done_check(0);
    done_check(1);
    assert_int_equal(world.sides[0].rdv->counters.operations, before);
    fclose(file);
    end();
}

/* What a rank has seen of the other end, from before the connection to the match. */
static void test_sight(void **state)
{
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    world_open(&world, 2, NULL);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    world_settle(&world);
    assert_int_equal(start(false, 0, &in[0], 8), TRYST_OK);
    assert_int_equal(flow_sight(&in[0].flow), FLOW_UNCONNECTED);
    world_peer(&world, 1, 0)->endpoint.peer_starts =
        true; /* as the peer's message does */
    assert_int_equal(flow_sight(&in[0].flow), FLOW_STARTS_THERE);
    world_settle(&world);
    assert_int_equal(flow_sight(&in[0].flow), FLOW_SILENT);
    assert_int_equal(start(true, 0, &out[0], 8), TRYST_OK);
    world_settle(&world);
    assert_int_equal(flow_sight(&out[0].flow), FLOW_MET);
    flow_ready(&out[0].flow, 1);
    world_settle(&world);
    done_check(0);
    assert_int_equal(flow_sight(&in[0].flow), FLOW_MET);
    end();
}

/* A flow's struct serves again: nothing of the ended flow counts. */
static void test_again(void **state)
{
    enum { N = 8 };
    begin(NULL);
    for (int round = 0; round < 3; round++) {
        struct flow sent = out[0].flow, received = in[0].flow;
        memset(&out[0], 0, sizeof out[0]);
        memset(&in[0], 0, sizeof in[0]);
        out[0].flow = sent;
        in[0].flow = received;
        out[0].flow.ready = 0;
        in[0].granted = UINT32_MAX;
        start_both(0, N * SLICE, &placed_ops);
        world_settle(&world);
        assert_int_equal(in[0].flow.slices_announced, 0);
        flow_ready(&out[0].flow, N);
        world_settle(&world);
        done_check(0);
    }
    end();
}

static void test_raise(void **state)
{
    begin(NULL);
    out[0].flow.ready = 1;
    start_both(0, 8 * SLICE, &plain_ops);
    world_settle(&world);
    flow_raise(&in[0].flow, -5);
    world_settle(&world);
    assert_int_equal(urgency_priority(&out[0].flow.op->want->transfer.urgency), -5);
    flow_raise(&out[0].flow, -7);
    assert_int_equal(urgency_priority(&out[0].flow.op->want->transfer.urgency), -7);
    flow_ready(&out[0].flow, 8);
    world_settle(&world);
    done_check(0);
    flow_raise(&out[0].flow, -8);
    end();
}

/* ---- the layer above --------------------------------------------------------------- */

struct engine {
    int runs, fails, raises;
    int32_t waits_for;
    bool busy;
    tryst_status status;
    tryst_op *op;
};

static int engine_run(void *arg, uint64_t copied_bytes)
{
    struct engine *engine = arg;
    engine->runs++;
    if (!engine->op || engine->status == TRYST_OK)
        return 0;
    op_report(engine->op, engine->status, -1, engine->status, NULL);
    op_end(engine->op);
    engine->op = NULL;
    return 1;
}

static bool engine_busy(void *arg)
{
    return ((struct engine *)arg)->busy;
}

static void engine_fail(void *arg, tryst_op *op, struct cause cause, const char *text)
{
    struct engine *engine = arg;
    assert_ptr_equal(op, engine->op);
    engine->fails++;
    engine->status = cause.status;
}

static void engine_raise(void *arg, tryst_op *op, uint64_t sort_key)
{
    struct engine *engine = arg;
    assert_int_equal(sort_key, urgency_sort_key(URGENCY_TRAINING, -3));
    engine->raises++;
}

static int32_t engine_waits_for(void *arg, const tryst_op *op)
{
    return ((struct engine *)arg)->waits_for;
}

/* Open an operation of the engine, with a deadline unless `deadline_ns` is 0. */
static tryst_op *coll_open(struct engine *engine, uint64_t deadline_ns)
{
    struct rendezvous *rdv = world.sides[0].rdv;
    tryst_op *op = op_open(rdv, OP_COLL);
    op->tensor = (tryst_tensor){0};
    op->scope = scope_find(&rdv->scopes, 1);
    op->step_id = 1;
    op->submitted_ns = clock_now_ns(rdv->clock);
    list_push_back(&op->scope->ops, &op->scope_node);
    op->deadline_at_ns = deadline_ns ? op->submitted_ns + deadline_ns : 0;
    if (deadline_ns)
        assert_int_equal(deadline_add(rdv, op), TRYST_OK);
    engine->op = op;
    engine->status = TRYST_OK;
    return op;
}

static void test_above(void **state)
{
    enum { BY_USER, BY_ABORT, BY_CLOSE, BY_DEADLINE, WAYS };
    static const tryst_status wanted[] = {TRYST_E_CANCELED, TRYST_E_ABORTED,
                                          TRYST_E_CANCELED, TRYST_E_DEADLINE};
    for (int way = 0; way < WAYS; way++) {
        struct engine engine = {0};
        begin(NULL);
        struct rendezvous *rdv = world.sides[0].rdv;
        rdv->coll_calls = (struct coll_calls){.arg = &engine,
                                              .run = engine_run,
                                              .busy = engine_busy,
                                              .fail = engine_fail,
                                              .raise = engine_raise};
        tryst_op *op = coll_open(&engine, way == BY_DEADLINE ? NS_PER_S : 0);
        world_pass(&world);
        assert_true(engine.runs > 0);
        assert_int_equal(tryst_op_reprioritize(op, -3), TRYST_OK);
        for (int i = 0; i < 70; i++)
            world_pass(&world);
        assert_int_equal(engine.raises, 1);
        engine.busy = true;
        assert_int_equal(pass_arm(rdv), TRYST_AGAIN);
        engine.busy = false;
        pass_awake(rdv);
        if (way == BY_USER)
            assert_int_equal(tryst_op_cancel(op), TRYST_OK);
        else if (way == BY_ABORT)
            assert_int_equal(tryst_step_abort(steps[1], TRYST_E_MISMATCH, "no"),
                             TRYST_OK);
        else if (way == BY_CLOSE)
            close_step(0);
        /* also causes a warning about a stall */
        else
            clock_fake_advance(&world.clock, 60 * NS_PER_S);
        world_settle(&world);
        assert_int_equal(engine.fails, 1);
        world_done(op, wanted[way]);
        end();
    }
}

/* The warning about a collective names the rank that it waits for, if that is known. */
static void test_above_stalls(void **state)
{
    static const struct world_setting stall[] = {{"stall_warn", "1s"}, {0}};
    for (int known = 0; known < 2; known++) {
        struct engine engine = {.waits_for = known ? 1 : -1};
        begin(stall);
        world.sides[0].rdv->coll_calls =
            (struct coll_calls){.arg = &engine,
                                .run = engine_run,
                                .busy = engine_busy,
                                .fail = engine_fail,
                                .raise = engine_raise,
                                .waits_for = engine_waits_for};
        tryst_op *op = coll_open(&engine, 0);
        world_advance(&world, 2 * NS_PER_S);
        const char *text =
            strstr(world.sides[0].log_text, "s for the other ranks of its group");
        assert_non_null(text);
        assert_int_equal(strstr(text, "; first of them: rank 1") != NULL, known);
        assert_int_equal(tryst_op_cancel(op), TRYST_OK);
        world_settle(&world);
        world_done(op, TRYST_E_CANCELED);
        end();
    }
}

int main(int argc, char **argv)
{
    borrow = argc > 1 && strcmp(argv[1], "borrow") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_offers_merge),
        cmocka_unit_test(test_ready_first),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_borrow),
        cmocka_unit_test(test_borrow_before_the_send),
        cmocka_unit_test(test_place_again),
        cmocka_unit_test(test_place_once),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_large_slices),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_slice_bytes_differ),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_failure_travels),
        cmocka_unit_test(test_close_while_failing),
        cmocka_unit_test(test_want_before_failure),
        cmocka_unit_test(test_failures_without_credit),
        cmocka_unit_test(test_failures_asked),
        cmocka_unit_test(test_failures_max),
        cmocka_unit_test(test_abort_while_taking_back),
        cmocka_unit_test(test_late_failure),
        cmocka_unit_test(test_unsent),
        cmocka_unit_test(test_cannot_start),
        cmocka_unit_test(test_send_skips),
        cmocka_unit_test(test_recv_skips),
        cmocka_unit_test(test_held_numbered_fails),
        cmocka_unit_test(test_want_before_data),
        cmocka_unit_test(test_wants_cross_data),
        cmocka_unit_test(test_fail_late),
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_sight),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_raise),
        cmocka_unit_test(test_above),
        cmocka_unit_test(test_above_stalls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
