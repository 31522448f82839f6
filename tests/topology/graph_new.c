/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_new.h"

#include <stdio.h>

#include "support/unit.h"

#define LATENCY_NS 10

uint32_t node_new(struct graph *graph, const char *name, enum graph_node_kind kind)
{
    struct graph_node node = {
        .name = name, .kind = kind, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    uint32_t number;
    assert_int_equal(graph_node_add(graph, &node, NULL, &number), TRYST_OK);
    return number;
}

static void link_late_new(struct graph *graph, uint32_t from, uint32_t to,
                          double bytes_per_s, double latency_ns)
{
    struct graph_link link = {.from = from,
                              .to = to,
                              .bytes_per_s = {bytes_per_s, ORIGIN_IMPORTED},
                              .latency_ns = {latency_ns, ORIGIN_IMPORTED}};
    assert_int_equal(graph_link_add(graph, &link, NULL, NULL), TRYST_OK);
}

void link_new(struct graph *graph, uint32_t from, uint32_t to, double bytes_per_s)
{
    link_late_new(graph, from, to, bytes_per_s, LATENCY_NS);
}

void wire_late_new(struct graph *graph, uint32_t a, uint32_t b, double bytes_per_s,
                   double latency_ns)
{
    link_late_new(graph, a, b, bytes_per_s, latency_ns);
    link_late_new(graph, b, a, bytes_per_s, latency_ns);
}

void wire_new(struct graph *graph, uint32_t a, uint32_t b, double bytes_per_s)
{
    wire_late_new(graph, a, b, bytes_per_s, LATENCY_NS);
}

struct graph *graph_new(uint32_t ranks, uint32_t inner)
{
    struct graph *graph;
    char name[16];
    assert_int_equal(graph_open(&graph), TRYST_OK);
    for (uint32_t i = 0; i < ranks + inner; i++) {
        snprintf(name, sizeof name, "%c%u", i < ranks ? 'h' : 's',
                 i < ranks ? i : i - ranks);
        (void)node_new(graph, name, i < ranks ? NODE_RANK : NODE_SWITCH);
    }
    return graph;
}

struct overlay *overlay_new(struct graph *graph)
{
    struct err err = ERR_INIT;
    struct overlay *overlay;
    if (!graph->sealed)
        assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    if (overlay_open(graph, NULL, 0, &err, &overlay) != TRYST_OK)
        fail_msg("%s", err.text);
    return overlay;
}
