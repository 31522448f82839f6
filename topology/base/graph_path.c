/* SPDX-License-Identifier: Apache-2.0 */
/* See graph_path.h. Breadth-first search; of two paths of equal length the wider wins; of
 * two of equal width the one found first. */
#include "graph_path.h"

#include <stdio.h>

#include "core/memory/alloc.h"

static bool bit_has(uint32_t bits, enum graph_link_kind kind)
{
    return bits >> kind & 1;
}

/* Return the narrower of two bandwidths; GRAPH_UNKNOWN where one of them is unknown. */
static double narrower(double a, double b)
{
    if (a == GRAPH_UNKNOWN || b == GRAPH_UNKNOWN)
        return GRAPH_UNKNOWN;
    return a < b ? a : b;
}

static struct graph_path path_extend(const struct graph *graph,
                                     const struct graph_path *path, uint32_t number)
{
    const struct graph_link *link = &graph->links[number];
    enum graph_node_kind through = graph->nodes[link->from].kind;
    struct graph_path longer = *path;
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
    bool first = !bit_has(path->kinds, WIRE_NVLINK);
    if (link->kind == WIRE_NVLINK && (first || link->width < path->width))
        longer.width = link->width;
    return longer;
}

static void links_follow(const struct graph *graph, uint32_t from,
                         struct graph_path *paths, uint32_t *queue, uint32_t *tail)
{
    for (uint32_t i = graph->out_first[from]; i < graph->out_first[from + 1]; i++) {
        uint32_t number = graph->out_next[i];
        const struct graph_link *link = &graph->links[number];
        if (link->down)
            continue;
        struct graph_path *known = &paths[link->to];
        struct graph_path found = path_extend(graph, &paths[from], number);
        if (known->hops == GRAPH_NONE)
            queue[(*tail)++] = link->to;
        if (known->hops == GRAPH_NONE ||
            (known->hops == found.hops && known->bytes_per_s < found.bytes_per_s))
            *known = found;
    }
}

/* True if a path may continue through a node of `kind`. */
static bool passes(enum graph_node_kind kind, bool direct)
{
    bool ends = kind == NODE_GPU || kind == NODE_NIC || kind == NODE_SWITCH;
    return kind != NODE_RANK && !(direct && ends);
}

static tryst_status paths_fill(const struct graph *graph, uint32_t from, bool direct,
                               struct graph_path *paths)
{
    uint32_t *queue = mem_zalloc_array(graph->nodes_count + 1, sizeof *queue);
    if (!queue)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        paths[i] = (struct graph_path){.hops = GRAPH_NONE, .last_link = GRAPH_NONE};
    paths[from] =
        (struct graph_path){.last_link = GRAPH_NONE, .bytes_per_s = GRAPH_UNLIMITED};
    uint32_t tail = 0;
    queue[tail++] = from;
    for (uint32_t head = 0; head < tail; head++)
        if (head == 0 || passes(graph->nodes[queue[head]].kind, direct))
            links_follow(graph, queue[head], paths, queue, &tail);
    mem_free(queue);
    return TRYST_OK;
}

tryst_status graph_path_find(const struct graph *graph, uint32_t from,
                             struct graph_path *paths)
{
    return paths_fill(graph, from, false, paths);
}

tryst_status graph_path_find_direct(const struct graph *graph, uint32_t from,
                                    struct graph_path *paths)
{
    return paths_fill(graph, from, true, paths);
}

enum path_kind graph_path_kind(const struct graph_path *path)
{
    uint32_t kinds = path->kinds;
    if (path->hops == GRAPH_NONE)
        return PATH_NONE;
    if (bit_has(kinds, WIRE_ETHERNET) || bit_has(kinds, WIRE_INFINIBAND) ||
        bit_has(kinds, WIRE_UNKNOWN)) /* files of clusters and probes give no kinds */
        return PATH_NET;
    if (bit_has(kinds, WIRE_UPI))
        return PATH_SYS;
    if (bit_has(kinds, WIRE_NVLINK) && bit_has(kinds, WIRE_PCI))
        return PATH_PXN;
    if (bit_has(kinds, WIRE_C2C))
        return PATH_C2C;
    if (bit_has(kinds, WIRE_NVLINK))
        return PATH_NVLINK;
    if (!bit_has(kinds, WIRE_PCI))
        return bit_has(kinds, WIRE_MEMORY) ? PATH_NODE : PATH_LOC;
    return path->host_bridges > 1    ? PATH_NODE
           : path->host_bridges == 1 ? PATH_PHB
           : path->pci_switches > 1  ? PATH_PXB
                                     : PATH_PIX;
}

const char *graph_path_word(const struct graph_path *path, char word_p[8])
{
    static const char *const words[] = {
        [PATH_NONE] = "-",    [PATH_NET] = "NET",   [PATH_SYS] = "SYS",
        [PATH_NODE] = "NODE", [PATH_PHB] = "PHB",   [PATH_PXN] = "PXN",
        [PATH_PXB] = "PXB",   [PATH_PIX] = "PIX",   [PATH_C2C] = "C2C",
        [PATH_LOC] = "LOC",   [PATH_NVLINK] = "NV",
    };
    enum path_kind kind = graph_path_kind(path);
    if (kind == PATH_NVLINK && path->width)
        snprintf(word_p, 8, "NV%u", path->width);
    else
        snprintf(word_p, 8, "%s", words[kind]);
    return word_p;
}
