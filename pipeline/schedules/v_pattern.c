/* SPDX-License-Identifier: Apache-2.0 */
/* v-half and v-min: two stages on each rank, in a V, with about half and a third of
 * 1f1b's activations (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS
 * 2024).
 *
 * The one idea: with F = I = W = one slot of time, a rank has six actions a micro-batch.
 * So the slots of micro-batch 0 decide all: those of micro-batch n are 6n later. F and I
 * of the two chunks have fixed slots, which differ modulo 6 on each rank; W take what is
 * free, in the order of their I. Slots of rank r, and the slot T of the first I:
 *
 *             F0   F1           I1       I0               T
 *   v-half    2r   3p - 2 - r   T + 2r   T + 3p - 2 - r   3p, or 3p + 3 if p is even
 *   v-min     r    2p - 1 - r   T + r    T + 2p - 1 - r   2p, or 2p + 2 if 3 divides p
 *
 * A chunk's activations live from F to W. The slots from F0 to I0 and from F1 to I1 are
 * together 2T on each rank: the longer of the two is near the pipeline's ends, the
 * shorter near its middle. Invariant: one action in a slot. A list has the order of the
 * slots alone, so other costs than F = I = W let ranks wait at each micro-batch. */
#include "v.h"

enum { SLOTS = 6 }; /* of a micro-batch */

struct pattern {
    int64_t forward[2]; /* slot of micro-batch 0, of each chunk */
    int64_t input_grad[2];
};

/* Return the index of the micro-batch that has `slot`, where micro-batch 0 has `first`;
 * -1 if none of `count` has it. */
static int64_t microbatch_at(int64_t first, int64_t slot, int count)
{
    int64_t behind = slot - first;
    return behind >= 0 && behind % SLOTS == 0 && behind / SLOTS < count ? behind / SLOTS
                                                                        : -1;
}

/* Add the W of the oldest I without one, if that I is before `slot`. */
static void weight_grad_add(struct schedule_v *v, const struct pattern *pattern,
                            int64_t slot)
{
    int64_t since[2];
    for (int chunk = 0; chunk < 2; chunk++) {
        since[chunk] =
            pattern->input_grad[chunk] + (int64_t)SLOTS * v->weight_grads[chunk];
    }
    int oldest = since[1] < since[0];
    if (v->weight_grads[oldest] == v->list.params->microbatches_count) {
        oldest = !oldest;
    }
    if (since[oldest] < slot) {
        schedule_v_add(v, 'W', oldest);
    }
}

static void slot_fill(struct schedule_v *v, const struct pattern *pattern, int64_t slot)
{
    int count = v->list.params->microbatches_count;
    for (int chunk = 0; chunk < 2; chunk++) {
        if (microbatch_at(pattern->forward[chunk], slot, count) >= 0) {
            schedule_v_add(v, 'F', chunk);
            return;
        }
        if (microbatch_at(pattern->input_grad[chunk], slot, count) >= 0) {
            schedule_v_add(v, 'I', chunk);
            return;
        }
    }
    weight_grad_add(v, pattern, slot);
}

static tryst_status write(const tryst_schedule_params *params, tryst_program *program,
                          int rank, const struct pattern *pattern)
{
    struct schedule_v v = schedule_v_begin(params, program, rank);
    int count = params->microbatches_count;
    for (int64_t slot = 0; v.weight_grads[0] < count || v.weight_grads[1] < count;
         slot++) {
        slot_fill(&v, pattern, slot);
    }
    return v.list.status;
}

static tryst_status generate_half(const tryst_schedule_params *params,
                                  tryst_program *program, int rank)
{
    int64_t p = params->ranks_count, r = rank;
    int64_t turn = 3 * p + (p % 2 == 0 ? 3 : 0);
    const struct pattern pattern = {{2 * r, 3 * p - 2 - r},
                                    {turn + 3 * p - 2 - r, turn + 2 * r}};
    return write(params, program, rank, &pattern);
}

static tryst_status generate_min(const tryst_schedule_params *params,
                                 tryst_program *program, int rank)
{
    int64_t p = params->ranks_count, r = rank;
    int64_t turn = 2 * p + (p % 3 == 0 ? 2 : 0);
    const struct pattern pattern = {{r, 2 * p - 1 - r}, {turn + 2 * p - 1 - r, turn + r}};
    return write(params, program, rank, &pattern);
}

const tryst_schedule schedule_v_half = {
    .struct_size = sizeof(tryst_schedule),
    .name = "v-half",
    .help = "two stages on each rank, in a V, with half of 1f1b's activations; only for "
            "F = I = W (Qi et al. 2024)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .check = schedule_v_check,
    .generate = generate_half};

const tryst_schedule schedule_v_min = {
    .struct_size = sizeof(tryst_schedule),
    .name = "v-min",
    .help = "as v-half, with a third of 1f1b's activations; only for F = I = W (Qi et "
            "al. 2024)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .check = schedule_v_check,
    .generate = generate_min};
