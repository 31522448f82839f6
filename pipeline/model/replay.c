/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the oracle: runs a program by one loop in one process.
 *
 * One idea: an action is ready when the arrays that it reads exist. The loop takes one
 * ready action from each rank in turn until all lists are at their ends. If no rank has a
 * ready action before that, the program cannot run. The oracle shares no code with the
 * engine: cell_is_ready and the run_ functions define the needs of actions a second time.
 *
 * A replica of a stage is a stage of its own. The REDUCE_GRAD of its last replica adds
 * the gradients (replay_sum.c), and the UPDATEs of all replicas wait for it.
 *
 * A loop's step takes the parts of the lists that belong to it. Micro-batches are counted
 * from the first step on, over all steps, and a cell is free again two steps later.
 *
 * Stages on a device get the same arrays in the device's memory, and the loop waits for
 * each action before the next one begins (replay_memory.h). The loop does not wait for
 * UPDATE, since a stage orders its later calls behind its updates.
 *
 * Invariant: an array in a cell is allocated by the action that fills it, and freed after
 * the last action that reads it. */
#include <tryst/replay.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "replay_memory.h"
#include "replay_sum.h"
#include <tryst/weights.h>

/* The arrays of one micro-batch at one stage. */
struct replay_cell {
    bool forwarded; /* F has run, but not the last backward */
    struct replay_array input;
    struct replay_array target;
    struct replay_array saved;
    struct replay_array grad_output;
    struct replay_array kept;
};

/* A stage on a rank; several ranks may have a copy of one stage, each with its
 * micro-batches. */
struct replay_copy {
    tryst_stage *stage; /* NULL: not on this rank */
    uint64_t first;     /* newest weight version when the first step began */
    uint64_t version;   /* newest when the step began */
    uint64_t updates;   /* run in this step */
    double delay;       /* of tryst_stage_need */
    int32_t gradients;  /* micro-batches added since the last update */
    bool waits;         /* REDUCE_GRAD has run, and not all copies have come to theirs */
    bool summed;        /* the gradients are the sum over all copies */
};

struct replay_run {
    const tryst_replay_params *params;
    struct replay_memory memory;
    int ranks_count;
    int stages_count;
    int microbatches_count;
    uint64_t step;
    bool first, last;           /* this is the first, the last step of the call */
    struct replay_cell *cells;  /* [stages_count][2 * microbatches_count] */
    bool *recomputed;           /* [stages_count][microbatches_count]: R follows each F */
    struct replay_copy *copies; /* [ranks_count][stages_count] */
    tryst_stage **summed;       /* [ranks_count]: the copies that sum_copies adds */
    size_t *positions;          /* [ranks_count]: actions run in this step */
    double *losses;             /* [2 * microbatches_count], as the cells */
    int rank;                   /* of the action that runs */
};

/* Return the place of a micro-batch among those of two steps. `microbatch` counts from
 * the begin of the step that runs. */
static size_t ring_at(const struct replay_run *r, int microbatch)
{
    uint64_t count = (uint64_t)r->microbatches_count;
    uint64_t steps = r->step - r->params->first_step;
    return (size_t)((steps * count + (uint64_t)microbatch) % (2 * count));
}

static struct replay_cell *cell_at(const struct replay_run *r, int stage, int microbatch)
{
    size_t count = 2 * (size_t)r->microbatches_count;
    return &r->cells[(size_t)stage * count + ring_at(r, microbatch)];
}

static bool *recomputed_at(const struct replay_run *r, const tryst_action *action)
{
    int microbatch = action->microbatch % r->microbatches_count;
    return &r->recomputed[(size_t)action->stage * (size_t)r->microbatches_count +
                          (size_t)microbatch];
}

static struct replay_copy *copy_at(const struct replay_run *r, int rank, int stage)
{
    return &r->copies[(size_t)rank * (size_t)r->stages_count + (size_t)stage];
}

/* Return the running rank's copy of the action's stage. */
static struct replay_copy *copy_of(const struct replay_run *r, const tryst_action *action)
{
    return copy_at(r, r->rank, action->stage);
}

static int copies_count(const struct replay_run *r, int stage)
{
    int count = 0;
    for (int rank = 0; rank < r->ranks_count; rank++) {
        count += copy_at(r, rank, stage)->stage != NULL;
    }
    return count;
}

static void cell_clear(struct replay_cell *cell)
{
    cell->forwarded = false;
    replay_array_close(&cell->input);
    replay_array_close(&cell->target);
    replay_array_close(&cell->saved);
    replay_array_close(&cell->grad_output);
    replay_array_close(&cell->kept);
}

/* ---- one action -------------------------------------------------------------------- */

static bool cell_is_ready(const struct replay_run *r, const tryst_action *action)
{
    if (action->kind == TRYST_ACTION_UPDATE) {
        return copy_of(r, action)->summed || copies_count(r, action->stage) == 1;
    }
    if (action->kind == TRYST_ACTION_REDUCE_GRAD) {
        return true;
    }
    if (action->kind == TRYST_ACTION_PREDICT) {
        return true;
    }
    const struct replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    bool is_last = copy_of(r, action)->stage->info.is_last;
    switch (action->kind) {
    case TRYST_ACTION_FORWARD:
        return !cell->forwarded && (action->stage == 0 || cell->input.data);
    case TRYST_ACTION_RECOMPUTE: return cell->forwarded;
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD:
        return cell->saved.data && (is_last || cell->grad_output.data);
    case TRYST_ACTION_WEIGHT_GRAD: return cell->kept.data != NULL;
    default: return false;
    }
}

/* Return the weight version that `action` reads: the newest of the step's begin plus the
 * action's number, unless that lies before the first step. */
static uint64_t version_read(const struct replay_copy *copy, const tryst_action *action)
{
    uint64_t back = action->version < 0 ? (uint64_t) - (int64_t)action->version : 0;
    if (back > 0) {
        return copy->version - copy->first > back ? copy->version - back : copy->first;
    }
    return copy->version + (uint64_t)action->version;
}

static tryst_stage_work cell_work(const struct replay_run *r, const tryst_action *action)
{
    const struct replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    return (tryst_stage_work){.struct_size = sizeof(tryst_stage_work),
                              .version = version_read(copy_of(r, action), action),
                              .slot = action->slot,
                              .input = cell->input.data,
                              .target = cell->target.data,
                              .saved = cell->saved.data,
                              .grad_output = cell->grad_output.data,
                              .kept = cell->kept.data,
                              .done = r->memory.done};
}

static uint64_t activation_bytes(tryst_dtype dtype, uint64_t count)
{
    return count * tryst_dtype_bytes(dtype);
}

/* Wait for the work of a stage's call that returned `status`, and return its status. */
static tryst_status finished(struct replay_run *r, tryst_status status)
{
    return status == TRYST_OK ? replay_memory_wait(&r->memory) : status;
}

/* Allocate and fill the input of the first stage and the target of the last; no effect on
 * other stages. */
static tryst_status cell_feed(struct replay_run *r, const tryst_action *action)
{
    const tryst_stage_info *info = &copy_of(r, action)->stage->info;
    struct replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    uint64_t input_count = info->is_first ? info->input_count : 0;
    uint64_t target_count = info->is_last ? info->target_count : 0;
    struct replay_array input = {0}, target = {0};
    tryst_status status = TRYST_OK;
    if (info->is_first) {
        status = replay_array_open(&r->memory, input_count, &cell->input, &input);
    }
    if (status == TRYST_OK && info->is_last) {
        status = replay_array_open(&r->memory, target_count, &cell->target, &target);
    }
    if (status == TRYST_OK && input_count + target_count > 0 && r->params->feed) {
        int ahead = action->microbatch / r->microbatches_count;
        status = r->params->feed(r->params->feed_arg, r->step + (uint64_t)ahead,
                                 action->microbatch % r->microbatches_count,
                                 input_count ? input.data : NULL,
                                 target_count ? target.data : NULL);
    }
    if (status == TRYST_OK) {
        status = replay_array_bring(&r->memory, &cell->input, &input, input_count);
    }
    if (status == TRYST_OK) {
        status = replay_array_bring(&r->memory, &cell->target, &target, target_count);
    }
    replay_array_host_close(&cell->input, &input);
    replay_array_host_close(&cell->target, &target);
    return status;
}

static tryst_status run_forward(struct replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = copy_of(r, action)->stage;
    const tryst_stage_info *info = &stage->info;
    struct replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    tryst_status status = cell_feed(r, action);
    if (status == TRYST_OK) {
        status = replay_array_open(&r->memory, info->saved_bytes, &cell->saved, NULL);
    }
    void *output = r->memory.loss;
    if (status == TRYST_OK && !info->is_last) {
        struct replay_cell *next = cell_at(r, action->stage + 1, action->microbatch);
        status = replay_array_open(
            &r->memory, activation_bytes(info->output_dtype, info->output_count),
            &next->input, NULL);
        output = next->input.data;
    }
    if (status != TRYST_OK) {
        return status;
    }
    tryst_stage_work work = cell_work(r, action);
    work.output = output;
    status = finished(r, stage->ops->forward(stage, &work));
    if (status == TRYST_OK && info->is_last) {
        r->losses[ring_at(r, action->microbatch)] = *r->memory.loss;
    }
    cell->forwarded = true;
    if (*recomputed_at(r, action)) {
        replay_array_close(&cell->saved);
    }
    return status;
}

/* Save the activations of a forward once more, and forget its output. */
static tryst_status run_recompute(struct replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = copy_of(r, action)->stage;
    const tryst_stage_info *info = &stage->info;
    struct replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    struct replay_array unread = {0};
    replay_array_close(&cell->saved);
    tryst_status status =
        replay_array_open(&r->memory, info->saved_bytes, &cell->saved, NULL);
    if (status == TRYST_OK && !info->is_last) {
        status = replay_array_open(
            &r->memory, activation_bytes(info->output_dtype, info->output_count), &unread,
            NULL);
    }
    if (status == TRYST_OK) {
        tryst_stage_work work = cell_work(r, action);
        work.output = info->is_last ? r->memory.loss : unread.data;
        status = finished(r, stage->ops->forward(stage, &work));
    }
    replay_array_close(&unread);
    return status;
}

static tryst_status run_backward(struct replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = copy_of(r, action)->stage;
    const tryst_stage_info *info = &stage->info;
    bool is_whole = action->kind == TRYST_ACTION_BACKWARD;
    struct replay_cell *cell = cell_at(r, action->stage, action->microbatch);
    void *grad_input = NULL;
    tryst_status status = TRYST_OK;
    if (!info->is_first) {
        struct replay_cell *before = cell_at(r, action->stage - 1, action->microbatch);
        status = replay_array_open(&r->memory,
                                   activation_bytes(info->input_dtype, info->input_count),
                                   &before->grad_output, NULL);
        grad_input = before->grad_output.data;
    }
    if (status == TRYST_OK && !is_whole) {
        status = replay_array_open(&r->memory, info->kept_bytes, &cell->kept, NULL);
    }
    if (status != TRYST_OK) {
        return status;
    }
    tryst_stage_work work = cell_work(r, action);
    work.grad_input = grad_input;
    if (!is_whole) {
        status = info->split_backward ? stage->ops->backward_input(stage, &work)
                                      : TRYST_E_UNSUPPORTED;
        status = finished(r, status);
        replay_array_close(&cell->grad_output);
        return status;
    }
    copy_of(r, action)->gradients++;
    status = finished(r, stage->ops->backward(stage, &work));
    cell_clear(cell);
    return status;
}

static tryst_status run_weight_grad(struct replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = copy_of(r, action)->stage;
    const tryst_stage_work work = cell_work(r, action);
    tryst_status status = stage->info.split_backward
                              ? stage->ops->backward_weight(stage, &work)
                              : TRYST_E_UNSUPPORTED;
    status = finished(r, status);
    copy_of(r, action)->gradients++;
    cell_clear(cell_at(r, action->stage, action->microbatch));
    return status;
}

/* Return the rate factor of update `t`, counted by versions, where the full rate begins
 * at update `full`: 1/delay at first, then delay to a power that rises to 0. */
static double rate_factor(uint64_t t, uint64_t full, double delay)
{
    if (t >= full || delay <= 1) {
        return 1;
    }
    return pow(delay, -(1 - (double)t / (double)full));
}

static tryst_status run_update(struct replay_run *r, const tryst_action *action)
{
    struct replay_copy *copy = copy_of(r, action);
    tryst_stage_update update = {.struct_size = sizeof update,
                                 .microbatches = copy->gradients};
    int32_t full = tryst_program_rate(r->params->program);
    if (full > 0) { /* the first updates of a stage with stale gradients are smaller */
        update.rate =
            rate_factor(copy->version + copy->updates, (uint64_t)full, copy->delay);
    }
    tryst_status status = copy->stage->ops->update(copy->stage, &update);
    copy->updates++;
    copy->gradients = 0;
    copy->summed = false;
    return status;
}

static tryst_status run_predict(struct replay_run *r, const tryst_action *action)
{
    tryst_stage *stage = copy_of(r, action)->stage;
    const tryst_stage_prediction prediction = {.struct_size = sizeof prediction,
                                               .slot = action->slot,
                                               .direction = action->direction,
                                               .ahead = action->ahead,
                                               .done = r->memory.done};
    if (!TRYST_SIZED_HAS(stage->ops, tryst_stage_ops, predict) || !stage->ops->predict) {
        return TRYST_E_UNSUPPORTED;
    }
    return finished(r, stage->ops->predict(stage, &prediction));
}

/* Add the gradients of `stage` if all copies wait, and let each copy count all
 * micro-batches. */
static tryst_status sum_copies(struct replay_run *r, int stage)
{
    int32_t gradients = 0;
    int count = 0;
    bool complete = true;
    for (int rank = 0; rank < r->ranks_count; rank++) {
        const struct replay_copy *copy = copy_at(r, rank, stage);
        if (copy->stage) {
            r->summed[count++] = copy->stage;
            gradients += copy->gradients;
            complete = complete && copy->waits;
        }
    }
    tryst_status status =
        complete ? replay_sum(r->params, stage, r->summed, count) : TRYST_OK;
    for (int rank = 0; complete && status == TRYST_OK && rank < r->ranks_count; rank++) {
        struct replay_copy *copy = copy_at(r, rank, stage);
        copy->gradients = gradients;
        copy->waits = false;
        copy->summed = true;
    }
    return status;
}

static tryst_status run_reduce(struct replay_run *r, const tryst_action *action)
{
    if (copies_count(r, action->stage) == 1) {
        return TRYST_OK;
    }
    copy_of(r, action)->waits = true;
    return sum_copies(r, action->stage);
}

static tryst_status run_action(struct replay_run *r, const tryst_action *action)
{
    switch (action->kind) {
    case TRYST_ACTION_FORWARD: return run_forward(r, action);
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD: return run_backward(r, action);
    case TRYST_ACTION_WEIGHT_GRAD: return run_weight_grad(r, action);
    case TRYST_ACTION_RECOMPUTE: return run_recompute(r, action);
    case TRYST_ACTION_UPDATE: return run_update(r, action);
    case TRYST_ACTION_REDUCE_GRAD: return run_reduce(r, action);
    case TRYST_ACTION_PREDICT: return run_predict(r, action);
    default: return TRYST_E_UNSUPPORTED;
    }
}

/* ---- the loop ---------------------------------------------------------------------- */

/* Return the first action of the step at `position` of a list or behind it; the end of
 * the list if there is none. The first step has the prologue, the last the epilogue, and
 * all but the last the body. */
static size_t position_from(const struct replay_run *r, int rank, size_t position)
{
    size_t count, body, epilogue;
    (void)tryst_program_actions(r->params->program, rank, &count);
    if (!tryst_program_loop(r->params->program, rank, &body, &epilogue)) {
        return position;
    }
    if (position < body && !r->first) {
        position = body;
    }
    if (position >= body && position < epilogue && r->last) {
        position = epilogue;
    }
    return position >= epilogue && !r->last ? count : position;
}

/* Run the next action of `rank` if it is ready, and set *moved then. */
static tryst_status replay_advance(struct replay_run *r, int rank, bool *moved)
{
    size_t count;
    const tryst_action *actions = tryst_program_actions(r->params->program, rank, &count);
    r->rank = rank;
    if (r->positions[rank] == count || !cell_is_ready(r, &actions[r->positions[rank]])) {
        return TRYST_OK;
    }
    const tryst_action *action = &actions[r->positions[rank]];
    r->positions[rank] = position_from(r, rank, r->positions[rank] + 1);
    *moved = true;
    tryst_status status = run_action(r, action);
    if (status != TRYST_OK) {
        char name[64];
        return refuse(status, "cannot replay: step %llu, rank %d: %s failed: %s",
                      (unsigned long long)r->step, rank,
                      tryst_action_format(action, name, sizeof(name)),
                      tryst_status_str(status));
    }
    return TRYST_OK;
}

/* Return TRYST_OK if every list is at its end; otherwise refuse with the first rank that
 * cannot continue. */
static tryst_status replay_finished(const struct replay_run *r)
{
    for (int rank = 0; rank < r->ranks_count; rank++) {
        size_t count;
        const tryst_action *actions =
            tryst_program_actions(r->params->program, rank, &count);
        if (r->positions[rank] < count) {
            char name[64];
            return refuse(
                TRYST_E_PROGRAM,
                "cannot replay: step %llu: no rank can continue; rank %d waits for the "
                "inputs of "
                "%s",
                (unsigned long long)r->step, rank,
                tryst_action_format(&actions[r->positions[rank]], name, sizeof(name)));
        }
    }
    return TRYST_OK;
}

static void replay_clear_cells(struct replay_run *r)
{
    for (int i = 0; i < r->stages_count * 2 * r->microbatches_count; i++) {
        cell_clear(&r->cells[i]);
    }
}

static tryst_status replay_step(struct replay_run *r, double *loss_p)
{
    for (int rank = 0; rank < r->ranks_count; rank++) {
        r->positions[rank] = position_from(r, rank, 0);
    }
    for (int i = 0; i < r->ranks_count * r->stages_count; i++) {
        struct replay_copy *copy = &r->copies[i];
        uint64_t oldest;
        if (copy->stage) {
            copy->stage->ops->versions(copy->stage, &oldest, &copy->version);
            copy->updates = 0;
            copy->first = r->first ? copy->version : copy->first;
        }
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < r->ranks_count; rank++) {
            tryst_status status = replay_advance(r, rank, &moved);
            if (status != TRYST_OK) {
                return status;
            }
        }
    }
    *loss_p = tryst_loss_mean(&r->losses[ring_at(r, 0)], r->microbatches_count);
    return replay_finished(r);
}

/* Return TRYST_OK if `stage` is given and usable as stage `s`: only the first has
 * is_first and only the last is_last, so that every output and gradient has a neighbour
 * to go to. */
static tryst_status stage_check(const struct replay_run *r, const tryst_stage *stage,
                                int s)
{
    const char *reason = stage ? params_stage_reason(stage) : NULL;
    if (reason) {
        return refuse(TRYST_E_INVALID, "cannot replay: stage %d is not usable: %s", s,
                      reason);
    }
    if (!stage || stage->info.is_first != (s == 0) ||
        stage->info.is_last != (s + 1 == r->stages_count)) {
        return refuse(TRYST_E_INVALID,
                      "cannot replay: stage %d of %d is missing or not in its place", s,
                      r->stages_count);
    }
    return TRYST_OK;
}

/* Find the stage of each rank that has actions of `s`. */
static tryst_status copies_find(struct replay_run *r, int s)
{
    const tryst_replay_params *params = r->params;
    int32_t *ranks = calloc((size_t)r->ranks_count, sizeof *ranks);
    if (!ranks) {
        return TRYST_E_NOMEM;
    }
    int count = tryst_program_replicas(params->program, s, ranks, r->ranks_count);
    tryst_stage_need need = {.struct_size = sizeof need};
    tryst_status status = tryst_program_stage_need(params->program, s, &need);
    if (count > 1 && !params->replicas) {
        status =
            refuse(TRYST_E_INVALID,
                   "cannot replay: stage %d has %d replicas, but params->replicas is "
                   "NULL",
                   s, count);
    }
    if (count == 0) { /* the program has no action of it, and will not come to its end */
        ranks[count++] = 0;
    }
    for (int i = 0; i < count && status == TRYST_OK; i++) {
        size_t at = (size_t)ranks[i] * (size_t)r->stages_count + (size_t)s;
        tryst_stage *stage = params->replicas ? params->replicas[at] : params->stages[s];
        status = stage_check(r, stage, s);
        r->copies[at].stage = stage;
        r->copies[at].delay = need.delay;
    }
    free(ranks);
    return status;
}

static tryst_status stages_find(struct replay_run *r)
{
    r->copies =
        calloc((size_t)r->ranks_count * (size_t)r->stages_count, sizeof(*r->copies));
    tryst_status status = r->copies ? TRYST_OK : TRYST_E_NOMEM;
    for (int s = 0; s < r->stages_count && status == TRYST_OK; s++) {
        status = copies_find(r, s);
    }
    return status;
}

/* The number of Rs of a micro-batch in each part of the lists. */
struct replay_again {
    int own_body, next_body; /* in the body: of this step, of the next step */
    int prologue, epilogue;
};

static void again_count(const struct replay_run *r, int rank, struct replay_again *counts)
{
    size_t count, body, epilogue;
    const tryst_action *actions = tryst_program_actions(r->params->program, rank, &count);
    (void)tryst_program_loop(r->params->program, rank, &body, &epilogue);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].kind == TRYST_ACTION_RECOMPUTE) {
            struct replay_again *here =
                &counts[recomputed_at(r, &actions[i]) - r->recomputed];
            bool next = actions[i].microbatch >= r->microbatches_count;
            here->prologue += i < body;
            here->epilogue += i >= epilogue;
            here->own_body += i >= body && i < epilogue && !next;
            here->next_body += i >= body && i < epilogue && next;
        }
    }
}

/* Mark the micro-batches with two forwards in every step. In a loop the second forward is
 * in the micro-batch's step, so in the body and in the epilogue; or in the step before,
 * so in the body and, for the first step, in the prologue. */
static tryst_status recomputed_find(struct replay_run *r)
{
    size_t count = (size_t)r->stages_count * (size_t)r->microbatches_count;
    struct replay_again *counts = calloc(count, sizeof *counts);
    bool loops = false;
    if (!counts) {
        return TRYST_E_NOMEM;
    }
    for (int rank = 0; rank < r->ranks_count; rank++) {
        size_t body, epilogue;
        again_count(r, rank, counts);
        loops = tryst_program_loop(r->params->program, rank, &body, &epilogue) || loops;
    }
    for (size_t i = 0; i < count; i++) {
        const struct replay_again *of = &counts[i];
        bool own = of->own_body > 0 && (!loops || of->epilogue > 0);
        r->recomputed[i] = own || (of->prologue > 0 && of->next_body > 0);
    }
    free(counts);
    return TRYST_OK;
}

/* Return the first stage of any rank: all are in memory of one kind. */
static const tryst_stage *stage_any(const struct replay_run *r)
{
    size_t i = 0;
    while (!r->copies[i].stage) {
        i++;
    }
    return r->copies[i].stage;
}

static tryst_status replay(const tryst_replay_params *params)
{
    struct replay_run r = {.params = params,
                           .ranks_count = tryst_program_ranks(params->program),
                           .stages_count = tryst_program_stages(params->program),
                           .microbatches_count =
                               tryst_program_microbatches(params->program)};
    tryst_status status = stages_find(&r);
    if (status != TRYST_OK) {
        free(r.copies);
        return status == TRYST_E_NOMEM
                   ? refuse(status, "cannot replay: %s", tryst_status_str(status))
                   : status;
    }
    size_t stages = (size_t)r.stages_count, microbatches = (size_t)r.microbatches_count;
    r.summed = calloc((size_t)r.ranks_count, sizeof(tryst_stage *));
    r.cells = calloc(stages * 2 * microbatches, sizeof(*r.cells));
    r.recomputed = calloc(stages * microbatches, sizeof(*r.recomputed));
    r.positions = calloc((size_t)r.ranks_count, sizeof(*r.positions));
    r.losses = calloc(2 * microbatches, sizeof(*r.losses));
    status = r.summed && r.cells && r.recomputed && r.positions && r.losses
                 ? replay_memory_open(&r.memory, params->ctx, &stage_any(&r)->info)
                 : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        status = recomputed_find(&r);
    }
    if (status == TRYST_OK) {
        for (uint64_t i = 0; i < params->steps_count && status == TRYST_OK; i++) {
            r.step = params->first_step + i;
            r.first = i == 0;
            r.last = i + 1 == params->steps_count;
            status = replay_step(&r, &params->losses[i]);
            if (status == TRYST_OK && params->progress) {
                params->progress(params->progress_arg, i + 1);
            }
        }
        replay_clear_cells(&r);
    } else {
        (void)refuse(status, "cannot replay: %s", tryst_status_str(status));
    }
    replay_memory_close(&r.memory);
    free(r.losses);
    free(r.positions);
    free(r.copies);
    free(r.summed);
    free(r.recomputed);
    free(r.cells);
    return status;
}

tryst_status tryst_replay(const tryst_replay_params *params)
{
    tryst_replay_params own;
    tryst_status status =
        params_read_given(&own, sizeof(own), params, "tryst_replay_params");
    return status == TRYST_OK ? replay(&own) : status;
}

/* ---- comparison -------------------------------------------------------------------- */

/* True if all bits are equal: a NaN equals itself, and zero differs from minus zero. */
static bool bits_equal(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

struct weights_comparison {
    const float *run;
    const float *replay;
    char *text;
    size_t capacity;
};

static int compare_parameter(void *arg, const tryst_parameter *parameter)
{
    struct weights_comparison *c = arg;
    uint64_t bytes = parameter->count * sizeof(float);
    if (!bits_equal(c->run, c->replay, bytes)) {
        uint64_t i = 0;
        while (bits_equal(&c->run[i], &c->replay[i], sizeof(float))) {
            i++;
        }
        snprintf(c->text, c->capacity,
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

static bool results_equal(const tryst_model *model, uint64_t first_step,
                          uint64_t steps_count, const tryst_replay_result *run,
                          const tryst_replay_result *replay, char *text, size_t capacity)
{
    for (uint64_t i = 0; i < steps_count; i++) {
        if (!bits_equal(&run->losses[i], &replay->losses[i], sizeof(double))) {
            snprintf(text, capacity,
                     "step %llu is the first with another loss: %.17g, and %.17g in the "
                     "replay (the error is in this step's forwards, or in the backwards "
                     "and the update before)",
                     (unsigned long long)first_step + i, run->losses[i],
                     replay->losses[i]);
            return false;
        }
    }
    struct weights_comparison c = {.run = run->weights,
                                   .replay = replay->weights,
                                   .text = text,
                                   .capacity = capacity};
    if (run->weights && replay->weights &&
        tryst_model_parameter_visit(model, compare_parameter, &c) != 0) {
        return false;
    }
    snprintf(text, capacity, "%llu losses%s are bitwise equal to the replay's",
             (unsigned long long)steps_count, run->weights ? " and all weights" : "");
    return true;
}

static bool result_read(tryst_replay_result *to, const tryst_replay_result *from,
                        char *text, size_t capacity)
{
    const char *reason = "it is NULL";
    if (from && tryst_sized_read(to, sizeof(*to), from)) {
        if (to->losses) {
            return true;
        }
        reason = "losses is NULL";
    } else if (from) {
        reason = tryst_sized_reason(from);
    }
    snprintf(text, capacity, "cannot read tryst_replay_result: %s", reason);
    return false;
}

bool tryst_replay_equal(const tryst_model *model, uint64_t first_step,
                        uint64_t steps_count, const tryst_replay_result *run,
                        const tryst_replay_result *replay, char *text, size_t capacity)
{
    tryst_replay_result a, b;
    return result_read(&a, run, text, capacity) &&
           result_read(&b, replay, text, capacity) &&
           results_equal(model, first_step, steps_count, &a, &b, text, capacity);
}
