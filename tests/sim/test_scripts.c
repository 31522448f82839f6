/* SPDX-License-Identifier: Apache-2.0 */
/* Single jobs by script: peers that stop, a link that is cut, a cluster's file. */
#include "cluster.h"
#include "workload.h"

enum { MIB = 1 << 20, PACKET = 64 << 10 };

static struct sim sim;

static void begin(int ranks, uint64_t latency_ns, enum sim_fault fault)
{
    struct net net;
    struct sim_params params = {.ranks = ranks,
                                .slice_bytes = MIB,
                                .window_bytes = 4 * MIB,
                                .rail_window_bytes = 16 * MIB,
                                .posted_slices = 4,
                                .fault = fault};
    star_make(&net, ranks, 125000000, latency_ns);
    sim_open(&sim, &params, &net);
}

static uint64_t done_ns(int which)
{
    for (size_t i = 0; i < sim.log.count; i++) {
        const struct sim_entry *entry = &sim.log.entries[i];
        if (entry->event == SIM_DONE && entry->which == which && !entry->a)
            return entry->at_ns;
    }
    fail_msg("transfer %d has not ended", which);
    return 0;
}

/* Return the time of 64 MiB to rank 6. Before, `stopped` other ranks have stopped with
 * posted receives, and the bytes that were in flight to them have left the wire. */
static double last_peer_ms(int stopped, enum sim_fault fault)
{
    uint64_t begin_ns = 400 * NS_PER_MS;
    begin(7, 2500000, fault);
    for (int i = 0; i < stopped; i++) {
        (void)sim_transfer_at(&sim, 0, 1 + i, 64 * MIB, 0, 0, 0, 0);
        sim_act(&sim, 50 * NS_PER_MS, SIM_DO_RANK_STOP, 1 + i, 0);
        sim_act(&sim, 20 * NS_PER_S, SIM_DO_RANK_GO, 1 + i, 0);
    }
    int last = sim_transfer_at(&sim, 0, 6, 64 * MIB, begin_ns, 0, 0, 0);
    assert_true(sim_run(&sim, 60 * NS_PER_S));
    uint64_t took_ns = done_ns(last) - begin_ns;
    sim_close(&sim);
    return (double)took_ns / 1e6;
}

/* Stopped peers do not delay other peers. */
static void test_stopped_peers(void **state)
{
    double alone_ms = last_peer_ms(0, SIM_SOUND);
    for (int stopped = 1; stopped <= 5; stopped++) {
        double beside_ms = last_peer_ms(stopped, SIM_SOUND);
        print_message("%d peers stopped: %.1f ms, alone %.1f ms\n", stopped, beside_ms,
                      alone_ms);
        assert_true(beside_ms <= alone_ms / 0.95);
    }
    assert_true(last_peer_ms(4, SIM_BLIND) > alone_ms / 0.95);
}

/* Twenty transfers are cancelled one after the other. Their slices in flight still count,
 * so an urgent transfer waits for one window, not for twenty. */
static void test_cancels(void **state)
{
    begin(2, 10000, SIM_SOUND);
    for (int i = 0; i < 20; i++) {
        int which = sim_transfer_at(&sim, 0, 1, 64 * MIB, 0, 0, 0, 0);
        sim_act(&sim, (100 + (uint64_t)i) * NS_PER_MS, SIM_DO_CANCEL_SEND, which, 0);
    }
    int urgent =
        sim_transfer_at(&sim, 0, 1, MIB, 130 * NS_PER_MS, 0, TRYST_OP_PRIORITY, -1);
    assert_true(sim_run(&sim, 60 * NS_PER_S));
    double waited_ms = (double)done_ns(urgent) / 1e6 - 130;
    double bound_ms = 5.0 * MIB / 125000;
    print_message("waited %.1f ms, a window and a slice take %.1f ms\n", waited_ms,
                  bound_ms);
    assert_true(waited_ms < bound_ms + 3);
    sim_close(&sim);
}

/* Rank 0 borrows the slices of its children in their order. While child 1 is late, it
 * borrows none of child 2, so an urgent send of child 2 finds its window free. */
static void test_late_child(void **state)
{
    struct net net;
    struct sim_params params = {.ranks = 3,
                                .window_bytes = 64 << 10,
                                .rail_window_bytes = 16 * MIB,
                                .posted_slices = 4,
                                .borrows = UINT64_MAX};
    star_make(&net, 3, 125000000, 10000);
    sim_open(&sim, &params, &net);
    int which = sim_coll_add(&sim, TRYST_COLL_ALLREDUCE, 0, 4 * MIB);
    for (int rank = 0; rank < 3; rank++)
        sim_act(&sim, rank == 1 ? NS_PER_S : 0, SIM_DO_COLL, which, rank);
    int urgent =
        sim_transfer_at(&sim, 2, 0, 32 << 10, 100 * NS_PER_MS, 0, TRYST_OP_PRIORITY, -1);
    assert_true(sim_run(&sim, 60 * NS_PER_S));
    assert_true(done_ns(urgent) < 110 * NS_PER_MS);
    assert_int_equal(sim.colls[which].parts[2].status, TRYST_OK);
    assert_true(sim.colls[which].parts[2].done_ns > NS_PER_S);
    sim_close(&sim);
}

/* Have the collective submitted by its members at this time. */
static void coll_at(int which, uint64_t ns)
{
    for (int rank = 0; rank < sim.params.ranks; rank++)
        if (!sim.colls[which].members || sim.colls[which].members >> rank & 1)
            sim_act(&sim, ns, SIM_DO_COLL, which, rank);
}

/* The connection of two ranks breaks, no other one. For each the other is dead, and so it
 * reports to the third. The collective of all fails; later ones fail where both are. */
static void test_pair_broken(void **state)
{
    static const uint64_t pairs[] = {1 << 0 | 1 << 1, 1 << 0 | 1 << 2, 1 << 1 | 1 << 2};
    static const tryst_status right[] = {TRYST_OK, TRYST_OK, TRYST_E_PEER};
    begin(3, 10000, SIM_SOUND);
    int all = sim_coll_add(&sim, TRYST_COLL_ALLREDUCE, 0, 4 * MIB);
    coll_at(all, 0);
    sim_act(&sim, NS_PER_MS, SIM_DO_PAIR_BREAK, 1, 2);
    for (int i = 0; i < 3; i++) {
        int which = sim_coll_add(&sim, TRYST_COLL_ALLREDUCE, 1, 64);
        sim.colls[which].members = pairs[i];
        coll_at(which, NS_PER_S);
    }
    assert_true(sim_run(&sim, 60 * NS_PER_S));
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(sim.colls[all].parts[rank].status, TRYST_E_PEER);
    for (int i = 0; i < 3; i++)
        for (int rank = 0; rank < 3; rank++)
            if (pairs[i] >> rank & 1)
                assert_int_equal(sim.colls[all + 1 + i].parts[rank].status, right[i]);
    sim_close(&sim);
}

/* A cut loses no packet, and when the link is mended the urgent transfer is first. */
static void test_cut(void **state)
{
    begin(3, 10000, SIM_SOUND);
    int long_one = sim_transfer_at(&sim, 0, 1, 64 * MIB, 0, 0, 0, 0);
    int urgent =
        sim_transfer_at(&sim, 0, 1, MIB, 200 * NS_PER_MS, 0, TRYST_OP_PRIORITY, -1);
    int beside = sim_transfer_at(&sim, 2, 0, 64 * MIB, 0, 0, 0, 0);
    sim_act(&sim, 100 * NS_PER_MS, SIM_DO_LINK_CUT, 2, 0); /* rank 1's link, up */
    sim_act(&sim, 100 * NS_PER_MS, SIM_DO_LINK_CUT, 3, 0); /* rank 1's link, down */
    sim_act(&sim, 3 * NS_PER_S, SIM_DO_LINK_MEND, 2, 0);
    sim_act(&sim, 3 * NS_PER_S, SIM_DO_LINK_MEND, 3, 0);
    assert_true(sim_run(&sim, 60 * NS_PER_S));
    assert_true(done_ns(beside) < NS_PER_S);
    /* time of a window, the transfer itself and a slice */
    uint64_t most_ns = (uint64_t)(6.0 * MIB / 0.125);
    assert_in_range(done_ns(urgent), 3 * NS_PER_S, 3 * NS_PER_S + most_ns);
    assert_in_range(done_ns(long_one), 3 * NS_PER_S + 3 * NS_PER_S / 10, 4 * NS_PER_S);
    sim_close(&sim);
}

/* The link is cut for longer than a peer may be silent: both ends fail with
 * TRYST_E_PEER. */
static void test_cut_for_good(void **state)
{
    begin(2, 10000, SIM_SOUND);
    int which = sim_transfer_at(&sim, 0, 1, 64 * MIB, 0, 0, 0, 0);
    for (int link = 0; link < 4; link++)
        sim_act(&sim, 100 * NS_PER_MS, SIM_DO_LINK_CUT, link, 0);
    assert_true(sim_run(&sim, 600 * NS_PER_S));
    const struct sim_transfer *transfer = &sim.transfers[which];
    assert_int_equal(transfer->send.status, TRYST_E_PEER);
    assert_int_equal(transfer->recv.status, TRYST_E_PEER);
    assert_in_range(done_ns(which), 10 * NS_PER_S, 30 * NS_PER_S);
    sim_close(&sim);
}

/* ---- windows that follow the path -------------------------------------------------- */

static uint64_t window_of(int from, int to)
{
    return world_peer(&sim.world, from, to)->lane.path.window_bytes;
}

/* Each of `senders` sends what the receiver's link moves in 25 s; later the first one
 * sends an urgent packet. Return the packet's time and the sum of all windows at its
 * end. */
static double incast_ms(int senders, uint64_t *windows_p)
{
    enum { RATE = 125000000 };
    uint64_t urgent_ns = 20 * NS_PER_S;
    struct net net;
    struct sim_params params = {
        .ranks = senders + 1, .rail_window_bytes = 16 * MIB, .posted_slices = 4};
    star_make(&net, senders + 1, RATE, 50000);
    sim_open(&sim, &params, &net);
    for (uint64_t i = 0; i < 25ull * RATE / (64 * MIB); i++)
        (void)sim_transfer_at(&sim, 1 + (int)(i % (unsigned)senders), 0, 64 * MIB, 0, 0,
                              0, 0);
    int urgent = sim_transfer_at(&sim, 1, 0, PACKET, urgent_ns, 0, TRYST_OP_PRIORITY, -1);
    assert_false(sim_run(&sim, urgent_ns - 1));
    *windows_p = 0;
    for (int i = 0; i < senders; i++)
        *windows_p += window_of(1 + i, 0);
    assert_true(sim_run(&sim, 60 * NS_PER_S));
    double took_ms = (double)(done_ns(urgent) - urgent_ns) / 1e6;
    assert_in_range(done_ns(0), 0, 60 * NS_PER_S);
    sim_close(&sim);
    return took_ms;
}

/* Many ranks send to one. The round trip of each consists mostly of the windows of the
 * others, and must not make the windows grow. */
static void test_incast(void **state)
{
    for (int senders = 1; senders <= 8; senders++) {
        uint64_t windows;
        double took_ms = incast_ms(senders, &windows);
        print_message("%d senders: urgent after %.1f ms, windows %.2f MiB\n", senders,
                      took_ms, (double)windows / MIB);
        assert_true(windows <= (uint64_t)senders * 3 * SCHED_SLICE_FIRST);
        assert_true(took_ms <= senders * 12.0);
    }
}

static void test_cluster_file(void **state)
{
    struct net net;
    int links[8];
    assert_int_equal(cluster_load(&net, TEST_CLUSTER, PACKET), 8);
    assert_int_equal(net.nodes, 10);
    assert_int_equal(net.links_count, 18);
    assert_int_equal(net_route(&net, 0, 3, links, 8), 2);
    assert_int_equal(net_route(&net, 0, 7, links, 8), 3);
    static const uint64_t rates[] = {1250000000, 2500000000, 125000000};
    static const uint64_t latencies[] = {5000, 20000, 50000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(net.links[links[i]].bytes_per_s, rates[i]);
        assert_int_equal(net.links[links[i]].latency_ns, latencies[i]);
    }
    assert_int_equal(net_route(&net, 7, 0, links, 8), 3);
    assert_int_equal(net.links[links[0]].bytes_per_s, 1250000000);
    net_free(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_peers), cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_pair_broken),   cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_for_good),  cmocka_unit_test(test_incast),
        cmocka_unit_test(test_cluster_file),  cmocka_unit_test(test_late_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
