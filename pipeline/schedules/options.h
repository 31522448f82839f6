/* SPDX-License-Identifier: Apache-2.0 */
/** @file options.h
 *  Reads "name:key=value,…" (options.c). */
#ifndef TRYST_PIPELINE_SCHEDULES_OPTIONS_H
#define TRYST_PIPELINE_SCHEDULES_OPTIONS_H

#include <tryst/pipeline.h>

/** Write the options behind the name in `text` to `params`, which `schedule` must take.
 *  Returns TRYST_OK or TRYST_E_PROGRAM. */
tryst_status options_read(const tryst_schedule *schedule, const char *text,
                          tryst_schedule_params *params);
/** Return the length of the name in `text`. */
size_t options_name_bytes(const char *text);

#endif
