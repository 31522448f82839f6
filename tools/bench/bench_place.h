/* SPDX-License-Identifier: Apache-2.0 */
/* Which device this rank computes on. */
#ifndef TRYST_TOOLS_BENCH_PLACE_H
#define TRYST_TOOLS_BENCH_PLACE_H

#include "bench_rank.h"

/* Which device this rank computes on, into `ordinal`. */
tryst_status bench_place_on_device(bench_run *run);

#endif
