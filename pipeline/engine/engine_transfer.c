/* SPDX-License-Identifier: Apache-2.0 */
/* Posts sends and receives, and waits for them.
 *
 * The one idea: receives are posted in the order of need, as soon as the window of
 * receives_ahead_max has room; where steps follow also those of the next step, of a loop
 * with the body or with the epilogue. A send is posted when its bytes exist,
 * and is waited for only before the second step after its own, or when the engine
 * finishes. So within a step the engine waits only for the items that the next action
 * needs, and no order of transfers can hang a program that passed the checker.
 *
 * Invariant: the buffer of a transfer keeps one use until the operation has ended. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "engine_action.h"
#include "engine_lent.h"
#include "engine_reduce.h"
#include "engine_transfer.h"

/* Limit of the wait until the operations of an aborted scope have ended: longer than the
 * default peer timeout. */
#define ABANDON_TIMEOUT_NS (30ull * 1000 * 1000 * 1000)
/* Limit of the wait for the cause of an abort after its first sign: the cause may arrive
 * later, since it takes another path. */
#define CAUSE_WAIT_MS 500

/* ---- ends of operations ------------------------------------------------------------ */

/* Return the transfer's micro-batch as the step that runs counts it. */
static int microbatch_of(const tryst_engine *engine, const struct engine_transfer *self)
{
    return self->item.microbatch + (self->early ? engine->microbatches_count : 0);
}

static const char *item_text(const tryst_engine *engine,
                             const struct engine_transfer *self, bool sends,
                             char words[128])
{
    int count = engine->microbatches_count;
    snprintf(words, 128, "%s the %s of stage %d, micro-batch %d%s, %s rank %d",
             sends ? "sending" : "receiving",
             self->item.kind == PROGRAM_OUTPUT ? "output" : "input gradient",
             self->item.stage, self->item.microbatch % count,
             microbatch_of(engine, self) < count ? "" : " of the next step",
             sends ? "to" : "from", self->peer);
    return words;
}

/* True if a scope was aborted; the newest step's scope first. */
static bool scope_cause(const tryst_engine *engine, tryst_error *error_p)
{
    for (uint64_t i = 0; i < 3; i++) {
        const tryst_step *step = engine->scopes[(engine->frame->number + i) % 3].step;
        if (step && tryst_step_status(step, error_p) != TRYST_OK) {
            return true;
        }
    }
    return false;
}

bool engine_is_aborted(const tryst_engine *engine)
{
    tryst_error error = {.struct_size = sizeof error};
    return scope_cause(engine, &error);
}

/* Return how many milliseconds to wait for the cause of a failure from another rank. The
 * death of a peer is a cause itself, but a cancelled operation, a step that its peer has
 * closed, or a peer that left while this rank connected can be the first sign of an
 * abort. */
static int cause_wait_ms(tryst_status status)
{
    return status == TRYST_E_ABORTED || status == TRYST_E_CANCELED ||
                   status == TRYST_E_CLOSED || status == TRYST_E_UNREACHABLE
               ? CAUSE_WAIT_MS
               : 1;
}

/* Wait for the cause with which another rank aborted a scope of this rank. False if no
 * abort arrives in time. */
static bool find_cause(tryst_engine *engine, tryst_status status, tryst_error *error_p)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = cause_wait_ms(status); i > 0; i--) {
        if (scope_cause(engine, error_p)) {
            return true;
        }
        if (tryst_progress(engine->params.ctx) == 0 && i > 1) {
            nanosleep(&pause, NULL);
        }
    }
    return false;
}

/* Fail with a sentence that names the operation, `what`, and the reason. */
static tryst_status op_failure_report(tryst_engine *engine, tryst_status status,
                                      const char *what, const char *reason)
{
    return engine_fail(engine, status, "step %llu, rank %d, %s: %s",
                       (unsigned long long)engine->frame->id, engine->rank, what,
                       reason && *reason ? reason : tryst_status_str(status));
}

tryst_status engine_op_failed(tryst_engine *engine, const tryst_op *op,
                              tryst_status status, const char *what)
{
    tryst_error cause = {.struct_size = sizeof cause, .origin_rank = -1};
    tryst_error details = {.struct_size = sizeof details, .text = ""};
    if (op) {
        tryst_op_error(op, &details);
    }
    if (find_cause(engine, status, &cause)) {
        char who[32] = "another rank";
        if (cause.origin_rank >= 0) {
            snprintf(who, sizeof who, "rank %d", cause.origin_rank);
        }
        snprintf(engine->cause, sizeof engine->cause, "%s", cause.text);
        return engine_fail(engine, TRYST_E_ABORTED, "step %llu: %s stopped it: %s",
                           (unsigned long long)engine->frame->id, who, cause.text);
    }
    return op_failure_report(engine, status, what, details.text);
}

/* Return the operation that a transfer waits for; NULL: none. */
static tryst_op *pending_of(const struct engine_transfer *self)
{
    return self->op ? self->op : self->back_op;
}

static tryst_status transfer_failed(tryst_engine *engine,
                                    const struct engine_transfer *self, bool sends,
                                    tryst_status status)
{
    char words[128];
    return engine_op_failed(engine, pending_of(self), status,
                            item_text(engine, self, sends, words));
}

/* Record a span of a transfer that ends now, and return its end. */
static uint64_t note_span(tryst_engine *engine, const struct engine_transfer *self,
                          tryst_span_kind kind, uint64_t begin_ns)
{
    uint64_t end_ns = tryst_now_ns(engine->params.ctx);
    engine_span(engine, (tryst_span){.begin_ns = begin_ns,
                                     .end_ns = end_ns,
                                     .kind = kind,
                                     .stage = self->item.stage,
                                     .microbatch = microbatch_of(engine, self),
                                     .peer = self->peer,
                                     .gradient = self->item.kind == PROGRAM_GRAD});
    return end_ns;
}

/* The operation has ended: record its span, and release it. */
static void op_ended(tryst_engine *engine, struct engine_transfer *self, bool sends)
{
    note_span(engine, self, sends ? TRYST_SPAN_SEND : TRYST_SPAN_RECEIVE, self->begin_ns);
    if (!sends) {
        engine_device_came(engine, self->action, self->early,
                           tryst_now_ns(engine->params.ctx));
    }
    tryst_op_release(self->op);
    self->op = NULL;
}

/* Poll a transfer. Once its operation has succeeded, and a lent item is back, drop the
 * buffer of a send. Returns its failure, which the engine then reports. */
static tryst_status transfer_poll(tryst_engine *engine, struct engine_transfer *self,
                                  bool sends)
{
    while (pending_of(self)) {
        tryst_status status = tryst_op_test(pending_of(self));
        if (status == TRYST_IN_PROGRESS) {
            return TRYST_OK;
        }
        if (status != TRYST_OK) {
            return transfer_failed(engine, self, sends, status);
        }
        if (self->op) {
            op_ended(engine, self, sends);
        } else {
            tryst_op_release(self->back_op);
            self->back_op = NULL;
        }
        self->ended = !pending_of(self);
    }
    if (sends && self->ended) {
        buffer_drop(self->memory);
        self->memory = NULL;
    }
    return TRYST_OK;
}

static tryst_status reap_frame(tryst_engine *engine, struct engine_frame *frame)
{
    tryst_status status = TRYST_OK;
    for (size_t i = frame->first_open; i < frame->next_send && status == TRYST_OK; i++) {
        status = transfer_poll(engine, &frame->sends[i], true);
        if (frame->sends[i].ended && i == frame->first_open) {
            frame->first_open++;
        }
    }
    return status;
}

tryst_status engine_reap(tryst_engine *engine)
{
    tryst_status status = reap_frame(engine, &engine->frames[0]);
    if (status == TRYST_OK) {
        status = reap_frame(engine, &engine->frames[1]);
    }
    for (size_t i = engine->receives_open;
         i < engine->receives_posted && status == TRYST_OK; i++) {
        status = transfer_poll(engine, &engine->receives[i], false);
        if (engine->receives[i].ended && i == engine->receives_open) {
            engine->receives_open++;
        }
    }
    return status == TRYST_OK ? engine_reduce_poll(engine) : status;
}

/* ---- waits ------------------------------------------------------------------------- */

static void note_wait(tryst_engine *engine, const struct engine_transfer *self,
                      uint64_t begin_ns)
{
    uint64_t end_ns = note_span(engine, self, TRYST_SPAN_WAIT, begin_ns);
    char name[64];
    engine->stats.wait_ns += end_ns - begin_ns;
    snprintf(name, sizeof name, "wait for %s %d of stage %d",
             self->item.kind == PROGRAM_GRAD ? "gradient" : "output",
             (int)self->item.microbatch, (int)self->item.stage);
    tryst_trace_span(engine->params.ctx, name, begin_ns, end_ns, engine->frame->id);
}

tryst_status engine_late(tryst_engine *engine, const char *what)
{
    return engine_fail(
        engine, TRYST_E_DEADLINE,
        "step %llu, rank %d, %s: nothing for %llu s; is that rank in the same "
        "step of the same program?",
        (unsigned long long)engine->frame->id, engine->rank, what,
        (unsigned long long)(engine->params.timeout_ns / 1000000000));
}

static tryst_status late(tryst_engine *engine, const struct engine_transfer *self,
                         bool sends)
{
    char words[128];
    return engine_late(engine, item_text(engine, self, sends, words));
}

tryst_status engine_receive_late(tryst_engine *engine)
{
    for (size_t i = engine->receives_open; i < engine->receives_taken; i++) {
        if (!engine->receives[i].ended) {
            return late(engine, &engine->receives[i], false);
        }
    }
    return TRYST_OK;
}

static tryst_status wait_for(tryst_engine *engine, struct engine_transfer *self,
                             bool sends)
{
    if (self->ended) {
        return TRYST_OK;
    }
    tryst_status status = transfer_poll(engine, self, sends);
    if (status != TRYST_OK || self->ended) {
        return status;
    }
    uint64_t begin_ns = tryst_now_ns(engine->params.ctx);
    while (status == TRYST_OK && !self->ended) {
        status = tryst_wait(pending_of(self), engine->params.timeout_ns);
        if (tryst_op_test(pending_of(self)) != TRYST_IN_PROGRESS) {
            status = transfer_poll(engine, self, sends);
        } else if (status == TRYST_E_TIMEOUT) {
            status = late(engine, self, sends);
        } else {
            char words[128];
            status = op_failure_report(engine, status,
                                       item_text(engine, self, sends, words), NULL);
        }
    }
    note_wait(engine, self, begin_ns);
    return status;
}

/* ---- receives ---------------------------------------------------------------------- */

/* Return the tensor of a transfer. `ready_event` is, on a device, the event after which
 * the operation may read or overwrite the bytes; NULL: at once. */
static tryst_tensor tensor_of(const tryst_engine *engine,
                              const struct engine_transfer *self, void *ready_event)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = self->memory->data,
                          .count = self->count,
                          .dtype = self->dtype,
                          .memory = engine->device.memory,
                          .device = engine->device.ordinal,
                          .mem = self->memory->mem,
                          .ready_event = ready_event};
}

/* Return the tensor that travels for a lent item. */
static tryst_tensor note_of(const struct engine_transfer *self)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = self->note,
                          .count = sizeof *self->note,
                          .dtype = TRYST_DTYPE_U8};
}

static uint64_t bytes_of(const struct engine_transfer *self)
{
    return self->count * tryst_dtype_bytes(self->dtype);
}

/* Receives precede all other operations, in the order in which they are needed: by step,
 * then by action. Sends set no priority: that of the receive counts. After so many
 * actions the count begins again, and a few receives precede older ones once. */
#define PRIORITY_FIRST (INT32_MIN / 2)
#define PRIORITIES     (1u << 30)

static int32_t priority_of(const tryst_engine *engine, const struct engine_transfer *self)
{
    uint64_t step = engine->frame->id + (self->early ? 1 : 0);
    uint64_t place = step * engine->stride + self->action;
    return PRIORITY_FIRST + (int32_t)(place % PRIORITIES);
}

static tryst_status post_receive(tryst_engine *engine, struct engine_transfer *self)
{
    const tryst_op_params params = {.struct_size = sizeof params,
                                    .flags = TRYST_OP_PRIORITY,
                                    .priority = priority_of(engine, self)};
    bool lent = engine_is_lent(engine, self, false);
    tryst_status status =
        lent ? TRYST_OK : buffer_get(&engine->pool, bytes_of(self), true, &self->memory);
    if (status != TRYST_OK) {
        return engine_no_memory(engine, status, bytes_of(self), "a receive");
    }
    const tryst_tensor tensor =
        lent ? note_of(self) : tensor_of(engine, self, self->memory->after);
    self->ended = false;
    self->begin_ns = tryst_now_ns(engine->params.ctx);
    status = tryst_recv_key(engine_scope_of(engine, microbatch_of(engine, self))->step,
                            self->key, &tensor, &params, &self->op);
    if (status != TRYST_OK) {
        buffer_drop(self->memory);
        self->memory = NULL;
        return transfer_failed(engine, self, false, status);
    }
    return TRYST_OK;
}

static bool window_has_room(const tryst_engine *engine)
{
    return engine->receives_posted - engine->receives_taken + engine->early_count <
           (size_t)engine->params.receives_ahead_max;
}

/* Return the receive of the next step that can be posted now; NULL: none. It takes the
 * place of a receive of this step's body that is over. */
static struct engine_transfer *next_early(tryst_engine *engine)
{
    size_t index = engine->marks[MARK_BODY].receive + engine->early_count;
    bool over = index < engine->receives_open && index < engine->receives_taken;
    bool due = engine->follows && !engine->last;
    return due && over && engine->early_count < engine->early_max
               ? &engine->receives[index]
               : NULL;
}

tryst_status engine_post_early(tryst_engine *engine)
{
    tryst_status status = TRYST_OK;
    struct engine_transfer *next = NULL;
    while (status == TRYST_OK && window_has_room(engine) &&
           (next = next_early(engine)) != NULL) {
        next->early = true;
        status = post_receive(engine, next);
        engine->early_count += status == TRYST_OK;
    }
    return status;
}

tryst_status engine_post_receives(tryst_engine *engine)
{
    tryst_status status = TRYST_OK;
    while (status == TRYST_OK && engine->receives_posted < engine->range_end->receive &&
           window_has_room(engine)) {
        status = post_receive(engine, &engine->receives[engine->receives_posted]);
        engine->receives_posted += status == TRYST_OK;
    }
    bool all = engine->receives_posted == engine->range_end->receive;
    bool early = all && !engine->device.used;
    return status == TRYST_OK && early ? engine_post_early(engine) : status;
}

static void put_into_cell(tryst_engine *engine, struct program_item item,
                          struct buffer *memory)
{
    if (item.kind == PROGRAM_OUTPUT) {
        engine_cell_of(engine, item.stage + 1, item.microbatch)->input = memory;
    } else {
        engine_cell_of(engine, item.stage - 1, item.microbatch)->grad_output = memory;
    }
}

/* Let the device wait for a receive; engine_reap polls the operation. */
static tryst_status gate(tryst_engine *engine, struct engine_transfer *self)
{
    if (self->ended) {
        self->memory->after = NULL;
        return TRYST_OK;
    }
    tryst_status status = engine_device_gate(engine, self->op, self->event, self->memory);
    char words[128];
    return status == TRYST_OK
               ? status
               : op_failure_report(engine, status, item_text(engine, self, false, words),
                                   NULL);
}

/* Wait for a receive. If the stages are on a device, the device waits, except in the
 * engine's first step. In that step kernels and libraries are loaded, streams are created
 * and memory of peers is imported. The driver may then wait for all streams, and other
 * threads of the process for the driver (lazy loading, the default since CUDA 12.2). If a
 * stream waited for a receive at that time, the receive could never complete; so the host
 * waits. */
static tryst_status receive_await(tryst_engine *engine, struct engine_transfer *self)
{
    if (engine->device.used && engine->steps_done > 0) {
        return gate(engine, self);
    }
    tryst_status status = wait_for(engine, self, false);
    if (status == TRYST_OK && engine_is_lent(engine, self, false)) {
        return engine_borrow(engine, self);
    }
    if (self->memory) {
        self->memory->after = NULL;
    }
    return status;
}

tryst_status engine_take_receives(tryst_engine *engine, size_t index)
{
    while (engine->receives_taken < engine->range_end->receive &&
           engine->receives[engine->receives_taken].action == index) {
        struct engine_transfer *self = &engine->receives[engine->receives_taken];
        tryst_status status = engine_post_receives(engine);
        if (status == TRYST_OK) {
            status = receive_await(engine, self);
        }
        if (status != TRYST_OK) {
            return status;
        }
        engine->stats.bytes_received += bytes_of(self);
        put_into_cell(engine, self->item, self->memory);
        self->memory = NULL;
        engine->receives_taken++;
    }
    return TRYST_OK;
}

/* ---- sends ------------------------------------------------------------------------- */

static tryst_status post_send(tryst_engine *engine, struct engine_transfer *self,
                              struct buffer *memory)
{
    self->memory = memory;
    self->ended = false;
    self->begin_ns = tryst_now_ns(engine->params.ctx);
    bool lent = engine_is_lent(engine, self, true);
    tryst_status status = lent ? engine_lend(engine, self) : TRYST_OK;
    const tryst_tensor tensor =
        lent ? note_of(self) : tensor_of(engine, self, self->event);
    if (status == TRYST_OK) {
        status = tryst_send_key(engine_scope_of(engine, self->item.microbatch)->step,
                                self->key, &tensor, NULL, &self->op);
    }
    if (status != TRYST_OK) {
        self->memory = NULL;
        buffer_drop(memory);
        return transfer_failed(engine, self, true, status);
    }
    engine->stats.bytes_sent += bytes_of(self);
    return TRYST_OK;
}

struct engine_transfer *engine_send_of(const tryst_engine *engine, size_t index)
{
    const struct engine_frame *frame = engine->frame;
    struct engine_transfer *next =
        frame->next_send < engine->sends_count ? &frame->sends[frame->next_send] : NULL;
    return next && next->action == index ? next : NULL;
}

tryst_status engine_hand_on(tryst_engine *engine, size_t index, struct program_item item,
                            struct buffer *memory)
{
    struct engine_transfer *next = engine_send_of(engine, index);
    if (!next) { /* the user is a stage of this rank */
        put_into_cell(engine, item, memory);
        return TRYST_OK;
    }
    assert(next->item.kind == item.kind && next->item.stage == item.stage);
    tryst_status status = post_send(engine, next, memory);
    engine->frame->next_send += status == TRYST_OK;
    return status;
}

/* ---- scopes ------------------------------------------------------------------------ */

/* Open the scope of step `number` unless the step before has opened it. */
static tryst_status scope_open(tryst_engine *engine, uint64_t number, uint64_t id)
{
    struct engine_scope *scope = &engine->scopes[number % 3];
    if (scope->step) {
        return TRYST_OK;
    }
    tryst_status status = tryst_step_open(engine->params.group, id, &scope->step);
    if (status != TRYST_OK) {
        scope->step = NULL;
        return engine_fail(engine, status, "cannot open step %llu: %s",
                           (unsigned long long)id, tryst_status_str(status));
    }
    engine->newest_id = id;
    return TRYST_OK;
}

tryst_status engine_frame_open(tryst_engine *engine, uint64_t step)
{
    struct engine_frame *frame = &engine->frames[engine->steps_done % 2];
    tryst_status status = engine_frame_finish(engine, frame);
    if (status != TRYST_OK) {
        return status;
    }
    frame->open = true;
    frame->number = engine->steps_done;
    frame->id = step;
    frame->next_send = 0;
    frame->first_open = 0;
    for (size_t i = 0; i < engine->sends_count; i++) {
        frame->sends[i].ended = true;
    }
    engine->frame = frame;
    status = scope_open(engine, frame->number, step);
    return status == TRYST_OK && engine->follows && !engine->last
               ? scope_open(engine, frame->number + 1, step + 1)
               : status;
}

/* Take over the receives that the step before has posted, and return their number. They
 * are in the places of the body's first receives; if the epilogue runs in its place, they
 * move to the epilogue's. */
static size_t take_early(tryst_engine *engine, const struct engine_mark *from)
{
    struct engine_transfer *body = &engine->receives[engine->marks[MARK_BODY].receive];
    struct engine_transfer *own = &engine->receives[from->receive];
    size_t count = engine->early_count;
    for (size_t i = 0; i < count; i++) {
        body[i].early = false;
        if (own != body) {
            own[i].memory = body[i].memory;
            own[i].op = body[i].op;
            struct engine_note *note = own[i].note;
            own[i].note = body[i].note;
            body[i].note = note;
            own[i].begin_ns = body[i].begin_ns;
            own[i].ended = false;
            body[i].memory = NULL;
            body[i].op = NULL;
        }
    }
    engine->early_count = 0;
    return count;
}

void engine_range_begin(tryst_engine *engine, const struct engine_mark *from,
                        const struct engine_mark *to)
{
    engine->range = from;
    engine->range_end = to;
    engine->frame->next_send = from->send;
    engine->receives_posted = from->receive + take_early(engine, from);
    engine->receives_taken = from->receive;
    engine->receives_open = from->receive;
    engine->fed_count = from->action;
    for (size_t i = engine->receives_posted; i < to->receive; i++) {
        engine->receives[i].ended = false;
    }
}

/* Close the scope of step `number`; all its operations have ended. */
static tryst_status scope_close(tryst_engine *engine, uint64_t number, uint64_t id)
{
    struct engine_scope *scope = &engine->scopes[number % 3];
    tryst_step *step = scope->step;
    scope->step = NULL;
    tryst_status status = step ? tryst_step_close(step, NULL) : TRYST_OK;
    if (status != TRYST_OK) {
        return engine_fail(engine, status, "cannot close step %llu: %s",
                           (unsigned long long)id, tryst_status_str(status));
    }
    return TRYST_OK;
}

tryst_status engine_frame_finish(tryst_engine *engine, struct engine_frame *frame)
{
    if (!frame->open) {
        return TRYST_OK;
    }
    for (size_t i = frame->first_open; i < frame->next_send; i++) {
        tryst_status status = wait_for(engine, &frame->sends[i], true);
        if (status != TRYST_OK) {
            return status;
        }
    }
    tryst_status settled = engine_lents_settle(engine, frame->number);
    if (settled == TRYST_OK) {
        settled = engine_reduce_settle(engine, frame);
    }
    if (settled != TRYST_OK) {
        return settled;
    }
    frame->open = false;
    frame->first_open = frame->next_send;
    return scope_close(engine, frame->number, frame->id);
}

static void release_op(struct engine_transfer *self)
{
    tryst_op_release(self->op);
    tryst_op_release(self->back_op);
    self->op = self->back_op = NULL;
}

/* Abort and close a scope, and wait until its operations have ended. */
static void scope_abandon(tryst_engine *engine, struct engine_scope *scope)
{
    tryst_op *quiet = NULL;
    if (!scope->step) {
        return;
    }
    tryst_step_abort(scope->step, engine->failed ? engine->failed : TRYST_E_CANCELED,
                     tryst_engine_cause(engine));
    if (tryst_step_close(scope->step, &quiet) != TRYST_OK || !quiet ||
        tryst_wait(quiet, ABANDON_TIMEOUT_NS) == TRYST_E_TIMEOUT) {
        engine->unquiet = true;
    }
    tryst_op_release(quiet);
    scope->step = NULL;
}

/* Release a frame's operations; all scopes are closed. */
static void frame_abandon(tryst_engine *engine, struct engine_frame *frame)
{
    if (!frame->open) {
        return;
    }
    frame->open = false;
    engine_reduce_abandon(engine, frame);
    for (size_t i = 0; i < engine->sends_count; i++) {
        release_op(&frame->sends[i]);
    }
    for (size_t i = 0; frame == engine->frame && i < engine->receives_count; i++) {
        release_op(&engine->receives[i]);
    }
}

/* Abort a later scope, which other ranks may have opened. Ranks that are ahead wait in
 * scopes that are not open here; without the abort they would learn only that this rank
 * has left, but not why. No rank is more than two scopes ahead, because a rank begins a
 * step only when the sends of all its steps but the newest have ended; in a loop every
 * rank has one scope more open. */
static void abort_ahead(tryst_engine *engine, uint64_t step)
{
    tryst_step *ahead = NULL;
    if (tryst_step_open(engine->params.group, step, &ahead) == TRYST_OK) {
        tryst_step_abort(ahead, engine->failed, tryst_engine_cause(engine));
        tryst_step_close(ahead, NULL);
    }
}

void engine_abandon(tryst_engine *engine)
{
    for (int i = 0; i < 3; i++) {
        scope_abandon(engine, &engine->scopes[i]);
    }
    engine_lents_abandon(engine);
    frame_abandon(engine, &engine->frames[0]);
    frame_abandon(engine, &engine->frames[1]);
    if (engine->failed != TRYST_OK && engine->frame && !engine->aborted_ahead) {
        engine->aborted_ahead = true;
        abort_ahead(engine, engine->newest_id + 1);
        abort_ahead(engine, engine->newest_id + 2);
    }
}
