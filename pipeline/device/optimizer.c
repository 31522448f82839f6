/* SPDX-License-Identifier: Apache-2.0 */
/* Implements SGD with momentum and Adam: settings and scalars. The loop over a stage's
 * weights is a kernel (device_update).
 *
 *     sgd   v = momentum·v + g;  w = w − lr·v                      (PyTorch's form)
 *     adam  m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²
 *           w = w − (lr / (1−β1ᵗ)) · m / (√v / √(1−β2ᵗ) + ε)       (Kingma and Ba, 2015)
 *
 * Invariant: the update of a weight does not depend on other weights, so results do not
 * depend on the split of layers into stages. Scalars are computed in double and rounded
 * once. */
#include "optimizer.h"

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"

#include <math.h>

/* Return a setting: zero means the default, negative means zero (stage.h). */
static double optimizer_value(double value, double fallback)
{
    if (value < 0) {
        return 0;
    }
    return value == 0 ? fallback : value; /* NaN stays NaN, for the check */
}

static tryst_status optimizer_check(const tryst_optimizer *s)
{
    if (s->kind != TRYST_OPTIMIZER_SGD && s->kind != TRYST_OPTIMIZER_ADAM) {
        return refuse(TRYST_E_INVALID,
                      "cannot use the optimiser: kind %d does not exist; use sgd or adam",
                      (int)s->kind);
    }
    if (!isfinite(s->lr) || !isfinite(s->epsilon)) {
        return refuse(TRYST_E_INVALID,
                      "cannot use the optimiser: lr and epsilon must be finite");
    }
    if (!(s->momentum < 1) || !(s->beta1 < 1) || !(s->beta2 < 1)) {
        return refuse(
            TRYST_E_INVALID,
            "cannot use the optimiser: momentum, beta1 and beta2 must be below 1");
    }
    return TRYST_OK;
}

tryst_status optimizer_init(const tryst_optimizer *settings,
                            struct optimizer_state *optimizer_p)
{
    tryst_optimizer s;
    tryst_status status = params_read(&s, sizeof(s), settings, "tryst_optimizer");
    if (status != TRYST_OK) {
        return status;
    }
    s.kind = s.kind == TRYST_OPTIMIZER_DEFAULT ? TRYST_OPTIMIZER_ADAM : s.kind;
    s.lr = optimizer_value(s.lr, s.kind == TRYST_OPTIMIZER_SGD ? 0.1 : 0.001);
    s.momentum = optimizer_value(s.momentum, 0.9);
    s.beta1 = optimizer_value(s.beta1, 0.9);
    s.beta2 = optimizer_value(s.beta2, 0.999);
    s.epsilon = optimizer_value(s.epsilon, 1e-8);
    status = optimizer_check(&s);
    if (status == TRYST_OK) {
        *optimizer_p =
            (struct optimizer_state){.settings = s, .beta1_power = 1, .beta2_power = 1};
    }
    return status;
}

int32_t optimizer_moments_count(const struct optimizer_state *optimizer)
{
    return optimizer->settings.kind == TRYST_OPTIMIZER_ADAM ? 2 : 1;
}

void optimizer_adam_step(struct optimizer_state *optimizer)
{
    optimizer->beta1_power *= optimizer->settings.beta1;
    optimizer->beta2_power *= optimizer->settings.beta2;
}

void optimizer_adam_scalars(const struct optimizer_state *optimizer, double lr,
                            double *rate_p, double *root_p)
{
    *rate_p = lr / (1 - optimizer->beta1_power);
    *root_p = 1 / sqrt(1 - optimizer->beta2_power);
}

double optimizer_flops(const struct optimizer_state *optimizer)
{
    return optimizer->settings.kind == TRYST_OPTIMIZER_ADAM ? 14 : 5;
}
