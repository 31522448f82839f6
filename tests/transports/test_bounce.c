/* SPDX-License-Identifier: Apache-2.0 */
/* Staged bulk, between a device that the test advances by hand and a rail that the test
 * controls: order, refusals, slots that run out, copies that fail, and lanes that close
 * while copies run. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "transports/bounce.h"
#include "transports/memory/hand_device.h"

enum { BYTES = 64 * 1024, MANY = 40 };

/* ---- the rail: keeps each bulk that it gets ---- */

static struct {
    struct rail base;
    struct bulk *sends[MANY], *recvs[MANY];
    int sends_count, recvs_count, cancels;
    tryst_status send_says, recv_says; /* TRYST_OK: the rail keeps the bulk */
    tryst_status direct_status;        /* of a bulk in device memory */
} rail;

static tryst_status rail_send(struct endpoint *ep, struct bulk *bulk)
{
    tryst_status status = bulk->memory ? rail.direct_status : rail.send_says;
    assert_true(!bulk->memory || rail.base.memory_kinds); /* the rail lists the kind */
    if (status == TRYST_OK)
        rail.sends[rail.sends_count++] = bulk;
    return status;
}

static tryst_status rail_recv(struct endpoint *ep, struct bulk *bulk)
{
    if (rail.recv_says == TRYST_OK)
        rail.recvs[rail.recvs_count++] = bulk;
    return rail.recv_says;
}

static void rail_cancel(struct endpoint *ep, struct bulk *bulk)
{
    assert_ptr_equal(bulk, rail.recvs[rail.recvs_count - 1]);
    rail.cancels++;
}

static const struct transport_ops rail_ops = {.name = "kept",
                                              .struct_size = sizeof(struct transport_ops),
                                              .bulk_send = rail_send,
                                              .bulk_recv = rail_recv,
                                              .bulk_cancel = rail_cancel};

/* ---- the layer above ---- */

struct job {
    struct bulk bulk;
    char data[BYTES];
    int done, place;
    tryst_status status;
    size_t bytes;
};

static struct bounce bounce;
static struct bounce_lane lane, other;
static struct endpoint ep = {.rail = &rail.base};
static int told, rooms, idles;
static bool wanted;

static bool on_wanted(void *arg, const struct bulk *bulk)
{
    return wanted;
}

static void on_room(void *arg)
{
    rooms++;
}

static void on_idle(void *arg)
{
    assert_true(lane.busy == 0 && lane.closed);
    idles++;
}

static const struct bounce_events events = {on_wanted, on_room, on_idle};

static void on_done(struct bulk *bulk, tryst_status status, size_t bytes)
{
    struct job *job = container_of(bulk, struct job, bulk);
    assert_int_equal(job->done++, 0);
    job->status = status;
    job->bytes = bytes;
    job->place = told++;
}

static struct job *job_make(uint64_t tag)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    memset(job->data, (int)tag + 1, BYTES);
    job->bulk = (struct bulk){.done = on_done,
                              .tag = tag,
                              .data = job->data,
                              .bytes = BYTES,
                              .memory = &hand_row};
    return job;
}

static tryst_status send_start(struct job *job)
{
    return bounce_send(&bounce, &lane, &ep, &job->bulk, true);
}

static tryst_status recv_start(struct job *job)
{
    return bounce_recv(&bounce, &lane, &ep, &job->bulk);
}

static int progress(void)
{
    return bounce.rail.ops->progress(&bounce.rail);
}

/* Complete the oldest bulk at the rail. */
static void rail_ends(struct bulk **kept, int *count, tryst_status status, size_t bytes)
{
    struct bulk *bulk = kept[0];
    assert_true(*count > 0);
    memmove(kept, kept + 1, (size_t)-- * count * sizeof *kept);
    bulk->done(bulk, status, bytes);
}

static void send_ends(tryst_status status)
{
    rail_ends(rail.sends, &rail.sends_count, status, BYTES);
}

static void recv_ends(tryst_status status, size_t bytes)
{
    rail_ends(rail.recvs, &rail.recvs_count, status, bytes);
}

static int setup(void **state)
{
    memset(&rail, 0, sizeof rail);
    rail.base.ops = &rail_ops;
    lane = other = (struct bounce_lane){.busy = 0};
    bounce_lane_init(&lane);
    bounce_lane_init(&other);
    told = rooms = idles = 0;
    wanted = true;
    bounce_init(&bounce, &events, NULL, NULL, NULL, 4 * BYTES);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(lane.busy + other.busy, 0);
    assert_int_equal(lane.in_bytes + other.in_bytes, 0);
    assert_int_equal(bounce.out_used, 0);
    bounce_end(&bounce);
    hand_check();
    return 0;
}

static void job_ended(struct job *job, tryst_status status)
{
    assert_int_equal(job->done, 1);
    assert_int_equal(job->status, status);
    free(job);
}

/* ---- sends ---- */

/* Staged sends go to the rail in their order, however late the copy of the first one
 * ends. */
static void test_order(void **state)
{
    struct job *jobs[3];
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(send_start(jobs[i] = job_make(i)), TRYST_OK);
    assert_int_equal(bounce.rail.ops->arm(&bounce.rail), TRYST_E_UNSUPPORTED);
    assert_true(bounce.rail.copies_busy > 0);
    (void)progress();
    assert_int_equal(rail.sends_count, 0); /* no byte of the bulk is in the slot yet */
    (void)hand_run(0, 2);
    rail.send_says = TRYST_AGAIN;
    (void)progress();
    (void)hand_run(0, 4);
    (void)progress();
    rail.send_says = TRYST_OK;
    assert_int_equal(progress(), 3);
    for (int i = 0; i < 3; i++) {
        const struct bulk *inner = rail.sends[i];
        assert_int_equal(inner->tag, i);
        assert_null(inner->memory);
        assert_int_equal(((char *)inner->data)[BYTES - 1], i + 1);
    }
    assert_int_equal(told, 0);
    for (int i = 0; i < 3; i++)
        send_ends(TRYST_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs[i]->bytes, BYTES);
        job_ended(jobs[i], TRYST_OK);
    }
    assert_int_equal(bounce.rail.ops->arm(&bounce.rail), TRYST_OK);
}

/* A cancelled send never reaches the rail; a broken rail reports its own status. */
static void test_unwanted(void **state)
{
    struct job *first = job_make(0), *second = job_make(1);
    assert_int_equal(send_start(first), TRYST_OK);
    assert_int_equal(send_start(second), TRYST_OK);
    hand_run_all();
    wanted = false;
    (void)progress();
    assert_int_equal(rail.sends_count, 0);
    job_ended(first, TRYST_E_CANCELED);
    job_ended(second, TRYST_E_CANCELED);
    wanted = true;
    rail.send_says = TRYST_E_PEER;
    assert_int_equal(send_start(first = job_make(2)), TRYST_OK);
    hand_run_all();
    (void)progress();
    job_ended(first, TRYST_E_PEER);
}

/* A copy that fails ends its send; those behind it keep their order. */
static void test_send_fails(void **state)
{
    struct job *good = job_make(0), *bad = job_make(1), *behind = job_make(2);
    assert_int_equal(send_start(good), TRYST_OK);
    hand.fail_copy = 1;
    assert_int_equal(send_start(bad), TRYST_OK);
    assert_int_equal(send_start(behind), TRYST_OK);
    (void)progress();
    assert_int_equal(bad->done, 0); /* not before its turn */
    hand_run_all();
    (void)progress();
    job_ended(bad, TRYST_E_SYSTEM);
    assert_int_equal(rail.sends_count, 2);
    send_ends(TRYST_OK);
    send_ends(TRYST_OK);
    job_ended(good, TRYST_OK);
    job_ended(behind, TRYST_OK);
}

/* No slot: AGAIN while a slot is in use, because it will be returned; otherwise an error,
 * because no later event would help. */
static void test_sends_run_out(void **state)
{
    struct job *jobs[4], *more = job_make(9);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(send_start(jobs[i] = job_make(i)), TRYST_OK);
    assert_int_equal(send_start(more), TRYST_AGAIN);
    assert_int_equal(more->done, 0);
    hand_run_all();
    (void)progress();
    assert_int_equal(send_start(more), TRYST_AGAIN); /* still at the rail */
    send_ends(TRYST_OK);
    assert_int_equal(send_start(more), TRYST_OK);
    hand_run_all();
    (void)progress();
    for (int i = 0; i < 4; i++)
        send_ends(TRYST_OK);
    for (int i = 0; i < 4; i++)
        job_ended(jobs[i], TRYST_OK);
    job_ended(more, TRYST_OK);
}

static void test_no_memory(void **state)
{
    struct job *job = job_make(0);
    job->bulk.bytes = BYTES / 2; /* a size without slots so far */
    hand.fail_pinned = 1;
    assert_int_equal(send_start(job), TRYST_OK);
    assert_int_equal(job->done, 0);
    (void)progress();
    assert_int_equal(rail.sends_count, 0);
    job_ended(job, TRYST_E_NOMEM);
    job = job_make(1);
    alloc_fail_at(1); /* the slot's record */
    bounce_end(&bounce);
    bounce_init(&bounce, &events, NULL, NULL, NULL, 4 * BYTES);
    assert_int_equal(send_start(job), TRYST_AGAIN);
    assert_int_equal(recv_start(job), TRYST_OK);
    assert_true(alloc_fail_off());
    recv_ends(TRYST_E_CANCELED, 0);
    job_ended(job, TRYST_E_CANCELED);
}

/* ---- bulk that the rail moves directly ---- */

static void test_direct(void **state)
{
    struct job *job = job_make(0), *to_host = job_make(1);
    rail.base.memory_kinds = 1u << hand_row.kind;
    assert_int_equal(send_start(job), TRYST_OK);
    assert_int_equal(rail.sends_count, 1);
    assert_ptr_equal(rail.sends[0]->memory, &hand_row);
    assert_ptr_equal(rail.sends[0]->data, job->data);
    assert_int_equal(bounce_send(&bounce, &lane, &ep, &to_host->bulk, false), TRYST_OK);
    assert_int_equal(rail.sends_count,
                     1); /* the receiver has host memory: through a slot */
    hand_run_all();
    (void)progress();
    assert_null(rail.sends[1]->memory);
    send_ends(TRYST_OK);
    send_ends(TRYST_OK);
    job_ended(job, TRYST_OK);
    job_ended(to_host, TRYST_OK);
}

/* The rail refuses, at once or later: the bytes go through a slot instead, and `done` is
 * called once. */
static void test_refused(void **state)
{
    struct job *at_once = job_make(0), *later = job_make(1);
    rail.base.memory_kinds = 1u << hand_row.kind;
    rail.direct_status = TRYST_E_UNSUPPORTED;
    assert_int_equal(send_start(at_once), TRYST_OK);
    rail.direct_status = TRYST_OK;
    assert_int_equal(send_start(later), TRYST_OK);
    send_ends(TRYST_E_UNSUPPORTED);
    assert_int_equal(told, 0);
    hand_run_all();
    (void)progress();
    assert_int_equal(rail.sends_count, 2);
    assert_int_equal(((char *)rail.sends[1]->data)[0], 2);
    send_ends(TRYST_OK);
    send_ends(TRYST_OK);
    job_ended(at_once, TRYST_OK);
    job_ended(later, TRYST_OK);
}

/* The rail refuses while no slot is free: the send waits for a slot, or for the end. */
static void test_refused_without_slot(void **state)
{
    struct job *jobs[4], *later = job_make(8), *left = job_make(9);
    rail.base.memory_kinds = 1u << hand_row.kind;
    assert_int_equal(send_start(later), TRYST_OK);
    assert_int_equal(send_start(left), TRYST_OK);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(
            bounce_send(&bounce, &lane, &ep, &(jobs[i] = job_make(i))->bulk, false),
            TRYST_OK);
    send_ends(TRYST_E_UNSUPPORTED);
    send_ends(TRYST_E_UNSUPPORTED);
    hand_run_all();
    (void)progress();
    assert_int_equal(rail.sends_count, 4);
    assert_int_equal(bounce.rail.ops->arm(&bounce.rail), TRYST_E_UNSUPPORTED);
    send_ends(TRYST_OK);
    (void)progress(); /* the first slot was returned and is used again */
    hand_run_all();
    (void)progress();
    assert_int_equal(rail.sends_count, 4);
    assert_int_equal(rail.sends[3]->tag, 8);
    bounce_lane_close(&lane);
    (void)progress();
    job_ended(left, TRYST_E_CANCELED);
    while (rail.sends_count)
        send_ends(TRYST_OK);
    assert_int_equal(idles, 1);
    job_ended(later, TRYST_OK);
    for (int i = 0; i < 4; i++)
        job_ended(jobs[i], TRYST_OK);
}

/* ---- receives ---- */

static void test_recv(void **state)
{
    struct job *job = job_make(0), *empty = job_make(1), *longer = job_make(2);
    memset(job->data, 0, BYTES);
    assert_int_equal(recv_start(job), TRYST_OK);
    memset(rail.recvs[0]->data, 7, BYTES);
    recv_ends(TRYST_OK, 1000);
    assert_int_equal(job->done, 0); /* the bytes are in the slot, not on the device */
    (void)progress();
    assert_int_equal(job->done, 0);
    hand_run_all();
    (void)progress();
    assert_int_equal(job->bytes, 1000);
    assert_int_equal(job->data[999], 7);
    assert_int_equal(job->data[1000], 0);
    job_ended(job, TRYST_OK);
    assert_int_equal(recv_start(empty), TRYST_OK);
    recv_ends(TRYST_OK, 0);
    job_ended(empty, TRYST_OK);
    assert_int_equal(recv_start(longer), TRYST_OK);
    recv_ends(TRYST_E_MISMATCH, 0);
    job_ended(longer, TRYST_E_MISMATCH);
}

static void test_recv_fails(void **state)
{
    struct job *job = job_make(0);
    assert_int_equal(recv_start(job), TRYST_OK);
    hand.fail_copy = 1;
    recv_ends(TRYST_OK, BYTES);
    (void)progress();
    job_ended(job, TRYST_E_SYSTEM);
    rail.recv_says = TRYST_AGAIN;
    job = job_make(1);
    assert_int_equal(recv_start(job), TRYST_AGAIN);
    assert_false(
        lane.awaits_slot); /* `room` is not called: the caller retries by itself */
    assert_int_equal(lane.in_bytes, 0);
    rail.recv_says = TRYST_E_PEER;
    assert_int_equal(recv_start(job), TRYST_E_PEER);
    assert_int_equal(lane.in_bytes, 0);
    free(job);
}

/* A receive that is posted at the rail is withdrawn; one whose message has arrived is
 * not. */
static void test_cancel(void **state)
{
    struct job *job = job_make(0), *come = job_make(1);
    assert_int_equal(recv_start(job), TRYST_OK);
    bounce_cancel(&ep, &job->bulk);
    assert_int_equal(rail.cancels, 1);
    recv_ends(TRYST_E_CANCELED, 0);
    job_ended(job, TRYST_E_CANCELED);
    assert_int_equal(recv_start(come), TRYST_OK);
    recv_ends(TRYST_OK, BYTES);
    bounce_cancel(&ep, &come->bulk);
    assert_int_equal(rail.cancels, 1);
    hand_run_all();
    (void)progress();
    job_ended(come, TRYST_OK);
}

/* A peer has at most half of the slots, but always one; a lane that was refused with
 * AGAIN gets a `room` event. */
static void test_recvs_run_out(void **state)
{
    struct job *jobs[4], *more = job_make(9), *again = job_make(10);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(recv_start(jobs[i] = job_make(i)), TRYST_OK);
    assert_int_equal(recv_start(more), TRYST_AGAIN);
    assert_true(lane.awaits_slot);
    for (uint64_t i = 2; i < 4; i++) /* the other half is for other peers */
        assert_int_equal(
            bounce_recv(&bounce, &other, &ep, &(jobs[i] = job_make(i))->bulk), TRYST_OK);
    (void)progress();
    assert_int_equal(rooms, 0);
    recv_ends(TRYST_OK, BYTES);
    hand_run_all();
    (void)progress();
    assert_int_equal(rooms, 1);
    assert_int_equal(recv_start(more), TRYST_OK);
    assert_int_equal(recv_start(again), TRYST_AGAIN);
    assert_int_equal(bounce.rail.ops->arm(&bounce.rail), TRYST_OK);
    recv_ends(TRYST_E_CANCELED, 0); /* withdrawn: no copy ends, and a slot is free */
    assert_int_equal(bounce.rail.ops->arm(&bounce.rail), TRYST_AGAIN);
    assert_int_equal(progress(), 1);
    assert_int_equal(rooms, 2);
    (void)progress();
    assert_int_equal(rooms, 2); /* once for each refused lane */
    for (int i = 0; i < 3; i++)
        recv_ends(TRYST_E_CANCELED, 0);
    free(again);
    job_ended(jobs[0], TRYST_OK);
    for (int i = 1; i < 4; i++)
        job_ended(jobs[i], TRYST_E_CANCELED);
    job_ended(more, TRYST_E_CANCELED);
}

/* ---- the end ---- */

/* A lane closes while copies run: no bulk goes to the rail or completes before its copy
 * has ended; only then is the lane idle, once. */
static void test_close(void **state)
{
    struct job *out = job_make(0), *in = job_make(1), *at_rail = job_make(2);
    assert_int_equal(recv_start(in), TRYST_OK);
    recv_ends(TRYST_OK, BYTES);
    assert_int_equal(send_start(out), TRYST_OK);
    assert_int_equal(recv_start(at_rail), TRYST_OK);
    bounce_lane_close(&lane);
    recv_ends(TRYST_E_CANCELED, 0); /* the status from the rail */
    (void)progress();
    assert_int_equal(out->done + in->done, 0);
    assert_int_equal(idles, 0);
    (void)hand_run(0, 2);
    (void)progress();
    assert_int_equal(idles, 0);
    hand_run_all();
    (void)progress();
    assert_int_equal(idles, 1);
    assert_int_equal(rail.sends_count, 0);
    job_ended(out, TRYST_E_CANCELED);
    job_ended(in, TRYST_OK); /* the message had arrived */
    job_ended(at_rail, TRYST_E_CANCELED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(order),     TEST(unwanted),   TEST(send_fails), TEST(sends_run_out),
        TEST(no_memory), TEST(direct),     TEST(refused),    TEST(refused_without_slot),
        TEST(recv),      TEST(recv_fails), TEST(cancel),     TEST(recvs_run_out),
        TEST(close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
