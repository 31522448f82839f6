/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of collectives of blocks.
 *
 * Idea: an all-gather is a broadcast from each rank, and a reduce-scatter a reduction to
 * each rank, over the plan's trees with another root. So both directions of an edge move
 * different blocks, and each byte crosses an edge once. All trees are under way at a
 * time, so neither bandwidth nor the depth of a tree counts n times. Where the plan has
 * one tree for each root, with equal shares (stars, a ring), and the blocks are equal, a
 * block moves over the tree of its root alone: the links carry the same bytes in a part
 * of the flows. All-to-all, gather and scatter are lists of flows. A flow between two
 * ranks is a tree of two, rooted at the sender. In lists, a rank's own block is a part
 * without flows, and only copied.
 *
 * Invariant: parts with a root are in the order of roots and trees on all ranks. So both
 * ends of a tree's directed edge use the edge in the same order, and one key serves all
 * roots. In lists a pair uses a key once, and a block without elements has a flow, too,
 * so that both ends compare counts.
 */
#include "block_parts.h"

#include <inttypes.h>

#include "collectives/tree/map.h"
#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "parts.h"

/* ---- a tree for each root ---------------------------------------------------------- */

static const char prepare_call[] = "prepare a collective";

struct roots {
    tryst_coll *coll;
    const struct coll_plan *plan;
    const struct coll_blocks *blocks; /**< blocks of the tensor that has all of them */
    struct coll_edges edges;          /**< room for this rank's neighbours in any tree */
    struct coll_shared_keys shared;
    bool is_direct; /**< each block takes the tree of its root alone */
};

/* Return the class of the block of `root`. */
static const struct coll_class *class_at(const struct roots *roots, int32_t root)
{
    uint64_t count = coll_block_count(roots->blocks, root);
    return coll_class_of(roots->plan, count * roots->coll->element_bytes);
}

/* Set the part's offsets in both tensors. Only this rank's own block is in both. */
static void part_place(const struct roots *roots, struct coll_part *part, int32_t root)
{
    const tryst_coll *coll = roots->coll;
    uint64_t begin = part->range.begin;
    uint64_t all_at =
        (coll_block_offset(roots->blocks, root) + begin) * coll->element_bytes;
    uint64_t own_at = root == coll->rank ? begin * coll->element_bytes : COLL_NOWHERE;
    bool gathers = coll->kind == TRYST_COLL_ALLGATHER;
    part->in_at = gathers ? own_at : all_at;
    part->out_at = gathers ? all_at : own_at;
}

static tryst_status part_add(struct roots *roots, const struct coll_class *class,
                             uint32_t tree, struct coll_range range, int32_t root)
{
    tryst_coll *coll = roots->coll;
    bool up = coll->kind == TRYST_COLL_REDUCE_SCATTER;
    struct coll_part *part;
    tryst_status status =
        coll_part_add(coll, range, coll_slice_bytes(class, tree), &part);
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

/* Allocate the memory of all parts. */
static tryst_status roots_alloc(struct roots *roots)
{
    uint64_t parts = 0, flows = 0;
    uint32_t edges_max = 0, trees_max = 0;
    for (int32_t root = 0; root < roots->coll->size; root++) {
        const struct coll_class *class = class_at(roots, root);
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

/* True if all blocks have one count. */
static bool blocks_are_equal(const struct coll_blocks *blocks, int32_t size)
{
    for (int32_t rank = 1; blocks->counts && rank < size; rank++)
        if (blocks->counts[rank] != blocks->counts[0])
            return false;
    return true;
}

/* Return the range of a root's block that a tree moves. */
static struct coll_range range_of(const struct roots *roots,
                                  const struct coll_class *class, uint32_t tree,
                                  int32_t root)
{
    uint64_t count = coll_block_count(roots->blocks, root);
    if (!roots->is_direct)
        return coll_range_of(class, tree, count, roots->coll->element_bytes);
    bool moves = tree == coll_tree_of_root(class, root);
    return (struct coll_range){0, moves ? count : 0};
}

/* Add the parts of one root's block. Tree 0 always has one, since ranks that disagree
 * about the size meet there. */
static tryst_status root_add(struct roots *roots, int32_t root)
{
    const struct coll_class *class = class_at(roots, root);
    tryst_status status = TRYST_OK;
    for (uint32_t t = 0; t < class->trees_count && status == TRYST_OK; t++) {
        struct coll_range range = range_of(roots, class, t, root);
        if (range.count || !t)
            status = part_add(roots, class, t, range, root);
    }
    return status;
}

static tryst_status roots_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    struct roots roots = {.coll = coll, .plan = plan};
    roots.blocks =
        coll->kind == TRYST_COLL_ALLGATHER ? &coll->out_blocks : &coll->in_blocks;
    roots.is_direct = blocks_are_equal(roots.blocks, coll->size) &&
                      coll_has_tree_for_each_root(class_at(&roots, 0), plan->size);
    tryst_status status = roots_alloc(&roots);
    for (int32_t root = 0; root < coll->size && status == TRYST_OK; root++)
        status = root_add(&roots, root);
    mem_free(roots.shared.keys);
    mem_free(roots.edges.children);
    return status;
}

/* ---- a flow for each pair ---------------------------------------------------------- */

/* Append the part of block `rank` of `in` or of `out`; of the whole tensor if the
 * tensor has no blocks. */
static tryst_status block_add(tryst_coll *coll, uint32_t slice_bytes, int32_t rank,
                              bool of_out, struct coll_part **part_p)
{
    const struct coll_blocks *blocks = of_out ? &coll->out_blocks : &coll->in_blocks;
    uint64_t count = of_out ? coll->out_count : coll->in_count, at = 0;
    if (blocks->is_given) {
        count = coll_block_count(blocks, rank);
        at = coll_block_offset(blocks, rank) * coll->element_bytes;
    }
    tryst_status status =
        coll_part_add(coll, (struct coll_range){0, count}, slice_bytes, part_p);
    if (status == TRYST_OK) {
        *(of_out ? &(*part_p)->out_at : &(*part_p)->in_at) = at;
        (*part_p)->shape.count = count;
    }
    return status;
}

/* Append the part of the block that goes to `peer` (`sends`) or comes from `peer`. */
static tryst_status peer_add(tryst_coll *coll, uint32_t slice_bytes, int32_t peer,
                             bool sends)
{
    struct coll_part *part;
    tryst_status status = block_add(coll, slice_bytes, peer, !sends, &part);
    if (status != TRYST_OK)
        return status;
    part->is_root = sends;
    part->down_children = sends;
    part->receives_down = !sends;
    return coll_flow_add(coll, 0, COLL_LIST, peer, sends, NULL);
}

/* Append the part of this rank's own block. The part has no flows: the block is copied
 * from the input to the output. */
static tryst_status own_add(tryst_coll *coll, uint32_t slice_bytes)
{
    int32_t rank = coll->rank;
    struct coll_part *part;
    tryst_status status = block_add(coll, slice_bytes, rank, false, &part);
    if (status != TRYST_OK)
        return status;
    const struct coll_blocks *out = &coll->out_blocks;
    part->out_at = out->is_given ? coll_block_offset(out, rank) * coll->element_bytes : 0;
    part->is_root = true;
    return TRYST_OK;
}

/* Append the flow to `to`, which is some ranks above this rank, and the flow from
 * `from`, which is as many ranks below. */
static tryst_status pair_add(tryst_coll *coll, uint32_t slice_bytes, int32_t to,
                             int32_t from)
{
    bool is_root = coll->root < 0 || coll->root == coll->rank;
    bool receives = is_root, sends = is_root;
    tryst_status status = TRYST_OK;
    if (coll->kind == TRYST_COLL_GATHER)
        sends = to == coll->root;
    if (coll->kind == TRYST_COLL_SCATTER)
        receives = from == coll->root;
    if (receives)
        status = peer_add(coll, slice_bytes, from, false);
    if (sends && status == TRYST_OK)
        status = peer_add(coll, slice_bytes, to, true);
    return status;
}

/* Refuse two different counts for this rank's own block. */
static tryst_status own_check(const tryst_coll *coll)
{
    int32_t rank = coll->rank;
    uint64_t in = coll_block_count(&coll->in_blocks, rank);
    uint64_t out = coll_block_count(&coll->out_blocks, rank);
    if (coll->kind != TRYST_COLL_ALLTOALL || in == out)
        return TRYST_OK;
    return refuse(TRYST_E_INVALID,
                  "cannot prepare a collective: this rank's own block has %" PRIu64
                  " elements in `in` and %" PRIu64 " in `out`; give one count",
                  in, out);
}

static tryst_status lists_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    int32_t rank = coll->rank, size = coll->size;
    /* All flows use the slices of large tensors, so both ends cut alike even if their
     * counts differ. */
    uint32_t slice_bytes = plan->classes[plan->classes_count - 1].slice_bytes;
    bool is_root = coll->root < 0 || coll->root == rank;
    uint64_t parts = 2 * (uint64_t)size;
    tryst_status status = own_check(coll);
    if (status == TRYST_OK)
        status = coll_parts_alloc(coll, parts, parts);
    for (int32_t i = 1; i < size && status == TRYST_OK; i++)
        status = pair_add(coll, slice_bytes, (rank + i) % size, (rank - i + size) % size);
    return is_root && status == TRYST_OK ? own_add(coll, slice_bytes) : status;
}

/* ---- both -------------------------------------------------------------------------- */

tryst_status coll_block_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    return coll_kind_is_list(coll->kind) ? lists_parts_make(coll, plan)
                                         : roots_parts_make(coll, plan);
}
