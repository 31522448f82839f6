/* SPDX-License-Identifier: Apache-2.0 */
/* 1f1b: rank r of p runs min(p - 1 - r, M) forwards, then one forward and one backward in
 * turn, then the other backwards (PipeDream-Flush, Narayanan et al. 2021; DAPPLE's policy
 * A, Fan et al. 2021).
 *
 * dapple-b: more forwards first, which hide communication (DAPPLE's policy B). Rank r
 * holds at most K = min(2(p - r) - 1, D - r, M) micro-batches, D being the cap. The paper
 * prints min(2(p - r) - 1, D). For p <= D <= 2p - 3 that gives neighbouring ranks the
 * same K, so each of the two waits for the other at every micro-batch: 91 instead of 57
 * units with p = 4, M = 16, D = 4, F = 1, B = 2. With D - r the K of neighbours differ,
 * and with D = p they are those of 1f1b.
 *
 * naive: no forward first: one micro-batch at a time, forward through all stages, then
 * backward. */
#include "schedules.h"

static tryst_status generate_naive(const tryst_schedule_params *params,
                                   tryst_program *program, int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    schedule_alternate(&list, 0, params->microbatches_count);
    return list.status;
}

static tryst_status generate_1f1b(const tryst_schedule_params *params,
                                  tryst_program *program, int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    schedule_alternate(&list, schedule_ahead(params, rank), params->microbatches_count);
    return list.status;
}

static const char *check_dapple_b(tryst_schedule_params *params)
{
    int ranks = params->ranks_count;
    params->cap = params->cap > 0 ? params->cap : 2 * ranks - 1;
    return params->cap >= ranks ? NULL
                                : "the cap must be at least the number of ranks: with "
                                  "less the first rank cannot keep the last one busy";
}

static tryst_status generate_dapple_b(const tryst_schedule_params *params,
                                      tryst_program *program, int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    int held = schedule_min(2 * (params->ranks_count - rank) - 1, params->cap - rank);
    held = schedule_min(held, params->microbatches_count);
    schedule_alternate(&list, held - 1, params->microbatches_count);
    return list.status;
}

const tryst_schedule schedule_naive = {
    .struct_size = sizeof(tryst_schedule),
    .name = "naive",
    .help = "one micro-batch at a time: forward through all stages, then backward",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .generate = generate_naive};

const tryst_schedule schedule_1f1b = {
    .struct_size = sizeof(tryst_schedule),
    .name = "1f1b",
    .help = "some forwards, then one forward and one backward in turn (PipeDream-Flush, "
            "Narayanan et al. 2021; DAPPLE A)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .generate = generate_1f1b};

const tryst_schedule schedule_dapple_b = {
    .struct_size = sizeof(tryst_schedule),
    .name = "dapple-b",
    .help = "as 1f1b with more forwards first, at most `cap` activations on a rank "
            "(DAPPLE B, Fan et al. 2021)",
    .options = TRYST_SCHEDULE_RECOMPUTE | TRYST_SCHEDULE_CAP,
    .check = check_dapple_b,
    .generate = generate_dapple_b};
