/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a program can run, and computes how much each rank holds at most.
 *
 * Four passes, each of which relies on the passes before:
 *   placing   all actions of a micro-batch at a stage are on one rank; no F, B, I or W
 *             of them occurs twice, and B does not occur beside I or W
 *   counting  every stage has every micro-batch's forward and backward
 *   dry run   all ranks walk through their lists, and take an action only when the items
 *             that it needs are made; if no rank can continue before the end, the program
 *             would deadlock
 *   versions  rank by rank: each weight version exists when it is read, and gradients are
 *             followed by an UPDATE, with a REDUCE_GRAD between them if the stage is
 *             replicated; all replicas make the same versions; computes the peaks
 *
 * The dry run lets UPDATE n of a replicated stage wait for REDUCE_GRAD n of all replicas.
 * Their order does not matter, so only their number is kept: no replica is more than one
 * ahead, because each has an UPDATE between two REDUCE_GRADs.
 *
 * The first error ends the check with a sentence, then the grid with the place marked. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "pipeline/base/text.h"
#include "program.h"
#include "program_grid.h"

struct check_stage {
    int first_rank; /* first rank with the stage; -1: none so far */
    /* on the rank that is checked: UPDATEs so far, gradients since the last UPDATE, and
     * whether a REDUCE_GRAD followed them */
    int32_t updates;
    int32_t pending;
    bool reduced;
    int32_t versions;    /* UPDATEs of the first rank with the stage */
    int64_t reduces;     /* REDUCE_GRADs of all ranks */
    int64_t reduces_run; /* those that the dry run has passed */
};

struct check {
    const tryst_program *program;
    tryst_check_params params;
    char *room; /* [TRYST_PIPELINE_TEXT_MAX], memory of `out` */
    struct text out;
    struct program_places places;
    /* [items]: placing sets 1 if an action makes the item, the dry run once it is made */
    uint8_t *made;
    size_t *positions;          /* [ranks]: next action of the dry run */
    struct check_stage *stages; /* [stages] */
    tryst_program_peak *peaks;  /* [ranks], or NULL */
};

static tryst_status fail_at(struct check *state, int rank, size_t position)
{
    text_add(&state->out, "\n");
    program_grid_add(&state->out, state->program, (struct program_place){rank, position});
    return refuse(TRYST_E_PROGRAM, "%s", state->room);
}

/* Begin a sentence with the rank, position and name of an action. */
static void place_print(struct check *state, int rank, size_t position)
{
    char name[32];
    text_add(&state->out, "rank %d, position %zu: %s", rank, position,
             tryst_action_format(&state->program->lists[rank].actions[position], name,
                                 sizeof name));
}

/* ---- placing and counting ---------------------------------------------------------- */

static tryst_status place_action(struct check *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    struct check_stage *stage = &state->stages[action->stage];
    int owner = action->microbatch >= 0
                    ? *program_owner(state->program, &state->places, action->stage,
                                     action->microbatch)
                    : rank;
    if (owner != rank) {
        place_print(state, rank, position);
        text_add(&state->out,
                 ": micro-batch %d of stage %d is already on rank %d; all its actions at "
                 "a stage must be on one rank",
                 action->microbatch, action->stage, owner);
        return fail_at(state, rank, position);
    }
    stage->first_rank = stage->first_rank < 0 ? rank : stage->first_rank;
    stage->reduces += action->kind == TRYST_ACTION_REDUCE_GRAD;
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_makes(action, items);
    for (int i = 0; i < count; i++) {
        uint8_t *made = &state->made[program_item_index(state->program, items[i])];
        if (*made) {
            place_print(state, rank, position);
            text_add(&state->out, " appears twice, or beside the other form of the same "
                                  "backward (B, or I and W)");
            return fail_at(state, rank, position);
        }
        *made = 1;
    }
    return TRYST_OK;
}

static tryst_status check_placing(struct check *state)
{
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        for (size_t i = 0; i < state->program->lists[rank].count; i++) {
            tryst_status status = place_action(state, rank, i);
            if (status != TRYST_OK) {
                return status;
            }
        }
    }
    return TRYST_OK;
}

static tryst_status missing_item_print(struct check *state, struct program_item item)
{
    static const char *const missing[] = {"forward (F)", "backward (B, or I and W)",
                                          "weight gradient (W)"};
    int rank = state->stages[item.stage].first_rank;
    text_add(&state->out, "stage %d has no %s of micro-batch %d", item.stage,
             missing[item.kind], item.microbatch);
    if (rank < 0) {
        text_add(&state->out, ": no rank has an action of this stage");
        return fail_at(state, -1, 0);
    }
    text_add(&state->out, " on rank %d", rank);
    return fail_at(state, rank, state->program->lists[rank].count);
}

static tryst_status check_counting(struct check *state)
{
    const tryst_program *program = state->program;
    for (int stage = 0; stage < program->stages_count; stage++) {
        for (int microbatch = 0; microbatch < program->microbatches_count; microbatch++) {
            for (int kind = 0; kind < PROGRAM_ITEM_KINDS; kind++) {
                const struct program_item item = {(enum program_item_kind)kind, stage,
                                                  microbatch};
                if (!state->made[program_item_index(program, item)]) {
                    return missing_item_print(state, item);
                }
            }
        }
    }
    return TRYST_OK;
}

/* ---- dry run ----------------------------------------------------------------------- */

/* Find the first item that `action` needs and that is not made yet. False if all are
 * made. */
static bool first_lacking(const struct check *state, const tryst_action *action,
                          struct program_item *item_p)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_needs(state->program, action, items);
    for (int i = 0; i < count; i++) {
        if (!state->made[program_item_index(state->program, items[i])]) {
            *item_p = items[i];
            return true;
        }
    }
    return false;
}

/* True if `action` is an UPDATE that waits for a REDUCE_GRAD of another replica. (A wrong
 * version is found by check_update.) */
static bool lacks_sum(const struct check *state, const tryst_action *action)
{
    const struct check_stage *stage = &state->stages[action->stage];
    int64_t needed = (int64_t)action->version * state->places.replicas[action->stage];
    return action->kind == TRYST_ACTION_UPDATE &&
           state->places.replicas[action->stage] > 1 &&
           stage->reduces_run < (needed < stage->reduces ? needed : stage->reduces);
}

static void run_action(struct check *state, const tryst_action *action)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_makes(action, items);
    for (int i = 0; i < count; i++) {
        state->made[program_item_index(state->program, items[i])] = 1;
    }
    state->stages[action->stage].reduces_run += action->kind == TRYST_ACTION_REDUCE_GRAD;
}

static bool can_run(const struct check *state, const tryst_action *action)
{
    struct program_item lacking;
    return !first_lacking(state, action, &lacking) && !lacks_sum(state, action);
}

static bool advance_rank(struct check *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    size_t before = state->positions[rank];
    while (state->positions[rank] < list->count &&
           can_run(state, &list->actions[state->positions[rank]])) {
        run_action(state, &list->actions[state->positions[rank]]);
        state->positions[rank]++;
    }
    return state->positions[rank] != before;
}

static tryst_status deadlock_print(struct check *state)
{
    static const char *const what[] = {"the output", "the input's gradient",
                                       "the weight gradient"};
    int first = -1;
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        const struct program_list *list = &state->program->lists[rank];
        size_t position = state->positions[rank];
        struct program_item item;
        if (position == list->count) {
            continue;
        }
        text_add(&state->out, first < 0 ? "no rank can continue: " : "; ");
        place_print(state, rank, position);
        if (first_lacking(state, &list->actions[position], &item)) {
            text_add(&state->out, " waits for %s of stage %d, micro-batch %d",
                     what[item.kind], item.stage, item.microbatch);
        } else {
            text_add(&state->out, " waits for a REDUCE_GRAD of another replica");
        }
        first = first < 0 ? rank : first;
    }
    return fail_at(state, first, state->positions[first]);
}

static tryst_status check_dry_run(struct check *state)
{
    memset(state->made, 0, program_items_count(state->program));
    bool moved = true;
    bool ended = false;
    while (moved && !ended) {
        moved = false;
        ended = true;
        for (int rank = 0; rank < state->program->ranks_count; rank++) {
            moved = advance_rank(state, rank) || moved;
            ended = ended && state->positions[rank] == state->program->lists[rank].count;
        }
    }
    return ended ? TRYST_OK : deadlock_print(state);
}

/* ---- versions and peaks ------------------------------------------------------------ */

/* Fail with the action's name and `words` after it. */
static tryst_status fail_action(struct check *state, int rank, size_t position,
                                const char *words, int number)
{
    place_print(state, rank, position);
    text_add(&state->out, words, number);
    return fail_at(state, rank, position);
}

static tryst_status check_update(struct check *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    struct check_stage *stage = &state->stages[action->stage];
    if (stage->pending == 0) {
        return fail_action(state, rank, position, " follows no backward of stage %d",
                           action->stage);
    }
    if (!stage->reduced && state->places.replicas[action->stage] > 1) {
        return fail_action(state, rank, position,
                           " follows no REDUCE_GRAD, but the stage has %d replicas",
                           state->places.replicas[action->stage]);
    }
    int32_t next = ++stage->updates;
    if (action->version != next) {
        return fail_action(state, rank, position, ": this update makes version %d", next);
    }
    stage->pending = 0;
    stage->reduced = false;
    return TRYST_OK;
}

static tryst_status check_reduce(struct check *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    struct check_stage *stage = &state->stages[action->stage];
    if (stage->pending == 0) {
        return fail_action(state, rank, position, " follows no backward of stage %d",
                           action->stage);
    }
    if (stage->reduced) {
        return fail_action(state, rank, position,
                           ": the gradients of stage %d are summed already; an UPDATE "
                           "must come between",
                           action->stage);
    }
    stage->reduced = true;
    return TRYST_OK;
}

/* Count a gradient that B or W adds. */
static tryst_status check_gradient(struct check *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    struct check_stage *stage = &state->stages[action->stage];
    if (stage->reduced) {
        return fail_action(state, rank, position,
                           " comes between REDUCE_GRAD and UPDATE of stage %d",
                           action->stage);
    }
    stage->pending++;
    return TRYST_OK;
}

static tryst_status check_read(struct check *state, int rank, size_t position,
                               int32_t *versions_p)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    int32_t newest = state->stages[action->stage].updates;
    if (action->version > newest) {
        place_print(state, rank, position);
        text_add(&state->out, " reads version %d, but the newest there is %d",
                 action->version, newest);
        return fail_at(state, rank, position);
    }
    int64_t kept = (int64_t)newest - action->version + 1;
    if (state->params.versions_max > 0 && kept > state->params.versions_max) {
        place_print(state, rank, position);
        text_add(&state->out,
                 " reads version %d, but of %d kept versions the oldest there is %d",
                 action->version, state->params.versions_max,
                 newest - state->params.versions_max + 1);
        return fail_at(state, rank, position);
    }
    *versions_p = kept > *versions_p ? (int32_t)kept : *versions_p;
    return TRYST_OK;
}

static tryst_status check_held(struct check *state, int rank, size_t position,
                               int32_t held)
{
    if (state->params.activations_max == 0 || held <= state->params.activations_max) {
        return TRYST_OK;
    }
    text_add(&state->out, "rank %d, position %zu: %d saved activations, but room for %d",
             rank, position, held, state->params.activations_max);
    return fail_at(state, rank, position);
}

static tryst_status check_versions_of(struct check *state, int rank, size_t position,
                                      int32_t *versions_p)
{
    switch (state->program->lists[rank].actions[position].kind) {
    case TRYST_ACTION_UPDATE: return check_update(state, rank, position);
    case TRYST_ACTION_REDUCE_GRAD: return check_reduce(state, rank, position);
    default: return check_read(state, rank, position, versions_p);
    }
}

static tryst_status check_actions(struct check *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    tryst_program_peak peak = {.activations = 0, .versions = 1};
    int32_t held = 0;
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *action = &list->actions[i];
        tryst_status status = check_versions_of(state, rank, i, &peak.versions);
        if (status == TRYST_OK && action->kind == TRYST_ACTION_FORWARD) {
            held++;
            peak.activations = held > peak.activations ? held : peak.activations;
            status = check_held(state, rank, i, held);
        }
        if (status == TRYST_OK && (action->kind == TRYST_ACTION_BACKWARD ||
                                   action->kind == TRYST_ACTION_WEIGHT_GRAD)) {
            held--;
            status = check_gradient(state, rank, i);
        }
        if (status != TRYST_OK) {
            return status;
        }
    }
    if (state->peaks) {
        state->peaks[rank] = peak;
    }
    return TRYST_OK;
}

/* Check what a rank leaves of a stage: no gradient, and the first replica's versions. */
static tryst_status check_end(struct check *state, int rank, int stage)
{
    struct check_stage *self = &state->stages[stage];
    if (self->pending > 0) {
        text_add(&state->out, "stage %d: %d gradients are followed by no UPDATE", stage,
                 self->pending);
        return fail_at(state, rank, state->program->lists[rank].count);
    }
    if (self->first_rank == rank) {
        self->versions = self->updates;
    }
    if (self->updates != self->versions) {
        text_add(&state->out, "stage %d has %d UPDATEs on rank %d, but %d on rank %d",
                 stage, self->updates, rank, self->versions, self->first_rank);
        return fail_at(state, rank, state->program->lists[rank].count);
    }
    return TRYST_OK;
}

static tryst_status check_rank(struct check *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        struct check_stage *stage = &state->stages[list->actions[i].stage];
        stage->updates = stage->pending = 0;
        stage->reduced = false;
    }
    tryst_status status = check_actions(state, rank);
    for (size_t i = 0; i < list->count && status == TRYST_OK; i++) {
        status = check_end(state, rank, list->actions[i].stage);
    }
    return status;
}

static tryst_status check_versions(struct check *state)
{
    tryst_status status = TRYST_OK;
    for (int rank = 0; rank < state->program->ranks_count && status == TRYST_OK; rank++) {
        status = check_rank(state, rank);
    }
    return status;
}

/* ---- the whole check --------------------------------------------------------------- */

static void check_close(struct check *state)
{
    free(state->room);
    program_places_close(&state->places);
    free(state->made);
    free(state->positions);
    free(state->stages);
}

static tryst_status check_open(struct check *state)
{
    size_t stages = (size_t)state->program->stages_count;
    state->room = malloc(TRYST_PIPELINE_TEXT_MAX);
    state->made = calloc(program_items_count(state->program), 1);
    state->positions =
        calloc((size_t)state->program->ranks_count, sizeof *state->positions);
    state->stages = calloc(stages, sizeof *state->stages);
    if (program_places_open(state->program, &state->places) != TRYST_OK || !state->room ||
        !state->made || !state->positions || !state->stages) {
        check_close(state);
        return refuse(
            TRYST_E_NOMEM,
            "cannot check the program: out of memory for %d stages by %d micro-batches",
            state->program->stages_count, state->program->microbatches_count);
    }
    state->out = text_begin(state->room, TRYST_PIPELINE_TEXT_MAX);
    text_add(&state->out, "cannot run the program: ");
    for (size_t stage = 0; stage < stages; stage++) {
        state->stages[stage].first_rank = -1;
    }
    return TRYST_OK;
}

tryst_status tryst_program_check(const tryst_program *program,
                                 const tryst_check_params *params,
                                 tryst_program_peak *peaks)
{
    static tryst_status (*const passes[])(struct check *) = {
        check_placing, check_counting, check_dry_run, check_versions};
    struct check state = {.program = program, .peaks = peaks};
    if (!program) {
        return refuse_null("check a program", "program");
    }
    tryst_status status =
        params_read(&state.params, sizeof state.params, params, "tryst_check_params");
    if (status == TRYST_OK) {
        status = check_open(&state);
    }
    if (status != TRYST_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof passes / sizeof *passes && status == TRYST_OK; i++) {
        status = passes[i](&state);
    }
    check_close(&state);
    return status;
}
