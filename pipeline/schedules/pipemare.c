/* SPDX-License-Identifier: Apache-2.0 */
/* pipemare: one weight version; B reads the newest weights, moved back by the mean change
 * that they had since the micro-batch's forward (Yang et al., MLSys 2021, technique 2).
 *
 * In this order of forwards and backwards the delay of stage s is τ = w / u updates, w
 * being the stages behind it. (The paper counts (2w + 1) / u, for another order.) On the
 * last stage it is 0, and B reads the newest weights. `rate` is technique 1. */
#include "stream.h"

#define SLOT 1

static const char *check(tryst_schedule_params *params)
{
    return schedule_every_set(params, params->microbatches_count);
}

static struct schedule_weights newest_at_forward(struct schedule_list *list, int n)
{
    int behind = schedule_ahead(list->params, list->rank);
    return (struct schedule_weights){.version =
                                         schedule_floor(n - behind, list->params->every)};
}

static struct schedule_weights moved_back(struct schedule_list *list, int n)
{
    int behind = schedule_ahead(list->params, list->rank), every = list->params->every;
    if (behind == 0) {
        return (struct schedule_weights){.version = schedule_floor(n, every)};
    }
    if (n % every == 0) { /* until the next UPDATE the prediction stays the same */
        schedule_predict(list, list->rank, SLOT, TRYST_DIRECTION_DELTA,
                         -(double)behind / every);
    }
    return (struct schedule_weights){.slot = SLOT};
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    static const struct schedule_stream stream = {schedule_ahead, newest_at_forward,
                                                  moved_back};
    return schedule_stream_write(params, program, rank, &stream);
}

const tryst_schedule schedule_pipemare = {
    .struct_size = sizeof(tryst_schedule),
    .name = "pipemare",
    .help = "no drain, an UPDATE every `every` micro-batches (a step), one version; "
            "backwards read it moved back (Yang et al. 2021)",
    .options = TRYST_SCHEDULE_EVERY | TRYST_SCHEDULE_UPDATES | TRYST_SCHEDULE_RECOMPUTE |
               TRYST_SCHEDULE_RATE,
    .asynchronous = true,
    .check = check,
    .generate = generate};
