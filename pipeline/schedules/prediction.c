/* SPDX-License-Identifier: Apache-2.0 */
/* spectrain and xpipe: one weight version; F and B read the newest weights, moved ahead
 * by the updates that will have been made when the micro-batch's own update comes.
 *
 * The first micro-batch of each update predicts, once for F and once for B; the others of
 * the update read the same slot. On rank r of p, with u micro-batches an update, the
 * weights are moved by
 *   spectrain  (u = 1)  F ⌊r / 2⌋ + p - r - 1, B ⌊r / 2⌋ updates along the momentum
 *                       (Chen et al. 2018)
 *   xpipe               F (p + u - r / 2 - 2) / u, B (u + ⌊r / 2⌋ - 1) / u, rounded half
 *                       up, along Adam's step (Guan et al. 2019) */
#include "stream.h"

#define SLOT_FORWARD  1
#define SLOT_BACKWARD 2

static struct schedule_weights predicted(struct schedule_list *list, int n, int slot,
                                         int ahead)
{
    if (n % list->params->every == 0) {
        schedule_predict(list, list->rank, slot, TRYST_DIRECTION_STEP, ahead);
    }
    return (struct schedule_weights){.slot = slot};
}

/* ---- spectrain --------------------------------------------------------------------- */

static const char *check_spectrain(tryst_schedule_params *params)
{
    return schedule_every_set(params, 1);
}

static struct schedule_weights spectrain_forward(struct schedule_list *list, int n)
{
    return predicted(list, n, SLOT_FORWARD,
                     list->rank / 2 + schedule_ahead(list->params, list->rank));
}

static struct schedule_weights spectrain_backward(struct schedule_list *list, int n)
{
    return predicted(list, n, SLOT_BACKWARD, list->rank / 2);
}

static tryst_status generate_spectrain(const tryst_schedule_params *params,
                                       tryst_program *program, int rank)
{
    static const struct schedule_stream stream = {schedule_ahead, spectrain_forward,
                                                  spectrain_backward};
    return schedule_stream_write(params, program, rank, &stream);
}

/* ---- xpipe ------------------------------------------------------------------------- */

static const char *check_xpipe(tryst_schedule_params *params)
{
    return schedule_every_set(params, params->microbatches_count);
}

/* Return halves / (2 · every), rounded half up. */
static int rounded(int halves, int every)
{
    return schedule_floor(halves + every, 2 * every);
}

static struct schedule_weights xpipe_forward(struct schedule_list *list, int n)
{
    int every = list->params->every;
    int halves = 2 * (list->params->ranks_count + every - 2) - list->rank;
    return predicted(list, n, SLOT_FORWARD, rounded(halves, every));
}

static struct schedule_weights xpipe_backward(struct schedule_list *list, int n)
{
    int every = list->params->every;
    return predicted(list, n, SLOT_BACKWARD,
                     rounded(2 * (every + list->rank / 2 - 1), every));
}

static tryst_status generate_xpipe(const tryst_schedule_params *params,
                                   tryst_program *program, int rank)
{
    static const struct schedule_stream stream = {schedule_ahead, xpipe_forward,
                                                  xpipe_backward};
    return schedule_stream_write(params, program, rank, &stream);
}

const tryst_schedule schedule_spectrain = {
    .struct_size = sizeof(tryst_schedule),
    .name = "spectrain",
    .help = "no drain, an UPDATE each micro-batch; weights predicted by the momentum "
            "(Chen et al. 2018)",
    .options = TRYST_SCHEDULE_UPDATES | TRYST_SCHEDULE_RECOMPUTE | TRYST_SCHEDULE_RATE,
    .asynchronous = true,
    .check = check_spectrain,
    .generate = generate_spectrain};

const tryst_schedule schedule_xpipe = {
    .struct_size = sizeof(tryst_schedule),
    .name = "xpipe",
    .help = "no drain, an UPDATE every `every` micro-batches (a step); weights predicted "
            "by Adam's step (Guan et al. 2019)",
    .options = TRYST_SCHEDULE_EVERY | TRYST_SCHEDULE_UPDATES | TRYST_SCHEDULE_RECOMPUTE |
               TRYST_SCHEDULE_RATE,
    .asynchronous = true,
    .check = check_xpipe,
    .generate = generate_xpipe};
