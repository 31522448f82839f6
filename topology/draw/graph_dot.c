/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a graph for Graphviz: machines as clusters, a wire of two directions as one line,
 * width by bandwidth and colour by kind as in the SVG; a plan's trees as dashed arrows.
 * `dot -Tpdf` or `neato` draws the result.
 */
#include "graph_dot.h"

#include <math.h>

#include "topology/base/graph_describe.h"

static const struct {
    const char *shape, *fill;
} node_styles[NODE_KINDS] = {[NODE_MACHINE] = {"folder", "#ffffff"},
                             [NODE_PACKAGE] = {"box3d", "#f3f4f6"},
                             [NODE_NUMA] = {"box", "#e3edf7"},
                             [NODE_HOST_BRIDGE] = {"house", "#eceff1"},
                             [NODE_PCI_SWITCH] = {"hexagon", "#e4e7ea"},
                             [NODE_GPU] = {"component", "#d5efe3"},
                             [NODE_NIC] = {"cds", "#fdeccb"},
                             [NODE_SWITCH] = {"octagon", "#f9e0d2"},
                             [NODE_NV_SWITCH] = {"octagon", "#c3e6d6"},
                             [NODE_RANK] = {"circle", "#ffffff"}};

/* Most are of Okabe and Ito's set, which is distinct for every colour vision. */
static const char *const wire_colours[WIRE_KINDS] = {
    [WIRE_UNKNOWN] = "#8a8f98",   [WIRE_ATTACH] = "#c4c8ce",
    [WIRE_MEMORY] = "#56b4e9",    [WIRE_UPI] = "#0072b2",
    [WIRE_PCI] = "#6b7280",       [WIRE_NVLINK] = "#009e73",
    [WIRE_C2C] = "#8fbc3f",       [WIRE_ETHERNET] = "#e69f00",
    [WIRE_INFINIBAND] = "#d55e00"};

enum { TREE_COLOURS = 8 };
static const char *const tree_colours[TREE_COLOURS] = {"#cc3d8f", "#3f5bd6", "#12a0a0",
                                                       "#b8860b", "#7a3fc0", "#c0392b",
                                                       "#2e7d32", "#5d4037"};

struct dot {
    const struct graph *graph;
    struct text *text;
    double most; /* widest finite bandwidth */
};

/* Return the widest finite bandwidth of the graph; GRAPH_UNKNOWN for none. */
static double widest_find(const struct graph *graph)
{
    double most = GRAPH_UNKNOWN;
    for (uint32_t i = 0; i < graph->links_count; i++)
        if (isfinite(graph->links[i].bytes_per_s.value))
            most = fmax(most, graph->links[i].bytes_per_s.value);
    return most;
}

/* Return a line's width in points: 6 for `most`, 0.9 less for each halving, at least 1; 1
 * where unknown or unlimited. */
static double line_width(double bytes_per_s, double most)
{
    if (!(bytes_per_s > 0) || !isfinite(bytes_per_s) || !(most > 0))
        return 1;
    return fmax(1, 6 + 0.9 * log2(bytes_per_s / most));
}

static void node_add(struct dot *dot, uint32_t number, const char *indent)
{
    const struct graph_node *node = &dot->graph->nodes[number];
    text_addf(dot->text, "%sn%u [shape=%s, fillcolor=\"%s\", label=", indent, number,
              node_styles[node->kind].shape, node_styles[node->kind].fill);
    text_add_json(dot->text, node->name);
    if (node->label) {
        text_add(dot->text, ", tooltip=");
        text_add_json(dot->text, node->label);
    }
    text_add(dot->text, "];\n");
}

/* Write a machine as a cluster; the machine's own node is written only if links end at
 * it. */
static void machine_add(struct dot *dot, uint32_t machine)
{
    const struct graph *graph = dot->graph;
    text_addf(dot->text, "  subgraph cluster_%u {\n    label=", machine);
    text_add_json(dot->text, graph->nodes[machine].name);
    text_add(dot->text, "; color=\"#b0b0b0\"; style=rounded;\n");
    if (graph->out_first[machine] != graph->out_first[machine + 1])
        node_add(dot, machine, "    ");
    for (uint32_t i = machine + 1; i < graph->nodes_count; i++)
        if (graph_machine(graph, i) == machine)
            node_add(dot, i, "    ");
    text_add(dot->text, "  }\n");
}

static void link_add(struct dot *dot, uint32_t i)
{
    const struct graph *graph = dot->graph;
    const struct graph_link *link = &graph->links[i];
    const struct graph_link *back = graph_back(graph, i);
    struct text words = {0};
    describe_link(&words, link, back);
    text_addf(dot->text,
              "  n%u -> n%u [dir=%s, color=\"%s\", penwidth=%.1f%s, tooltip=", link->from,
              link->to, back ? "none" : "forward", wire_colours[link->kind],
              line_width(link->bytes_per_s.value, dot->most),
              link->down || link->bytes_per_s.value == GRAPH_UNKNOWN ? ", style=dashed"
                                                                     : "");
    text_add_json(dot->text, words.data ? words.data : "");
    dot->text->failed = dot->text->failed || words.failed;
    text_add(dot->text, "];\n");
    text_drop(&words);
}

static void tree_add(struct dot *dot, const struct graph_overlaid *overlaid,
                     uint32_t number)
{
    const struct plan_tree *tree = &overlaid->plan->trees[number];
    const uint32_t *parent = plan_tree_parents(tree);
    for (uint32_t i = 0; parent && i < overlaid->plan->ranks_count; i++) {
        if (parent[i] == GRAPH_NONE)
            continue;
        text_addf(dot->text,
                  "  n%u -> n%u [style=dashed, constraint=false, color=\"%s\", "
                  "tooltip=\"tree %u\"];\n",
                  dot->graph->ranks[overlaid_rank(overlaid, parent[i])],
                  dot->graph->ranks[overlaid_rank(overlaid, i)],
                  tree_colours[number % TREE_COLOURS], number);
    }
}

void graph_dot_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text)
{
    struct dot dot = {graph, text, widest_find(graph)};
    text_add(
        text,
        "digraph tryst {\n  node [style=filled, fontname=\"sans-serif\", fontsize=11];\n"
        "  edge [fontname=\"sans-serif\", fontsize=9];\n");
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == NODE_MACHINE)
            machine_add(&dot, i);
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph_machine(graph, i) == GRAPH_NONE)
            node_add(&dot, i, "  ");
    }
    for (uint32_t i = 0; i < graph->links_count; i = graph_wire_next(graph, i))
        link_add(&dot, i);
    for (uint32_t i = 0; overlaid && overlaid->plan && i < overlaid->plan->trees_count;
         i++)
        tree_add(&dot, overlaid, i);
    text_add(text, "}\n");
}
