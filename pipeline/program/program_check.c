/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a program can run, and computes how much each rank holds at most.
 *
 * A flat program is checked here, a loop in program_check_loop.c. Four passes, each of
 * which relies on the passes before:
 *   placing   all actions of a micro-batch at a stage are on one rank; no F, B, I or W
 *             of them occurs twice, and B does not occur beside I or W
 *   counting  every stage has every micro-batch's forward and backward
 *   dry run   all ranks walk through their lists, and take an action only when the items
 *             that it needs are made; if no rank can continue before the end, the program
 *             would deadlock
 *   versions  rank by rank: each weight version and slot exists when it is read, R and W
 *             read what their backward reads, and gradients are followed by an UPDATE,
 *             with a REDUCE_GRAD between them if the stage is replicated; all replicas
 *             make the same versions; computes the peaks
 *
 * The dry run lets UPDATE n of a replicated stage wait for REDUCE_GRAD n of all replicas.
 * Their order does not matter, so only their number is kept: no replica is more than one
 * ahead, because each has an UPDATE between two REDUCE_GRADs.
 *
 * The first error ends the check with a sentence, then the grid with the place marked. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/refuse.h"
#include "pipeline/base/sentence.h"
#include "program.h"
#include "program_check.h"
#include "program_grid.h"

struct check_stage {
    int first_rank;   /* first rank with the stage; -1: none so far */
    int checked_rank; /* the members below are of this rank; -1: of none so far */
    /* on that rank: UPDATEs so far, gradients since the last UPDATE,
     * whether a REDUCE_GRAD followed them, and how often each slot was filled */
    int32_t updates;
    int32_t pending;
    bool reduced;
    uint32_t fills[PROGRAM_SLOT_MAX + 1];
    int32_t versions;    /* UPDATEs of the first rank with the stage */
    int64_t reduces;     /* REDUCE_GRADs of all ranks */
    int64_t reduces_run; /* those that the dry run has passed */
};

/* Weights that an action has read: a version, or what the PREDICT number `fill` of a slot
 * has made. In an unrolled loop a negative version is one of steps before the first, as
 * the same action reads it in a later step; beside an action of the prologue, which has
 * one step alone, it is version 0. */
struct check_weights {
    bool in_prologue;
    int32_t version;
    int32_t slot;
    uint32_t fill;
};

/* The weights that the actions of a micro-batch at a stage have read. */
struct check_cell {
    bool recomputed;               /* R has run */
    bool waits;                    /* … and its B or I has not */
    struct check_weights again;    /* read by R */
    struct check_weights backward; /* read by B or I */
};

struct check_state {
    const tryst_program *program;
    tryst_check_params params;
    char *room; /* [TRYST_PIPELINE_TEXT_MAX], memory of `out` */
    struct sentence out;
    struct program_places places;
    /* [items]: placing sets 1 if an action makes the item, the dry run once it is made */
    uint8_t *made;
    size_t *positions;          /* [ranks]: next action of the dry run */
    struct check_stage *stages; /* [stages] */
    struct check_cell *cells;   /* [stages × micro-batches] */
    tryst_program_peak *peaks;  /* [ranks], or NULL */
};

static struct check_cell *cell_of(const struct check_state *state,
                                  const tryst_action *action)
{
    return &state->cells[(size_t)action->stage *
                             (size_t)state->program->microbatches_count +
                         (size_t)action->microbatch];
}

static tryst_status fail_at(struct check_state *state, int rank, size_t position)
{
    sentence_add(&state->out, "\n");
    program_grid_add(&state->out, state->program, (struct program_place){rank, position});
    return refuse(TRYST_E_PROGRAM, "%s", state->room);
}

/* Begin a sentence with the rank, position and name of an action. */
static void place_print(struct check_state *state, int rank, size_t position)
{
    char name[64];
    sentence_add(&state->out, "rank %d, position %zu: %s", rank, position,
                 tryst_action_format(&state->program->lists[rank].actions[position], name,
                                     sizeof name));
}

/* ---- placing and counting ---------------------------------------------------------- */

static tryst_status place_action(struct check_state *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    struct check_stage *stage = &state->stages[action->stage];
    int owner = action->microbatch >= 0
                    ? *program_owner(state->program, &state->places, action->stage,
                                     action->microbatch)
                    : rank;
    if (owner != rank) {
        place_print(state, rank, position);
        sentence_add(
            &state->out,
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
            sentence_add(&state->out,
                         " appears twice, or beside the other form of the same "
                         "backward (B, or I and W)");
            return fail_at(state, rank, position);
        }
        *made = 1;
    }
    return TRYST_OK;
}

static tryst_status check_placing(struct check_state *state)
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

static tryst_status missing_item_print(struct check_state *state,
                                       struct program_item item)
{
    static const char *const missing[] = {"forward (F)", "backward (B, or I and W)",
                                          "weight gradient (W)"};
    int rank = state->stages[item.stage].first_rank;
    sentence_add(&state->out, "stage %d has no %s of micro-batch %d", item.stage,
                 missing[item.kind], item.microbatch);
    if (rank < 0) {
        sentence_add(&state->out, ": no rank has an action of this stage");
        return fail_at(state, -1, 0);
    }
    sentence_add(&state->out, " on rank %d", rank);
    return fail_at(state, rank, state->program->lists[rank].count);
}

static tryst_status check_counting(struct check_state *state)
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
static bool first_lacking(const struct check_state *state, const tryst_action *action,
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
static bool lacks_sum(const struct check_state *state, const tryst_action *action)
{
    const struct check_stage *stage = &state->stages[action->stage];
    int64_t needed = (int64_t)action->version * state->places.replicas[action->stage];
    return action->kind == TRYST_ACTION_UPDATE &&
           state->places.replicas[action->stage] > 1 &&
           stage->reduces_run < (needed < stage->reduces ? needed : stage->reduces);
}

static void run_action(struct check_state *state, const tryst_action *action)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_makes(action, items);
    for (int i = 0; i < count; i++) {
        state->made[program_item_index(state->program, items[i])] = 1;
    }
    state->stages[action->stage].reduces_run += action->kind == TRYST_ACTION_REDUCE_GRAD;
}

static bool can_run(const struct check_state *state, const tryst_action *action)
{
    struct program_item lacking;
    return !first_lacking(state, action, &lacking) && !lacks_sum(state, action);
}

static bool advance_rank(struct check_state *state, int rank)
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

static tryst_status deadlock_print(struct check_state *state)
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
        sentence_add(&state->out, first < 0 ? "no rank can continue: " : "; ");
        place_print(state, rank, position);
        if (first_lacking(state, &list->actions[position], &item)) {
            sentence_add(&state->out, " waits for %s of stage %d, micro-batch %d",
                         what[item.kind], item.stage, item.microbatch);
        } else {
            sentence_add(&state->out, " waits for a REDUCE_GRAD of another replica");
        }
        first = first < 0 ? rank : first;
    }
    return fail_at(state, first, state->positions[first]);
}

static tryst_status check_dry_run(struct check_state *state)
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
static tryst_status fail_action(struct check_state *state, int rank, size_t position,
                                const char *words, int number)
{
    place_print(state, rank, position);
    sentence_add(&state->out, words, number);
    return fail_at(state, rank, position);
}

static tryst_status check_update(struct check_state *state, int rank, size_t position)
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

static tryst_status check_reduce(struct check_state *state, int rank, size_t position)
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
static tryst_status check_gradient(struct check_state *state, int rank, size_t position)
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

static tryst_status check_slot(struct check_state *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    if (action->version != 0) {
        return fail_action(state, rank, position,
                           " names a version beside slot %d: it can read only one",
                           action->slot);
    }
    return state->stages[action->stage].fills[action->slot] > 0
               ? TRYST_OK
               : fail_action(state, rank, position,
                             " reads slot %d, which no PREDICT has filled before",
                             action->slot);
}

static tryst_status check_predict(struct check_state *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    struct check_stage *stage = &state->stages[action->stage];
    if (action->slot == 0) {
        return fail_action(state, rank, position, " fills no slot: slots count from %d",
                           1);
    }
    if (!isfinite(action->ahead)) {
        return fail_action(state, rank, position,
                           " moves slot %d by a number that is not finite", action->slot);
    }
    if (action->direction != TRYST_DIRECTION_STEP &&
        action->direction != TRYST_DIRECTION_DELTA) {
        return fail_action(state, rank, position, ": direction %d is not known",
                           action->direction);
    }
    stage->fills[action->slot]++;
    return TRYST_OK;
}

static struct check_weights weights_of(const struct check_state *state, int rank,
                                       size_t position)
{
    const struct program_list *list = &state->program->lists[rank];
    const tryst_action *action = &list->actions[position];
    uint32_t fill = state->stages[action->stage].fills[action->slot];
    return (struct check_weights){
        position<list->body, action->version, action->slot, action->slot> 0 ? fill : 0};
}

static bool same_weights(struct check_weights a, struct check_weights b)
{
    bool clamped = a.in_prologue || b.in_prologue;
    int32_t version_a = clamped && a.version < 0 ? 0 : a.version;
    int32_t version_b = clamped && b.version < 0 ? 0 : b.version;
    return version_a == version_b && a.slot == b.slot && a.fill == b.fill;
}

/* Check that R comes once, before its B or I, and that R and W read what the backward
 * reads. */
static tryst_status check_companions(struct check_state *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    const struct check_weights weights = weights_of(state, rank, position);
    struct check_cell *cell = cell_of(state, action);
    switch (action->kind) {
    case TRYST_ACTION_RECOMPUTE:
        if (cell->recomputed) {
            return fail_action(state, rank, position,
                               ": micro-batch %d is recomputed twice",
                               action->microbatch);
        }
        cell->again = weights;
        cell->recomputed = cell->waits = true;
        return TRYST_OK;
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD:
        if (cell->waits && !same_weights(cell->again, weights)) {
            return fail_action(state, rank, position,
                               " reads other weights than the R of micro-batch %d",
                               action->microbatch);
        }
        cell->waits = false;
        cell->backward = weights;
        return TRYST_OK;
    case TRYST_ACTION_WEIGHT_GRAD:
        return same_weights(cell->backward, weights)
                   ? TRYST_OK
                   : fail_action(state, rank, position,
                                 " reads other weights than the I of micro-batch %d",
                                 action->microbatch);
    default: return TRYST_OK;
    }
}

/* Check that no R of the rank is left without a backward behind it. */
static tryst_status check_recomputes(struct check_state *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        if (list->actions[i].kind == TRYST_ACTION_RECOMPUTE &&
            cell_of(state, &list->actions[i])->waits) {
            return fail_action(state, rank, i,
                               " comes behind the backward of micro-batch %d",
                               list->actions[i].microbatch);
        }
    }
    return TRYST_OK;
}

static tryst_status check_version(struct check_state *state, int rank, size_t position,
                                  int32_t *versions_p)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    int32_t newest = state->stages[action->stage].updates;
    if (action->version > newest) {
        place_print(state, rank, position);
        sentence_add(&state->out, " reads version %d, but the newest there is %d",
                     action->version, newest);
        return fail_at(state, rank, position);
    }
    int64_t kept = (int64_t)newest - action->version + 1;
    if (state->params.versions_max > 0 && kept > state->params.versions_max) {
        place_print(state, rank, position);
        sentence_add(&state->out,
                     " reads version %d, but of %d kept versions the oldest there is %d",
                     action->version, state->params.versions_max,
                     newest - state->params.versions_max + 1);
        return fail_at(state, rank, position);
    }
    *versions_p = kept > *versions_p ? (int32_t)kept : *versions_p;
    return TRYST_OK;
}

static tryst_status check_read(struct check_state *state, int rank, size_t position,
                               int32_t *versions_p)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    tryst_status status = action->slot > 0
                              ? check_slot(state, rank, position)
                              : check_version(state, rank, position, versions_p);
    return status == TRYST_OK ? check_companions(state, rank, position) : status;
}

static tryst_status check_held(struct check_state *state, int rank, size_t position,
                               int32_t held)
{
    if (state->params.activations_max == 0 || held <= state->params.activations_max) {
        return TRYST_OK;
    }
    sentence_add(&state->out,
                 "rank %d, position %zu: %d saved activations, but room for %d", rank,
                 position, held, state->params.activations_max);
    return fail_at(state, rank, position);
}

static tryst_status check_versions_of(struct check_state *state, int rank,
                                      size_t position, int32_t *versions_p)
{
    switch (state->program->lists[rank].actions[position].kind) {
    case TRYST_ACTION_UPDATE: return check_update(state, rank, position);
    case TRYST_ACTION_REDUCE_GRAD: return check_reduce(state, rank, position);
    case TRYST_ACTION_PREDICT: return check_predict(state, rank, position);
    default: return check_read(state, rank, position, versions_p);
    }
}

static tryst_status check_actions(struct check_state *state, int rank)
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
        if (status == TRYST_OK && program_kind_adds(action->kind)) {
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
static tryst_status check_end(struct check_state *state, int rank, int stage)
{
    struct check_stage *self = &state->stages[stage];
    if (self->pending > 0) {
        sentence_add(&state->out, "stage %d: %d gradients are followed by no UPDATE",
                     stage, self->pending);
        return fail_at(state, rank, state->program->lists[rank].count);
    }
    if (self->first_rank == rank) {
        self->versions = self->updates;
    }
    if (self->updates != self->versions) {
        sentence_add(&state->out, "stage %d has %d UPDATEs on rank %d, but %d on rank %d",
                     stage, self->updates, rank, self->versions, self->first_rank);
        return fail_at(state, rank, state->program->lists[rank].count);
    }
    return TRYST_OK;
}

static tryst_status check_rank(struct check_state *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        struct check_stage *stage = &state->stages[list->actions[i].stage];
        if (stage->checked_rank != rank) {
            stage->checked_rank = rank;
            stage->updates = stage->pending = 0;
            stage->reduced = false;
            memset(stage->fills, 0, sizeof stage->fills);
        }
    }
    tryst_status status = check_actions(state, rank);
    if (status == TRYST_OK) {
        status = check_recomputes(state, rank);
    }
    for (size_t i = 0; i < list->count && status == TRYST_OK; i++) {
        status = check_end(state, rank, list->actions[i].stage);
    }
    return status;
}

static tryst_status check_versions(struct check_state *state)
{
    tryst_status status = TRYST_OK;
    for (int rank = 0; rank < state->program->ranks_count && status == TRYST_OK; rank++) {
        status = check_rank(state, rank);
    }
    return status;
}

/* ---- the whole check --------------------------------------------------------------- */

static void state_close(struct check_state *state)
{
    free(state->room);
    program_places_close(&state->places);
    free(state->made);
    free(state->positions);
    free(state->stages);
    free(state->cells);
}

static tryst_status state_open(struct check_state *state, const char *words)
{
    size_t stages = (size_t)state->program->stages_count;
    state->room = malloc(TRYST_PIPELINE_TEXT_MAX);
    state->made = calloc(program_items_count(state->program), 1);
    state->positions =
        calloc((size_t)state->program->ranks_count, sizeof *state->positions);
    state->stages = calloc(stages, sizeof *state->stages);
    state->cells =
        calloc(stages * (size_t)state->program->microbatches_count, sizeof *state->cells);
    if (program_places_open(state->program, &state->places) != TRYST_OK || !state->room ||
        !state->made || !state->positions || !state->stages || !state->cells) {
        return refuse(
            TRYST_E_NOMEM,
            "cannot check the program: out of memory for %d stages by %d micro-batches",
            state->program->stages_count, state->program->microbatches_count);
    }
    state->out = sentence_begin(state->room, TRYST_PIPELINE_TEXT_MAX);
    sentence_add(&state->out, "cannot run the program: %s", words);
    for (size_t stage = 0; stage < stages; stage++) {
        state->stages[stage].first_rank = state->stages[stage].checked_rank = -1;
    }
    return TRYST_OK;
}

tryst_status program_check_flat(const tryst_program *program,
                                const tryst_check_params *params,
                                tryst_program_peak *peaks, const char *words)
{
    static tryst_status (*const passes[])(struct check_state *) = {
        check_placing, check_counting, check_dry_run, check_versions};
    struct check_state state = {.program = program, .params = *params, .peaks = peaks};
    tryst_status status = state_open(&state, words);
    for (size_t i = 0; i < sizeof passes / sizeof *passes && status == TRYST_OK; i++) {
        status = passes[i](&state);
    }
    state_close(&state);
    return status;
}
