/* SPDX-License-Identifier: Apache-2.0 */
/* See place.h. Ranks are first cut into runs of neighbours, one run (slot) for each
 * device in use. Then slots get devices: in the devices' order, by a greedy walk from
 * each device, and by a depth-first search, which leaves a branch if even the best links
 * for all other slots could not improve on the best arrangement; a second search finds
 * the first of the best arrangements in the devices' order. The result is exact for
 * existing machines (two searches over eight GPUs try at most 2 x 109,600 devices); if
 * the effort ends first, it is the best found so far. */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/arrays.h"

/* the most tries of a device for a slot, over all slots together */
#define EFFORT_MAX (1u << 20)

struct place_work {
    struct arrays arrays;
    const struct place_request *ask;
    uint32_t slots;
    struct place_links *links; /* best first; a link's class is its index */
    uint32_t classes;
    uint32_t *class_of; /* [devices × devices]: class of the link */
    /* [slots × slots]: weight of the pairs between two slots; symmetric */
    uint32_t *weights;
    /* [slots + 1]: weight of pairs with a slot from this one on */
    uint32_t *left;
    uint32_t *order, *best; /* [slots]: devices; current and best arrangement */
    /* [classes]: weight on each class of the current, best and in-order arrangement */
    uint32_t *cost, *least, *turn;
    /* [classes]: the least cost of the devices tried for a slot */
    uint32_t *trial;
    bool *used; /* [devices]: the device has a slot */
    uint32_t effort;
};

/* ---- links ------------------------------------------------------------------------- */

/* Compare two paths; above 0: a is better. Of one kind the wider is better; unknown
 * counts as narrowest. */
static int path_compare(const struct graph_path *a, const struct graph_path *b)
{
    enum path_kind left = graph_path_kind(a), right = graph_path_kind(b);
    if (left != right)
        return left > right ? 1 : -1;
    if (left == PATH_NONE || a->bytes_per_s == b->bytes_per_s)
        return 0;
    return a->bytes_per_s > b->bytes_per_s ? 1 : -1;
}

/* Find the paths between all devices: [devices × devices]. */
static tryst_status paths_between(struct place_work *work, struct graph_path *between)
{
    const struct place_request *ask = work->ask;
    uint32_t count = ask->devices_count;
    size_t nodes = ask->graph ? ask->graph->nodes_count + 1ul : 0;
    struct graph_path *paths = arrays_alloc(&work->arrays, nodes, sizeof *paths);
    tryst_status status = work->arrays.status;
    for (uint32_t i = 0; i < count * count; i++)
        between[i] = (struct graph_path){.hops = GRAPH_NONE};
    for (uint32_t i = 0; i < count && ask->graph && status == TRYST_OK; i++) {
        if (ask->nodes[i] == GRAPH_NONE)
            continue;
        status = graph_path_find_direct(ask->graph, ask->nodes[i], paths);
        for (uint32_t j = 0; j < count && status == TRYST_OK; j++)
            if (ask->nodes[j] != GRAPH_NONE)
                between[i * count + j] = paths[ask->nodes[j]];
    }
    return status;
}

/* Return the worse of the paths in both directions between two devices. */
static const struct graph_path *link_between(const struct graph_path *between,
                                             uint32_t count, uint32_t i, uint32_t j)
{
    const struct graph_path *there = &between[i * count + j],
                            *back = &between[j * count + i];
    return path_compare(there, back) > 0 ? back : there;
}

static int links_order(const void *a, const void *b)
{
    const struct place_links *left = a, *right = b;
    return -path_compare(&left->path, &right->path);
}

static uint32_t links_unique(struct place_links *links, uint32_t count)
{
    uint32_t kept = 0;
    qsort(links, count, sizeof *links, links_order);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || links_order(&links[kept - 1], &links[i]) != 0)
            links[kept++] = links[i];
    return kept;
}

static uint32_t class_find(const struct place_work *work, const struct graph_path *path)
{
    uint32_t i = 0;
    while (path_compare(&work->links[i].path, path) != 0)
        i++;
    return i;
}

static void classes_fill(struct place_work *work, const struct graph_path *between)
{
    uint32_t count = work->ask->devices_count;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            work->links[found++].path = *link_between(between, count, i, j);
    work->classes = links_unique(work->links, found);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (i != j)
                work->class_of[i * count + j] =
                    class_find(work, link_between(between, count, i, j));
}

static tryst_status links_find(struct place_work *work)
{
    size_t pairs = (size_t)work->ask->devices_count * work->ask->devices_count;
    struct graph_path *between = arrays_alloc(&work->arrays, pairs, sizeof *between);
    work->links = mem_zalloc_array(pairs, sizeof *work->links);
    work->class_of = arrays_alloc(&work->arrays, pairs, sizeof *work->class_of);
    if (work->arrays.status || !work->links)
        return TRYST_E_NOMEM;
    tryst_status status = paths_between(work, between);
    if (status == TRYST_OK)
        classes_fill(work, between);
    return status;
}

/* ---- weights ----------------------------------------------------------------------- */

static uint32_t slot_of(const struct place_work *work, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * work->slots / work->ask->ranks_count);
}

static void weight_add(struct place_work *work, struct place_pair pair)
{
    uint32_t a = slot_of(work, pair.a), b = slot_of(work, pair.b);
    if (a == b)
        return;
    work->weights[a * work->slots + b] += pair.weight;
    work->weights[b * work->slots + a] += pair.weight;
    work->left[a > b ? a : b] += pair.weight;
}

static void weights_fill(struct place_work *work)
{
    const struct place_request *ask = work->ask;
    for (uint32_t i = 0; ask->pairs && i < ask->pairs_count; i++)
        weight_add(work, ask->pairs[i]);
    for (uint32_t i = 0; !ask->pairs && i + 1 < ask->ranks_count; i++)
        weight_add(work, (struct place_pair){.a = i, .b = i + 1, .weight = 1});
    for (uint32_t i = work->slots; i > 0; i--)
        work->left[i - 1] += work->left[i];
}

/* ---- costs ------------------------------------------------------------------------- */

/* Compare two costs by their worst links first; below 0: a is better. */
static int cost_compare(const struct place_work *work, const uint32_t *a,
                        const uint32_t *b)
{
    for (uint32_t i = work->classes; i > 0; i--)
        if (a[i - 1] != b[i - 1])
            return a[i - 1] < b[i - 1] ? -1 : 1;
    return 0;
}

static uint32_t *cost_at(struct place_work *work, uint32_t one, uint32_t other)
{
    return &work->cost[work->class_of[one * work->ask->devices_count + other]];
}

static void slot_assign(struct place_work *work, uint32_t slot, uint32_t device)
{
    for (uint32_t i = 0; i < slot; i++) {
        uint32_t weight = work->weights[slot * work->slots + i];
        if (weight)
            *cost_at(work, device, work->order[i]) += weight;
    }
    work->order[slot] = device;
    work->used[device] = true;
}

static void slot_give(struct place_work *work, uint32_t slot)
{
    uint32_t device = work->order[slot];
    for (uint32_t i = 0; i < slot; i++) {
        uint32_t weight = work->weights[slot * work->slots + i];
        if (weight)
            *cost_at(work, device, work->order[i]) -= weight;
    }
    work->used[device] = false;
}

static void all_give(struct place_work *work)
{
    for (uint32_t slot = work->slots; slot > 0; slot--)
        slot_give(work, slot - 1);
}

/* Keep the current arrangement if it is better than the best so far. */
static void order_keep(struct place_work *work)
{
    if (cost_compare(work, work->cost, work->least) >= 0)
        return;
    memcpy(work->least, work->cost, work->classes * sizeof *work->least);
    memcpy(work->best, work->order, work->slots * sizeof *work->best);
}

/* ---- arrangements ------------------------------------------------------------------ */

static void order_identity_set(struct place_work *work)
{
    for (uint32_t slot = 0; slot < work->slots; slot++)
        slot_assign(work, slot, slot);
    memcpy(work->turn, work->cost, work->classes * sizeof *work->turn);
    memcpy(work->least, work->cost, work->classes * sizeof *work->least);
    memcpy(work->best, work->order, work->slots * sizeof *work->best);
    all_give(work);
}

/* Return the device that adds the least cost for `slot`. */
static uint32_t device_cheapest(struct place_work *work, uint32_t slot)
{
    uint32_t cheapest = GRAPH_NONE;
    for (uint32_t device = 0; device < work->ask->devices_count; device++) {
        if (work->used[device])
            continue;
        slot_assign(work, slot, device);
        if (cheapest == GRAPH_NONE || cost_compare(work, work->cost, work->trial) < 0) {
            cheapest = device;
            memcpy(work->trial, work->cost, work->classes * sizeof *work->trial);
        }
        slot_give(work, slot);
    }
    return cheapest;
}

static void order_greedy(struct place_work *work)
{
    for (uint32_t first = 0; first < work->ask->devices_count; first++) {
        slot_assign(work, 0, first);
        for (uint32_t slot = 1; slot < work->slots; slot++)
            slot_assign(work, slot, device_cheapest(work, slot));
        order_keep(work);
        all_give(work);
    }
}

/* Compare the least possible cost of the current partial arrangement (all other slots on
 * the best links) with the least cost so far; below 0: it may become better. */
static int outlook_compare(struct place_work *work, uint32_t slots_placed)
{
    if (work->classes == 0)
        return 0;
    work->cost[0] += work->left[slots_placed];
    int order = cost_compare(work, work->cost, work->least);
    work->cost[0] -= work->left[slots_placed];
    return order;
}

/* Search depth first. If `first`: stop at the first arrangement as good as the best, and
 * return true. Else keep the best of all arrangements that may be better. */
static bool order_search(struct place_work *work, uint32_t slot, bool first)
{
    bool found = false;
    if (slot == work->slots) {
        if (first)
            memcpy(work->best, work->order, work->slots * sizeof *work->best);
        else
            order_keep(work);
        return first;
    }
    for (uint32_t device = 0; device < work->ask->devices_count && !found; device++) {
        if (work->used[device] || work->effort == 0)
            continue;
        work->effort--;
        slot_assign(work, slot, device);
        found = outlook_compare(work, slot + 1) < first &&
                order_search(work, slot + 1, first);
        slot_give(work, slot);
    }
    return found;
}

/* ---- the whole --------------------------------------------------------------------- */

static tryst_status work_open(const struct place_request *ask, struct place_work *work)
{
    uint32_t devices = ask->devices_count;
    uint32_t slots = devices < ask->ranks_count ? devices : ask->ranks_count;
    *work = (struct place_work){.ask = ask, .slots = slots, .effort = EFFORT_MAX};
    tryst_status status = links_find(work);
    if (status != TRYST_OK)
        return status;
    struct arrays *arrays = &work->arrays;
    work->weights = arrays_alloc(arrays, (size_t)slots * slots, sizeof *work->weights);
    work->left = arrays_alloc(arrays, slots + 1, sizeof *work->left);
    work->order = arrays_alloc(arrays, slots, sizeof *work->order);
    work->best = arrays_alloc(arrays, slots, sizeof *work->best);
    work->cost = arrays_alloc(arrays, work->classes + 1, sizeof *work->cost);
    work->least = arrays_alloc(arrays, work->classes + 1, sizeof *work->least);
    work->turn = arrays_alloc(arrays, work->classes + 1, sizeof *work->turn);
    work->trial = arrays_alloc(arrays, work->classes + 1, sizeof *work->trial);
    work->used = arrays_alloc(arrays, devices, sizeof *work->used);
    return arrays->status;
}

/* Return the result by rank; the links move from `work` to `place_p`. */
static tryst_status place_fill_result(struct place_work *work, struct place *place_p)
{
    const struct place_request *ask = work->ask;
    struct place place = {.links = work->links,
                          .links_count = work->classes,
                          .in_order = true,
                          .devices =
                              mem_zalloc_array(ask->ranks_count, sizeof(uint32_t))};
    if (!place.devices)
        return TRYST_E_NOMEM;
    work->links = NULL;
    for (uint32_t rank = 0; rank < ask->ranks_count; rank++)
        place.devices[rank] = work->best[slot_of(work, rank)];
    for (uint32_t i = 0; i < work->classes; i++) {
        place.links[i].chosen = work->least[i];
        place.links[i].in_turn = work->turn[i];
    }
    for (uint32_t i = 0; i < work->slots; i++)
        place.in_order = place.in_order && work->best[i] == i;
    for (uint32_t i = 0; i < ask->devices_count; i++)
        place.unknown_count += !ask->graph || ask->nodes[i] == GRAPH_NONE;
    *place_p = place;
    return TRYST_OK;
}

tryst_status place_decide(const struct place_request *ask, struct place *place_p)
{
    struct place_work work;
    tryst_status status = work_open(ask, &work);
    if (status == TRYST_OK) {
        weights_fill(&work);
        order_identity_set(&work);
        order_greedy(&work);
        (void)order_search(&work, 0, false);
        (void)order_search(&work, 0, true);
        status = place_fill_result(&work, place_p);
    }
    arrays_free(&work.arrays);
    mem_free(work.links);
    return status;
}

void place_drop(struct place *place)
{
    mem_free(place->devices);
    mem_free(place->links);
}

/* ---- addresses --------------------------------------------------------------------- */

/* Read "0000:3b:00.0" as one number. Returns false if `text` is malformed. */
static bool bus_read(const char *text, uint64_t *number_p)
{
    static const int shifts[] = {16, 8, 3, 0};
    static const char ends[] = {':', ':', '.', '\0'};
    uint64_t number = 0;
    for (int i = 0; i < 4; i++) {
        char *end;
        unsigned long part = strtoul(text, &end, 16);
        if (end == text || *end != ends[i])
            return false;
        number |= (uint64_t)part << shifts[i];
        text = end + 1;
    }
    *number_p = number;
    return true;
}

uint32_t place_node(const struct graph *graph, const char *bus_id)
{
    uint64_t wanted, found;
    if (!bus_id || !bus_read(bus_id, &wanted))
        return GRAPH_NONE;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        if (graph->nodes[i].pci && bus_read(graph->nodes[i].pci, &found) &&
            found == wanted)
            return i;
    return GRAPH_NONE;
}
