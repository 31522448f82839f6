/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_setup.h
 *  Describes what was measured and where: the head of a table of collectives, and the
 *  same as JSON. */
#ifndef TRYST_TOOLS_PERF_PERF_SETUP_H
#define TRYST_TOOLS_PERF_PERF_SETUP_H

#include "perf_rank.h"

/** Print lines that begin with "# ". Call once the group has moved bytes, so that
 *  transports are known. */
void perf_setup_print(FILE *out, const struct perf_rank *rank);
/** Write members of a JSON object, without a comma at the end. */
void perf_setup_json(FILE *file, const struct perf_rank *rank);

#endif
