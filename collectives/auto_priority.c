/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Default priorities of collectives, from the periods that were recorded
 * (commsched/profile/priorities.h).
 *
 * Idea: at the begin of some periods each rank drafts the priorities from the period
 * before, and a small all-reduce in the background class makes the maximum of all drafts.
 * The group has a table, and so has each subgroup: a period begins for it with its first
 * collective there, and the all-reduce goes to the step of this collective, which is open
 * on all ranks that take part in it. All members draft in the same periods, whatever
 * became of earlier drafts, so no rank waits for a draft that another one does not make;
 * where periods differ, the close of the step ends the all-reduce, and until then a rank
 * has few drafts under way.
 *
 * Invariant: a failure changes no operation of the program. The host gets the reason.
 */
#include "auto_priority.h"

#include "calls.h"
#include "commsched/profile/priorities.h"
#include "core/memory/alloc.h"
#include "rendezvous/op/op.h"
#include "subgroup.h"

/* Draft at the begin of period 2, 3, 5, 9, …, and behind each one of this many. */
enum { DRAFT_EVERY = 64 };

struct gather {
    struct colls *colls;
    tryst_subgroup *subgroup; /* a reference; NULL: the group */
    struct draft *draft;
};

static struct priorities *priorities_of(const struct colls *colls,
                                        const tryst_subgroup *subgroup)
{
    return subgroup ? subgroup->priorities : colls->host.priorities;
}

static void reason_give(const struct colls *colls, const char *why)
{
    colls->host.unprioritized(colls->host.owner, why);
}

static void gather_close(struct gather *gather)
{
    draft_close(gather->draft);
    priorities_draft_end(priorities_of(gather->colls, gather->subgroup));
    subgroup_unref(gather->subgroup);
    mem_free(gather);
}

static void gathered(void *arg, tryst_op *op, tryst_status status)
{
    struct gather *gather = arg;
    (void)op;
    if (status == TRYST_OK) {
        priorities_arrive(priorities_of(gather->colls, gather->subgroup), gather->draft);
        gather->draft = NULL;
    } else {
        reason_give(gather->colls,
                    status == TRYST_E_MISMATCH
                        ? "the ranks' last steps have different collectives"
                        : tryst_status_str(status));
    }
    gather_close(gather);
}

static tryst_status gather_submit(struct gather *gather, tryst_step *step)
{
    size_t count;
    uint64_t *vector = draft_vector(gather->draft, &count);
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = vector,
                           .count = count,
                           .dtype = TRYST_DTYPE_U64};
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = TRYST_OP_BACKGROUND,
                              .callback = gathered,
                              .arg = gather,
                              .subgroup = gather->subgroup};
    tryst_coll_params what = {.kind = TRYST_COLL_ALLREDUCE,
                              .reduce = TRYST_REDUCE_MAX,
                              .count = count,
                              .dtype = TRYST_DTYPE_U64,
                              .name = "~tryst/priorities"};
    return coll_call_own(step, &what, &tensor, &params);
}

static struct gather *gather_open(const tryst_coll *coll, uint64_t begun)
{
    char suffix[SUBGROUP_SUFFIX_BYTES];
    struct gather *gather = mem_zalloc(sizeof *gather);
    if (!gather)
        return NULL;
    gather->colls = coll->colls;
    gather->subgroup = subgroup_ref(coll->subgroup);
    gather->draft = draft_open(coll->colls->host.recorder,
                               subgroup_suffix(coll->subgroup, suffix), begun);
    return gather;
}

/* True if a draft is due at the begin of the period with this place. */
static bool is_due(uint64_t begun)
{
    uint64_t ended = (begun & ~PRIORITIES_AGAIN) - 1;
    return ended && (!(ended & (ended - 1)) || ended % DRAFT_EVERY == 0);
}

/* Draft at the begin of the period with the place `begun`. Returns NULL, or why not. */
static const char *draft_start(const tryst_coll *coll, tryst_step *step, uint64_t begun)
{
    struct priorities *priorities = priorities_of(coll->colls, coll->subgroup);
    if (!priorities_draft_begin(priorities))
        return "earlier drafts wait for other ranks, which do not draft";
    struct gather *gather = gather_open(coll, begun);
    if (gather && gather->draft && gather_submit(gather, step) == TRYST_OK)
        return NULL;
    if (gather)
        gather_close(gather);
    else
        priorities_draft_end(priorities);
    return "out of memory, or the step was aborted";
}

/* Note that a period of the group, or of the subgroup, begins, with a collective in
 * `step`. */
static void period_begin(const tryst_coll *coll, tryst_step *step, uint64_t begun)
{
    struct colls *colls = coll->colls;
    const char *why = priorities_begin(priorities_of(colls, coll->subgroup),
                                       colls->host.recorder, begun);
    if (why)
        reason_give(colls, why);
    why = is_due(begun) ? draft_start(coll, step, begun) : NULL;
    if (why)
        reason_give(colls, why);
}

void auto_priority_set(const tryst_coll *coll, tryst_op *op,
                       const struct recorder_submitted *submitted)
{
    struct priorities *priorities = priorities_of(coll->colls, coll->subgroup);
    uint64_t begun = priorities_count(priorities, submitted->period);
    if (begun)
        period_begin(coll, op->step, begun);
    int32_t priority;
    if (!(op->flags & (TRYST_OP_PRIORITY | TRYST_OP_BACKGROUND)) &&
        priorities_get(priorities, coll->recorder_name, submitted->use, &priority))
        op_priority_set(op, URGENCY_TRAINING, priority);
}
