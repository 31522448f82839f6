/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the lists of schedules with stages in a V.
 *
 * The first half of the stages goes down the ranks, the second half back up, so that the
 * last stage is on rank 0, and each rank has one stage near an end of the pipeline and
 * one near its middle. Invariant: a B counts as an I and as a W, so that it is added only
 * where no W of its chunk is pending. */
#include "v.h"

static const struct schedule_weights newest = {0, 0};

const char *schedule_v_check(tryst_schedule_params *params)
{
    params->chunks_count = 2;
    return NULL;
}

struct schedule_v schedule_v_begin(const tryst_schedule_params *params,
                                   tryst_program *program, int rank)
{
    return (struct schedule_v){.list = schedule_begin(params, program, rank)};
}

void schedule_v_add(struct schedule_v *v, char kind, int chunk)
{
    int *next = kind == 'F'   ? &v->forwards[chunk]
                : kind == 'W' ? &v->weight_grads[chunk]
                              : &v->input_grads[chunk];
    int microbatch = (*next)++;
    int rank = v->list.rank, ranks = v->list.params->ranks_count;
    int stage = chunk == 0 ? rank : 2 * ranks - 1 - rank;
    if (microbatch >= v->list.params->microbatches_count) {
        return;
    }
    if (kind == 'F') {
        schedule_forward(&v->list, stage, microbatch, newest);
    } else if (kind == 'I') {
        schedule_input_grad(&v->list, stage, microbatch, newest);
    } else if (kind == 'W') {
        schedule_weight_grad(&v->list, stage, microbatch, newest);
    } else {
        schedule_backward(&v->list, stage, microbatch, newest);
        v->weight_grads[chunk]++;
    }
}

void schedule_v_repeat(struct schedule_v *v, int times, const char *actions)
{
    for (int i = 0; i < times; i++) {
        for (const char *at = actions; *at; at += at[2] ? 3 : 2) {
            schedule_v_add(v, at[0], at[1] - '0');
        }
    }
}
