/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-shot collectives, kept prepared: a call with the name and shape of an earlier call
 * builds no key and allocates nothing.
 *
 * Idea: a job uses the same names and shapes in every step. The table is bounded, and
 * drops the least recently used collective first; runs under way keep a dropped
 * collective alive. The bytes of idle runs, with their private memory, have a bound of
 * their own (prepare.c), so a job with varying names pins no memory.
 */
#include <string.h>

#include "cache.h"
#include "core/text/hash.h"
#include "prepare.h"
#include "run.h"
#include "subgroup.h"

static uint64_t what_hash(const tryst_group *group, const tryst_coll_params *params)
{
    struct {
        uint64_t name, count, blocks, subgroup;
        int32_t kind, reduce, dtype, root;
    } what = {hash_bytes(params->name, strlen(params->name)),
              params->count,
              0,
              (uintptr_t)params->subgroup,
              params->kind,
              params->reduce,
              params->dtype,
              params->root};
    if (coll_kind_has_blocks(params->kind))
        what.blocks = coll_blocks_hash(params, subgroup_rank_in(params->subgroup, group),
                                       subgroup_size_in(params->subgroup, group));
    return hash_bytes(&what, sizeof what);
}

static bool is_same(const tryst_coll *coll, const tryst_group *group,
                    const tryst_coll_params *params)
{
    bool root_is_same = coll->root < 0 || coll->root == params->root;
    bool dtype_is_same =
        coll->kind == TRYST_COLL_BARRIER || coll->tensor_dtype == params->dtype;
    return coll->group == group && coll->subgroup == params->subgroup &&
           coll->kind == params->kind && coll->reduce == params->reduce &&
           coll->params_count == params->count && root_is_same && dtype_is_same &&
           coll_blocks_same(&coll->in_blocks, params, false, coll->size) &&
           coll_blocks_same(&coll->out_blocks, params, true, coll->size) &&
           strcmp(coll->label->string, params->name) == 0;
}

/* Find a kept collective; the caller gets a reference. NULL: none. The caller holds
 * the lock. */
static tryst_coll *kept_get(struct colls *colls, const tryst_group *group,
                            const tryst_coll_params *params, uint64_t hash)
{
    hash_table_for_each (&colls->kept, hash, node) {
        tryst_coll *coll = container_of(node, tryst_coll, by_what);
        if (!is_same(coll, group, params))
            continue;
        list_remove(&coll->order);
        list_push_back(&colls->kept_order, &coll->order);
        coll_ref(coll);
        return coll;
    }
    return NULL;
}

/* Remove the least recently used collective of `subgroup` (NULL: of all) from the
 * table, and return it; NULL: none. The caller holds the lock. */
static tryst_coll *kept_pop_oldest(struct colls *colls, const tryst_subgroup *subgroup)
{
    list_for_each_safe (&colls->kept_order, node, after) {
        tryst_coll *coll = container_of(node, tryst_coll, order);
        if (subgroup && coll->subgroup != subgroup)
            continue;
        list_remove(node);
        hash_table_remove(&colls->kept, &coll->by_what);
        return coll;
    }
    return NULL;
}

tryst_status coll_find(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p)
{
    uint64_t hash = what_hash(group, params);
    pthread_mutex_lock(&colls->lock);
    tryst_coll *coll = kept_get(colls, group, params, hash);
    pthread_mutex_unlock(&colls->lock);
    if (!coll) {
        tryst_status status = coll_open(colls, group, params, &coll);
        if (status != TRYST_OK)
            return status;
        coll_ref(coll); /* for the table */
        coll->is_kept = true;
        pthread_mutex_lock(&colls->lock);
        hash_table_add(&colls->kept, &coll->by_what, hash);
        list_push_back(&colls->kept_order, &coll->order);
        tryst_coll *old =
            colls->kept.count > COLLS_KEPT ? kept_pop_oldest(colls, NULL) : NULL;
        pthread_mutex_unlock(&colls->lock);
        if (old)
            coll_unref(old);
    }
    *coll_p = coll;
    return TRYST_OK;
}

void coll_kept_drop(struct colls *colls, const tryst_subgroup *subgroup)
{
    tryst_coll *coll;
    do {
        pthread_mutex_lock(&colls->lock);
        coll = kept_pop_oldest(colls, subgroup);
        pthread_mutex_unlock(&colls->lock);
        if (coll)
            coll_unref(coll);
    } while (coll);
}
