/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See graph.h.
 *
 * One idea: growing arrays, and a hash table from names to nodes; graph_seal lists the
 * links of each node in the order of their addition.
 * Invariant: a call that fails leaves the graph unchanged.
 */
#include "graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/hash.h"

#define FIRST_ROOM 16u

struct graph_private {
    size_t nodes_room, links_room, routes_room, skips_room, ranks_room, rank_of_room;
    uint32_t *rank_of; /* by node: rank number; GRAPH_NONE: not a rank */
    /* By hash of a name: the node; GRAPH_NONE: a free slot. At most half are used. */
    uint32_t *slots;
    uint32_t slots_count;
};

/* ---- open and close ---------------------------------------------------------------- */

tryst_status graph_open(struct graph **graph_p)
{
    struct graph *graph = mem_zalloc(sizeof *graph);
    if (!graph)
        return TRYST_E_NOMEM;
    graph->own = mem_zalloc(sizeof *graph->own);
    if (!graph->own) {
        mem_free(graph);
        return TRYST_E_NOMEM;
    }
    *graph_p = graph;
    return TRYST_OK;
}

/* Free a node's strings: the graph owns them, although struct graph_node has them
 * const. */
static void node_wipe(const struct graph_node *node)
{
    mem_free((char *)node->name);
    mem_free((char *)node->label);
    mem_free((char *)node->pci);
    mem_free((char *)node->cpus);
}

static void skip_wipe(const struct graph_skip *skip)
{
    mem_free((char *)skip->what);
    mem_free((char *)skip->why);
}

void graph_close(struct graph *graph)
{
    if (!graph)
        return;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        node_wipe(&graph->nodes[i]);
    for (uint32_t i = 0; i < graph->routes_count; i++)
        mem_free((uint32_t *)graph->routes[i].via);
    for (uint32_t i = 0; i < graph->skips_count; i++)
        skip_wipe(&graph->skips[i]);
    mem_free(graph->nodes);
    mem_free(graph->links);
    mem_free(graph->routes);
    mem_free(graph->skips);
    mem_free(graph->ranks);
    mem_free(graph->out_next);
    mem_free(graph->out_first);
    mem_free(graph->own->rank_of);
    mem_free(graph->own->slots);
    mem_free(graph->own);
    mem_free(graph);
}

/* Make room for one more item; `items_p` is the address of the array's pointer. */
static bool room_make(void *items_p, size_t *room, uint32_t count, size_t item_bytes)
{
    return count < GRAPH_NONE / 2 &&
           mem_reserve(items_p, room, (size_t)count + 1, item_bytes);
}

/* ---- names ------------------------------------------------------------------------- */

/* Return the slot that holds `name`, or the free slot for `name`. The table is never
 * full. */
static uint32_t slot_find(const struct graph *graph, const char *name)
{
    uint32_t mask = graph->own->slots_count - 1;
    uint32_t slot = (uint32_t)hash_bytes(name, strlen(name)) & mask;
    for (;; slot = (slot + 1) & mask) {
        uint32_t node = graph->own->slots[slot];
        if (node == GRAPH_NONE || strcmp(graph->nodes[node].name, name) == 0)
            return slot;
    }
}

uint32_t graph_find(const struct graph *graph, const char *name)
{
    return graph->own->slots ? graph->own->slots[slot_find(graph, name)] : GRAPH_NONE;
}

/* Make room in the table for one more name. */
static bool slots_grow(struct graph *graph)
{
    struct graph_private *own = graph->own;
    if (graph->nodes_count < own->slots_count / 2)
        return true;
    uint32_t count = own->slots_count ? own->slots_count * 2 : FIRST_ROOM;
    uint32_t *slots = mem_alloc(count * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0xff, count * sizeof *slots); /* GRAPH_NONE */
    mem_free(own->slots);
    own->slots = slots;
    own->slots_count = count;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        slots[slot_find(graph, graph->nodes[i].name)] = i;
    return true;
}

/* ---- nodes ------------------------------------------------------------------------- */

static tryst_status node_check(const struct graph *graph, const struct graph_node *node,
                               struct err *err)
{
    if (!node->name || !*node->name)
        return err_set(err, TRYST_E_INVALID, "a node has no name: every node needs one");
    if (graph_find(graph, node->name) != GRAPH_NONE)
        return err_set(err, TRYST_E_INVALID,
                       "the node name \"%.100s\" is used twice: node names are unique",
                       node->name);
    if (node->kind >= NODE_KINDS)
        return err_set(err, TRYST_E_INVALID,
                       "the node \"%.100s\" has an unknown kind (%d)", node->name,
                       (int)node->kind);
    if (node->parent != GRAPH_NONE && node->parent >= graph->nodes_count)
        return err_set(err, TRYST_E_INVALID,
                       "the parent of \"%.100s\" is node %u, which does not exist",
                       node->name, node->parent);
    return TRYST_OK;
}

static bool text_copy(const char *from, const char **to_p)
{
    *to_p = from ? mem_strdup(from) : NULL;
    return *to_p || !from;
}

static bool node_copy(const struct graph_node *from, struct graph_node *to_p)
{
    *to_p = *from;
    to_p->name = to_p->label = to_p->pci = to_p->cpus = NULL;
    if (text_copy(from->name, &to_p->name) && text_copy(from->label, &to_p->label) &&
        text_copy(from->pci, &to_p->pci) && text_copy(from->cpus, &to_p->cpus))
        return true;
    node_wipe(to_p);
    return false;
}

static bool node_room(struct graph *graph)
{
    struct graph_private *own = graph->own;
    return slots_grow(graph) &&
           room_make(&graph->nodes, &own->nodes_room, graph->nodes_count,
                     sizeof *graph->nodes) &&
           room_make(&own->rank_of, &own->rank_of_room, graph->nodes_count,
                     sizeof *own->rank_of) &&
           room_make(&graph->ranks, &own->ranks_room, graph->ranks_count,
                     sizeof *graph->ranks);
}

tryst_status graph_node_add(struct graph *graph, const struct graph_node *node,
                            struct err *err, uint32_t *node_p)
{
    assert(!graph->sealed);
    struct graph_node copy;
    tryst_status status = node_check(graph, node, err);
    if (status != TRYST_OK)
        return status;
    if (!node_room(graph) || !node_copy(node, &copy))
        return err_set(err, TRYST_E_NOMEM,
                       "cannot add the node \"%.100s\": out of memory", node->name);
    uint32_t number = graph->nodes_count;
    graph->own->slots[slot_find(graph, copy.name)] = number;
    graph->nodes[number] = copy;
    graph->own->rank_of[number] = GRAPH_NONE;
    if (copy.kind == NODE_RANK) {
        graph->own->rank_of[number] = graph->ranks_count;
        graph->ranks[graph->ranks_count++] = number;
    }
    graph->nodes_count++;
    if (node_p)
        *node_p = number;
    return TRYST_OK;
}

uint32_t graph_rank_of(const struct graph *graph, uint32_t node)
{
    assert(node < graph->nodes_count);
    return graph->own->rank_of[node];
}

uint32_t graph_machine(const struct graph *graph, uint32_t node)
{
    while (node != GRAPH_NONE && graph->nodes[node].kind != NODE_MACHINE)
        node = graph->nodes[node].parent;
    return node;
}

void graph_children(const struct graph *graph, uint32_t *first_child_p,
                    uint32_t *next_sibling_p)
{
    uint32_t count = graph->nodes_count;
    for (uint32_t i = 0; i <= count; i++)
        first_child_p[i] = next_sibling_p[i] = GRAPH_NONE;
    for (uint32_t i = count; i-- > 0;) {
        uint32_t parent = graph->nodes[i].parent;
        parent = parent == GRAPH_NONE ? count : parent;
        next_sibling_p[i] = first_child_p[parent];
        first_child_p[parent] = i;
    }
}

/* ---- links ------------------------------------------------------------------------- */

static const char *node_name(const struct graph *graph, uint32_t node)
{
    return graph->nodes[node].name;
}

/* True if a bandwidth is valid. NaN fails each comparison, so this predicate and the next
 * reject NaN. */
static bool bandwidth_is_valid(double bytes_per_s)
{
    return bytes_per_s > 0 || bytes_per_s == GRAPH_UNKNOWN;
}

static bool latency_is_valid(double ns)
{
    return (ns >= 0 && ns <= 1e18) || ns == GRAPH_UNKNOWN;
}

static tryst_status link_check(const struct graph *graph, const struct graph_link *link,
                               struct err *err)
{
    if (link->from >= graph->nodes_count || link->to >= graph->nodes_count)
        return err_set(err, TRYST_E_INVALID,
                       "a link goes from node %u to node %u, but there are only %u nodes",
                       link->from, link->to, graph->nodes_count);
    const char *from = node_name(graph, link->from), *to = node_name(graph, link->to);
    if (link->from == link->to)
        return err_set(err, TRYST_E_INVALID, "a link joins \"%.100s\" to itself", from);
    if (link->kind >= WIRE_KINDS || link->bytes_per_s.origin >= ORIGINS ||
        link->latency_ns.origin >= ORIGINS)
        return err_set(err, TRYST_E_INVALID,
                       "the link \"%.100s\" -> \"%.100s\" has an unknown kind or origin",
                       from, to);
    if (!bandwidth_is_valid(link->bytes_per_s.value))
        return err_set(
            err, TRYST_E_INVALID,
            "the bandwidth of the link \"%.100s\" -> \"%.100s\" is %g: it must "
            "be above 0, or unknown",
            from, to, link->bytes_per_s.value);
    if (!latency_is_valid(link->latency_ns.value))
        return err_set(
            err, TRYST_E_INVALID,
            "the latency of the link \"%.100s\" -> \"%.100s\" is %g ns: it must "
            "be 0 or more, or unknown",
            from, to, link->latency_ns.value);
    return TRYST_OK;
}

tryst_status graph_link_add(struct graph *graph, const struct graph_link *link,
                            struct err *err, uint32_t *link_p)
{
    assert(!graph->sealed);
    tryst_status status = link_check(graph, link, err);
    if (status != TRYST_OK)
        return status;
    if (!room_make(&graph->links, &graph->own->links_room, graph->links_count,
                   sizeof *graph->links))
        return err_set(err, TRYST_E_NOMEM, "cannot add link %u: out of memory",
                       graph->links_count + 1);
    graph->links[graph->links_count] = *link;
    if (link_p)
        *link_p = graph->links_count;
    graph->links_count++;
    return TRYST_OK;
}

tryst_status graph_wire_add(struct graph *graph, const struct graph_link *link,
                            struct err *err)
{
    struct graph_link back = *link;
    back.from = link->to;
    back.to = link->from;
    tryst_status status = graph_link_add(graph, link, err, NULL);
    if (status != TRYST_OK)
        return status;
    status = graph_link_add(graph, &back, err, NULL);
    if (status != TRYST_OK)
        graph->links_count--; /* remove the first link too */
    return status;
}

const struct graph_link *graph_back(const struct graph *graph, uint32_t link)
{
    const struct graph_link *there = &graph->links[link], *back = there + 1;
    bool wire = link + 1 < graph->links_count && there->from == back->to &&
                there->to == back->from && there->kind == back->kind &&
                there->down == back->down;
    return wire ? back : NULL;
}

uint32_t graph_wire_next(const struct graph *graph, uint32_t link)
{
    return link + (graph_back(graph, link) ? 2 : 1);
}

/* ---- given routes ------------------------------------------------------------------ */

static bool link_exists(const struct graph *graph, uint32_t from, uint32_t to)
{
    const uint32_t *first = graph->out_first;
    for (uint32_t i = first[from]; i < first[from + 1]; i++)
        if (graph->links[graph->out_next[i]].to == to)
            return true;
    return false;
}

/* Check a route's ends and inner nodes; routes_check checks links and duplicates when the
 * graph is sealed. */
static tryst_status route_check(const struct graph *graph,
                                const struct graph_route *route, struct err *err)
{
    uint32_t nodes = graph->nodes_count;
    if (route->from >= nodes || route->to >= nodes || route->from == route->to)
        return err_set(
            err, TRYST_E_INVALID,
            "invalid route from node %u to node %u of %u: a route joins two nodes",
            route->from, route->to, nodes);
    const uint32_t ends[] = {route->from, route->to};
    for (int i = 0; i < 2; i++)
        if (graph_rank_of(graph, ends[i]) == GRAPH_NONE)
            return err_set(
                err, TRYST_E_INVALID,
                "a route ends at \"%.100s\", which is not a rank: routes join ranks",
                node_name(graph, ends[i]));
    for (uint32_t i = 0; i < route->via_count; i++) {
        if (route->via[i] >= nodes)
            return err_set(err, TRYST_E_INVALID,
                           "a route passes node %u, which does not exist", route->via[i]);
        if (graph_rank_of(graph, route->via[i]) != GRAPH_NONE)
            return err_set(err, TRYST_E_INVALID,
                           "the route \"%.60s\" -> \"%.60s\" passes through the rank "
                           "\"%.60s\": a rank relays only inside trees",
                           node_name(graph, route->from), node_name(graph, route->to),
                           node_name(graph, route->via[i]));
    }
    return TRYST_OK;
}

tryst_status graph_route_add(struct graph *graph, const struct graph_route *route,
                             struct err *err)
{
    assert(!graph->sealed);
    tryst_status status = route_check(graph, route, err);
    if (status != TRYST_OK)
        return status;
    size_t bytes = route->via_count * sizeof *route->via;
    uint32_t *via = NULL;
    if (!room_make(&graph->routes, &graph->own->routes_room, graph->routes_count,
                   sizeof *graph->routes) ||
        !(via = mem_alloc(bytes)))
        return err_set(err, TRYST_E_NOMEM, "cannot add route %u: out of memory",
                       graph->routes_count + 1);
    if (bytes)
        memcpy(via, route->via, bytes);
    struct graph_route *to = &graph->routes[graph->routes_count++];
    *to = *route;
    to->via = via;
    return TRYST_OK;
}

/* Check that each step of a given route has a link (the overlay handles links that are
 * down) and leads to a new node: `seen` holds for each node the number of the last route
 * that passed the node. */
static tryst_status route_walk(const struct graph *graph, uint32_t number, uint32_t *seen,
                               struct err *err)
{
    const struct graph_route *route = &graph->routes[number];
    const char *from = node_name(graph, route->from), *to = node_name(graph, route->to);
    uint32_t at = route->from;
    for (uint32_t k = 0; k <= route->via_count; k++) {
        uint32_t next = k < route->via_count ? route->via[k] : route->to;
        if (seen[next] == number)
            return err_set(err, TRYST_E_INVALID,
                           "the route \"%.60s\" -> \"%.60s\" passes \"%.60s\" twice",
                           from, to, node_name(graph, next));
        if (!link_exists(graph, at, next))
            return err_set(err, TRYST_E_INVALID,
                           "the route \"%.60s\" -> \"%.60s\" goes from \"%.60s\" to "
                           "\"%.60s\", where no link exists",
                           from, to, node_name(graph, at), node_name(graph, next));
        seen[next] = number;
        at = next;
    }
    return TRYST_OK;
}

/* Compare two routes by their ends. */
static int routes_compare(const void *a, const void *b, void *graph)
{
    const struct graph_route *routes = ((const struct graph *)graph)->routes;
    const struct graph_route *x = &routes[*(const uint32_t *)a];
    const struct graph_route *y = &routes[*(const uint32_t *)b];
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static tryst_status routes_once(struct graph *graph, uint32_t *order, struct err *err)
{
    for (uint32_t i = 0; i < graph->routes_count; i++)
        order[i] = i;
    qsort_r(order, graph->routes_count, sizeof *order, routes_compare, graph);
    for (uint32_t i = 1; i < graph->routes_count; i++) {
        const struct graph_route *route = &graph->routes[order[i]];
        if (routes_compare(&order[i - 1], &order[i], graph) == 0)
            return err_set(err, TRYST_E_INVALID,
                           "the route \"%.100s\" -> \"%.100s\" is given twice",
                           node_name(graph, route->from), node_name(graph, route->to));
    }
    return TRYST_OK;
}

static tryst_status routes_check(struct graph *graph, struct err *err)
{
    uint32_t *seen = mem_alloc(graph->nodes_count * sizeof *seen);
    uint32_t *order = mem_alloc(graph->routes_count * sizeof *order);
    tryst_status status = TRYST_OK;
    if (!seen || !order) {
        status = err_set(err, TRYST_E_NOMEM, "cannot check %u routes: out of memory",
                         graph->routes_count);
    } else {
        memset(seen, 0xff, graph->nodes_count * sizeof *seen);
        for (uint32_t i = 0; i < graph->routes_count && status == TRYST_OK; i++)
            status = route_walk(graph, i, seen, err);
        if (status == TRYST_OK)
            status = routes_once(graph, order, err);
    }
    mem_free(seen);
    mem_free(order);
    return status;
}

/* ---- skips ------------------------------------------------------------------------- */

tryst_status graph_skip_add(struct graph *graph, const struct graph_skip *skip,
                            struct err *err)
{
    assert(!graph->sealed);
    struct graph_skip copy = {mem_strdup(skip->what), mem_strdup(skip->why)};
    if (copy.what && copy.why &&
        room_make(&graph->skips, &graph->own->skips_room, graph->skips_count,
                  sizeof *graph->skips)) {
        graph->skips[graph->skips_count++] = copy;
        return TRYST_OK;
    }
    skip_wipe(&copy);
    return err_set(err, TRYST_E_NOMEM, "cannot list a skipped device: out of memory");
}

/* ---- seal -------------------------------------------------------------------------- */

/* List the links by the node that they leave: a counting sort, which keeps their
 * order. */
static void adjacency_fill(struct graph *graph)
{
    /* by node: where its links begin in out_next; after the fill, where they end */
    uint32_t *first = graph->out_first + 1;
    for (uint32_t i = 0; i < graph->links_count; i++)
        first[graph->links[i].from + 1]++;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        first[i + 1] += first[i];
    for (uint32_t i = 0; i < graph->links_count; i++)
        graph->out_next[first[graph->links[i].from]++] = i;
}

tryst_status graph_seal(struct graph *graph, struct err *err)
{
    assert(!graph->sealed);
    graph->out_first = mem_zalloc_array(graph->nodes_count + 2ul, sizeof(uint32_t));
    graph->out_next = mem_zalloc_array(graph->links_count, sizeof(uint32_t));
    tryst_status status = TRYST_OK;
    if (graph->out_first && graph->out_next) {
        adjacency_fill(graph);
        status = routes_check(graph, err);
    } else {
        status =
            err_set(err, TRYST_E_NOMEM, "cannot seal a graph of %u links: out of memory",
                    graph->links_count);
    }
    if (status == TRYST_OK) {
        graph->sealed = true;
        return TRYST_OK;
    }
    mem_free(graph->out_first);
    mem_free(graph->out_next);
    graph->out_first = graph->out_next = NULL;
    return status;
}

/* ---- words ------------------------------------------------------------------------- */

const char *graph_node_kind_name(enum graph_node_kind kind)
{
    static const char *const names[NODE_KINDS] = {
        [NODE_MACHINE] = "machine",
        [NODE_PACKAGE] = "package",
        [NODE_NUMA] = "numa",
        [NODE_HOST_BRIDGE] = "host-bridge",
        [NODE_PCI_SWITCH] = "pci-switch",
        [NODE_GPU] = "gpu",
        [NODE_NIC] = "nic",
        [NODE_SWITCH] = "switch",
        [NODE_NV_SWITCH] = "nv-switch",
        [NODE_RANK] = "rank",
    };
    return kind < NODE_KINDS ? names[kind] : "?";
}

const char *graph_link_kind_name(enum graph_link_kind kind)
{
    static const char *const names[WIRE_KINDS] = {
        [WIRE_UNKNOWN] = "unknown",
        [WIRE_ATTACH] = "attach",
        [WIRE_MEMORY] = "memory",
        [WIRE_UPI] = "upi",
        [WIRE_PCI] = "pci",
        [WIRE_NVLINK] = "nvlink",
        [WIRE_C2C] = "c2c",
        [WIRE_ETHERNET] = "ethernet",
        [WIRE_INFINIBAND] = "infiniband",
    };
    return kind < WIRE_KINDS ? names[kind] : "?";
}

const char *graph_origin_name(enum graph_origin origin)
{
    static const char *const names[ORIGINS] = {
        [ORIGIN_NONE] = "none",         [ORIGIN_TABLE] = "table",
        [ORIGIN_IMPORTED] = "imported", [ORIGIN_DETECTED] = "detected",
        [ORIGIN_MEASURED] = "measured",
    };
    return origin < ORIGINS ? names[origin] : "?";
}
