/* SPDX-License-Identifier: Apache-2.0 */
/* Completes a program after its lists were read from a file: counts, checks, UPDATEs.
 *
 * The one idea: the numbers of stages and micro-batches follow from the lists. The
 * micro-batches of a loop's step are the forwards that the bodies have of one stage:
 * each body runs as many as a step has, some of them of the next step. A file is
 * refused here if a table of that many stages and micro-batches would be larger than
 * the file itself, or if the lists cannot be a program of that size;
 * tryst_program_check does the rest.
 *
 * REDUCE_GRAD is dropped where one rank alone has actions of the stage, and kept
 * otherwise. PyTorch writes one for every stage, since each of its ranks may be a group
 * of data parallelism, which the file does not name; here a REDUCE_GRAD sums over the
 * replicas of this program, and a stage on one rank has none. So the compute_comms and
 * the compute_only file of a schedule load as the same program, and the file of a
 * replicated program keeps what tryst_program_replicate added.
 *
 * Called by tryst_program_load_csv. */
#include "program_loaded.h"

#include <stdlib.h>

#include "pipeline/base/refuse.h"
#include "program_cell.h"

/* A program and its file. */
struct loaded {
    const char *path;
    tryst_program *program;
    int rows_count;
    size_t actions_count;
    size_t updates_count;
    size_t microbatch_actions_count; /* neither UPDATE nor REDUCE_GRAD nor PREDICT */
};

/* Return one more than the highest stage of the lists. */
static int stages_of(const tryst_program *program)
{
    int stages = 0;
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (list->actions[i].stage >= stages) {
                stages = list->actions[i].stage + 1;
            }
        }
    }
    return stages;
}

enum { MANY = -1 };

/* Write to `places` [stages] the rank, counted from 1, that has actions of the stage;
 * MANY if several ranks have. */
static void places_find(const tryst_program *program, int *places)
{
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            int *place = &places[list->actions[i].stage];
            *place = *place == 0 || *place == rank + 1 ? rank + 1 : MANY;
        }
    }
}

/* Drop the REDUCE_GRADs of stages that one rank alone has; the marks stay before the same
 * actions. */
static void list_drop_reduce(struct program_list *list, const int *places)
{
    size_t kept = 0, body = 0, epilogue = 0;
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *action = &list->actions[i];
        bool dropped =
            action->kind == TRYST_ACTION_REDUCE_GRAD && places[action->stage] != MANY;
        body += !dropped && i < list->body;
        epilogue += !dropped && i < list->epilogue;
        list->actions[kept] = *action;
        kept += !dropped;
    }
    list->count = kept;
    list->body = body;
    list->epilogue = epilogue;
}

static tryst_status drop_reduce(struct loaded *file)
{
    tryst_program *program = file->program;
    int *places = calloc((size_t)stages_of(program) + 1, sizeof *places);
    if (!places) {
        return TRYST_E_NOMEM;
    }
    places_find(program, places);
    for (int rank = 0; rank < program->ranks_count; rank++) {
        list_drop_reduce(&program->lists[rank], places);
    }
    free(places);
    return TRYST_OK;
}

/* Return the number of micro-batches of a loop's step: the most forwards that the bodies
 * have of one stage. -1: out of memory. */
static int microbatches_of_loop(const tryst_program *program)
{
    int *forwards = calloc((size_t)program->stages_count + 1, sizeof *forwards);
    int most = 0;
    for (int rank = 0; forwards && rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        size_t body, epilogue;
        (void)program_list_parts(list, &body, &epilogue);
        for (size_t i = body; i < epilogue; i++) {
            int *count = &forwards[list->actions[i].stage];
            *count += list->actions[i].kind == TRYST_ACTION_FORWARD;
            most = *count > most ? *count : most;
        }
    }
    free(forwards);
    return forwards ? most : -1;
}

static tryst_status count_all(struct loaded *file)
{
    tryst_program *program = file->program;
    int microbatches = 0;
    file->actions_count = 0;
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        file->actions_count += list->count;
        for (size_t i = 0; i < list->count; i++) {
            int microbatch = list->actions[i].microbatch;
            file->updates_count += list->actions[i].kind == TRYST_ACTION_UPDATE;
            file->microbatch_actions_count += microbatch >= 0;
            microbatches = microbatch >= microbatches ? microbatch + 1 : microbatches;
        }
    }
    program->stages_count = stages_of(program);
    if (program_is_looped(program)) {
        microbatches = microbatches_of_loop(program);
    }
    program->microbatches_count = microbatches;
    return microbatches < 0 ? TRYST_E_NOMEM : TRYST_OK;
}

/* Refuse a file without actions or micro-batches, with too many rows, or with fewer
 * actions than forwards are needed: one for each stage and micro-batch. */
static tryst_status check_size(const struct loaded *file)
{
    const tryst_program *program = file->program;
    uint64_t forwards =
        (uint64_t)program->stages_count * (uint64_t)program->microbatches_count;
    if (file->actions_count == 0) {
        return refuse(TRYST_E_PROGRAM, "cannot load %s: no actions", file->path);
    }
    if (program->microbatches_count == 0) {
        return refuse(TRYST_E_PROGRAM, "cannot load %s: no micro-batch: %s", file->path,
                      program_is_looped(program)
                          ? "the bodies of the loop have no forward"
                          : "no action has one");
    }
    if (forwards < (uint64_t)file->rows_count ||
        file->rows_count > PROGRAM_CELL_NUMBER_MAX) {
        return refuse(TRYST_E_PROGRAM,
                      "cannot load %s: %d rows (ranks), but stages only to %d and "
                      "micro-batches to %d; every rank needs a micro-batch at a stage "
                      "(%d ranks at most)",
                      file->path, file->rows_count, program->stages_count - 1,
                      program->microbatches_count - 1, PROGRAM_CELL_NUMBER_MAX);
    }
    if (forwards > file->microbatch_actions_count) {
        return refuse(
            TRYST_E_PROGRAM,
            "cannot load %s: it names stage %d and micro-batch %d, so it needs at least "
            "%llu forwards, but has %zu actions with a micro-batch",
            file->path, program->stages_count - 1, program->microbatches_count - 1,
            (unsigned long long)forwards, file->microbatch_actions_count);
    }
    return TRYST_OK;
}

/* Refuse micro-batches of a loop beyond those of the step, and in the body beyond those
 * of the next step. (In a file without marks the actions decide how many there are.) */
static tryst_status check_parts(const struct loaded *file)
{
    const tryst_program *program = file->program;
    int count = program->microbatches_count;
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            bool in_body = list->part != TRYST_PROGRAM_PROLOGUE && i >= list->body &&
                           (list->part == TRYST_PROGRAM_BODY || i < list->epilogue);
            char text[PROGRAM_CELL_TEXT_MAX];
            if (list->actions[i].microbatch < (in_body ? 2 : 1) * count) {
                continue;
            }
            return refuse(TRYST_E_PROGRAM,
                          "cannot load %s: row %d (rank %d): %s is in the %s, but a step "
                          "has %d micro-batches, the forwards of a stage in the bodies",
                          file->path, rank + 1, rank,
                          tryst_action_format(&list->actions[i], text, sizeof text),
                          in_body ? "body" : "prologue or the epilogue", count);
        }
    }
    return TRYST_OK;
}

/* The micro-batches of one kind of action of a stage. */
struct numbers {
    int count;
    int lowest;
    int highest;
};

static struct numbers numbers_of(const tryst_program *program, tryst_action_kind kind,
                                 int stage)
{
    struct numbers numbers = {0, INT32_MAX, -1};
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            int microbatch = list->actions[i].microbatch;
            if (list->actions[i].kind == kind && list->actions[i].stage == stage) {
                numbers.count++;
                numbers.lowest =
                    microbatch < numbers.lowest ? microbatch : numbers.lowest;
                numbers.highest =
                    microbatch > numbers.highest ? microbatch : numbers.highest;
            }
        }
    }
    return numbers;
}

/* Refuse the order that PyTorch's Schedule1F1B prints: on the last rank its forwards are
 * F1 to Fm, its backwards B0 to Bm-1. (Schedule1F1B._get_pipeline_order, PyTorch 2.15;
 * Schedule1F1B itself runs F0 to Fm-1.) */
static tryst_status check_off_by_one(const struct loaded *file)
{
    const tryst_program *program = file->program;
    int last = program->stages_count - 1;
    int count = program->microbatches_count - 1; /* Fm has raised it by one */
    struct numbers forward = numbers_of(program, TRYST_ACTION_FORWARD, last);
    struct numbers backward = numbers_of(program, TRYST_ACTION_BACKWARD, last);
    if (count < 1 || forward.count != count || forward.lowest != 1 ||
        forward.highest != count || backward.count != count || backward.lowest != 0 ||
        backward.highest != count - 1) {
        return TRYST_OK;
    }
    return refuse(
        TRYST_E_PROGRAM,
        "cannot load %s: stage %d has the forwards %dF1 to %dF%d, but the backwards %dB0 "
        "to %dB%d: the order that PyTorch's Schedule1F1B prints numbers the last rank's "
        "forwards from 1, so micro-batch 0 is missing there; lower the numbers of these "
        "forwards by 1, or let the schedule be generated here",
        file->path, last, last, last, count, last, last, count - 1);
}

tryst_status program_loaded_complete(tryst_program *program, const char *path,
                                     int rows_count)
{
    struct loaded file = {.path = path, .program = program, .rows_count = rows_count};
    tryst_status status = drop_reduce(&file);
    if (status == TRYST_OK) {
        status = count_all(&file);
    }
    if (status == TRYST_OK) {
        status = check_off_by_one(&file);
    }
    if (status == TRYST_OK) {
        status = check_size(&file);
    }
    if (status == TRYST_OK) { /* the last rows may be empty */
        status = program_loaded_add_ranks(program, rows_count);
    }
    if (status == TRYST_OK && program_is_looped(program)) {
        return check_parts(&file);
    }
    for (int rank = 0;
         status == TRYST_OK && file.updates_count == 0 && rank < program->ranks_count;
         rank++) {
        status = program_append_updates(program, rank);
    }
    return status;
}

tryst_status program_loaded_add_ranks(tryst_program *program, int ranks_count)
{
    while (program->ranks_count < ranks_count) {
        size_t count = (size_t)program->ranks_count + 1;
        struct program_list *lists = realloc(program->lists, count * sizeof *lists);
        if (!lists) {
            return TRYST_E_NOMEM;
        }
        lists[program->ranks_count++] = (struct program_list){0};
        program->lists = lists;
    }
    return TRYST_OK;
}
