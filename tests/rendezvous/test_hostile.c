/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as an enemy, or a bug, would write them. No frame may cause a crash or an access
 * out of bounds (under AddressSanitizer; each frame lies in memory of exactly its size).
 * The peer is given up for its fault, or the frame was harmless; memory stays bounded.
 *
 * TRYST_TEST_SEED replays; TRYST_TEST_FRAMES sets how many random frames are tried. */
#include "core/text/text.h"
#include "hostile_frame.h"
#include "rendezvous/protocol/want.h"

static struct world world;
static uint8_t buffer[1 << 16];
static char key[TRYST_KEY_MAX + 1];

/* Open a world in which rank 0 is under test and rank 1 is the enemy, with an idle
 * engine. */
static void begin(const struct world_setting *settings)
{
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    world.sides[1].still = true;
}

static void end(void)
{
    world_close(&world);
}

static struct peer *enemy(void)
{
    return world_peer(&world, 0, 1);
}

/* ---- building ---------------------------------------------------------------------- */

static void inject(struct frame *frame)
{
    frame_inject(frame, &world, 0, 1);
}

/* ---- one fault each ---------------------------------------------------------------- */

struct fault {
    const char *name;
    void (*make)(struct frame *frame);
    const char *reason; /* part of the text; NULL: the frame is harmless */
};

static void make_want(struct frame *frame)
{
    frame_add_want(frame, key, 77, 1, 0, 10000, 0);
}

static struct record_want *first_want(struct frame *frame)
{
    make_want(frame);
    return (void *)(frame->data + sizeof(struct frame_header));
}

static void make_twice(struct frame *frame)
{
    make_want(frame);
    frame_add_want(frame, key, 78, 1, 0, 10000, 0);
}

static void make_same_id(struct frame *frame)
{
    make_want(frame);
    frame_add_want(frame, key, 77, 1, 1, 10000, 0);
}

static void make_no_id(struct frame *frame)
{
    first_want(frame)->id = 0;
}

static void make_tiny_slices(struct frame *frame)
{
    struct record_want *want = first_want(frame);
    want->slice_bytes = 1;
    want->posted = 10000;
}

static void make_large_slices(struct frame *frame)
{
    struct record_want *want = first_want(frame);
    want->bytes = 4 * SCHED_SLICE_MAX;
    want->slice_bytes = SCHED_SLICE_MAX;
}

static void make_larger_slices(struct frame *frame)
{
    make_large_slices(frame);
    struct record_want *want = (void *)(frame->data + sizeof(struct frame_header));
    want->slice_bytes++;
}

static void make_larger_slices_alloc(struct frame *frame)
{
    make_larger_slices(frame);
    struct record_want *want = (void *)(frame->data + sizeof(struct frame_header));
    want->header.flags = RECORD_ALLOC;
}

static void make_posted(struct frame *frame)
{
    first_want(frame)->posted = 4;
}

static void make_many_slices(struct frame *frame)
{
    first_want(frame)->bytes = UINT64_MAX;
}

static void make_long_key(struct frame *frame)
{
    first_want(frame)->key_bytes = 2000;
}

static void make_odd_key(struct frame *frame)
{
    first_want(frame)->key_bytes -= 9;
}

static void make_void_ok(struct frame *frame)
{
    first_want(frame)->header.flags = RECORD_VOID;
}

static void make_status(struct frame *frame)
{
    first_want(frame)->header.status = TRYST_IN_PROGRESS;
}

static void make_wrong_key(struct frame *frame)
{
    struct record_want *want = first_want(frame);
    memcpy(want + 1, "/job:", 5);
    memset((char *)(want + 1) + 5, 'x', 20);
}

static void make_huge_seq(struct frame *frame)
{
    first_want(frame)->seq = UINT64_MAX;
}

static void make_far_seq(struct frame *frame)
{
    first_want(frame)->seq = NUMBERS_AHEAD_MAX;
}

static void make_seq_too_far(struct frame *frame)
{
    first_want(frame)->seq = NUMBERS_AHEAD_MAX + 1u;
}

static void make_data_far(struct frame *frame)
{
    frame_add_data(frame, 5, 1, NUMBERS_AHEAD_MAX, 8, world_key(&world, 1, 0, "e"), 1);
}

static void make_data_too_far(struct frame *frame)
{
    frame_add_data(frame, 5, 1, NUMBERS_AHEAD_MAX + 1u, 8, world_key(&world, 1, 0, "e"),
                   1);
}

static void make_step_never(struct frame *frame)
{
    first_want(frame)->step = UINT64_MAX;
}

static void make_done_unknown(struct frame *frame)
{
    frame_add_answer(frame, RECORD_DONE, RECORD_SEND, 4242, TRYST_OK, 1, 0);
}

static void make_done_want_unknown(struct frame *frame)
{
    frame_add_answer(frame, RECORD_DONE, 0, 4242, TRYST_OK, 1, 1);
}

static void make_cancel_unknown(struct frame *frame)
{
    frame_add_answer(frame, RECORD_CANCEL, 0, 0, TRYST_E_CANCELED, 0, 0);
}

static void make_cancel_ok(struct frame *frame)
{
    frame_add_answer(frame, RECORD_CANCEL, 0, 5, TRYST_OK, 0, 0);
}

static void make_canceled_ok(struct frame *frame)
{
    frame_add_answer(frame, RECORD_CANCELED, 0, 5, TRYST_OK, 0, 0);
}

static void make_canceled_by_nobody(struct frame *frame)
{
    struct record_answer answer = {.header = {RECORD_CANCELED, 0, 0, TRYST_E_CANCELED},
                                   .id = 5,
                                   .origin_rank = 1000};
    frame_add(frame, &answer, sizeof answer, NULL, 0);
}

static void make_void_by_nobody(struct frame *frame)
{
    struct record_want *want = first_want(frame);
    want->header.flags = RECORD_VOID;
    want->header.status = TRYST_E_CANCELED;
    want->priority = 2;
}

static uint64_t failed_hash = 1;

/* Add a failed DATA with `bytes` bytes of payload, the first of which give the origin. */
static void add_failed(struct frame *frame, uint64_t seq, tryst_status status,
                       uint32_t bytes, int32_t origin_rank, int32_t origin_status)
{
    const struct record_failure failure = {origin_rank, origin_status};
    size_t at = frame->bytes;
    strcpy(key, world_key(&world, 1, 0, "e"));
    frame_add_data(frame, 5, 1, seq, bytes, key, failed_hash);
    ((struct record_data *)(void *)(frame->data + at))->header.status = status;
    if (bytes)
        memcpy(frame->data + frame->bytes - wire_padded(bytes), &failure, sizeof failure);
}

static void make_data_failed(struct frame *frame)
{
    add_failed(frame, 0, TRYST_E_CANCELED, 8, -1, TRYST_E_DEADLINE);
    add_failed(frame, 1, TRYST_E_MISMATCH, 16, 1, TRYST_IN_PROGRESS);
}

static void make_data_causeless(struct frame *frame)
{
    add_failed(frame, 0, TRYST_E_CANCELED, 0, 0, 0);
}

static void make_data_text_long(struct frame *frame)
{
    add_failed(frame, 0, TRYST_E_MISMATCH,
               sizeof(struct record_failure) + RECORD_TEXT_MAX, 1, TRYST_E_MISMATCH);
}

static void make_data_by_nobody(struct frame *frame)
{
    add_failed(frame, 0, TRYST_E_CANCELED, 8, 2, TRYST_E_CANCELED);
}

static void make_data_failed_well(struct frame *frame)
{
    add_failed(frame, 0, TRYST_IN_PROGRESS, 8, 1, TRYST_E_CANCELED);
}

static void make_kept_unknown(struct frame *frame)
{
    frame_add_answer(frame, RECORD_KEPT, RECORD_SEND, 0, TRYST_OK, 0, 0);
}

static void make_kept_want(struct frame *frame)
{
    frame_add_answer(frame, RECORD_KEPT, 0, 0, TRYST_OK, 0, 0);
}

static void make_data_nameless(struct frame *frame)
{
    frame_add_data(frame, 5, 1, 0, 8, NULL, 0);
}

static void make_data_name_gone(struct frame *frame)
{
    for (uint32_t i = 0; i < 2; i++)
        frame_add_data(frame, 1 + i * NAMES_MAX, 1, i, 8, key, 1);
    frame_add_data(frame, 1, 1, 2, 8, NULL, 0);
}

static void make_data_empty_key(struct frame *frame)
{
    frame_add_data(frame, 5, 1, 0, 8, "", 1);
}

static void make_data_no_hash(struct frame *frame)
{
    frame_add_data(frame, 5, 1, 0, 8, key, 0);
}

static struct record_data *first_data(struct frame *frame)
{
    frame_add_data(frame, 5, 1, 0, 8, NULL, 0);
    return (void *)(frame->data + sizeof(struct frame_header));
}

static void make_data_name_flags(struct frame *frame)
{
    size_t at = frame->bytes;
    frame_add_data(frame, 5, 1, 0, 8, key, 1);
    struct record_name *name = (void *)(frame->data + at + sizeof(struct record_data));
    name->flags = NAME_SHAPE << 1;
}

static void make_data_no_shape(struct frame *frame)
{
    size_t at = frame->bytes;
    frame_add_data(frame, 5, 1, 0, 8, key, 1);
    struct record_name *name = (void *)(frame->data + at + sizeof(struct record_data));
    name->flags = NAME_SHAPE;
}

static void make_data_short_name(struct frame *frame)
{
    first_data(frame)->header.flags = RECORD_NAMED;
}

static void make_data_long(struct frame *frame)
{
    first_data(frame)->payload_bytes = 9;
}

static void make_data_twice(struct frame *frame)
{
    frame_add_data(frame, 5, 1, 0, 8, world_key(&world, 1, 0, "e"), 1);
    frame_add_data(frame, 5, 1, 0, 8, NULL, 0);
}

static void make_acks_of_nothing(struct frame *frame)
{
    make_want(frame);
    frame->acks = 1;
}

static void make_mask_of_nothing(struct frame *frame)
{
    make_want(frame);
    frame->acks_mask = 1;
}

static void make_frames_of_nothing(struct frame *frame)
{
    make_want(frame);
    frame->frames = (uint32_t)enemy()->frames.sent - enemy()->frames.acked + 1;
}

static void make_wants_of_nothing(struct frame *frame)
{
    make_want(frame);
    frame->wants = peer_out(enemy())->wants_sent - peer_out(enemy())->wants_acked + 1;
}

static void make_group(struct frame *frame)
{
    make_want(frame);
    frame->group = 1;
}

static void make_header_only(struct frame *frame)
{
    make_want(frame);
    frame->flags = FRAME_HEADER_ONLY;
}

static void make_odd_size(struct frame *frame)
{
    make_want(frame);
    struct record_want *want = (void *)(frame->data + sizeof(struct frame_header));
    want->header.bytes -= 4;
    frame->bytes -= 4;
}

static void make_far(struct frame *frame)
{
    struct record_want *want = first_want(frame);
    frame_add_want(frame, key, 78, 1, 1, 10000, 0);
    want->header.bytes = UINT16_MAX - 7;
}

static void make_short_void(struct frame *frame)
{
    struct record_header header = {RECORD_WANT, RECORD_VOID, 8, TRYST_E_CANCELED};
    frame_add(frame, &header, sizeof header, NULL, 0);
}

static void make_blocked(struct frame *frame)
{
    make_want(frame);
    frame->flags = FRAME_BLOCKED;
}

static void make_offer_unknown(struct frame *frame)
{
    frame_add_offer(frame, 4242, 1, 0, 1 << 20, NULL);
}

/* Step 0 was passed over, step 1 is open, the last step is not. */
enum { FRAME_REQUESTS = 150 };
static void make_requests(struct frame *frame)
{
    for (int i = 0; i < FRAME_REQUESTS; i++)
        frame_add_answer(frame, RECORD_ASK, 0, 0, TRYST_OK, 0, 0);
    frame_add_answer(frame, RECORD_ASK, 0, 1, TRYST_OK, 0, 0);
    frame_add_answer(frame, RECORD_ASK, 0, UINT64_MAX, TRYST_OK, 0, 0);
}

static void make_step_closed(struct frame *frame)
{
    make_want(frame);
    for (uint64_t step = 0; step < 3; step++)
        frame_add_answer(frame, RECORD_CLOSED, RECORD_STEP, step, TRYST_E_CLOSED, 0, 0);
}

static void make_type(struct frame *frame)
{
    frame_add_answer(frame, 99, 0, 0, TRYST_OK, 0, 0);
}

static void make_short(struct frame *frame)
{
    struct record_header header = {RECORD_WANT, 0, 8, 0};
    frame_add(frame, &header, sizeof header, NULL, 0);
}

static void make_too_many_records(struct frame *frame)
{
    make_want(frame);
    frame->records = 2;
}

static void make_no_header(struct frame *frame)
{
    frame->bytes = sizeof(struct frame_header) - 1;
}

static void make_ragged(struct frame *frame)
{
    make_want(frame);
    frame->bytes -= 8;
}

static const struct fault faults[] = {
    {"plain", make_want, NULL},
    {"twice", make_twice, "announced one receive twice"},
    {"one id twice", make_same_id, "gave one id to two receives"},
    {"no id", make_no_id, "WANT: no id"},
    {"slices of a byte", make_tiny_slices, "WANT: slices too small"},
    {"slices of the largest size", make_large_slices, NULL},
    {"larger slices", make_larger_slices, "requested slices larger than"},
    {"larger slices of a receive without bulk", make_larger_slices_alloc, NULL},
    {"posted more than there are", make_posted, "WANT: more slices posted"},
    {"too many slices", make_many_slices, "WANT: too many slices"},
    {"key longer than the record", make_long_key, "WANT: key does not fit"},
    {"key shorter", make_odd_key, "WANT: key does not fit"},
    {"void without a failure", make_void_ok, "WANT: given up without an error status"},
    {"a status that is none", make_status, "not a valid status of an operation"},
    {"a key that does not parse", make_wrong_key, NULL},
    {"the last number", make_huge_seq, "more than 2^30 ahead of this rank's sends"},
    {"a far number", make_far_seq, NULL},
    {"a number too far", make_seq_too_far, "more than 2^30 ahead of this rank's sends"},
    {"DATA with a far number", make_data_far, NULL},
    {"DATA with a number too far", make_data_too_far,
     "more than 2^30 ahead of this rank's receives"},
    {"the last step", make_step_never, NULL},
    {"DONE for no send", make_done_unknown, "acknowledged DATA that was not sent"},
    {"DONE for no want", make_done_want_unknown, NULL},
    {"CANCEL for no want", make_cancel_unknown, NULL},
    {"CANCEL without a failure", make_cancel_ok, "failure without an error status"},
    {"CANCELED without a failure", make_canceled_ok, "failure without an error status"},
    {"CANCELED by no rank", make_canceled_by_nobody, "origin not a rank of the group"},
    {"WANT given up by no rank", make_void_by_nobody,
     "WANT: origin not a rank of the group"},
    {"DATA that failed", make_data_failed, NULL},
    {"DATA that failed without a cause", make_data_causeless, "without a cause"},
    {"a failed DATA with a long text", make_data_text_long, "text of a failure too long"},
    {"DATA that failed at no rank", make_data_by_nobody,
     "DATA: origin not a rank of the group"},
    {"DATA with a status that is none", make_data_failed_well,
     "not a valid status of an operation"},
    {"KEPT for no send", make_kept_unknown, "reported DATA as kept that was not sent"},
    {"KEPT for a want", make_kept_want, NULL},
    {"DATA with a key that was never declared", make_data_nameless,
     "a name that was not declared"},
    {"DATA with the name of another key", make_data_name_gone,
     "a name that was not declared"},
    {"DATA that names no key", make_data_empty_key, "DATA: no key"},
    {"DATA that names a key without hash", make_data_no_hash, "DATA: no key"},
    {"DATA without room for its name", make_data_short_name, "DATA: too short"},
    {"DATA with unknown flags of its name", make_data_name_flags,
     "DATA: unknown flags of a name"},
    {"DATA without room for the shape that its name has", make_data_no_shape,
     "DATA: sizes do not add up"},
    {"DATA longer than its record", make_data_long, "do not add up"},
    {"one DATA twice", make_data_twice, "sent one tensor twice"},
    {"more is done than was sent", make_acks_of_nothing, "sent a malformed frame"},
    {"more is done behind that", make_mask_of_nothing, "sent a malformed frame"},
    {"more frames are read than were sent", make_frames_of_nothing,
     "sent a malformed frame"},
    {"more WANTs are taken than were sent", make_wants_of_nothing,
     "sent a malformed frame"},
    {"another group", make_group, "sent a malformed frame"},
    {"records in a header that is alone", make_header_only, "sent a malformed frame"},
    {"a record of no whole words", make_odd_size, "sent a malformed frame"},
    {"a record that goes on behind the frame", make_far, "sent a malformed frame"},
    {"a WANT given up, of a header alone", make_short_void, "WANT: too short"},
    {"blocked", make_blocked, NULL},
    {"OFFER for no want", make_offer_unknown, NULL},
    {"questions about steps", make_requests, NULL},
    {"steps closed while their WANT is parked", make_step_closed, NULL},
    {"unknown record", make_type, "unknown record type"},
    {"short record", make_short, "WANT: too short"},
    {"more records than bytes", make_too_many_records, "sent a malformed frame"},
    {"bytes left out", make_ragged, "sent a malformed frame"},
    {"less than a header", make_no_header, "sent a malformed frame"},
};

/* Inject the frame of a row, and check that the enemy is given up for it, or not. */
static void fault_check(const struct fault *fault)
{
    struct frame frame;
    frame_begin(&frame);
    fault->make(&frame);
    inject(&frame);
    world_settle(&world);
    bool given_up = enemy()->life >= PEER_GIVING_UP;
    if (given_up != (fault->reason != NULL))
        fail_msg("%s: %s", fault->name, enemy()->liveness.gone_text);
    if (!given_up)
        return;
    assert_int_equal(enemy()->liveness.gone_status, TRYST_E_PROTOCOL);
    if (!strstr(enemy()->liveness.gone_text, fault->reason))
        fail_msg("%s: %s", fault->name, enemy()->liveness.gone_text);
}

static void test_faults(void **state)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        begin(NULL);
        tryst_step *step = world_step(&world, 0, 1);
        strcpy(key, world_key(&world, 0, 1, "e"));
        world_settle(&world);
        fault_check(&faults[i]);
        assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
        end();
    }
}

/* More ASK records than the answers that a rank keeps: the excess gets no answer, and is
 * no fault of the peer. */
static void test_asks_flood(void **state)
{
    struct frame frame;
    begin(NULL);
    tryst_step *step = world_step(&world, 0, 1);
    world_settle(&world);
    for (int i = 0; i < 2 * REQUESTS_MAX / FRAME_REQUESTS; i++) {
        frame_begin(&frame);
        make_requests(&frame);
        inject(&frame);
    }
    assert_int_equal(peer_in(enemy())->closed_count, REQUESTS_MAX);
    world_settle(&world);
    assert_int_equal(peer_in(enemy())->closed_count, 0);
    assert_null(peer_in(enemy())->closed_steps);
    assert_int_equal(enemy()->life, PEER_ALIVE);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    end();
}

/* Count the records that answer a WANT for number `seq` of the key of `op`. */
static uint64_t want_answers(const tryst_op *op, uint64_t id, uint64_t seq)
{
    struct frame frame;
    struct record_want *want = (void *)(frame.data + sizeof(struct frame_header));
    strcpy(key, op->key->string);
    uint64_t before = world.sides[0].rdv->counters.records_sent;
    frame_begin(&frame);
    frame_add_want(&frame, key, id, 1, seq, 100, 0);
    want->key_hash = op->key->hash;
    inject(&frame);
    world_settle(&world);
    assert_int_equal(enemy()->life, PEER_ALIVE);
    return world.sides[0].rdv->counters.records_sent - before;
}

/* The step is closed. A WANT with its DATA in flight has no other answer. A WANT without
 * such DATA is answered CLOSED, also one for a send between other ranks, and one after
 * the peer rejected the DATA for want of memory. */
static void test_wants_after_close(void **state)
{
    struct frame frame;
    begin(NULL);
    tryst_step *step = world_step(&world, 0, 1);
    tryst_op *op =
        world_send(&world, 0, step, world_key(&world, 0, 1, "e"), buffer, 100, NULL);
    tryst_op *other =
        world_send(&world, 0, step, world_key(&world, 0, 1, "o"), buffer, 100, NULL);
    tryst_op *own =
        world_send(&world, 0, step, world_key(&world, 0, 0, "e"), buffer, 100, NULL);
    world_settle(&world);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    world_settle(&world);
    assert_int_equal(want_answers(op, 1, 0), 0);
    assert_int_equal(want_answers(op, 2, 1), 1);
    frame_begin(&frame);
    frame_add_answer(&frame, RECORD_DONE, RECORD_SEND, op->sent.number, TRYST_E_NOMEM, 0,
                     0);
    inject(&frame);
    world_settle(&world);
    assert_int_equal(tryst_op_test(op), TRYST_E_NOMEM);
    assert_int_equal(want_answers(op, 3, 0), 1);
    assert_int_equal(want_answers(other, 4, 0), 0);
    assert_int_equal(want_answers(own, 5, 0), 1);
    tryst_op_release(op);
    tryst_op_release(other);
    tryst_op_release(own);
    end();
}

/* ---- statuses that must not reach the user ----------------------------------------- */

/* A CANCELED or CLOSED with the status "success" or "in progress" must not end a receive
 * with that status. */
static void test_status_lies(void **state)
{
    static const tryst_status lies[] = {TRYST_OK, TRYST_IN_PROGRESS, TRYST_AGAIN, -5};
    static const uint8_t types[] = {RECORD_CANCELED, RECORD_CLOSED};
    for (size_t i = 0; i < COUNT_OF(lies) * COUNT_OF(types); i++) {
        struct frame frame;
        begin(NULL);
        tryst_step *step = world_step(&world, 0, 1);
        strcpy(key, world_key(&world, 1, 0, "e"));
        tryst_op *op = world_recv(&world, 0, step, key, buffer, 10000, NULL);
        world_settle(&world);
        frame_begin(&frame);
        frame_add_answer(&frame, types[i % 2], 0, op->id, lies[i / 2], 0, 0);
        inject(&frame);
        world_settle(&world);
        world_done(op, TRYST_E_PROTOCOL);
        assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
        end();
    }
}

/* An unknown origin rank is replaced by the peer, and an invalid origin status by the
 * status of the record. */
static void test_origin_lies(void **state)
{
    static const int32_t lies[] = {TRYST_OK, TRYST_E_TIMEOUT, -5, INT32_MAX};
    for (size_t i = 0; i < 2 * COUNT_OF(lies); i++) {
        struct record_answer answer = {.header = {RECORD_CANCELED, 0, 0, TRYST_E_NOMEM},
                                       .origin_rank = -1,
                                       .origin_status = lies[i / 2]};
        tryst_error error = {.struct_size = sizeof error};
        struct frame frame;
        begin(NULL);
        tryst_step *step = world_step(&world, 0, 1);
        strcpy(key, world_key(&world, 1, 0, "e"));
        tryst_op *op = world_recv(&world, 0, step, key, buffer, i % 2 ? 8 : 10000, NULL);
        world_settle(&world);
        frame_begin(&frame);
        answer.id = op->id;
        failed_hash = op->key->hash;
        if (i % 2)
            add_failed(&frame, 0, TRYST_E_NOMEM, 8, -1, lies[i / 2]);
        else
            frame_add(&frame, &answer, sizeof answer, NULL, 0);
        inject(&frame);
        world_settle(&world);
        assert_int_equal(tryst_op_error(op, &error), TRYST_E_NOMEM);
        assert_int_equal(error.origin_rank, 1);
        assert_int_equal(error.origin_status, TRYST_E_NOMEM);
        tryst_op_release(op);
        assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
        end();
    }
}

/* An abort from a rank outside the group aborts nothing. */
static void test_abort_by_nobody(void **state)
{
    static const int32_t origins[] = {-1, 2, INT32_MIN, INT32_MAX, 1};
    for (size_t i = 0; i < COUNT_OF(origins); i++) {
        struct link_abort abort = {
            .step = 1, .time_ns = 1, .status = TRYST_E_IO, .origin_rank = origins[i]};
        begin(NULL);
        tryst_step *step = world_step(&world, 0, 1);
        assert_int_equal(link_send(world_peer(&world, 1, 0)->link.link, LINK_ABORT,
                                   &abort, sizeof abort, -1),
                         TRYST_OK);
        world_settle(&world);
        assert_int_equal(tryst_step_status(step, NULL),
                         origins[i] == 1 ? TRYST_E_ABORTED : TRYST_OK);
        assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
        end();
    }
}

/* ---- text -------------------------------------------------------------------------- */

/* A text that moves a terminal's cursor, begins a new line, and is not valid UTF-8. */
static const char hostile[] = "\x1b]0;title\x07\x1b[2J\rone\nforged \xc2\x9b"
                              "31m\x7f \xff\xe2\x82 \xc3\xa9";

static void say(uint8_t type, const void *head, size_t head_bytes, size_t repeat)
{
    char message[LINK_MESSAGE_MAX];
    size_t bytes = head_bytes;
    memcpy(message, head, head_bytes);
    for (size_t i = 0; i < repeat; i++, bytes += sizeof hostile)
        memcpy(message + bytes, hostile, sizeof hostile); /* includes the terminator */
    assert_int_equal(
        link_send(world_peer(&world, 1, 0)->link.link, type, message, bytes, -1),
        TRYST_OK);
}

static void abort_send_text(size_t repeat)
{
    struct link_abort abort = {.step = 1,
                               .time_ns = 1,
                               .status = TRYST_E_IO,
                               .origin_rank = 1,
                               .text_bytes = (uint32_t)(repeat * sizeof hostile)};
    say(LINK_ABORT, &abort, sizeof abort, repeat);
}

static void gave_up_send_text(size_t repeat)
{
    say(LINK_GAVE_UP, "", 0, repeat);
}

static void refused_send_text(size_t repeat)
{
    struct link_ep head = {.candidate = 0};
    say(LINK_EP_REFUSED, &head, sizeof head, repeat);
}

/* Let rank 0's transport report the peer's text. */
static void transport_report(tryst_status status, bool ready, size_t repeat)
{
    char text[TRANSPORT_TEXT_MAX] = "";
    struct world_ep *ep = world_ep_find(&world, 0, 1);
    const struct rail_events *events = ep->base.rail->events;
    for (size_t i = 0; i < repeat; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s", hostile);
    }
    (ready ? events->ready : events->failed)(&ep->base, status, text);
}

static void ready_report_text(size_t repeat)
{
    transport_report(TRYST_OK, true, repeat);
}

static void unready_report_text(size_t repeat)
{
    transport_report(TRYST_E_UNSUPPORTED, true, repeat);
}

static void failed_report_text(size_t repeat)
{
    transport_report(TRYST_E_PROTOCOL, false, repeat);
}

static void lost_report_text(size_t repeat)
{
    transport_report(TRYST_OK, true, 0);
    transport_report(TRYST_E_PEER, false, repeat);
}

static void check_text(const char *name, const char *text, bool lines)
{
    for (size_t n; *text; text += n) {
        n = text_char_bytes(text, strlen(text));
        n = lines && *text == '\n' ? 1 : n;
        if (!n || strncmp(text, "\nforged", 7) == 0)
            fail_msg("%s: a text was not escaped: %s", name, text);
    }
}

static void check_dump(const char *name)
{
    char text[8192];
    FILE *file = tmpfile();
    assert_non_null(file);
    rendezvous_dump(world.sides[0].rdv, fileno(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_non_null(strstr(text, "rank 1"));
    check_text(name, text, true);
    fclose(file);
}

/* Check every text that rank 0 shows: the error of its operation and of its step, the
 * peer's mechanism, log, dump. */
static void hostile_text_check(const char *name, void (*says)(size_t repeat),
                               size_t repeat, bool fails)
{
    tryst_error error = {.struct_size = sizeof error};
    tryst_peer_info info = {.struct_size = sizeof info};
    world_open(&world, 2, NULL);
    world_settle(&world);
    world.sides[0].log.level = TRYST_LOG_DEBUG;
    world.sides[0].unready = 1;
    world.sides[1].still = true;
    tryst_step *step = world_step(&world, 0, 1);
    strcpy(key, world_key(&world, 1, 0, "e"));
    tryst_op *op = world_recv(&world, 0, step, key, buffer, 10000, NULL);
    world_settle(&world);
    assert_int_equal(world_peer(&world, 0, 1)->endpoint.state, PEER_EP_OPENING);
    says(repeat);
    world_settle(&world);
    check_dump(name);
    for (int i = 0; i < 10; i++)
        world_advance(&world, NS_PER_S / 2);
    check_dump(name);
    assert_int_equal(tryst_op_test(op) != TRYST_IN_PROGRESS, fails);
    if (tryst_op_error(op, &error) != TRYST_IN_PROGRESS) {
        check_text(name, error.text, false);
        assert_non_null(strstr(error.text, "\\x1b]0;title\\x07"));
    }
    if (tryst_step_status(step, &error) != TRYST_OK)
        check_text(name, error.text, false);
    assert_int_equal(rendezvous_group_peer(&world.sides[0].group, 1, &info), TRYST_OK);
    check_text(name, info.mechanism, false);
    check_text(name, world.sides[0].log_text, true);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    tryst_op_release(op);
    world_close(&world);
}

static void test_text(void **state)
{
    static const struct {
        const char *name;
        void (*says)(size_t repeat);
        bool fails;
    } rows[] = {
        {"ABORT", abort_send_text, true},         {"GAVE_UP", gave_up_send_text, true},
        {"EP_REFUSED", refused_send_text, true},  {"ready", ready_report_text, false},
        {"not ready", unready_report_text, true}, {"failed", failed_report_text, true},
        {"lost", lost_report_text, true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t repeat = 1; repeat <= 16; repeat *= 4)
            hostile_text_check(rows[i].name, rows[i].says, repeat, rows[i].fails);
}

/* ---- memory ------------------------------------------------------------------------ */

static const struct world_setting narrow[] = {{"early_max", "16"},
                                              {"parked_max", "16"},
                                              {"wants_max", "64"},
                                              {"eager_credit", "4K"},
                                              {0}};

enum flood { FLOOD_STEPS, FLOOD_KEYS, FLOOD_OPEN_KEYS, FLOOD_DATA_KEYS, FLOOD_FOREIGN };

static void flood_add(struct frame *frame, enum flood flood, uint64_t i)
{
    char edge[32];
    snprintf(edge, sizeof edge, "e%llu", (unsigned long long)i);
    bool foreign = flood == FLOOD_FOREIGN;
    bool data = flood == FLOOD_DATA_KEYS || foreign;
    strcpy(key, world_key(&world, data && !foreign, !data || foreign,
                          flood == FLOOD_STEPS ? "e" : edge));
    uint64_t step = flood == FLOOD_STEPS ? 100 + i : flood == FLOOD_OPEN_KEYS ? 1 : 50;
    if (data)
        frame_add_data(frame, 1 + (uint32_t)i, step, 0, 8, key, 1);
    else
        frame_add_want(frame, key, 1000 + i, step, 0, 10000, 0);
}

/* An enemy announces or sends without end. The memory that it occupies must stay bounded,
 * and a peer that exceeds its credit is given up. */
static void test_floods(void **state)
{
    for (int flood = FLOOD_STEPS; flood <= FLOOD_FOREIGN; flood++) {
        uint64_t most = 0;
        begin(narrow);
        tryst_step *step = world_step(&world, 0, 1);
        world_settle(&world);
        uint64_t before = alloc_live_bytes();
        for (uint64_t i = 0; i < 4000 && enemy()->life == PEER_ALIVE; i++) {
            struct frame frame;
            frame_begin(&frame);
            flood_add(&frame, (enum flood)flood, i);
            inject(&frame);
            /* the enemy goes on reading */
            enemy()->frames.acked = (uint32_t)enemy()->frames.sent;
            world_pass(&world);
            uint64_t now = alloc_live_bytes() - before;
            most = now > most ? now : most;
        }
        if (most > 300000)
            fail_msg("flood %d left %llu bytes", flood, (unsigned long long)most);
        assert_int_equal(enemy()->life >= PEER_GIVING_UP, flood == FLOOD_DATA_KEYS);
        assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
        end();
    }
}

/* ---- fuzz -------------------------------------------------------------------------- */

/* Open operations in every state, as targets for mutated records. */
static void targets_open(tryst_step *step, tryst_op **ops, int *count_p)
{
    int n = 0;
    char to[TRYST_KEY_MAX + 1];
    for (int i = 0; i < 4; i++) {
        char edge[16];
        snprintf(edge, sizeof edge, "f%d", i);
        strcpy(to, world_key(&world, 0, 1, edge));
        strcpy(key, world_key(&world, 1, 0, edge));
        size_t bytes = i % 2 ? 20000 : 64;
        ops[n++] = world_send(&world, 0, step, to, buffer, bytes, NULL);
        ops[n++] = world_recv(&world, 0, step, key, buffer, bytes, NULL);
    }
    *count_p = n;
}

/* Build a valid frame that refers to those operations. */
static void plausible(struct frame *frame, struct random *random, tryst_op *const *ops,
                      int count)
{
    char name[TRYST_KEY_MAX + 1];
    frame_begin(frame);
    for (uint64_t n = 1 + random_range(random, 4); n > 0; n--) {
        const tryst_op *op = ops[random_range(random, (uint64_t)count)];
        bool done = tryst_op_test(op) != TRYST_IN_PROGRESS;
        uint64_t id = done || !op->id ? 1 + random_range(random, 50) : op->id;
        uint64_t seq = random_range(random, 3);
        uint32_t upto = (uint32_t)random_range(random, 4);
        strcpy(key, op->key->string);
        strcpy(name, op->key->string);
        switch (random_range(random, 12)) {
        case 0:
            frame_add_want(frame, key, 1 + random_range(random, 1 << 20), op->step_id,
                           seq, op->bytes, (uint8_t)random_range(random, 8));
            break;
        case 1:
            frame_add_data(frame, 1 + (uint32_t)random_range(random, 4), 1, seq, 64, name,
                           op->key->hash);
            break;
        case 2:
            frame_add_data(frame, 1 + (uint32_t)random_range(random, 4), 1, seq, 64, NULL,
                           0);
            break;
        case 3: frame_add_offer(frame, id, 1, seq, op->bytes, NULL); break;
        case 4: frame_add_offer(frame, 0, 1, seq, op->bytes, name); break;
        case 5:
            frame_add_answer(frame, random_range(random, 2) ? RECORD_DONE : RECORD_KEPT,
                             RECORD_SEND, upto, 0, 1, 0);
            break;
        case 6: {
            struct list_node *want = list_first(&peer_in(enemy())->wants_list);
            if (want)
                id = container_of(want, struct want, peer_node)->id;
            frame_add_answer(frame, RECORD_DONE, 0, id, 0, upto, upto + 2);
            frame_add_answer(frame, RECORD_CANCEL, 0, id, TRYST_E_CANCELED, 0, 0);
            break;
        }
        case 7:
            frame_add_answer(frame, RECORD_CANCELED, 0, id, TRYST_E_CANCELED, upto, 0);
            break;
        case 8: frame_add_answer(frame, RECORD_DEFERRED, 0, id, 0, 0, 0); break;
        case 9: frame_add_answer(frame, RECORD_ASK, 0, upto, 0, 0, 0); break;
        case 10:
            frame_add_answer(frame, RECORD_CLOSED, RECORD_STEP, upto, TRYST_E_CLOSED, 0,
                             0);
            break;
        default:
            frame_add_answer(frame, RECORD_CLOSED, 0, id, TRYST_E_CLOSED, 0, 0);
            break;
        }
    }
    frame->acks = random_range(random, 4) == 0;
    frame->acks_mask = random_range(random, 4) == 0;
    frame->flags = random_range(random, 2) ? FRAME_BLOCKED : 0;
    frame_end(frame, &world, 0, 1);
}

static void mutate(struct frame *frame, struct random *random)
{
    for (uint64_t n = random_range(random, 4); n > 0; n--) {
        size_t at = random_range(random, frame->bytes);
        if (random_range(random, 2))
            frame->data[at] ^= (uint8_t)(1u << random_range(random, 8));
        else
            frame->data[at] = (uint8_t)random_u64(random);
    }
    if (random_range(random, 16) == 0)
        frame->bytes = random_range(random, frame->bytes + 1);
}

/* Play one life of the enemy: frames until it is given up. Return how many. */
static uint64_t fuzz_life(struct random *random)
{
    static const struct world_setting settings[] = {{"slice_bytes", "4K"},
                                                    {"parked_max", "4"},
                                                    {"posted_slices", "2"},
                                                    {"eager_credit", "4K"},
                                                    {0}};
    tryst_op *ops[16];
    int count;
    uint64_t frames = 0;
    begin(settings);
    tryst_step *step = world_step(&world, 0, 1);
    targets_open(step, ops, &count);
    world_settle(&world);
    while (enemy()->life == PEER_ALIVE && frames < 64) {
        struct frame frame;
        plausible(&frame, random, ops, count);
        mutate(&frame, random);
        world_inject(&world, 0, 1, frame.data, frame.bytes);
        enemy()->frames.acked = (uint32_t)enemy()->frames.sent;
        frames++;
        if (random_range(random, 8) == 0)
            tryst_op_cancel(ops[random_range(random, (uint64_t)count)]);
        if (random_range(random, 2))
            world_pass(&world);
    }
    world_settle(&world);
    if (enemy()->life == PEER_GONE)
        assert_int_equal(enemy()->liveness.gone_status, TRYST_E_PROTOCOL);
    else
        peer_give_up(enemy(), TRYST_E_PEER, "is not needed any more");
    world_settle(&world);
    for (int i = 0; i < count; i++) {
        assert_int_not_equal(tryst_op_test(ops[i]), TRYST_IN_PROGRESS);
        tryst_op_release(ops[i]);
    }
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    end();
    return frames;
}

static void test_fuzz(void **state)
{
    const char *wanted = getenv("TRYST_TEST_FRAMES");
    uint64_t most = wanted ? strtoull(wanted, NULL, 0) : 20000;
    uint64_t before = alloc_live_count();
    struct random random;
    random_seed(&random, unit_seed());
    for (uint64_t frames = 0; frames < most;)
        frames += fuzz_life(&random);
    assert_int_equal(alloc_live_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),      cmocka_unit_test(test_wants_after_close),
        cmocka_unit_test(test_asks_flood),  cmocka_unit_test(test_status_lies),
        cmocka_unit_test(test_origin_lies), cmocka_unit_test(test_abort_by_nobody),
        cmocka_unit_test(test_floods),      cmocka_unit_test(test_text),
        cmocka_unit_test(test_fuzz),
    };
    const char *only = getenv("TRYST_TEST_ONLY"); /* for use in a debugger */
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
