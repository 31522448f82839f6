/* SPDX-License-Identifier: Apache-2.0 */
/* gpipe: all forwards, then all backwards (Huang et al., NeurIPS 2019). torchgpipe runs
 * the backwards from the last micro-batch to the first (Kim et al. 2020). */
#include "schedules.h"

static const struct schedule_weights newest = {0, 0};

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    for (int n = 0; n < params->microbatches_count; n++) {
        schedule_forward(&list, rank, n, newest);
    }
    for (int n = 0; n < params->microbatches_count; n++) {
        schedule_backward(&list, rank, n, newest);
    }
    return list.status;
}

static tryst_status generate_reversed(const tryst_schedule_params *params,
                                      tryst_program *program, int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    for (int n = 0; n < params->microbatches_count; n++) {
        schedule_forward(&list, rank, n, newest);
    }
    for (int n = params->microbatches_count - 1; n >= 0; n--) {
        schedule_backward(&list, rank, n, newest);
    }
    return list.status;
}

const tryst_schedule schedule_gpipe = {
    .struct_size = sizeof(tryst_schedule),
    .name = "gpipe",
    .help = "all forwards, then all backwards, both from the first micro-batch on (Huang "
            "et al. 2019)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .generate = generate};

const tryst_schedule schedule_torchgpipe = {
    .struct_size = sizeof(tryst_schedule),
    .name = "torchgpipe",
    .help = "as gpipe, but backwards from the last micro-batch on (Kim et al. 2020)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .generate = generate_reversed};
