/* SPDX-License-Identifier: Apache-2.0 */
/* Implements loops.h. */
#include "loops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A rank's list while it is written. */
struct list {
    tryst_program *program;
    int rank;
    int ahead; /* w */
    int count; /* micro-batches of a step */
    bool each; /* an UPDATE behind each B, not behind the last of a step alone */
};

static void add(const struct list *self, tryst_action_kind kind, int microbatch,
                int version)
{
    const tryst_action action = {
        .kind = kind, .stage = self->rank, .microbatch = microbatch, .version = version};
    assert_int_equal(tryst_program_append(self->program, self->rank, &action), TRYST_OK);
}

/* Return the version of micro-batch `n`, counted from a step's begin, as its F and B read
 * it. */
static int version_of(const struct list *self, int n)
{
    return self->each ? n - self->ahead : n / self->count - 1;
}

/* Add F and B in turn, as long as there are F before micro-batch `end`. */
static void add_pairs(const struct list *self, int end)
{
    int updates = 0;
    for (int n = 0; n < self->count; n++) {
        if (n + self->ahead < end) {
            add(self, TRYST_ACTION_FORWARD, n + self->ahead,
                version_of(self, n + self->ahead));
        }
        add(self, TRYST_ACTION_BACKWARD, n, version_of(self, n));
        if (self->each || n + 1 == self->count) {
            add(self, TRYST_ACTION_UPDATE, -1, ++updates);
        }
    }
}

static void begin(const struct list *self, tryst_program_part part)
{
    assert_int_equal(tryst_program_mark(self->program, self->rank, part), TRYST_OK);
}

static tryst_program *loop_open(int ranks, int microbatches, bool each)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(ranks, ranks, microbatches, &program), TRYST_OK);
    for (int rank = 0; rank < ranks; rank++) {
        const struct list self = {.program = program,
                                  .rank = rank,
                                  .ahead = ranks - 1 - rank,
                                  .count = microbatches,
                                  .each = each};
        for (int n = 0; n < self.ahead; n++) {
            add(&self, TRYST_ACTION_FORWARD, n, 0);
        }
        begin(&self, TRYST_PROGRAM_BODY);
        add_pairs(&self, 2 * microbatches);
        begin(&self, TRYST_PROGRAM_EPILOGUE);
        add_pairs(&self, microbatches);
    }
    if (tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

tryst_program *loop_pipedream(int ranks, int microbatches)
{
    return loop_open(ranks, microbatches, true);
}

tryst_program *loop_2bw(int ranks, int microbatches)
{
    return loop_open(ranks, microbatches, false);
}

bool program_loops(const tryst_program *program)
{
    size_t body, epilogue;
    bool looped = false;
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        looped = tryst_program_loop(program, rank, &body, &epilogue) || looped;
    }
    return looped;
}

static void append(tryst_program *program, int rank, const tryst_action *action)
{
    assert_int_equal(tryst_program_append(program, rank, action), TRYST_OK);
}

static void mark(tryst_program *program, int rank, bool here, tryst_program_part part)
{
    if (here) {
        assert_int_equal(tryst_program_mark(program, rank, part), TRYST_OK);
    }
}

/* Copy a program with an R before each B or I, but not of the last `left_out`
 * micro-batches nor, with `body_alone`, of the epilogue. */
static tryst_program *recomputed(tryst_program *program, int left_out, bool body_alone)
{
    tryst_program *copy = NULL;
    int microbatches = tryst_program_microbatches(program);
    assert_int_equal(tryst_program_open(tryst_program_ranks(program),
                                        tryst_program_stages(program), microbatches,
                                        &copy),
                     TRYST_OK);
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        size_t count = 0, body, epilogue;
        const tryst_action *actions = tryst_program_actions(program, rank, &count);
        bool looped = tryst_program_loop(program, rank, &body, &epilogue);
        for (size_t i = 0; i < count; i++) {
            mark(copy, rank, looped && i == body, TRYST_PROGRAM_BODY);
            mark(copy, rank, looped && i == epilogue, TRYST_PROGRAM_EPILOGUE);
            tryst_action again = actions[i];
            again.kind = TRYST_ACTION_RECOMPUTE;
            bool goes_back = actions[i].kind == TRYST_ACTION_BACKWARD ||
                             actions[i].kind == TRYST_ACTION_INPUT_GRAD;
            if (goes_back && again.microbatch % microbatches < microbatches - left_out &&
                (!body_alone || i < epilogue)) {
                append(copy, rank, &again);
            }
            append(copy, rank, &actions[i]);
        }
    }
    tryst_program_close(program);
    return copy;
}

tryst_program *program_recomputed(tryst_program *program, int left_out)
{
    return recomputed(program, left_out, false);
}

tryst_program *program_recomputed_body(tryst_program *program)
{
    return recomputed(program, 0, true);
}
