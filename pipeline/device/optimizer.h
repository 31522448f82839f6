/* SPDX-License-Identifier: Apache-2.0 */
/* What an optimiser is set to, and how far it has come. */
#ifndef PIPELINE_OPTIMIZER_H
#define PIPELINE_OPTIMIZER_H

#include <tryst/stage.h>

typedef struct optimizer_state {
    tryst_optimizer settings; /* resolved: no field means "default" */
    /* beta1 and beta2 to the power of updates made so far, by repeated multiplication, so that
     * they do not depend on anybody's pow(). */
    double beta1_power;
    double beta2_power;
} optimizer_state;

/* Fill in the defaults and check. Returns TRYST_OK or TRYST_E_INVALID with a sentence. */
tryst_status optimizer_init(const tryst_optimizer *settings,
                            optimizer_state *optimizer_p);

/* Moments that it needs: 1 for SGD with momentum, 2 for Adam. */
int32_t optimizer_moments_count(const optimizer_state *optimizer);

/* Adam's next update begins: the two scalars that depend on how many came before,
 *     rate = lr / (1 − β1ᵗ),  root = 1 / √(1 − β2ᵗ) */
void optimizer_adam_step(optimizer_state *optimizer, double *rate_p, double *root_p);

/* Flops per weight, for the simulator. */
double optimizer_flops(const optimizer_state *optimizer);

#endif
