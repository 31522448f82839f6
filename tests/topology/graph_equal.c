/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_equal.h"

#include <string.h>

static bool text_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool node_equal(const struct graph_node *a, const struct graph_node *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind &&
           a->parent == b->parent && a->os_index == b->os_index &&
           text_equal(a->label, b->label) && text_equal(a->pci, b->pci) &&
           text_equal(a->cpus, b->cpus);
}

static bool number_equal(const struct graph_number *a, const struct graph_number *b)
{
    return a->value == b->value && a->origin == b->origin;
}

static bool link_equal(const struct graph_link *a, const struct graph_link *b)
{
    return a->from == b->from && a->to == b->to && a->kind == b->kind &&
           a->generation == b->generation && a->width == b->width && a->down == b->down &&
           number_equal(&a->bytes_per_s, &b->bytes_per_s) &&
           number_equal(&a->latency_ns, &b->latency_ns);
}

static bool route_equal(const struct graph_route *a, const struct graph_route *b)
{
    return a->from == b->from && a->to == b->to && a->via_count == b->via_count &&
           memcmp(a->via, b->via, a->via_count * sizeof *a->via) == 0;
}

bool graph_equal(const struct graph *a, const struct graph *b)
{
    if (a->nodes_count != b->nodes_count || a->links_count != b->links_count ||
        a->routes_count != b->routes_count || a->skips_count != b->skips_count)
        return false;
    for (uint32_t i = 0; i < a->nodes_count; i++)
        if (!node_equal(&a->nodes[i], &b->nodes[i]))
            return false;
    for (uint32_t i = 0; i < a->links_count; i++)
        if (!link_equal(&a->links[i], &b->links[i]))
            return false;
    for (uint32_t i = 0; i < a->routes_count; i++)
        if (!route_equal(&a->routes[i], &b->routes[i]))
            return false;
    for (uint32_t i = 0; i < a->skips_count; i++)
        if (!text_equal(a->skips[i].what, b->skips[i].what) ||
            !text_equal(a->skips[i].why, b->skips[i].why))
            return false;
    return true; /* the nodes determine the ranks */
}
