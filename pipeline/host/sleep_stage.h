/* SPDX-License-Identifier: Apache-2.0 */
/* The stage that only sleeps. */
#ifndef TRYST_PIPELINE_HOST_SLEEP_STAGE_H
#define TRYST_PIPELINE_HOST_SLEEP_STAGE_H

#include <tryst/stage.h>

/** Open a stage as tryst_stage_open does, for a resolved model of kind
 *  TRYST_MODEL_SLEEP. */
tryst_status sleep_stage_open(const tryst_model *model, tryst_layers layers,
                              const tryst_stage_params *params, tryst_stage **stage_p);

#endif
