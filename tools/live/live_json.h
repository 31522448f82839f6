/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_json.h
 *  The ranks for programs. */
#ifndef TOOLS_LIVE_JSON_H
#define TOOLS_LIVE_JSON_H

#include "live.h"

/** `sentence` may be NULL. False when memory or `out` failed. */
bool live_json_print(FILE *out, const struct live_ranks *ranks, const char *sentence);

#endif
