/* SPDX-License-Identifier: Apache-2.0 */
/* naive: one micro-batch at a time, forward through all stages, then backward. */
#include "schedules.h"

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    schedule_alternate(&list, 0, params->microbatches_count);
    return list.status;
}

const tryst_schedule schedule_naive = {
    .struct_size = sizeof(tryst_schedule),
    .name = "naive",
    .help = "one micro-batch at a time: forward through all stages, then backward",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .generate = generate};
