/* SPDX-License-Identifier: Apache-2.0 */
/* A pp_bench of which one rank computes wrongly once, so that --check must fail, or ends
 * at a chosen moment. Linked with --wrap=tryst_stage_open and --wrap=tryst_engine_step.
 * TRYST_TEST_FAULT is NAME:STEP:RANK, or with an end in a call NAME:STEP:RANK:CALL; steps
 * from 1. The stages of the replay, which opens its own after the training, compute as
 * usual. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/pipeline.h>

#include "support/faulty_stage.h"

tryst_status __real_tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage **stage_p);
tryst_status __wrap_tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage **stage_p);

tryst_status __real_tryst_engine_step(tryst_engine *engine, uint64_t step,
                                      double *loss_p);
tryst_status __wrap_tryst_engine_step(tryst_engine *engine, uint64_t step,
                                      double *loss_p);

/* Ends are in calls of a stage, and "between", behind a step. */
static const char *const names[] = {"none",   "swap",   "stale",   "drop",
                                    "lose",   "twice",  "forward", "input",
                                    "weight", "update", "between"};
enum { BETWEEN = STAGE_FAULT_DIE_UPDATE + 1 };

struct fault {
    int kind;
    unsigned long long step;
    int call;
};

/* Read this rank's fault; none has kind STAGE_FAULT_NONE. */
static struct fault fault_given(void)
{
    const char *text = getenv("TRYST_TEST_FAULT"), *rank = getenv("TRYST_RANK");
    struct fault fault = {STAGE_FAULT_NONE, 0, 0};
    char name[16];
    int at;
    if (!text || !rank ||
        sscanf(text, "%15[a-z]:%llu:%d:%d", name, &fault.step, &at, &fault.call) < 3 ||
        atoi(rank) != at)
        return fault;
    while (strcmp(name, names[fault.kind]) != 0)
        if (++fault.kind > BETWEEN)
            abort();
    return fault;
}

tryst_status __wrap_tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage **stage_p)
{
    static bool armed;
    struct fault fault = fault_given();
    if (armed || fault.kind == STAGE_FAULT_NONE || fault.kind == BETWEEN)
        return __real_tryst_stage_open(model, layers, params, stage_p);
    tryst_stage_params own = *params;
    own.versions_count++; /* a stale read needs one more */
    tryst_status status = __real_tryst_stage_open(model, layers, &own, stage_p);
    if (status == TRYST_OK)
        faulty_stage_arm(*stage_p, (enum stage_fault)fault.kind, fault.step - 1,
                         fault.call);
    armed = true;
    return status;
}

tryst_status __wrap_tryst_engine_step(tryst_engine *engine, uint64_t step, double *loss_p)
{
    static unsigned long long steps;
    struct fault fault = fault_given();
    tryst_status status = __real_tryst_engine_step(engine, step, loss_p);
    if (++steps == fault.step && fault.kind == BETWEEN)
        faulty_stage_die();
    return status;
}
