/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a graph for people: its nodes as a tree (like lstopo) with their wires, then the
 * matrix (graph_matrix.c).
 *
 * One idea: a node's line ends with the wire to its parent; every other wire has its own
 * line, at the end that is not a switch, so a switch with 1,000 wires is one line. A rank
 * with a parent is a word on the parent's line.
 */
#include "graph_text.h"

#include <string.h>

#include "core/memory/arrays.h"
#include "graph_matrix.h"
#include "topology/base/graph_describe.h"
#include "topology/base/graph_path.h"

#define SKIPS_MAX 20 /* most skips in the text; the dump lists all */
#define DEPTH_MAX 64 /* deeper nodes are omitted */

struct tree {
    struct arrays arrays;
    const struct graph *graph;
    struct text *text;
    uint32_t *first_child, *next_sibling; /* by node; see graph_children */
    struct graph_path *paths;
    size_t prefix_bytes[DEPTH_MAX + 1];
    char prefix[DEPTH_MAX * 6 + 1];
};

/* ---- links ------------------------------------------------------------------------- */

/* Return the link number `skip` (from 0) of those from `from` to `to`; NULL for none. */
static const struct graph_link *link_between(const struct graph *graph, uint32_t from,
                                             uint32_t to, uint32_t skip)
{
    for (uint32_t i = graph->out_first[from]; i < graph->out_first[from + 1]; i++) {
        const struct graph_link *link = &graph->links[graph->out_next[i]];
        if (link->to == to && !skip--)
            return link;
    }
    return NULL;
}

/* Count the links with the same ends as `link` that come before `link` in the adjacency
 * of link->from. */
static uint32_t link_rank(const struct graph *graph, const struct graph_link *link)
{
    uint32_t rank = 0;
    for (uint32_t i = graph->out_first[link->from]; i < graph->out_first[link->from + 1];
         i++) {
        const struct graph_link *other = &graph->links[graph->out_next[i]];
        if (other == link)
            break;
        rank += other->to == link->to;
    }
    return rank;
}

static bool is_switch(const struct graph_node *node)
{
    return node->kind == NODE_SWITCH || node->kind == NODE_NV_SWITCH;
}

/* True if a rank is a word on its parent's line. */
static bool rank_is_word(const struct graph *graph, uint32_t node)
{
    return graph->nodes[node].kind == NODE_RANK &&
           graph->nodes[node].parent != GRAPH_NONE;
}

/* True if the link has its own line under the node link->from. */
static bool link_is_line(const struct graph *graph, const struct graph_link *link)
{
    const struct graph_node *from = &graph->nodes[link->from],
                            *to = &graph->nodes[link->to];
    if (to->parent == link->from)
        return false;
    if (from->parent == link->to)
        return link_rank(graph, link) > 0; /* the first link is on the node's line */
    if (link->kind == WIRE_ATTACH && link->bytes_per_s.value == GRAPH_UNLIMITED)
        return false; /* attachments are not wires */
    bool one_way = !link_between(graph, link->to, link->from, link_rank(graph, link));
    if (one_way || is_switch(from) != is_switch(to))
        return one_way || !is_switch(from);
    return link->from < link->to;
}

/* ---- one node ---------------------------------------------------------------------- */

static void ranks_add(struct tree *tree, uint32_t node)
{
    const struct graph *graph = tree->graph;
    const char *before = ", rank ";
    for (uint32_t i = tree->first_child[node]; i != GRAPH_NONE;
         i = tree->next_sibling[i]) {
        if (!rank_is_word(graph, i))
            continue;
        text_addf(tree->text, "%s%u", before, graph_rank_of(graph, i));
        before = " ";
    }
}

/* Append the NICs nearest to a GPU, except over a network: ", near mlx5_0". */
static void near_add(struct tree *tree, uint32_t node)
{
    const struct graph *graph = tree->graph;
    uint32_t network = 1u << WIRE_ETHERNET | 1u << WIRE_INFINIBAND;
    if (graph->nodes[node].kind != NODE_GPU)
        return;
    if (graph_path_find(graph, node, tree->paths) != TRYST_OK) {
        tree->text->failed = true;
        return;
    }
    uint32_t least = GRAPH_NONE;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == NODE_NIC && !(tree->paths[i].kinds & network) &&
            tree->paths[i].hops < least)
            least = tree->paths[i].hops;
    const char *before = ", near ";
    for (uint32_t i = 0; i < graph->nodes_count && least != GRAPH_NONE; i++) {
        if (graph->nodes[i].kind != NODE_NIC || tree->paths[i].hops != least ||
            tree->paths[i].kinds & network)
            continue;
        text_addf(tree->text, "%s%s", before, node_short_name(graph, i));
        before = " ";
    }
}

static void node_add(struct tree *tree, uint32_t number)
{
    const struct graph *graph = tree->graph;
    const struct graph_node *node = &graph->nodes[number];
    struct text *text = tree->text;
    text_add(text, node_short_name(graph, number));
    if (node->kind == NODE_RANK)
        text_addf(text, ", rank %u", graph_rank_of(graph, number));
    if (node->label)
        text_addf(text, " (%s)", node->label);
    if (node->pci && !strstr(node->name, node->pci))
        text_addf(text, " %s", node->pci);
    if (node->cpus)
        text_addf(text, ", cpus %s", node->cpus);
    if (node->parent != GRAPH_NONE) {
        const struct graph_link *up = link_between(graph, number, node->parent, 0);
        const struct graph_link *back = link_between(graph, node->parent, number, 0);
        if (up &&
            !(up->kind == WIRE_ATTACH && up->bytes_per_s.value == GRAPH_UNLIMITED)) {
            text_add(text, ", ");
            describe_link(text, up, back);
        }
    }
    uint32_t links = graph->out_first[number + 1] - graph->out_first[number];
    if (is_switch(node))
        text_addf(text, ", %s, %u link%s", node_kind_title(node->kind), links,
                  links == 1 ? "" : "s");
    ranks_add(tree, number);
    near_add(tree, number);
    text_add(text, "\n");
}

/* ---- the tree ---------------------------------------------------------------------- */

static void prefix_push(struct tree *tree, unsigned depth, const char *piece)
{
    size_t at = tree->prefix_bytes[depth], bytes = strlen(piece);
    memcpy(tree->prefix + at, piece, bytes + 1);
    tree->prefix_bytes[depth + 1] = at + bytes;
}

static void line_begin(struct tree *tree, unsigned depth, const char *branch)
{
    text_add_bytes(tree->text, tree->prefix, tree->prefix_bytes[depth]);
    text_add(tree->text, branch);
}

static bool node_is_line(const struct tree *tree, uint32_t node)
{
    return !rank_is_word(tree->graph, node);
}

static bool children_follow(const struct tree *tree, uint32_t child)
{
    for (; child != GRAPH_NONE; child = tree->next_sibling[child])
        if (node_is_line(tree, child))
            return true;
    return false;
}

static void wires_add(struct tree *tree, uint32_t node, unsigned depth)
{
    const struct graph *graph = tree->graph;
    bool children = children_follow(tree, tree->first_child[node]);
    for (uint32_t i = graph->out_first[node]; i < graph->out_first[node + 1]; i++) {
        const struct graph_link *link = &graph->links[graph->out_next[i]];
        const struct graph_link *back =
            link_between(graph, link->to, link->from, link_rank(graph, link));
        if (!link_is_line(graph, link))
            continue;
        line_begin(tree, depth, children ? "│ " : "  ");
        text_addf(tree->text, "%s %s  ", back ? "<->" : "-->",
                  node_short_name(graph, link->to));
        describe_link(tree->text, link, back);
        text_add(tree->text, "\n");
    }
}

static void children_add(struct tree *tree, uint32_t parent, unsigned depth)
{
    unsigned deeper = depth + 1;
    if (deeper == DEPTH_MAX) {
        line_begin(tree, depth, "…\n");
        return;
    }
    for (uint32_t i = tree->first_child[parent]; i != GRAPH_NONE;
         i = tree->next_sibling[i]) {
        bool last = !children_follow(tree, tree->next_sibling[i]);
        if (!node_is_line(tree, i))
            continue;
        line_begin(tree, depth, last ? "└─ " : "├─ ");
        node_add(tree, i);
        prefix_push(tree, depth, last ? "   " : "│  ");
        wires_add(tree, i, deeper);
        children_add(tree, i, deeper);
    }
}

/* True if the node is a network behind one port, which the port's line names. */
static bool is_plain_network(const struct tree *tree, uint32_t node)
{
    const struct graph *graph = tree->graph;
    return graph->nodes[node].kind == NODE_SWITCH &&
           tree->first_child[node] == GRAPH_NONE && !graph->nodes[node].label &&
           graph->out_first[node + 1] - graph->out_first[node] == 1;
}

static void roots_add(struct tree *tree)
{
    uint32_t top = tree->graph->nodes_count;
    for (uint32_t i = tree->first_child[top]; i != GRAPH_NONE;
         i = tree->next_sibling[i]) {
        if (is_plain_network(tree, i))
            continue;
        node_add(tree, i);
        wires_add(tree, i, 0);
        children_add(tree, i, 0);
    }
}

/* ---- the rest ---------------------------------------------------------------------- */

/* Append what unknown numbers mean and how to measure them. */
static void unknown_add(const struct graph *graph, struct text *text)
{
    uint32_t unknown = 0, pci = 0;
    for (uint32_t i = 0; i < graph->links_count; i++) {
        bool is = graph->links[i].bytes_per_s.value == GRAPH_UNKNOWN;
        unknown += is;
        pci += is && graph->links[i].kind == WIRE_PCI;
    }
    if (!unknown)
        return;
    text_addf(text,
              "\n? is unknown, never 0: %u of %u links have no bandwidth. Run "
              "tryst-topo --probe under a launcher\nto measure between ranks, or write "
              "--format json, fill in \"bytes_per_s\": "
              "[number, \"imported\"] and read it with --input.\n",
              unknown, graph->links_count);
    if (pci)
        text_add(text, "PCIe speeds come from sysfs, but virtual machines hide them: "
                       "run this on the host.\n");
}

/* ---- a plan ------------------------------------------------------------------------ */

#define TREES_MAX 16

/* Append each parent with its children: "6 -> 0 2 4, 0 -> 1"; in a reduce the data flows
 * from child to parent. */
static void tree_text_add(const struct graph_overlaid *overlaid,
                          const struct plan_tree *tree, struct text *text)
{
    const uint32_t *parent = plan_tree_parents(tree);
    uint32_t count = overlaid->plan->ranks_count;
    const char *before = ": ";
    for (uint32_t i = 0; parent && i < count; i++) {
        bool any = false;
        for (uint32_t j = 0; j < count; j++) {
            if (parent[j] != i)
                continue;
            if (!any)
                text_addf(text, "%s%u ->", before, overlaid_rank(overlaid, i));
            text_addf(text, " %u", overlaid_rank(overlaid, j));
            any = true;
            before = ", ";
        }
    }
}

static void plan_text_add(const struct graph_overlaid *overlaid, struct text *text)
{
    const struct plan *plan = overlaid->plan;
    text_add(text, "\nplan: ");
    text_add_number(text, plan->s_per_byte * 1e9);
    text_add(text, " s for each GB; no plan of trees takes less than ");
    text_add_number(text, plan->bound_s_per_byte * 1e9);
    text_add(text, "\n");
    for (uint32_t i = 0; i < plan->trees_count && i < TREES_MAX; i++) {
        const struct plan_tree *tree = &plan->trees[i];
        text_addf(text, "tree %u, %.1f %%, root %u, depth %u", i, tree->share * 100,
                  overlaid_rank(overlaid, tree->root), tree->depth);
        tree_text_add(overlaid, tree, text);
        text_add(text, "\n");
    }
    if (plan->trees_count > TREES_MAX)
        text_addf(text, "(%u more)\n", plan->trees_count - TREES_MAX);
}

void graph_text_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                      struct text *text)
{
    struct tree tree = {.graph = graph, .text = text};
    size_t count = (size_t)graph->nodes_count + 1;
    tree.first_child = arrays_alloc(&tree.arrays, count, sizeof *tree.first_child);
    tree.next_sibling = arrays_alloc(&tree.arrays, count, sizeof *tree.next_sibling);
    tree.paths = arrays_alloc(&tree.arrays, count, sizeof *tree.paths);
    if (!tree.arrays.status) {
        graph_children(graph, tree.first_child, tree.next_sibling);
        describe_counts(text, graph, UINT32_MAX);
        text_add(text, graph->nodes_count ? "\n\n" : "nothing\n");
        roots_add(&tree);
        graph_matrix_write(graph, text);
        unknown_add(graph, text);
        describe_skips(text, graph, SKIPS_MAX);
    } else {
        text->failed = true;
    }
    if (overlaid && overlaid->plan)
        plan_text_add(overlaid, text);
    arrays_free(&tree.arrays);
}
