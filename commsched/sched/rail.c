/* SPDX-License-Identifier: Apache-2.0 */
/* The window of a rail (rail.h). */
#include "rail.h"

#include <stdbool.h>

static uint64_t bytes_in(uint64_t bytes_per_s, uint64_t ns)
{
    return (uint64_t)((double)bytes_per_s * (double)ns * 1e-9);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t rail_window_bytes(const struct rail_rate *rate)
{
    if (rate->set_window_bytes)
        return rate->set_window_bytes;
    if (!rate->bytes_per_s)
        return RAIL_WINDOW_MAX;
    uint64_t bytes = lesser(bytes_in(rate->bytes_per_s, RAIL_WINDOW_NS), RAIL_WINDOW_MAX);
    bytes += bytes_in(rate->bytes_per_s, rate->trip_ns);
    return bytes > RAIL_WINDOW_MIN ? bytes : RAIL_WINDOW_MIN;
}

void rail_trip_add(struct rail_rate *rate, uint64_t now_ns, uint64_t spent_ns,
                   uint64_t bytes)
{
    if (!rate->bytes_per_s)
        return;
    uint64_t own_ns = (uint64_t)((double)bytes / (double)rate->bytes_per_s * 1e9);
    uint64_t trip_ns = spent_ns > own_ns ? spent_ns - own_ns : 0;
    bool is_old = !rate->trip_at_ns || now_ns > rate->trip_at_ns + RAIL_AGE_NS;
    if (!is_old && trip_ns > rate->trip_ns)
        return;
    rate->trip_ns = trip_ns;
    rate->trip_at_ns = now_ns;
}
