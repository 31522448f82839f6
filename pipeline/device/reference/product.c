/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, as defined. product.cu does them by cuBLASLt. */
#include "product.h"
#include "gelu.h"
#include "number.h"

static double product_element(const device_product *p, tryst_dtype dtype, size_t i,
                              size_t j)
{
    const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    double sum = 0;
    for (size_t l = 0; l < k; l++) {
        const double a = number_get(p->a, dtype, p->a_transposed ? l * m + i : i * k + l);
        const double b = number_get(p->b, dtype, p->b_transposed ? j * k + l : l * n + j);
        sum += a * b;
    }
    return sum;
}

void reference_product(const device_lane *lane, const device_product *p)
{
    const tryst_dtype dtype = lane->session->dtype;
    const tryst_dtype d_dtype = p->d_wide ? lane->session->wide : dtype;
    for (size_t i = 0; i < (size_t)p->m; i++) {
        for (size_t j = 0; j < (size_t)p->n; j++) {
            const size_t at = i * (size_t)p->n + j;
            double d = product_element(p, dtype, i, j);
            d += p->add ? number_get(p->add, d_dtype, at) : 0;
            d += p->bias ? number_get(p->bias, dtype, j) : 0;
            if (p->epilogue == DEVICE_EPILOGUE_GELU) {
                number_put(p->aux, dtype, at, d);
                d = reference_gelu(d);
            } else if (p->epilogue == DEVICE_EPILOGUE_DGELU) {
                d *= reference_gelu_slope(number_get(p->aux, dtype, at));
            }
            number_put(p->d, d_dtype, at, d);
        }
    }
}
