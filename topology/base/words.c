/* SPDX-License-Identifier: Apache-2.0 */
/* See words.h. */
#include "words.h"

#include <math.h>

#include <string.h>

void words_rate(struct text *text, double bytes_per_s)
{
    double gigabytes = bytes_per_s / 1e9;
    if (bytes_per_s == GRAPH_UNKNOWN)
        text_add(text, "?");
    else if (bytes_per_s == GRAPH_UNLIMITED)
        text_add(text, "unlimited");
    else if (gigabytes < 0.995)
        text_add_number(text, floor(gigabytes * 1e4 + 0.5) / 1e4);
    else
        text_addf(text, "%.*f",
                  gigabytes >= 99.95   ? 0
                  : gigabytes >= 9.995 ? 1
                                       : 2,
                  gigabytes);
}

/* "PCIe Gen5 x16", "NVLink 4 x18"; "" for an attachment. */
static void link_kind(struct text *text, const struct graph_link *link)
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
    text_add(text, names[link->kind]);
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
    text_addf(text, "%.*f ns", ns < 9.95 && ns != 0 ? 1 : 0, ns);
}

void words_link(struct text *text, const struct graph_link *link,
                const struct graph_link *back)
{
    link_kind(text, link);
    if (link->kind == WIRE_ATTACH && link->bytes_per_s.value == GRAPH_UNLIMITED)
        return;
    text_add(text, link->kind == WIRE_ATTACH ? "" : " ");
    words_rate(text, link->bytes_per_s.value);
    if (back && back->bytes_per_s.value != link->bytes_per_s.value) {
        text_add(text, " out, ");
        words_rate(text, back->bytes_per_s.value);
        text_add(text, " in");
    }
    if (link->bytes_per_s.value != GRAPH_UNLIMITED)
        text_add(text, " GB/s");
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

const char *words_short(const struct graph *graph, uint32_t node)
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

const char *words_node_kind(enum graph_node_kind kind)
{
    static const char *const names[NODE_KINDS] = {[NODE_MACHINE] = "machine",
                                                  [NODE_PACKAGE] = "package",
                                                  [NODE_NUMA] = "NUMA node",
                                                  [NODE_HOST_BRIDGE] = "host bridge",
                                                  [NODE_PCI_SWITCH] = "PCIe switch",
                                                  [NODE_GPU] = "GPU",
                                                  [NODE_NIC] = "NIC",
                                                  [NODE_SWITCH] = "network switch",
                                                  [NODE_NV_SWITCH] = "NVLink switch",
                                                  [NODE_RANK] = "rank"};
    return kind < NODE_KINDS ? names[kind] : "?";
}
