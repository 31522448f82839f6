/* SPDX-License-Identifier: Apache-2.0 */
/* GELU in its tanh form, its derivative. */
#include "gelu.h"
#include "number.h"

#include <math.h>

#define GELU_A 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_B 0.044715

double reference_gelu(double x)
{
    return 0.5 * x * (1 + tanh(GELU_A * (x + GELU_B * x * x * x)));
}

double reference_gelu_slope(double x)
{
    const double t = tanh(GELU_A * (x + GELU_B * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_A * (1 + 3 * GELU_B * x * x);
}

void reference_gelu_backward(const device_lane *lane, uint64_t count, const void *x,
                             const void *dy, void *dx)
{
    const tryst_dtype dtype = lane->session->dtype;
    for (size_t i = 0; i < count; i++) {
        const double slope = reference_gelu_slope(number_get(x, dtype, i));
        number_put(dx, dtype, i, number_get(dy, dtype, i) * slope);
    }
}
