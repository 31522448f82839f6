/* SPDX-License-Identifier: Apache-2.0 */
/* dualpipe: two copies of the model in opposite directions, with backwards split into I
 * and W where that fills a gap (DeepSeek-AI 2024; the order of their code).
 *
 * Rank r holds stage r of the copy that goes down, and stage p - 1 - r of the one that
 * goes up. The first half of the micro-batches goes down, the other half up.
 *
 * The one idea: the ranks are two halves, and rank r and its mirror p - 1 - r run the
 * same list, with the two copies exchanged. So both ends feed the pipeline, each rank in
 * the middle alternates between a forward of one copy and a backward of the other, and W
 * is left for the end, where a rank would wait. The near copy is the one that begins at
 * the rank's own end.
 *
 * The code runs a forward and a backward as one where its comments say "overlapped"; here
 * they are two, the forward first.
 *
 * Invariant: each copy's micro-batches come in rising order, and W's in that of their
 * I's. */
#include <stdio.h>

#include "schedules.h"

enum copy { NEAR, FAR };

struct dualpipe {
    struct schedule_list list;
    int forwards[2], backwards[2]; /* of each copy, so far */
    size_t weighted; /* place in the rank's list behind the last I that has its W */
};

static const char *check(tryst_schedule_params *params)
{
    static _Thread_local char text[160];
    int ranks = params->ranks_count, count = params->microbatches_count;
    const char *odd = schedule_even_check(params);
    if (odd) {
        return odd;
    }
    if (count % 2 != 0) {
        snprintf(text, sizeof text,
                 "the number of micro-batches must be even, half for each direction; %d "
                 "is odd",
                 count);
        return text;
    }
    if (count / 2 < ranks) {
        snprintf(text, sizeof text,
                 "the micro-batches must be at least 2 x %d ranks, and are %d", ranks,
                 count);
        return text;
    }
    return NULL;
}

/* Return the rank's stage of a copy, and write the copy's first micro-batch. */
static int stage_of(const struct dualpipe *self, enum copy copy, int *first_p)
{
    int ranks = self->list.params->ranks_count, rank = self->list.rank;
    bool up = (rank >= ranks / 2) != (copy == FAR);
    *first_p = up ? self->list.params->microbatches_count / 2 : 0;
    return up ? ranks - 1 - rank : rank;
}

static void forward(struct dualpipe *self, enum copy copy)
{
    int first, stage = stage_of(self, copy, &first);
    schedule_forward(&self->list, stage, first + self->forwards[copy]++,
                     (struct schedule_weights){0, 0});
}

/* Add B, or I if `splits`. */
static void backward(struct dualpipe *self, enum copy copy, bool splits)
{
    int first, stage = stage_of(self, copy, &first);
    (splits ? schedule_input_grad : schedule_backward)(&self->list, stage,
                                                       first + self->backwards[copy]++,
                                                       (struct schedule_weights){0, 0});
}

/* Add the W of the first I that has none. */
static void weight(struct dualpipe *self)
{
    size_t count = 0, i = self->weighted;
    const tryst_action *actions =
        tryst_program_actions(self->list.program, self->list.rank, &count);
    while (i < count && actions[i].kind != TRYST_ACTION_INPUT_GRAD) {
        i++;
    }
    self->weighted = i + 1;
    if (i < count) {
        schedule_weight_grad(&self->list, actions[i].stage, actions[i].microbatch,
                             (struct schedule_weights){0, 0});
    }
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    struct dualpipe self = {.list = schedule_begin(params, program, rank)};
    int ranks = params->ranks_count, near = schedule_min(rank, ranks - 1 - rank) + 1;
    int inner = ranks / 2 - near; /* ranks between this one and the middle */
    for (int i = 0; i < 2 * inner; i++) {
        forward(&self, NEAR);
    }
    for (int i = 0; i < near; i++) {
        forward(&self, NEAR), forward(&self, FAR);
    }
    for (int i = 0; i < inner; i++) {
        backward(&self, FAR, true), weight(&self), forward(&self, FAR);
    }
    for (int i = 0; i < params->microbatches_count / 2 - ranks + near; i++) {
        forward(&self, NEAR), backward(&self, FAR, false);
        forward(&self, FAR), backward(&self, NEAR, false);
    }
    for (int i = 0; i < inner; i++) {
        backward(&self, FAR, false), forward(&self, FAR), backward(&self, NEAR, false);
    }
    for (int i = 0; i < 2 * near; i++) { /* the second half is split */
        backward(&self, i % 2 ? NEAR : FAR, i >= near);
    }
    for (int i = 0; i < inner; i++) {
        weight(&self), backward(&self, NEAR, true);
    }
    for (int i = 0; i < near; i++) {
        weight(&self);
    }
    return self.list.status;
}

const tryst_schedule schedule_dualpipe = {
    .struct_size = sizeof(tryst_schedule),
    .name = "dualpipe",
    .help = "two copies of the model in opposite directions, each fed from its own end, "
            "some backwards as I and W (DeepSeek-AI 2024)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .check = check,
    .generate = generate};
