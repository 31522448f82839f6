/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Default priorities of collectives, from the steps that were recorded
 * (commsched/profile/priorities.h).
 *
 * Idea: at the begin of some periods each rank drafts the priorities from the period
 * before, and a small all-reduce in the background class, in the step that begins, makes
 * the maximum of all drafts. All ranks draft in the same periods, whatever became of
 * earlier drafts, so no rank waits for a draft that another one does not make; where
 * steps differ, the close of the step ends the all-reduce.
 *
 * Invariant: a failure changes no operation of the program. It is a line at the level
 * debug.
 */
#include "auto_priority.h"

#include <inttypes.h>

#include "commsched/profile/priorities.h"
#include "context.h"
#include "core/memory/alloc.h"
#include "tryst/coll.h"

/* Draft from period 1, 2, 4, …, and from each one of this many. */
enum { DRAFT_EVERY = 64 };

struct gather {
    tryst_ctx *ctx;
    struct draft *draft;
};

static void reason_log(const tryst_ctx *ctx, const char *why)
{
    LOG_DEBUG(&ctx->log, "TRYST_AUTO_PRIORITY: priorities are not applied: %s", why);
}

static void gather_close(struct gather *gather)
{
    draft_close(gather->draft);
    mem_free(gather);
}

static void gathered(void *arg, tryst_op *op, tryst_status status)
{
    struct gather *gather = arg;
    (void)op;
    if (status == TRYST_OK) {
        priorities_arrive(gather->ctx->priorities, gather->draft);
        gather->draft = NULL;
    } else {
        reason_log(gather->ctx, status == TRYST_E_MISMATCH
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
                              .arg = gather};
    return tryst_allreduce(step, "~tryst/priorities", NULL, &tensor, TRYST_REDUCE_MAX,
                           &params, NULL);
}

/* True if a draft is due of the period that has ended. */
static bool is_due(uint64_t ended)
{
    return ended && (!(ended & (ended - 1)) || ended % DRAFT_EVERY == 0);
}

void auto_priority_begin(void *owner, tryst_step *step, uint64_t period)
{
    tryst_ctx *ctx = owner;
    const char *why = priorities_begin(ctx->priorities, ctx->recorder, period);
    if (why)
        reason_log(ctx, why);
    if (!is_due(period - 1))
        return;
    struct gather *gather = mem_zalloc(sizeof *gather);
    if (gather) {
        gather->ctx = ctx;
        gather->draft = draft_open(ctx->recorder, period);
    }
    if (!gather || !gather->draft || gather_submit(gather, step) != TRYST_OK) {
        reason_log(ctx, "out of memory, or the step was aborted");
        if (gather)
            gather_close(gather);
    }
}
