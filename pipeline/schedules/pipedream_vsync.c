/* SPDX-License-Identifier: Apache-2.0 */
/* pipedream-vsync: pipedream with vertical sync: all stages run a micro-batch with the
 * same version (Narayanan et al., SOSP 2019, section 3.3).
 *
 * With N micro-batches in flight that is the version that the first stage finds newest,
 * max(0, ⌊(n - N + 1) / u⌋). N below the number of ranks is one virtual worker of HetPipe
 * with N_m = N (Park et al., ATC 2020): the ranks then wait for each other. */
#include "stream.h"

static const char *check(tryst_schedule_params *params)
{
    params->inflight = params->inflight > 0 ? params->inflight : params->ranks_count;
    return schedule_every_set(params, 1);
}

static int lead(const tryst_schedule_params *params, int rank)
{
    return schedule_min(schedule_ahead(params, rank), params->inflight - 1);
}

static struct schedule_weights entered(struct schedule_list *list, int n)
{
    const tryst_schedule_params *params = list->params;
    return (struct schedule_weights){
        .version = schedule_floor(n - params->inflight + 1, params->every)};
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    static const struct schedule_stream stream = {lead, entered, entered};
    return schedule_stream_write(params, program, rank, &stream);
}

const tryst_schedule schedule_pipedream_vsync = {
    .struct_size = sizeof(tryst_schedule),
    .name = "pipedream-vsync",
    .help = "pipedream with one version for all stages of a micro-batch, `inflight` of "
            "them at once (ranks); fewer: HetPipe's virtual worker",
    .options = TRYST_SCHEDULE_EVERY | TRYST_SCHEDULE_INFLIGHT | TRYST_SCHEDULE_UPDATES |
               TRYST_SCHEDULE_RECOMPUTE | TRYST_SCHEDULE_RATE,
    .asynchronous = true,
    .check = check,
    .generate = generate};
