/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a collective: the elements that each tree moves, and the keys of the
 * flows.
 *
 * Idea: the trees of a tensor move a range each. An all-gather is a broadcast from each
 * rank, and a reduce-scatter a reduction to each rank, over the plan's trees with another
 * root. So both directions of an edge move different blocks, and each byte crosses an
 * edge once. All trees are under way at a time, so neither bandwidth nor the depth of a
 * tree counts n times. Where the plan has one tree for each root, with equal shares
 * (stars, a ring), and the blocks are equal, a block moves over the tree of its root
 * alone: the links carry the same bytes in a part of the flows. All-to-all, gather and
 * scatter are lists of flows. A flow between two ranks is a tree of two, rooted at the
 * sender. In lists, a rank's own block is a part without flows, and only copied.
 *
 * Invariants: the flows of a part, and their keys, are in the order of run.h. Parts with
 * a root are in the order of roots and trees on all ranks, so both ends of a tree's
 * directed edge use the edge in the same order, and one key serves all roots. In lists a
 * pair uses a key once, and a block without elements has a flow, too, so that both ends
 * compare counts.
 */
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/tree/edges.h"
#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "rendezvous/coll_op.h"
#include "subgroup.h"

static const char prepare_call[] = "prepare a collective";

/* ---- parts and flows --------------------------------------------------------------- */

/* The phase of a flow, which is the last letter of the flow's key. */
enum phase { UP = 'u', DOWN = 'd', LIST = 'l', EXCHANGE = 'x' };

/* Allocate room for parts and the keys of their flows. */
static tryst_status parts_alloc(tryst_coll *coll, uint64_t parts, uint64_t flows)
{
    if (parts < UINT32_MAX && flows < UINT32_MAX) {
        coll->parts = mem_zalloc_array((size_t)parts, sizeof *coll->parts);
        coll->keys = mem_zalloc_array((size_t)flows, sizeof *coll->keys);
    }
    return coll->parts && coll->keys ? TRYST_OK : refuse_nomem(prepare_call);
}

/* Append a part of `range`, without flows yet. */
static tryst_status part_add(tryst_coll *coll, struct coll_range range,
                             uint32_t slice_bytes, struct coll_part **part_p)
{
    struct coll_part *part = &coll->parts[coll->parts_count];
    uint64_t eager_max = coll->colls->eager_max;
    *part = (struct coll_part){.range = range,
                               .bytes = range.count * coll->element_bytes,
                               .flow_slice_bytes = slice_bytes,
                               .flow_at = coll->flows_count,
                               .private_at = COLL_NOWHERE,
                               .in_at = COLL_NOWHERE,
                               .out_at = COLL_NOWHERE,
                               .shape = coll->shape};
    part->is_small = part->bytes <= eager_max;
    part->slices = coll_slices_of(part->bytes, slice_bytes, eager_max);
    part->slice_bytes = part->slices == 1 ? part->bytes : slice_bytes;
    if (!part->slices)
        return refuse(TRYST_E_INVALID,
                      "cannot %s: %" PRIu64 " bytes are too many for slices of %" PRIu32
                      "; split the tensor",
                      prepare_call, part->bytes, slice_bytes);
    coll->parts_count++;
    *part_p = part;
    return TRYST_OK;
}

/* Reserve private memory for the sums of a part that adds and is not a root. */
static void private_place(tryst_coll *coll, struct coll_part *part)
{
    bool adds = part->up_children || coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM;
    if (part->is_root || !adds)
        return;
    part->private_at = coll->private_bytes;
    coll->private_bytes +=
        (part->bytes + COLL_LINE_BYTES - 1) / COLL_LINE_BYTES * COLL_LINE_BYTES;
}

/* Prepare the key of an edge to `peer` (`sends`) or from `peer`, which is a number
 * among the ranks that take part. */
static tryst_status key_open(const tryst_coll *coll, uint32_t tree, enum phase phase,
                             int32_t peer, bool sends, tryst_key **key_p)
{
    char edge[TRYST_COLL_NAME_MAX + 64];
    const tryst_subgroup *subgroup = coll->subgroup;
    int32_t rank = tryst_group_rank(coll->group);
    peer = subgroup ? subgroup->members[peer] : peer;
    int bytes = subgroup ? snprintf(edge, sizeof edge, "~v/%" PRIx64 ".%" PRIx64,
                                    subgroup->epoch, subgroup->digest)
                         : snprintf(edge, sizeof edge, "~c");
    snprintf(edge + bytes, sizeof edge - (size_t)bytes, "/%s/%" PRIu32 "/%c",
             coll->label->string, tree, (char)phase);
    return group_key(coll->group, sends ? rank : peer, sends ? peer : rank, edge, key_p);
}

/* Append a flow to the last part: to `peer` if `sends`, else from `peer`. `shared` (NULL:
 * none) is the key of earlier flows with this peer, or NULL until there is one; the uses
 * of a key are numbered in the order of the parts. */
static tryst_status flow_add(tryst_coll *coll, uint32_t tree, enum phase phase,
                             int32_t peer, bool sends, tryst_key **shared)
{
    tryst_key *key = NULL;
    tryst_status status = TRYST_OK;
    if (shared && *shared)
        key = prepared_ref(*shared);
    else
        status = key_open(coll, tree, phase, peer, sends, &key);
    if (status != TRYST_OK)
        return status;
    if (shared)
        *shared = key;
    coll->keys[coll->flows_count++] = key;
    return TRYST_OK;
}

/* ---- trees ------------------------------------------------------------------------- */

/* The trees of a tensor, or of the blocks of all roots. */
struct trees {
    tryst_coll *coll;
    const struct coll_plan *plan;
    bool climbs, descends;
    const struct coll_blocks *blocks; /* a block for each root; NULL: the whole tensor */
    bool is_direct;                   /* blocks: each takes the tree of its root alone */
    struct coll_edges edges;          /* room for this rank's neighbours in any tree */
    tryst_key **shared;               /* blocks: keys by tree, direction and peer */
};

static const struct coll_class *class_at(const struct trees *trees, int32_t root)
{
    const tryst_coll *coll = trees->coll;
    uint64_t count = trees->blocks ? coll_block_count(trees->blocks, root) : coll->count;
    return coll_class_of(trees->plan, coll_bytes(count, coll->element_bytes));
}

/* Allocate the memory of all parts. `roots`: number of the roots. */
static tryst_status trees_alloc(struct trees *trees, int32_t roots)
{
    uint64_t parts = 0, flows = 0;
    uint32_t edges_max = 0, trees_max = 0;
    size_t peers = (size_t)trees->coll->size;
    for (int32_t root = 0; root < roots; root++) {
        const struct coll_class *class = class_at(trees, root);
        trees_max = class->trees_count > trees_max ? class->trees_count : trees_max;
        parts += class->trees_count;
        for (uint32_t t = 0; t < class->trees_count; t++) {
            uint32_t edges = coll_edges_max(&class->trees[t]);
            edges_max = edges > edges_max ? edges : edges_max;
            flows += (trees->climbs + trees->descends) * (uint64_t)(edges + 1);
        }
    }
    if (trees->blocks)
        trees->shared = mem_zalloc_array(trees_max * 2 * peers, sizeof *trees->shared);
    trees->edges.children = mem_alloc(edges_max * sizeof *trees->edges.children);
    if ((trees->blocks && !trees->shared) || !trees->edges.children)
        return refuse_nomem(prepare_call);
    return parts_alloc(trees->coll, parts, flows);
}

/* Append a flow of tree `tree`. */
static tryst_status tree_flow_add(struct trees *trees, uint32_t tree, enum phase phase,
                                  int32_t peer, bool sends)
{
    size_t peers = (size_t)trees->coll->size;
    size_t at = ((size_t)tree * 2 + sends) * peers + (size_t)peer;
    return flow_add(trees->coll, tree, phase, peer, sends,
                    trees->shared ? &trees->shared[at] : NULL);
}

/* Append the flows of one phase of a tree with this root, in the order of run.h. */
static tryst_status phase_add(struct trees *trees, struct coll_part *part,
                              const struct coll_class *class, uint32_t tree,
                              enum phase phase, int32_t root)
{
    struct coll_edges *edges = &trees->edges;
    tryst_status status = TRYST_OK;
    bool up = phase == UP;
    coll_edges_find(trees->plan, &class->trees[tree], up, root, edges);
    bool has_parent = edges->parent >= 0;
    part->is_root = !has_parent;
    *(up ? &part->up_children : &part->down_children) = edges->children_count;
    *(up ? &part->sends_up : &part->receives_down) = has_parent;
    if (!up && has_parent)
        status = tree_flow_add(trees, tree, phase, edges->parent, false);
    for (uint32_t i = 0; i < edges->children_count && status == TRYST_OK; i++)
        status = tree_flow_add(trees, tree, phase, edges->children[i], !up);
    if (up && has_parent && status == TRYST_OK)
        status = tree_flow_add(trees, tree, phase, edges->parent, true);
    trees->coll->children_count += up ? edges->children_count : 0;
    return status;
}

/* Set the part's offsets in both tensors. Of the blocks, only this rank's own one is in
 * both. */
static void offsets_set(const struct trees *trees, struct coll_part *part, int32_t root)
{
    const tryst_coll *coll = trees->coll;
    uint64_t begin = part->range.begin * coll->element_bytes, all_at = begin;
    bool is_whole = !trees->blocks || root == coll->rank;
    if (trees->blocks)
        all_at += coll_block_offset(trees->blocks, root) * coll->element_bytes;
    part->in_at = trees->climbs ? all_at : is_whole ? begin : COLL_NOWHERE;
    part->out_at = trees->descends ? all_at : is_whole ? begin : COLL_NOWHERE;
}

/* True if the same edges lead up and down. */
static bool tree_is_mutual(const struct coll_plan *plan,
                           const struct coll_tree_plan *tree)
{
    size_t bytes = plan->size * sizeof *tree->up_parents;
    return memcmp(tree->up_parents, tree->down_parents, bytes) == 0;
}

static tryst_status tree_part_add(struct trees *trees, const struct coll_class *class,
                                  uint32_t tree, struct coll_range range, int32_t root)
{
    tryst_coll *coll = trees->coll;
    int32_t tree_root = trees->blocks ? root : coll->root;
    struct coll_part *part;
    tryst_status status = part_add(coll, range, coll_slice_bytes(class, tree), &part);
    if (status != TRYST_OK)
        return status;
    offsets_set(trees, part, root);
    if (trees->climbs)
        status = phase_add(trees, part, class, tree, UP, tree_root);
    if (trees->descends && status == TRYST_OK)
        status = phase_add(trees, part, class, tree, DOWN, tree_root);
    if (!trees->descends)
        private_place(coll, part);
    part->is_mutual = trees->climbs && trees->descends && part->is_small &&
                      tree_is_mutual(trees->plan, &class->trees[tree]);
    return status;
}

/* Return the range that a tree moves, in the tensor or in the block of `root`. */
static struct coll_range range_of(const struct trees *trees,
                                  const struct coll_class *class, uint32_t tree,
                                  int32_t root)
{
    const tryst_coll *coll = trees->coll;
    uint64_t count = trees->blocks ? coll_block_count(trees->blocks, root) : coll->count;
    if (!trees->is_direct)
        return coll_range_of(class, tree, count, coll->element_bytes);
    bool moves = tree == coll_tree_of_root(class, root);
    return (struct coll_range){0, moves ? count : 0};
}

/* Return the phase of the flow from `from` to `to` in an exchange: that of the edge in
 * tree 0, if there is one. So the flow meets that of a rank that runs another collective,
 * or one of another size, over the trees. */
static enum phase exchange_phase(const int32_t *parents, int32_t from, int32_t to)
{
    return parents[from] == to ? UP : parents[to] == from ? DOWN : EXCHANGE;
}

/* Append the flows of one direction of an exchange, in the order of the ranks. */
static tryst_status exchange_flows_add(tryst_coll *coll, struct coll_part *part,
                                       const int32_t *parents, bool sends)
{
    tryst_status status = TRYST_OK;
    for (uint32_t child = 0; child < part->up_children && status == TRYST_OK; child++) {
        int32_t peer = (int32_t)child + ((int32_t)child >= coll->rank);
        enum phase phase = sends ? exchange_phase(parents, coll->rank, peer)
                                 : exchange_phase(parents, peer, coll->rank);
        if (phase == EXCHANGE)
            part->numbered |= 1u << child;
        status = flow_add(coll, 0, phase, peer, sends, NULL);
    }
    return status;
}

/* Add the part in which all ranks exchange their terms. */
static tryst_status exchange_add(struct trees *trees)
{
    tryst_coll *coll = trees->coll;
    const struct coll_class *class = class_at(trees, 0);
    const int32_t *parents = class->trees[0].up_parents;
    uint32_t others = (uint32_t)coll->size - 1;
    struct coll_part *part;
    tryst_status status = parts_alloc(coll, 1, 2 * (uint64_t)others);
    if (status == TRYST_OK)
        status = part_add(coll, (struct coll_range){0, coll->count},
                          coll_slice_bytes(class, 0), &part);
    if (status != TRYST_OK)
        return status;
    offsets_set(trees, part, 0);
    part->is_root = part->is_exchange = part->is_mutual = true;
    part->up_children = part->down_children = coll->children_count = others;
    status = exchange_flows_add(coll, part, parents, false);
    return status == TRYST_OK ? exchange_flows_add(coll, part, parents, true) : status;
}

/* Add the parts of the tensor, or of one root's block. Tree 0 always has one, since ranks
 * that disagree about the size meet there. */
static tryst_status root_add(struct trees *trees, int32_t root)
{
    const struct coll_class *class = class_at(trees, root);
    tryst_status status = TRYST_OK;
    for (uint32_t t = 0; t < class->trees_count && status == TRYST_OK; t++) {
        struct coll_range range = range_of(trees, class, t, root);
        if (range.count || !t)
            status = tree_part_add(trees, class, t, range, root);
    }
    return status;
}

static tryst_status trees_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    bool gathers = coll->kind == TRYST_COLL_ALLGATHER;
    bool scatters = coll->kind == TRYST_COLL_REDUCE_SCATTER;
    bool has_blocks = (gathers || scatters) && !coll->is_packed;
    int32_t roots = has_blocks ? coll->size : 1;
    struct trees trees = {
        .coll = coll,
        .plan = plan,
        .climbs = coll->kind != TRYST_COLL_BROADCAST && !(has_blocks && gathers),
        .descends = coll->kind != TRYST_COLL_REDUCE && !(has_blocks && scatters)};
    if (has_blocks)
        trees.blocks = gathers ? &coll->out_blocks : &coll->in_blocks;
    trees.is_direct = has_blocks && coll_blocks_are_equal(trees.blocks, coll->size) &&
                      coll_has_tree_for_each_root(class_at(&trees, 0), plan->size);
    bool exchanges = trees.climbs && trees.descends &&
                     coll_exchanges(plan, class_at(&trees, 0),
                                    coll_bytes(coll->count, coll->element_bytes),
                                    coll->colls->eager_max);
    tryst_status status = exchanges ? exchange_add(&trees) : trees_alloc(&trees, roots);
    for (int32_t root = 0; root < roots && !exchanges && status == TRYST_OK; root++)
        status = root_add(&trees, root);
    if (coll->is_packed)
        coll->private_bytes = coll->count * coll->element_bytes;
    mem_free(trees.shared);
    mem_free(trees.edges.children);
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
        part_add(coll, (struct coll_range){0, count}, slice_bytes, part_p);
    if (status == TRYST_OK) {
        *(of_out ? &(*part_p)->out_at : &(*part_p)->in_at) = at;
        (*part_p)->shape.count = count;
    }
    return status;
}

/* Append the part of the block that goes to `peer` (`sends`) or comes from `peer`. */
static tryst_status peer_part_add(tryst_coll *coll, uint32_t slice_bytes, int32_t peer,
                                  bool sends)
{
    struct coll_part *part;
    tryst_status status = block_add(coll, slice_bytes, peer, !sends, &part);
    if (status != TRYST_OK)
        return status;
    part->is_root = sends;
    part->down_children = sends;
    part->receives_down = !sends;
    return flow_add(coll, 0, LIST, peer, sends, NULL);
}

/* Append the part of this rank's own block. The part has no flows: the block is copied
 * from the input to the output. */
static tryst_status own_part_add(tryst_coll *coll, uint32_t slice_bytes)
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
        status = peer_part_add(coll, slice_bytes, from, false);
    if (sends && status == TRYST_OK)
        status = peer_part_add(coll, slice_bytes, to, true);
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
        status = parts_alloc(coll, parts, parts);
    for (int32_t i = 1; i < size && status == TRYST_OK; i++)
        status = pair_add(coll, slice_bytes, (rank + i) % size, (rank - i + size) % size);
    return is_root && status == TRYST_OK ? own_part_add(coll, slice_bytes) : status;
}

tryst_status coll_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    tryst_status status = TRYST_OK;
    if (coll_may_exchange(plan) && plan->size > 2)
        status = key_open(coll, 0, EXCHANGE, coll->rank, true, &coll->uses_key);
    if (status != TRYST_OK)
        return status;
    return coll_kind_is_list(coll->kind) ? lists_parts_make(coll, plan)
                                         : trees_parts_make(coll, plan);
}
