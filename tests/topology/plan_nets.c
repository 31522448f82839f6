/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_nets.h"

#include <stdio.h>

#include "support/unit.h"

const char *const net_names[NET_FAMILIES] = {"star",     "two racks", "ring",
                                             "line",     "torus",     "mesh",
                                             "fat tree", "dragonfly", "random"};

struct net {
    struct graph *graph;
    struct random *random;
    bool one_way; /* rates vary by direction */
    uint32_t count[2];
};

static uint32_t node(struct net *net, enum graph_node_kind kind)
{
    struct err err = ERR_INIT;
    char name[32];
    uint32_t number;
    bool rank = kind == NODE_RANK;
    snprintf(name, sizeof name, "%s%u", rank ? "h" : "sw", net->count[rank]++);
    struct graph_node made = {
        .name = name, .kind = kind, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    assert_int_equal(graph_node_add(net->graph, &made, &err, &number), TRYST_OK);
    return number;
}

static double rate(struct net *net, double gbytes_per_s)
{
    if (net->random)
        gbytes_per_s *= (double)(4 + random_range(net->random, 13)) / 8;
    return gbytes_per_s * 1e9;
}

static void wire(struct net *net, uint32_t a, uint32_t b, double gbytes_per_s)
{
    struct err err = ERR_INIT;
    uint32_t number;
    struct graph_link link = {.from = a,
                              .to = b,
                              .kind = WIRE_ETHERNET,
                              .bytes_per_s = {rate(net, gbytes_per_s), ORIGIN_IMPORTED},
                              .latency_ns = {1000, ORIGIN_IMPORTED}};
    assert_int_equal(graph_link_add(net->graph, &link, &err, &number), TRYST_OK);
    link.from = b;
    link.to = a;
    if (net->one_way)
        link.bytes_per_s.value = rate(net, gbytes_per_s);
    assert_int_equal(graph_link_add(net->graph, &link, &err, &number), TRYST_OK);
}

static void net_star(struct net *net, uint32_t n)
{
    uint32_t hub = node(net, NODE_SWITCH);
    for (uint32_t i = 0; i < n; i++)
        wire(net, node(net, NODE_RANK), hub, 1);
}

static void net_racks(struct net *net, uint32_t n)
{
    uint32_t rack[2] = {node(net, NODE_SWITCH), node(net, NODE_SWITCH)};
    for (uint32_t i = 0; i < n; i++)
        wire(net, node(net, NODE_RANK), rack[i % 2], 1);
    wire(net, rack[0], rack[1], 0.4);
}

static void net_ring(struct net *net, uint32_t n, bool closed)
{
    for (uint32_t i = 0; i < n; i++)
        node(net, NODE_RANK);
    for (uint32_t i = 0; i + 1 < n; i++)
        wire(net, i, i + 1, 1);
    if (closed && n > 2)
        wire(net, n - 1, 0, 1);
}

static void net_torus(struct net *net, uint32_t n)
{
    uint32_t side = 1;
    while ((side + 1) * (side + 1) <= n)
        side++;
    uint32_t rows = n / side;
    for (uint32_t i = 0; i < rows * side; i++)
        node(net, NODE_RANK);
    for (uint32_t i = 0; i < rows * side; i++) {
        if (side > 1 && (side > 2 || i % side == 0))
            wire(net, i, i / side * side + (i + 1) % side, 1);
        if (rows > 1 && (rows > 2 || i < side))
            wire(net, i, (i + side) % (rows * side), 1);
    }
}

static void net_mesh(struct net *net, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        node(net, NODE_RANK);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            wire(net, i, j, 1);
}

/* Leaves of up to 32 hosts, with so many spines that a leaf's uplinks carry half of its
 * hosts' rate. */
static void net_fat_tree(struct net *net, uint32_t n)
{
    uint32_t per_leaf = n >= 256 ? 32 : n >= 16 ? 8 : 2, spines = per_leaf / 2;
    uint32_t first = net->graph->nodes_count;
    for (uint32_t i = 0; i < spines; i++)
        node(net, NODE_SWITCH);
    for (uint32_t i = 0, leaf = 0; i < n; i++) {
        if (i % per_leaf == 0) {
            leaf = node(net, NODE_SWITCH);
            for (uint32_t k = 0; k < spines; k++)
                wire(net, leaf, first + k, 1);
        }
        wire(net, node(net, NODE_RANK), leaf, 1);
    }
}

static void net_dragonfly(struct net *net, uint32_t n)
{
    uint32_t per_switch = n >= 256 ? 8 : 2, per_group = n >= 256 ? 8 : 4;
    uint32_t switches = (n + per_switch - 1) / per_switch;
    uint32_t groups = (switches + per_group - 1) / per_group;
    uint32_t first = net->graph->nodes_count;
    for (uint32_t i = 0; i < switches; i++)
        node(net, NODE_SWITCH);
    for (uint32_t i = 0; i < switches; i++)
        for (uint32_t j = i - i % per_group; j < i; j++)
            wire(net, first + i, first + j, 2);
    for (uint32_t a = 0; a < groups; a++)
        for (uint32_t b = 0; b < a; b++) {
            uint32_t from = a * per_group + b % per_group;
            uint32_t to = b * per_group + a % per_group;
            wire(net, first + (from < switches ? from : switches - 1), first + to, 2);
        }
    for (uint32_t i = 0; i < n; i++)
        wire(net, node(net, NODE_RANK), first + i / per_switch, 1);
}

static void net_random(struct net *net, uint32_t n)
{
    struct random fixed, *random = net->random;
    uint32_t switches = 1 + n / 4, first = net->graph->nodes_count;
    if (!random) {
        random_seed(&fixed, n);
        random = &fixed;
    }
    for (uint32_t i = 0; i < switches; i++) {
        node(net, NODE_SWITCH);
        if (i > 0)
            wire(net, first + i, first + (uint32_t)random_range(random, i), 2);
    }
    for (uint32_t i = 0; i < switches / 2; i++) {
        uint32_t a = (uint32_t)random_range(random, switches);
        uint32_t b = (uint32_t)random_range(random, switches);
        if (a != b)
            wire(net, first + a, first + b, 2);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = node(net, NODE_RANK);
        uint32_t at = (uint32_t)random_range(random, switches);
        wire(net, rank, first + at, 1);
        if (switches > 1 && random_range(random, 2))
            wire(net, rank, first + (at + 1) % switches, 1);
    }
}

struct graph *net_open(enum net_family family, uint32_t n, struct random *random)
{
    struct err err = ERR_INIT;
    struct net net = {.random = random};
    net.one_way = random && random_range(random, 2);
    assert_int_equal(graph_open(&net.graph), TRYST_OK);
    switch (family) {
    case NET_STAR: net_star(&net, n); break;
    case NET_RACKS: net_racks(&net, n); break;
    case NET_RING: net_ring(&net, n, true); break;
    case NET_LINE: net_ring(&net, n, false); break;
    case NET_TORUS: net_torus(&net, n); break;
    case NET_MESH: net_mesh(&net, n); break;
    case NET_FAT_TREE: net_fat_tree(&net, n); break;
    case NET_DRAGONFLY: net_dragonfly(&net, n); break;
    default: net_random(&net, n); break;
    }
    assert_int_equal(graph_seal(net.graph, &err), TRYST_OK);
    return net.graph;
}
