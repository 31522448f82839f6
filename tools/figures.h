/* SPDX-License-Identifier: Apache-2.0 */
/** @file figures.h
 *  Times and samples that tools measure. */
#ifndef TRYST_TOOLS_FIGURES_H
#define TRYST_TOOLS_FIGURES_H

#include <stdint.h>

/** Return the time of CLOCK_MONOTONIC in ns. */
uint64_t tool_now_ns(void);

/** Return the ending of a noun after `count`: "" or "s". */
const char *tool_plural(uint64_t count);

/** Sort samples, the least first. */
void tool_samples_sort(double *samples, uint64_t count);
/** Return the sample of `sorted` that `percent` of all are not above; `count` is from
 *  1. */
double tool_quantile(const double *sorted, uint64_t count, uint64_t percent);

#endif
