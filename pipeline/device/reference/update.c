/* SPDX-License-Identifier: Apache-2.0 */
/* SGD with momentum and Adam over a whole arena; optimizer.c has the formulae. */
#include "update.h"
#include "number.h"

#include <math.h>

/* The step of one weight; its moments go on. */
static double update_step(const device_update *u, tryst_dtype wide, size_t i)
{
    const double g = u->scale * number_get(u->gradients, wide, i);
    const double first = number_get(u->first, wide, i);
    if (!u->adam) {
        const double velocity = u->momentum * first + g;
        number_put(u->first, wide, i, velocity);
        return u->lr * velocity;
    }
    const double m = u->beta1 * first + u->beta1_rest * g;
    const double v = u->beta2 * number_get(u->second, wide, i) + u->beta2_rest * g * g;
    number_put(u->first, wide, i, m);
    number_put(u->second, wide, i, v);
    return u->rate * m / (sqrt(v) * u->root + u->epsilon);
}

void reference_update(const device_lane *lane, const device_update *u)
{
    const tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < u->count; i++) {
        const double step = update_step(u, wide, i);
        number_put(u->to, wide, i, number_get(u->from, wide, i) - step);
        if (u->rounded) {
            number_put(u->rounded, lane->session->dtype, i, number_get(u->to, wide, i));
        }
        number_put(u->gradients, wide, i, 0);
    }
}
