/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a graph for Graphviz: machines as clusters, a wire of two directions as one line,
 * width by bandwidth and colour by kind as in the SVG; a plan's trees as dashed arrows.
 * `dot -Tpdf` or `neato` draws the result.
 */
#include "graph_dot.h"

#include "style.h"
#include "topology/base/graph_describe.h"

struct dot {
    const struct graph *graph;
    struct text *text;
    double most; /* widest finite bandwidth */
};

static void node_add(struct dot *dot, uint32_t number, const char *indent)
{
    static const char *const shapes[NODE_KINDS] = {[NODE_MACHINE] = "folder",
                                                   [NODE_PACKAGE] = "box3d",
                                                   [NODE_NUMA] = "box",
                                                   [NODE_HOST_BRIDGE] = "house",
                                                   [NODE_PCI_SWITCH] = "hexagon",
                                                   [NODE_GPU] = "component",
                                                   [NODE_NIC] = "cds",
                                                   [NODE_SWITCH] = "octagon",
                                                   [NODE_NV_SWITCH] = "octagon",
                                                   [NODE_RANK] = "circle"};
    const struct graph_node *node = &dot->graph->nodes[number];
    text_addf(dot->text, "%sn%u [shape=%s, fillcolor=\"%s\", label=", indent, number,
              shapes[node->kind], style_node_fill(node->kind));
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
              link->to, back ? "none" : "forward", style_link_colour(link->kind),
              style_link_width(link->bytes_per_s.value, dot->most),
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
                  style_tree_colour(number), number);
    }
}

void graph_dot_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text)
{
    struct dot dot = {graph, text, style_widest(graph)};
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
