/* SPDX-License-Identifier: Apache-2.0 */
/* See path.h. Breadth first; of two ways of one length the wider wins, of two as wide the one found first. */
#include "path.h"

#include <stdio.h>

#include "core/alloc.h"

static bool bit_has(uint32_t bits, enum graph_link_kind kind)
{
    return bits >> kind & 1;
}

/* The narrower of two, where an unknown one makes the whole unknown. */
static double narrower(double a, double b)
{
    if (a == GRAPH_UNKNOWN || b == GRAPH_UNKNOWN)
        return GRAPH_UNKNOWN;
    return a < b ? a : b;
}

static struct path path_extend(const struct graph *graph, const struct path *path,
                               uint32_t number)
{
    const struct graph_link *link = &graph->links[number];
    enum graph_node_kind through = graph->nodes[link->from].kind;
    struct path longer = *path;
    double latency_ns = link->latency_ns.value;
    if (latency_ns == GRAPH_UNKNOWN && link->kind == WIRE_ATTACH)
        latency_ns = 0;
    longer.hops++;
    longer.last_link = number;
    longer.bytes_per_s = narrower(path->bytes_per_s, link->bytes_per_s.value);
    longer.latency_ns = path->latency_ns == GRAPH_UNKNOWN || latency_ns == GRAPH_UNKNOWN
                            ? GRAPH_UNKNOWN
                            : path->latency_ns + latency_ns;
    longer.kinds |= 1u << link->kind;
    longer.pci_switches += path->hops && through == NODE_PCI_SWITCH;
    longer.host_bridges +=
        path->hops && (through == NODE_HOST_BRIDGE || through == NODE_PACKAGE);
    if (link->kind == WIRE_NVLINK && (!path->width || link->width < path->width))
        longer.width = link->width;
    return longer;
}

static void links_follow(const struct graph *graph, uint32_t from, struct path *paths,
                         uint32_t *queue, uint32_t *tail)
{
    for (uint32_t i = graph->out_first[from]; i < graph->out_first[from + 1]; i++) {
        uint32_t number = graph->out_next[i];
        const struct graph_link *link = &graph->links[number];
        if (link->down)
            continue;
        struct path *known = &paths[link->to];
        struct path found = path_extend(graph, &paths[from], number);
        if (known->hops == GRAPH_NONE)
            queue[(*tail)++] = link->to;
        if (known->hops == GRAPH_NONE ||
            (known->hops == found.hops && known->bytes_per_s < found.bytes_per_s))
            *known = found;
    }
}

tryst_status path_find(const struct graph *graph, uint32_t from, struct path *paths)
{
    uint32_t *queue = mem_zalloc_array(graph->nodes_count + 1, sizeof *queue);
    if (!queue)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        paths[i] = (struct path){.hops = GRAPH_NONE, .last_link = GRAPH_NONE};
    paths[from] = (struct path){.last_link = GRAPH_NONE, .bytes_per_s = GRAPH_UNLIMITED};
    uint32_t tail = 0;
    queue[tail++] = from;
    for (uint32_t head = 0; head < tail; head++)
        if (head == 0 || graph->nodes[queue[head]].kind != NODE_RANK)
            links_follow(graph, queue[head], paths, queue, &tail);
    mem_free(queue);
    return TRYST_OK;
}

const char *path_word(const struct path *path, char word_p[8])
{
    uint32_t kinds = path->kinds;
    const char *word;
    if (path->hops == GRAPH_NONE)
        word = "-";
    else if (bit_has(kinds, WIRE_ETHERNET) || bit_has(kinds, WIRE_INFINIBAND))
        word = "NET";
    else if (bit_has(kinds, WIRE_UPI))
        word = "SYS";
    else if (bit_has(kinds, WIRE_NVLINK) && bit_has(kinds, WIRE_PCI))
        word = "PXN";
    else if (bit_has(kinds, WIRE_C2C))
        word = "C2C";
    else if (bit_has(kinds, WIRE_NVLINK))
        word = "NV";
    else if (!bit_has(kinds, WIRE_PCI))
        word = bit_has(kinds, WIRE_MEMORY) ? "NODE" : "LOC";
    else
        word = path->host_bridges > 1    ? "NODE"
               : path->host_bridges == 1 ? "PHB"
               : path->pci_switches > 1  ? "PXB"
                                         : "PIX";
    if (word[0] == 'N' && word[1] == 'V' && path->width)
        snprintf(word_p, 8, "NV%u", path->width);
    else
        snprintf(word_p, 8, "%s", word);
    return word_p;
}
