/* SPDX-License-Identifier: Apache-2.0 */
/* A pp_bench of which one rank computes wrongly once, so that --check must fail. Linked
 * with --wrap=tryst_stage_open. TRYST_TEST_FAULT is NAME:STEP:RANK, steps from 1. The
 * stages of the replay, which opens its own after the training, compute as usual. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/faulty_stage.h"

tryst_status __real_tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage **stage_p);
tryst_status __wrap_tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage **stage_p);

static enum stage_fault fault_of(const char *name)
{
    static const char *const names[] = {"none", "swap", "stale", "drop", "lose", "twice"};
    for (int i = 0; i < 6; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum stage_fault)i;
    abort();
}

tryst_status __wrap_tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage **stage_p)
{
    static bool armed;
    const char *text = getenv("TRYST_TEST_FAULT"), *rank = getenv("TRYST_RANK");
    char name[16];
    unsigned long long step;
    int at;
    if (armed || !text || !rank ||
        sscanf(text, "%15[a-z]:%llu:%d", name, &step, &at) != 3 || atoi(rank) != at)
        return __real_tryst_stage_open(model, layers, params, stage_p);
    tryst_stage_params own = *params;
    own.versions_count++; /* a stale read needs one more */
    tryst_status status = __real_tryst_stage_open(model, layers, &own, stage_p);
    if (status == TRYST_OK)
        faulty_stage_arm(*stage_p, fault_of(name), step - 1);
    armed = true;
    return status;
}
