/* SPDX-License-Identifier: Apache-2.0 */
/* Implements programs: lists of compute actions, one per rank.
 *
 * The one idea: a program has no transfers. program_needs and program_makes give the data
 * that an action takes and leaves; checker, simulator and engine follow from these two
 * functions, so a new schedule is a new generator and nothing more.
 *
 * Invariant: every action's rank, stage and micro-batch are in range.
 * tryst_program_append refuses other actions; the CSV loader raises the counts to those
 * of its cells. */
#include "program.h"

#include <stdlib.h>

#include "pipeline/base/refuse.h"
#include "pipeline/base/sentence.h"

const char *tryst_action_kind_name(tryst_action_kind kind)
{
    static const char *const names[TRYST_ACTION_KINDS] = {
        "", "F", "B", "I", "W", "UPDATE", "REDUCE_GRAD", "R", "PREDICT"};
    size_t index = (size_t)kind;
    return index < sizeof names / sizeof *names ? names[index] : "";
}

bool program_kind_has_microbatch(tryst_action_kind kind)
{
    return (kind >= TRYST_ACTION_FORWARD && kind <= TRYST_ACTION_WEIGHT_GRAD) ||
           kind == TRYST_ACTION_RECOMPUTE;
}

const char *tryst_action_format(const tryst_action *action, char *text_p, size_t capacity)
{
    if (!action)
        return "";
    struct sentence out = sentence_begin(text_p, capacity);
    sentence_add(&out, "%d%s", action->stage, tryst_action_kind_name(action->kind));
    if (program_kind_has_microbatch(action->kind)) {
        sentence_add(&out, "%d", action->microbatch);
    }
    if (action->version != (action->kind == TRYST_ACTION_UPDATE ? 1 : 0)) {
        sentence_add(&out, "v%d", action->version);
    }
    if (action->slot != 0) {
        sentence_add(&out, "s%d", action->slot);
    }
    if (action->kind == TRYST_ACTION_PREDICT) {
        sentence_add(&out, "d%da%.17g", action->direction, action->ahead);
    }
    return text_p;
}

tryst_status tryst_program_open(int ranks_count, int stages_count, int microbatches_count,
                                tryst_program **program_p)
{
    if (ranks_count < 1 || stages_count < 1 || microbatches_count < 1 ||
        (int64_t)stages_count * microbatches_count < ranks_count) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a program for %d ranks, %d stages and "
                      "%d micro-batches: each count must be at least 1, and every rank "
                      "needs a micro-batch at a stage",
                      ranks_count, stages_count, microbatches_count);
    }
    tryst_program *program = calloc(1, sizeof *program);
    struct program_list *lists = calloc((size_t)ranks_count, sizeof *lists);
    if (!program || !lists) {
        free(program);
        free(lists);
        return refuse(TRYST_E_NOMEM, "cannot open a program: out of memory for %d ranks",
                      ranks_count);
    }
    program->lists = lists;
    program->ranks_count = ranks_count;
    program->stages_count = stages_count;
    program->microbatches_count = microbatches_count;
    *program_p = program;
    return TRYST_OK;
}

void tryst_program_close(tryst_program *program)
{
    if (!program) {
        return;
    }
    for (int rank = 0; rank < program->ranks_count; rank++) {
        free(program->lists[rank].actions);
    }
    free(program->lists);
    free(program);
}

static bool action_in_range(const tryst_program *program, int rank,
                            const tryst_action *action)
{
    bool in_body = program->lists[rank].part == TRYST_PROGRAM_BODY;
    if (action->kind < TRYST_ACTION_FORWARD || action->kind >= TRYST_ACTION_KINDS ||
        action->stage < 0 || action->stage >= program->stages_count ||
        action->version < -PROGRAM_VERSION_MAX || action->version > PROGRAM_VERSION_MAX ||
        action->slot < 0 || action->slot > PROGRAM_SLOT_MAX) {
        return false;
    }
    if (!program_kind_has_microbatch(action->kind)) {
        bool has_slot = action->kind == TRYST_ACTION_PREDICT;
        return action->microbatch == -1 && (action->slot == 0 || has_slot);
    }
    return action->microbatch >= 0 &&
           action->microbatch < (in_body ? 2 : 1) * (int64_t)program->microbatches_count;
}

tryst_status program_list_add(struct program_list *list, const tryst_action *action)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        tryst_action *actions = realloc(list->actions, capacity * sizeof *actions);
        if (!actions) {
            return TRYST_E_NOMEM;
        }
        list->actions = actions;
        list->capacity = capacity;
    }
    list->actions[list->count++] = *action;
    return TRYST_OK;
}

static tryst_status refuse_action(const tryst_program *program, int rank,
                                  const tryst_action *action)
{
    return refuse(
        TRYST_E_INVALID,
        "cannot append kind %d, stage %d, micro-batch %d to rank %d: the program has %d "
        "ranks, %d stages and %d micro-batches (twice as many in a loop's body), and "
        "UPDATE, REDUCE_GRAD and PREDICT have micro-batch -1; slot %d is from 0 to %d, "
        "and "
        "0 for UPDATE and REDUCE_GRAD",
        (int)action->kind, action->stage, action->microbatch, rank, program->ranks_count,
        program->stages_count, program->microbatches_count, action->slot,
        PROGRAM_SLOT_MAX);
}

tryst_status tryst_program_append(tryst_program *program, int rank,
                                  const tryst_action *action)
{
    if (!program || !action) {
        return refuse_null("append to the program", program ? "action" : "program");
    }
    if (rank < 0 || rank >= program->ranks_count ||
        !action_in_range(program, rank, action)) {
        return refuse_action(program, rank, action);
    }
    tryst_status status = program_list_add(&program->lists[rank], action);
    return status == TRYST_OK ? TRYST_OK
                              : refuse(status,
                                       "cannot append to the program: out of memory for "
                                       "action %zu of rank %d",
                                       program->lists[rank].count, rank);
}

/* ---- loops ------------------------------------------------------------------------- */

tryst_status tryst_program_mark(tryst_program *program, int rank, tryst_program_part part)
{
    if (!program) {
        return refuse_null("mark a part of a program", "program");
    }
    bool known = rank >= 0 && rank < program->ranks_count;
    struct program_list *list = known ? &program->lists[rank] : NULL;
    if (!known || (int)part != (int)list->part + 1 || part > TRYST_PROGRAM_EPILOGUE) {
        return refuse(TRYST_E_INVALID,
                      "cannot begin part %d of rank %d's list: the program has %d ranks, "
                      "and a list has its body (%d) once, then its epilogue (%d) once",
                      (int)part, rank, program->ranks_count, TRYST_PROGRAM_BODY,
                      TRYST_PROGRAM_EPILOGUE);
    }
    *(part == TRYST_PROGRAM_BODY ? &list->body : &list->epilogue) = list->count;
    list->part = part;
    return TRYST_OK;
}

bool program_list_parts(const struct program_list *list, size_t *body_p,
                        size_t *epilogue_p)
{
    *body_p = list->part == TRYST_PROGRAM_PROLOGUE ? 0 : list->body;
    *epilogue_p = list->part == TRYST_PROGRAM_EPILOGUE ? list->epilogue : list->count;
    return list->part != TRYST_PROGRAM_PROLOGUE;
}

bool tryst_program_loop(const tryst_program *program, int rank, size_t *body_p,
                        size_t *epilogue_p)
{
    static const struct program_list none;
    bool known = program && rank >= 0 && rank < program->ranks_count;
    return program_list_parts(known ? &program->lists[rank] : &none, body_p, epilogue_p);
}

bool program_is_looped(const tryst_program *program)
{
    for (int rank = 0; rank < program->ranks_count; rank++) {
        if (program->lists[rank].part != TRYST_PROGRAM_PROLOGUE) {
            return true;
        }
    }
    return false;
}

void tryst_program_rate_set(tryst_program *program, int32_t updates)
{
    if (program) {
        program->rate = updates > 0 ? updates : 0;
    }
}

int32_t tryst_program_rate(const tryst_program *program)
{
    return program ? program->rate : 0;
}

/* ---- stages of a rank -------------------------------------------------------------- */

static bool list_has_stage(const struct program_list *list, int stage)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->actions[i].stage == stage) {
            return true;
        }
    }
    return false;
}

tryst_status program_append_updates(tryst_program *program, int rank)
{
    for (int stage = 0; stage < program->stages_count; stage++) {
        if (!list_has_stage(&program->lists[rank], stage)) {
            continue;
        }
        const tryst_action update = {
            .kind = TRYST_ACTION_UPDATE, .stage = stage, .microbatch = -1, .version = 1};
        tryst_status status = tryst_program_append(program, rank, &update);
        if (status != TRYST_OK) {
            return status;
        }
    }
    return TRYST_OK;
}

int tryst_program_ranks(const tryst_program *program)
{
    return program ? program->ranks_count : 0;
}

int tryst_program_stages(const tryst_program *program)
{
    return program ? program->stages_count : 0;
}

int tryst_program_microbatches(const tryst_program *program)
{
    return program ? program->microbatches_count : 0;
}

const tryst_action *tryst_program_actions(const tryst_program *program, int rank,
                                          size_t *count_p)
{
    bool given = program && rank >= 0 && rank < program->ranks_count;
    if (count_p) {
        *count_p = given ? program->lists[rank].count : 0;
    }
    return given ? program->lists[rank].actions : NULL;
}

int tryst_program_rank_of(const tryst_program *program, int stage)
{
    for (int rank = 0; program && rank < program->ranks_count; rank++) {
        if (list_has_stage(&program->lists[rank], stage)) {
            return rank;
        }
    }
    return -1;
}

int tryst_program_rank_of_microbatch(const tryst_program *program, int stage,
                                     int microbatch)
{
    for (int rank = 0; program && rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const tryst_action *action = &list->actions[i];
            if (action->stage == stage && microbatch >= 0 && action->microbatch >= 0 &&
                action->microbatch % program->microbatches_count == microbatch) {
                return rank;
            }
        }
    }
    return -1;
}

int tryst_program_replicas(const tryst_program *program, int stage, int32_t *ranks,
                           int capacity)
{
    int count = 0;
    for (int rank = 0; program && rank < program->ranks_count; rank++) {
        if (list_has_stage(&program->lists[rank], stage)) {
            if (count < capacity) {
                ranks[count] = rank;
            }
            count++;
        }
    }
    return count;
}

/* ---- places ------------------------------------------------------------------------ */

tryst_status program_places_open(const tryst_program *program,
                                 struct program_places *places_p)
{
    size_t stages = (size_t)program->stages_count;
    size_t cells = stages * (size_t)program->microbatches_count;
    int *seen = malloc(stages * sizeof *seen); /* last rank with the stage */
    *places_p =
        (struct program_places){.owners = malloc(cells * sizeof *places_p->owners),
                                .replicas = calloc(stages, sizeof *places_p->replicas)};
    if (!seen || !places_p->owners || !places_p->replicas) {
        free(seen);
        return TRYST_E_NOMEM;
    }
    for (size_t i = 0; i < cells; i++) {
        places_p->owners[i] = -1;
    }
    for (size_t i = 0; i < stages; i++) {
        seen[i] = -1;
    }
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const tryst_action *action = &list->actions[i];
            if (action->microbatch < 0) {
                continue;
            }
            places_p->replicas[action->stage] += seen[action->stage] != rank;
            seen[action->stage] = rank;
            int *owner = program_owner(program, places_p, action->stage,
                                       action->microbatch % program->microbatches_count);
            if (*owner < 0) {
                *owner = rank;
            }
        }
    }
    free(seen);
    return TRYST_OK;
}

void program_places_close(struct program_places *places)
{
    free(places->owners);
    free(places->replicas);
}

/* True if the actions of `list` from index `first` on are exactly those that
 * program_append_updates would append to the first `first` actions. */
static bool ends_as_usual(const struct program_list *list, size_t first, int stages_count)
{
    const struct program_list before = {.actions = list->actions, .count = first};
    size_t at = first;
    for (int stage = 0; stage < stages_count; stage++) {
        if (!list_has_stage(&before, stage)) {
            continue;
        }
        if (at == list->count || list->actions[at].kind != TRYST_ACTION_UPDATE ||
            list->actions[at].stage != stage || list->actions[at].version != 1) {
            return false;
        }
        at++;
    }
    return at == list->count;
}

bool program_is_synchronous(const tryst_program *program)
{
    if (program_is_looped(program) || program->rate > 0) {
        return false;
    }
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        size_t first = 0;
        while (first < list->count && list->actions[first].kind != TRYST_ACTION_UPDATE) {
            const tryst_action *action = &list->actions[first++];
            if (action->version != 0 || action->slot != 0) {
                return false;
            }
        }
        if (!ends_as_usual(list, first, program->stages_count)) {
            return false;
        }
    }
    return true;
}

/* ---- data that actions need and make ----------------------------------------------- */

int program_needs(const tryst_program *program, const tryst_action *action,
                  struct program_item items[PROGRAM_ITEMS_MAX])
{
    int stage = action->stage;
    int microbatch = action->microbatch;
    int count = 0;
    switch (action->kind) {
    case TRYST_ACTION_FORWARD:
        if (stage > 0) {
            items[count++] = (struct program_item){PROGRAM_OUTPUT, stage - 1, microbatch};
        }
        break;
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD:
        items[count++] = (struct program_item){PROGRAM_OUTPUT, stage, microbatch};
        if (stage + 1 < program->stages_count) {
            items[count++] = (struct program_item){PROGRAM_GRAD, stage + 1, microbatch};
        }
        break;
    case TRYST_ACTION_WEIGHT_GRAD:
        items[count++] = (struct program_item){PROGRAM_GRAD, stage, microbatch};
        break;
    case TRYST_ACTION_RECOMPUTE:
        items[count++] = (struct program_item){PROGRAM_OUTPUT, stage, microbatch};
        break;
    default: /* the others need no item: the order of the list is enough */ break;
    }
    return count;
}

int program_makes(const tryst_action *action,
                  struct program_item items[PROGRAM_ITEMS_MAX])
{
    static const uint8_t made[TRYST_ACTION_KINDS] = {
        [TRYST_ACTION_FORWARD] = 1u << PROGRAM_OUTPUT,
        [TRYST_ACTION_BACKWARD] = 1u << PROGRAM_GRAD | 1u << PROGRAM_WEIGHT_GRAD,
        [TRYST_ACTION_INPUT_GRAD] = 1u << PROGRAM_GRAD,
        [TRYST_ACTION_WEIGHT_GRAD] = 1u << PROGRAM_WEIGHT_GRAD};
    int count = 0;
    for (int kind = 0; kind < PROGRAM_ITEM_KINDS; kind++) {
        if (made[action->kind] >> kind & 1) {
            items[count++] = (struct program_item){(enum program_item_kind)kind,
                                                   action->stage, action->microbatch};
        }
    }
    return count;
}

int program_item_user(const tryst_program *program, struct program_item item)
{
    if (item.kind == PROGRAM_OUTPUT && item.stage + 1 < program->stages_count) {
        return item.stage + 1;
    }
    return item.kind == PROGRAM_GRAD && item.stage > 0 ? item.stage - 1 : -1;
}

size_t program_items_count(const tryst_program *program)
{
    return (size_t)PROGRAM_ITEM_KINDS * (size_t)program->stages_count *
           (size_t)program->microbatches_count;
}

size_t program_item_index(const tryst_program *program, struct program_item item)
{
    size_t stages = (size_t)program->stages_count;
    size_t microbatches = (size_t)program->microbatches_count;
    return ((size_t)item.kind * stages + (size_t)item.stage) * microbatches +
           (size_t)item.microbatch;
}
