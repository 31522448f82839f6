/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the stream of small tensors, joined by a channel of frames, against plain
 * arrays: the sends that the producer takes as done must be done at the consumer, and in
 * the end all are. And the short names of keys. */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "rendezvous/match/names.h"
#include "rendezvous/numbers/stream.h"
#include "support/unit.h"

enum { SENDS = 1500, WINDOW = STREAM_WINDOW, FRAMES = 4 * SENDS };

/* ---- two ends ---------------------------------------------------------------------- */

struct record {
    bool kept; /* else DONE */
    uint64_t number;
};

/* A header, and the records before it. */
struct frame {
    uint32_t base;
    uint64_t mask;
    /* records of this frame and the earlier ones, counted in `ends.said` */
    size_t records;
};

static struct {
    struct stream_in in;
    struct stream_out out;
    uint64_t first;                /* number of ops[0] */
    uint64_t came;                 /* DATA that the consumer has read */
    struct stream_send ops[SENDS]; /* indexed by number - first */
    bool done[SENDS];              /* done at the consumer, by number - first */
    bool passed[SENDS];            /* KEPT has been sent, by number - first */
    bool ended[SENDS];             /* ended at the producer, by number - first */
    struct record said[2 * SENDS];
    size_t records_count_made, packed; /* records: made, and packed in frames */
    struct frame frames[FRAMES];
    size_t frames_count, read; /* frames: sent, and read */
    size_t records_read;
} ends;

static void ends_open(uint64_t first)
{
    memset(&ends, 0, sizeof ends);
    ends.first = first;
    ends.in.got = ends.in.base = ends.in.acked_base = first;
    ends.out.next = ends.out.acked = first;
    assert_int_equal(stream_out_open(&ends.out), TRYST_OK);
}

static size_t sent(void)
{
    return (size_t)(ends.out.next - ends.first);
}

static void send_leaves(void)
{
    size_t i = sent();
    assert_true(stream_out_has_place(&ends.out));
    stream_out_push(&ends.out, &ends.ops[i]);
    assert_true(ends.ops[i].number == ends.first + i);
}

static void say(bool kept, uint64_t number)
{
    ends.said[ends.records_count_made++] = (struct record){kept, number};
}

static void data_comes(void)
{
    uint64_t number;
    assert_true(stream_in_count_data(&ends.in, &number));
    assert_true(number == ends.first + ends.came++);
    if (!stream_in_overdue(&ends.in))
        return;
    number = stream_in_pass(&ends.in);
    assert_false(ends.done[number - ends.first]);
    assert_true(ends.in.got - number == WINDOW + 1);
    ends.passed[number - ends.first] = true;
    say(true, number);
    assert_false(stream_in_overdue(&ends.in));
}

/* End the receive of a number that has come; with `refuse` it fails, which a record
 * reports. */
static void recv_done(size_t i, bool refuse)
{
    assert_true(i < ends.came && !ends.done[i]);
    if (refuse)
        say(false, ends.first + i);
    assert_int_equal(stream_in_done(&ends.in, ends.first + i), !ends.passed[i]);
    if (ends.passed[i] && !refuse)
        say(false, ends.first + i);
    ends.done[i] = true;
}

/* Send a frame with at most `max` of the records that are due. */
static void frame_leaves(size_t max)
{
    size_t owed = ends.records_count_made - ends.packed;
    ends.packed += owed < max ? owed : max;
    stream_in_ack(&ends.in, ends.packed == ends.records_count_made);
    assert_true(ends.frames_count < FRAMES);
    ends.frames[ends.frames_count++] =
        (struct frame){(uint32_t)ends.in.acked_base, ends.in.acked_mask, ends.packed};
}

static void send_ended(struct stream_send *op)
{
    size_t i = (size_t)(op->number - ends.first);
    assert_true(i < sent() && &ends.ops[i] == op);
    assert_true(ends.done[i]); /* never before the consumer has finished it */
    assert_false(ends.ended[i]);
    ends.ended[i] = true;
}

static void record_comes(const struct record *record)
{
    struct stream_send *op = stream_out_find(&ends.out, record->number);
    assert_ptr_equal(op, &ends.ops[record->number - ends.first]);
    if (record->kept) {
        assert_true(stream_out_keep(&ends.out, record->number));
        assert_false(stream_out_keep(&ends.out, record->number));
        assert_ptr_equal(stream_out_find(&ends.out, record->number), op);
        return;
    }
    assert_ptr_equal(stream_out_remove(&ends.out, record->number), op);
    assert_false(list_linked(&op->late_node));
    send_ended(op);
    assert_null(stream_out_remove(&ends.out, record->number));
}

static void frame_comes(void)
{
    const struct frame *frame = &ends.frames[ends.read++];
    assert_true(stream_out_check(&ends.out, frame->base, frame->mask));
    while (ends.records_read < frame->records)
        record_comes(&ends.said[ends.records_read++]);
    bool news = stream_out_is_news(&ends.out, frame->base, frame->mask);
    uint64_t acked = ends.out.acked;
    uint64_t mask = ends.out.mask;
    stream_out_acked(&ends.out, frame->base, frame->mask, send_ended);
    assert_int_equal(news, acked != ends.out.acked || mask != ends.out.mask);
    assert_true((uint32_t)ends.out.acked == frame->base);
    for (size_t i = ends.read % 16; i < sent(); i += 16)
        assert_int_equal(stream_out_find(&ends.out, ends.first + i) == NULL,
                         ends.ended[i]);
}

static void frames_come(void)
{
    while (ends.read < ends.frames_count)
        frame_comes();
}

static bool ack_is_due(void)
{
    return ends.in.base != ends.in.acked_base || ends.in.mask != ends.in.acked_mask;
}

/* Send and read all that is due. */
static void settle(void)
{
    if (ends.packed < ends.records_count_made || ack_is_due())
        frame_leaves(SIZE_MAX);
    assert_false(ack_is_due());
    frames_come();
    for (size_t i = 0; i < sent(); i++)
        assert_int_equal(ends.ended[i], ends.done[i]);
    assert_true(ends.out.acked == ends.in.base && ends.out.mask == ends.in.mask);
    assert_true(ends.out.acked == ends.in.acked_base);
}

static void ends_close(void)
{
    while (ends.came < sent())
        data_comes();
    for (size_t i = 0; i < sent(); i++)
        if (!ends.done[i])
            recv_done(i, false);
    settle();
    assert_true(ends.out.acked == ends.out.next && !ends.out.mask);
    for (size_t i = 0; i < STREAM_LATE_LISTS; i++)
        assert_true(list_empty(&ends.out.ring->late[i]));
    stream_out_close(&ends.out);
    assert_null(stream_out_find(&ends.out, ends.first));
    assert_false(stream_out_keep(&ends.out, ends.first));
    assert_null(stream_out_remove(&ends.out, ends.first));
}

/* Send and receive n DATA. */
static void exchange(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        send_leaves();
        data_comes();
    }
}

/* ---- random orders ----------------------------------------------------------------- */

/* Find a number that has come, is among the newest `reach`, and is not done; SIZE_MAX:
 * not found. */
static size_t some_open(struct random *random, size_t reach)
{
    for (int tries = 0; ends.came && tries < 8; tries++) {
        size_t back = (size_t)random_range(random, reach < ends.came ? reach : ends.came);
        size_t i = (size_t)ends.came - 1 - back;
        if (!ends.done[i])
            return i;
    }
    return SIZE_MAX;
}

static void step(struct random *random, size_t reach)
{
    size_t open;
    switch (random_range(random, 8)) {
    case 0:
    case 1:
    case 2:
        if (sent() < SENDS && stream_out_has_place(&ends.out))
            send_leaves();
        break;
    case 3:
    case 4:
        if (ends.came < sent())
            data_comes();
        break;
    case 5:
        open = some_open(random, reach);
        if (open != SIZE_MAX)
            recv_done(open, random_range(random, 5) == 0);
        break;
    case 6:
        if (ends.frames_count < FRAMES - 1)
            frame_leaves((size_t)random_range(random, 4));
        break;
    default:
        if (ends.read < ends.frames_count)
            frame_comes();
        break;
    }
}

static void run_random(uint64_t seed, uint64_t first, size_t reach)
{
    struct random random;
    random_seed(&random, seed);
    ends_open(first);
    for (int i = 0; i < 10 * SENDS; i++)
        step(&random, reach);
    settle();
    ends_close();
}

static void run_seed(uint64_t seed)
{
    static const size_t reaches[] = {4, WINDOW, 200, SENDS};
    for (size_t i = 0; i < COUNT_OF(reaches); i++) {
        run_random(seed + i, 0, reaches[i]);
        run_random(seed + i, UINT32_MAX - SENDS / 4, reaches[i]);
    }
}

static void test_random(void **state)
{
    run_seed(14);
    run_seed(unit_seed());
}

/* ---- edges ------------------------------------------------------------------------- */

static const uint64_t firsts[] = {0, UINT32_MAX - 70, UINT32_MAX,
                                  (uint64_t)UINT32_MAX + 1, 3ull << 32};

/* With the window full to the last number KEPT is not sent; with one more, KEPT is sent
 * for the oldest. */
static void test_window(void **state)
{
    for (size_t f = 0; f < COUNT_OF(firsts); f++) {
        ends_open(firsts[f]);
        exchange(WINDOW);
        assert_int_equal(ends.records_count_made, 0);
        exchange(1);
        assert_int_equal(ends.records_count_made, 1);
        assert_true(ends.said[0].kept && ends.said[0].number == ends.first);
        settle();
        recv_done(0, false);
        assert_int_equal(ends.records_count_made, 2);
        settle();
        ends_close();
    }
}

/* All numbers behind base are done, in the mask. Then base is done, and jumps over all of
 * them. */
static void test_mask_full(void **state)
{
    for (size_t f = 0; f < COUNT_OF(firsts); f++) {
        for (size_t ones = 0; ones <= 64; ones++) {
            ends_open(firsts[f]);
            exchange(WINDOW);
            for (size_t i = 1; i <= ones; i++)
                recv_done(i, false);
            uint64_t all = ones == 64 ? UINT64_MAX : (1ull << ones) - 1;
            assert_true(ends.in.mask == all);
            settle();
            assert_true(ends.out.mask == all && ends.out.acked == ends.first);
            recv_done(0, false);
            assert_true(ends.in.base == ends.first + 1 + ones && !ends.in.mask);
            settle();
            assert_true(ends.out.acked == ends.first + 1 + ones && !ends.out.mask);
            ends_close();
        }
    }
}

/* The mask is full when KEPT is sent for base: base jumps as far. */
static void test_mask_full_passed(void **state)
{
    ends_open(UINT32_MAX - 3);
    exchange(WINDOW);
    for (size_t i = 1; i < WINDOW; i++)
        recv_done(i, false);
    settle();
    exchange(1);
    assert_true(ends.in.base == ends.first + WINDOW);
    assert_int_equal(ends.records_count_made, 1);
    settle();
    assert_false(ends.ended[0]);
    ends_close();
}

/* One unfinished number remains in the mask when base jumps. */
static void test_hole(void **state)
{
    for (size_t hole = 1; hole < WINDOW; hole++) {
        ends_open(UINT32_MAX - 5);
        exchange(WINDOW);
        for (size_t i = WINDOW - 1; i > 0; i--)
            if (i != hole)
                recv_done(i, i % 3 == 0);
        settle();
        recv_done(0, false);
        assert_true(ends.in.base == ends.first + hole);
        settle();
        recv_done(hole, false);
        assert_true(ends.in.base == ends.first + WINDOW && !ends.in.mask);
        ends_close();
    }
}

/* Base jumps by about the width of the mask, over a number that the last mask has named,
 * and the new mask has the same bit, for another number: each number ends at the first
 * header that names it. */
static void test_jumps(void **state)
{
    for (size_t jump = 62; jump <= WINDOW; jump++) {
        for (size_t bit = 0; bit + 1 < jump; bit++) {
            ends_open(UINT32_MAX - 40);
            exchange(WINDOW);
            recv_done(bit + 1, false);
            settle();
            for (size_t i = 0; i < jump; i++)
                if (i != bit + 1)
                    recv_done(i, false);
            while (ends.came <= jump + 1 + bit)
                exchange(1);
            recv_done(jump + 1 + bit, false);
            settle();
            assert_true(ends.out.acked == ends.first + jump);
            ends_close();
        }
    }
}

/* The ring has no place left, and no place comes back until a header reports the oldest
 * number as done. */
static void test_ring_full(void **state)
{
    uint64_t number;
    for (size_t f = 0; f < COUNT_OF(firsts); f++) {
        ends_open(firsts[f]);
        for (size_t i = 0; i < STREAM_RING; i++)
            send_leaves();
        assert_false(stream_out_has_place(&ends.out));
        for (size_t i = 0; i < STREAM_RING; i++)
            data_comes();
        struct stream_in in = ends.in; /* one more number had no place */
        assert_false(stream_in_count_data(&in, &number));
        settle();
        /* all but WINDOW are kept, without any receive */
        assert_true(ends.out.acked == ends.first + STREAM_RING - WINDOW);
        exchange(STREAM_RING - WINDOW);
        assert_false(stream_out_has_place(&ends.out));
        recv_done(STREAM_RING, false); /* KEPT was sent long ago */
        settle();
        ends_close();
    }
}

/* Some headers are repeated, some are lost: the next header carries everything. */
static void test_headers(void **state)
{
    ends_open(UINT32_MAX - 30);
    exchange(60);
    for (size_t i = 0; i < 60; i += 2) {
        recv_done(i, false);
        frame_leaves(SIZE_MAX);
        ends.read += i % 4 == 0; /* not read: it carried no record */
        frames_come();
        struct frame last = ends.frames[ends.frames_count - 1];
        if (i % 4 == 0)
            continue;
        assert_false(stream_out_is_news(&ends.out, last.base, last.mask));
        stream_out_acked(&ends.out, last.base, last.mask, send_ended); /* ends nothing */
    }
    ends_close();
}

/* While a record is due, headers repeat the earlier state, whatever is done. */
static void test_header_waits(void **state)
{
    ends_open(0);
    exchange(3);
    recv_done(2, false);
    frame_leaves(0);
    frames_come();
    assert_true(ends.ended[2]);
    recv_done(0, true);
    recv_done(1, false);
    for (int i = 0; i < 3; i++) {
        frame_leaves(0);
        frames_come();
        assert_false(ends.ended[0] || ends.ended[1]);
        assert_false(stream_out_is_news(&ends.out, 0, 2));
    }
    frame_leaves(1);
    frames_come();
    assert_true(ends.ended[0] && ends.ended[1]);
    ends_close();
}

static uint64_t bits_up_to(unsigned top, bool full)
{
    uint64_t one = 1ull << top;
    return full ? one | (one - 1) : one;
}

/* A header that acknowledges a number which was not sent must be refused, every other
 * accepted. */
static void check_all(uint64_t acked, uint64_t under_way)
{
    struct stream_out out = {.acked = acked, .next = acked + under_way};
    for (int64_t off = -80; off <= 600; off++) {
        uint32_t base = (uint32_t)(acked + (uint64_t)off);
        bool base_is_right = off >= 0 && (uint64_t)off <= under_way;
        assert_int_equal(stream_out_check(&out, base, 0), base_is_right);
        for (unsigned top = 0; top < 64; top++) {
            bool was_sent = base_is_right && (uint64_t)off + 1 + top < under_way;
            assert_int_equal(stream_out_check(&out, base, bits_up_to(top, true)),
                             was_sent);
            assert_int_equal(stream_out_check(&out, base, bits_up_to(top, false)),
                             was_sent);
        }
    }
    assert_false(stream_out_check(&out, (uint32_t)acked + 0x80000000u, 0));
}

static void test_check(void **state)
{
    for (size_t f = 0; f < COUNT_OF(firsts); f++) {
        for (uint64_t n = 0; n <= 70; n++)
            check_all(firsts[f], n);
        check_all(firsts[f], STREAM_RING - 1);
        check_all(firsts[f], STREAM_RING);
    }
}

/* For few sends in flight, try every mask. */
static void test_check_masks(void **state)
{
    for (uint64_t n = 0; n <= 10; n++) {
        struct stream_out out = {.acked = UINT32_MAX - 4, .next = UINT32_MAX - 4 + n};
        for (uint64_t off = 0; off <= 12; off++)
            for (uint64_t mask = 0; mask < 1 << 12; mask++)
                assert_int_equal(
                    stream_out_check(&out, (uint32_t)(out.acked + off), mask),
                    off <= n && (!mask || !(mask >> (n > off ? n - off - 1 : 0))));
    }
}

/* Many kept sends, ended in any order; numbers that share a list are kept apart. */
static void test_late(void **state)
{
    enum { LATE = 400 };
    struct random random;
    size_t order[LATE];
    random_seed(&random, unit_seed());
    ends_open(UINT32_MAX - LATE / 2);
    for (int i = 0; i < 5; i++) { /* the ring has no place for all at once */
        exchange((LATE + WINDOW) / 5);
        settle();
    }
    assert_true(ends.out.acked == ends.first + LATE);
    for (size_t i = 0; i < LATE; i++) {
        size_t with = (size_t)random_range(&random, i + 1);
        order[i] = order[with];
        order[with] = i;
    }
    for (size_t i = 0; i < LATE; i++) {
        recv_done(order[i], i % 7 == 0);
        settle();
    }
    assert_null(stream_out_find(&ends.out, ends.first + LATE + WINDOW)); /* not sent */
    assert_false(stream_out_keep(&ends.out, ends.first + LATE + WINDOW));
    assert_null(stream_out_remove(&ends.out, ends.first - 1));
    ends_close();
}

static void test_no_memory(void **state)
{
    struct stream_out out = {0};
    alloc_fail_at(1);
    assert_int_equal(stream_out_open(&out), TRYST_E_NOMEM);
    assert_true(alloc_fail_off());
    assert_null(out.ring);
    assert_null(stream_out_find(&out, 0));
    stream_out_close(&out);
}

/* ---- names ------------------------------------------------------------------------- */

static struct names_in names;
static struct names_out told;
static struct scope scopes[3];
static struct entry entries[3];
static tryst_key *key;

/* Set up entry i as the key's entry in step 5 + i. */
static void names_begin(void)
{
    memset(&names, 0, sizeof names);
    assert_int_equal(names_in_open(&names), TRYST_OK);
    memset(entries, 0, sizeof entries);
    memset(&told, 0, sizeof told);
    key = mem_zalloc(sizeof *key + 8);
    assert_non_null(key);
    atomic_init(&key->refs, 1);
    key->table_hash = 99;
    assert_int_equal(names_out_open(&told), TRYST_OK);
    for (uint64_t i = 0; i < COUNT_OF(entries); i++) {
        scopes[i].id = 5 + i;
        entries[i].scope = &scopes[i];
        entries[i].key = key;
    }
}

/* Close, and check that all references to the key were released. */
static void names_end(void)
{
    names_in_close(&names);
    names_out_close(&told);
    for (size_t i = 0; i < COUNT_OF(entries); i++)
        assert_null(entries[i].name);
    assert_int_equal(atomic_load(&key->refs), 1);
    prepared_unref(key);
}

static const struct name_terms plain;

static struct name *declare(uint32_t number, const struct name_terms *terms)
{
    struct name *name = name_declare(&names, number, key->table_hash, terms);
    name->key = prepared_ref(key);
    return name;
}

/* Do what freeing an entry does (table.c). */
static void entry_goes(struct entry *entry)
{
    if (entry->name)
        entry->name->entry = NULL;
    entry->name = NULL;
}

static void test_name_places(void **state)
{
    names_begin();
    /* also 0, the number in an empty place */
    for (uint32_t n = 1; n <= 3; n++)
        for (uint32_t i = 0; i <= NAMES_FIRST; i++)
            assert_null(name_find(&names, i * n));
    struct name *name = declare(7, &plain);
    assert_ptr_equal(name_find(&names, 7), name);
    assert_true(name->hash == 99 && !name->entry && !name_leads(name, 5));
    assert_null(name_find(&names, 7 + NAMES_FIRST));
    name_bind(name, &entries[0]);
    assert_ptr_equal(entries[0].name, name);
    assert_true(name_leads(name, 5) && !name_leads(name, 6));
    /* Another name takes the place: the entry loses its name. */
    assert_ptr_equal(declare(7 + NAMES_FIRST, &plain), name);
    assert_null(entries[0].name);
    assert_null(name_find(&names, 7));
    assert_null(name_find(&names, 7 + NAMES_FIRST)->entry);
    names_end();
}

static void test_name_anew(void **state)
{
    names_begin();
    struct name *old = declare(1, &plain);
    name_bind(old, &entries[0]);
    struct name *new = declare(2, &plain);
    name_bind(new, &entries[0]);
    assert_ptr_equal(entries[0].name, new);
    assert_null(old->entry);
    /* The old place gets another name: the entry keeps its new name. */
    name_bind(declare(1 + NAMES_FIRST, &plain), &entries[1]);
    assert_ptr_equal(entries[0].name, new);
    assert_ptr_equal(name_find(&names, 2)->entry, &entries[0]);
    /* the same name again, for another entry */
    name_bind(declare(2, &plain), &entries[2]);
    assert_null(entries[0].name);
    assert_ptr_equal(name_find(&names, 2)->entry, &entries[2]);
    names_end();
}

/* A name goes from step to step, and stays when its entry is freed. */
static void test_name_steps(void **state)
{
    names_begin();
    struct name *name = declare(3, &plain);
    name_bind(name, &entries[0]);
    name_bind(name, &entries[1]);
    assert_null(entries[0].name);
    assert_true(name_leads(name, 6) && !name_leads(name, 5));
    entry_goes(&entries[1]);
    assert_ptr_equal(name_find(&names, 3), name);
    assert_true(!name->entry && name->key == key);
    name_bind(name, &entries[2]);
    assert_true(name_leads(name, 7));
    names_end();
}

/* The declaration carries the terms for which DATA has no room. */
static void test_name_terms(void **state)
{
    static const struct flow_shape shape = {.count = 5};
    names_begin();
    struct name_terms terms = name_terms_of((7ull << 32) + 9, 3ull << 32, &shape);
    struct name *name = declare(3, &terms);
    assert_true(name_step(name, 9) == (7ull << 32) + 9);
    assert_true(name->seq_base == 3ull << 32);
    assert_true(name->shaped && flow_shapes_equal(&name->shape, &shape));
    name = declare(3, &plain);
    assert_true(name_step(name, 9) == 9 && !name->seq_base && !name->shaped);
    names_end();
}

/* Declare another key. */
static void declare_other(unsigned i)
{
    static struct scope scope = {.id = 5};
    tryst_key *other = mem_zalloc(sizeof *other + 8);
    struct entry entry = {.scope = &scope, .key = other};
    atomic_init(&other->refs, 1);
    other->table_hash = 1 + i;
    other->bytes = 4;
    memcpy(other->string, &i, sizeof i);
    name_add(&told, &entry, &plain);
    (void)name_declare(&names, (uint32_t)told.count, other->table_hash, &plain);
    prepared_unref(other);
}

static bool adopt(struct names_out *out, struct entry *entry,
                  const struct name_terms *terms)
{
    struct declared *place = name_valid(out, entry, terms);
    if (place)
        name_adopt(entry, place);
    return place;
}

/* The producer must use a name exactly as long as the consumer has it, also across 32
 * bits, and with the large table from the moment on in which the producer reads of that
 * table. */
static void test_name_told(void **state)
{
    static const uint64_t starts[] = {0, UINT32_MAX - NAMES_MAX, UINT32_MAX};
    for (size_t s = 0; s < 2 * COUNT_OF(starts); s++) {
        bool many = s % 2;
        names_begin();
        told.count = starts[s / 2];
        names.count = many ? NAMES_FIRST - 1 : 0;
        assert_false(name_is_declared(&entries[0], 0));
        assert_false(adopt(&told, &entries[0], &plain));
        name_add(&told, &entries[0], &plain);
        uint64_t name = told.count;
        name_bind(declare((uint32_t)name, &plain), &entries[1]);
        unsigned most = many ? NAMES_MAX : NAMES_FIRST;
        assert_int_equal(names_in_many(&names), many);
        for (unsigned i = 0; i < 2 * most; i++) {
            const struct name *found = name_find(&names, (uint32_t)name);
            bool leads = found && found->entry == &entries[1];
            assert_int_equal(adopt(&told, &entries[2], &plain), leads);
            assert_int_equal(name_is_declared(&entries[2], 0), leads);
            if (many && i == NAMES_FIRST / 2) {
                names_out_grow(&told);
                /* until the entry adopts the name anew */
                assert_false(name_is_declared(&entries[0], 0));
                assert_true(adopt(&told, &entries[0], &plain));
            }
            assert_int_equal(name_is_declared(&entries[0], 0), leads);
            assert_int_equal(leads, i < most);
            /* else the consumer would go over to the large table */
            names.count = many ? names.count : 0;
            declare_other(i);
        }
        names_end();
    }
}

/* When the consumer goes over to the large table, all valid names stay valid, and lead to
 * the same entries. */
static void test_names_grow(void **state)
{
    struct name *old = NULL;
    names_begin();
    for (uint32_t n = 1; n < NAMES_FIRST; n++) {
        struct name *name = declare(n, &plain);
        if (n <= COUNT_OF(entries))
            name_bind(name, &entries[n - 1]);
    }
    old = name_find(&names, 1);
    alloc_fail_at(1);
    (void)declare(NAMES_FIRST, &plain);
    assert_true(alloc_fail_off());
    assert_false(names_in_many(&names));
    for (uint32_t n = 1; n <= NAMES_FIRST; n++)
        assert_non_null(name_find(&names, n));
    names.count = 2 * NAMES_FIRST - 1;
    (void)declare(NAMES_FIRST + 1, &plain);
    assert_true(names_in_many(&names));
    for (uint32_t n = 1; n <= NAMES_FIRST + 1; n++)
        assert_non_null(name_find(&names, n));
    for (uint32_t n = 1; n <= COUNT_OF(entries); n++) {
        assert_ptr_equal(name_find(&names, n)->entry, &entries[n - 1]);
        assert_ptr_equal(entries[n - 1].name, name_find(&names, n));
    }
    assert_ptr_not_equal(name_find(&names, 1), old);
    names_end();
}

/* One name serves the entries of all steps, until a use needs other terms, or the
 * consumer has no key by that name. */
static void test_name_adopted(void **state)
{
    static const struct flow_shape shape = {.count = 5}, larger = {.count = 6};
    const struct name_terms rows[] = {{0, 0, NULL},   {1, 0, NULL},    {0, 1, NULL},
                                      {0, 0, &shape}, {0, 0, &larger}, {0, 0, NULL}};
    names_begin();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_plain = !rows[i].shape;
        uint64_t seq = (uint64_t)rows[i].seq_high << 32;
        assert_false(adopt(&told, &entries[0], &rows[i]));
        name_add(&told, &entries[0], &rows[i]);
        assert_true(told.count == i + 1 && told.index.count == 1);
        assert_true(adopt(&told, &entries[1], &rows[i]));
        assert_true(entries[1].declared == told.count);
        assert_int_equal(name_is_declared(&entries[0], seq), is_plain);
        assert_int_equal(name_is_declared(&entries[1], seq + 7), is_plain);
        assert_false(name_is_declared(&entries[1], seq + (1ull << 32)));
    }
    name_withdraw(&told, &entries[1]);
    assert_false(name_is_declared(&entries[0], 0));
    assert_false(adopt(&told, &entries[0], &plain));
    name_withdraw(&told, &entries[0]); /* a second withdrawal has no effect */
    names_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_window),
        cmocka_unit_test(test_mask_full),   cmocka_unit_test(test_mask_full_passed),
        cmocka_unit_test(test_hole),        cmocka_unit_test(test_ring_full),
        cmocka_unit_test(test_headers),     cmocka_unit_test(test_header_waits),
        cmocka_unit_test(test_check),       cmocka_unit_test(test_check_masks),
        cmocka_unit_test(test_late),        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_name_places), cmocka_unit_test(test_name_anew),
        cmocka_unit_test(test_name_steps),  cmocka_unit_test(test_name_terms),
        cmocka_unit_test(test_name_told),   cmocka_unit_test(test_name_adopted),
        cmocka_unit_test(test_names_grow),  cmocka_unit_test(test_jumps),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
