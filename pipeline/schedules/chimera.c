/* SPDX-License-Identifier: Apache-2.0 */
/* chimera: two copies of the model in opposite directions, which fill each other's
 * bubbles (Li and Hoefler, SC 2021).
 *
 * Rank r holds stage r of the copy that goes down, and stage p - 1 - r of the one that
 * goes up. A unit is p micro-batches: the first half of them goes down, the other half
 * up, and the units follow one another.
 *
 * The one idea: let F and B take one slot each. Then micro-batch i of a unit's half has F
 * at stage s in slot 2i + s, and B in slot 2i + 2p - 1 - s. Since p is even, the slots of
 * the two directions have different parities on a rank, so no two actions meet; and a
 * unit that begins 2p slots after the one before fits into its gaps. The list is the
 * actions by their slots. Where B takes longer than F the gaps are too short, and each
 * unit adds idle time.
 *
 * Invariant: a stage adds the gradients of a direction in rising order, and REDUCE_GRAD
 * adds the two sums. */
#include <stdio.h>

#include "schedules.h"

static const char *check(tryst_schedule_params *params)
{
    static _Thread_local char text[160];
    int ranks = params->ranks_count, count = params->microbatches_count;
    const char *odd = schedule_even_check(params);
    if (odd) {
        return odd;
    }
    if (count % ranks != 0) {
        snprintf(text, sizeof text,
                 "the micro-batches must be a multiple of the %d ranks, since a unit has "
                 "one for each; %d is none",
                 ranks, count);
        return text;
    }
    return NULL;
}

/* Add what the rank runs in `slot`, counted from the unit's begin: F or B at `stage`, or
 * nothing. `first` is the unit's first micro-batch in the stage's direction. */
static void slot_add(struct schedule_list *list, int slot, int stage, int first)
{
    static const struct schedule_weights newest = {0, 0};
    int ranks = list->params->ranks_count;
    int forward = slot - stage, backward = slot - (2 * ranks - 1 - stage);
    if (forward >= 0 && forward < ranks && forward % 2 == 0) {
        schedule_forward(list, stage, first + forward / 2, newest);
    }
    if (backward >= 0 && backward < ranks && backward % 2 == 0) {
        schedule_backward(list, stage, first + backward / 2, newest);
    }
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    int ranks = params->ranks_count, units = params->microbatches_count / ranks;
    int up = ranks - 1 - rank;
    /* the last slot of a unit is 2(p / 2 - 1) + 2p - 1, less than two units' begin */
    for (int slot = 0; slot < 2 * ranks * (units + 1); slot++) {
        for (int unit = slot / (2 * ranks) - 1; unit <= slot / (2 * ranks); unit++) {
            if (unit >= 0 && unit < units) {
                int inside = slot - 2 * ranks * unit;
                slot_add(&list, inside, rank, unit * ranks);
                slot_add(&list, inside, up, unit * ranks + ranks / 2);
            }
        }
    }
    return list.status;
}

const tryst_schedule schedule_chimera = {
    .struct_size = sizeof(tryst_schedule),
    .name = "chimera",
    .help = "two copies of the model in opposite directions, half of each unit of "
            "RANKS micro-batches through either (Li and Hoefler 2021)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .check = check,
    .generate = generate};
