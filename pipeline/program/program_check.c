/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a program can run, and computes how much each rank holds at most.
 *
 * Four passes, each of which relies on the passes before:
 *   placing   all actions of a stage are on one rank; at a stage, no F, B, I or W of a
 *             micro-batch occurs twice, and B does not occur beside I or W
 *   counting  every stage has every micro-batch's forward and backward
 *   dry run   all ranks walk through their lists, and take an action only when the items
 *             that it needs are made; if no rank can continue before the end, the program
 *             would deadlock
 *   versions  rank by rank: each weight version exists when it is read, and gradients are
 *             followed by an UPDATE; computes the peaks
 *
 * The first error ends the check with a sentence, then the grid with the place marked. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "pipeline/base/text.h"
#include "program.h"
#include "program_grid.h"

struct check {
    const tryst_program *program;
    tryst_check_params params;
    char *room; /* [TRYST_PIPELINE_TEXT_MAX], memory of `out` */
    struct text out;
    int *owners; /* [stages]: rank that has the stage; -1: none so far */
    /* [items]: placing sets 1 if an action makes the item, the dry run once it is made */
    uint8_t *made;
    size_t *positions;         /* [ranks]: next action of the dry run */
    int32_t *updates;          /* [stages]: UPDATEs so far */
    int32_t *pending;          /* [stages]: gradients since the last UPDATE */
    tryst_program_peak *peaks; /* [ranks], or NULL */
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
    int *owner = &state->owners[action->stage];
    if (action->kind == TRYST_ACTION_REDUCE_GRAD) {
        place_print(state, rank, position);
        text_add(&state->out,
                 ": REDUCE_GRAD is reserved for replicated stages and cannot run yet");
        return fail_at(state, rank, position);
    }
    if (*owner >= 0 && *owner != rank) {
        place_print(state, rank, position);
        text_add(&state->out,
                 ": stage %d is already on rank %d; a stage must be on one rank",
                 action->stage, *owner);
        return fail_at(state, rank, position);
    }
    *owner = rank;
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
    int rank = state->owners[item.stage];
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

static bool advance_rank(struct check *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    size_t before = state->positions[rank];
    struct program_item lacking;
    while (state->positions[rank] < list->count &&
           !first_lacking(state, &list->actions[state->positions[rank]], &lacking)) {
        struct program_item items[PROGRAM_ITEMS_MAX];
        int count = program_makes(&list->actions[state->positions[rank]], items);
        for (int i = 0; i < count; i++) {
            state->made[program_item_index(state->program, items[i])] = 1;
        }
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
        if (position == list->count ||
            !first_lacking(state, &list->actions[position], &item)) {
            continue;
        }
        text_add(&state->out, first < 0 ? "no rank can continue: " : "; ");
        place_print(state, rank, position);
        text_add(&state->out, " waits for %s of stage %d, micro-batch %d",
                 what[item.kind], item.stage, item.microbatch);
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

static tryst_status check_update(struct check *state, int rank, size_t position)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    if (state->pending[action->stage] == 0) {
        place_print(state, rank, position);
        text_add(&state->out, " follows no backward of stage %d", action->stage);
        return fail_at(state, rank, position);
    }
    int32_t next = ++state->updates[action->stage];
    if (action->version != next) {
        place_print(state, rank, position);
        text_add(&state->out, ": this update makes version %d", next);
        return fail_at(state, rank, position);
    }
    state->pending[action->stage] = 0;
    return TRYST_OK;
}

static tryst_status check_read(struct check *state, int rank, size_t position,
                               int32_t *versions_p)
{
    const tryst_action *action = &state->program->lists[rank].actions[position];
    int32_t newest = state->updates[action->stage];
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

static tryst_status check_rank(struct check *state, int rank)
{
    const struct program_list *list = &state->program->lists[rank];
    tryst_program_peak peak = {.activations = 0, .versions = 1};
    int32_t held = 0;
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *action = &list->actions[i];
        tryst_status status = action->kind == TRYST_ACTION_UPDATE
                                  ? check_update(state, rank, i)
                                  : check_read(state, rank, i, &peak.versions);
        if (status == TRYST_OK && action->kind == TRYST_ACTION_FORWARD) {
            held++;
            peak.activations = held > peak.activations ? held : peak.activations;
            status = check_held(state, rank, i, held);
        }
        if (action->kind == TRYST_ACTION_BACKWARD ||
            action->kind == TRYST_ACTION_WEIGHT_GRAD) {
            held--;
            state->pending[action->stage]++;
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

static tryst_status check_versions(struct check *state)
{
    for (int rank = 0; rank < state->program->ranks_count; rank++) {
        tryst_status status = check_rank(state, rank);
        if (status != TRYST_OK) {
            return status;
        }
    }
    for (int stage = 0; stage < state->program->stages_count; stage++) {
        if (state->pending[stage] > 0) {
            int rank = state->owners[stage];
            text_add(&state->out, "stage %d: %d gradients are followed by no UPDATE",
                     stage, state->pending[stage]);
            return fail_at(state, rank, state->program->lists[rank].count);
        }
    }
    return TRYST_OK;
}

/* ---- the whole check --------------------------------------------------------------- */

static void check_close(struct check *state)
{
    free(state->room);
    free(state->owners);
    free(state->made);
    free(state->positions);
    free(state->updates);
    free(state->pending);
}

static tryst_status check_open(struct check *state)
{
    size_t stages = (size_t)state->program->stages_count;
    state->room = malloc(TRYST_PIPELINE_TEXT_MAX);
    state->owners = malloc(stages * sizeof *state->owners);
    state->made = calloc(program_items_count(state->program), 1);
    state->positions =
        calloc((size_t)state->program->ranks_count, sizeof *state->positions);
    state->updates = calloc(stages, sizeof *state->updates);
    state->pending = calloc(stages, sizeof *state->pending);
    if (!state->room || !state->owners || !state->made || !state->positions ||
        !state->updates || !state->pending) {
        check_close(state);
        return refuse(
            TRYST_E_NOMEM,
            "cannot check the program: out of memory for %d stages by %d micro-batches",
            state->program->stages_count, state->program->microbatches_count);
    }
    state->out = text_begin(state->room, TRYST_PIPELINE_TEXT_MAX);
    text_add(&state->out, "cannot run the program: ");
    for (size_t stage = 0; stage < stages; stage++) {
        state->owners[stage] = -1;
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
