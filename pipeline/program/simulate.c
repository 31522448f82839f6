/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a program: computes its time from the costs of its actions.
 *
 * A discrete-event simulation of all ranks. An action starts when its rank is free and
 * the items that it needs have arrived. Running actions share the cores equally: each
 * runs at the rate min(1, cores / running). A link carries one transfer at a time, in the
 * order in which transfers became ready; each takes bytes / bandwidth and then the
 * latency.
 *
 * The one idea: time advances to the next event (an action ends or an item arrives), so a
 * result is exact, deterministic and independent of any time step. */
#include <math.h>
#include <stdlib.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "program.h"

#include <tryst/sized.h>

#define NEVER INFINITY

struct sim_rank {
    size_t next; /* index of the action that runs, or else starts next */
    bool running;
    double remaining_s; /* of the running action, at full rate */
    int32_t held;       /* saved activations */
};

/* The sum of a stage's gradients over its replicas. */
struct sim_sum {
    int64_t reduces; /* REDUCE_GRADs that have ended, of all replicas */
    double ready_s;  /* when the newest complete sum is there */
};

struct simulation {
    const tryst_program *program;
    const tryst_sim_params *params;
    tryst_sim *sim;
    struct sim_rank *ranks;
    struct program_places places;
    struct sim_sum *sums; /* [stages] */
    double *made_s;       /* [items]: when the item was made; NEVER: not yet */
    double *arrived_s; /* [items]: when another stage can use the item; NEVER: not made */
    double *link_s;    /* [from × to ranks]: when the link is free */
    double now_s;
};

/* ---- costs and transfers ----------------------------------------------------------- */

static double action_cost(const struct simulation *state, const tryst_action *action)
{
    const tryst_action_costs *costs = &state->params->costs[action->stage];
    switch (action->kind) {
    case TRYST_ACTION_FORWARD: return costs->forward_s;
    case TRYST_ACTION_BACKWARD: return costs->backward_s;
    case TRYST_ACTION_INPUT_GRAD: return costs->input_grad_s;
    case TRYST_ACTION_WEIGHT_GRAD: return costs->weight_grad_s;
    case TRYST_ACTION_UPDATE: return costs->update_s;
    case TRYST_ACTION_RECOMPUTE: return costs->forward_s;
    case TRYST_ACTION_PREDICT: return costs->predict_s;
    default: return 0;
    }
}

/* Reserve the link for an item that is made now, and return the time at which the stage
 * that uses the item can read it. */
static double transfer(struct simulation *state, struct program_item item)
{
    int user = program_item_user(state->program, item);
    /* the lower one of the two stages */
    int boundary = user < item.stage ? user : item.stage;
    if (user < 0) {
        return state->now_s;
    }
    int from =
        *program_owner(state->program, &state->places, item.stage, item.microbatch);
    int to = *program_owner(state->program, &state->places, user, item.microbatch);
    if (to == from) {
        return state->now_s;
    }
    const tryst_sim_params *params = state->params;
    double *free_s =
        &state->link_s[(size_t)from * (size_t)state->program->ranks_count + (size_t)to];
    double bytes = params->boundary_bytes ? (double)params->boundary_bytes[boundary] : 0;
    double wire_s = params->link_bytes_per_s > 0 ? bytes / params->link_bytes_per_s : 0;
    double begin_s = *free_s > state->now_s ? *free_s : state->now_s;
    *free_s = begin_s + wire_s;
    return *free_s + params->link_latency_s;
}

static void make_items(struct simulation *state, const tryst_action *action)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_makes(action, items);
    for (int i = 0; i < count; i++) {
        size_t index = program_item_index(state->program, items[i]);
        state->made_s[index] = state->now_s;
        state->arrived_s[index] = transfer(state, items[i]);
    }
}

/* Count a REDUCE_GRAD; the last replica's begins the sum. */
static void reduce(struct simulation *state, int stage)
{
    struct sim_sum *sum = &state->sums[stage];
    int replicas = state->places.replicas[stage];
    bool takes_time = replicas > 1 && state->params->reduce_grad_s;
    sum->reduces++;
    if (replicas < 2 || sum->reduces % replicas == 0) {
        sum->ready_s =
            state->now_s + (takes_time ? state->params->reduce_grad_s[stage] : 0);
    }
}

/* Return the time when the sum is there that an UPDATE needs; NEVER while a replica's
 * REDUCE_GRAD is missing; 0 for a stage that is not replicated. */
static double sum_time(const struct simulation *state, const tryst_action *update)
{
    const struct sim_sum *sum = &state->sums[update->stage];
    int replicas = state->places.replicas[update->stage];
    if (replicas < 2) {
        return 0;
    }
    return sum->reduces >= (int64_t)update->version * replicas ? sum->ready_s : NEVER;
}

/* Return the time when all items that `action` needs are at its rank; NEVER while one of
 * them is not made. */
static double ready_time(const struct simulation *state, const tryst_action *action)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_needs(state->program, action, items);
    double ready_s = action->kind == TRYST_ACTION_UPDATE ? sum_time(state, action) : 0;
    for (int i = 0; i < count; i++) {
        size_t index = program_item_index(state->program, items[i]);
        double at_s = items[i].stage == action->stage ? state->made_s[index]
                                                      : state->arrived_s[index];
        ready_s = at_s > ready_s ? at_s : ready_s;
    }
    return ready_s;
}

/* ---- time -------------------------------------------------------------------------- */

static const tryst_action *next_action(const struct simulation *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    size_t next = state->ranks[rank].next;
    return next < list->count ? &list->actions[next] : NULL;
}

static void start_action(struct simulation *state, int rank, const tryst_action *action)
{
    struct sim_rank *self = &state->ranks[rank];
    tryst_sim_rank *result = &state->sim->ranks[rank];
    self->running = true;
    self->remaining_s = action_cost(state, action);
    state->sim->events[rank][self->next].begin_s = state->now_s;
    if (self->next == 0) {
        result->first_s = state->now_s;
    }
    if (action->kind == TRYST_ACTION_FORWARD) {
        self->held++;
        if (self->held > result->peak_activations) {
            result->peak_activations = self->held;
        }
    }
}

static void end_action(struct simulation *state, int rank)
{
    struct sim_rank *self = &state->ranks[rank];
    tryst_sim_rank *result = &state->sim->ranks[rank];
    const tryst_action *action = next_action(state, rank);
    tryst_sim_event *event = &state->sim->events[rank][self->next];
    event->end_s = state->now_s;
    result->busy_s += event->end_s - event->begin_s;
    result->last_s = state->now_s;
    if (action->kind == TRYST_ACTION_BACKWARD ||
        action->kind == TRYST_ACTION_WEIGHT_GRAD) {
        self->held--;
    }
    make_items(state, action);
    if (action->kind == TRYST_ACTION_REDUCE_GRAD) {
        reduce(state, action->stage);
    }
    self->running = false;
    self->next++;
}

/* Start all actions that can start now, and set *running_p to the number of running
 * actions. Returns the time at which the next action can start because its last item
 * arrives; NEVER: no such item is on its way. */
static double start_ready(struct simulation *state, int *running_p)
{
    double next_s = NEVER;
    *running_p = 0;
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        const tryst_action *action = next_action(state, rank);
        if (action && !state->ranks[rank].running) {
            double ready_s = ready_time(state, action);
            if (ready_s <= state->now_s) {
                start_action(state, rank, action);
            } else if (ready_s < next_s) {
                next_s = ready_s;
            }
        }
        *running_p += state->ranks[rank].running;
    }
    return next_s;
}

static double shortest_remaining(const struct simulation *state)
{
    double shortest_s = NEVER;
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        if (state->ranks[rank].running && state->ranks[rank].remaining_s < shortest_s) {
            shortest_s = state->ranks[rank].remaining_s;
        }
    }
    return shortest_s;
}

/* Advance every running action by `work_s`, and end those with no work left but a
 * rounding error. */
static void work_off(struct simulation *state, double work_s)
{
    double slack_s = 1e-12 * (work_s + state->now_s);
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        struct sim_rank *self = &state->ranks[rank];
        if (!self->running) {
            continue;
        }
        self->remaining_s -= work_s;
        if (self->remaining_s <= slack_s) {
            end_action(state, rank);
        }
    }
}

static tryst_status run(struct simulation *state)
{
    int cores = state->params->cores_count;
    for (;;) {
        int running = 0;
        double arrival_s = start_ready(state, &running);
        if (running == 0 && arrival_s == NEVER) {
            break;
        }
        double rate = cores > 0 && running > cores ? (double)cores / running : 1;
        double shortest_s = shortest_remaining(state);
        double end_s = running > 0 ? state->now_s + shortest_s / rate : NEVER;
        if (end_s <= arrival_s) {
            state->now_s = end_s;
            work_off(state, shortest_s);
        } else {
            double work_s = (arrival_s - state->now_s) * rate;
            state->now_s = arrival_s;
            work_off(state, work_s);
        }
    }
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        if (next_action(state, rank)) {
            return refuse(TRYST_E_PROGRAM,
                          "cannot simulate the program: rank %d does not reach its end; "
                          "tryst_program_check shows why",
                          rank);
        }
    }
    return TRYST_OK;
}

/* ---- results ----------------------------------------------------------------------- */

static double idle_part(double busy_s, double whole_s)
{
    double part = whole_s > 0 ? 1 - busy_s / whole_s : 0;
    return part > 0 ? part : 0;
}

static void sum_up(struct simulation *state)
{
    tryst_sim *sim = state->sim;
    int count = sim->ranks_count;
    sim->makespan_s = state->now_s;
    for (int rank = 0; rank < count; rank++) {
        tryst_sim_rank *self = &sim->ranks[rank];
        self->bubble_makespan = idle_part(self->busy_s, sim->makespan_s);
        self->bubble_span = idle_part(self->busy_s, self->last_s - self->first_s);
        sim->bubble_makespan += self->bubble_makespan / count;
        sim->bubble_span += self->bubble_span / count;
    }
}

void tryst_sim_free(tryst_sim *sim)
{
    if (!sim) {
        return;
    }
    for (int rank = 0; sim->events && rank < sim->ranks_count; rank++) {
        free(sim->events[rank]);
    }
    free(sim->events);
    free(sim->ranks);
    free(sim);
}

static tryst_sim *sim_open(const tryst_program *program)
{
    size_t ranks = (size_t)program->ranks_count;
    tryst_sim *sim = calloc(1, sizeof *sim);
    if (!sim) {
        return NULL;
    }
    sim->struct_size = sizeof *sim;
    sim->ranks_count = program->ranks_count;
    sim->ranks = calloc(ranks, sizeof *sim->ranks);
    sim->events = calloc(ranks, sizeof *sim->events);
    for (size_t rank = 0; sim->ranks && sim->events && rank < ranks; rank++) {
        size_t count = program->lists[rank].count;
        sim->events[rank] = calloc(count ? count : 1, sizeof **sim->events);
        if (!sim->events[rank]) {
            tryst_sim_free(sim);
            return NULL;
        }
    }
    if (!sim->ranks || !sim->events) {
        tryst_sim_free(sim);
        return NULL;
    }
    return sim;
}

static void simulation_close(struct simulation *state)
{
    free(state->ranks);
    program_places_close(&state->places);
    free(state->sums);
    free(state->made_s);
    free(state->arrived_s);
    free(state->link_s);
}

static tryst_status refuse_memory(const tryst_program *program)
{
    return refuse(
        TRYST_E_NOMEM,
        "cannot simulate the program: out of memory for %d stages by %d micro-batches",
        program->stages_count, program->microbatches_count);
}

static tryst_status simulation_open(struct simulation *state)
{
    const tryst_program *program = state->program;
    size_t ranks = (size_t)program->ranks_count;
    size_t items = program_items_count(program);
    state->ranks = calloc(ranks, sizeof *state->ranks);
    state->sums = calloc((size_t)program->stages_count, sizeof *state->sums);
    tryst_status placed = program_places_open(program, &state->places);
    state->made_s = calloc(items, sizeof *state->made_s);
    state->arrived_s = calloc(items, sizeof *state->arrived_s);
    state->link_s = calloc(ranks * ranks, sizeof *state->link_s);
    if (placed != TRYST_OK || !state->ranks || !state->sums || !state->made_s ||
        !state->arrived_s || !state->link_s) {
        simulation_close(state);
        return refuse_memory(program);
    }
    for (size_t i = 0; i < items; i++) {
        state->made_s[i] = NEVER;
        state->arrived_s[i] = NEVER;
    }
    for (size_t i = 0; i < items / PROGRAM_ITEM_KINDS; i++) { /* nowhere: no transfer */
        int *owner = &state->places.owners[i];
        *owner = *owner < 0 ? 0 : *owner;
    }
    return TRYST_OK;
}

static tryst_status params_check(const tryst_program *program,
                                 const tryst_sim_params *params)
{
    if (!params->costs) {
        return refuse(TRYST_E_INVALID, "cannot simulate the program: costs is NULL");
    }
    if (program_is_looped(program)) {
        return refuse(TRYST_E_INVALID,
                      "cannot simulate the program: it is a loop; give what "
                      "tryst_program_unroll makes of it");
    }
    if (params->link_latency_s < 0 || params->cores_count < 0) {
        return refuse(
            TRYST_E_INVALID,
            "cannot simulate the program: link_latency_s is %g and cores_count %d; both "
            "must be at least 0",
            params->link_latency_s, params->cores_count);
    }
    for (int stage = 0; stage < program->stages_count; stage++) {
        const tryst_action_costs *costs = &params->costs[stage];
        if (!(costs->forward_s >= 0 && costs->backward_s >= 0 &&
              costs->input_grad_s >= 0 && costs->weight_grad_s >= 0 &&
              costs->update_s >= 0 && costs->predict_s >= 0 &&
              (!params->reduce_grad_s || params->reduce_grad_s[stage] >= 0))) {
            return refuse(TRYST_E_INVALID,
                          "cannot simulate the program: a cost of stage %d "
                          "is negative or not a number",
                          stage);
        }
    }
    return TRYST_OK;
}

tryst_status tryst_program_simulate(const tryst_program *program,
                                    const tryst_sim_params *params, tryst_sim **sim_p)
{
    tryst_sim_params own;
    tryst_status status = params_read(&own, sizeof own, params, "tryst_sim_params");
    if (status == TRYST_OK) {
        status = params_check(program, &own);
    }
    if (status != TRYST_OK) {
        return status;
    }
    struct simulation state = {
        .program = program, .params = &own, .sim = sim_open(program)};
    if (!state.sim) {
        return refuse_memory(program);
    }
    status = simulation_open(&state);
    if (status == TRYST_OK) {
        status = run(&state);
        simulation_close(&state);
    }
    if (status != TRYST_OK) {
        tryst_sim_free(state.sim);
        return status;
    }
    sum_up(&state);
    *sim_p = state.sim;
    return TRYST_OK;
}
