/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the first step of a program and a later one, by the simulator.
 *
 * One idea: steps follow one another and overlap, so a later step is an eighth of what 16
 * steps take longer than 8. A period of two, four or eight steps is then a mean over
 * whole periods; the first 8 steps have filled the pipeline. The first step is a run of
 * one step. Loops and other programs do not differ. */
#include "bench_predict.h"

#include <stdlib.h>

/* Steps after which the later ones are periodic, and steps over which their mean is. */
#define STEPS 8

static tryst_status simulate(const tryst_program *program, int steps,
                             const tryst_sim_params *params, tryst_sim **sim_p)
{
    tryst_program *flat = NULL;
    tryst_status status = tryst_program_unroll(program, steps, &flat);
    if (status == TRYST_OK) {
        status = tryst_program_simulate(flat, params, sim_p);
    }
    tryst_program_close(flat);
    return status;
}

static double idle_part(double busy_s, double step_s)
{
    double part = step_s > 0 ? 1 - busy_s / step_s : 0;
    return part > 0 ? part : 0;
}

/* Set a rank of a step; the rank takes part in the step for `own_s`. */
static void rank_set(struct bench_step *step, int ranks_count, int rank, double busy_s,
                     double own_s, int32_t peak)
{
    double bubble = idle_part(busy_s, step->step_s);
    step->ranks[rank] =
        (struct bench_step_rank){.busy_s = busy_s,
                                 .wait_s = own_s > busy_s ? own_s - busy_s : 0,
                                 .bubble = bubble,
                                 .peak = peak};
    step->bubble += bubble / ranks_count;
}

/* A single step ends for a rank with its last action. */
static void first_set(struct bench_step *step, const tryst_sim *one)
{
    step->step_s = one->makespan_s;
    for (int rank = 0; rank < one->ranks_count; rank++) {
        const tryst_sim_rank *of = &one->ranks[rank];
        rank_set(step, one->ranks_count, rank, of->busy_s, of->last_s,
                 of->peak_activations);
    }
}

static void later_set(struct bench_step *step, const tryst_sim *shorter,
                      const tryst_sim *longer)
{
    step->step_s = (longer->makespan_s - shorter->makespan_s) / STEPS;
    for (int rank = 0; rank < longer->ranks_count; rank++) {
        double busy_s =
            (longer->ranks[rank].busy_s - shorter->ranks[rank].busy_s) / STEPS;
        rank_set(step, longer->ranks_count, rank, busy_s, step->step_s,
                 longer->ranks[rank].peak_activations);
    }
}

tryst_status bench_predict(const tryst_program *program, const tryst_sim_params *params,
                           struct bench_prediction *prediction_p)
{
    size_t ranks = (size_t)tryst_program_ranks(program);
    tryst_sim *sims[3] = {NULL, NULL, NULL};
    static const int steps[] = {1, STEPS, 2 * STEPS};
    *prediction_p = (struct bench_prediction){
        .first.ranks = calloc(ranks, sizeof *prediction_p->first.ranks),
        .later.ranks = calloc(ranks, sizeof *prediction_p->later.ranks)};
    tryst_status status =
        prediction_p->first.ranks && prediction_p->later.ranks ? TRYST_OK : TRYST_E_NOMEM;
    for (int i = 0; i < 3 && status == TRYST_OK; i++) {
        status = simulate(program, steps[i], params, &sims[i]);
    }
    if (status == TRYST_OK) {
        first_set(&prediction_p->first, sims[0]);
        later_set(&prediction_p->later, sims[1], sims[2]);
    }
    for (int i = 0; i < 3; i++) {
        tryst_sim_free(sims[i]);
    }
    return status;
}

void bench_prediction_close(struct bench_prediction *prediction)
{
    free(prediction->first.ranks);
    free(prediction->later.ranks);
}
