/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of biases: sums down the columns. */
#include "column_sum.h"
#include "number.h"

void reference_column_sum(const device_lane *lane, int32_t rows, int32_t columns,
                          const void *dy, void *dbias)
{
    for (size_t j = 0; j < (size_t)columns; j++) {
        double sum = 0;
        for (size_t i = 0; i < (size_t)rows; i++) {
            sum += number_get(dy, lane->session->dtype, i * (size_t)columns + j);
        }
        number_add(dbias, lane->session->wide, j, sum);
    }
}
