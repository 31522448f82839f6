/* SPDX-License-Identifier: Apache-2.0 */
/* The stage that computes on the host, out of layers. */
#ifndef PIPELINE_HOST_STAGE_H
#define PIPELINE_HOST_STAGE_H

#include <tryst/stage.h>

/* Open the stage for `layers` of a resolved byte model. Arguments have been checked, but for
 * params->optimizer. As tryst_stage_open. */
tryst_status host_stage_open(const tryst_model *model, tryst_layers layers,
                             const tryst_stage_params *params, tryst_stage **stage_p);

#endif
