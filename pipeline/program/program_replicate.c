/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a program for data parallelism over whole pipelines.
 *
 * The one idea: a replica is the same lists on other ranks, with other micro-batches;
 * only REDUCE_GRAD connects the replicas. As in PyTorch's files, a REDUCE_GRAD follows
 * the last backward before each UPDATE of a stage on several ranks. A generator of copies
 * gets its REDUCE_GRADs from here, too, by one copy of its program. */
#include <limits.h>
#include <stdlib.h>

#include "pipeline/base/refuse.h"
#include "program.h"

struct replication {
    const tryst_program *from;
    int replicas_count;
    tryst_program *to;
    struct program_places places; /* of `from` */
    /* [stages]: number of the last backward since the last UPDATE or REDUCE_GRAD, from 1;
     * 0: none */
    size_t *last_backward;
    bool *ends; /* [actions of a list]: a REDUCE_GRAD follows the action */
};

/* Mark the actions of a list that a REDUCE_GRAD follows. */
static void ends_find(struct replication *self, const struct program_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        self->last_backward[list->actions[i].stage] = 0;
        self->ends[i] = false;
    }
    for (size_t i = 0; i < list->count; i++) {
        const tryst_action *action = &list->actions[i];
        if (self->replicas_count == 1 && self->places.replicas[action->stage] < 2) {
            continue;
        }
        size_t *last = &self->last_backward[action->stage];
        if (program_kind_adds(action->kind)) {
            *last = i + 1;
        } else if (action->kind == TRYST_ACTION_UPDATE && *last > 0) {
            self->ends[*last - 1] = true;
        }
        if (action->kind == TRYST_ACTION_UPDATE ||
            action->kind == TRYST_ACTION_REDUCE_GRAD) {
            *last = 0;
        }
    }
}

/* Return the number in the replicated program of a replica's micro-batch, which in a
 * loop's body may be one of the next step. */
static int32_t microbatch_of(const struct replication *self, int replica,
                             int32_t microbatch)
{
    int count = self->from->microbatches_count;
    return microbatch % count + replica * count +
           microbatch / count * self->to->microbatches_count;
}

/* Begin at `to` the parts of a loop that begin at action `i` of `list`. */
static void marks_copy(const struct program_list *list, size_t i, struct program_list *to)
{
    if (list->part >= TRYST_PROGRAM_BODY && i == list->body) {
        to->part = TRYST_PROGRAM_BODY;
        to->body = to->count;
    }
    if (list->part == TRYST_PROGRAM_EPILOGUE && i == list->epilogue) {
        to->part = TRYST_PROGRAM_EPILOGUE;
        to->epilogue = to->count;
    }
}

static tryst_status list_copy(const struct replication *self, int rank, int replica)
{
    const struct program_list *list = &self->from->lists[rank];
    struct program_list *to = &self->to->lists[replica * self->from->ranks_count + rank];
    tryst_status status = TRYST_OK;
    for (size_t i = 0; i < list->count && status == TRYST_OK; i++) {
        tryst_action action = list->actions[i];
        marks_copy(list, i, to);
        if (action.microbatch >= 0) {
            action.microbatch = microbatch_of(self, replica, action.microbatch);
        }
        status = program_list_add(to, &action);
        if (status == TRYST_OK && self->ends[i]) {
            const tryst_action reduce = {.kind = TRYST_ACTION_REDUCE_GRAD,
                                         .stage = action.stage,
                                         .microbatch = -1};
            status = program_list_add(to, &reduce);
        }
    }
    marks_copy(list, list->count, to);
    return status;
}

static tryst_status lists_copy(struct replication *self)
{
    tryst_status status = TRYST_OK;
    for (int rank = 0; rank < self->from->ranks_count && status == TRYST_OK; rank++) {
        const struct program_list *list = &self->from->lists[rank];
        bool *ends = realloc(self->ends, list->count + 1);
        if (!ends) {
            return TRYST_E_NOMEM;
        }
        self->ends = ends;
        ends_find(self, list);
        for (int replica = 0; replica < self->replicas_count && status == TRYST_OK;
             replica++) {
            status = list_copy(self, rank, replica);
        }
    }
    return status;
}

static tryst_status counts_check(const tryst_program *program, int replicas_count)
{
    int most = program->ranks_count > program->microbatches_count
                   ? program->ranks_count
                   : program->microbatches_count;
    return replicas_count >= 1 && replicas_count <= INT32_MAX / most
               ? TRYST_OK
               : refuse(TRYST_E_INVALID,
                        "cannot replicate a program of %d ranks and %d micro-batches %d "
                        "times: at least 1, and at most %d",
                        program->ranks_count, program->microbatches_count, replicas_count,
                        INT32_MAX / most);
}

tryst_status tryst_program_replicate(const tryst_program *program, int replicas_count,
                                     tryst_program **replicated_p)
{
    if (!program || !replicated_p) {
        return refuse_null("replicate a program", program ? "replicated_p" : "program");
    }
    struct replication self = {.from = program, .replicas_count = replicas_count};
    tryst_status status = counts_check(program, replicas_count);
    if (status == TRYST_OK) {
        status = tryst_program_open(
            program->ranks_count * replicas_count, program->stages_count,
            program->microbatches_count * replicas_count, &self.to);
    }
    if (status != TRYST_OK) {
        return status;
    }
    self.last_backward =
        calloc((size_t)program->stages_count, sizeof *self.last_backward);
    status = program_places_open(program, &self.places);
    if (status == TRYST_OK) {
        status = self.last_backward ? lists_copy(&self) : TRYST_E_NOMEM;
    }
    program_places_close(&self.places);
    free(self.last_backward);
    free(self.ends);
    if (status != TRYST_OK) {
        tryst_program_close(self.to);
        return refuse(status, "cannot replicate a program: out of memory for %d replicas",
                      replicas_count);
    }
    self.to->rate = program->rate;
    *replicated_p = self.to;
    return TRYST_OK;
}
