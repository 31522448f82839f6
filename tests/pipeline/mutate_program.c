/* SPDX-License-Identifier: Apache-2.0 */
/* See mutate_program.h. */
#include "mutate_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/random.h"

struct list {
    tryst_action *actions;
    size_t count;
    bool is_marked;
    size_t body, epilogue; /* first action of each, if marked */
};

struct mutant {
    int ranks_count, stages_count, microbatches_count;
    struct list *lists;
    uint64_t stream; /* of random numbers */
    uint64_t drawn;
};

static size_t draw(struct mutant *m, size_t bound)
{
    return random_below(random_at(m->stream, m->drawn++), bound);
}

/* ---- lists ------------------------------------------------------------------------- */

static void mutant_open(const tryst_program *program, uint64_t seed, int changes,
                        struct mutant *mutant_p)
{
    struct mutant m = {.ranks_count = tryst_program_ranks(program),
                       .stages_count = tryst_program_stages(program),
                       .microbatches_count = tryst_program_microbatches(program),
                       .stream = random_stream(seed, 0, 0)};
    m.lists = calloc((size_t)m.ranks_count, sizeof *m.lists);
    assert_non_null(m.lists);
    for (int rank = 0; rank < m.ranks_count; rank++) {
        struct list *list = &m.lists[rank];
        const tryst_action *actions = tryst_program_actions(program, rank, &list->count);
        list->actions = calloc(list->count + (size_t)changes, sizeof *actions);
        assert_non_null(list->actions);
        if (list->count > 0) {
            memcpy(list->actions, actions, list->count * sizeof *actions);
        }
        list->is_marked = tryst_program_loop(program, rank, &list->body, &list->epilogue);
    }
    *mutant_p = m;
}

static void mutant_close(struct mutant *m)
{
    for (int rank = 0; rank < m->ranks_count; rank++) {
        free(m->lists[rank].actions);
    }
    free(m->lists);
}

/* Insert an action before index `at`; actions behind it stay in their parts. */
static void list_insert(struct list *list, size_t at, tryst_action action)
{
    memmove(&list->actions[at + 1], &list->actions[at],
            (list->count - at) * sizeof action);
    list->actions[at] = action;
    list->count++;
    list->body += at < list->body;
    list->epilogue += at < list->epilogue;
}

static tryst_action list_remove(struct list *list, size_t at)
{
    tryst_action action = list->actions[at];
    list->count--;
    memmove(&list->actions[at], &list->actions[at + 1],
            (list->count - at) * sizeof action);
    list->body -= at < list->body;
    list->epilogue -= at < list->epilogue;
    return action;
}

static bool append_list(tryst_program *program, int rank, const struct list *list)
{
    for (size_t i = 0; i <= list->count; i++) {
        if (list->is_marked && i == list->body &&
            tryst_program_mark(program, rank, TRYST_PROGRAM_BODY) != TRYST_OK) {
            return false;
        }
        if (list->is_marked && i == list->epilogue &&
            tryst_program_mark(program, rank, TRYST_PROGRAM_EPILOGUE) != TRYST_OK) {
            return false;
        }
        if (i < list->count &&
            tryst_program_append(program, rank, &list->actions[i]) != TRYST_OK) {
            return false;
        }
    }
    return true;
}

static tryst_program *mutant_build(const struct mutant *m)
{
    tryst_program *program = NULL;
    bool good = true;
    assert_int_equal(tryst_program_open(m->ranks_count, m->stages_count,
                                        m->microbatches_count, &program),
                     TRYST_OK);
    for (int rank = 0; rank < m->ranks_count && good; rank++) {
        good = append_list(program, rank, &m->lists[rank]);
    }
    if (!good) {
        tryst_program_close(program);
        return NULL;
    }
    return program;
}

/* ---- changes ----------------------------------------------------------------------- */

static bool has_microbatch(const tryst_action *a)
{
    return a->microbatch >= 0;
}

/* Move an action at most three places. */
static void move_near(struct mutant *m, struct list *list, size_t at)
{
    tryst_action action = list_remove(list, at);
    size_t low = at < 3 ? 0 : at - 3, high = at + 3 < list->count ? at + 3 : list->count;
    list_insert(list, low + draw(m, high - low + 1), action);
}

static bool move_recompute(struct mutant *m, struct list *list)
{
    size_t first = draw(m, list->count);
    for (size_t i = 0; i < list->count; i++) {
        size_t at = (first + i) % list->count;
        if (list->actions[at].kind == TRYST_ACTION_RECOMPUTE) {
            move_near(m, list, at);
            return true;
        }
    }
    return false;
}

static bool move_mark(struct mutant *m, struct list *list)
{
    size_t *mark = draw(m, 2) ? &list->body : &list->epilogue;
    *mark += draw(m, 2) ? 1 : (size_t)-1; /* wraps below 0, and is refused then */
    return list->is_marked && list->body <= list->epilogue &&
           list->epilogue <= list->count;
}

/* Run the first action of a body one step earlier: at the end of the prologue, and at the
 * end of each body for the next step. The epilogue loses its first action. */
static bool rotate(struct mutant *m, struct list *list)
{
    if (!list->is_marked || list->body == list->epilogue ||
        list->epilogue == list->count) {
        return false;
    }
    tryst_action next = list->actions[list->body];
    if (has_microbatch(&next)) {
        next.microbatch += m->microbatches_count;
    }
    for (size_t i = list->body; i < list->epilogue && next.slot == 0; i++) {
        next.version += list->actions[i].kind == TRYST_ACTION_UPDATE &&
                        list->actions[i].stage == next.stage;
    }
    list->actions[list->epilogue] = next; /* in place of the epilogue's first */
    list->epilogue++;
    list->body++;
    return true;
}

static bool change_version(struct mutant *m, tryst_action *a)
{
    a->version += draw(m, 2) ? 1 : -1;
    return has_microbatch(a) || a->kind == TRYST_ACTION_UPDATE;
}

/* From a version to a slot, to another slot, or back. */
static bool change_slot(struct mutant *m, tryst_action *a)
{
    if (a->kind == TRYST_ACTION_PREDICT) {
        a->slot = (int32_t)draw(m, 3);
        return true;
    }
    a->slot = a->slot > 0 ? (int32_t)draw(m, 3) : 1;
    if (draw(m, 4) > 0) {
        a->version = 0;
    }
    return has_microbatch(a);
}

static bool change_kind(struct mutant *m, tryst_action *a)
{
    static const tryst_action_kind kinds[] = {
        TRYST_ACTION_FORWARD, TRYST_ACTION_BACKWARD, TRYST_ACTION_INPUT_GRAD,
        TRYST_ACTION_WEIGHT_GRAD, TRYST_ACTION_RECOMPUTE};
    if (!has_microbatch(a)) {
        a->kind = TRYST_ACTION_REDUCE_GRAD;
        return true;
    }
    a->kind = kinds[draw(m, sizeof kinds / sizeof *kinds)];
    return true;
}

static bool move_to_rank(struct mutant *m, struct list *list, size_t at)
{
    struct list *other = &m->lists[draw(m, (size_t)m->ranks_count)];
    if (other == list) {
        return false;
    }
    list_insert(other, draw(m, other->count + 1), list_remove(list, at));
    return true;
}

/* Make one change; false where there is no place for it. */
static bool mutant_change(struct mutant *m)
{
    struct list *list = &m->lists[draw(m, (size_t)m->ranks_count)];
    if (list->count < 2) {
        return false;
    }
    size_t at = draw(m, list->count - 1);
    tryst_action *a = &list->actions[at], kept = *a;
    switch (draw(m, 14)) {
    case 0:
    case 1:
    case 2:
        *a = a[1];
        a[1] = kept;
        return true;
    case 3: (void)list_remove(list, at); return true;
    case 4: list_insert(list, at, kept); return true;
    case 5: move_near(m, list, at); return true;
    case 6: return move_recompute(m, list);
    case 7: return move_mark(m, list);
    case 12: return rotate(m, list);
    case 13: return rotate(m, list) && rotate(m, list) && draw(m, 2) && rotate(m, list);
    case 8: return change_version(m, a);
    case 9: return change_slot(m, a);
    case 10: return draw(m, 2) ? change_kind(m, a) : move_to_rank(m, list, at);
    default:
        a->microbatch += draw(m, 2) ? 1 : -1;
        return has_microbatch(&kept) && has_microbatch(a);
    }
}

tryst_program *mutate_program(const tryst_program *program, uint64_t seed, int changes)
{
    struct mutant m;
    tryst_program *mutated = NULL;
    bool good = true;
    mutant_open(program, seed, changes, &m);
    for (int i = 0; i < changes && good; i++) {
        good = mutant_change(&m);
    }
    if (good) {
        mutated = mutant_build(&m);
    }
    mutant_close(&m);
    return mutated;
}
