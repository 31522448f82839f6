/* SPDX-License-Identifier: Apache-2.0 */
/* Implements faulty_stage.h: counts steps by updates, and calls within a step. */
#include "support/faulty_stage.h"

#include <tryst/tryst.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    const tryst_stage_ops *true_ops;
    tryst_stage_ops ops;
    enum stage_fault fault;
    uint64_t fault_step, step;
    int forwards, backwards; /* of this step */
    void *input;             /* of the first micro-batch, for SWAP */
    int call, calls;         /* to die in, and of that kind so far from that step on */
    /* of the backward that runs, for LOSE and TWICE: */
    tryst_stage *stage;
    tryst_status (*part_added)(void *arg, int32_t part);
    void *part_arg;
} at;

static bool is_now(enum stage_fault fault)
{
    return at.fault == fault && at.step == at.fault_step;
}

/* ---- an end of the process --------------------------------------------------------- */

void faulty_stage_die(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "dies at %" PRIu64 " ms\n",
            (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    raise(SIGKILL);
}

static void call_begins(enum stage_fault fault)
{
    if (at.fault == fault && at.step >= at.fault_step && at.calls++ >= at.call &&
        at.call % 2 == 0)
        faulty_stage_die();
}

static void call_ends(enum stage_fault fault)
{
    if (at.fault == fault && at.calls > at.call)
        faulty_stage_die();
}

/* ---- wrong calls ------------------------------------------------------------------- */

static tryst_status forward(tryst_stage *stage, const tryst_stage_work *given)
{
    tryst_stage_work work = *given;
    size_t bytes = stage->info.input_count * tryst_dtype_bytes(stage->info.input_dtype);
    int number = at.forwards++;
    if (is_now(STAGE_FAULT_STALE) && number == 0)
        work.version--;
    if (is_now(STAGE_FAULT_SWAP) && number == 0 && (at.input = malloc(bytes)))
        memcpy(at.input, work.input, bytes);
    if (is_now(STAGE_FAULT_SWAP) && number == 1 && at.input)
        work.input = at.input;
    call_begins(STAGE_FAULT_DIE_FORWARD);
    tryst_status status = at.true_ops->forward(stage, &work);
    call_ends(STAGE_FAULT_DIE_FORWARD);
    return status;
}

static int gradient_clear(void *arg, const tryst_parameter *parameter)
{
    memset(parameter->gradient, 0,
           parameter->count * tryst_dtype_bytes(parameter->dtype));
    return 0;
}

/* Scale a part's gradient before its sum over the replicas begins. */
static tryst_status part_spoil(void *arg, int32_t part)
{
    tryst_stage_part info = {.struct_size = sizeof info};
    tryst_status status = at.true_ops->part(at.stage, part, &info);
    float *gradient = info.gradient;
    for (uint64_t i = 0; status == TRYST_OK && i < info.count; i++)
        gradient[i] *= at.fault == STAGE_FAULT_LOSE ? 0 : 2;
    return status == TRYST_OK ? at.part_added(at.part_arg, part) : status;
}

static tryst_status backward(tryst_stage *stage, const tryst_stage_work *given)
{
    tryst_stage_work work = *given;
    if ((is_now(STAGE_FAULT_LOSE) || is_now(STAGE_FAULT_TWICE)) && work.part_added) {
        at.stage = stage;
        at.part_added = work.part_added;
        at.part_arg = work.part_arg;
        work.part_added = part_spoil;
    }
    tryst_status status = at.true_ops->backward(stage, &work);
    /* no other gradient was added before the first micro-batch's */
    if (is_now(STAGE_FAULT_DROP) && at.backwards++ == 0)
        at.true_ops->parameter_visit(stage, gradient_clear, NULL);
    return status;
}

static tryst_status backward_input(tryst_stage *stage, const tryst_stage_work *work)
{
    call_begins(STAGE_FAULT_DIE_INPUT);
    tryst_status status = at.true_ops->backward_input(stage, work);
    call_ends(STAGE_FAULT_DIE_INPUT);
    return status;
}

static tryst_status backward_weight(tryst_stage *stage, const tryst_stage_work *work)
{
    call_begins(STAGE_FAULT_DIE_WEIGHT);
    tryst_status status = at.true_ops->backward_weight(stage, work);
    call_ends(STAGE_FAULT_DIE_WEIGHT);
    return status;
}

static void step_end(void)
{
    at.step++;
    at.forwards = at.backwards = 0;
}

static tryst_status update(tryst_stage *stage, const tryst_stage_update *given)
{
    call_begins(STAGE_FAULT_DIE_UPDATE);
    step_end();
    tryst_status status = at.true_ops->update(stage, given);
    call_ends(STAGE_FAULT_DIE_UPDATE);
    return status;
}

static tryst_status update_begin(tryst_stage *stage, const tryst_stage_update *given)
{
    step_end();
    return at.true_ops->update_begin(stage, given);
}

static void stage_close(tryst_stage *stage)
{
    free(at.input);
    at.input = NULL;
    at.true_ops->close(stage);
}

void faulty_stage_arm(tryst_stage *stage, enum stage_fault fault, uint64_t step, int call)
{
    memset(&at, 0, sizeof at);
    at.fault = fault;
    at.fault_step = step;
    at.call = call;
    at.true_ops = stage->ops;
    at.ops = *stage->ops;
    at.ops.forward = forward;
    at.ops.backward = backward;
    at.ops.backward_input = backward_input;
    at.ops.backward_weight = backward_weight;
    at.ops.update = update;
    at.ops.update_begin = update_begin;
    at.ops.close = stage_close;
    stage->ops = &at.ops;
}
