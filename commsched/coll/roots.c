/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather and reduce-scatter: each rank is the root of trees for its own block.
 *
 * Idea: an all-gather is a broadcast from each rank, a reduce-scatter a reduction to each rank, over the plan's trees
 * with another root. Then both directions of an edge move different blocks, each byte once. All trees are under way at a
 * time, so neither bandwidth nor the depth of a tree counts n times.
 * Invariant: parts are in the order of roots and trees on all ranks. So a directed edge of a tree is used in the same order
 * at both ends, and one key serves all roots.
 * Callers: parts.c.
 */
#include "core/alloc.h"
#include "core/refuse.h"
#include "map.h"
#include "parts.h"

static const char prepare_call[] = "prepare a collective";

struct roots {
    tryst_coll *coll;
    const struct coll_plan *plan;
    const struct coll_blocks *blocks; /**< of the tensor that has all blocks */
    struct coll_edges edges;          /**< room for any rank's neighbours */
    struct coll_shared_keys shared;
};

static const struct coll_class *class_of(const struct roots *roots, int32_t root)
{
    uint64_t count = coll_block_count(roots->blocks, root);
    return coll_class_of(roots->plan, count * roots->coll->element_bytes);
}

/** Set where the part lies in both tensors: this rank's own block is in the other one, too. */
static void part_place(const struct roots *roots, struct coll_part *part, int32_t root)
{
    const tryst_coll *coll = roots->coll;
    uint64_t begin = part->range.begin;
    uint64_t all_at =
        (coll_block_offset(roots->blocks, root) + begin) * coll->element_bytes;
    uint64_t own_at =
        root == coll_rank(coll) ? begin * coll->element_bytes : COLL_NOWHERE;
    bool gathers = coll->kind == TRYST_COLL_ALLGATHER;
    part->in_at = gathers ? own_at : all_at;
    part->out_at = gathers ? all_at : own_at;
}

static tryst_status part_add(struct roots *roots, const struct coll_class *class,
                             uint32_t tree, int32_t root)
{
    tryst_coll *coll = roots->coll;
    bool up = coll->kind == TRYST_COLL_REDUCE_SCATTER;
    struct coll_range range = coll_range_of(
        class, tree, coll_block_count(roots->blocks, root), coll->element_bytes);
    struct coll_part *part;
    if (!range.count && tree)
        return TRYST_OK;
    tryst_status status = coll_part_add(coll, range, class->slice_bytes, &part);
    if (status != TRYST_OK)
        return status;
    part_place(roots, part, root);
    coll_edges_find(roots->plan, &class->trees[tree], up, root, &roots->edges);
    status = coll_phase_add(coll, part, tree, up ? COLL_UP : COLL_DOWN, &roots->edges,
                            &roots->shared);
    if (up)
        coll_private_place(coll, part);
    return status;
}

/** Allocate for all parts. */
static tryst_status roots_alloc(struct roots *roots)
{
    uint64_t parts = 0, flows = 0;
    uint32_t edges_max = 0, trees_max = 0;
    for (int32_t root = 0; root < roots->coll->size; root++) {
        const struct coll_class *class = class_of(roots, root);
        trees_max = class->trees_count > trees_max ? class->trees_count : trees_max;
        parts += class->trees_count;
        for (uint32_t t = 0; t < class->trees_count; t++) {
            uint32_t edges = coll_edges_max(&class->trees[t]);
            edges_max = edges > edges_max ? edges : edges_max;
            flows += edges + 1;
        }
    }
    roots->shared.peers = (uint32_t)roots->coll->size;
    roots->shared.keys = mem_zalloc_array((size_t)trees_max * 2 * roots->shared.peers,
                                          sizeof *roots->shared.keys);
    roots->edges.children = mem_alloc(edges_max * sizeof *roots->edges.children);
    if (!roots->shared.keys || !roots->edges.children)
        return refuse_nomem(prepare_call);
    return coll_parts_alloc(roots->coll, parts, flows);
}

tryst_status coll_roots_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    struct roots roots = {.coll = coll, .plan = plan};
    roots.blocks =
        coll->kind == TRYST_COLL_ALLGATHER ? &coll->out_blocks : &coll->in_blocks;
    tryst_status status = roots_alloc(&roots);
    for (int32_t root = 0; root < coll->size && status == TRYST_OK; root++) {
        const struct coll_class *class = class_of(&roots, root);
        for (uint32_t t = 0; t < class->trees_count && status == TRYST_OK; t++)
            status = part_add(&roots, class, t, root);
    }
    mem_free(roots.shared.keys);
    mem_free(roots.edges.children);
    return status;
}
