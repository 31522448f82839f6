/* SPDX-License-Identifier: Apache-2.0 */
/* Implements canary.h. */
#include "canary.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tryst/sized.h>

/* SAVED_FIRST: saved by a forward with an R behind it, and never read. UNREAD: the output
 * of an R. */
enum { DATA = 1, TARGET, OUTPUT, GRAD, SAVED, KEPT, SAVED_FIRST, UNREAD };

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

/* Return the pattern of a micro-batch of this step or, from the number of a step's
 * micro-batches on, of the next. */
static uint32_t pattern_of(const struct canary *self, int what, int stage, int microbatch)
{
    int count = tryst_program_microbatches(self->program);
    return pattern(what, stage, microbatch % count,
                   self->step + (uint64_t)(microbatch / count));
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

/* Return the first position from `position` on that the step runs: the first step begins
 * with the prologue; the last has the epilogue in the body's place. */
static size_t position_from(const struct canary *self, size_t position)
{
    size_t count = 0, body = 0, epilogue = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    (void)tryst_program_actions(self->program, rank, &count);
    if (!tryst_program_loop(self->program, rank, &body, &epilogue)) {
        return position;
    }
    if (self->last) {
        return position >= body && position < epilogue ? epilogue : position;
    }
    return position >= epilogue ? count : position;
}

/* Take the next action of the program for this stage; it must be of `kind`, or of
 * `other`. */
static tryst_action take_either(struct canary *self, tryst_action_kind kind,
                                tryst_action_kind other)
{
    size_t count = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    const tryst_action *actions = tryst_program_actions(self->program, rank, &count);
    self->next = position_from(self, self->next);
    while (self->next < count && actions[self->next].stage != self->stage) {
        self->next = position_from(self, self->next + 1);
    }
    if (self->next == count) {
        complain(self, "an action after the step's end");
        return (tryst_action){0};
    }
    const tryst_action action = actions[self->next++];
    if (action.kind != kind && action.kind != other) {
        complain(self, "not the action that the program has next");
    }
    return action;
}

static tryst_action take_action(struct canary *self, tryst_action_kind kind)
{
    return take_either(self, kind, kind);
}

/* True if the program runs the forward of a micro-batch twice. */
static bool is_recomputed(const struct canary *self, int microbatch)
{
    size_t count = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    const tryst_action *actions = tryst_program_actions(self->program, rank, &count);
    int each = tryst_program_microbatches(self->program);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].kind == TRYST_ACTION_RECOMPUTE &&
            actions[i].stage == self->stage &&
            actions[i].microbatch % each == microbatch % each) {
            return true;
        }
    }
    return false;
}

void canary_end(struct canary *self)
{
    size_t count = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    const tryst_action *actions = tryst_program_actions(self->program, rank, &count);
    for (size_t i = position_from(self, self->next); i < count;
         i = position_from(self, i + 1)) {
        if (actions[i].stage == self->stage) {
            complain(self, "the step has ended before all of its actions");
            return;
        }
    }
}

/* Record a call for the test. */
static void record(struct canary *self, const tryst_action *action,
                   struct canary_call call)
{
    call.kind = action->kind;
    call.microbatch = action->microbatch;
    if (self->calls_count < CANARY_CALLS_MAX) {
        self->calls[self->calls_count++] = call;
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
        (!data || !holds(data, bytes, pattern_of(self, what, stage, microbatch)))) {
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
    int64_t version = (int64_t)self->version + action->version;
    if (version < (int64_t)self->first) {
        version = (int64_t)self->first;
    }
    record(self, action,
           (struct canary_call){.version = work->version, .slot = work->slot});
    if (work->version != (uint64_t)version) {
        complain(self, "wrong weight version");
    }
    if (work->slot != action->slot) {
        complain(self, "wrong slot");
    }
}

static tryst_status forward(tryst_stage *base, const tryst_stage_work *work)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action =
        take_either(self, TRYST_ACTION_FORWARD, TRYST_ACTION_RECOMPUTE);
    int microbatch = action.microbatch;
    bool again = action.kind == TRYST_ACTION_RECOMPUTE;
    int saves = !again && is_recomputed(self, microbatch) ? SAVED_FIRST : SAVED;
    check_version(self, work, &action);
    check_input(self, work, microbatch);
    work_a_while(self);
    check_input(self, work, microbatch);
    fill(work->saved, SAVED_BYTES, pattern_of(self, saves, self->stage, microbatch));
    if (base->info.is_last) {
        *(double *)work->output = again ? -1e9 : microbatch + (double)self->step;
    } else {
        fill(work->output, boundary_bytes(self),
             pattern_of(self, again ? UNREAD : OUTPUT, self->stage, microbatch));
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
             pattern_of(self, GRAD, self->stage, action->microbatch));
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
    fill(work->kept, KEPT_BYTES, pattern_of(self, KEPT, self->stage, action.microbatch));
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

static tryst_status update(tryst_stage *base, const tryst_stage_update *params)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action = take_action(self, TRYST_ACTION_UPDATE);
    record(self, &action,
           (struct canary_call){.version = self->newest, .rate = params->rate});
    if (params->microbatches != self->added_count) {
        complain(self, "wrong number of gradients in update");
    }
    self->added_count = 0;
    self->newest++;
    return TRYST_OK;
}

static tryst_status predict(tryst_stage *base, const tryst_stage_prediction *prediction)
{
    struct canary *self = (struct canary *)base;
    const tryst_action action = take_action(self, TRYST_ACTION_PREDICT);
    record(self, &action,
           (struct canary_call){.slot = prediction->slot,
                                .direction = prediction->direction,
                                .ahead = prediction->ahead});
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
                                        .close = close_nothing,
                                        .predict = predict};
    bool first = stage == 0;
    bool last = stage == tryst_program_stages(program) - 1;
    tryst_stage_need need = {.struct_size = sizeof need, .versions_count = 1};
    (void)tryst_program_stage_need(program, stage, &need);
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
                           .versions_count = need.versions_count,
                           .slots_count = need.slots_count,
                           .keeps_delta = need.delta,
                           .split_backward = 1};
}

void canary_begin(struct canary *self, uint64_t step)
{
    size_t body = 0, epilogue = 0;
    int rank = tryst_program_rank_of(self->program, self->stage);
    (void)tryst_program_loop(self->program, rank, &body, &epilogue);
    self->next = self->begun ? body : 0;
    self->step = step;
    self->version = self->newest;
    self->first = self->begun ? self->first : self->newest;
    self->begun = true;
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
