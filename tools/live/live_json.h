/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_json.h
 *  Prints the ranks as JSON. */
#ifndef TRYST_TOOLS_LIVE_LIVE_JSON_H
#define TRYST_TOOLS_LIVE_LIVE_JSON_H

#include "live.h"

/** Print `ranks` and `sentence`, which may be NULL. False if `out` failed. */
bool live_json_print(FILE *out, const struct live_ranks *ranks, const char *sentence);

#endif
