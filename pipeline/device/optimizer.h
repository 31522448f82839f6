/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of an optimiser, and the state of its updates. */
#ifndef TRYST_PIPELINE_DEVICE_OPTIMIZER_H
#define TRYST_PIPELINE_DEVICE_OPTIMIZER_H

#include <tryst/stage.h>

struct optimizer_state {
    tryst_optimizer settings; /**< resolved: a zero is a value, not a default */
    /** beta1 and beta2 to the power of the number of updates so far, by repeated
     *  multiplication, so that the bits do not depend on a library's pow(). */
    double beta1_power;
    double beta2_power;
};

/** Copy `settings` (NULL: all defaults), fill in the defaults and check the values.
 *  Returns TRYST_OK, or TRYST_E_INVALID with a sentence in tryst_last_error. */
tryst_status optimizer_init(const tryst_optimizer *settings,
                            struct optimizer_state *optimizer_p);

/** Return the number of moments: 1 for SGD with momentum, 2 for Adam. */
int32_t optimizer_moments_count(const struct optimizer_state *optimizer);

/** Begin Adam's next update: count it in the powers of beta1 and beta2. */
void optimizer_adam_step(struct optimizer_state *optimizer);

/** Compute the two scalars of Adam that depend on the number t of updates so far (1 or
 *  more), with the learning rate `lr`:
 *
 *      rate = lr / (1 − β1ᵗ),  root = 1 / √(1 − β2ᵗ) */
void optimizer_adam_scalars(const struct optimizer_state *optimizer, double lr,
                            double *rate_p, double *root_p);

/** Return the floating-point operations of an update per weight, for the simulator. */
double optimizer_flops(const struct optimizer_state *optimizer);

#endif
