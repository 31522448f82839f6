/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the device that a rank computes on. */
#ifndef TRYST_TOOLS_BENCH_BENCH_PLACE_H
#define TRYST_TOOLS_BENCH_BENCH_PLACE_H

#include "bench_rank.h"

/** Choose this rank's device and store it in run->ordinal. No effect on the host. */
tryst_status bench_place_on_device(struct bench_run *run);

#endif
