/* SPDX-License-Identifier: Apache-2.0 */
/* Write a graph's dump; graph_json.c shows the format and reads it back. */
#include "json_write.h"

static void number_write(struct text *text, const char *name,
                         const struct graph_number *number)
{
    if (number->value == GRAPH_UNKNOWN && number->origin == ORIGIN_NONE)
        return;
    text_addf(text, ", \"%s\": [", name);
    if (number->value == GRAPH_UNKNOWN)
        text_add(text, "null");
    else if (number->value == GRAPH_UNLIMITED)
        text_add(text, "\"unlimited\"");
    else
        text_add_number(text, number->value);
    text_addf(text, ", \"%s\"]", graph_origin_name(number->origin));
}

static void string_write(struct text *text, const char *name, const char *string)
{
    if (!string)
        return;
    text_addf(text, ", \"%s\": ", name);
    text_add_json(text, string);
}

static void node_write(struct text *text, const struct graph *graph,
                       const struct graph_node *node)
{
    text_add(text, "{\"name\": ");
    text_add_json(text, node->name);
    text_addf(text, ", \"kind\": \"%s\"", graph_node_kind_name(node->kind));
    if (node->parent != GRAPH_NONE)
        string_write(text, "parent", graph->nodes[node->parent].name);
    if (node->os_index != GRAPH_NONE)
        text_addf(text, ", \"os_index\": %u", node->os_index);
    string_write(text, "label", node->label);
    string_write(text, "pci", node->pci);
    string_write(text, "cpus", node->cpus);
    text_add(text, "}");
}

static void ends_write(struct text *text, const struct graph *graph, uint32_t from,
                       uint32_t to)
{
    text_add(text, "{\"from\": ");
    text_add_json(text, graph->nodes[from].name);
    string_write(text, "to", graph->nodes[to].name);
}

static void link_write(struct text *text, const struct graph *graph,
                       const struct graph_link *link)
{
    ends_write(text, graph, link->from, link->to);
    text_addf(text, ", \"kind\": \"%s\"", graph_link_kind_name(link->kind));
    if (link->generation)
        text_addf(text, ", \"generation\": %u", (unsigned)link->generation);
    if (link->width)
        text_addf(text, ", \"width\": %u", (unsigned)link->width);
    if (link->down)
        text_add(text, ", \"down\": true");
    number_write(text, "bytes_per_s", &link->bytes_per_s);
    number_write(text, "latency_ns", &link->latency_ns);
    text_add(text, "}");
}

static void route_write(struct text *text, const struct graph *graph,
                        const struct graph_route *route)
{
    ends_write(text, graph, route->from, route->to);
    text_add(text, ", \"via\": [");
    for (uint32_t i = 0; i < route->via_count; i++) {
        text_add(text, i ? ", " : "");
        text_add_json(text, graph->nodes[route->via[i]].name);
    }
    text_add(text, "]}");
}

static void skip_write(struct text *text, const struct graph_skip *skip)
{
    text_add(text, "{\"what\": ");
    text_add_json(text, skip->what);
    string_write(text, "why", skip->why);
    text_add(text, "}");
}

/* Begin the line of item `i`. */
static void item_begin(struct text *text, uint32_t i)
{
    text_add(text, i ? ",\n  " : "\n  ");
}

void graph_json_write(const struct graph *graph, struct text *text)
{
    text_addf(text, "{\"tryst_graph\": %d,\n \"nodes\": [", GRAPH_JSON_VERSION);
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        item_begin(text, i);
        node_write(text, graph, &graph->nodes[i]);
    }
    text_add(text, "],\n \"links\": [");
    for (uint32_t i = 0; i < graph->links_count; i++) {
        item_begin(text, i);
        link_write(text, graph, &graph->links[i]);
    }
    text_add(text, "],\n \"routes\": [");
    for (uint32_t i = 0; i < graph->routes_count; i++) {
        item_begin(text, i);
        route_write(text, graph, &graph->routes[i]);
    }
    for (uint32_t i = 0; i < graph->skips_count; i++) {
        text_add(text, i ? "" : "],\n \"skipped\": [");
        item_begin(text, i);
        skip_write(text, &graph->skips[i]);
    }
    text_add(text, "]}\n");
}
