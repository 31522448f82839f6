/* SPDX-License-Identifier: Apache-2.0 */
/* Implements engine_device.h; idea and invariants are described there. */
#include "engine_device.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"
#include "engine_action.h"
#include "engine_transfer.h"

/* Pause between two polls of the device, unless tryst_progress found work. */
#define POLL_PAUSE_NS 20000

/* ---- open and close ---------------------------------------------------------------- */

/* Find the memory of this rank's stages. All must be in one memory, since a stage may
 * read the output of another stage of this rank. */
static tryst_status find_place(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    const tryst_stage *first = NULL;
    for (int i = 0; i < engine->stages_count; i++) {
        const tryst_stage *stage = engine->stages[i];
        if (!stage) {
            continue;
        }
        if (first && (first->info.memory != stage->info.memory ||
                      first->info.device != stage->info.device)) {
            return engine_fail(
                engine, TRYST_E_INVALID,
                "stage %d is not in the memory of the stages before: all stages "
                "of a rank must be on the host, or on one device",
                i);
        }
        first = stage;
    }
    self->memory = first ? first->info.memory : TRYST_MEMORY_HOST;
    self->ordinal = first ? first->info.device : 0;
    self->used = self->memory != TRYST_MEMORY_HOST;
    return TRYST_OK;
}

static bool takes_data(const tryst_engine *engine, size_t index)
{
    const tryst_action *action = &engine->list->actions[index];
    const tryst_stage_info *info = &engine->stages[action->stage]->info;
    return action->kind == TRYST_ACTION_FORWARD &&
           ((info->is_first && info->input_count > 0) || info->target_count > 0);
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Lay out the pinned data of all moments from `base` on, and return their size in bytes.
 * With a NULL base only compute the size. */
static size_t lay_out(tryst_engine *engine, char *base)
{
    struct engine_device *self = &engine->device;
    size_t used = 0, count = engine->list->count;
    for (size_t i = 0; i < 2 * count; i++) {
        if (!takes_data(engine, i % count)) {
            continue;
        }
        const tryst_stage_info *info =
            &engine->stages[engine->list->actions[i % count].stage]->info;
        size_t input_bytes =
            info->is_first ? info->input_count * tryst_dtype_bytes(info->input_dtype) : 0;
        if (base && input_bytes > 0) {
            self->moments[i].pinned_input = base + used;
        }
        used += rounded(input_bytes);
        if (base && info->target_count > 0) {
            self->moments[i].pinned_target = base + used;
        }
        used += rounded(info->target_count);
    }
    return used;
}

static tryst_status open_pinned(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    size_t data_bytes = lay_out(engine, NULL);
    size_t losses_bytes =
        ((size_t)engine->microbatches_count + 1) * sizeof *engine->losses;
    self->pinned_bytes = data_bytes + losses_bytes;
    tryst_status status =
        tryst_pinned_alloc(self->handle, self->pinned_bytes, &self->pinned);
    if (status != TRYST_OK) {
        return status;
    }
    lay_out(engine, self->pinned);
    free(engine->losses);
    engine->losses = (double *)(void *)((char *)self->pinned + data_bytes);
    return TRYST_OK;
}

/* Return send `i` of those of both frames. Each frame has its own, since a send may still
 * be in flight when its action runs again in the next step. */
static struct engine_transfer *send_at(tryst_engine *engine, size_t i)
{
    return &engine->frames[i % 2].sends[i / 2];
}

static tryst_status open_events(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    tryst_status status = tryst_event_open(self->handle, &self->idle[0]);
    if (status == TRYST_OK) {
        status = tryst_event_open(self->handle, &self->idle[1]);
    }
    size_t count = engine->list->count;
    for (size_t i = 0; i < 2 * count && status == TRYST_OK; i++) {
        status = tryst_event_open(self->handle, &self->moments[i].done);
        if (status == TRYST_OK && takes_data(engine, i % count)) {
            status = tryst_event_open(self->handle, &self->moments[i].fed);
        }
    }
    for (size_t i = 0; i < engine->receives_count && status == TRYST_OK; i++) {
        status = tryst_event_open(engine->device.handle, &engine->receives[i].event);
    }
    for (size_t i = 0; i < 2 * engine->sends_count && status == TRYST_OK; i++) {
        status = tryst_event_open(engine->device.handle, &send_at(engine, i)->event);
    }
    return status;
}

static tryst_status open_handle(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    tryst_status status =
        tryst_device_open(engine->params.ctx, self->memory, self->ordinal, &self->handle);
    if (status != TRYST_OK) {
        return engine_fail(engine, status, "cannot use device %d: %s", (int)self->ordinal,
                           tryst_last_error());
    }
    engine->pool.handle = self->handle;
    status = tryst_stream_open(self->handle, 1, &self->gate);
    return status == TRYST_OK ? tryst_stream_open(self->handle, 1, &self->feeder)
                              : status;
}

tryst_status engine_device_open(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    tryst_status status = find_place(engine);
    if (status != TRYST_OK || !self->used) {
        return status;
    }
    engine->pool.memory = self->memory;
    engine->pool.device = self->ordinal;
    self->moments = calloc(2 * engine->list->count + 1, sizeof *self->moments);
    status = self->moments ? open_handle(engine) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        status = open_pinned(engine);
    }
    return status == TRYST_OK ? open_events(engine) : status;
}

static void close_events(tryst_engine *engine)
{
    const tryst_device *handle = engine->device.handle;
    tryst_event_close(handle, engine->device.idle[0]);
    tryst_event_close(handle, engine->device.idle[1]);
    for (size_t i = 0; i < 2 * engine->list->count; i++) {
        tryst_event_close(handle, engine->device.moments[i].done);
        tryst_event_close(handle, engine->device.moments[i].fed);
    }
    for (size_t i = 0; i < engine->receives_count; i++) {
        tryst_event_close(handle, engine->receives[i].event);
    }
    for (size_t i = 0; i < 2 * engine->sends_count; i++) {
        tryst_event_close(handle, send_at(engine, i)->event);
    }
}

void engine_device_close(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    if (engine->unquiet) { /* the device may still use everything below */
        engine->losses = self->pinned ? NULL : engine->losses;
        return;
    }
    if (self->handle) {
        close_events(engine);
        tryst_stream_close(self->handle, self->gate);
        tryst_stream_close(self->handle, self->feeder);
    }
    if (self->pinned) {
        tryst_pinned_free(self->handle, self->pinned, self->pinned_bytes);
        engine->losses = NULL; /* it was part of the pinned memory */
    }
    tryst_device_close(self->handle);
    free(self->moments);
}

/* ---- events that have passed ------------------------------------------------------- */

struct engine_moment *engine_device_moment(const tryst_engine *engine, size_t index,
                                           bool next)
{
    size_t half = (size_t)((engine->steps_done + next) % 2);
    return &engine->device.moments[half * engine->list->count + index];
}

/* Return the n-th action that was queued; it has not passed. */
static struct engine_queued *queued_at(struct engine_device *self, uint64_t n)
{
    return &self->queue[n % (ENGINE_DEVICE_AHEAD + 1)];
}

static struct engine_moment *moment_of(const tryst_engine *engine,
                                       const struct engine_queued *queued)
{
    return engine_device_moment(engine, queued->index,
                                queued->step % 2 != engine->steps_done % 2);
}

/* Write the step and the name of the first action that has not passed. */
static void first_left(tryst_engine *engine, uint64_t *step_p, char name[64])
{
    const struct engine_queued *first = queued_at(&engine->device, engine->device.passed);
    *step_p = engine->frame->id - (engine->steps_done - first->step);
    tryst_action_format(&engine->list->actions[first->index], name, 64);
}

static tryst_status device_failed(tryst_engine *engine, tryst_status status)
{
    char name[64];
    uint64_t step;
    size_t index = queued_at(&engine->device, engine->device.passed)->index;
    first_left(engine, &step, name);
    return engine_fail(
        engine, status, "step %llu, rank %d: device %d failed at or before %s: %s",
        (unsigned long long)step, engine->rank, (int)engine->device.ordinal, name,
        engine_stage_text(engine->stages[engine->list->actions[index].stage], status));
}

/* Record the actions that have ended by now. */
static tryst_status look(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    while (self->passed < self->queued) {
        const struct engine_queued *first = queued_at(self, self->passed);
        const struct engine_moment *moment = moment_of(engine, first);
        tryst_status status = tryst_event_test(self->handle, moment->done);
        if (status == TRYST_IN_PROGRESS) {
            return TRYST_OK;
        }
        if (status != TRYST_OK) {
            return device_failed(engine, status);
        }
        uint64_t now_ns = tryst_now_ns(engine->params.ctx);
        uint64_t begin_ns =
            moment->begin_ns > self->passed_ns ? moment->begin_ns : self->passed_ns;
        engine_note_action(engine, first->index, first->step < engine->steps_done,
                           begin_ns, now_ns, moment->cpu_ns);
        self->passed_ns = now_ns;
        self->passed++;
    }
    return TRYST_OK;
}

/* Fail because the awaited actions have not ended within timeout_ns: a receive is
 * missing, or the device hangs. */
static tryst_status device_late(tryst_engine *engine)
{
    char name[64];
    uint64_t step;
    tryst_status status = engine_receive_late(engine);
    if (status != TRYST_OK) {
        return status;
    }
    first_left(engine, &step, name);
    return engine_fail(engine, TRYST_E_DEADLINE,
                       "step %llu, rank %d: %s has all its data, but has not ended on "
                       "device %d for %llu s",
                       (unsigned long long)step, engine->rank, name,
                       (int)engine->device.ordinal,
                       (unsigned long long)(engine->params.timeout_ns / 1000000000));
}

/* Wait until the first `passed` of all actions that were queued have ended, and, with
 * `arrived`, all receives of the step; drive transfers meanwhile. */
static tryst_status wait_until(tryst_engine *engine, uint64_t passed, bool arrived)
{
    const struct timespec pause = {.tv_nsec = POLL_PAUSE_NS};
    struct engine_device *self = &engine->device;
    uint64_t begin_ns = tryst_now_ns(engine->params.ctx);
    for (;;) {
        tryst_status status = look(engine);
        if (status == TRYST_OK) {
            status = engine_reap(engine);
        }
        if (status != TRYST_OK ||
            (self->passed >= passed &&
             !(arrived && engine->receives_open < engine->receives_taken))) {
            return status;
        }
        if (tryst_now_ns(engine->params.ctx) - begin_ns > engine->params.timeout_ns) {
            return device_late(engine);
        }
        if (tryst_progress(engine->params.ctx) == 0) {
            nanosleep(&pause, NULL);
        }
    }
}

/* True if the streams gate and feeder are empty and all queued actions have ended,
 * successfully or not. */
static bool is_idle(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    bool idle = tryst_event_test(self->handle, self->idle[0]) != TRYST_IN_PROGRESS &&
                tryst_event_test(self->handle, self->idle[1]) != TRYST_IN_PROGRESS;
    for (uint64_t n = self->passed; n < self->queued && idle; n++) {
        const struct engine_moment *moment = moment_of(engine, queued_at(self, n));
        idle = tryst_event_test(self->handle, moment->done) != TRYST_IN_PROGRESS;
    }
    return idle;
}

bool engine_device_stop(tryst_engine *engine, uint64_t timeout_ns)
{
    const struct timespec pause = {.tv_nsec = POLL_PAUSE_NS};
    struct engine_device *self = &engine->device;
    if (!self->idle[1]) { /* opening failed before any work */
        return true;
    }
    tryst_event_record(self->handle, self->gate, self->idle[0]);
    tryst_event_record(self->handle, self->feeder, self->idle[1]);
    uint64_t begin_ns = tryst_now_ns(engine->params.ctx);
    while (!is_idle(engine)) {
        if (tryst_now_ns(engine->params.ctx) - begin_ns > timeout_ns) {
            return false;
        }
        if (tryst_progress(engine->params.ctx) == 0) {
            nanosleep(&pause, NULL);
        }
    }
    return true;
}

tryst_status engine_device_room(tryst_engine *engine)
{
    const struct engine_device *self = &engine->device;
    uint64_t half = (engine->range_end->action - engine->range->action) / 2;
    uint64_t left = half < ENGINE_DEVICE_AHEAD ? half : ENGINE_DEVICE_AHEAD;
    return wait_until(engine, self->queued > left ? self->queued - left : 0, false);
}

tryst_status engine_device_end(tryst_engine *engine)
{
    struct engine_device *self = &engine->device;
    bool goes_on = engine->follows && !engine->last && engine->steps_done > 0;
    tryst_status status =
        wait_until(engine, goes_on ? self->losses_end : self->queued, true);
    if (status == TRYST_OK) {
        buffer_pool_settle(&engine->pool);
    }
    return status;
}

/* ---- receives and data ------------------------------------------------------------- */

tryst_status engine_device_gate(tryst_engine *engine, tryst_op *op, void *arrived,
                                struct buffer *memory)
{
    struct engine_device *self = &engine->device;
    tryst_status status = tryst_op_stream_wait(op, self->ordinal, self->gate);
    if (status == TRYST_OK) {
        status = tryst_event_record(self->handle, self->gate, arrived);
    }
    memory->after = arrived;
    return status;
}

static tryst_status bring(tryst_engine *engine, struct buffer *to, const void *from,
                          size_t bytes)
{
    const struct engine_device *self = &engine->device;
    tryst_status status =
        to->after ? tryst_stream_wait(self->handle, self->feeder, to->after) : TRYST_OK;
    return status == TRYST_OK
               ? tryst_copy_async(self->handle, self->feeder, to->data, from, bytes)
               : status;
}

tryst_status engine_device_feed(tryst_engine *engine, size_t index, struct buffer *input,
                                struct buffer *target)
{
    struct engine_device *self = &engine->device;
    const struct engine_moment *moment = engine_device_moment(engine, index, false);
    const tryst_stage_info *info =
        &engine->stages[engine->list->actions[index].stage]->info;
    tryst_status status = TRYST_OK;
    if (moment->pinned_input) {
        status = bring(engine, input, moment->pinned_input,
                       info->input_count * tryst_dtype_bytes(info->input_dtype));
        input->after = moment->fed;
    }
    if (status == TRYST_OK && moment->pinned_target) {
        status = bring(engine, target, moment->pinned_target, info->target_count);
        target->after = moment->fed;
    }
    return status == TRYST_OK
               ? tryst_event_record(self->handle, self->feeder, moment->fed)
               : status;
}

/* ---- one action -------------------------------------------------------------------- */

void engine_device_use(tryst_engine *engine, size_t index, struct buffer *memory)
{
    struct engine_device *self = &engine->device;
    if (!self->used || !memory) {
        return;
    }
    if (memory->after) {
        assert(self->waits_count < ENGINE_DEVICE_WAITS);
        self->waits[self->waits_count++] = memory->after;
    }
    memory->after = engine_device_moment(engine, index, false)->done;
}

void engine_device_work(tryst_engine *engine, size_t index, void *ready,
                        tryst_stage_work *work)
{
    struct engine_device *self = &engine->device;
    if (!self->used) {
        return;
    }
    work->waits = self->waits;
    work->waits_count = self->waits_count;
    work->ready = ready;
    work->done = engine_device_moment(engine, index, false)->done;
    self->waits_count = 0;
}

void engine_device_queued(tryst_engine *engine, size_t index, uint64_t begin_ns,
                          uint64_t cpu_ns)
{
    struct engine_device *self = &engine->device;
    struct engine_moment *moment = engine_device_moment(engine, index, false);
    const tryst_action *action = &engine->list->actions[index];
    assert(self->queued - self->passed <= ENGINE_DEVICE_AHEAD);
    if (begin_ns > moment->begin_ns) {
        moment->begin_ns = begin_ns;
    }
    moment->cpu_ns = cpu_ns;
    *queued_at(self, self->queued) = (struct engine_queued){index, engine->steps_done};
    self->queued++;
    if (action->kind == TRYST_ACTION_FORWARD &&
        engine->stages[action->stage]->info.is_last) {
        self->losses_end = self->queued;
    }
}

void engine_device_came(tryst_engine *engine, size_t index, bool next, uint64_t now_ns)
{
    if (engine->device.used) {
        engine_device_moment(engine, index, next)->begin_ns = now_ns;
    }
}
