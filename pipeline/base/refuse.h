/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses a public call. */
#ifndef TRYST_PIPELINE_BASE_REFUSE_H
#define TRYST_PIPELINE_BASE_REFUSE_H

#include <tryst/types.h>

/** Set tryst_last_error to the formatted sentence; the value is `status`. A macro, so
 *  that the compiler and clang-tidy see which status a refusal returns. Evaluates
 *  `status` twice. */
#define refuse(status, ...) \
    ((void)tryst_last_error_set((status), __VA_ARGS__), (tryst_status)(status))

/** Refuse a call to do `what` because its argument `name` is NULL. */
#define refuse_null(what, name) \
    refuse(TRYST_E_INVALID, "cannot %s: %s is NULL", what, name)

#endif
