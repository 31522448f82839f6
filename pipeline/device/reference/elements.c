/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, copies and roundings of whole arrays, element by element. */
#include "elements.h"
#include "number.h"

void reference_add(const device_lane *lane, uint64_t count, const void *a, const void *b,
                   void *y)
{
    const tryst_dtype dtype = lane->session->dtype;
    for (size_t i = 0; i < count; i++) {
        number_put(y, dtype, i, number_get(a, dtype, i) + number_get(b, dtype, i));
    }
}

void reference_duplicate(const device_lane *lane, uint64_t count, const void *x, void *y)
{
    memcpy(y, x, count * device_dtype_bytes(lane->session->dtype));
}

void reference_round(const device_lane *lane, uint64_t count, const void *wide, void *y)
{
    for (size_t i = 0; i < count; i++) {
        number_put(y, lane->session->dtype, i, number_get(wide, lane->session->wide, i));
    }
}
