/* SPDX-License-Identifier: Apache-2.0 */
/* Additions to one rank's list. */
#include "schedules.h"

#include <stdio.h>

struct schedule_list schedule_begin(const tryst_schedule_params *params,
                                    tryst_program *program, int rank)
{
    return (struct schedule_list){
        .params = params, .program = program, .rank = rank, .status = TRYST_OK};
}

static void add(struct schedule_list *list, const tryst_action *action)
{
    if (list->status == TRYST_OK) {
        list->status = tryst_program_append(list->program, list->rank, action);
    }
}

static void add_read(struct schedule_list *list, tryst_action_kind kind, int stage,
                     int microbatch, struct schedule_weights weights)
{
    const tryst_action action = {.kind = kind,
                                 .stage = stage,
                                 .microbatch = microbatch,
                                 .version = weights.slot > 0 ? 0 : weights.version,
                                 .slot = weights.slot};
    add(list, &action);
}

void schedule_forward(struct schedule_list *list, int stage, int microbatch,
                      struct schedule_weights weights)
{
    add_read(list, TRYST_ACTION_FORWARD, stage, microbatch, weights);
}

static bool recomputes(const tryst_schedule_params *params, int microbatch)
{
    int of_update = params->every > 0 ? params->every : params->microbatches_count;
    bool is_last = (microbatch + 1) % of_update == 0;
    return params->recompute == TRYST_RECOMPUTE_ALWAYS ||
           (params->recompute == TRYST_RECOMPUTE_EXCEPT_LAST && !is_last);
}

/* Add R if params' `recompute` wants one, then B or I. */
static void add_backward(struct schedule_list *list, tryst_action_kind kind, int stage,
                         int microbatch, struct schedule_weights weights)
{
    if (recomputes(list->params, microbatch)) {
        add_read(list, TRYST_ACTION_RECOMPUTE, stage, microbatch, weights);
    }
    add_read(list, kind, stage, microbatch, weights);
}

void schedule_backward(struct schedule_list *list, int stage, int microbatch,
                       struct schedule_weights weights)
{
    add_backward(list, TRYST_ACTION_BACKWARD, stage, microbatch, weights);
}

void schedule_input_grad(struct schedule_list *list, int stage, int microbatch,
                         struct schedule_weights weights)
{
    add_backward(list, TRYST_ACTION_INPUT_GRAD, stage, microbatch, weights);
}

void schedule_weight_grad(struct schedule_list *list, int stage, int microbatch,
                          struct schedule_weights weights)
{
    add_read(list, TRYST_ACTION_WEIGHT_GRAD, stage, microbatch, weights);
}

void schedule_update(struct schedule_list *list, int stage, int version)
{
    const tryst_action action = {.kind = TRYST_ACTION_UPDATE,
                                 .stage = stage,
                                 .microbatch = -1,
                                 .version = version};
    add(list, &action);
}

void schedule_predict(struct schedule_list *list, int stage, int slot, int direction,
                      double ahead)
{
    const tryst_action action = {.kind = TRYST_ACTION_PREDICT,
                                 .stage = stage,
                                 .microbatch = -1,
                                 .slot = slot,
                                 .direction = direction,
                                 .ahead = ahead};
    add(list, &action);
}

void schedule_mark(struct schedule_list *list, tryst_program_part part)
{
    if (list->status == TRYST_OK) {
        list->status = tryst_program_mark(list->program, list->rank, part);
    }
}

const char *schedule_even_check(const tryst_schedule_params *params)
{
    static _Thread_local char text[128];
    snprintf(text, sizeof text,
             "the number of ranks must be even, since each rank holds two different "
             "stages; %d is odd",
             params->ranks_count);
    return params->ranks_count % 2 != 0 ? text : NULL;
}

void schedule_alternate(struct schedule_list *list, int lead, int count)
{
    static const struct schedule_weights newest = {0, 0};
    lead = schedule_min(lead, count);
    for (int n = -lead; n < count; n++) {
        if (n + lead < count) {
            schedule_forward(list, list->rank, n + lead, newest);
        }
        if (n >= 0) {
            schedule_backward(list, list->rank, n, newest);
        }
    }
}
