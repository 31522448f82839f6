/* SPDX-License-Identifier: Apache-2.0 */
/* bfs: breadth-first over v chunks on each rank: all micro-batches through chunk 0, then
 * all through chunk 1, …; then all backwards in exactly the reverse order (Lamy-Poirier,
 * MLSys 2023; the order of PyTorch's ScheduleLoopedBFS). */
#include "schedules.h"

static const char *check(tryst_schedule_params *params)
{
    params->chunks_count = params->chunks_count > 0 ? params->chunks_count : 2;
    return NULL;
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    static const struct schedule_weights newest = {0, 0};
    struct schedule_list list = schedule_begin(params, program, rank);
    for (int chunk = 0; chunk < params->chunks_count; chunk++) {
        for (int n = 0; n < params->microbatches_count; n++) {
            schedule_forward(&list, chunk * params->ranks_count + rank, n, newest);
        }
    }
    for (int chunk = params->chunks_count - 1; chunk >= 0; chunk--) {
        for (int n = params->microbatches_count - 1; n >= 0; n--) {
            schedule_backward(&list, chunk * params->ranks_count + rank, n, newest);
        }
    }
    return list.status;
}

const tryst_schedule schedule_bfs = {
    .struct_size = sizeof(tryst_schedule),
    .name = "bfs",
    .help = "all micro-batches through one of the `v` chunks of a rank after the other "
            "(2), backwards in reverse (Lamy-Poirier 2023)",
    .options = TRYST_SCHEDULE_CHUNKS | TRYST_SCHEDULE_RECOMPUTE,
    .check = check,
    .generate = generate};
