/* SPDX-License-Identifier: Apache-2.0 */
/* Implements device_canary.h. */
#include "device_canary.h"

#include <stdlib.h>
#include <string.h>

#include "fake_device.h"

enum { WAITS_MOST = 16 };

/* One queued call. */
struct call {
    struct canary *self;
    tryst_status (*run)(tryst_stage *stage, const tryst_stage_work *work);
    tryst_stage_work work;
    tryst_status (*predict)(tryst_stage *stage, const tryst_stage_prediction *prediction);
    tryst_stage_update update;
    tryst_stage_prediction prediction;
};

static void run_call(void *arg)
{
    struct call *self = arg;
    tryst_stage *stage = &self->self->base;
    tryst_status status = self->run ? self->run(stage, &self->work)
                          : self->predict
                              ? self->predict(stage, &self->prediction)
                              : self->self->host_ops->update(stage, &self->update);
    if (status != TRYST_OK) {
        self->self->errors_count++;
    }
    free(self);
}

static tryst_status queue(tryst_stage *stage, const tryst_stage_work *work,
                          tryst_status (*run)(tryst_stage *stage,
                                              const tryst_stage_work *work))
{
    struct canary *self = (struct canary *)stage;
    struct call *made = calloc(1, sizeof *made);
    *made = (struct call){.self = self, .run = run, .work = *work};
    for (int32_t i = 0; i < work->waits_count; i++) {
        tryst_stream_wait(NULL, self->stream, work->waits[i]);
    }
    fake_device_call(self->stream, run_call, made);
    if (work->ready) {
        tryst_event_record(NULL, self->stream, work->ready);
    }
    if (work->done) {
        tryst_event_record(NULL, self->stream, work->done);
    }
    return TRYST_OK;
}

static tryst_status forward(tryst_stage *stage, const tryst_stage_work *work)
{
    return queue(stage, work, ((struct canary *)stage)->host_ops->forward);
}

static tryst_status backward(tryst_stage *stage, const tryst_stage_work *work)
{
    return queue(stage, work, ((struct canary *)stage)->host_ops->backward);
}

static tryst_status backward_input(tryst_stage *stage, const tryst_stage_work *work)
{
    return queue(stage, work, ((struct canary *)stage)->host_ops->backward_input);
}

static tryst_status backward_weight(tryst_stage *stage, const tryst_stage_work *work)
{
    return queue(stage, work, ((struct canary *)stage)->host_ops->backward_weight);
}

static tryst_status update(tryst_stage *stage, const tryst_stage_update *params)
{
    struct canary *self = (struct canary *)stage;
    struct call *made = calloc(1, sizeof *made);
    *made = (struct call){.self = self, .update = *params};
    fake_device_call(self->stream, run_call, made);
    self->updates_queued++;
    if (params->done) {
        tryst_event_record(NULL, self->stream, params->done);
    }
    return TRYST_OK;
}

static tryst_status predict(tryst_stage *stage, const tryst_stage_prediction *prediction)
{
    struct canary *self = (struct canary *)stage;
    struct call *made = calloc(1, sizeof *made);
    *made = (struct call){
        .self = self, .predict = self->host_ops->predict, .prediction = *prediction};
    fake_device_call(self->stream, run_call, made);
    if (prediction->done) {
        tryst_event_record(NULL, self->stream, prediction->done);
    }
    return TRYST_OK;
}

static void versions(const tryst_stage *stage, uint64_t *oldest_p, uint64_t *newest_p)
{
    const struct canary *self = (const struct canary *)stage;
    *oldest_p = 0;
    *newest_p = self->updates_queued;
}

/* ---- steps ------------------------------------------------------------------------- */

/* The begin of a step, or the end of one. */
struct boundary {
    struct canary *self;
    uint64_t step;
    bool ends, last;
};

static void run_boundary(void *arg)
{
    struct boundary *boundary = arg;
    if (boundary->ends) {
        canary_end(boundary->self);
    } else {
        boundary->self->last = boundary->last;
        canary_begin(boundary->self, boundary->step);
    }
    free(boundary);
}

static void boundary_queue(struct boundary boundary)
{
    struct boundary *made = malloc(sizeof *made);
    *made = boundary;
    fake_device_call(boundary.self->stream, run_boundary, made);
}

void device_canary_begin(struct canary *self, uint64_t step, bool last)
{
    boundary_queue((struct boundary){.self = self, .step = step, .last = last});
}

void device_canary_end(struct canary *self)
{
    boundary_queue((struct boundary){.self = self, .ends = true});
}

/* ---- open and close ---------------------------------------------------------------- */

void device_canary_init(struct canary *self)
{
    static const tryst_stage_ops ops = {.struct_size = sizeof ops,
                                        .name = "device canary",
                                        .forward = forward,
                                        .backward = backward,
                                        .backward_input = backward_input,
                                        .backward_weight = backward_weight,
                                        .update = update,
                                        .versions = versions,
                                        .predict = predict};
    self->host_ops = self->base.ops;
    self->base.ops = &ops;
    self->base.info.memory = TRYST_MEMORY_CUDA;
    self->updates_queued = self->newest;
    tryst_stream_open(NULL, 0, &self->stream);
}

void device_canary_finish(struct canary *self)
{
    fake_device_finish(self->stream);
}

void device_canary_close(struct canary *self)
{
    tryst_stream_close(NULL, self->stream);
    self->stream = NULL;
}
