/* SPDX-License-Identifier: Apache-2.0 */
/* zb-h1 and zb-h2: 1f1b with its backward in two parts, I and W: the next rank waits for I
 * alone, and W fills what would be a bubble (Qi et al., "Zero Bubble Pipeline
 * Parallelism", ICLR 2024). zb-h1 also over v chunks of each rank, which is the order of
 * PyTorch's ScheduleInterleavedZeroBubble.
 *
 * The one idea: a rank's forwards are a sequence of v·M places, and so are its I and its
 * W. Place i of I is behind place i + lead of F, and before place i - behind of W:
 *
 *            lead                   behind   peak
 *   zb-h1    (v - 1)g + p - 1 - r   r        (v - 1)g + p chunks
 *   zb-h2    2(p - 1 - r)           2r       2p - 1 micro-batches
 *
 * lead + behind is the same on all ranks, and so are the activations that they hold:
 * zb-h1's are those of 1f1b's first rank, zb-h2's about twice as many. Groups of fewer
 * than p micro-batches leave ranks without work, so zb-h1 has max(1, M / p, rounded
 * down) groups of nearly equal size; the first has the largest, g. */
#include "schedules.h"

static const struct schedule_weights newest = {0, 0};

/* Groups of micro-batches, each of which passes all chunks before the next one: `larger`
 * of them have size + 1 micro-batches, the ones behind them `size`. */
struct groups {
    int size;
    int larger;
};

static struct groups groups_of(const tryst_schedule_params *params)
{
    int count = params->microbatches_count;
    int rounds = count < params->ranks_count ? 1 : count / params->ranks_count;
    return (struct groups){count / rounds, count % rounds};
}

struct place {
    int chunk;
    int microbatch;
};

/* Return the place at `index` of the sequence of forwards. */
static struct place place_at(const tryst_schedule_params *params, int index)
{
    struct groups groups = groups_of(params);
    int size = groups.size + 1, begin = 0;
    int microbatch = index / params->chunks_count; /* one of the same group */
    if (microbatch < groups.larger * size) {
        begin = microbatch / size * size;
    } else {
        size = groups.size;
        begin = groups.larger * (size + 1);
        begin += (microbatch - begin) / size * size;
    }
    int inside = index - begin * params->chunks_count;
    return (struct place){inside / size, begin + inside % size};
}

static int stage_of(const struct schedule_list *list, int chunk)
{
    return chunk * list->params->ranks_count + list->rank;
}

/* Write one rank's list, the forwards `lead` places ahead of I, and W `behind` places
 * behind it. */
static tryst_status write(struct schedule_list *list, int lead, int behind)
{
    int chunks = list->params->chunks_count;
    int count = chunks * list->params->microbatches_count;
    lead = schedule_min(lead, count);
    for (int i = -lead; i < count + behind; i++) {
        if (i + lead < count) {
            struct place at = place_at(list->params, i + lead);
            schedule_forward(list, stage_of(list, at.chunk), at.microbatch, newest);
        }
        if (i >= 0 && i < count) {
            struct place at = place_at(list->params, i);
            schedule_input_grad(list, stage_of(list, chunks - 1 - at.chunk),
                                at.microbatch, newest);
        }
        if (i >= behind) {
            struct place at = place_at(list->params, i - behind);
            schedule_weight_grad(list, stage_of(list, chunks - 1 - at.chunk),
                                 at.microbatch, newest);
        }
    }
    return list->status;
}

static const char *check_h1(tryst_schedule_params *params)
{
    params->chunks_count = params->chunks_count > 0 ? params->chunks_count : 1;
    return NULL;
}

static tryst_status generate_h1(const tryst_schedule_params *params,
                                tryst_program *program, int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    struct groups groups = groups_of(params);
    int largest = groups.size + (groups.larger > 0);
    return write(
        &list, (params->chunks_count - 1) * largest + schedule_ahead(params, rank), rank);
}

static tryst_status generate_h2(const tryst_schedule_params *params,
                                tryst_program *program, int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    return write(&list, 2 * schedule_ahead(params, rank), 2 * rank);
}

const tryst_schedule schedule_zb_h1 = {
    .struct_size = sizeof(tryst_schedule),
    .name = "zb-h1",
    .help = "1f1b in I and W over `v` chunks on each rank (1): W fills the bubble, with "
            "1f1b's memory (Qi et al. 2024)",
    .options = TRYST_SCHEDULE_CHUNKS | TRYST_SCHEDULE_RECOMPUTE,
    .check = check_h1,
    .generate = generate_h1};

const tryst_schedule schedule_zb_h2 = {
    .struct_size = sizeof(tryst_schedule),
    .name = "zb-h2",
    .help = "as zb-h1 with more forwards first, 2p - 1 activations on each rank: no "
            "bubble if F = I = W (Qi et al. 2024)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .generate = generate_h2};
