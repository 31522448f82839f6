/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up network's flows share its capacity by max-min fairness, less a random part.
 * From the flows' rates the fit must find the network again: the groups, each capacity,
 * and so each round. */
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "topology/probe/fit.h"
#include "topology/probe/fit_cuts.h"
#include "topology/probe/fit_schedule.h"

enum { GROUPS_MAX = 16, FLOWS_MAX = 4 * FIT_RANKS_MAX * FIT_RANKS_MAX };

#define BIT(rank) (UINT64_C(1) << (rank))
#define MBIT      125000.0 /* bytes/s */

/* A capacity in each direction for each rank and for each group of ranks; pairs have
 * their own where there is no switch. */
struct network {
    uint32_t n, groups_count;
    double up[FIT_RANKS_MAX], down[FIT_RANKS_MAX];
    uint64_t groups[GROUPS_MAX];
    double group_up[GROUPS_MAX], group_down[GROUPS_MAX];
    double pair[8][8]; /* 0: the pair has no wire */
};

/* ---- flows of a network ------------------------------------------------------------ */

/* List the wires that a flow passes, by number; each has a capacity. */
static uint32_t way_wires(const struct network *net, struct fit_pair flow,
                          uint32_t *wires)
{
    uint32_t count = 0, n = net->n;
    wires[count++] = flow.from;
    wires[count++] = n + flow.to;
    for (uint32_t g = 0; g < net->groups_count; g++) {
        bool from = net->groups[g] & BIT(flow.from), to = net->groups[g] & BIT(flow.to);
        if (from != to)
            wires[count++] = 2 * n + 2 * g + to;
    }
    return count;
}

static double wire_capacity(const struct network *net, uint32_t wire)
{
    uint32_t n = net->n;
    if (wire < n)
        return net->up[wire];
    if (wire < 2 * n)
        return net->down[wire - n];
    uint32_t g = (wire - 2 * n) / 2;
    return (wire - 2 * n) % 2 ? net->group_down[g] : net->group_up[g];
}

static double pair_limit(const struct network *net, struct fit_pair flow)
{
    double own = net->n <= 8 ? net->pair[flow.from][flow.to] : 0;
    return own > 0 ? own : INFINITY;
}

/* Compute max-min fair rates by progressive filling. */
static void flows_share(const struct network *net, const struct fit_pair *flows,
                        uint32_t count, double *rates)
{
    bool fixed[FIT_RANKS_MAX * FIT_RANKS_MAX] = {false};
    double level = 0;
    for (uint32_t f = 0; f < count; f++)
        rates[f] = 0;
    for (uint32_t left = count; left;) {
        double step = INFINITY;
        double room[2 * FIT_RANKS_MAX + 2 * GROUPS_MAX];
        uint32_t users[2 * FIT_RANKS_MAX + 2 * GROUPS_MAX] = {0}, wires[2 + GROUPS_MAX];
        uint32_t wires_count = 2 * net->n + 2 * net->groups_count;
        for (uint32_t w = 0; w < wires_count; w++)
            room[w] = wire_capacity(net, w);
        for (uint32_t f = 0; f < count; f++)
            for (uint32_t k = way_wires(net, flows[f], wires); k-- > 0;) {
                room[wires[k]] -= rates[f];
                users[wires[k]] += !fixed[f];
            }
        for (uint32_t w = 0; w < wires_count; w++)
            if (users[w] && room[w] / users[w] < step)
                step = room[w] / users[w];
        for (uint32_t f = 0; f < count; f++)
            if (!fixed[f] && pair_limit(net, flows[f]) - level < step)
                step = pair_limit(net, flows[f]) - level;
        level += step;
        for (uint32_t f = 0; f < count; f++)
            rates[f] = fixed[f] ? rates[f] : level;
        for (uint32_t f = 0; f < count; f++) {
            bool full = pair_limit(net, flows[f]) <= level * (1 + 1e-9);
            for (uint32_t k = way_wires(net, flows[f], wires); k-- > 0;)
                full |= users[wires[k]] &&
                        room[wires[k]] - step * users[wires[k]] <= 1e-9 * level;
            left -= full && !fixed[f];
            fixed[f] |= full;
        }
    }
}

struct probe {
    struct fit_schedule schedule;
    struct fit_flow *flows;
    struct fit_round *rounds;
    char names[FIT_RANKS_MAX][16];
    const char *name_of[FIT_RANKS_MAX];
    double latency[FIT_RANKS_MAX * FIT_RANKS_MAX];
    struct fit_samples samples;
};

/* Make the samples of a probe of `net`; each rate is up to the fraction `luck` below its
 * share. */
static void probe_open(const struct network *net, double luck, uint64_t seed,
                       struct probe *probe)
{
    static double rates[FIT_RANKS_MAX * FIT_RANKS_MAX];
    struct random dice;
    random_seed(&dice, seed);
    memset(probe, 0, sizeof *probe);
    assert_int_equal(fit_schedule_open(net->n, NULL, NULL, &probe->schedule), TRYST_OK);
    probe->flows = calloc(probe->schedule.pairs_count, sizeof *probe->flows);
    probe->rounds = calloc(probe->schedule.rounds_count, sizeof *probe->rounds);
    for (uint32_t r = 0; r < probe->schedule.rounds_count; r++) {
        uint32_t first = probe->schedule.first[r];
        uint32_t count = probe->schedule.first[r + 1] - first;
        flows_share(net, &probe->schedule.pairs[first], count, rates);
        probe->rounds[r] = (struct fit_round){&probe->flows[first], count};
        for (uint32_t f = 0; f < count; f++)
            probe->flows[first + f] =
                (struct fit_flow){probe->schedule.pairs[first + f].from,
                                  probe->schedule.pairs[first + f].to,
                                  rates[f] * (1 - luck * random_unit(&dice))};
    }
    for (uint32_t i = 0; i < net->n; i++) {
        snprintf(probe->names[i], sizeof probe->names[i], "h%u", i);
        probe->name_of[i] = probe->names[i];
    }
    probe->samples = (struct fit_samples){.ranks_count = net->n,
                                          .names = probe->name_of,
                                          .rounds = probe->rounds,
                                          .rounds_count = probe->schedule.rounds_count};
}

static void probe_close(struct probe *probe)
{
    fit_schedule_close(&probe->schedule);
    free(probe->flows);
    free(probe->rounds);
}

/* ---- comparing --------------------------------------------------------------------- */

/* True if the cuts contain the group `set`. A group is named by the side without rank
 * 0. */
static bool has_group(const struct fit_cuts *cuts, uint64_t set, uint32_t n)
{
    uint64_t named = set & 1 ? fit_all(n) & ~set : set;
    for (uint32_t g = 0; g < cuts->groups_count; g++)
        if (cuts->groups[g] == named)
            return true;
    return false;
}

static void expect_near(double got, double wanted, double tolerance, const char *what)
{
    if (fabs(got - wanted) > tolerance * wanted)
        fail_msg("%s: %g, not %g", what, got, wanted);
}

static double usual_of(const struct fit_samples *samples, uint64_t set)
{
    double usual;
    assert_int_equal(fit_usual(samples, set, &usual), TRYST_OK);
    return usual;
}

/* Return the most that leaves `set` in a round, if group `g` had no wire. */
static double load_without(const struct network *net, uint32_t g, uint64_t set)
{
    struct network wide = *net;
    struct probe probe;
    wide.group_up[g] = wide.group_down[g] = 1e15;
    probe_open(&wide, 0, 0, &probe);
    double most = fit_capacity(&probe.samples, set);
    probe_close(&probe);
    return most;
}

/* Return how clearly group `g` shows: the load that its wire would get, divided by the
 * capacity of the wire. */
static double visible(const struct network *net, uint32_t g)
{
    double up = load_without(net, g, net->groups[g]) / net->group_up[g];
    double down =
        load_without(net, g, fit_all(net->n) & ~net->groups[g]) / net->group_down[g];
    return up > down ? up : down;
}

/* True if every group limits clearly. Where one hardly does, other sets can explain the
 * samples as well. */
static bool is_clear(const struct network *net)
{
    for (uint32_t g = 0; g < net->groups_count; g++)
        if (visible(net, g) <= 1.45)
            return false;
    return true;
}

/* Check that the fit explains the flows, by the network's groups and (`exact`) no
 * others. */
static void expect_found(const struct network *net, double luck, uint64_t seed,
                         bool exact)
{
    struct probe probe;
    struct fit_cuts cuts;
    struct fit_report report;
    struct graph *graph = NULL;
    uint32_t matched = 0;
    probe_open(net, luck, seed, &probe);
    assert_int_equal(fit_cuts_find(&probe.samples, &cuts), TRYST_OK);
    assert_int_equal(graph_fit(&probe.samples, NULL, &report, &graph), TRYST_OK);
    assert_false(report.mesh);
    for (uint32_t g = 0; g < net->groups_count; g++) {
        bool found = has_group(&cuts, net->groups[g], net->n);
        matched += found;
        if (!found && exact)
            fail_msg("seed %llu: group %llx is not found", (unsigned long long)seed,
                     (unsigned long long)net->groups[g]);
        if (!found)
            continue;
        double tolerance = exact ? 0.1 : 0.15;
        expect_near(usual_of(&probe.samples, net->groups[g]), net->group_up[g], tolerance,
                    "up");
        expect_near(usual_of(&probe.samples, fit_all(net->n) & ~net->groups[g]),
                    net->group_down[g], tolerance, "down");
    }
    if (exact && matched != cuts.groups_count)
        fail_msg("seed %llu: %u of %u groups are none", (unsigned long long)seed,
                 cuts.groups_count - matched, cuts.groups_count);
    assert_true(report.explained >= 0.97 * report.flows);
    assert_int_equal(graph->ranks_count, net->n);
    assert_int_equal(graph->links_count, 2 * (net->n + cuts.groups_count));
    graph_close(graph);
    probe_close(&probe);
}

static void star(struct network *net, uint32_t n, const double *mbit)
{
    memset(net, 0, sizeof *net);
    net->n = n;
    for (uint32_t i = 0; i < n; i++)
        net->up[i] = net->down[i] = mbit[i] * MBIT;
}

static void group_add(struct network *net, uint64_t set, double up, double down)
{
    net->groups[net->groups_count] = set;
    net->group_up[net->groups_count] = up * MBIT;
    net->group_down[net->groups_count++] = down * MBIT;
}

/* ---- tests ------------------------------------------------------------------------- */

static void test_star(void **state)
{
    static const double equal[] = {400, 400, 400, 400}, mixed[] = {800, 800, 400, 200};
    struct network net;
    star(&net, 4, equal);
    expect_found(&net, 0.04, 1, true);
    star(&net, 4, mixed);
    expect_found(&net, 0.04, 2, true);
    star(&net, 2, equal);
    expect_found(&net, 0.04, 3, true);
}

/* Every capacity of the mixed star must be found, each direction separately. */
static void test_star_capacities(void **state)
{
    static const double mixed[] = {800, 800, 400, 200};
    struct network net;
    struct probe probe;
    star(&net, 4, mixed);
    net.down[2] = 300 * MBIT;
    probe_open(&net, 0.04, 4, &probe);
    for (uint32_t i = 0; i < 4; i++) {
        expect_near(usual_of(&probe.samples, BIT(i)), net.up[i], 0.1, "up");
        expect_near(usual_of(&probe.samples, 15 & ~BIT(i)), net.down[i], 0.1, "down");
    }
    probe_close(&probe);
}

static void test_racks(void **state)
{
    static const double rate[] = {800, 800, 800, 800, 800, 800, 800, 800, 800};
    struct network net;
    star(&net, 4, rate);
    group_add(&net, BIT(1) | BIT(3), 400, 400); /* interleaved */
    expect_found(&net, 0.04, 5, true);
    star(&net, 4, rate);
    group_add(&net, BIT(0) | BIT(1), 1000, 500); /* a capacity for each direction */
    expect_found(&net, 0.04, 6, true);
    star(&net, 9, rate);
    for (uint32_t g = 0; g < 3; g++)
        group_add(&net, UINT64_C(7) << (3 * g), 900, 900);
    expect_found(&net, 0.04, 7, true);
}

/* Racks in pods: a flow passes several groups' wires. */
static void test_nested(void **state)
{
    double rate[12];
    struct network net;
    for (uint32_t i = 0; i < 12; i++)
        rate[i] = 1000;
    star(&net, 12, rate);
    for (uint32_t g = 0; g < 4; g++)
        group_add(&net, UINT64_C(7) << (3 * g), 1500, 1500);
    group_add(&net, 0xfc0, 1200, 1200); /* the last two racks */
    expect_found(&net, 0.03, 8, true);
}

/* Eight ranks on two machines: memory within a machine, one interface for all its
 * ranks. */
static void test_shared_interface(void **state)
{
    double rate[8];
    struct network net;
    for (uint32_t i = 0; i < 8; i++)
        rate[i] = 40000;
    star(&net, 8, rate);
    group_add(&net, 0x55, 1000, 1000);
    expect_found(&net, 0.04, 9, true);
}

/* More ranks than can be enumerated. */
static void test_many(void **state)
{
    double rate[32];
    struct network net;
    for (uint32_t i = 0; i < 32; i++)
        rate[i] = i % 2 ? 1000 : 800;
    star(&net, 32, rate);
    for (uint32_t g = 0; g < 4; g++)
        group_add(&net, UINT64_C(0x11111111) << g, 3000, 3000);
    expect_found(&net, 0.04, 10, true);
}

static void test_mesh(void **state)
{
    static const double wide[] = {9000, 9000, 9000, 9000};
    struct network net;
    struct probe probe;
    struct fit_report report;
    struct graph *graph;
    star(&net, 4, wide);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 4; j++)
            net.pair[i][j] = ((i + j) % 2 ? 800 : 200) * MBIT;
    net.pair[0][1] = net.pair[1][0] = 300 * MBIT;
    probe_open(&net, 0.04, 11, &probe);
    assert_int_equal(graph_fit(&probe.samples, NULL, &report, &graph), TRYST_OK);
    assert_true(report.mesh);
    assert_int_equal(graph->links_count, 12);
    for (uint32_t l = 0; l < 12; l++)
        expect_near(graph->links[l].bytes_per_s.value,
                    net.pair[graph->links[l].from][graph->links[l].to], 0.1, "wire");
    graph_close(graph);
    probe_close(&probe);
}

/* Random racks of random sizes, ranks dealt at random. */
static void test_random(void **state)
{
    uint32_t clear = 0;
    for (uint64_t seed = 100; seed < 200; seed++) {
        struct random dice;
        random_seed(&dice, seed);
        struct network net = {.n = 6 + (uint32_t)random_range(&dice, 7)};
        uint32_t racks = 2 + (uint32_t)random_range(&dice, 2);
        uint64_t sets[3] = {0};
        double sum[3] = {0};
        for (uint32_t i = 0; i < net.n; i++) {
            uint32_t rack =
                i < 2 * racks ? i % racks : (uint32_t)random_range(&dice, racks);
            net.up[i] = net.down[i] = (double)(400 + 100 * random_range(&dice, 5)) * MBIT;
            sets[rack] |= BIT(i);
            sum[rack] += net.up[i] / MBIT;
        }
        for (uint32_t rack = racks == 2; rack < racks; rack++)
            group_add(&net, sets[rack], 0.4 * sum[rack], 0.4 * sum[rack]);
        bool exact = is_clear(&net);
        expect_found(&net, 0.03, seed, exact);
        clear += exact;
    }
    assert_true(clear > 20);
}

static void test_latency(void **state)
{
    static const double rate[] = {800, 800, 800, 800};
    static const double own[] = {10e3, 20e3, 30e3, 5e3};
    struct network net;
    struct probe probe;
    struct fit_report report;
    struct graph *graph;
    star(&net, 4, rate);
    group_add(&net, BIT(1) | BIT(3), 400, 400);
    probe_open(&net, 0.02, 12, &probe);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 4; j++)
            probe.latency[i * 4 + j] = own[i] + own[j] + ((i ^ j) & 1 ? 7e3 : 0);
    probe.samples.latency_ns = probe.latency;
    assert_int_equal(graph_fit(&probe.samples, NULL, &report, &graph), TRYST_OK);
    for (uint32_t l = 0; l < graph->links_count; l++) {
        uint32_t from = graph->links[l].from, to = graph->links[l].to;
        double wanted = from < 4 ? own[from] : to < 4 ? own[to] : 7e3;
        expect_near(graph->links[l].latency_ns.value, wanted, 0.01, "latency");
    }
    graph_close(graph);
    probe_close(&probe);
}

static void refuses(const struct fit_samples *samples, const char *words)
{
    struct err err = ERR_INIT;
    struct fit_report report;
    struct graph *graph;
    assert_int_equal(graph_fit(samples, &err, &report, &graph), TRYST_E_INVALID);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void test_refused(void **state)
{
    static const char *const names[] = {"a", "b"};
    struct fit_flow flows[] = {{0, 1, 5}, {1, 0, 0}};
    const struct fit_round round = {flows, 2};
    struct fit_samples samples = {
        .ranks_count = 2, .names = names, .rounds = &round, .rounds_count = 1};
    refuses(&samples, "from b to a");
    flows[1].bytes_per_s = NAN;
    refuses(&samples, "from b to a");
    flows[1] = (struct fit_flow){0, 1, 5};
    refuses(&samples, "no round measured b to a");
    flows[1].to = 2;
    refuses(&samples, "of 2 ranks");
    samples.ranks_count = 1;
    refuses(&samples, "2 to 64");
    samples.ranks_count = 65;
    refuses(&samples, "2 to 64");
}

static void test_schedule(void **state)
{
    for (uint32_t n = 2; n <= 9; n++) {
        uint32_t hosts[9], seen[9][9] = {{0}};
        struct fit_schedule schedule;
        for (uint32_t i = 0; i < n; i++)
            hosts[i] = i / 2;
        assert_int_equal(fit_schedule_open(n, n % 2 ? hosts : NULL, NULL, &schedule),
                         TRYST_OK);
        uint32_t apart = n * (n - 1), r;
        for (r = 0; r < schedule.rounds_count && schedule.first[r] < apart; r++) {
            uint32_t busy = 0;
            for (uint32_t p = schedule.first[r]; p < schedule.first[r + 1]; p++) {
                struct fit_pair pair = schedule.pairs[p];
                uint32_t from = n % 2 ? hosts[pair.from] : pair.from;
                uint32_t to = n % 2 ? hosts[pair.to] : pair.to;
                assert_false(busy & (1u << from | 1u << to));
                busy |= 1u << from | 1u << to;
                seen[pair.from][pair.to]++;
            }
        }
        assert_int_equal(schedule.first[r], apart);
        if (n % 2 == 0)
            assert_int_equal(r, 2 * (n - 1)); /* the minimum */
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                assert_int_equal(seen[i][j], i != j);
        assert_int_equal(schedule.pairs_count, n > 4   ? 4 * apart + 6 * n
                                               : n > 2 ? 4 * apart
                                                       : apart);
        fit_schedule_close(&schedule);
    }
}

static tryst_status fit_once(const struct probe *probe)
{
    struct fit_report report;
    struct graph *graph;
    tryst_status status = graph_fit(&probe->samples, NULL, &report, &graph);
    if (status == TRYST_OK)
        graph_close(graph);
    return status;
}

static void test_no_memory(void **state)
{
    static const double mixed[] = {800, 800, 400, 200};
    struct network net;
    struct probe probe;
    star(&net, 4, mixed);
    probe_open(&net, 0.04, 13, &probe);
    WALK_ALLOCATIONS(fit_once(&probe));
    probe_close(&probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_star),
        cmocka_unit_test(test_star_capacities),
        cmocka_unit_test(test_racks),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_shared_interface),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_mesh),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_latency),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
