/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: what is refused and with which text, names among thousands, the adjacency,
 * equality. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "graph_equal.h"
#include "topology/base/graph.h"
#include "topology/base/graph_path.h"

static const struct graph_node plain = {
    .kind = NODE_SWITCH, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};

static struct graph *graph_new(void)
{
    struct graph *graph;
    assert_int_equal(graph_open(&graph), TRYST_OK);
    return graph;
}

static uint32_t node_new(struct graph *graph, const char *name, enum graph_node_kind kind)
{
    struct graph_node node = plain;
    uint32_t number;
    node.name = name;
    node.kind = kind;
    assert_int_equal(graph_node_add(graph, &node, NULL, &number), TRYST_OK);
    return number;
}

static struct graph_link link_of(uint32_t from, uint32_t to, double bytes_per_s)
{
    return (struct graph_link){.from = from,
                               .to = to,
                               .bytes_per_s = {bytes_per_s, ORIGIN_IMPORTED},
                               .latency_ns = {GRAPH_UNKNOWN, ORIGIN_NONE}};
}

static void link_new(struct graph *graph, uint32_t from, uint32_t to, double bytes_per_s)
{
    struct graph_link link = link_of(from, to, bytes_per_s);
    assert_int_equal(graph_link_add(graph, &link, NULL, NULL), TRYST_OK);
}

#define REFUSED(call, words)                              \
    do {                                                  \
        struct err err = ERR_INIT;                        \
        assert_int_equal((call), TRYST_E_INVALID);        \
        assert_int_equal(err.status, TRYST_E_INVALID);    \
        if (!strstr(err.text, words))                     \
            fail_msg("\"%s\" lacks %s", err.text, words); \
    } while (0)

static void nodes(void **state)
{
    struct graph *graph = graph_new();
    struct graph_node node = plain;
    node.name = "";
    REFUSED(graph_node_add(graph, &node, &err, NULL), "no name");
    node.name = NULL;
    REFUSED(graph_node_add(graph, &node, &err, NULL), "no name");
    node.name = "a";
    node.parent = 0;
    REFUSED(graph_node_add(graph, &node, &err, NULL), "node 0, which does not exist");
    node.parent = GRAPH_NONE;
    node.label = "Aye";
    node.pci = "0000:01:00.0";
    node.cpus = "0-3";
    assert_int_equal(graph_node_add(graph, &node, NULL, NULL), TRYST_OK);
    REFUSED(graph_node_add(graph, &node, &err, NULL), "\"a\" is used twice");
    assert_int_equal(node_new(graph, "r", NODE_RANK), 1);
    assert_int_equal(node_new(graph, "b", NODE_GPU), 2);
    assert_int_equal(node_new(graph, "q", NODE_RANK), 3);
    assert_int_equal(graph->ranks_count, 2);
    assert_int_equal(graph->ranks[1], 3);
    assert_int_equal(graph_rank_of(graph, 3), 1);
    assert_int_equal(graph_rank_of(graph, 2), GRAPH_NONE);
    assert_string_equal(graph->nodes[0].label, "Aye");
    assert_string_equal(graph->nodes[0].cpus, "0-3");
    assert_null(graph->nodes[1].label);
    assert_int_equal(graph_find(graph, "b"), 2);
    assert_int_equal(graph_find(graph, "B"), GRAPH_NONE);
    graph_close(graph);
}

static void names_by_the_thousand(void **state)
{
    struct graph *graph = graph_new();
    char name[32];
    assert_int_equal(graph_find(graph, "n0"), GRAPH_NONE);
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(node_new(graph, name, NODE_SWITCH), i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(graph_find(graph, name), i);
    }
    assert_int_equal(graph_find(graph, "n5000"), GRAPH_NONE);
    graph_close(graph);
}

static void links(void **state)
{
    static const double bandwidths[] = {0, -2, NAN, -INFINITY};
    static const double latencies[] = {-2, NAN, INFINITY};
    struct graph *graph = graph_new();
    uint32_t a = node_new(graph, "a", NODE_SWITCH), b = node_new(graph, "b", NODE_SWITCH);
    struct graph_link link;
    for (size_t i = 0; i < COUNT_OF(bandwidths); i++) {
        link = link_of(a, b, bandwidths[i]);
        REFUSED(graph_link_add(graph, &link, &err, NULL), "bandwidth");
        REFUSED(graph_wire_add(graph, &link, &err), "\"a\" -> \"b\"");
    }
    for (size_t i = 0; i < COUNT_OF(latencies); i++) {
        link = link_of(a, b, 1e9);
        link.latency_ns.value = latencies[i];
        REFUSED(graph_link_add(graph, &link, &err, NULL), "latency");
    }
    link = link_of(a, a, 1e9);
    REFUSED(graph_link_add(graph, &link, &err, NULL), "\"a\" to itself");
    link = link_of(a, 2, 1e9);
    REFUSED(graph_link_add(graph, &link, &err, NULL), "node 2");
    assert_int_equal(graph->links_count, 0);
    link_new(graph, a, b, GRAPH_UNKNOWN);
    link_new(graph, a, b, GRAPH_UNLIMITED);
    link = link_of(b, a, 7);
    link.latency_ns.value = 0;
    assert_int_equal(graph_wire_add(graph, &link, NULL), TRYST_OK);
    assert_int_equal(graph->links_count, 4);
    assert_int_equal(graph->links[3].from, a);
    assert_int_equal(graph->links[3].to, b);
    assert_true(graph->links[3].bytes_per_s.value == 7);
    graph_close(graph);
}

static void adjacency(void **state)
{
    struct graph *graph = graph_new();
    uint32_t a = node_new(graph, "a", NODE_SWITCH), b = node_new(graph, "b", NODE_SWITCH),
             c = node_new(graph, "c", NODE_SWITCH);
    link_new(graph, c, a, 1);
    link_new(graph, a, b, 1);
    link_new(graph, c, b, 1);
    link_new(graph, a, c, 1);
    link_new(graph, a, b, 1); /* a second link beside the first */
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    static const uint32_t first[] = {0, 3, 3, 5}, next[] = {1, 3, 4, 0, 2};
    for (size_t i = 0; i < COUNT_OF(first); i++)
        assert_int_equal(graph->out_first[i], first[i]);
    for (size_t i = 0; i < COUNT_OF(next); i++)
        assert_int_equal(graph->out_next[i], next[i]);
    graph_close(graph);
    graph = graph_new(); /* an empty graph */
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    assert_int_equal(graph->out_first[0], 0);
    graph_close(graph);
}

/* h0 - s - t - h1, s - h2, and t - s in one direction only. */
static struct graph *graph_small(void)
{
    struct graph *graph = graph_new();
    uint32_t h0 = node_new(graph, "h0", NODE_RANK), h1 = node_new(graph, "h1", NODE_RANK),
             h2 = node_new(graph, "h2", NODE_RANK), s = node_new(graph, "s", NODE_SWITCH),
             t = node_new(graph, "t", NODE_SWITCH);
    link_new(graph, h0, s, 1e9);
    link_new(graph, s, t, 1e9);
    link_new(graph, t, h1, 1e9);
    link_new(graph, s, h2, 1e9);
    link_new(graph, h2, s, 1e9);
    return graph;
}

static tryst_status route_try(struct graph *graph, uint32_t from, uint32_t to,
                              uint32_t count, const uint32_t *via, struct err *err)
{
    struct graph_route route = {from, to, count, via};
    return graph_route_add(graph, &route, err);
}

static void routes(void **state)
{
    static const uint32_t st[] = {3, 4}, ts[] = {4, 3}, s2s[] = {3, 2}, sts[] = {3, 3, 4},
                          none[] = {9};
    struct graph *graph = graph_small();
    REFUSED(route_try(graph, 0, 0, 0, NULL, &err), "joins two nodes");
    REFUSED(route_try(graph, 0, 9, 0, NULL, &err), "node 9");
    REFUSED(route_try(graph, 0, 3, 0, NULL, &err), "\"s\", which is not a rank");
    REFUSED(route_try(graph, 0, 1, 2, s2s, &err), "through the rank \"h2\"");
    REFUSED(route_try(graph, 0, 1, 1, none, &err), "node 9, which does not exist");
    assert_int_equal(route_try(graph, 0, 1, 2, st, NULL), TRYST_OK);
    assert_int_equal(graph->routes_count, 1);
    assert_int_equal(graph->routes[0].via[1], 4);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    graph_close(graph);

    graph = graph_small();
    assert_int_equal(route_try(graph, 0, 1, 2, st, NULL), TRYST_OK);
    assert_int_equal(route_try(graph, 2, 1, 2, st, NULL), TRYST_OK);
    assert_int_equal(route_try(graph, 0, 1, 2, st, NULL), TRYST_OK);
    REFUSED(graph_seal(graph, &err), "\"h0\" -> \"h1\" is given twice");
    assert_false(graph->sealed);
    graph_close(graph);

    graph = graph_small();
    assert_int_equal(route_try(graph, 0, 1, 2, ts, NULL), TRYST_OK);
    REFUSED(graph_seal(graph, &err), "from \"h0\" to \"t\", where no link exists");
    graph_close(graph);

    graph = graph_small();
    assert_int_equal(route_try(graph, 0, 1, 3, sts, NULL), TRYST_OK);
    REFUSED(graph_seal(graph, &err), "passes \"s\" twice");
    graph_close(graph);
}

static void equality(void **state)
{
    static const uint32_t st[] = {3, 4}, s[] = {3};
    struct graph *a = graph_small(), *b = graph_small();
    assert_true(graph_equal(a, b));
    b->links[1].down = true;
    assert_false(graph_equal(a, b));
    b->links[1].down = false;
    b->links[4].latency_ns.value = 5;
    assert_false(graph_equal(a, b));
    b->links[4].latency_ns.value = GRAPH_UNKNOWN;
    b->links[0].bytes_per_s.origin = ORIGIN_MEASURED;
    assert_false(graph_equal(a, b));
    b->links[0].bytes_per_s.origin = ORIGIN_IMPORTED;
    b->nodes[2].os_index = 0;
    assert_false(graph_equal(a, b));
    b->nodes[2].os_index = GRAPH_NONE;
    assert_true(graph_equal(a, b));
    assert_int_equal(route_try(a, 0, 1, 2, st, NULL), TRYST_OK);
    assert_false(graph_equal(a, b));
    assert_int_equal(route_try(b, 0, 1, 1, s, NULL), TRYST_OK);
    assert_false(graph_equal(a, b));
    graph_close(a);
    graph_close(b);
}

static void words(void **state)
{
    for (int i = 0; i < NODE_KINDS; i++)
        assert_true(strlen(graph_node_kind_name(i)) > 2);
    for (int i = 0; i < WIRE_KINDS; i++)
        assert_true(strlen(graph_link_kind_name(i)) > 2);
    for (int i = 0; i < ORIGINS; i++)
        assert_true(strlen(graph_origin_name(i)) > 2);
    assert_string_equal(graph_link_kind_name(WIRE_NVLINK), "nvlink");
}

/* Twenty nodes make every array grow. */
static tryst_status build(void)
{
    struct graph *graph;
    struct graph_node node = plain;
    uint32_t via = 1;
    char name[32];
    tryst_status status = graph_open(&graph);
    if (status != TRYST_OK)
        return status;
    node.label = node.pci = node.cpus = "x";
    for (uint32_t i = 0; i < 20 && status == TRYST_OK; i++) {
        snprintf(name, sizeof name, "n%u", i);
        node.name = name;
        node.kind = i == 1 ? NODE_SWITCH : NODE_RANK;
        status = graph_node_add(graph, &node, NULL, NULL);
    }
    for (uint32_t i = 0; i < 20 && status == TRYST_OK; i++) {
        struct graph_link link = link_of(i, 1, 1e9);
        status = i == 1 ? TRYST_OK : graph_wire_add(graph, &link, NULL);
    }
    for (uint32_t i = 2; i < 20 && status == TRYST_OK; i++)
        status = route_try(graph, 0, i, 1, &via, NULL);
    if (status == TRYST_OK)
        status = graph_seal(graph, NULL);
    graph_close(graph);
    return status;
}

static void no_memory(void **state)
{
    WALK_ALLOCATIONS(build());
}

/* The word of a path over NVLinks has the least width of them; none if one of the widths
 * is unknown. */
static void nvlink_width(void **state)
{
    static const struct {
        uint16_t widths[3];
        const char *word;
    } table[] = {{{4, 4, 4}, "NV4"}, {{4, 2, 3}, "NV2"}, {{0, 4, 4}, "NV"},
                 {{4, 0, 4}, "NV"},  {{4, 4, 0}, "NV"},  {{0, 0, 0}, "NV"}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct graph *graph = graph_new();
        struct graph_path paths[4];
        char name[] = "n0", word[8];
        for (int node = 0; node < 4; node++, name[1]++)
            (void)node_new(graph, name, node % 3 ? NODE_NV_SWITCH : NODE_GPU);
        for (uint32_t hop = 0; hop < 3; hop++) {
            struct graph_link link = link_of(hop, hop + 1, 25e9);
            link.kind = WIRE_NVLINK;
            link.width = table[i].widths[hop];
            assert_int_equal(graph_link_add(graph, &link, NULL, NULL), TRYST_OK);
        }
        assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
        assert_int_equal(graph_path_find(graph, 0, paths), TRYST_OK);
        assert_string_equal(graph_path_word(&paths[3], word), table[i].word);
        graph_close(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes),        cmocka_unit_test(names_by_the_thousand),
        cmocka_unit_test(links),        cmocka_unit_test(adjacency),
        cmocka_unit_test(routes),       cmocka_unit_test(equality),
        cmocka_unit_test(words),        cmocka_unit_test(no_memory),
        cmocka_unit_test(nvlink_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
