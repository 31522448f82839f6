/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which weights each action of a rank's list reads, and from that what a stage must
 * hold.
 *
 * The delay of a micro-batch at a stage is the number of UPDATEs between the weights that
 * an action reads and those that the micro-batch's gradient changes. So a list is walked
 * once forwards, with the newest version of each stage, and the delays are filled in at
 * each UPDATE, for the micro-batches that it takes a gradient of. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "program.h"
#include "program_unroll.h"

#include <tryst/sized.h>

/* Steps to which a loop is unrolled: the last UPDATE then takes gradients of forwards
 * that ran in a body or in the epilogue, as those of all later steps do. */
#define STEADY_STEPS 3

/* Mark of a micro-batch with a gradient that no UPDATE has taken. */
enum { PENDING = -2 };

struct reads {
    const tryst_program *program;
    const struct program_list *list;
    tryst_program_read *all; /* [actions] */
    int32_t *newest;         /* [stages] */
    int32_t *slots; /* [stages × (slot_max + 1)]: newest version at its PREDICT */
    int32_t slot_max;
    /* [stages × micro-batches]: newest version before the UPDATE that takes the gradient;
     * -1: none has, or PENDING */
    int32_t *taken;
    /* [stages]: a micro-batch with a gradient that no UPDATE has taken; -1: none */
    int32_t *pending;
    int32_t *others; /* [stages × micro-batches]: another such one; -1: the last */
};

static int32_t *slot_of(const struct reads *self, const tryst_action *action)
{
    return &self->slots[(size_t)action->stage * ((size_t)self->slot_max + 1) +
                        (size_t)action->slot];
}

static size_t cell_of(const struct reads *self, int stage, int microbatch)
{
    return (size_t)stage * (size_t)self->program->microbatches_count + (size_t)microbatch;
}

static void gradient_add(struct reads *self, const tryst_action *action)
{
    size_t cell = cell_of(self, action->stage, action->microbatch);
    if (self->taken[cell] == PENDING) { /* twice: tryst_program_check refuses that */
        return;
    }
    self->taken[cell] = PENDING;
    self->others[cell] = self->pending[action->stage];
    self->pending[action->stage] = action->microbatch;
}

/* Give the pending gradients of a stage to the UPDATE that comes now. */
static void update_take(struct reads *self, int stage)
{
    int32_t next;
    for (int32_t m = self->pending[stage]; m >= 0; m = next) {
        size_t cell = cell_of(self, stage, m);
        next = self->others[cell];
        self->taken[cell] = self->newest[stage];
    }
    self->pending[stage] = -1;
    self->newest[stage]++;
}

static void action_walk(struct reads *self, size_t i)
{
    const tryst_action *action = &self->list->actions[i];
    int32_t newest = self->newest[action->stage];
    bool reads_slot = program_kind_reads(action->kind) && action->slot > 0;
    self->all[i] = (tryst_program_read){.version = reads_slot ? *slot_of(self, action)
                                                              : action->version,
                                        .newest = newest};
    if (action->kind == TRYST_ACTION_PREDICT) {
        *slot_of(self, action) = newest;
        self->all[i].version = newest;
    }
    if (program_kind_adds(action->kind)) {
        gradient_add(self, action);
    }
    if (action->kind == TRYST_ACTION_UPDATE) {
        update_take(self, action->stage);
    }
}

static void delays_fill(struct reads *self)
{
    for (size_t i = 0; i < self->list->count; i++) {
        const tryst_action *action = &self->list->actions[i];
        if (program_kind_reads(action->kind)) {
            int32_t taken = self->taken[cell_of(self, action->stage, action->microbatch)];
            self->all[i].delay = taken >= 0 ? taken - self->all[i].version : 0;
        }
    }
}

static void reads_close(struct reads *self)
{
    free(self->newest);
    free(self->slots);
    free(self->taken);
    free(self->pending);
    free(self->others);
}

/* Allocate `count` numbers of -1. */
static int32_t *none_of(size_t count)
{
    int32_t *numbers = malloc(count * sizeof *numbers);
    if (numbers) {
        memset(numbers, 0xff, count * sizeof *numbers);
    }
    return numbers;
}

static bool reads_open(struct reads *self, const tryst_program *program, int rank)
{
    size_t stages = (size_t)program->stages_count;
    size_t cells = stages * (size_t)program->microbatches_count;
    *self = (struct reads){.program = program, .list = &program->lists[rank]};
    for (size_t i = 0; i < self->list->count; i++) {
        int32_t slot = self->list->actions[i].slot;
        self->slot_max = slot > self->slot_max ? slot : self->slot_max;
    }
    self->newest = calloc(stages, sizeof *self->newest);
    self->slots = calloc(stages * ((size_t)self->slot_max + 1), sizeof *self->slots);
    self->taken = none_of(cells);
    self->pending = none_of(stages);
    self->others = none_of(cells);
    return self->newest && self->slots && self->taken && self->pending && self->others;
}

static tryst_status list_reads(const tryst_program *program, int rank,
                               tryst_program_read *reads)
{
    struct reads self;
    bool opened = reads_open(&self, program, rank);
    self.all = reads;
    for (size_t i = 0; opened && i < self.list->count; i++) {
        action_walk(&self, i);
    }
    if (opened) {
        delays_fill(&self);
    }
    reads_close(&self);
    return opened ? TRYST_OK
                  : refuse(TRYST_E_NOMEM,
                           "cannot find what the program reads: out of memory for %d "
                           "stages by %d micro-batches",
                           program->stages_count, program->microbatches_count);
}

tryst_status tryst_program_reads(const tryst_program *program, int rank,
                                 tryst_program_read *reads)
{
    if (!program || !reads) {
        return refuse_null("find what a program reads", program ? "reads" : "program");
    }
    if (rank < 0 || rank >= program->ranks_count || program_is_looped(program)) {
        return refuse(TRYST_E_INVALID,
                      "cannot find what rank %d reads: the program has %d ranks%s", rank,
                      program->ranks_count,
                      program_is_looped(program)
                          ? ", and is a loop: give what tryst_program_unroll makes of it"
                          : "");
    }
    return list_reads(program, rank, reads);
}

/* ---- what a stage must hold -------------------------------------------------------- */

/* Return the mean delay of the forwards of the last UPDATE of `stage`. */
static double last_delay(const struct program_list *list, int stage,
                         const tryst_program_read *reads)
{
    int64_t sum = 0, count = 0;
    int32_t last = -1;
    for (size_t i = 0; i < list->count; i++) {
        if (list->actions[i].stage == stage &&
            list->actions[i].kind == TRYST_ACTION_UPDATE) {
            last = reads[i].newest;
        }
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->actions[i].stage == stage &&
            list->actions[i].kind == TRYST_ACTION_FORWARD &&
            reads[i].version + reads[i].delay == last) {
            sum += reads[i].delay;
            count++;
        }
    }
    return count > 0 ? (double)sum / (double)count : 0;
}

static void need_add(tryst_stage_need *need, const struct program_list *list, int stage,
                     const tryst_program_read *reads)
{
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *action = &list->actions[i];
        if (action->stage != stage) {
            continue;
        }
        need->slots_count =
            action->slot > need->slots_count ? action->slot : need->slots_count;
        need->delta = need->delta || (action->kind == TRYST_ACTION_PREDICT &&
                                      action->direction == TRYST_DIRECTION_DELTA);
        if (program_kind_reads(action->kind) && action->slot == 0) {
            int32_t kept = reads[i].newest - reads[i].version + 1;
            need->versions_count =
                kept > need->versions_count ? kept : need->versions_count;
        }
    }
    double delay = last_delay(list, stage, reads);
    need->delay = delay > need->delay ? delay : need->delay;
}

static bool has_stage(const struct program_list *list, int stage)
{
    size_t i = 0;
    while (i < list->count && list->actions[i].stage != stage) {
        i++;
    }
    return i < list->count;
}

static tryst_status need_count(const tryst_program *flat, int stage,
                               tryst_stage_need *need)
{
    for (int rank = 0; rank < flat->ranks_count; rank++) {
        const struct program_list *list = &flat->lists[rank];
        if (!has_stage(list, stage)) {
            continue;
        }
        tryst_program_read *reads = calloc(list->count + 1, sizeof *reads);
        tryst_status status = reads ? list_reads(flat, rank, reads) : TRYST_E_NOMEM;
        if (status == TRYST_OK) {
            need_add(need, list, stage, reads);
        }
        free(reads);
        if (status != TRYST_OK) {
            return status;
        }
    }
    return TRYST_OK;
}

tryst_status tryst_program_stage_need(const tryst_program *program, int stage,
                                      tryst_stage_need *need_p)
{
    tryst_stage_need need = {.struct_size = sizeof need, .versions_count = 1};
    tryst_program *flat = NULL;
    if (!program) {
        return refuse_null("count what a stage must hold", "program");
    }
    if (!params_writable(need_p, "tryst_stage_need")) {
        return TRYST_E_INVALID;
    }
    if (stage < 0 || stage >= program->stages_count) {
        return refuse(TRYST_E_INVALID,
                      "cannot count what stage %d must hold: the program has %d stages",
                      stage, program->stages_count);
    }
    if (program_is_looped(program)) {
        tryst_status status = program_unroll(program, STEADY_STEPS, false, &flat);
        if (status != TRYST_OK) {
            return status;
        }
    }
    tryst_status status = need_count(flat ? flat : program, stage, &need);
    tryst_program_close(flat);
    if (status == TRYST_OK) {
        (void)tryst_sized_write(need_p, &need, sizeof need);
    }
    return status;
}
