/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which links look alike: the symmetry of a network, as far as counting neighbours shows
 * it.
 *
 * One idea: ranks start with one colour, all other nodes with another; each round splits
 * colours by the rates of their nodes' links and the colours at the links' other ends
 * (colour refinement, the 1-dimensional form of Weisfeiler and Leman 1968). Links between
 * the same colours at the same rate are a class. Links that a symmetry of the network
 * exchanges are in one class, and prices may be averaged over the class.
 * Invariant: classes affect speed and the tightness of the bound, never its truth: equal
 * prices within a class prove a bound, whether the class is a symmetry or not.
 */
#include "plan_class.h"

#include <stdlib.h>
#include <string.h>

#include "core/text/hash.h"

#define ROUNDS 6 /* trees of switches are rarely deeper */

static void colours_refine(const struct overlay *overlay, const uint64_t *before,
                           uint64_t *after)
{
    const struct graph *graph = overlay->graph;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        after[i] = hash_bytes(&before[i], sizeof before[i]);
    for (uint32_t i = 0; i < overlay->links_count; i++) {
        const struct graph_link *link = &graph->links[overlay->links[i]];
        uint64_t out[3] = {1, before[link->to], 0}, in[3] = {2, before[link->from], 0};
        memcpy(&out[2], &overlay->capacity[i], sizeof out[2]);
        memcpy(&in[2], &overlay->capacity[i], sizeof in[2]);
        /* sums, so the order of the links does not matter */
        after[link->from] += hash_bytes(out, sizeof out);
        after[link->to] += hash_bytes(in, sizeof in);
    }
}

struct keyed {
    uint64_t key;
    uint32_t link;
};

static int keyed_order(const void *left, const void *right)
{
    const struct keyed *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->link < b->link ? -1 : a->link > b->link;
}

/* Hash a link's end colours and rate; with `mirrored` both directions of a wire have one
 * key. */
static uint64_t link_key(const struct overlay *overlay, const uint64_t *colour,
                         uint32_t link, bool mirrored)
{
    const struct graph_link *wire = &overlay->graph->links[overlay->links[link]];
    uint64_t part[3] = {colour[wire->from], colour[wire->to], 0};
    memcpy(&part[2], &overlay->capacity[link], sizeof part[2]);
    if (mirrored && part[0] > part[1]) {
        part[0] = colour[wire->to];
        part[1] = colour[wire->from];
    }
    return hash_bytes(part, sizeof part);
}

tryst_status plan_classes(const struct plan_work *work, uint32_t *class_p,
                          uint32_t *count_p)
{
    const struct overlay *overlay = work->overlay;
    uint32_t nodes = overlay->graph->nodes_count, links = overlay->links_count;
    struct arrays scratch = {0};
    uint64_t *colour = arrays_alloc(&scratch, 2 * (size_t)nodes, sizeof *colour);
    struct keyed *keyed = arrays_alloc(&scratch, links, sizeof *keyed);
    if (!scratch.status) {
        for (uint32_t i = 0; i < nodes; i++)
            colour[i] = overlay->graph->nodes[i].kind == NODE_RANK;
        for (int round = 0; round < ROUNDS; round++) {
            colours_refine(overlay, colour, colour + nodes);
            memcpy(colour, colour + nodes, nodes * sizeof *colour);
        }
        for (uint32_t i = 0; i < links; i++)
            keyed[i] = (struct keyed){link_key(overlay, colour, i, work->mirrored), i};
        qsort(keyed, links, sizeof *keyed, keyed_order);
        uint32_t count = 0;
        for (uint32_t i = 0; i < links; i++) {
            count += i == 0 || keyed[i].key != keyed[i - 1].key;
            class_p[keyed[i].link] = count - 1;
        }
        *count_p = count;
    }
    arrays_free(&scratch);
    return scratch.status;
}
