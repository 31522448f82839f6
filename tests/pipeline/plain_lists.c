/* SPDX-License-Identifier: Apache-2.0 */
/* See plain_lists.h. One idea: a loop is a short form of the list of its steps, so the
 * list is written out, and the loop is checked as a flat program. */
#include "plain_lists.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

bool plain_has_microbatch(const tryst_action *action)
{
    switch (action->kind) {
    case TRYST_ACTION_FORWARD:
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD:
    case TRYST_ACTION_WEIGHT_GRAD:
    case TRYST_ACTION_RECOMPUTE: return true;
    default: return false;
    }
}

bool plain_is_loop(const tryst_program *program)
{
    size_t body, epilogue;
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        if (tryst_program_loop(program, rank, &body, &epilogue)) {
            return true;
        }
    }
    return false;
}

/* One rank's list while it is written. */
struct writer {
    struct plain_list *list;
    int step;
    int microbatches_before; /* of the steps before this one */
    int *updates;            /* [stages]: UPDATEs written so far */
    int *updates_before;     /* [stages]: those of the steps before this one */
    int stages_count;
    bool clamps;
};

static void step_begin(struct writer *w, int step, int microbatches_count)
{
    w->step = step;
    w->microbatches_before = (step - 1) * microbatches_count;
    for (int s = 0; s < w->stages_count; s++) {
        w->updates_before[s] = w->updates[s];
    }
}

static void write_one(struct writer *w, tryst_action action)
{
    bool is_update = action.kind == TRYST_ACTION_UPDATE;
    if (plain_has_microbatch(&action)) {
        action.microbatch += w->microbatches_before;
    }
    if (is_update || (plain_has_microbatch(&action) && action.slot == 0)) {
        action.version += w->updates_before[action.stage];
        if (!is_update && w->clamps && action.version < 0) {
            action.version = 0;
        }
    }
    w->updates[action.stage] += is_update;
    w->list->entries[w->list->count++] = (struct plain_entry){action, w->step};
}

static void write_range(struct writer *w, const tryst_action *actions, size_t first,
                        size_t last)
{
    for (size_t i = first; i < last; i++) {
        write_one(w, actions[i]);
    }
}

static void write_rank(const tryst_program *program, int rank, int steps, bool clamps,
                       struct plain_list *list)
{
    int stages = tryst_program_stages(program);
    int microbatches = tryst_program_microbatches(program);
    size_t count, body = 0, epilogue = 0;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    bool loops = tryst_program_loop(program, rank, &body, &epilogue);
    int *updates = calloc(2 * (size_t)stages, sizeof *updates);
    assert_non_null(updates);
    list->entries = calloc((size_t)steps * count + 1, sizeof *list->entries);
    assert_non_null(list->entries);

    struct writer w = {.list = list,
                       .updates = updates,
                       .updates_before = updates + stages,
                       .stages_count = stages,
                       .clamps = clamps};
    step_begin(&w, 1, microbatches);
    write_range(&w, actions, 0, body);
    for (int step = 1; step <= steps; step++) {
        if (step > 1) { /* step 1 began before the prologue */
            step_begin(&w, step, microbatches);
        }
        if (loops && step == steps) {
            write_range(&w, actions, epilogue, count);
        } else {
            write_range(&w, actions, body, epilogue);
        }
    }
    free(updates);
}

void plain_lists_open(const tryst_program *program, int steps, bool clamps,
                      struct plain_lists *lists_p)
{
    struct plain_lists l = {.ranks_count = tryst_program_ranks(program),
                            .stages_count = tryst_program_stages(program),
                            .microbatches_count =
                                steps * tryst_program_microbatches(program)};
    l.lists = calloc((size_t)l.ranks_count, sizeof *l.lists);
    assert_non_null(l.lists);
    for (int rank = 0; rank < l.ranks_count; rank++) {
        write_rank(program, rank, steps, clamps, &l.lists[rank]);
    }
    *lists_p = l;
}

void plain_lists_close(struct plain_lists *lists)
{
    for (int rank = 0; rank < lists->ranks_count; rank++) {
        free(lists->lists[rank].entries);
    }
    free(lists->lists);
}
