/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a collective: the elements that each tree moves, and the keys of the
 * flows.
 *
 * Invariant: the flows of a part, and their keys, are in the order of run.h. Parts that
 * share keys are in the same order on all ranks.
 */
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "block_parts.h"
#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "rendezvous/coll_op.h"
#include "subgroup.h"

static const char prepare_call[] = "prepare a collective";

/* ---- appending --------------------------------------------------------------------- */

static bool climbs(tryst_coll_kind kind)
{
    return kind != TRYST_COLL_BROADCAST;
}

static bool descends(tryst_coll_kind kind)
{
    return kind != TRYST_COLL_REDUCE;
}

/* Prepare the key of an edge to `peer` (`sends`) or from `peer`, which is a number
 * among the ranks that take part. */
static tryst_status key_open(const tryst_coll *coll, uint32_t tree, enum coll_phase phase,
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

tryst_status coll_flow_add(tryst_coll *coll, uint32_t tree, enum coll_phase phase,
                           int32_t peer, bool sends, struct coll_shared_keys *shared)
{
    tryst_key *key = NULL, **kept = NULL;
    tryst_status status = TRYST_OK;
    if (shared)
        kept = &shared->keys[((size_t)tree * 2 + sends) * shared->peers + (size_t)peer];
    if (kept && *kept)
        key = prepared_ref(*kept);
    else
        status = key_open(coll, tree, phase, peer, sends, &key);
    if (status != TRYST_OK)
        return status;
    if (kept)
        *kept = key;
    coll->keys[coll->flows_count++] = key;
    return TRYST_OK;
}

void coll_private_place(tryst_coll *coll, struct coll_part *part)
{
    bool adds = part->up_children || coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM;
    if (part->is_root || !adds)
        return;
    part->private_at = coll->private_bytes;
    coll->private_bytes +=
        (part->bytes + COLL_LINE_BYTES - 1) / COLL_LINE_BYTES * COLL_LINE_BYTES;
}

tryst_status coll_phase_add(tryst_coll *coll, struct coll_part *part, uint32_t tree,
                            enum coll_phase phase, const struct coll_edges *edges,
                            struct coll_shared_keys *shared)
{
    tryst_status status = TRYST_OK;
    bool up = phase == COLL_UP;
    part->is_root = edges->parent < 0;
    *(up ? &part->up_children : &part->down_children) = edges->children_count;
    *(up ? &part->sends_up : &part->receives_down) = edges->parent >= 0;
    for (uint32_t i = 0; up && i < edges->children_count && status == TRYST_OK; i++)
        status = coll_flow_add(coll, tree, phase, edges->children[i], false, shared);
    if (edges->parent >= 0 && status == TRYST_OK)
        status = coll_flow_add(coll, tree, phase, edges->parent, up, shared);
    for (uint32_t i = 0; !up && i < edges->children_count && status == TRYST_OK; i++)
        status = coll_flow_add(coll, tree, phase, edges->children[i], true, shared);
    if (up)
        coll->children_count += part->up_children;
    return status;
}

tryst_status coll_part_add(tryst_coll *coll, struct coll_range range,
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

/* Append the part of the tensor that `tree` moves. */
static tryst_status tree_part_add(tryst_coll *coll, const struct coll_plan *plan,
                                  const struct coll_class *class, uint32_t tree)
{
    struct coll_range range =
        coll_range_of(class, tree, coll->count, coll->element_bytes);
    const struct coll_tree_plan *of = &class->trees[tree];
    struct coll_part *part;
    struct coll_edges edges;
    if (!range.count && tree)
        return TRYST_OK;
    tryst_status status =
        coll_part_add(coll, range, coll_slice_bytes(class, tree), &part);
    if (status != TRYST_OK)
        return status;
    part->in_at = part->out_at = range.begin * coll->element_bytes;
    edges.children = mem_alloc(coll_edges_max(of) * sizeof *edges.children);
    if (!edges.children)
        return refuse_nomem(prepare_call);
    if (climbs(coll->kind)) {
        coll_edges_find(plan, of, true, coll->root, &edges);
        status = coll_phase_add(coll, part, tree, COLL_UP, &edges, NULL);
    }
    if (descends(coll->kind) && status == TRYST_OK) {
        coll_edges_find(plan, of, false, coll->root, &edges);
        status = coll_phase_add(coll, part, tree, COLL_DOWN, &edges, NULL);
    }
    mem_free(edges.children);
    if (coll->kind == TRYST_COLL_REDUCE)
        coll_private_place(coll, part);
    return status;
}

tryst_status coll_parts_alloc(tryst_coll *coll, uint64_t parts, uint64_t flows)
{
    if (parts < UINT32_MAX && flows < UINT32_MAX) {
        coll->parts = mem_zalloc_array((size_t)parts, sizeof *coll->parts);
        coll->keys = mem_zalloc_array((size_t)flows, sizeof *coll->keys);
    }
    return coll->parts && coll->keys ? TRYST_OK : refuse_nomem(prepare_call);
}

/* Make one part for each tree; all parts together are the whole tensor. */
static tryst_status tensor_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    const struct coll_class *class =
        coll_class_of(plan, coll_bytes(coll->count, coll->element_bytes));
    uint64_t flows = 0;
    for (uint32_t t = 0; t < class->trees_count; t++)
        flows += 2 * (uint64_t)coll_edges_max(&class->trees[t]) + 2;
    tryst_status status = coll_parts_alloc(coll, class->trees_count, flows);
    for (uint32_t t = 0; t < class->trees_count && status == TRYST_OK; t++)
        status = tree_part_add(coll, plan, class, t);
    if (coll->is_packed)
        coll->private_bytes = coll->count * coll->element_bytes;
    return status;
}

tryst_status coll_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    bool has_blocks = coll_kind_has_blocks(coll->kind) && !coll->is_packed;
    return has_blocks ? coll_block_parts_make(coll, plan) : tensor_parts_make(coll, plan);
}
