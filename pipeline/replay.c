/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: a program run by one loop in one process.
 *
 * One idea: an action is ready when the arrays that it reads are there. The loop takes one ready
 * action from each rank in turn until all lists are at their ends; a turn in which nobody can go on
 * is a program that cannot run. Nothing here comes from the engine, not even its idea of what an
 * action needs: that is written once more, in cell_is_ready and the run_ functions.
 *
 * Invariant: a pointer in a cell is NULL until its maker ran and again after its last reader.
 * Public functions of replay.h; called by pp_bench --check and by tests. */
#include <tryst/replay.h>

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "memory.h"
#include <tryst/weights.h>

/* One micro-batch at one stage. */
typedef struct replay_cell {
    void *input;
    void *target;
    void *saved;
    void *grad_output;
    void *kept;
} replay_cell;

typedef struct replay_run {
    const tryst_replay_params *params;
    int ranks_count;
    int stages_count;
    int microbatches_count;
    uint64_t step;
    replay_cell *cells; /* [stages_count][microbatches_count] */
    uint64_t *versions; /* [stages_count]: newest when the step began */
    int32_t *gradients; /* [stages_count]: summed since the last update */
    size_t *positions;  /* [ranks_count]: actions done */
    double *losses;     /* [microbatches_count] */
} replay_run;

static replay_cell *cell_at(const replay_run *r, int stage, int microbatch)
{
    return &r->cells[(size_t)stage * (size_t)r->microbatches_count + (size_t)microbatch];
}

static void take(void **memory)
{
    free(*memory);
    *memory = NULL;
}

static void cell_clear(replay_cell *cell)
{
    take(&cell->input);
    take(&cell->target);
    take(&cell->saved);
    take(&cell->grad_output);
    take(&cell->kept);
}

/* ---- one action ---------------------------------------------------------------------------- */

static bool cell_is_ready(const replay_run *r, const tryst_action *action)
{
    if (action->kind == TRYST_ACTION_UPDATE) {
        return true;
    }
    const replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    const bool is_last = r->params->stages[action->stage]->info.is_last;
    switch (action->kind) {
    case TRYST_ACTION_FORWARD: return !cell->saved && (action->stage == 0 || cell->input);
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD: return cell->saved && (is_last || cell->grad_output);
    case TRYST_ACTION_WEIGHT_GRAD: return cell->kept != NULL;
    default: return false;
    }
}

static tryst_stage_work cell_work(const replay_run *r, const tryst_action *action)
{
    const replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    const int64_t version = (int64_t)r->versions[action->stage] + action->version;
    return (tryst_stage_work){.struct_size = sizeof(tryst_stage_work),
                              .version = (uint64_t)version,
                              .input = cell->input,
                              .target = cell->target,
                              .saved = cell->saved,
                              .grad_output = cell->grad_output,
                              .kept = cell->kept};
}

/* Bytes of an activation; a loss is 8 too, but never asked for. */
static uint64_t activation_bytes(tryst_dtype dtype, uint64_t count)
{
    return count * (dtype == TRYST_DTYPE_F64 ? 8 : dtype == TRYST_DTYPE_F32 ? 4 : 1);
}

/* Windows for the ends of the pipeline. */
static tryst_status cell_feed(replay_run *r, const tryst_action *action)
{
    const tryst_stage_info *info = &r->params->stages[action->stage]->info;
    replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    if (info->is_first && !(cell->input = memory_alloc_aligned(info->input_count))) {
        return TRYST_E_NOMEM;
    }
    if (info->is_last && !(cell->target = memory_alloc_aligned(info->target_count))) {
        return TRYST_E_NOMEM;
    }
    const bool wants = (info->is_first && info->input_count) || info->target_count;
    if (!wants || !r->params->feed) {
        return TRYST_OK;
    }
    return r->params->feed(r->params->feed_arg, r->step, action->microbatch,
                           info->is_first && info->input_count ? cell->input : NULL,
                           info->target_count ? cell->target : NULL);
}

static tryst_status run_forward(replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = r->params->stages[action->stage];
    const tryst_stage_info *info = &stage->info;
    replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    tryst_status status = cell_feed(r, action);
    if (status != TRYST_OK) {
        return status;
    }
    cell->saved = memory_alloc_aligned(info->saved_bytes);
    void *output = NULL;
    if (!info->is_last) {
        output = memory_alloc_aligned(
            activation_bytes(info->output_dtype, info->output_count));
        cell_at(r, action->stage + 1, action->microbatch)->input = output;
    }
    if (!cell->saved || (!info->is_last && !output)) {
        return TRYST_E_NOMEM;
    }
    tryst_stage_work work = cell_work(r, action);
    work.output = info->is_last ? &r->losses[action->microbatch] : output;
    return stage->ops->forward(stage, &work);
}

static tryst_status run_backward(replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = r->params->stages[action->stage];
    const tryst_stage_info *info = &stage->info;
    const bool is_whole = action->kind == TRYST_ACTION_BACKWARD;
    replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    void *grad_input = NULL;
    if (!info->is_first) {
        grad_input =
            memory_alloc_aligned(activation_bytes(info->input_dtype, info->input_count));
        cell_at(r, action->stage - 1, action->microbatch)->grad_output = grad_input;
    }
    if (!is_whole) {
        cell->kept = memory_alloc_aligned(info->kept_bytes);
    }
    if ((!info->is_first && !grad_input) || (!is_whole && !cell->kept)) {
        return TRYST_E_NOMEM;
    }
    tryst_stage_work work = cell_work(r, action);
    work.grad_input = grad_input;
    if (!is_whole) {
        tryst_status status = info->split_backward
                                  ? stage->ops->backward_input(stage, &work)
                                  : TRYST_E_UNSUPPORTED;
        take(&cell->grad_output);
        return status;
    }
    r->gradients[action->stage]++;
    tryst_status status = stage->ops->backward(stage, &work);
    cell_clear(cell);
    return status;
}

static tryst_status run_weight_grad(replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = r->params->stages[action->stage];
    const tryst_stage_work work = cell_work(r, action);
    tryst_status status = stage->info.split_backward
                              ? stage->ops->backward_weight(stage, &work)
                              : TRYST_E_UNSUPPORTED;
    r->gradients[action->stage]++;
    cell_clear(cell_at(r, action->stage, action->microbatch));
    return status;
}

static tryst_status run_update(replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = r->params->stages[action->stage];
    tryst_status status = stage->ops->update(stage, r->gradients[action->stage]);
    r->gradients[action->stage] = 0;
    return status;
}

static tryst_status run_action(replay_run *r, const tryst_action *action)
{
    switch (action->kind) {
    case TRYST_ACTION_FORWARD: return run_forward(r, action);
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD: return run_backward(r, action);
    case TRYST_ACTION_WEIGHT_GRAD: return run_weight_grad(r, action);
    case TRYST_ACTION_UPDATE: return run_update(r, action);
    default: return TRYST_E_UNSUPPORTED;
    }
}

/* ---- the loop ------------------------------------------------------------------------------ */

static tryst_status replay_fail(const replay_run *r, tryst_status status,
                                const char *format, ...) TRYST_PRINTF(3, 4);

static tryst_status replay_fail(const replay_run *r, tryst_status status,
                                const char *format, ...)
{
    const tryst_replay_params *params = r->params;
    if (params->error && params->error_capacity > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(params->error, params->error_capacity, format, arguments);
        va_end(arguments);
    }
    return status;
}

/* Run the next action of `rank` if it is ready. */
static tryst_status replay_turn(replay_run *r, int rank, bool *moved)
{
    size_t count;
    const tryst_action *actions = tryst_program_actions(r->params->program, rank, &count);
    if (r->positions[rank] == count || !cell_is_ready(r, &actions[r->positions[rank]])) {
        return TRYST_OK;
    }
    const tryst_action *action = &actions[r->positions[rank]++];
    *moved = true;
    const tryst_status status = run_action(r, action);
    if (status != TRYST_OK) {
        char name[32];
        return replay_fail(r, status, "replay, step %llu, rank %d: %s failed: %s",
                           (unsigned long long)r->step, rank,
                           tryst_action_format(action, name, sizeof(name)),
                           tryst_status_str(status));
    }
    return TRYST_OK;
}

/* TRYST_OK when every list is at its end; else name the first rank that is stuck. */
static tryst_status replay_finished(const replay_run *r)
{
    for (int rank = 0; rank < r->ranks_count; rank++) {
        size_t count;
        const tryst_action *actions =
            tryst_program_actions(r->params->program, rank, &count);
        if (r->positions[rank] < count) {
            char name[32];
            return replay_fail(
                r, TRYST_E_PROGRAM,
                "replay, step %llu: no rank can go on; rank %d waits for the inputs of "
                "%s",
                (unsigned long long)r->step, rank,
                tryst_action_format(&actions[r->positions[rank]], name, sizeof(name)));
        }
    }
    return TRYST_OK;
}

static void replay_clear_cells(replay_run *r)
{
    for (int i = 0; i < r->stages_count * r->microbatches_count; i++) {
        cell_clear(&r->cells[i]);
    }
}

static tryst_status replay_step(replay_run *r, double *loss_p)
{
    memset(r->positions, 0, (size_t)r->ranks_count * sizeof(*r->positions));
    for (int s = 0; s < r->stages_count; s++) {
        uint64_t oldest;
        r->params->stages[s]->ops->versions(r->params->stages[s], &oldest,
                                            &r->versions[s]);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < r->ranks_count; rank++) {
            tryst_status status = replay_turn(r, rank, &moved);
            if (status != TRYST_OK) {
                return status;
            }
        }
    }
    *loss_p = tryst_loss_mean(r->losses, r->microbatches_count);
    return replay_finished(r);
}

/* The stages are those of one model, in order, so that gradients and outputs find a neighbour. */
static tryst_status replay_check(const replay_run *r)
{
    for (int s = 0; s < r->stages_count; s++) {
        const tryst_stage *stage = r->params->stages[s];
        if (!stage || (stage->info.is_first != 0) != (s == 0) ||
            (stage->info.is_last != 0) != (s + 1 == r->stages_count)) {
            return replay_fail(r, TRYST_E_INVALID,
                               "replay: stage %d of %d is missing or not in its place", s,
                               r->stages_count);
        }
    }
    return TRYST_OK;
}

tryst_status tryst_replay(const tryst_replay_params *params)
{
    replay_run r = {.params = params,
                    .ranks_count = tryst_program_ranks(params->program),
                    .stages_count = tryst_program_stages(params->program),
                    .microbatches_count = tryst_program_microbatches(params->program)};
    tryst_status status = replay_check(&r);
    if (status != TRYST_OK) {
        return status;
    }
    const size_t stages = (size_t)r.stages_count,
                 microbatches = (size_t)r.microbatches_count;
    r.cells = calloc(stages * microbatches, sizeof(*r.cells));
    r.versions = calloc(stages, sizeof(*r.versions));
    r.gradients = calloc(stages, sizeof(*r.gradients));
    r.positions = calloc((size_t)r.ranks_count, sizeof(*r.positions));
    r.losses = calloc(microbatches, sizeof(*r.losses));
    status = TRYST_E_NOMEM;
    if (r.cells && r.versions && r.gradients && r.positions && r.losses) {
        status = TRYST_OK;
        for (uint64_t i = 0; i < params->steps_count && status == TRYST_OK; i++) {
            r.step = params->first_step + i;
            status = replay_step(&r, &params->losses[i]);
        }
        replay_clear_cells(&r);
    } else {
        replay_fail(&r, status, "no memory to replay a program");
    }
    free(r.losses);
    free(r.positions);
    free(r.gradients);
    free(r.versions);
    free(r.cells);
    return status;
}

/* ---- comparison ---------------------------------------------------------------------------- */

/* Bits, not values: a NaN equals itself, and zero is not minus zero. */
static bool bits_equal(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

typedef struct weights_comparison {
    const float *run;
    const float *replay;
    char *text;
    size_t capacity;
} weights_comparison;

static int compare_parameter(void *arg, const tryst_parameter *parameter)
{
    weights_comparison *c = arg;
    const uint64_t bytes = parameter->count * sizeof(float);
    if (!bits_equal(c->run, c->replay, bytes)) {
        uint64_t i = 0;
        while (bits_equal(&c->run[i], &c->replay[i], sizeof(float))) {
            i++;
        }
        fail_text(TRYST_OK, c->text, c->capacity,
                  "the losses are equal, but the weights are not: %s[%llu] is %.9g, and "
                  "%.9g in "
                  "the replay",
                  parameter->name, (unsigned long long)i, (double)c->run[i],
                  (double)c->replay[i]);
        return 1;
    }
    c->run += parameter->count;
    c->replay += parameter->count;
    return 0;
}

bool tryst_replay_equal(const tryst_model *model, uint64_t first_step,
                        uint64_t steps_count, const tryst_replay_result *run,
                        const tryst_replay_result *replay, char *text, size_t capacity)
{
    for (uint64_t i = 0; i < steps_count; i++) {
        if (!bits_equal(&run->losses[i], &replay->losses[i], sizeof(double))) {
            fail_text(
                TRYST_OK, text, capacity,
                "step %llu is the first whose loss differs: %.17g, and %.17g in the "
                "replay (what went wrong is in this step's forwards, or in the backwards "
                "and the update before)",
                (unsigned long long)first_step + i, run->losses[i], replay->losses[i]);
            return false;
        }
    }
    weights_comparison c = {.run = run->weights,
                            .replay = replay->weights,
                            .text = text,
                            .capacity = capacity};
    if (run->weights && replay->weights &&
        tryst_model_parameter_visit(model, compare_parameter, &c) != 0) {
        return false;
    }
    fail_text(TRYST_OK, text, capacity, "%llu losses%s are bitwise equal to the replay's",
              (unsigned long long)steps_count, run->weights ? " and all weights" : "");
    return true;
}
