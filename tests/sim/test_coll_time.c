/* SPDX-License-Identifier: Apache-2.0 */
/* The time of an all-reduce of 64 ranks over each kind of network, compared with the
 * plan's prediction and with the bound of all plans.
 *
 * TRYST_TEST_NETS: names of networks, at both sizes, instead of the star of the fast run
 * ("all": each). */
#include <stdlib.h>

#include "cluster.h"
#include "core/os/clock.h"
#include "planned.h"
#include "sim.h"

enum { RANKS = 64, PACKET = 8 << 10, MIB = 1 << 20 };

static struct sim sim;

/* Return the time at which the last rank's part of the collective ended. */
static uint64_t end_ns(int which)
{
    uint64_t last_ns = 0;
    for (int rank = 0; rank < sim.params.ranks; rank++) {
        const struct sim_part *part = &sim.colls[which].parts[rank];
        assert_int_equal(part->status, TRYST_OK);
        last_ns = part->done_ns > last_ns ? part->done_ns : last_ns;
    }
    return last_ns;
}

/* Return the virtual time of an all-reduce in seconds. Another all-reduce runs before, so
 * that the ranks have measured their paths. */
static double allreduce_s(const struct planned *planned, uint64_t bytes)
{
    uint64_t begin_ns = 10 * NS_PER_S;
    struct net net;
    struct sim_params params = {.ranks = (int)planned->graph->ranks_count,
                                .rail_window_bytes = 16 * MIB,
                                .plan = planned->compiled,
                                .quiet = true};
    cluster_make(&net, planned->overlay, PACKET);
    sim_open(&sim, &params, &net);
    int first = sim_coll_add(&sim, TRYST_COLL_ALLREDUCE, 0, bytes);
    int second = sim_coll_add(&sim, TRYST_COLL_ALLREDUCE, 0, bytes);
    for (int rank = 0; rank < params.ranks; rank++) {
        sim_act(&sim, 0, SIM_DO_COLL, first, rank);
        sim_act(&sim, begin_ns, SIM_DO_COLL, second, rank);
    }
    assert_true(sim_run(&sim, 3600 * NS_PER_S));
    assert_true(end_ns(first) < begin_ns);
    double took_s = (double)(end_ns(second) - begin_ns) / 1e9;
    sim_close(&sim);
    return took_s;
}

static const struct plan_size *size_of(const struct planned *planned, uint64_t bytes)
{
    uint32_t k = 0;
    while (planned->sizes->sizes[k].bytes_max < bytes)
        k++;
    return &planned->sizes->sizes[k];
}

/* The goal for all is 1.05 of both; README.md explains the higher limits as far as the
 * cause is known. */
static const struct limit {
    double predicted; /* limit at 64 MiB, as a multiple of the predicted time */
    double bound;     /* limit at 256 MiB, as a multiple of the bound */
} limits[NET_FAMILIES] = {
    [NET_STAR] = {1.05, 1.05},     [NET_RACKS] = {1.05, 1.05},
    [NET_RING] = {1.05, 1.05},     [NET_LINE] = {1.05, 1.05},
    [NET_TORUS] = {1.05, 1.15},    [NET_MESH] = {1.05, 1.05},
    [NET_FAT_TREE] = {1.05, 1.05}, [NET_DRAGONFLY] = {1.05, 1.05},
    [NET_RANDOM] = {1.05, 1.2},
};

static void size_run(const struct planned *planned, int family, uint64_t bytes)
{
    uint64_t begin_ns = clock_wall_ns();
    const struct plan_size *size = size_of(planned, bytes);
    double bound_s = planned->sizes->bound_s_per_byte * (double)bytes;
    double took_s = allreduce_s(planned, bytes);
    print_message(
        "%-10s %4u MiB: %2u trees, depth %2u, slices of %4u KiB; bound %8.2f ms, "
        "predicted %8.2f, simulated %8.2f: %.3f of predicted, %.3f of bound; "
        "real %.1f s\n",
        net_names[family], (unsigned)(bytes / MIB), size->trees_count, size->depth,
        size->slice_bytes >> 10, bound_s * 1e3, size->predicted_s * 1e3, took_s * 1e3,
        took_s / size->predicted_s, took_s / bound_s,
        (double)(clock_wall_ns() - begin_ns) / 1e9);
    if (bytes == 64 * MIB && took_s > limits[family].predicted * size->predicted_s)
        fail_msg("%s: %.3f of what the plan predicts, more than %.2f", net_names[family],
                 took_s / size->predicted_s, limits[family].predicted);
    if (bytes == 256 * MIB && took_s > limits[family].bound * bound_s)
        fail_msg("%s: %.3f of the bound, more than %.2f", net_names[family],
                 took_s / bound_s, limits[family].bound);
}

static void test_networks(void **state)
{
    const char *nets = getenv("TRYST_TEST_NETS");
    for (int family = 0; family < NET_FAMILIES; family++) {
        struct planned planned;
        if (nets ? !strstr(nets, net_names[family]) && strcmp(nets, "all") != 0
                 : family != NET_STAR)
            continue;
        planned_open(&planned, net_open((enum net_family)family, RANKS, NULL));
        size_run(&planned, family, 64 * MIB);
        if (nets)
            size_run(&planned, family, 256 * MIB);
        planned_close(&planned);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
