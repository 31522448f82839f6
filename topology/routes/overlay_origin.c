/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Origins of an overlay: one search each; see overlay_own.h.
 *
 * One idea: a breadth-first search over inner nodes gives levels; the links that lead one
 * level on form all shortest routes; a pass over them in that order gives the width to
 * each end.
 * Invariant: all results are in the order of the graph's links, so equal graphs give
 * equal origins.
 */
#include "overlay_origin.h"

#include <stdlib.h>
#include <string.h>

/* Memory for counts of routes; if all counts need more, none are kept and each use
 * recomputes them. */
#define COUNTS_BYTES_MAX (256ul << 20)
/* If a count of a level is above COUNT_LARGE, the level's counts are divided by it; a
 * count does not fall below COUNT_SMALL, which keeps it a normal number. */
#define COUNT_LARGE 0x1p512
#define COUNT_SMALL 0x1p-1000

/* Scratch memory of a search; all searches share it. */
struct search {
    uint32_t *width;             /* by inner node: place of the width from the origin */
    bool *places;                /* by place: the place separates two classes */
    bool *classes;               /* by class: some pair of ranks needs it */
    struct route_link *end_into; /* of the present origin */
};

static bool link_is_alive(const struct overlay_private *own, uint32_t link)
{
    return !own->graph->links[link].down;
}

/* ---- list of origins --------------------------------------------------------------- */

/* Find the only live link that leaves `node`; GRAPH_NONE if there are none or several. */
static uint32_t only_link(const struct overlay_private *own, uint32_t node)
{
    const struct graph *graph = own->graph;
    uint32_t only = GRAPH_NONE;
    for (uint32_t k = graph->out_first[node]; k < graph->out_first[node + 1]; k++) {
        if (!link_is_alive(own, graph->out_next[k]))
            continue;
        if (only != GRAPH_NONE)
            return GRAPH_NONE;
        only = graph->out_next[k];
    }
    return only;
}

/* Find the origin of a member, and the member's link to it (GRAPH_NONE: the member is the
 * origin). */
static uint32_t origin_node(const struct overlay_private *own, uint32_t member,
                            uint32_t *up_p)
{
    uint32_t node = own->graph->ranks[own->members[member]];
    uint32_t link = only_link(own, node);
    *up_p = GRAPH_NONE;
    if (link == GRAPH_NONE || own->inner_of[own->graph->links[link].to] == GRAPH_NONE)
        return node;
    *up_p = link;
    return own->graph->links[link].to;
}

/* Number the origins in the order of their first members. `number`, by graph node, is
 * scratch. */
static bool origins_number(struct overlay_private *own, uint32_t members_count,
                           uint32_t *number)
{
    memset(number, 0xff, own->graph->nodes_count * sizeof *number);
    for (uint32_t i = 0; i < members_count; i++) {
        uint32_t node = origin_node(own, i, &own->up[i]);
        if (number[node] == GRAPH_NONE)
            number[node] = own->origins_count++;
        own->origin_of[i] = number[node];
    }
    own->origins = arrays_alloc(&own->arrays, own->origins_count, sizeof *own->origins);
    if (!own->origins)
        return false;
    for (uint32_t i = 0; i < members_count; i++) {
        struct origin *origin = &own->origins[own->origin_of[i]];
        uint32_t up = own->up[i];
        origin->members_count++;
        origin->node = up == GRAPH_NONE ? own->graph->ranks[own->members[i]]
                                        : own->graph->links[up].to;
        origin->inner = up == GRAPH_NONE ? own->inner_count : own->inner_of[origin->node];
    }
    return true;
}

static void members_sort(struct overlay_private *own, uint32_t members_count)
{
    uint32_t first = 0;
    for (uint32_t o = 0; o < own->origins_count; o++) {
        own->origins[o].members_first = first;
        first += own->origins[o].members_count;
        own->origins[o].members_count = 0;
    }
    for (uint32_t i = 0; i < members_count; i++) {
        struct origin *origin = &own->origins[own->origin_of[i]];
        own->by_origin[origin->members_first + origin->members_count++] = i;
    }
}

/* ---- one search -------------------------------------------------------------------- */

static uint32_t inner_node(const struct overlay_private *own, const struct origin *origin,
                           uint32_t inner)
{
    return inner == origin->inner ? origin->node : own->node_of[inner];
}

/* Run the statement for each live link from `inner` to an inner node. */
#define FOR_OUT_LINKS(own, origin, inner, link, to)                 \
    for (uint32_t node_ = inner_node(own, origin, inner),           \
                  k_ = (own)->graph->out_first[node_], link, to;    \
         k_ < (own)->graph->out_first[node_ + 1] &&                 \
         (link = (own)->graph->out_next[k_],                        \
         to = (own)->inner_of[(own)->graph->links[link].to], true); \
         k_++)                                                      \
        if (link_is_alive(own, link) && to != GRAPH_NONE)

static void levels_find(const struct overlay_private *own, struct origin *origin)
{
    memset(origin->level, 0xff, (own->inner_count + 1ul) * sizeof *origin->level);
    origin->level[origin->inner] = 0;
    origin->order[0] = origin->inner;
    origin->order_count = 1;
    for (uint32_t k = 0; k < origin->order_count; k++) {
        uint32_t at = origin->order[k];
        FOR_OUT_LINKS(own, origin, at, link, to)
        {
            if (origin->level[to] != GRAPH_NONE)
                continue;
            origin->level[to] = origin->level[at] + 1;
            origin->order[origin->order_count++] = to;
        }
    }
}

/* List the links that lead from one level to the next, by the node that they enter. */
static bool into_fill(struct overlay_private *own, struct origin *origin)
{
    /* shifted by one: filling moves each beginning to its final value */
    uint32_t *from = origin->into_from + 1;
    for (uint32_t k = 0; k < origin->order_count; k++) {
        uint32_t at = origin->order[k];
        FOR_OUT_LINKS(own, origin, at, link, to)
        if (origin->level[to] == origin->level[at] + 1)
            from[to + 1]++;
    }
    for (uint32_t v = 0; v <= own->inner_count; v++)
        from[v + 1] += from[v];
    origin->into =
        arrays_alloc(&own->arrays, from[own->inner_count + 1], sizeof *origin->into);
    if (!origin->into)
        return false;
    for (uint32_t k = 0; k < origin->order_count; k++) {
        uint32_t at = origin->order[k];
        FOR_OUT_LINKS(own, origin, at, link, to)
        if (origin->level[to] == origin->level[at] + 1)
            origin->into[from[to]++] = (struct route_link){at, link};
    }
    return true;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void widths_find(const struct overlay_private *own, const struct origin *origin,
                        struct search *search)
{
    search->width[origin->inner] = UINT32_MAX;
    for (uint32_t k = 1; k < origin->order_count; k++) {
        uint32_t at = origin->order[k], width = 0;
        for (uint32_t l = origin->into_from[at]; l < origin->into_from[at + 1]; l++) {
            const struct route_link *into = &origin->into[l];
            width = most(width, least(search->width[into->from], own->place[into->link]));
            search->places[own->place[into->link]] = true;
        }
        search->width[at] = width;
    }
}

/* Find length and width of the routes to one member. Returns false if there are none. */
static bool end_find(const struct overlay_private *own, const struct origin *origin,
                     const struct search *search, struct route_end *end)
{
    uint32_t first = own->into_from[end->member], last = own->into_from[end->member + 1];
    end->hops = GRAPH_NONE;
    for (uint32_t k = first; k < last; k++) {
        uint32_t link = own->into_link[k];
        uint32_t inner = origin_inner(own, origin, own->graph->links[link].from);
        if (inner == GRAPH_NONE || origin->level[inner] == GRAPH_NONE ||
            origin->level[inner] + 1 > end->hops)
            continue;
        uint32_t width = least(search->width[inner], own->place[link]);
        if (origin->level[inner] + 1 < end->hops)
            end->class = 0; /* holds the width until classes are numbered */
        end->hops = origin->level[inner] + 1;
        end->class = most(end->class, width);
    }
    if (end->hops == GRAPH_NONE)
        return false;
    return true;
}

/* Add the links by which shortest routes enter `end`. */
static void end_into_add(const struct overlay_private *own, const struct origin *origin,
                         const struct search *search, uint32_t room_first,
                         struct route_end *end)
{
    uint32_t first = own->into_from[end->member], last = own->into_from[end->member + 1];
    end->into_first = room_first;
    for (uint32_t k = first; k < last; k++) {
        uint32_t link = own->into_link[k];
        uint32_t inner = origin_inner(own, origin, own->graph->links[link].from);
        if (inner == GRAPH_NONE || origin->level[inner] == GRAPH_NONE ||
            origin->level[inner] + 1 != end->hops)
            continue;
        search->end_into[room_first + end->into_count++] =
            (struct route_link){inner, link};
        if (last - first > 1)
            search->places[own->place[link]] = true;
    }
}

static bool ends_find(struct overlay_private *own, struct origin *origin,
                      uint32_t members_count, struct search *search)
{
    uint32_t into_count = 0;
    for (uint32_t j = 0; j < members_count; j++) {
        struct route_end end = {.member = j};
        if (own->graph->ranks[own->members[j]] == origin->node ||
            !end_find(own, origin, search, &end))
            continue;
        end_into_add(own, origin, search, into_count, &end);
        into_count += end.into_count;
        origin->ends[origin->ends_count++] = end;
    }
    origin->end_into =
        arrays_copy(&own->arrays, search->end_into, into_count, sizeof *origin->end_into);
    return origin->end_into != NULL;
}

/* ---- classes ----------------------------------------------------------------------- */

/* Return the class of a width, which is given by its place. */
static uint32_t origin_class(const struct origin *origin, uint32_t place)
{
    uint32_t low = 0, high = origin->steps_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (origin->steps[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int ends_compare(const void *a, const void *b)
{
    const struct route_end *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->member < y->member ? -1 : x->member > y->member;
}

static bool steps_make(struct overlay_private *own, struct origin *origin,
                       const struct search *search)
{
    for (uint32_t p = 0; p < own->places_count; p++)
        origin->steps_count += search->places[p];
    origin->steps =
        arrays_alloc(&own->arrays, origin->steps_count, sizeof *origin->steps);
    if (!origin->steps)
        return false;
    uint32_t count = 0;
    for (uint32_t p = 0; p < own->places_count; p++)
        if (search->places[p])
            origin->steps[count++] = p;
    return true;
}

static void ends_class(const struct overlay_private *own, struct origin *origin,
                       uint32_t members_count)
{
    for (uint32_t k = 0; k < origin->ends_count; k++)
        origin->ends[k].class = origin_class(origin, origin->ends[k].class);
    qsort(origin->ends, origin->ends_count, sizeof *origin->ends, ends_compare);
    memset(origin->end_of, 0xff, members_count * sizeof *origin->end_of);
    for (uint32_t k = 0; k < origin->ends_count; k++)
        origin->end_of[origin->ends[k].member] = k;
    for (uint32_t k = 0; k < origin->members_count; k++) {
        uint32_t member = own->by_origin[origin->members_first + k];
        own->up_class[member] = own->up[member] == GRAPH_NONE
                                    ? origin->steps_count
                                    : origin_class(origin, own->place[own->up[member]]);
    }
}

/* List the classes that some pair of ranks needs. */
static bool classes_make(struct overlay_private *own, struct origin *origin,
                         struct search *search)
{
    memset(search->classes, 0, origin->steps_count + 1ul);
    for (uint32_t k = 0; k < origin->members_count; k++) {
        uint32_t member = own->by_origin[origin->members_first + k];
        for (uint32_t e = 0; e < origin->ends_count; e++)
            if (origin->ends[e].member != member)
                search->classes[pair_class(own, member, &origin->ends[e])] = true;
    }
    uint32_t count = 0;
    for (uint32_t c = 0; c <= origin->steps_count; c++)
        count += search->classes[c];
    origin->classes = arrays_alloc(&own->arrays, count, sizeof *origin->classes);
    if (!origin->classes)
        return false;
    for (uint32_t c = 0; c <= origin->steps_count; c++)
        if (search->classes[c])
            origin->classes[origin->classes_count++] = (struct route_class){
                c, c < origin->steps_count ? origin->steps[c] : UINT32_MAX, NULL};
    return true;
}

static bool origin_open(struct overlay_private *own, struct origin *origin,
                        uint32_t members_count, struct search *search)
{
    struct arrays *arrays = &own->arrays;
    size_t inner = own->inner_count + 1ul;
    origin->order = arrays_alloc(arrays, inner, sizeof *origin->order);
    origin->level = arrays_alloc(arrays, inner, sizeof *origin->level);
    origin->into_from = arrays_alloc(arrays, inner + 2, sizeof *origin->into_from);
    origin->ends = arrays_alloc(arrays, members_count, sizeof *origin->ends);
    origin->end_of = arrays_alloc(arrays, members_count, sizeof *origin->end_of);
    if (arrays->status)
        return false;
    levels_find(own, origin);
    if (!into_fill(own, origin))
        return false;
    memset(search->places, 0, own->places_count);
    widths_find(own, origin, search);
    if (!ends_find(own, origin, members_count, search) ||
        !steps_make(own, origin, search))
        return false;
    ends_class(own, origin, members_count);
    return classes_make(own, origin, search);
}

/* ---- counts ------------------------------------------------------------------------ */

/* Scale down the counts of the level order[first] … order[last - 1] if one is too
 * large. */
static void level_scale(const struct origin *origin, uint32_t first, uint32_t last,
                        double *counts)
{
    double large = 0;
    for (uint32_t k = first; k < last; k++)
        if (counts[origin->order[k]] > large)
            large = counts[origin->order[k]];
    if (large <= COUNT_LARGE)
        return;
    for (uint32_t k = first; k < last; k++) {
        double *count = &counts[origin->order[k]];
        if (*count > 0) /* 0 means no route of this width and stays 0 */
            *count =
                *count / COUNT_LARGE > COUNT_SMALL ? *count / COUNT_LARGE : COUNT_SMALL;
    }
}

void origin_count(const struct overlay_private *own, const struct origin *origin,
                  uint32_t place_min, double *counts_p)
{
    uint32_t level_first = 0;
    counts_p[origin->inner] = 1;
    for (uint32_t k = 1; k < origin->order_count; k++) {
        uint32_t at = origin->order[k];
        if (origin->level[at] != origin->level[origin->order[k - 1]]) {
            level_scale(origin, level_first, k, counts_p);
            level_first = k;
        }
        double count = 0;
        for (uint32_t l = origin->into_from[at]; l < origin->into_from[at + 1]; l++)
            if (own->place[origin->into[l].link] >= place_min)
                count += counts_p[origin->into[l].from];
        counts_p[at] = count;
    }
    level_scale(origin, level_first, origin->order_count, counts_p);
}

static bool counts_keep(struct overlay_private *own)
{
    size_t classes_count = 0, node_count = own->inner_count + 1ul;
    for (uint32_t o = 0; o < own->origins_count; o++)
        classes_count += own->origins[o].classes_count;
    if (classes_count > COUNTS_BYTES_MAX / sizeof(double) / node_count)
        return true;
    double *counts =
        arrays_alloc(&own->arrays, classes_count * node_count, sizeof *counts);
    if (!counts)
        return false;
    for (uint32_t o = 0; o < own->origins_count; o++) {
        struct origin *origin = &own->origins[o];
        for (uint32_t c = 0; c < origin->classes_count; c++, counts += node_count) {
            origin->classes[c].counts = counts;
            origin_count(own, origin, origin->classes[c].place_min, counts);
        }
    }
    return true;
}

/* ---- all of them ------------------------------------------------------------------- */

tryst_status origins_open(struct overlay_private *own, uint32_t members_count,
                          struct err *err)
{
    struct arrays scratch = {0};
    uint32_t into_count = own->into_from[members_count];
    struct search search = {
        .width = arrays_alloc(&scratch, own->inner_count + 1ul, sizeof *search.width),
        .places = arrays_alloc(&scratch, own->places_count, sizeof *search.places),
        .classes =
            arrays_alloc(&scratch, own->places_count + 1ul, sizeof *search.classes),
        .end_into = arrays_alloc(&scratch, into_count, sizeof *search.end_into),
    };
    uint32_t *number = arrays_alloc(&scratch, own->graph->nodes_count, sizeof *number);
    bool fine = !scratch.status && origins_number(own, members_count, number);
    if (fine)
        members_sort(own, members_count);
    for (uint32_t o = 0; fine && o < own->origins_count; o++)
        fine = origin_open(own, &own->origins[o], members_count, &search);
    fine = fine && counts_keep(own);
    arrays_free(&scratch);
    return fine ? TRYST_OK
                : err_set(err, TRYST_E_NOMEM,
                          "cannot find routes of %u ranks: out of memory", members_count);
}
