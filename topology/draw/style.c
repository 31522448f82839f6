/* SPDX-License-Identifier: Apache-2.0 */
#include "style.h"

#include <math.h>

const char *style_node_fill(enum graph_node_kind kind)
{
    static const char *const fills[NODE_KINDS] = {
        [NODE_MACHINE] = "#ffffff",    [NODE_PACKAGE] = "#f3f4f6",
        [NODE_NUMA] = "#e3edf7",       [NODE_HOST_BRIDGE] = "#eceff1",
        [NODE_PCI_SWITCH] = "#e4e7ea", [NODE_GPU] = "#d5efe3",
        [NODE_NIC] = "#fdeccb",        [NODE_SWITCH] = "#f9e0d2",
        [NODE_NV_SWITCH] = "#c3e6d6",  [NODE_RANK] = "#ffffff"};
    return kind < NODE_KINDS ? fills[kind] : "#ffffff";
}

const char *style_link_colour(enum graph_link_kind kind)
{
    static const char *const colours[WIRE_KINDS] = {
        [WIRE_UNKNOWN] = "#8a8f98",   [WIRE_ATTACH] = "#c4c8ce",
        [WIRE_MEMORY] = "#56b4e9",    [WIRE_UPI] = "#0072b2",
        [WIRE_PCI] = "#6b7280",       [WIRE_NVLINK] = "#009e73",
        [WIRE_C2C] = "#8fbc3f",       [WIRE_ETHERNET] = "#e69f00",
        [WIRE_INFINIBAND] = "#d55e00"};
    return kind < WIRE_KINDS ? colours[kind] : "#8a8f98";
}

const char *style_tree_colour(uint32_t tree)
{
    static const char *const colours[] = {"#cc3d8f", "#3f5bd6", "#12a0a0", "#b8860b",
                                          "#7a3fc0", "#c0392b", "#2e7d32", "#5d4037"};
    return colours[tree % (sizeof colours / sizeof colours[0])];
}

double style_widest(const struct graph *graph)
{
    double most = GRAPH_UNKNOWN;
    for (uint32_t i = 0; i < graph->links_count; i++) {
        double value = graph->links[i].bytes_per_s.value;
        if (isfinite(value) && value > most)
            most = value;
    }
    return most;
}

double style_link_width(double bytes_per_s, double most)
{
    if (!(bytes_per_s > 0) || !isfinite(bytes_per_s) || !(most > 0))
        return 1;
    double width = 6 + 0.9 * log2(bytes_per_s / most);
    return width < 1 ? 1 : width;
}
