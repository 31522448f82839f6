/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolls a program: writes n steps of it as one flat program.
 *
 * Step k of a list is the body with its micro-batches k × M further and its versions
 * further by the UPDATEs of the steps before; the first step has the prologue before it,
 * the last the epilogue in its place. A list without marks is all body, in the last step
 * too. */
#include <limits.h>
#include <stdlib.h>

#include "pipeline/base/refuse.h"
#include "program.h"
#include "program_unroll.h"

struct unrolling {
    const tryst_program *from;
    tryst_program *to;
    bool clamps;
    int32_t *bases; /* [stages]: UPDATEs of the steps before */
    int32_t *news;  /* [stages]: UPDATEs of this step so far */
};

/* Append the actions [first, last) of a list as those of step `step`. `oldest` is the
 * smallest version that may be named. */
static tryst_status part_add(struct unrolling *self, int rank, size_t first, size_t last,
                             int step, int32_t oldest)
{
    const struct program_list *list = &self->from->lists[rank];
    tryst_status status = TRYST_OK;
    for (size_t i = first; i < last && status == TRYST_OK; i++) {
        tryst_action action = list->actions[i];
        if (action.microbatch >= 0) {
            action.microbatch += step * self->from->microbatches_count;
        }
        if (action.kind == TRYST_ACTION_UPDATE) {
            self->news[action.stage]++;
        }
        if (action.slot == 0 &&
            (program_kind_reads(action.kind) || action.kind == TRYST_ACTION_UPDATE)) {
            action.version += self->bases[action.stage];
            action.version = action.version < oldest ? oldest : action.version;
        }
        status = program_list_add(&self->to->lists[rank], &action);
    }
    return status;
}

static void step_end(struct unrolling *self)
{
    for (int stage = 0; stage < self->from->stages_count; stage++) {
        self->bases[stage] += self->news[stage];
        self->news[stage] = 0;
    }
}

static tryst_status list_unroll(struct unrolling *self, int rank, int steps_count)
{
    const struct program_list *list = &self->from->lists[rank];
    size_t body, epilogue;
    bool marked = program_list_parts(list, &body, &epilogue);
    int bodies = marked ? steps_count - 1 : steps_count;
    for (int stage = 0; stage < self->from->stages_count; stage++) {
        self->bases[stage] = self->news[stage] = 0;
    }
    int32_t oldest = self->clamps ? 0 : INT32_MIN;
    tryst_status status = part_add(self, rank, 0, body, 0, 0);
    self->to->lists[rank].body = body;
    for (int step = 0; step < bodies && status == TRYST_OK; step++) {
        status = part_add(self, rank, body, epilogue, step, oldest);
        step_end(self);
    }
    return status == TRYST_OK
               ? part_add(self, rank, epilogue, list->count, steps_count - 1, oldest)
               : status;
}

tryst_status program_unroll(const tryst_program *program, int steps_count, bool clamps,
                            tryst_program **flat_p)
{
    size_t stages = (size_t)program->stages_count;
    struct unrolling self = {.from = program,
                             .clamps = clamps,
                             .bases = calloc(stages, sizeof *self.bases),
                             .news = calloc(stages, sizeof *self.news)};
    tryst_status status =
        self.bases && self.news
            ? tryst_program_open(program->ranks_count, program->stages_count,
                                 program->microbatches_count * steps_count, &self.to)
            : TRYST_E_NOMEM;
    for (int rank = 0; rank < program->ranks_count && status == TRYST_OK; rank++) {
        status = list_unroll(&self, rank, steps_count);
    }
    free(self.bases);
    free(self.news);
    if (status != TRYST_OK) {
        tryst_program_close(self.to);
        return refuse(status, "cannot unroll the program: out of memory for %d steps",
                      steps_count);
    }
    self.to->rate = program->rate;
    *flat_p = self.to;
    return TRYST_OK;
}

tryst_status tryst_program_unroll(const tryst_program *program, int steps_count,
                                  tryst_program **flat_p)
{
    if (!program || !flat_p) {
        return refuse_null("unroll a program", program ? "flat_p" : "program");
    }
    if (steps_count < 1 || steps_count > INT32_MAX / 4 / program->microbatches_count) {
        return refuse(TRYST_E_INVALID,
                      "cannot unroll a program of %d micro-batches to %d steps: at least "
                      "1, and at most %d",
                      program->microbatches_count, steps_count,
                      INT32_MAX / 4 / program->microbatches_count);
    }
    return program_unroll(program, steps_count, true, flat_p);
}
