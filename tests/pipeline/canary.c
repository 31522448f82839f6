/* SPDX-License-Identifier: Apache-2.0 */
/* Implements canary.h. */
#include "canary.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tryst/sized.h>

enum { DATA = 1, TARGET, OUTPUT, GRAD, SAVED, KEPT };

#define DATA_BYTES  24
#define SAVED_BYTES 1000
#define KEPT_BYTES  200

static uint32_t pattern(int what, int stage, int microbatch, uint64_t step)
{
    uint64_t mixed = (uint64_t)what * 1000003 + (uint64_t)stage * 10007 +
                     (uint64_t)microbatch * 101 + step * 1000000007;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(mixed >> 32);
}

static void fill(void *data, size_t bytes, uint32_t value)
{
    unsigned char *cursor = data;
    for (size_t i = 0; i < bytes; i++) {
        cursor[i] = (unsigned char)(value >> (8 * (i % 4)));
    }
}

static bool holds(const void *data, size_t bytes, uint32_t value)
{
    const unsigned char *cursor = data;
    for (size_t i = 0; i < bytes; i++) {
        if (cursor[i] != (unsigned char)(value >> (8 * (i % 4)))) {
            return false;
        }
    }
    return true;
}

static void complain(struct canary *self, const char *what)
{
    if (self->errors_count++ == 0) {
        snprintf(self->error, sizeof self->error, "stage %d, step %llu, position %zu: %s",
                 self->stage, (unsigned long long)self->step, self->next - 1, what);
    }
}

/* Take the next action of the program for this stage; it must be of `kind`. */
static tryst_action take_action(struct canary *self, tryst_action_kind kind)
{
    size_t count = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    const tryst_action *actions = tryst_program_actions(self->program, rank, &count);
    while (self->next < count && actions[self->next].stage != self->stage) {
        self->next++;
    }
    if (self->next == count) {
        complain(self, "an action after the program's end");
        return (tryst_action){0};
    }
    const tryst_action action = actions[self->next++];
    if (action.kind != kind) {
        complain(self, "not the action that the program has next");
    }
    return action;
}

void canary_end(struct canary *self)
{
    size_t count = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    const tryst_action *actions = tryst_program_actions(self->program, rank, &count);
    for (size_t i = self->next; i < count; i++) {
        if (actions[i].stage == self->stage) {
            complain(self, "the step has ended before all of its actions");
            return;
        }
    }
}

static void work_a_while(struct canary *self)
{
    if (self->delay_max_ns > 0) {
        self->random = self->random * 6364136223846793005ull + 1442695040888963407ull;
        const struct timespec pause = {
            .tv_nsec = (long)((self->random >> 33) % self->delay_max_ns)};
        nanosleep(&pause, NULL);
    }
}

static void check(struct canary *self, const void *data, size_t bytes, int what,
                  int stage, int microbatch, const char *name)
{
    if (bytes > 0 &&
        (!data || !holds(data, bytes, pattern(what, stage, microbatch, self->step)))) {
        complain(self, name);
    }
}

static size_t boundary_bytes(const struct canary *self)
{
    return self->base.info.output_dtype == TRYST_DTYPE_F32
               ? self->base.info.output_count * 4
               : self->base.info.input_count * 4;
}

static void check_input(struct canary *self, const tryst_stage_work *work, int microbatch)
{
    if (self->base.info.is_first) {
        check(self, work->input, DATA_BYTES, DATA, 0, microbatch, "wrong data");
    } else {
        check(self, work->input, self->base.info.input_count * 4, OUTPUT, self->stage - 1,
              microbatch, "wrong input");
    }
    if (self->base.info.is_last) {
        check(self, work->target, DATA_BYTES, TARGET, 0, microbatch, "wrong target");
    }
}

static void check_version(struct canary *self, const tryst_stage_work *work,
                          const tryst_action *action)
{
    if (work->version != self->version + (uint64_t)(int64_t)action->version) {
        complain(self, "wrong weight version");
    }
}

static tryst_status forward(tryst_stage *base, const tryst_stage_work *work)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action = take_action(self, TRYST_ACTION_FORWARD);
    int microbatch = action.microbatch;
    check_version(self, work, &action);
    check_input(self, work, microbatch);
    work_a_while(self);
    check_input(self, work, microbatch);
    fill(work->saved, SAVED_BYTES, pattern(SAVED, self->stage, microbatch, self->step));
    if (base->info.is_last) {
        *(double *)work->output = microbatch + (double)self->step;
    } else {
        fill(work->output, boundary_bytes(self),
             pattern(OUTPUT, self->stage, microbatch, self->step));
    }
    return TRYST_OK;
}

static void check_backward(struct canary *self, const tryst_stage_work *work,
                           int microbatch)
{
    check_input(self, work, microbatch);
    check(self, work->saved, SAVED_BYTES, SAVED, self->stage, microbatch, "wrong saved");
    if (!self->base.info.is_last) {
        check(self, work->grad_output, self->base.info.output_count * 4, GRAD,
              self->stage + 1, microbatch, "wrong grad_output");
    }
}

static void backward_any(struct canary *self, const tryst_stage_work *work,
                         const tryst_action *action)
{
    check_version(self, work, action);
    check_backward(self, work, action->microbatch);
    work_a_while(self);
    check_backward(self, work, action->microbatch);
    if (!self->base.info.is_first) {
        fill(work->grad_input, self->base.info.input_count * 4,
             pattern(GRAD, self->stage, action->microbatch, self->step));
    }
}

static tryst_status backward(tryst_stage *base, const tryst_stage_work *work)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action = take_action(self, TRYST_ACTION_BACKWARD);
    backward_any(self, work, &action);
    self->added_count++;
    return TRYST_OK;
}

static tryst_status backward_input(tryst_stage *base, const tryst_stage_work *work)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action = take_action(self, TRYST_ACTION_INPUT_GRAD);
    backward_any(self, work, &action);
    fill(work->kept, KEPT_BYTES,
         pattern(KEPT, self->stage, action.microbatch, self->step));
    return TRYST_OK;
}

static tryst_status backward_weight(tryst_stage *base, const tryst_stage_work *work)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action = take_action(self, TRYST_ACTION_WEIGHT_GRAD);
    check_version(self, work, &action);
    check_input(self, work, action.microbatch);
    check(self, work->saved, SAVED_BYTES, SAVED, self->stage, action.microbatch,
          "wrong saved");
    check(self, work->kept, KEPT_BYTES, KEPT, self->stage, action.microbatch,
          "wrong kept");
    self->added_count++;
    return TRYST_OK;
}

static tryst_status update(tryst_stage *base, int32_t microbatches, void *done)
{
    (void)done;
    struct canary *self = (struct canary *)base;
    take_action(self, TRYST_ACTION_UPDATE);
    if (microbatches != self->added_count) {
        complain(self, "wrong number of gradients in update");
    }
    self->added_count = 0;
    self->newest++;
    return TRYST_OK;
}

static void versions(const tryst_stage *base, uint64_t *oldest_p, uint64_t *newest_p)
{
    const struct canary *self = (const struct canary *)base;
    *oldest_p = 0;
    *newest_p = self->newest;
}

static int parameter_visit(tryst_stage *base, tryst_parameter_fn fn, void *arg)
{
    (void)base;
    (void)fn;
    (void)arg;
    return 0;
}

static void cost(const tryst_stage *base, tryst_stage_cost *cost_p)
{
    (void)base;
    const tryst_stage_cost none = {.struct_size = sizeof none};
    (void)tryst_sized_write(cost_p, &none, sizeof none);
}

static void close_nothing(tryst_stage *base)
{
    (void)base;
}

void canary_init(struct canary *self, const tryst_program *program, int stage,
                 uint64_t elements_count)
{
    static const tryst_stage_ops ops = {.struct_size = sizeof ops,
                                        .name = "canary",
                                        .forward = forward,
                                        .backward = backward,
                                        .backward_input = backward_input,
                                        .backward_weight = backward_weight,
                                        .update = update,
                                        .versions = versions,
                                        .parameter_visit = parameter_visit,
                                        .cost = cost,
                                        .close = close_nothing};
    bool first = stage == 0;
    bool last = stage == tryst_program_stages(program) - 1;
    *self =
        (struct canary){.program = program, .stage = stage, .random = (uint64_t)stage};
    self->base.ops = &ops;
    self->base.info =
        (tryst_stage_info){.struct_size = sizeof(tryst_stage_info),
                           .is_first = first,
                           .is_last = last,
                           .input_dtype = first ? TRYST_DTYPE_U8 : TRYST_DTYPE_F32,
                           .output_dtype = last ? TRYST_DTYPE_F64 : TRYST_DTYPE_F32,
                           .input_count = first ? DATA_BYTES : elements_count,
                           .output_count = last ? 1 : elements_count,
                           .target_count = last ? DATA_BYTES : 0,
                           .saved_bytes = SAVED_BYTES,
                           .kept_bytes = KEPT_BYTES,
                           .versions_count = 1,
                           .split_backward = 1};
}

void canary_begin(struct canary *self, uint64_t step)
{
    self->next = 0;
    self->step = step;
    self->version = self->newest;
}

tryst_status canary_feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    (void)arg;
    if (input) {
        fill(input, DATA_BYTES, pattern(DATA, 0, microbatch, step));
    }
    if (target) {
        fill(target, DATA_BYTES, pattern(TARGET, 0, microbatch, step));
    }
    return TRYST_OK;
}
