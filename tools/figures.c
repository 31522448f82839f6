/* SPDX-License-Identifier: Apache-2.0 */
/* Implements figures.h. */
#include "figures.h"

#include <stdlib.h>
#include <time.h>

uint64_t tool_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *tool_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tool_samples_sort(double *samples, uint64_t count)
{
    qsort(samples, count, sizeof *samples, by_value);
}

double tool_quantile(const double *sorted, uint64_t count, uint64_t percent)
{
    return sorted[(count - 1) - (count - 1) * (100 - percent) / 100];
}
