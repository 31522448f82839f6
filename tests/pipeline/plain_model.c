/* SPDX-License-Identifier: Apache-2.0 */
/* See plain_model.h. One idea: run the lists. A rank runs its next action as soon as all
 * needs of the action are there. The program is good if all lists come to their end, no
 * action breaks a rule, and at the end every micro-batch is complete and every gradient
 * is in an UPDATE. A loop is good if its runs of 1, 2, 3, 4, … steps, written out, are
 * good.
 *
 * Choices where the header leaves one:
 *  - R reads the weights of the B or I behind it, and W those of its I: the same version;
 *    or the same slot, with no PREDICT of that slot between them, which would change it.
 *  - F and B (or I) may read different weights.
 *  - A flat program may be run again and again, so its negative versions are compared as
 *    they are. In a loop a version below 0 of the whole run is version 0 of it.
 *  - Each UPDATE needs a gradient since the UPDATE before: a sum of none has no mean.
 *  - The state between two steps of a loop is the same after each body. Each micro-batch
 *    is complete once in runs of n and of n + 1 steps, so the same micro-batches (counted
 *    from the step) are half done after each body. Only the number of gradients that wait
 *    for an UPDATE can differ, so this number is compared.
 *  - No action of a body waits for an action of a later body. The prologue is a part of
 *    the first step, so an action there may wait for the first body of another rank.
 *  - The last stage may run forwards of the next step: no text refuses such a program. */
#include "plain_model.h"
#include "plain_lists.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The weights that an action reads. */
struct weights_read {
    int version;
    int slot;
    size_t prediction; /* position of the PREDICT that filled the slot */
};

/* One micro-batch at one stage. */
struct cell {
    int rank; /* of its F */
    bool forward, recompute, input_grad, weight_grad;
    int forward_step, input_grad_step; /* steps that ran F, and B or I */
    struct weights_read recompute_read, input_grad_read;
};

/* One stage on one rank. */
struct holder {
    bool is_here;  /* the rank has an action of the stage */
    int newest;    /* weight version */
    int gradients; /* since the last UPDATE */
    bool reduced;  /* REDUCE_GRAD since the last UPDATE */
    int reduces;   /* REDUCE_GRADs so far */
};

struct model {
    const struct plain_lists *lists;
    struct cell *cells;     /* [stages][microbatches] */
    struct holder *holders; /* [ranks][stages] */
    size_t *next;           /* [ranks]: position in the list */
    char *why;
    size_t capacity;
};

enum outcome { DONE, WAITS, WRONG };

/* The action that is tried, with what it touches. */
struct trial {
    struct model *model;
    int rank;
    const struct plain_entry *entry;
    const tryst_action *action;
    struct holder *holder;
    struct cell *cell;         /* NULL without a micro-batch */
    struct weights_read reads; /* F, B, I, W and R */
};

static struct cell *cell_at(const struct model *m, int stage, int microbatch)
{
    return &m->cells[stage * m->lists->microbatches_count + microbatch];
}

static struct holder *holder_at(const struct model *m, int rank, int stage)
{
    return &m->holders[rank * m->lists->stages_count + stage];
}

__attribute__((format(printf, 2, 3))) static enum outcome wrong(const struct trial *t,
                                                                const char *format, ...)
{
    char action[64], reason[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    tryst_action_format(t->action, action, sizeof action);
    (void)snprintf(t->model->why, t->model->capacity, "rank %d, position %zu, %s: %s",
                   t->rank, t->model->next[t->rank], action, reason);
    return WRONG;
}

/* ---- what an action may look like -------------------------------------------------- */

static enum outcome check_fields(const struct trial *t)
{
    const struct plain_lists *l = t->model->lists;
    const tryst_action *a = t->action;
    if (a->kind <= TRYST_ACTION_NONE || a->kind >= TRYST_ACTION_KINDS) {
        return wrong(t, "kind %d", (int)a->kind);
    }
    if (plain_has_microbatch(a)) {
        if (a->microbatch < 0 || a->microbatch >= l->microbatches_count) {
            return wrong(t, "micro-batch %d of %d", a->microbatch, l->microbatches_count);
        }
        if (a->slot < 0 || (a->slot > 0 && a->version != 0)) {
            return wrong(t, "slot %d and version %d", a->slot, a->version);
        }
    } else if (a->microbatch != -1) {
        return wrong(t, "micro-batch %d", a->microbatch);
    }
    return DONE;
}

/* Find the weights that the action reads. */
static enum outcome find_reads(struct trial *t)
{
    const struct plain_entry *entries = t->model->lists->lists[t->rank].entries;
    const tryst_action *a = t->action;
    t->reads = (struct weights_read){.version = a->version, .slot = a->slot};
    if (a->slot == 0) {
        return a->version <= t->holder->newest
                   ? DONE
                   : wrong(t, "the newest version is %d", t->holder->newest);
    }
    for (size_t i = t->model->next[t->rank]; i-- > 0;) {
        const tryst_action *before = &entries[i].action;
        if (before->kind == TRYST_ACTION_PREDICT && before->stage == a->stage &&
            before->slot == a->slot) {
            t->reads.prediction = i;
            return DONE;
        }
    }
    return wrong(t, "no PREDICT of slot %d before", a->slot);
}

static bool is_same_read(struct weights_read a, struct weights_read b)
{
    return a.version == b.version && a.slot == b.slot && a.prediction == b.prediction;
}

/* An action of a body may need nothing that a later body makes. */
static enum outcome check_steps(const struct trial *t, int made)
{
    return made <= t->entry->step
               ? DONE
               : wrong(t, "needs what step %d makes, in step %d", made, t->entry->step);
}

/* ---- the kinds --------------------------------------------------------------------- */

static enum outcome run_forward(struct trial *t)
{
    if (t->cell->forward) {
        return wrong(t, "a second F");
    }
    if (t->action->stage > 0) {
        const struct cell *before =
            cell_at(t->model, t->action->stage - 1, t->action->microbatch);
        if (!before->forward) {
            return WAITS;
        }
        if (check_steps(t, before->forward_step) != DONE) {
            return WRONG;
        }
    }
    t->cell->forward = true;
    t->cell->rank = t->rank;
    t->cell->forward_step = t->entry->step;
    return DONE;
}

/* All but F need their F, on their rank. */
static enum outcome need_forward(const struct trial *t)
{
    if (!t->cell->forward) {
        return WAITS;
    }
    return t->cell->rank == t->rank ? DONE
                                    : wrong(t, "its F is on rank %d", t->cell->rank);
}

static enum outcome run_recompute(struct trial *t)
{
    enum outcome outcome = need_forward(t);
    if (outcome != DONE) {
        return outcome;
    }
    if (t->cell->recompute || t->cell->input_grad) {
        return wrong(t, "behind another R, or behind B or I");
    }
    t->cell->recompute = true;
    t->cell->recompute_read = t->reads;
    return DONE;
}

static enum outcome add_gradient(struct trial *t)
{
    if (t->holder->reduced) {
        return wrong(t, "between REDUCE_GRAD and UPDATE");
    }
    t->holder->gradients++;
    t->cell->weight_grad = true;
    return DONE;
}

/* B or I */
static enum outcome run_input_grad(struct trial *t)
{
    enum outcome outcome = need_forward(t);
    if (outcome != DONE) {
        return outcome;
    }
    if (t->cell->input_grad) {
        return wrong(t, "a second B or I");
    }
    if (t->action->stage + 1 < t->model->lists->stages_count) {
        const struct cell *after =
            cell_at(t->model, t->action->stage + 1, t->action->microbatch);
        if (!after->input_grad) {
            return WAITS;
        }
        if (check_steps(t, after->input_grad_step) != DONE) {
            return WRONG;
        }
    }
    if (t->cell->recompute && !is_same_read(t->reads, t->cell->recompute_read)) {
        return wrong(t, "reads other weights than its R");
    }
    t->cell->input_grad = true;
    t->cell->input_grad_step = t->entry->step;
    t->cell->input_grad_read = t->reads;
    return t->action->kind == TRYST_ACTION_BACKWARD ? add_gradient(t) : DONE;
}

static enum outcome run_weight_grad(struct trial *t)
{
    enum outcome outcome = need_forward(t);
    if (outcome != DONE) {
        return outcome;
    }
    if (!t->cell->input_grad) {
        return WAITS;
    }
    if (t->cell->weight_grad) {
        return wrong(t, "a second B or W");
    }
    if (!is_same_read(t->reads, t->cell->input_grad_read)) {
        return wrong(t, "reads other weights than its I");
    }
    return add_gradient(t);
}

static int replicas_count(const struct model *m, int stage)
{
    int count = 0;
    for (int rank = 0; rank < m->lists->ranks_count; rank++) {
        count += holder_at(m, rank, stage)->is_here;
    }
    return count;
}

/* Return the step of REDUCE_GRAD number `index` (from 0) of a stage on a rank. */
static int reduce_step(const struct model *m, int rank, int stage, int index)
{
    const struct plain_list *list = &m->lists->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *a = &list->entries[i].action;
        if (a->kind == TRYST_ACTION_REDUCE_GRAD && a->stage == stage && index-- == 0) {
            return list->entries[i].step;
        }
    }
    return 0;
}

/* The UPDATE of a replicated stage needs the REDUCE_GRAD of every replica. */
static enum outcome need_reduces(const struct trial *t)
{
    const struct model *m = t->model;
    int stage = t->action->stage;
    if (!t->holder->reduced) {
        return wrong(t, "no REDUCE_GRAD before");
    }
    for (int rank = 0; rank < m->lists->ranks_count; rank++) {
        const struct holder *other = holder_at(m, rank, stage);
        if (other->is_here && other->reduces <= t->holder->newest) {
            return WAITS;
        }
        if (other->is_here &&
            check_steps(t, reduce_step(m, rank, stage, t->holder->newest)) != DONE) {
            return WRONG;
        }
    }
    return DONE;
}

static enum outcome run_update(struct trial *t)
{
    struct holder *h = t->holder;
    if (h->gradients == 0) {
        return wrong(t, "no gradient since the last UPDATE");
    }
    if (t->action->version != h->newest + 1) {
        return wrong(t, "makes version %d", h->newest + 1);
    }
    if (replicas_count(t->model, t->action->stage) > 1) {
        enum outcome outcome = need_reduces(t);
        if (outcome != DONE) {
            return outcome;
        }
    }
    h->newest++;
    h->gradients = 0;
    h->reduced = false;
    return DONE;
}

static enum outcome run_reduce(struct trial *t)
{
    if (t->holder->gradients == 0 || t->holder->reduced) {
        return wrong(t, "no gradient since the last UPDATE, or a second REDUCE_GRAD");
    }
    t->holder->reduced = true;
    t->holder->reduces++;
    return DONE;
}

static enum outcome run_predict(struct trial *t)
{
    const tryst_action *a = t->action;
    bool known =
        a->direction == TRYST_DIRECTION_STEP || a->direction == TRYST_DIRECTION_DELTA;
    if (a->slot < 1 || !known || !isfinite(a->ahead)) {
        return wrong(t, "slot %d, direction %d, ahead %g", a->slot, a->direction,
                     a->ahead);
    }
    return DONE;
}

/* ---- the run ----------------------------------------------------------------------- */

/* Try the next action of a rank, which has one. */
static enum outcome run_next(struct model *m, int rank)
{
    const struct plain_entry *entry = &m->lists->lists[rank].entries[m->next[rank]];
    const tryst_action *a = &entry->action;
    struct trial t = {.model = m,
                      .rank = rank,
                      .entry = entry,
                      .action = a,
                      .holder = holder_at(m, rank, a->stage)};
    if (check_fields(&t) != DONE) {
        return WRONG;
    }
    if (plain_has_microbatch(a)) {
        t.cell = cell_at(m, a->stage, a->microbatch);
        if (find_reads(&t) != DONE) {
            return WRONG;
        }
    }
    switch (a->kind) {
    case TRYST_ACTION_FORWARD: return run_forward(&t);
    case TRYST_ACTION_RECOMPUTE: return run_recompute(&t);
    case TRYST_ACTION_BACKWARD:
    case TRYST_ACTION_INPUT_GRAD: return run_input_grad(&t);
    case TRYST_ACTION_WEIGHT_GRAD: return run_weight_grad(&t);
    case TRYST_ACTION_UPDATE: return run_update(&t);
    case TRYST_ACTION_REDUCE_GRAD: return run_reduce(&t);
    default: return run_predict(&t);
    }
}

/* Run the lists until no rank can continue. Returns false where an action is wrong. */
static bool run_lists(struct model *m)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < m->lists->ranks_count; rank++) {
            enum outcome outcome = DONE;
            while (outcome == DONE && m->next[rank] < m->lists->lists[rank].count) {
                outcome = run_next(m, rank);
                if (outcome == WRONG) {
                    return false;
                }
                m->next[rank] += outcome == DONE;
                moved |= outcome == DONE;
            }
        }
    }
    return true;
}

static bool is_at_end(const struct model *m)
{
    for (int rank = 0; rank < m->lists->ranks_count; rank++) {
        const struct plain_list *list = &m->lists->lists[rank];
        if (m->next[rank] < list->count) {
            char action[64];
            tryst_action_format(&list->entries[m->next[rank]].action, action,
                                sizeof action);
            (void)snprintf(m->why, m->capacity, "rank %d, position %zu: %s waits forever",
                           rank, m->next[rank], action);
            return false;
        }
    }
    return true;
}

static bool is_complete(const struct model *m)
{
    for (int stage = 0; stage < m->lists->stages_count; stage++) {
        for (int i = 0; i < m->lists->microbatches_count; i++) {
            const struct cell *cell = cell_at(m, stage, i);
            if (!cell->forward || !cell->input_grad || !cell->weight_grad) {
                (void)snprintf(m->why, m->capacity,
                               "stage %d, micro-batch %d is not complete", stage, i);
                return false;
            }
        }
    }
    return true;
}

/* Every gradient is in an UPDATE, and all replicas make the same versions. */
static bool is_updated(const struct model *m)
{
    for (int stage = 0; stage < m->lists->stages_count; stage++) {
        int newest = -1;
        for (int rank = 0; rank < m->lists->ranks_count; rank++) {
            const struct holder *h = holder_at(m, rank, stage);
            if (h->is_here &&
                (h->gradients > 0 || (newest >= 0 && h->newest != newest))) {
                (void)snprintf(m->why, m->capacity,
                               "stage %d on rank %d: gradients without UPDATE, or "
                               "another number of UPDATEs",
                               stage, rank);
                return false;
            }
            newest = h->is_here ? h->newest : newest;
        }
    }
    return true;
}

static void mark_holders(struct model *m)
{
    for (int rank = 0; rank < m->lists->ranks_count; rank++) {
        const struct plain_list *list = &m->lists->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            holder_at(m, rank, list->entries[i].action.stage)->is_here = true;
        }
    }
}

static bool lists_are_good(const struct plain_lists *lists, char *why, size_t capacity)
{
    size_t stages = (size_t)lists->stages_count, ranks = (size_t)lists->ranks_count;
    struct model m = {.lists = lists, .why = why, .capacity = capacity};
    m.cells = calloc(stages * (size_t)lists->microbatches_count, sizeof *m.cells);
    m.holders = calloc(ranks * stages, sizeof *m.holders);
    m.next = calloc(ranks, sizeof *m.next);
    assert_true(m.cells && m.holders && m.next);
    mark_holders(&m);
    bool good = run_lists(&m) && is_at_end(&m) && is_complete(&m) && is_updated(&m);
    free(m.next);
    free(m.holders);
    free(m.cells);
    return good;
}

/* ---- loops ------------------------------------------------------------------------- */

/* Gradients of a stage that wait for an UPDATE when a rank has ended a step; negative
 * where they are summed over the replicas already. */
static int gradients_after(const struct plain_list *list, int stage, int step)
{
    int gradients = 0;
    for (size_t i = 0; i < list->count && list->entries[i].step <= step; i++) {
        const tryst_action *a = &list->entries[i].action;
        if (a->stage != stage) {
            continue;
        }
        switch (a->kind) {
        case TRYST_ACTION_BACKWARD:
        case TRYST_ACTION_WEIGHT_GRAD: gradients++; break;
        case TRYST_ACTION_REDUCE_GRAD: gradients = -gradients; break;
        case TRYST_ACTION_UPDATE: gradients = 0; break;
        default: break;
        }
    }
    return gradients;
}

/* Compare what is held after the bodies of steps 1, 2 and 3. */
static bool is_steady(const tryst_program *program, char *why, size_t capacity)
{
    struct plain_lists lists;
    bool steady = true;
    plain_lists_open(program, 4, true, &lists);
    for (int rank = 0; rank < lists.ranks_count; rank++) {
        for (int stage = 0; stage < lists.stages_count; stage++) {
            int first = gradients_after(&lists.lists[rank], stage, 1);
            steady &= gradients_after(&lists.lists[rank], stage, 2) == first &&
                      gradients_after(&lists.lists[rank], stage, 3) == first;
        }
    }
    plain_lists_close(&lists);
    if (!steady) {
        (void)snprintf(why, capacity, "the gradients held grow from body to body");
    }
    return steady;
}

/* Each slot that a body reads is filled in this body. */
static bool slots_are_filled(const tryst_action *a, size_t body, size_t epilogue)
{
    for (size_t i = body; i < epilogue; i++) {
        bool filled = !plain_has_microbatch(&a[i]) || a[i].slot == 0;
        for (size_t k = body; k < epilogue && !filled; k++) {
            filled = a[k].kind == TRYST_ACTION_PREDICT && a[k].stage == a[i].stage &&
                     a[k].slot == a[i].slot;
        }
        if (!filled) {
            return false;
        }
    }
    return true;
}

/* True if `a` makes a loss of a micro-batch of the next step. */
static bool is_early_loss(const tryst_program *program, const tryst_action *a)
{
    return a->kind == TRYST_ACTION_FORWARD &&
           a->stage + 1 == tryst_program_stages(program) &&
           a->microbatch >= tryst_program_microbatches(program);
}

/* All ranks with actions have marks, and only bodies reach into the next step, but for
 * the last stage's forwards. */
static bool marks_are_good(const tryst_program *program, char *why, size_t capacity)
{
    int microbatches = tryst_program_microbatches(program);
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        size_t count, body, epilogue;
        const tryst_action *a = tryst_program_actions(program, rank, &count);
        if (!tryst_program_loop(program, rank, &body, &epilogue) && count > 0) {
            (void)snprintf(why, capacity, "rank %d has no marks", rank);
            return false;
        }
        if (!slots_are_filled(a, body, epilogue)) {
            (void)snprintf(why, capacity, "rank %d: a body fills no slot that it reads",
                           rank);
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            if (is_early_loss(program, &a[i])) {
                (void)snprintf(why, capacity, "rank %d: the last stage reaches ahead",
                               rank);
                return false;
            }
            if ((i < body || i >= epilogue) && a[i].microbatch >= microbatches) {
                (void)snprintf(why, capacity,
                               "rank %d, position %zu: micro-batch %d outside of the "
                               "body",
                               rank, i, a[i].microbatch);
                return false;
            }
        }
    }
    if (microbatches < tryst_program_ranks(program) - 1) {
        (void)snprintf(why, capacity, "a loop of %d micro-batches", microbatches);
        return false;
    }
    return true;
}

/* Return the number of steps after which a body reads no version of before the run. (Each
 * body has an UPDATE.) Versions far below 0 are cut off, to end in time. */
static int steps_until_steady(const tryst_program *program)
{
    enum { STEPS = 4, DEEP = 12 };
    int deepest = 0;
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        size_t count;
        const tryst_action *a = tryst_program_actions(program, rank, &count);
        for (size_t i = 0; i < count; i++) {
            deepest = -a[i].version > deepest ? -a[i].version : deepest;
        }
    }
    return STEPS + (deepest < DEEP ? deepest : DEEP);
}

bool plain_model_accepts(const tryst_program *program, char *why, size_t capacity)
{
    bool loops = plain_is_loop(program), good = true;
    if (capacity > 0) {
        why[0] = 0;
    }
    if (loops && !marks_are_good(program, why, capacity)) {
        return false;
    }
    int steps = loops ? steps_until_steady(program) : 1;
    for (int n = 1; n <= steps && good; n++) {
        struct plain_lists lists;
        plain_lists_open(program, n, loops, &lists);
        good = lists_are_good(&lists, why, capacity);
        plain_lists_close(&lists);
    }
    return good && (!loops || is_steady(program, why, capacity));
}

/* ---- what a rank holds ------------------------------------------------------------- */

/* Return the number of versions of a stage that a rank keeps behind its first `done`
 * actions: from the oldest that a later action reads to the newest. */
static int versions_kept(const struct plain_list *list, int stage, size_t done)
{
    int newest = 0;
    for (size_t i = 0; i < done; i++) {
        const tryst_action *a = &list->entries[i].action;
        newest += a->stage == stage && a->kind == TRYST_ACTION_UPDATE;
    }
    int oldest = newest;
    for (size_t i = done; i < list->count; i++) {
        const tryst_action *a = &list->entries[i].action;
        if (a->stage == stage && plain_has_microbatch(a) && a->slot == 0 &&
            a->version < oldest) {
            oldest = a->version;
        }
    }
    return newest - oldest + 1;
}

tryst_program_peak plain_model_peak(const tryst_program *program, int rank)
{
    bool loops = plain_is_loop(program);
    struct plain_lists lists;
    tryst_program_peak peak = {0};
    int held = 0;
    plain_lists_open(program, loops ? steps_until_steady(program) : 3, loops, &lists);
    const struct plain_list *list = &lists.lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *a = &list->entries[i].action;
        int kept = versions_kept(list, a->stage, i);
        peak.versions = kept > peak.versions ? kept : peak.versions;
        held += a->kind == TRYST_ACTION_FORWARD;
        peak.activations = held > peak.activations ? held : peak.activations;
        held -= a->kind == TRYST_ACTION_BACKWARD || a->kind == TRYST_ACTION_WEIGHT_GRAD;
    }
    plain_lists_close(&lists);
    return peak;
}

tryst_program *plain_model_unroll(const tryst_program *program, int steps)
{
    struct plain_lists lists;
    tryst_program *flat = NULL;
    tryst_status status;
    plain_lists_open(program, steps, true, &lists);
    status = tryst_program_open(lists.ranks_count, lists.stages_count,
                                lists.microbatches_count, &flat);
    for (int rank = 0; rank < lists.ranks_count; rank++) {
        const struct plain_list *list = &lists.lists[rank];
        for (size_t i = 0; i < list->count && status == TRYST_OK; i++) {
            status = tryst_program_append(flat, rank, &list->entries[i].action);
        }
    }
    plain_lists_close(&lists);
    if (status != TRYST_OK) {
        tryst_program_close(flat);
        return NULL;
    }
    return flat;
}
