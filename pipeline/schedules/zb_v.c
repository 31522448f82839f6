/* SPDX-License-Identifier: Apache-2.0 */
/* zb-v: two stages on each rank, in a V, backwards in I and W (Qi et al., "Zero Bubble
 * Pipeline Parallelism", ICLR 2024; the order of PyTorch's ScheduleZBVZeroBubble).
 *
 * The one idea: the V brings a micro-batch back to rank 0 for its last stage, so that the
 * first I is ready there, and all ranks have work, after 2p forwards of half a rank each.
 * From then on a rank runs F, I and W of its two chunks in turn: with F = I = W no rank
 * waits, and W fill the end, where forwards are missing.
 *
 * Invariant: a rank holds at most 2p chunks. Fewer than 2p - 1 micro-batches do not fill
 * the pipeline: the lists are those of 2p - 1, without the micro-batches that the step
 * does not have. */
#include "v.h"

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    int ranks = params->ranks_count;
    int count = params->microbatches_count;
    count = count < 2 * ranks - 1 ? 2 * ranks - 1 : count;
    int first = 2 * (ranks - rank) - 1; /* forwards before any comes back */
    struct schedule_v v = schedule_v_begin(params, program, rank);
    schedule_v_repeat(&v, first, "F0");
    schedule_v_repeat(&v, rank, "F1 F0");
    schedule_v_repeat(&v, ranks - rank, "F1 I1 W1");
    schedule_v_repeat(&v, count - first - rank, "F0 I0 W0 F1 I1 W1");
    schedule_v_repeat(&v, ranks - rank - 1, "I0 W0 F1 I1 W1");
    schedule_v_repeat(&v, rank, "I0 I1");
    schedule_v_repeat(&v, ranks - rank, "I0 W0");
    schedule_v_repeat(&v, rank, "W1");
    schedule_v_repeat(&v, rank, "W0");
    return v.list.status;
}

const tryst_schedule schedule_zb_v = {
    .struct_size = sizeof(tryst_schedule),
    .name = "zb-v",
    .help = "two stages on each rank, in a V, backwards in I and W: no bubble if F = I = "
            "W, with 1f1b's memory (Qi et al. 2024)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .check = schedule_v_check,
    .generate = generate};
