/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that writes random data into its rings, its answers and its messages. Whatever
 * it writes, the endpoint returns a status and touches only its own memory (checked by
 * ASan). */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/os/clock.h"
#include "core/os/foreign_fd.h"
#include "core/os/random.h"
#include "pair_pump.h"
#include "support/descriptors.h"
#include "transports/memory/memory_ops.h"
#include "transports/pair/pair.h"
#include "transports/shm/shm.h"

struct fixture {
    struct node a, b; /* b is the hostile end */
};

static struct pair_ep *pair_of(struct node *node)
{
    return (struct pair_ep *)node->ep;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    nodes_connect(&f->a, &f->b, &transport_shm);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    node_close(&f->a);
    node_close(&f->b);
    free(f);
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    return 0;
}

static void fails_with(struct fixture *f, const char *text)
{
    assert_true(nodes_until(&f->a, NULL, &f->a.failed, 1000));
    assert_int_equal(f->a.failed_status, TRYST_E_PROTOCOL);
    if (!strstr(f->a.text, text))
        fail_msg("\"%s\" does not contain \"%s\"", f->a.text, text);
    assert_int_equal(transport_frame_send(f->a.ops, f->a.ep, "x", 1), TRYST_E_PEER);
    struct test_bulk bulk;
    test_bulk_init(&bulk, 1, NULL, 0, NULL);
    assert_int_equal(f->a.ops->bulk_send(f->a.ep, &bulk.bulk), TRYST_E_PEER);
    assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &bulk.bulk), TRYST_E_PEER);
}

static void put(struct fixture *f, unsigned kind, const void *payload, uint32_t bytes)
{
    struct ring_tx *tx = &pair_of(&f->b)->tx;
    ring_tx_put(tx, (enum pair_kind)kind, NULL, 0, payload, bytes);
}

static void test_unknown_kind(void **state)
{
    put(*state, 9, "x", 1);
    fails_with(*state, "entry of kind");
}

static void test_empty_frame(void **state)
{
    put(*state, PAIR_FRAME, NULL, 0);
    fails_with(*state, "a frame of 0 bytes");
}

static void test_frame_too_long(void **state)
{
    uint8_t frame[PAIR_FRAME_MAX + 8] = {0};
    char text[48];
    put(*state, PAIR_FRAME, frame, sizeof frame);
    snprintf(text, sizeof text, "a frame of %zu bytes", sizeof frame);
    fails_with(*state, text);
}

static void offer_fails(void **state, const struct pair_offer *offer, const char *text)
{
    put(*state, PAIR_OFFER, offer, sizeof *offer);
    fails_with(*state, text);
}

static void test_offer_slot(void **state)
{
    struct pair_offer offer = {.slot = 64, .mech = PAIR_MECH_READ, .bytes = 1};
    offer_fails(state, &offer, "slot 64");
}

static void test_offer_mech(void **state)
{
    struct pair_offer offer = {.slot = 3, .mech = PAIR_MECH_NONE, .bytes = 1};
    offer_fails(state, &offer, "mechanism 4");
}

static void test_offer_by_stage(void **state)
{
    struct pair_offer offer = {.slot = 3, .mech = PAIR_MECH_STAGE, .bytes = 1};
    offer_fails(state, &offer, "mechanism 5");
}

static void test_offer_bytes(void **state)
{
    struct pair_offer offer = {.slot = 3, .mech = PAIR_MECH_READ, .bytes = UINT64_MAX};
    offer_fails(state, &offer, "offer");
}

static void test_offer_short(void **state)
{
    put(*state, PAIR_OFFER, "short", 5);
    fails_with(*state, "an offer of 5 bytes");
}

static void test_offer_slot_twice(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {
        .tag = 1, .slot = 3, .mech = PAIR_MECH_MAP, .region = 5, .bytes = 9000};
    static uint8_t data[9000];
    struct test_bulk recv[2];
    for (unsigned i = 0; i < 2; i++) {
        test_bulk_init(&recv[i], 1, data, sizeof data, NULL);
        assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &recv[i].bulk), TRYST_OK);
    }
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 5); /* the receive waits for the region */
    assert_false(recv[0].done);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    fails_with(f, "slot 3");
    assert_true(recv[0].done && recv[1].done);
    assert_int_equal(recv[0].status, TRYST_E_PEER);
    assert_int_equal(recv[1].status, TRYST_E_PEER);
}

/* An unmapped address: the kernel refuses the read, and the receive keeps waiting for the
 * bytes. */
static void test_offer_address(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {.tag = 1,
                               .slot = 0,
                               .mech = PAIR_MECH_READ,
                               .where = UINT64_C(1) << 63,
                               .bytes = 9000};
    static uint8_t data[9000];
    struct test_bulk recv;
    test_bulk_init(&recv, 1, data, sizeof data, NULL);
    assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &recv.bulk), TRYST_OK);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 5);
    assert_false(recv.done);
    node_close_ep(&f->a);
    assert_int_equal(recv.status, TRYST_E_CANCELED);
}

static void test_offer_wraps(void **state)
{
    struct pair_offer offer = {
        .slot = 3, .mech = PAIR_MECH_READ, .where = UINT64_MAX - 100, .bytes = 102};
    offer_fails(state, &offer, "where 18446744073709551515");
}

static void announce(struct fixture *f, enum shm_type type, uint64_t region,
                     uint64_t bytes, int fd)
{
    struct shm_message message = {.type = type,
                                  .version = SHM_VERSION,
                                  .cookie = f->a.params.cookie,
                                  .nonce = f->a.params.peer_nonce,
                                  .region = region,
                                  .bytes = bytes};
    f->a.ops->ep_message(f->a.ep, &message, sizeof message, fd);
}

static void region_announce(struct fixture *f, uint64_t bytes, int fd)
{
    announce(f, SHM_REGION, 5, bytes, fd);
}

static void test_offer_outside_region(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {.tag = 1,
                               .slot = 0,
                               .mech = PAIR_MECH_MAP,
                               .region = 5,
                               .where = 60000,
                               .bytes = 9000};
    static uint8_t data[9000];
    struct test_bulk recv;
    int fd = memfd_create("hostile", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 65536), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    region_announce(f, 65536, fd);
    test_bulk_init(&recv, 1, data, sizeof data, NULL);
    assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &recv.bulk), TRYST_OK);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    fails_with(f, "memory that is not its own");
    assert_int_equal(recv.status, TRYST_E_PEER);
}

/* Regions without F_SEAL_SHRINK could fault during a read, so they are not mapped; the
 * bulk then uses another mechanism. */
static void test_region_unsealed(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {
        .tag = 1, .slot = 0, .mech = PAIR_MECH_MAP, .region = 5, .bytes = 9000};
    static uint8_t data[9000];
    struct test_bulk recv;
    int fd = memfd_create("hostile", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 65536), 0);
    region_announce(f, 65536, fd);
    test_bulk_init(&recv, 1, data, sizeof data, NULL);
    assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &recv.bulk), TRYST_OK);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 5);
    assert_false(recv.done || f->a.failed);
    assert_int_equal(atomic_load(&pair_of(&f->b)->mine->answer[0]), PAIR_ANSWER_DENIED);
    region_announce(f, 65536, -1); /* the same id a second time */
    fails_with(f, "once more");
}

/* A sealed memory file without pages. */
static int sparse_make(uint64_t bytes)
{
    int fd = memfd_create("hostile", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
}

/* Receives that have waited for their region are read in the order of urgency, also with
 * receives from another region that came before. */
static void test_region_late(void **state)
{
    enum { BYTES = 1 << 20, RECEIVES = 3 };
    static const uint64_t ranks[RECEIVES] = {7, 5, 3};
    static const unsigned order[RECEIVES] = {2, 1, 0};
    static uint8_t data[RECEIVES][BYTES];
    static struct test_bulk recv[RECEIVES];
    struct fixture *f = *state;
    announce(f, SHM_REGION, 6, BYTES, sparse_make(BYTES));
    for (unsigned i = 0; i < RECEIVES; i++) {
        struct pair_offer offer = {.tag = i,
                                   .slot = i,
                                   .mech = PAIR_MECH_MAP,
                                   .region = i == 0 ? 6 : 5,
                                   .sort_key = ranks[i],
                                   .bytes = BYTES};
        test_bulk_init(&recv[i], i, data[i], BYTES, NULL);
        recv[i].bulk.urgency.sort_key = 9;
        assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &recv[i].bulk), TRYST_OK);
        put(f, PAIR_OFFER, &offer, sizeof offer);
    }
    nodes_settle(&f->a, NULL, 3); /* each pass tries one receive */
    region_announce(f, BYTES, sparse_make(BYTES));
    for (unsigned i = 0; i < RECEIVES; i++) {
        assert_true(nodes_until(&f->a, NULL, &recv[order[i]].done, 5000));
        for (unsigned later = i + 1; later < RECEIVES; later++)
            assert_false(recv[order[later]].done);
    }
}

static uint64_t machine_bytes(void)
{
    struct sysinfo info;
    assert_int_equal(sysinfo(&info), 0);
    return (uint64_t)(info.totalram + info.totalswap) * info.mem_unit;
}

/* Regions that the machine cannot hold are not mapped: address space is not used up. */
static void test_region_huge(void **state)
{
    struct fixture *f = *state;
    region_announce(f, UINT64_C(1) << 43, sparse_make(UINT64_C(1) << 43));
    fails_with(f, "more memory than this machine has");
}

/* The bound is on all regions of a peer; DROP gives back what its region had. */
static void test_regions_huge(void **state)
{
    struct fixture *f = *state;
    uint64_t third = (machine_bytes() / 3 - 4096) & ~UINT64_C(4095);
    for (uint64_t i = 0; i < 12; i++) {
        announce(f, SHM_REGION, i, third, sparse_make(third));
        if (i >= 2)
            announce(f, SHM_DROP, i - 2, 0, -1);
    }
    nodes_settle(&f->a, NULL, 3);
    assert_false(f->a.failed);
    announce(f, SHM_REGION, 20, third, sparse_make(third));
    nodes_settle(&f->a, NULL, 3);
    assert_false(f->a.failed);
    announce(f, SHM_REGION, 21, third, sparse_make(third));
    fails_with(f, "more memory than this machine has");
}

static void test_region_wraps(void **state)
{
    struct fixture *f = *state;
    announce(f, SHM_REGION, 1, 4096, sparse_make(4096));
    announce(f, SHM_REGION, 2, UINT64_MAX - 4095, sparse_make(4096));
    fails_with(f, "more memory than this machine has");
}

/* Without a device no descriptor of device memory is kept. */
static void test_device_none(void **state)
{
    struct fixture *f = *state;
    int before = descriptors_open();
    for (uint64_t i = 0; i < SHM_REGIONS_MAX; i++)
        announce(f, SHM_DEVICE, i, 4096, memfd_create("hostile", MFD_CLOEXEC));
    nodes_settle(&f->a, NULL, 3);
    assert_false(f->a.failed);
    assert_int_equal(descriptors_open(), before);
    announce(f, SHM_DEVICE, SHM_REGIONS_MAX, 4096, -1);
    fails_with(f, "too many");
}

/* With a device at most 64 are kept, and DROP gives them back. */
static void test_device_descriptors(void **state)
{
    static const struct memory_ops device = {.kind = TRYST_MEMORY_CUDA, .name = "none"};
    struct fixture *f = *state;
    int before = descriptors_open();
    memory_ops_set(&device);
    for (uint64_t i = 0; i < 3 * SHM_DEVICE_FDS_MAX; i++) {
        announce(f, SHM_DEVICE, i, 4096, memfd_create("hostile", MFD_CLOEXEC));
        if (i + 1 >= SHM_DEVICE_FDS_MAX)
            announce(f, SHM_DROP, i + 1 - SHM_DEVICE_FDS_MAX, 0, -1);
    }
    nodes_settle(&f->a, NULL, 3);
    assert_false(f->a.failed);
    assert_int_equal(descriptors_open(), before + (int)SHM_DEVICE_FDS_MAX - 1);
    announce(f, SHM_DEVICE, 998, 4096, memfd_create("hostile", MFD_CLOEXEC));
    announce(f, SHM_DEVICE, 999, 4096, memfd_create("hostile", MFD_CLOEXEC));
    fails_with(f, "too many descriptors of device memory");
    node_close_ep(&f->a);
    assert_int_equal(descriptors_open(), before);
}

/* --- receives that borrow --- */

static struct test_bulk borrow; /* of 9,000 bytes, under tag 1 */

static void borrow_post(struct fixture *f)
{
    test_borrow_init(&borrow, 1, 9000);
    assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &borrow.bulk), TRYST_OK);
}

/* An offer to the receive fails the endpoint, and the receive ends with it. */
static void borrow_fails(struct fixture *f, struct pair_offer offer, const char *text)
{
    offer.tag = 1;
    put(f, PAIR_OFFER, &offer, sizeof offer);
    fails_with(f, text);
    assert_true(borrow.done && borrow.done_count == 1);
    assert_int_equal(borrow.status, TRYST_E_PEER);
}

static void test_borrow_outside_region(void **state)
{
    struct fixture *f = *state;
    borrow_post(f);
    region_announce(f, 65536, sparse_make(65536));
    borrow_fails(f,
                 (struct pair_offer){
                     .mech = PAIR_MECH_MAP, .region = 5, .where = 60000, .bytes = 9000},
                 "mechanism 2, region 5, where 60000, 9000 bytes");
    assert_int_equal(borrow.borrowed_count, 0);
}

static void test_borrow_mech(void **state)
{
    borrow_post(*state);
    borrow_fails(*state, (struct pair_offer){.mech = 7, .bytes = 9000}, "mechanism 7");
}

static void test_borrow_wraps(void **state)
{
    borrow_post(*state);
    borrow_fails(*state,
                 (struct pair_offer){
                     .mech = PAIR_MECH_READ, .where = UINT64_MAX - 100, .bytes = 9000},
                 "where 18446744073709551515");
}

/* A borrowed message keeps its slot until it is returned. */
static void test_borrow_slot_twice(void **state)
{
    struct fixture *f = *state;
    static uint8_t data[9000];
    struct pair_offer offer = {.tag = 1,
                               .slot = 3,
                               .mech = PAIR_MECH_READ,
                               .where = (uint64_t)(uintptr_t)data,
                               .bytes = 9000};
    pattern_fill(data, sizeof data, 4);
    borrow_post(f);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 3);
    assert_true(borrow.borrowed);
    assert_int_equal(test_borrow_read(&f->a, &borrow, 100, 8900, 4), TRYST_OK);
    borrow_fails(f, offer, "slot 3");
}

/* The kernel refuses the read: the message is to come by copy. */
static void test_borrow_address(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {
        .tag = 1, .mech = PAIR_MECH_READ, .where = UINT64_C(1) << 63, .bytes = 9000};
    borrow_post(f);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 3);
    assert_int_equal(test_borrow_read(&f->a, &borrow, 0, 100, 0), TRYST_AGAIN);
    assert_int_equal(atomic_load(&pair_of(&f->b)->mine->answer[0]), PAIR_ANSWER_RETRY);
    node_close_ep(&f->a);
    assert_int_equal(borrow.done_count, 1);
    assert_int_equal(borrow.status, TRYST_E_CANCELED);
}

/* Device memory is not readable by the host: the sender is to send from the host. */
static void test_borrow_device(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {
        .tag = 1, .mech = PAIR_MECH_DEVICE, .region = 5, .bytes = 9000};
    borrow_post(f);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 3);
    assert_false(borrow.borrowed || borrow.done || f->a.failed);
    assert_int_equal(atomic_load(&pair_of(&f->b)->mine->answer[0]), PAIR_ANSWER_RETRY);
}

static void canceled(struct fixture *f)
{
    f->a.ops->bulk_cancel(f->a.ep, &borrow.bulk);
    assert_false(borrow.done);
    nodes_settle(&f->a, NULL, 3);
    assert_true(borrow.done && borrow.done_count == 1 && borrow.borrowed_count == 0);
    assert_int_equal(borrow.status, TRYST_E_CANCELED);
}

/* A receive is withdrawn while its offer waits for its region, and while its message
 * comes through the ring: `done` follows, and `borrowed` does not. */
static void test_borrow_canceled(void **state)
{
    struct fixture *f = *state;
    struct pair_offer offer = {
        .tag = 1, .mech = PAIR_MECH_MAP, .region = 5, .bytes = 9000};
    struct {
        struct pair_first first;
        uint8_t data[104];
    } entry = {.first = {.tag = 1, .bytes = 208}};
    borrow_post(f);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 3);
    canceled(f);
    assert_int_equal(atomic_load(&pair_of(&f->b)->mine->answer[0]), PAIR_ANSWER_TAKEN);
    region_announce(f, 65536, sparse_make(65536));
    borrow_post(f);
    put(f, PAIR_FIRST, &entry, sizeof entry);
    nodes_settle(&f->a, NULL, 3);
    canceled(f);
    put(f, PAIR_PIECE, entry.data, sizeof entry.data);
    borrow_post(f);
    put(f, PAIR_OFFER, &offer, sizeof offer);
    nodes_settle(&f->a, NULL, 3);
    assert_true(borrow.borrowed && !f->a.failed);
    assert_int_equal(f->a.ops->bulk_return(f->a.ep, &borrow.bulk), TRYST_OK);
    assert_false(borrow.done);
}

/* Regions that receives borrow from count until they are unmapped, though their owner has
 * dropped them. */
static void test_borrow_regions_huge(void **state)
{
    enum { HELD = 2 };
    struct fixture *f = *state;
    uint64_t third = (machine_bytes() / 3 - 4096) & ~UINT64_C(4095);
    struct test_bulk held[HELD];
    for (unsigned i = 0; i < HELD; i++) {
        struct pair_offer offer = {
            .tag = i, .slot = i, .mech = PAIR_MECH_MAP, .region = i, .bytes = 9000};
        test_borrow_init(&held[i], i, 9000);
        assert_int_equal(f->a.ops->bulk_recv(f->a.ep, &held[i].bulk), TRYST_OK);
        announce(f, SHM_REGION, i, third, sparse_make(third));
        put(f, PAIR_OFFER, &offer, sizeof offer);
        nodes_settle(&f->a, NULL, 3);
        assert_true(held[i].borrowed);
        announce(f, SHM_DROP, i, 0, -1);
    }
    assert_int_equal(f->a.ops->bulk_return(f->a.ep, &held[0].bulk), TRYST_OK);
    announce(f, SHM_REGION, 3, third, sparse_make(third));
    announce(f, SHM_REGION, 4, third, sparse_make(third));
    nodes_settle(&f->a, NULL, 3);
    assert_false(f->a.failed);
    announce(f, SHM_REGION, 5, third, sparse_make(third));
    fails_with(f, "more memory than this machine has");
    assert_int_equal(held[1].status, TRYST_E_PEER);
}

static void test_piece_without_first(void **state)
{
    put(*state, PAIR_PIECE, "x", 1);
    fails_with(*state, "a piece of 1 bytes");
}

static void test_first_too_short(void **state)
{
    put(*state, PAIR_FIRST, "x", 1);
    fails_with(*state, "out of turn");
}

static void test_first_with_too_much(void **state)
{
    struct {
        struct pair_first first;
        uint8_t data[104];
    } entry = {.first = {.tag = 1, .bytes = 99}};
    put(*state, PAIR_FIRST, &entry, sizeof entry);
    fails_with(*state, "a piece of 104 bytes");
}

static void test_first_within_a_bulk(void **state)
{
    struct {
        struct pair_first first;
        uint8_t data[104];
    } entry = {.first = {.tag = 1, .bytes = 200}};
    put(*state, PAIR_FIRST, &entry, sizeof entry);
    put(*state, PAIR_FIRST, &entry, sizeof entry);
    fails_with(*state, "out of turn");
}

static void test_answer_to_nothing(void **state)
{
    struct fixture *f = *state;
    struct test_bulk send;
    static uint8_t data[9000];
    test_bulk_init(&send, 1, data, sizeof data, NULL);
    assert_int_equal(f->a.ops->bulk_send(f->a.ep, &send.bulk), TRYST_OK);
    atomic_store(&pair_of(&f->a)->mine->answered, UINT64_C(1) << 40);
    fails_with(f, "an answer to no offer");
    assert_int_equal(send.status, TRYST_E_PEER);
}

static void test_answer_of_no_kind(void **state)
{
    struct fixture *f = *state;
    struct test_bulk send;
    static uint8_t data[9000];
    test_bulk_init(&send, 1, data, sizeof data, NULL);
    assert_int_equal(f->a.ops->bulk_send(f->a.ep, &send.bulk), TRYST_OK);
    atomic_store(&pair_of(&f->a)->mine->answer[0], 77);
    atomic_store(&pair_of(&f->a)->mine->answered, 1);
    fails_with(f, "an answer of kind 77");
    assert_int_equal(send.done_count, 1);
}

static void test_tail(void **state)
{
    struct fixture *f = *state;
    uint8_t frame[4096] = {0};
    atomic_store(pair_of(&f->a)->tx.tail, 1 << 30);
    while (transport_frame_send(f->a.ops, f->a.ep, frame, sizeof frame) == TRYST_OK)
        continue;
    fails_with(f, "tail is not possible");
}

static void test_stray_message(void **state)
{
    struct fixture *f = *state;
    f->a.ops->ep_message(f->a.ep, "hello", 5, dup(0));
    fails_with(f, "another version");
}

/* --- before ready --- */

struct hello {
    const char *name;
    struct shm_message message;
    bool with_fd, sealed;
    size_t size;
    uint64_t magic;
    const char *says;
};

static int segment_make(const struct hello *row)
{
    if (!row->with_fd)
        return -1;
    int fd = memfd_create("hostile", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)row->size) == 0);
    struct pair_header header = {.magic = row->magic,
                                 .version = PAIR_VERSION,
                                 .header_bytes = PAIR_HEADER_BYTES,
                                 .ring_bytes = 8192,
                                 .nonce = {0x1111, 0x2222}};
    CHECK(pwrite(fd, &header, sizeof header, 0) == sizeof header);
    if (row->sealed)
        CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

#define GOOD                                                                       \
    {                                                                              \
        .type = SHM_ACCEPT, .version = SHM_VERSION, .cookie = 77, .nonce = 0x2222, \
        .bytes = 8192                                                              \
    }
#define SIZE (PAIR_HEADER_BYTES + 2 * 8192)

static const struct hello accept_rows[] = {
    {"unsealed", GOOD, true, false, SIZE, PAIR_MAGIC, "not sealed"},
    {"small", GOOD, true, true, SIZE - 1, PAIR_MAGIC, "smaller than announced"},
    {"no descriptor", GOOD, false, false, 0, 0, "lacks its segment"},
    {"no segment", GOOD, true, true, SIZE, 1234, "not a segment of Tryst"},
    {"cookie",
     {.type = SHM_ACCEPT, .version = SHM_VERSION, .cookie = 78, .nonce = 0x2222},
     true,
     true,
     SIZE,
     PAIR_MAGIC,
     "wrong cookie"},
    {"nonce",
     {.type = SHM_ACCEPT, .version = SHM_VERSION, .cookie = 77, .nonce = 0x2223},
     true,
     true,
     SIZE,
     PAIR_MAGIC,
     "wrong cookie or nonce"},
    {"version",
     {.type = SHM_ACCEPT, .version = 9, .cookie = 77, .nonce = 0x2222},
     true,
     true,
     SIZE,
     PAIR_MAGIC,
     "another version"},
    {"ring size",
     {.type = SHM_ACCEPT,
      .version = SHM_VERSION,
      .cookie = 77,
      .nonce = 0x2222,
      .bytes = UINT64_MAX & ~UINT64_C(63)},
     true,
     true,
     SIZE,
     PAIR_MAGIC,
     "lacks its segment"},
    {"a ring above this rank's own",
     {.type = SHM_ACCEPT,
      .version = SHM_VERSION,
      .cookie = 77,
      .nonce = 0x2222,
      .bytes = UINT64_C(1) << 30},
     true,
     true,
     PAIR_HEADER_BYTES + (UINT64_C(2) << 30),
     PAIR_MAGIC,
     "larger than this rank's"},
    {"turn",
     {.type = SHM_CONFIRM, .version = SHM_VERSION, .cookie = 77, .nonce = 0x2222},
     true,
     true,
     SIZE,
     PAIR_MAGIC,
     "out of turn"},
};

static void test_hostile_accept(void **state)
{
    (void)state;
    int descriptors = descriptors_open();
    for (unsigned i = 0; i < sizeof accept_rows / sizeof accept_rows[0]; i++) {
        struct node a = {0}, b = {0};
        nodes_link(&a, &b, &transport_shm);
        assert_true(node_open(&a)); /* the initiator; of b, only the link is used */
        nodes_settle(&a, NULL, 2);  /* HELLO */
        a.ops->ep_message(a.ep, &accept_rows[i].message, sizeof accept_rows[i].message,
                          segment_make(&accept_rows[i]));
        assert_true(nodes_until(&a, NULL, &a.ready, 1000));
        assert_int_equal(a.ready_status, TRYST_E_UNREACHABLE);
        if (!strstr(a.text, accept_rows[i].says))
            fail_msg("%s: %s", accept_rows[i].name, a.text);
        node_close(&b);
        node_close(&a);
    }
    assert_int_equal(descriptors_open(), descriptors);
}

/* The rank that makes the segment refuses a HELLO without a valid size. */
static void test_hostile_hello(void **state)
{
    static const uint64_t bytes[] = {0, PAIR_RING_BYTES_MIN - 64, PAIR_RING_BYTES_MIN + 8,
                                     2 * PAIR_RING_BYTES_MAX, UINT64_MAX & ~UINT64_C(63)};
    (void)state;
    for (unsigned i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        struct shm_message hello = {.type = SHM_HELLO,
                                    .version = SHM_VERSION,
                                    .cookie = 77,
                                    .nonce = 0x1111,
                                    .bytes = bytes[i]};
        struct node a = {0}, b = {0};
        nodes_link(&a, &b, &transport_shm);
        assert_true(node_open(&b));
        b.ops->ep_message(b.ep, &hello, sizeof hello, -1);
        assert_true(nodes_until(&b, NULL, &b.ready, 1000));
        assert_int_equal(b.ready_status, TRYST_E_UNREACHABLE);
        assert_non_null(strstr(b.text, "ring size"));
        node_close(&b);
        node_close(&a);
    }
}

/* The smaller setting counts, whichever end has it: a large ring at one rank costs the
 * other nothing. */
static void test_ring_bytes(void **state)
{
    static const uint64_t bytes[][2] = {{8192, 65536},
                                        {65536, 8192},
                                        {8192, PAIR_RING_BYTES_MAX},
                                        {PAIR_RING_BYTES_MAX, 8192}};
    (void)state;
    for (unsigned i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        struct node a = {.ring_bytes = bytes[i][0]}, b = {.ring_bytes = bytes[i][1]};
        nodes_connect(&a, &b, &transport_shm);
        assert_int_equal(pair_of(&a)->tx.bytes, 8192);
        assert_int_equal(pair_of(&b)->tx.bytes, 8192);
        assert_int_equal(pair_of(&a)->area->ring_bytes, 8192);
        node_close(&a);
        node_close(&b);
    }
}

/* --- everything at once --- */

static void scribble(struct pair_ep *ep, struct random *random, unsigned words)
{
    uint64_t bytes = pair_area_bytes(ep->tx.bytes);
    while (words--) {
        uint64_t at = random_range(random, bytes / 8);
        uint64_t value = random_u64(random);
        switch (random_range(random, 4)) {
        case 0: value &= UINT64_C(0x303000000ff); break; /* resembles an entry */
        case 1: value %= bytes; break;
        default: break;
        }
        if (random_range(random, 2))
            at = random_range(random, 88); /* the header */
        if (random_range(random, 4) == 0)  /* the next entry */
            at = (PAIR_HEADER_BYTES + ep->tx.bytes + ep->rx.offset) / 8;
        ((uint64_t *)(void *)ep->area)[at] = value;
    }
}

static void storm(uint64_t seed)
{
    enum { COUNT = 6, BYTES = 20000 };
    struct node a = {.mech = seed % 5}, b = {.mech = seed % 5};
    struct test_bulk send[COUNT], recv[COUNT];
    struct random random;
    uint8_t *data = calloc(2 * COUNT, BYTES);
    bool sent[COUNT] = {0}, posted[COUNT] = {0};
    random_seed(&random, seed);
    nodes_connect(&a, &b, &transport_shm);
    for (unsigned i = 0; i < COUNT; i++) {
        test_bulk_init(&send[i], i, data + (size_t)i * BYTES, BYTES, NULL);
        if (i % 2)
            test_borrow_init(&recv[i], i, BYTES);
        else
            test_bulk_init(&recv[i], i, data + (size_t)(COUNT + i) * BYTES, BYTES, NULL);
        posted[i] = a.ops->bulk_recv(a.ep, &recv[i].bulk) == TRYST_OK;
        sent[i] = a.ops->bulk_send(a.ep, &send[i].bulk) == TRYST_OK;
    }
    for (unsigned round = 0; round < 60; round++) {
        uint8_t frame[300] = {0};
        scribble(pair_of(&a), &random, 1 + (unsigned)random_range(&random, 8));
        (void)transport_frame_send(a.ops, a.ep, frame,
                                   1 + random_range(&random, sizeof frame));
        node_pump(&a);
        if (random_range(&random, 3) == 0 && a.ops->arm(a.rail) == TRYST_OK)
            node_pump(&a);
    }
    node_close(&a);
    node_close(&b);
    for (unsigned i = 0; i < COUNT; i++) {
        if (sent[i])
            assert_int_equal(send[i].done_count, 1);
        if (posted[i])
            assert_int_equal(recv[i].done_count, 1);
    }
    free(data);
}

static void test_storm(void **state)
{
    const char *text = getenv("TRYST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns();
    (void)state;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (unsigned i = 0; i < 400; i++)
        storm(seed + i);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_unknown_kind),
        TEST(test_empty_frame),
        TEST(test_frame_too_long),
        TEST(test_offer_slot),
        TEST(test_offer_mech),
        TEST(test_offer_by_stage),
        TEST(test_offer_bytes),
        TEST(test_offer_short),
        TEST(test_offer_slot_twice),
        TEST(test_offer_address),
        TEST(test_offer_wraps),
        TEST(test_offer_outside_region),
        TEST(test_region_unsealed),
        TEST(test_region_late),
        TEST(test_region_huge),
        TEST(test_regions_huge),
        TEST(test_region_wraps),
        TEST(test_device_none),
        TEST(test_device_descriptors),
        TEST(test_borrow_outside_region),
        TEST(test_borrow_mech),
        TEST(test_borrow_wraps),
        TEST(test_borrow_slot_twice),
        TEST(test_borrow_address),
        TEST(test_borrow_device),
        TEST(test_borrow_canceled),
        TEST(test_borrow_regions_huge),
        TEST(test_piece_without_first),
        TEST(test_first_too_short),
        TEST(test_first_with_too_much),
        TEST(test_first_within_a_bulk),
        TEST(test_answer_to_nothing),
        TEST(test_answer_of_no_kind),
        TEST(test_tail),
        TEST(test_stray_message),
        cmocka_unit_test(test_hostile_accept),
        cmocka_unit_test(test_hostile_hello),
        cmocka_unit_test(test_ring_bytes),
        cmocka_unit_test(test_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
