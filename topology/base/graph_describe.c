/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_describe.h"

#include <math.h>

#include <string.h>

void describe_rate(struct text *text, double bytes_per_s)
{
    double gbit = bytes_per_s * 8e-9;
    if (bytes_per_s == GRAPH_UNKNOWN)
        text_add(text, "?");
    else if (bytes_per_s == GRAPH_UNLIMITED)
        text_add(text, "unlimited");
    else if (gbit < 0.995)
        text_add_number(text, floor(gbit * 1e4 + 0.5) / 1e4);
    else
        text_addf(text, "%.*f", gbit >= 99.95 ? 0 : gbit >= 9.995 ? 1 : 2, gbit);
}

static const char *link_kind_title(enum graph_link_kind kind)
{
    static const char *const names[WIRE_KINDS] = {[WIRE_UNKNOWN] = "link",
                                                  [WIRE_ATTACH] = "",
                                                  [WIRE_MEMORY] = "memory",
                                                  [WIRE_UPI] = "UPI",
                                                  [WIRE_PCI] = "PCIe",
                                                  [WIRE_NVLINK] = "NVLink",
                                                  [WIRE_C2C] = "C2C",
                                                  [WIRE_ETHERNET] = "Ethernet",
                                                  [WIRE_INFINIBAND] = "InfiniBand"};
    return names[kind];
}

/* Append "PCIe Gen5 x16", "NVLink 4 x18"; nothing for an attachment. */
static void link_kind(struct text *text, const struct graph_link *link)
{
    text_add(text, link_kind_title(link->kind));
    if (link->generation)
        text_addf(text, link->kind == WIRE_PCI ? " Gen%u" : " %u",
                  (unsigned)link->generation);
    if (link->width)
        text_addf(text, " x%u", (unsigned)link->width);
}

static void number_origin(struct text *text, const struct graph_number *number)
{
    if (number->origin != ORIGIN_NONE && number->value != GRAPH_UNKNOWN)
        text_addf(text, " (%s)", graph_origin_name(number->origin));
}

static void latency_words(struct text *text, double ns)
{
    text_addf(text, "%.4g us", ns * 1e-3);
}

void describe_link(struct text *text, const struct graph_link *link,
                   const struct graph_link *back)
{
    link_kind(text, link);
    if (link->kind == WIRE_ATTACH && link->bytes_per_s.value == GRAPH_UNLIMITED)
        return;
    text_add(text, link->kind == WIRE_ATTACH ? "" : " ");
    describe_rate(text, link->bytes_per_s.value);
    if (back && back->bytes_per_s.value != link->bytes_per_s.value) {
        text_add(text, " out, ");
        describe_rate(text, back->bytes_per_s.value);
        text_add(text, " in");
    }
    if (link->bytes_per_s.value != GRAPH_UNLIMITED)
        text_add(text, " Gbit/s");
    number_origin(text, &link->bytes_per_s);
    if (link->latency_ns.value != GRAPH_UNKNOWN) {
        text_add(text, ", ");
        latency_words(text, link->latency_ns.value);
        number_origin(text, &link->latency_ns);
    }
    if (link->down)
        text_add(text, ", down");
    else if (!back)
        text_add(text, ", one way");
}

const char *node_short_name(const struct graph *graph, uint32_t node)
{
    const char *name = graph->nodes[node].name;
    uint32_t top = graph_machine(graph, graph->nodes[node].parent);
    if (top == GRAPH_NONE)
        return name;
    size_t length = strlen(graph->nodes[top].name);
    bool prefixed = strncmp(name, graph->nodes[top].name, length) == 0 &&
                    name[length] == '/' && name[length + 1];
    return prefixed ? name + length + 1 : name;
}

static const char *const node_kinds[NODE_KINDS][2] = {
    [NODE_MACHINE] = {"machine", "machines"},
    [NODE_PACKAGE] = {"package", "packages"},
    [NODE_NUMA] = {"NUMA node", "NUMA nodes"},
    [NODE_HOST_BRIDGE] = {"host bridge", "host bridges"},
    [NODE_PCI_SWITCH] = {"PCIe switch", "PCIe switches"},
    [NODE_GPU] = {"GPU", "GPUs"},
    [NODE_NIC] = {"NIC", "NICs"},
    [NODE_SWITCH] = {"network switch", "network switches"},
    [NODE_NV_SWITCH] = {"NVLink switch", "NVLink switches"},
    [NODE_RANK] = {"rank", "ranks"}};

const char *node_kind_title(enum graph_node_kind kind)
{
    return kind < NODE_KINDS ? node_kinds[kind][0] : "?";
}

void describe_counts(struct text *text, const struct graph *graph, uint32_t kinds)
{
    uint32_t counts[NODE_KINDS] = {0};
    const char *before = "";
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        counts[graph->nodes[i].kind]++;
    for (int kind = 0; kind < NODE_KINDS; kind++) {
        if (!counts[kind] || !(kinds >> kind & 1))
            continue;
        text_addf(text, "%s%u %s", before, counts[kind],
                  node_kinds[kind][counts[kind] != 1]);
        before = ", ";
    }
}

void describe_skips(struct text *text, const struct graph *graph, uint32_t most)
{
    uint32_t count = graph->skips_count;
    if (!count)
        return;
    text_addf(text, "\nskipped (%u), since they have no place in the graph:\n", count);
    for (uint32_t i = 0; i < count && i < most; i++)
        text_addf(text, "  %s: %s\n", graph->skips[i].what, graph->skips[i].why);
    if (count > most)
        text_addf(text, "  and %u more: --format json has all\n", count - most);
}
