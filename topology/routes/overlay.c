/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of an overlay; see overlay.h and overlay_own.h.
 *
 * One idea: number inner nodes, bandwidths by size and links by their ends; search from
 * each origin; then collect the links that routes of the group take.
 * Invariant: an open overlay is strongly connected (unless opened for a pair), and the
 * bandwidths of all its links are known.
 */
#include "overlay.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "overlay_origin.h"

static const char *member_name(const struct overlay_private *own, uint32_t member)
{
    return own->graph->nodes[own->graph->ranks[own->members[member]]].name;
}

static tryst_status no_memory(struct err *err, uint32_t members_count)
{
    return err_set(err, TRYST_E_NOMEM, "cannot find routes of %u ranks: out of memory",
                   members_count);
}

/* ---- members ----------------------------------------------------------------------- */

static tryst_status members_check(const struct overlay_private *own,
                                  const uint32_t *members, uint32_t count,
                                  struct err *err)
{
    if (count == 0)
        return err_set(err, TRYST_E_INVALID, "cannot find routes: the list has no ranks");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = members ? members[i] : i;
        if (rank >= own->graph->ranks_count)
            return err_set(err, TRYST_E_INVALID,
                           "no rank %u in the graph: it has %u ranks, counted from 0",
                           rank, own->graph->ranks_count);
        if (own->member_of[rank] != GRAPH_NONE)
            return err_set(err, TRYST_E_INVALID,
                           "cannot find routes: rank %u is named twice", rank);
        own->member_of[rank] = i;
        own->members[i] = rank;
    }
    return TRYST_OK;
}

/* ---- numbers ----------------------------------------------------------------------- */

static void inner_number(struct overlay_private *own)
{
    for (uint32_t v = 0; v < own->graph->nodes_count; v++) {
        bool rank = graph_rank_of(own->graph, v) != GRAPH_NONE;
        own->inner_of[v] = rank ? GRAPH_NONE : own->inner_count;
        if (!rank)
            own->node_of[own->inner_count++] = v;
    }
}

static int doubles_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Set the place of each link's bandwidth among all bandwidths. GRAPH_UNKNOWN is below 0,
 * so it comes first. */
static void places_make(struct overlay_private *own, double *sorted)
{
    const struct graph *graph = own->graph;
    uint32_t count = 0;
    for (uint32_t l = 0; l < graph->links_count; l++)
        sorted[l] = graph->links[l].bytes_per_s.value;
    qsort(sorted, graph->links_count, sizeof *sorted, doubles_compare);
    for (uint32_t k = 0; k < graph->links_count; k++)
        if (k == 0 || sorted[k] != sorted[count - 1])
            sorted[count++] = sorted[k];
    own->places_count = count;
    for (uint32_t l = 0; l < graph->links_count; l++) {
        const double *at = bsearch(&graph->links[l].bytes_per_s.value, sorted, count,
                                   sizeof *sorted, doubles_compare);
        own->place[l] = (uint32_t)(at - sorted);
    }
}

/* Return the member at a node; GRAPH_NONE: the node is not a member. */
static uint32_t node_member(const struct overlay_private *own, uint32_t node)
{
    uint32_t rank = graph_rank_of(own->graph, node);
    return rank == GRAPH_NONE ? GRAPH_NONE : own->member_of[rank];
}

/* List the live links that end in each member. */
static void into_members(struct overlay_private *own, uint32_t members_count)
{
    const struct graph *graph = own->graph;
    /* shifted by one: filling moves each beginning to its final value */
    uint32_t *from = own->into_from + 1;
    for (uint32_t l = 0; l < graph->links_count; l++) {
        uint32_t member = node_member(own, graph->links[l].to);
        if (member != GRAPH_NONE && !graph->links[l].down)
            from[member + 1]++;
    }
    for (uint32_t i = 0; i < members_count; i++)
        from[i + 1] += from[i];
    for (uint32_t l = 0; l < graph->links_count; l++) {
        uint32_t member = node_member(own, graph->links[l].to);
        if (member != GRAPH_NONE && !graph->links[l].down)
            own->into_link[from[member]++] = l;
    }
}

/* ---- given routes ------------------------------------------------------------------ */

static int givens_compare(const void *a, const void *b)
{
    const struct given *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

const struct given *overlay_given(const struct overlay_private *own, uint32_t i,
                                  uint32_t j)
{
    struct given key = {.from = i, .to = j};
    return own->givens_count ? bsearch(&key, own->givens, own->givens_count,
                                       sizeof *own->givens, givens_compare)
                             : NULL;
}

/* Count the live links from `from` to `to` with a place of bandwidth of at least
 * `place_min`. If `links_p` is not NULL, write these links to it, with equal shares. */
static uint32_t hop_links(const struct overlay_private *own, uint32_t from, uint32_t to,
                          uint32_t place_min, struct given_link *links_p)
{
    const struct graph *graph = own->graph;
    uint32_t count = 0;
    for (uint32_t k = graph->out_first[from]; k < graph->out_first[from + 1]; k++) {
        uint32_t link = graph->out_next[k];
        if (graph->links[link].to != to || graph->links[link].down ||
            own->place[link] < place_min)
            continue;
        if (links_p)
            links_p[count].link = link;
        count++;
    }
    for (uint32_t k = 0; links_p && k < count; k++)
        links_p[k].share = 1.0 / count;
    return count;
}

static uint32_t hop_width(const struct overlay_private *own, uint32_t from, uint32_t to)
{
    const struct graph *graph = own->graph;
    uint32_t width = 0;
    for (uint32_t k = graph->out_first[from]; k < graph->out_first[from + 1]; k++) {
        uint32_t link = graph->out_next[k];
        if (graph->links[link].to == to && !graph->links[link].down &&
            own->place[link] > width)
            width = own->place[link];
    }
    return width;
}

static uint32_t hop_to(const struct graph_route *route, uint32_t hop)
{
    return hop < route->via_count ? route->via[hop] : route->to;
}

/* Fill `given`, and its links unless `links_p` is NULL. Returns the number of links; 0 if
 * a hop has none. */
static uint32_t given_fill(const struct overlay_private *own,
                           const struct graph_route *route, struct given *given,
                           struct given_link *links_p)
{
    uint32_t width = UINT32_MAX, count = 0, at = route->from;
    for (uint32_t k = 0; k <= route->via_count; at = hop_to(route, k++)) {
        uint32_t hop = hop_width(own, at, hop_to(route, k));
        width = hop < width ? hop : width;
    }
    given->hops = route->via_count + 1;
    given->routes = 1;
    at = route->from;
    for (uint32_t k = 0; k <= route->via_count; at = hop_to(route, k++)) {
        uint32_t links =
            hop_links(own, at, hop_to(route, k), width, links_p ? links_p + count : NULL);
        given->routes *= links;
        count += links;
        if (links == 0)
            return 0;
    }
    return count;
}

static tryst_status givens_make(struct overlay_private *own, struct err *err)
{
    const struct graph *graph = own->graph;
    struct given unused;
    uint32_t links = 0;
    for (uint32_t r = 0; r < graph->routes_count; r++)
        links += given_fill(own, &graph->routes[r], &unused, NULL);
    own->givens = arrays_alloc(&own->arrays, graph->routes_count, sizeof *own->givens);
    own->given_links = arrays_alloc(&own->arrays, links, sizeof *own->given_links);
    if (own->arrays.status)
        return err_set(err, TRYST_E_NOMEM, "no memory for %u given routes",
                       graph->routes_count);
    for (uint32_t r = 0; r < graph->routes_count; r++) {
        const struct graph_route *route = &graph->routes[r];
        struct given given = {.from = node_member(own, route->from),
                              .to = node_member(own, route->to),
                              .first = own->given_links_count};
        if (given.from == GRAPH_NONE || given.to == GRAPH_NONE)
            continue; /* a route of ranks outside the group */
        if (given_fill(own, route, &given, NULL))
            given.count = given_fill(own, route, &given, own->given_links + given.first);
        own->given_links_count += given.count;
        own->givens[own->givens_count++] = given;
    }
    qsort(own->givens, own->givens_count, sizeof *own->givens, givens_compare);
    return TRYST_OK;
}

/* ---- strongly connected ------------------------------------------------------------ */

static bool edge_exists(const struct overlay_private *own, uint32_t i, uint32_t j)
{
    const struct given *given = overlay_given(own, i, j);
    if (given)
        return given->count > 0;
    return i != j && own->origins[own->origin_of[i]].end_of[j] != GRAPH_NONE;
}

/* Find the members that member 0 reaches or, `backwards`, that reach member 0. Returns
 * how many. */
static uint32_t reached_count(const struct overlay_private *own, uint32_t count,
                              bool backwards, bool *reached, uint32_t *queue)
{
    uint32_t found = 1;
    memset(reached, 0, count);
    reached[0] = true;
    queue[0] = 0;
    for (uint32_t k = 0; k < found; k++)
        for (uint32_t j = 0; j < count && found < count; j++)
            if (!reached[j] &&
                edge_exists(own, backwards ? j : queue[k], backwards ? queue[k] : j)) {
                reached[j] = true;
                queue[found++] = j;
            }
    return found;
}

/* List the members with a mark equal to `side`: "h0, h1, h2, h3 and 5 more". */
static void members_list(const struct overlay_private *own, uint32_t count,
                         const bool *marks, bool side, char *text_p, size_t room)
{
    uint32_t named = 0, all = 0;
    size_t length = 0;
    text_p[0] = '\0';
    for (uint32_t i = 0; i < count; i++)
        all += marks[i] == side;
    for (uint32_t i = 0; i < count && named < 4; i++)
        if (marks[i] == side) {
            int added = snprintf(text_p + length, room - length, "%s%.30s",
                                 named ? ", " : "", member_name(own, i));
            length += (size_t)added < room - length ? (size_t)added : 0;
            named++;
        }
    if (all > named)
        snprintf(text_p + length, room - length, " and %u more", all - named);
}

static tryst_status connected_check(const struct overlay_private *own, uint32_t count,
                                    struct err *err)
{
    char from[160], to[160];
    struct arrays scratch = {0};
    bool *marks = arrays_alloc(&scratch, count, sizeof *marks);
    uint32_t *queue = arrays_alloc(&scratch, count, sizeof *queue);
    tryst_status status = TRYST_OK;
    if (scratch.status) {
        status = no_memory(err, count);
    } else {
        bool forward = reached_count(own, count, false, marks, queue) < count;
        if (forward || reached_count(own, count, true, marks, queue) < count) {
            members_list(own, count, marks, forward, from, sizeof from);
            members_list(own, count, marks, !forward, to, sizeof to);
            status = err_set(err, TRYST_E_INVALID,
                             "the ranks are not connected: no route from {%s} to "
                             "{%s} (routes never pass through a rank)",
                             from, to);
        }
    }
    arrays_free(&scratch);
    return status;
}

/* ---- the links that routes take ---------------------------------------------------- */

/* Mark the links on routes of one class: first find the ends that use the class, then go
 * back to the origin. */
static void class_use(const struct overlay_private *own, const struct origin *origin,
                      const struct route_class *class, bool *node_used, bool *end_used,
                      bool *link_used)
{
    memset(node_used, 0, own->inner_count + 1ul);
    memset(end_used, 0, origin->ends_count);
    for (uint32_t k = 0; k < origin->members_count; k++) {
        uint32_t i = own->by_origin[origin->members_first + k];
        for (uint32_t e = 0; e < origin->ends_count; e++) {
            const struct route_end *end = &origin->ends[e];
            if (pair_class(own, i, end) != class->class || end->member == i ||
                overlay_given(own, i, end->member))
                continue;
            end_used[e] = true;
            if (own->up[i] != GRAPH_NONE)
                link_used[own->up[i]] = true;
        }
    }
    origin_count(own, origin, class->place_min, own->node_counts);
    for (uint32_t e = 0; e < origin->ends_count; e++) {
        const struct route_end *end = &origin->ends[e];
        for (uint32_t k = 0; end_used[e] && k < end->into_count; k++) {
            const struct route_link *into = &origin->end_into[end->into_first + k];
            if (end_link_counts(own, end, class->place_min, into->link) &&
                own->node_counts[into->from] > 0)
                node_used[into->from] = link_used[into->link] = true;
        }
    }
    for (uint32_t k = origin->order_count; k-- > 1;) {
        uint32_t at = origin->order[k];
        for (uint32_t l = origin->into_from[at];
             node_used[at] && l < origin->into_from[at + 1]; l++) {
            const struct route_link *into = &origin->into[l];
            if (own->place[into->link] >= class->place_min &&
                own->node_counts[into->from] > 0)
                node_used[into->from] = link_used[into->link] = true;
        }
    }
}

static void links_use(const struct overlay_private *own, bool *node_used, bool *end_used,
                      bool *link_used)
{
    for (uint32_t o = 0; o < own->origins_count; o++)
        for (uint32_t c = 0; c < own->origins[o].classes_count; c++)
            class_use(own, &own->origins[o], &own->origins[o].classes[c], node_used,
                      end_used, link_used);
    for (uint32_t k = 0; k < own->given_links_count; k++)
        link_used[own->given_links[k].link] = true;
}

static tryst_status links_number(struct overlay *overlay, const bool *link_used,
                                 struct err *err)
{
    struct overlay_private *own = overlay->own;
    const struct graph *graph = own->graph;
    for (uint32_t l = 0; l < graph->links_count; l++) {
        double bytes_per_s = graph->links[l].bytes_per_s.value;
        own->slot[l] = GRAPH_NONE;
        if (!link_used[l] || isinf(bytes_per_s))
            continue;
        if (bytes_per_s == GRAPH_UNKNOWN)
            return err_set(
                err, TRYST_E_INVALID,
                "the bandwidth of the link \"%.100s\" -> \"%.100s\" is unknown, but "
                "routes use it; write it into the file, or measure it by tryst-topo "
                "--probe",
                graph->nodes[graph->links[l].from].name,
                graph->nodes[graph->links[l].to].name);
        own->slot[l] = overlay->links_count;
        own->links[overlay->links_count] = l;
        own->capacity[overlay->links_count++] = bytes_per_s;
    }
    return TRYST_OK;
}

/* ---- open and close ---------------------------------------------------------------- */

void overlay_close(struct overlay *overlay)
{
    if (!overlay)
        return;
    struct overlay_private *own = overlay->own;
    if (own)
        arrays_free(&own->arrays);
    mem_free(own);
    mem_free(overlay);
}

uint32_t overlay_rank(const struct overlay *overlay, uint32_t i)
{
    return overlay->own->members[i];
}

bool overlay_same_machine(const struct overlay *overlay, uint32_t i, uint32_t j)
{
    const struct graph *graph = overlay->graph;
    uint32_t machine = graph_machine(graph, graph->ranks[overlay_rank(overlay, i)]);
    return machine != GRAPH_NONE &&
           machine == graph_machine(graph, graph->ranks[overlay_rank(overlay, j)]);
}

/* Allocate `count` zeroed items for each pointer. */
static void rooms_make(struct overlay_private *own, void *const *rooms,
                       size_t rooms_count, size_t count, size_t item_bytes)
{
    for (size_t k = 0; k < rooms_count; k++)
        *(void **)rooms[k] = arrays_alloc(&own->arrays, count, item_bytes);
}

static bool private_room(struct overlay_private *own, size_t members_count)
{
    size_t nodes = own->graph->nodes_count, links = own->graph->links_count;
    size_t ranks = own->graph->ranks_count;
    void *const by_link[] = {&own->place, &own->slot, &own->links, &own->into_link};
    void *const by_member[] = {&own->members, &own->into_from, &own->origin_of,
                               &own->up,      &own->up_class,  &own->by_origin};
    void *const by_node[] = {&own->inner_of, &own->node_of, &own->nodes[0],
                             &own->nodes[1]};
    void *const node_numbers[] = {&own->node_cost, &own->node_flow, &own->node_counts};
    void *const link_numbers[] = {&own->capacity, &own->link_price};
    own->member_of = arrays_alloc(&own->arrays, ranks, sizeof *own->member_of);
    own->end_cost = arrays_alloc(&own->arrays, members_count, sizeof *own->end_cost);
    rooms_make(own, by_link, 4, links, sizeof(uint32_t));
    rooms_make(own, by_member, 6, members_count + 2, sizeof(uint32_t));
    rooms_make(own, by_node, 4, nodes + 1, sizeof(uint32_t));
    rooms_make(own, node_numbers, 3, nodes + 1, sizeof(double));
    rooms_make(own, link_numbers, 2, links, sizeof(double));
    if (own->arrays.status)
        return false;
    memset(own->member_of, 0xff, ranks * sizeof *own->member_of);
    return true;
}

static tryst_status overlay_fill(struct overlay *overlay, const uint32_t *members,
                                 bool connected, struct err *err)
{
    struct overlay_private *own = overlay->own;
    uint32_t count = overlay->ranks_count;
    if (!private_room(own, count))
        return no_memory(err, count);
    tryst_status status = members_check(own, members, count, err);
    if (status != TRYST_OK)
        return status;
    inner_number(own);
    places_make(own, own->capacity); /* scratch: capacities are set later */
    into_members(own, count);
    status = givens_make(own, err);
    if (status == TRYST_OK)
        status = origins_open(own, count, err);
    if (status == TRYST_OK && connected)
        status = connected_check(own, count, err);
    if (status != TRYST_OK)
        return status;
    struct arrays scratch = {0};
    bool *link_used = arrays_alloc(&scratch, own->graph->links_count, sizeof(bool));
    bool *node_used = arrays_alloc(&scratch, own->inner_count + 1ul, sizeof(bool));
    bool *end_used = arrays_alloc(&scratch, count, sizeof(bool));
    if (scratch.status) {
        status = no_memory(err, count);
    } else {
        links_use(own, node_used, end_used, link_used);
        status = links_number(overlay, link_used, err);
    }
    arrays_free(&scratch);
    return status;
}

static tryst_status open_any(const struct graph *graph, const uint32_t *members,
                             uint32_t members_count, bool connected, struct err *err,
                             struct overlay **overlay_p)
{
    assert(graph->sealed);
    struct overlay *overlay = mem_zalloc(sizeof *overlay);
    struct overlay_private *own = mem_zalloc(sizeof *own);
    if (!overlay || !own) {
        mem_free(overlay);
        mem_free(own);
        return no_memory(err, members_count);
    }
    overlay->own = own;
    own->graph = overlay->graph = graph;
    overlay->ranks_count = members ? members_count : graph->ranks_count;
    tryst_status status = overlay_fill(overlay, members, connected, err);
    if (status != TRYST_OK) {
        overlay_close(overlay);
        return status;
    }
    overlay->links = own->links;
    overlay->capacity = own->capacity;
    *overlay_p = overlay;
    return TRYST_OK;
}

tryst_status overlay_open(const struct graph *graph, const uint32_t *members,
                          uint32_t members_count, struct err *err,
                          struct overlay **overlay_p)
{
    return open_any(graph, members, members_count, true, err, overlay_p);
}

tryst_status overlay_open_pair(const struct graph *graph, uint32_t from, uint32_t to,
                               struct err *err, struct overlay **overlay_p)
{
    const uint32_t members[] = {from, to};
    return open_any(graph, members, 2, false, err, overlay_p);
}
