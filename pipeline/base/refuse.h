/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses a public call: sets the sentence of tryst_last_error, and has the status as its
 * value. */
#ifndef TRYST_PIPELINE_BASE_REFUSE_H
#define TRYST_PIPELINE_BASE_REFUSE_H

#include <tryst/types.h>

/** A macro, so that the compiler and clang-tidy see which status a refusal returns.
 *  `status` is evaluated twice. */
#define refuse(status, ...) \
    ((void)tryst_last_error_set((status), __VA_ARGS__), (tryst_status)(status))

#endif
