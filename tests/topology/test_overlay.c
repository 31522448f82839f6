/* SPDX-License-Identifier: Apache-2.0 */
/* Routes against all routes: small random graphs with parallel, one-way and dead links,
 * given routes and groups. Every path is listed, and the rule for routes is applied to
 * the list. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/random.h"
#include "graph_new.h"
#include "topology/routes/overlay_price.h"

#define RANKS_MAX 6u
#define INNER_MAX 5u
#define NODES_MAX (RANKS_MAX + INNER_MAX)
#define LINKS_MAX 96u
#define PATHS_MAX 20000u
#define GRAPHS    1000u

/* ---- all paths --------------------------------------------------------------------- */

struct path {
    uint32_t length;
    uint32_t links[NODES_MAX];
};

struct listing {
    const struct graph *graph;
    uint32_t to;
    bool seen[NODES_MAX];
    struct path path;
    struct path *paths;
    uint32_t paths_count;
};

static void paths_list(struct listing *listing, uint32_t at)
{
    const struct graph *graph = listing->graph;
    if (at == listing->to) {
        assert_true(listing->paths_count < PATHS_MAX);
        listing->paths[listing->paths_count++] = listing->path;
        return;
    }
    if (listing->path.length && graph->nodes[at].kind == NODE_RANK)
        return;
    listing->seen[at] = true;
    for (uint32_t l = 0; l < graph->links_count; l++) {
        const struct graph_link *link = &graph->links[l];
        if (link->from != at || link->down || listing->seen[link->to])
            continue;
        listing->path.links[listing->path.length++] = l;
        paths_list(listing, link->to);
        listing->path.length--;
    }
    listing->seen[at] = false;
}

static double path_width(const struct graph *graph, const struct path *path)
{
    double width = INFINITY;
    for (uint32_t k = 0; k < path->length; k++)
        width = fmin(width, graph->links[path->links[k]].bytes_per_s.value);
    return width;
}

/* True if the path takes exactly the nodes of the route. */
static bool path_follows(const struct graph *graph, const struct path *path,
                         const struct graph_route *route)
{
    if (path->length != route->via_count + 1)
        return false;
    for (uint32_t k = 0; k < route->via_count; k++)
        if (graph->links[path->links[k]].to != route->via[k])
            return false;
    return true;
}

static const struct graph_route *route_find(const struct graph *graph, uint32_t from,
                                            uint32_t to)
{
    for (uint32_t r = 0; r < graph->routes_count; r++)
        if (graph->routes[r].from == from && graph->routes[r].to == to)
            return &graph->routes[r];
    return NULL;
}

/* The result of the rule: by graph link, the share of the routes that pass it. */
struct expected {
    uint32_t hops;
    double routes, share[LINKS_MAX];
};

static struct expected routes_expect(const struct graph *graph, uint32_t from,
                                     uint32_t to, struct path *paths)
{
    struct listing listing = {.graph = graph, .to = to, .paths = paths};
    const struct graph_route *given = route_find(graph, from, to);
    struct expected expected = {.hops = UINT32_MAX};
    double width = -2;
    paths_list(&listing, from);
    for (int pass = 0; pass < 3; pass++) {
        for (uint32_t p = 0; p < listing.paths_count; p++) {
            const struct path *path = &paths[p];
            if (given && !path_follows(graph, path, given))
                continue;
            if (pass == 0 && path->length < expected.hops)
                expected.hops = path->length;
            if (path->length != expected.hops)
                continue;
            if (pass == 1)
                width = fmax(width, path_width(graph, path));
            if (pass == 2 && path_width(graph, path) == width) {
                expected.routes++;
                for (uint32_t k = 0; k < path->length; k++)
                    expected.share[path->links[k]]++;
            }
        }
    }
    for (uint32_t l = 0; l < graph->links_count && expected.routes > 0; l++)
        expected.share[l] /= expected.routes;
    return expected;
}

/* ---- random graphs ----------------------------------------------------------------- */

struct sample {
    struct graph *graph;
    uint32_t members[RANKS_MAX], members_count;
};

static double bandwidth_draw(struct random *random, uint32_t kinds)
{
    static const double bandwidths[] = {4e8, 8e8, 2e8, 1e8, 3e8, GRAPH_UNLIMITED};
    return bandwidths[random_range(random, kinds)];
}

/* Draw a given route: a random walk over live links and inner nodes. */
static void route_draw(struct random *random, struct graph *graph, uint32_t ranks)
{
    uint32_t via[NODES_MAX], count = 0;
    bool seen[NODES_MAX] = {false};
    uint32_t from = (uint32_t)random_range(random, ranks), at = from;
    for (int step = 0; step < 40; step++) {
        const struct graph_link *link =
            &graph->links[random_range(random, graph->links_count)];
        if (link->from != at || link->to == from || seen[link->to])
            continue;
        if (link->to < ranks) {
            struct graph_route route = {from, link->to, count, via};
            if (!route_find(graph, from, link->to))
                assert_int_equal(graph_route_add(graph, &route, NULL), TRYST_OK);
            return;
        }
        at = via[count++] = link->to;
        seen[at] = true;
    }
}

static struct sample sample_draw(struct random *random)
{
    uint32_t ranks = 2 + (uint32_t)random_range(random, RANKS_MAX - 1);
    uint32_t inner = (uint32_t)random_range(random, INNER_MAX + 1);
    uint32_t kinds = 1 + (uint32_t)random_range(random, 6), nodes = ranks + inner;
    struct sample sample = {.graph = graph_new(ranks, inner)};
    struct graph *graph = sample.graph;
    /* each rank has a link to an inner node */
    for (uint32_t i = 0; inner && i < ranks; i++)
        wire_new(graph, i, ranks + (uint32_t)random_range(random, inner),
                 bandwidth_draw(random, kinds));
    for (uint32_t i = 1; i < inner; i++)
        wire_new(graph, ranks + i, ranks + (uint32_t)random_range(random, i),
                 bandwidth_draw(random, kinds));
    uint64_t extra = random_range(random, 2 * nodes);
    for (uint64_t k = 0; k < extra; k++) {
        uint32_t a = (uint32_t)random_range(random, nodes);
        uint32_t b = (uint32_t)random_range(random, nodes);
        if (a != b && (inner == 0 || random_range(random, 4) || a >= ranks || b >= ranks))
            (random_range(random, 3) ? wire_new : link_new)(
                graph, a, b, bandwidth_draw(random, kinds));
    }
    if (random_range(random, 3) == 0)
        for (uint32_t l = 0; l < graph->links_count; l++)
            graph->links[l].down = random_range(random, 12) == 0;
    for (uint64_t k = random_range(random, 4); k > 0 && graph->links_count; k--)
        route_draw(random, graph, ranks);
    assert_true(graph->links_count <= LINKS_MAX);
    for (uint32_t l = 0; l < graph->links_count; l++)
        graph->links[l].latency_ns.value = (double)random_range(random, 1000);
    for (uint32_t i = 0; i < ranks; i++)
        if (random_range(random, 4))
            sample.members[sample.members_count++] = i;
    if (!sample.members_count)
        sample.members_count = 1;
    for (uint32_t i = sample.members_count; i > 1; i--) { /* in any order */
        uint32_t k = (uint32_t)random_range(random, i), kept = sample.members[k];
        sample.members[k] = sample.members[i - 1];
        sample.members[i - 1] = kept;
    }
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    return sample;
}

static bool near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

static bool connected(const struct sample *sample, struct expected (*all)[RANKS_MAX])
{
    bool reach[RANKS_MAX][RANKS_MAX];
    uint32_t n = sample->members_count;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            reach[i][j] = i == j || all[i][j].routes > 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                reach[i][j] |= reach[i][k] && reach[k][j];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            if (!reach[i][j])
                return false;
    return true;
}

/* Check one pair: load, cost, the edge, and the invariant between them. */
static void pair_check(struct overlay *overlay, const struct graph *graph, uint32_t i,
                       uint32_t j, const struct expected *expected, const double *price,
                       double cost)
{
    double load[LINKS_MAX] = {0}, paid = 0, latency_ns = 0, bytes_per_s = INFINITY;
    struct overlay_edge edge;
    overlay_edge(overlay, i, j, &edge);
    assert_true(edge.routes == expected->routes);
    if (expected->routes == 0) {
        assert_true(isinf(cost) && edge.hops == 0);
        return;
    }
    assert_int_equal(edge.hops, expected->hops);
    overlay_load(overlay, i, j, 2.5, load);
    for (uint32_t l = 0; l < overlay->links_count; l++) {
        assert_true(near(load[l], 2.5 * expected->share[overlay->links[l]]));
        paid += load[l] * price[l];
        if (load[l] > 0)
            bytes_per_s = fmin(bytes_per_s, overlay->capacity[l] / (load[l] / 2.5));
    }
    for (uint32_t l = 0; l < graph->links_count; l++)
        latency_ns += expected->share[l] * graph->links[l].latency_ns.value;
    assert_true(near(paid, 2.5 * cost));
    assert_true(near(edge.latency_ns, latency_ns) || fabs(latency_ns) < 1e-9);
    assert_true(isinf(bytes_per_s) ? isinf(edge.bytes_per_s)
                                   : near(edge.bytes_per_s, bytes_per_s));
    assert_int_equal(edge.bottleneck == GRAPH_NONE, isinf(bytes_per_s));
    if (edge.bottleneck != GRAPH_NONE)
        assert_true(near(overlay->capacity[edge.bottleneck] /
                             expected->share[overlay->links[edge.bottleneck]],
                         bytes_per_s));
}

/* Check that the overlay's links are those of finite bandwidth on a route. */
static void links_check(const struct overlay *overlay, const struct sample *sample,
                        struct expected (*all)[RANKS_MAX])
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < sample->graph->links_count; l++) {
        bool used = false;
        for (uint32_t i = 0; i < sample->members_count; i++)
            for (uint32_t j = 0; j < sample->members_count; j++)
                used |= all[i][j].share[l] > 0;
        if (!used || isinf(sample->graph->links[l].bytes_per_s.value))
            continue;
        assert_true(count < overlay->links_count);
        assert_int_equal(overlay->links[count], l);
        assert_true(overlay->capacity[count] ==
                    sample->graph->links[l].bytes_per_s.value);
        count++;
    }
    assert_int_equal(count, overlay->links_count);
}

static void sample_check(struct random *random, struct path *paths, uint32_t *open)
{
    static struct expected all[RANKS_MAX][RANKS_MAX];
    struct sample sample = sample_draw(random);
    struct err err = ERR_INIT;
    struct overlay *overlay;
    uint32_t n = sample.members_count;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            all[i][j] = i == j ? (struct expected){0}
                               : routes_expect(sample.graph, sample.members[i],
                                               sample.members[j], paths);
    tryst_status status = overlay_open(sample.graph, sample.members, n, &err, &overlay);
    assert_int_equal(status, connected(&sample, all) ? TRYST_OK : TRYST_E_INVALID);
    if (status == TRYST_OK) {
        double price[LINKS_MAX], cost[RANKS_MAX * RANKS_MAX];
        links_check(overlay, &sample, all);
        for (uint32_t l = 0; l < overlay->links_count; l++)
            price[l] = (double)random_range(random, 100);
        overlay_costs(overlay, price, cost);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                if (i != j)
                    pair_check(overlay, sample.graph, i, j, &all[i][j], price,
                               cost[i * n + j]);
                else
                    assert_true(cost[i * n + j] == 0);
        overlay_close(overlay);
        ++*open;
    } else {
        assert_non_null(strstr(err.text, "no route from {h"));
    }
    graph_close(sample.graph);
}

static void all_routes_of_random_graphs(void **state)
{
    uint64_t seed = unit_seed();
    struct path *paths = malloc(PATHS_MAX * sizeof *paths);
    uint32_t open = 0;
    assert_non_null(paths);
    for (uint32_t k = 0; k < GRAPHS; k++) {
        struct random random;
        random_seed(&random, seed + k);
        sample_check(&random, paths, &open);
    }
    free(paths);
    print_message("%u of %u graphs are connected\n", open, GRAPHS);
    assert_in_range(open, GRAPHS / 4, GRAPHS);
}

/* ---- by hand ----------------------------------------------------------------------- */

static double load_of(struct overlay *overlay, uint32_t i, uint32_t j, uint32_t link)
{
    double load[LINKS_MAX] = {0};
    overlay_load(overlay, i, j, 1, load);
    for (uint32_t l = 0; l < overlay->links_count; l++)
        if (overlay->links[l] == link)
            return load[l];
    return -1; /* no route takes it */
}

/* Two leaves, two cores; in the second part one of the cores has a narrower link. */
static void two_cores(void **state)
{
    for (int thin = 0; thin < 2; thin++) {
        struct graph *graph = graph_new(2, 4);
        wire_new(graph, 0, 2, 1e9);
        wire_new(graph, 1, 3, 1e9);
        for (uint32_t core = 4; core < 6; core++) {
            wire_new(graph, 2, core, thin && core == 5 ? 4e8 : 5e8);
            wire_new(graph, 3, core, 5e8);
        }
        struct overlay *overlay = overlay_new(graph);
        struct overlay_edge edge;
        overlay_edge(overlay, 0, 1, &edge);
        assert_int_equal(edge.hops, 4);
        assert_true(edge.routes == (thin ? 1 : 2));
        assert_true(edge.bytes_per_s == (thin ? 5e8 : 1e9));
        assert_true(load_of(overlay, 0, 1, 4) == (thin ? 1 : 0.5));
        assert_true(load_of(overlay, 0, 1, 8) == (thin ? -1 : 0.5));
        overlay_close(overlay);
        graph_close(graph);
    }
}

/* Two cables of a rank to its switch carry half each; a third, narrower one carries
 * nothing. */
static void parallel_links(void **state)
{
    struct graph *graph = graph_new(2, 1);
    wire_new(graph, 0, 2, 1e9);
    wire_new(graph, 0, 2, 1e9);
    wire_new(graph, 0, 2, 5e8);
    wire_new(graph, 1, 2, 2e9);
    struct overlay *overlay = overlay_new(graph);
    assert_true(load_of(overlay, 0, 1, 0) == 0.5);
    assert_true(load_of(overlay, 1, 0, 3) == 0.5);
    assert_true(load_of(overlay, 0, 1, 4) == -1);
    overlay_close(overlay);
    graph_close(graph);
}

/* Four ranks in a ring: only neighbours have edges. */
static void ranks_do_not_forward(void **state)
{
    struct graph *graph = graph_new(4, 0);
    double price[8], cost[16];
    for (uint32_t i = 0; i < 4; i++)
        wire_new(graph, i, (i + 1) % 4, 1e9);
    struct overlay *overlay = overlay_new(graph);
    assert_int_equal(overlay->links_count, 8);
    for (int l = 0; l < 8; l++)
        price[l] = l + 1;
    overlay_costs(overlay, price, cost);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(isinf(cost[i * 4 + (i + 2) % 4]));
        assert_true(cost[i * 4 + (i + 1) % 4] == 2 * i + 1);
        assert_true(cost[(i + 1) % 4 * 4 + i] == 2 * i + 2);
    }
    overlay_close(overlay);
    uint32_t apart[] = {0, 2};
    struct err err = ERR_INIT;
    assert_int_equal(overlay_open(graph, apart, 2, &err, &overlay), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "from {h0} to {h2}"));
    graph_close(graph);
}

/* A ladder of so many rungs that its routes outnumber what a double holds. */
static void routes_beyond_number(void **state)
{
    enum { RUNGS = 1200 };
    struct graph *graph = graph_new(2, RUNGS);
    struct overlay_edge edge;
    wire_new(graph, 0, 2, 1e9);
    wire_new(graph, 1, RUNGS + 1, 1e9);
    for (uint32_t k = 2; k < RUNGS + 1; k++)
        for (int cable = 0; cable < 4; cable++)
            wire_new(graph, k, k + 1, 1e9);
    struct overlay *overlay = overlay_new(graph);
    overlay_edge(overlay, 0, 1, &edge);
    assert_int_equal(edge.hops, RUNGS + 1);
    assert_true(edge.bytes_per_s == 1e9);
    double *price = malloc(overlay->links_count * sizeof *price), cost[4];
    for (uint32_t l = 0; l < overlay->links_count; l++)
        price[l] = 1;
    overlay_costs(overlay, price, cost);
    assert_true(near(cost[1], RUNGS + 1) && near(cost[2], RUNGS + 1));
    free(price);
    overlay_close(overlay);
    graph_close(graph);
}

/* A fat tree of 1,024 ranks: distances follow the levels; the test prints the time. */
static void fat_tree(void **state)
{
    enum { PODS = 16, HALF = PODS / 2, RANKS = PODS * HALF * HALF, EDGES = PODS * HALF };
    struct graph *graph = graph_new(RANKS, 2 * EDGES + HALF * HALF);
    for (uint32_t i = 0; i < RANKS; i++)
        wire_new(graph, i, RANKS + i / HALF, 1e9);
    for (uint32_t e = 0; e < EDGES; e++)
        for (uint32_t k = 0; k < HALF; k++) {
            uint32_t above = RANKS + EDGES + e / HALF * HALF + k;
            wire_new(graph, RANKS + e, above, 1e9);
            wire_new(graph, RANKS + EDGES + e, RANKS + 2 * EDGES + e % HALF * HALF + k,
                     1e9);
        }
    uint64_t begin = clock_monotonic_ns();
    struct overlay *overlay = overlay_new(graph);
    uint64_t opened = clock_monotonic_ns();
    double *cost = malloc(sizeof *cost * RANKS * RANKS);
    double *load = calloc(2ul * overlay->links_count, sizeof *load);
    assert_non_null(cost);
    assert_non_null(load);
    double *price = load + overlay->links_count;
    for (uint32_t l = 0; l < overlay->links_count; l++)
        price[l] = 1;
    uint64_t asked = clock_monotonic_ns();
    overlay_costs(overlay, price, cost);
    uint64_t priced = clock_monotonic_ns();
    for (uint32_t i = 0; i < RANKS; i++)
        overlay_load(overlay, i, (i + RANKS / 2) % RANKS, 1, load);
    print_message("%u links: open %.0f ms, all costs %.1f ms, a load %.1f us\n",
                  overlay->links_count, (double)(opened - begin) / 1e6,
                  (double)(priced - asked) / 1e6,
                  (double)(clock_monotonic_ns() - priced) / 1e3 / RANKS);
    for (uint32_t i = 0; i < RANKS; i++)
        for (uint32_t j = 0; j < RANKS; j++) {
            double hops = i == j                               ? 0
                          : i / HALF == j / HALF               ? 2
                          : i / HALF / HALF == j / HALF / HALF ? 4
                                                               : 6;
            assert_true(fabs(cost[(size_t)i * RANKS + j] - hops) < 1e-9);
        }
    for (uint32_t l = 0; l < overlay->links_count; l++)
        /* when each rank sends to the other half, all links are full */
        assert_true(fabs(load[l] - 1) < 1e-9);
    free(load);
    free(cost);
    overlay_close(overlay);
    graph_close(graph);
}

static void refused(void **state)
{
    static const uint32_t twice[] = {0, 1, 0}, far[] = {0, 3};
    struct graph *graph = graph_new(3, 1);
    struct overlay *overlay;
    struct err err = ERR_INIT;
    for (uint32_t i = 0; i < 3; i++)
        wire_new(graph, i, 3, i == 2 ? GRAPH_UNKNOWN : 1e9);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    assert_int_equal(overlay_open(graph, twice, 3, &err, &overlay), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "rank 0 is named twice"));
    assert_int_equal(overlay_open(graph, far, 2, &err, &overlay), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "no rank 3"));
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &overlay), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "\"h2\" -> \"s0\" is unknown"));
    assert_int_equal(overlay_open(graph, twice, 2, &err, &overlay), TRYST_OK);
    /* the wire of unknown rate does not limit */
    assert_int_equal(overlay->links_count, 4);
    overlay_close(overlay);
    assert_int_equal(overlay_open(graph, twice, 1, &err, &overlay), TRYST_OK);
    assert_int_equal(overlay->links_count, 0); /* a single rank */
    overlay_close(overlay);
    graph_close(graph);
    graph = graph_new(0, 2);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &overlay), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "no ranks"));
    graph_close(graph);
}

static tryst_status open_and_close(const struct graph *graph)
{
    struct overlay *overlay;
    tryst_status status = overlay_open(graph, NULL, 0, NULL, &overlay);
    if (status == TRYST_OK)
        overlay_close(overlay);
    return status;
}

static void no_memory(void **state)
{
    static const uint32_t via = 3;
    struct graph *graph = graph_new(3, 2);
    struct graph_route route = {0, 1, 1, &via};
    for (uint32_t i = 0; i < 6; i++)
        wire_new(graph, i % 3, 3 + i / 3, 1e9 * (1 + i % 2));
    assert_int_equal(graph_route_add(graph, &route, NULL), TRYST_OK);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    WALK_ALLOCATIONS(open_and_close(graph));
    graph_close(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_routes_of_random_graphs),
        cmocka_unit_test(two_cores),
        cmocka_unit_test(parallel_links),
        cmocka_unit_test(ranks_do_not_forward),
        cmocka_unit_test(routes_beyond_number),
        cmocka_unit_test(fat_tree),
        cmocka_unit_test(refused),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
