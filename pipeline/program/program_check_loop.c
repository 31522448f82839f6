/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a loop: that it can run for any number of steps.
 *
 * One, two and three steps of it are unrolled, and each is checked as a flat program.
 * They prove all longer runs, in memory for three steps:
 *
 *   activations  Every micro-batch occurs once in three steps. So a body takes from the
 *                next step exactly the micro-batches of the prologue, kind by kind, and a
 *                rank holds the same after each body as after the prologue, M
 *                micro-batches further.
 *   gradients    A body that adds gradients to a stage has an UPDATE of it.
 *   slots        A slot that a body reads is filled in each body.
 *   order        No action of a body needs what is made in a later body. So a cycle of
 *                waits would be within one body, and the dry run would have found it.
 *
 * With the first three every step begins with the state of the second, and with the last
 * its body runs as that of the second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "program.h"
#include "program_check.h"
#include "program_unroll.h"

/* Steps that prove all others; see the top. */
#define LOOP_STEPS 3

/* Refuse marks and counts that cannot be a loop's. */
static tryst_status check_marks(const tryst_program *program)
{
    for (int rank = 0; rank < program->ranks_count; rank++) {
        const struct program_list *list = &program->lists[rank];
        if (list->count > 0 && list->part != TRYST_PROGRAM_EPILOGUE) {
            return refuse(TRYST_E_PROGRAM,
                          "cannot run the program: it is a loop, but the list of rank %d "
                          "has no %s",
                          rank, list->part == TRYST_PROGRAM_BODY ? "epilogue" : "body");
        }
    }
    if (program->microbatches_count > INT32_MAX / 4 / LOOP_STEPS) {
        return refuse(TRYST_E_PROGRAM,
                      "cannot run the program: a step of a loop has %d micro-batches, "
                      "but can have at most %d",
                      program->microbatches_count, INT32_MAX / 4 / LOOP_STEPS);
    }
    return program->microbatches_count >= program->ranks_count - 1
               ? TRYST_OK
               : refuse(TRYST_E_PROGRAM,
                        "cannot run the program: a loop over %d ranks needs at least %d "
                        "micro-batches in a step, but has %d: the first rank is so many "
                        "micro-batches ahead of the last",
                        program->ranks_count, program->ranks_count - 1,
                        program->microbatches_count);
}

/* Items that the bodies of all ranks make, and what the body of one does. */
struct check_loop {
    const tryst_program *program;
    /* [items × 2]: made in a body; of the next step's micro-batches at the second
     * index */
    uint8_t *made;
    bool *adds; /* [stages]: of the rank that is checked: the body adds gradients */
    bool *updates;
    bool *fills; /* [stages × slots]: …, and it fills the slot */
};

static uint8_t *made_in_body(const struct check_loop *self, struct program_item item)
{
    int count = self->program->microbatches_count;
    size_t next = item.microbatch >= count;
    item.microbatch %= count;
    return &self->made[2 * program_item_index(self->program, item) + next];
}

static void body_collect(struct check_loop *self, const struct program_list *list)
{
    for (size_t i = list->body; i < list->epilogue; i++) {
        struct program_item items[PROGRAM_ITEMS_MAX];
        int count = program_makes(&list->actions[i], items);
        for (int k = 0; k < count; k++) {
            *made_in_body(self, items[k]) = 1;
        }
    }
}

static tryst_status fail_body(const struct check_loop *self, int rank, size_t position,
                              const char *words)
{
    char name[64];
    return refuse(TRYST_E_PROGRAM, "cannot run the program: rank %d, position %zu: %s %s",
                  rank, position,
                  tryst_action_format(&self->program->lists[rank].actions[position], name,
                                      sizeof name),
                  words);
}

static bool *fills_of(const struct check_loop *self, const tryst_action *action)
{
    return &self->fills[(size_t)action->stage * (PROGRAM_SLOT_MAX + 1) +
                        (size_t)action->slot];
}

/* Note what the body of a list does. */
static void body_note(struct check_loop *self, const struct program_list *list)
{
    size_t stages = (size_t)self->program->stages_count;
    memset(self->adds, 0, stages * sizeof *self->adds);
    memset(self->updates, 0, stages * sizeof *self->updates);
    memset(self->fills, 0, stages * (PROGRAM_SLOT_MAX + 1) * sizeof *self->fills);
    for (size_t i = list->body; i < list->epilogue; i++) {
        const tryst_action *action = &list->actions[i];
        self->adds[action->stage] |= program_kind_adds(action->kind);
        self->updates[action->stage] |= action->kind == TRYST_ACTION_UPDATE;
        *fills_of(self, action) |= action->kind == TRYST_ACTION_PREDICT;
    }
}

/* True if an action of the body needs an item of the next step's micro-batches that no
 * body makes, so that a later body would. */
static bool needs_later(const struct check_loop *self, const tryst_action *action)
{
    struct program_item items[PROGRAM_ITEMS_MAX];
    int count = program_needs(self->program, action, items);
    for (int i = 0; i < count; i++) {
        if (items[i].microbatch >= self->program->microbatches_count &&
            !*made_in_body(self, items[i])) {
            return true;
        }
    }
    return false;
}

/* True if the loss of a micro-batch of the next step is made in this one. */
static bool loses_loss(const struct check_loop *self, const tryst_action *action)
{
    return action->kind == TRYST_ACTION_FORWARD &&
           action->stage == self->program->stages_count - 1 &&
           action->microbatch >= self->program->microbatches_count;
}

static tryst_status check_body(struct check_loop *self, int rank)
{
    const struct program_list *list = &self->program->lists[rank];
    body_note(self, list);
    for (size_t i = list->body; i < list->epilogue; i++) {
        const tryst_action *action = &list->actions[i];
        if (loses_loss(self, action)) {
            return fail_body(self, rank, i,
                             "runs a forward of the next step on the last stage, but a "
                             "step returns all of its losses");
        }
        if (needs_later(self, action)) {
            return fail_body(self, rank, i, "needs what only a later body makes");
        }
        if (program_kind_reads(action->kind) && action->slot > 0 &&
            !*fills_of(self, action)) {
            return fail_body(self, rank, i,
                             "reads a slot that no PREDICT of the body fills");
        }
    }
    for (size_t i = list->body; i < list->epilogue; i++) {
        int stage = list->actions[i].stage;
        if (self->adds[stage] && !self->updates[stage]) {
            return fail_body(self, rank, i,
                             "is in a body that adds gradients to its stage without an "
                             "UPDATE: they would grow with every step");
        }
    }
    return TRYST_OK;
}

static tryst_status check_bodies(const tryst_program *program)
{
    size_t stages = (size_t)program->stages_count;
    struct check_loop self = {
        .program = program,
        .made = calloc(2 * program_items_count(program), 1),
        .adds = calloc(stages, sizeof *self.adds),
        .updates = calloc(stages, sizeof *self.updates),
        .fills = calloc(stages * (PROGRAM_SLOT_MAX + 1), sizeof *self.fills)};
    tryst_status status =
        self.made && self.adds && self.updates && self.fills
            ? TRYST_OK
            : refuse(TRYST_E_NOMEM,
                     "cannot check the program: out of memory for %d "
                     "stages by %d micro-batches",
                     program->stages_count, program->microbatches_count);
    for (int rank = 0; rank < program->ranks_count && status == TRYST_OK; rank++) {
        body_collect(&self, &program->lists[rank]);
    }
    for (int rank = 0; rank < program->ranks_count && status == TRYST_OK; rank++) {
        status = check_body(&self, rank);
    }
    free(self.made);
    free(self.adds);
    free(self.updates);
    free(self.fills);
    return status;
}

static tryst_status check_loop(const tryst_program *program,
                               const tryst_check_params *params,
                               tryst_program_peak *peaks)
{
    tryst_status status = check_marks(program);
    for (int steps = 1; steps <= LOOP_STEPS && status == TRYST_OK; steps++) {
        char words[48];
        tryst_program *flat = NULL;
        snprintf(words, sizeof words, "%d step%s of the loop: ", steps,
                 steps == 1 ? "" : "s");
        status = program_unroll(program, steps, false, &flat);
        if (status == TRYST_OK) {
            status = program_check_flat(flat, params, peaks, words);
        }
        tryst_program_close(flat);
    }
    return status == TRYST_OK ? check_bodies(program) : status;
}

tryst_status tryst_program_check(const tryst_program *program,
                                 const tryst_check_params *params,
                                 tryst_program_peak *peaks)
{
    tryst_check_params own;
    if (!program) {
        return refuse_null("check a program", "program");
    }
    tryst_status status = params_read(&own, sizeof own, params, "tryst_check_params");
    if (status != TRYST_OK) {
        return status;
    }
    return program_is_looped(program) ? check_loop(program, &own, peaks)
                                      : program_check_flat(program, &own, peaks, "");
}
