/* SPDX-License-Identifier: Apache-2.0 */
/* pipedream: 1f1b without a drain, an UPDATE behind every u-th backward, and weight
 * stashing: B of a micro-batch reads the version that its F has read (Narayanan et al.,
 * SOSP 2019).
 *
 * F of micro-batch n at a stage with w stages behind it finds the version max(0,
 * ⌊(n - w) / u⌋) newest, since the backwards are w micro-batches behind. So a stage holds
 * ⌈w / u⌉ + 1 versions. */
#include "stream.h"

static const char *check(tryst_schedule_params *params)
{
    return schedule_every_set(params, 1);
}

static struct schedule_weights found(struct schedule_list *list, int n)
{
    int behind = schedule_ahead(list->params, list->rank);
    return (struct schedule_weights){.version =
                                         schedule_floor(n - behind, list->params->every)};
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    static const struct schedule_stream stream = {schedule_ahead, found, found};
    return schedule_stream_write(params, program, rank, &stream);
}

const tryst_schedule schedule_pipedream = {
    .struct_size = sizeof(tryst_schedule),
    .name = "pipedream",
    .help = "no drain, an UPDATE every `every` micro-batches (1); backwards read the "
            "weights of their forwards (Narayanan et al. 2019)",
    .options = TRYST_SCHEDULE_EVERY | TRYST_SCHEDULE_UPDATES | TRYST_SCHEDULE_RECOMPUTE |
               TRYST_SCHEDULE_RATE,
    .asynchronous = true,
    .check = check,
    .generate = generate};
