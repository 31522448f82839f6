/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_load.h
 *  Loads the profiles of a run, and names its ranks in outputs. */
#ifndef TRYST_TOOLS_ORDER_ORDER_LOAD_H
#define TRYST_TOOLS_ORDER_ORDER_LOAD_H

#include <stdbool.h>

#include "order.h"

/** Load the profile at `path`. With %r in it: those of all ranks of one run, merged
 *  (tryst_profile_merge). False: a line on stderr has the reason. */
bool order_profile_load(const char *path, tryst_profile **profile_p);

/** Print the line that names the ranks and the run of the profile, if they are known. */
void order_origin_print(const struct order_job *job);
/** Write the same as members of a JSON object, each with a comma after it. */
void order_origin_json(FILE *file, const struct order_job *job);

#endif
