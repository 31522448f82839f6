/* SPDX-License-Identifier: Apache-2.0 */
/* pipedream-2bw: an UPDATE behind the last backward of each M micro-batches, M >= p - 1,
 * and two versions: all micro-batches of a step read the version before the newest,
 * max(0, ⌊n / M⌋ - 1), on every stage (Narayanan et al., ICML 2021). So a step is
 * W(t + 1) = W(t) - rate · gradient(W(t - 1)). */
#include "stream.h"

static const char *check(tryst_schedule_params *params)
{
    if (params->microbatches_count < params->ranks_count - 1) {
        return "an UPDATE must take at least ranks - 1 micro-batches: with fewer a stage "
               "would need more than two versions";
    }
    return schedule_every_set(params, params->microbatches_count);
}

static struct schedule_weights before_newest(struct schedule_list *list, int n)
{
    return (struct schedule_weights){.version =
                                         schedule_floor(n, list->params->every) - 1};
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    static const struct schedule_stream stream = {schedule_ahead, before_newest,
                                                  before_newest};
    return schedule_stream_write(params, program, rank, &stream);
}

const tryst_schedule schedule_pipedream_2bw = {
    .struct_size = sizeof(tryst_schedule),
    .name = "pipedream-2bw",
    .help = "no drain, an UPDATE a step, and two versions: all read the one before the "
            "newest (Narayanan et al. 2021)",
    .options = TRYST_SCHEDULE_UPDATES | TRYST_SCHEDULE_RECOMPUTE | TRYST_SCHEDULE_RATE,
    .asynchronous = true,
    .check = check,
    .generate = generate};
