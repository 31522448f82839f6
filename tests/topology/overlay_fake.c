/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay_fake.h"

#include <stdlib.h>
#include <string.h>

#include "support/unit.h"
#include "topology/routes/overlay_price.h"

struct part {
    uint32_t link;
    double share;
};

struct overlay_private {
    struct graph graph;
    uint32_t *numbers;
    double *capacity;
    uint32_t *first; /* by pair: the index of its first part */
    struct part *parts;
    uint32_t parts_count, parts_room;
};

/* Count the hops from `start` to each node and the number of shortest ways; with
 * `backward`, the ways to `start`. */
static void ways(uint32_t ranks, uint32_t nodes, const struct graph *graph,
                 uint32_t start, bool backward, uint32_t *hops, double *count)
{
    uint32_t *queue = test_malloc(nodes * sizeof *queue), head = 0, tail = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        hops[i] = UINT32_MAX;
        count[i] = 0;
    }
    hops[start] = 0;
    count[start] = 1;
    queue[tail++] = start;
    while (head < tail) {
        uint32_t at = queue[head++];
        if (at != start && at < ranks)
            continue;
        for (uint32_t l = 0; l < graph->links_count; l++) {
            uint32_t a = graph->links[l].from, b = graph->links[l].to;
            uint32_t here = backward ? b : a, next = backward ? a : b;
            if (here != at)
                continue;
            if (hops[next] == UINT32_MAX) {
                hops[next] = hops[at] + 1;
                queue[tail++] = next;
            }
            if (hops[next] == hops[at] + 1)
                count[next] += count[at];
        }
    }
    test_free(queue);
}

static void part_add(struct overlay_private *own, uint32_t link, double share)
{
    if (own->parts_count == own->parts_room) {
        own->parts_room = 2 * own->parts_room + 1024;
        own->parts = realloc(own->parts, own->parts_room * sizeof *own->parts);
        assert_non_null(own->parts);
    }
    own->parts[own->parts_count++] = (struct part){link, share};
}

static void routes_list(struct overlay_private *own, uint32_t ranks, uint32_t nodes)
{
    uint32_t *hops = test_calloc(2 * nodes, sizeof *hops);
    double *count = test_calloc(2 * nodes, sizeof *count);
    for (uint32_t i = 0; i < ranks; i++) {
        ways(ranks, nodes, &own->graph, i, false, hops, count);
        for (uint32_t j = 0; j < ranks; j++) {
            own->first[i * ranks + j] = own->parts_count;
            if (i == j || hops[j] == UINT32_MAX)
                continue;
            ways(ranks, nodes, &own->graph, j, true, hops + nodes, count + nodes);
            for (uint32_t l = 0; l < own->graph.links_count; l++) {
                uint32_t a = own->graph.links[l].from, b = own->graph.links[l].to;
                if ((a >= ranks || a == i) && (b >= ranks || b == j) &&
                    hops[a] != UINT32_MAX && hops[nodes + b] != UINT32_MAX &&
                    hops[a] + 1 + hops[nodes + b] == hops[j])
                    part_add(own, l, count[a] * count[nodes + b] / count[j]);
            }
        }
    }
    own->first[ranks * ranks] = own->parts_count;
    test_free(hops);
    test_free(count);
}

struct overlay *fake_open(uint32_t ranks, uint32_t nodes, const struct fake_link *links,
                          uint32_t links_count)
{
    struct overlay *overlay = test_calloc(1, sizeof *overlay);
    struct overlay_private *own = test_calloc(1, sizeof *own);
    own->graph.links = test_calloc(links_count + 1, sizeof *own->graph.links);
    own->graph.links_count = links_count;
    own->graph.nodes = test_calloc(nodes, sizeof *own->graph.nodes);
    own->graph.nodes_count = nodes;
    for (uint32_t i = 0; i < nodes; i++)
        own->graph.nodes[i].kind = i < ranks ? NODE_RANK : NODE_SWITCH;
    own->numbers = test_calloc(links_count + 1, sizeof *own->numbers);
    own->capacity = test_calloc(links_count + 1, sizeof *own->capacity);
    own->first = test_calloc((size_t)ranks * ranks + 1, sizeof *own->first);
    for (uint32_t i = 0; i < links_count; i++) {
        own->graph.links[i].from = links[i].from;
        own->graph.links[i].to = links[i].to;
        own->numbers[i] = i;
        own->capacity[i] = links[i].bytes_per_s;
    }
    routes_list(own, ranks, nodes);
    overlay->graph = &own->graph;
    overlay->ranks_count = ranks;
    overlay->links_count = links_count;
    overlay->links = own->numbers;
    overlay->capacity = own->capacity;
    overlay->own = own;
    return overlay;
}

void fake_close(struct overlay *overlay)
{
    struct overlay_private *own = overlay->own;
    test_free(own->graph.links);
    test_free(own->graph.nodes);
    test_free(own->numbers);
    test_free(own->capacity);
    test_free(own->first);
    free(own->parts);
    test_free(own);
    test_free(overlay);
}

void overlay_costs(struct overlay *overlay, const double *price, double *cost)
{
    const struct overlay_private *own = overlay->own;
    uint32_t n = overlay->ranks_count;
    for (uint32_t pair = 0; pair < n * n; pair++) {
        cost[pair] = own->first[pair] == own->first[pair + 1] ? INFINITY : 0;
        for (uint32_t k = own->first[pair]; k < own->first[pair + 1]; k++)
            cost[pair] += price[own->parts[k].link] * own->parts[k].share;
        if (pair / n == pair % n)
            cost[pair] = 0;
    }
}

void overlay_load(struct overlay *overlay, uint32_t i, uint32_t j, double amount,
                  double *load)
{
    const struct overlay_private *own = overlay->own;
    uint32_t pair = i * overlay->ranks_count + j;
    for (uint32_t k = own->first[pair]; k < own->first[pair + 1]; k++)
        load[own->parts[k].link] += amount * own->parts[k].share;
}
