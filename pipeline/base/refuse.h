/* SPDX-License-Identifier: Apache-2.0 */
/* Why a public call refused: writes the sentence of tryst_last_error, and is the status. */
#ifndef PIPELINE_REFUSE_H
#define PIPELINE_REFUSE_H

#include <tryst/types.h>

/* `status` is evaluated twice. A macro, so that the compiler and clang-tidy see which status a refusal
 * returns. */
#define refuse(status, ...) \
    ((void)tryst_last_error_set((status), __VA_ARGS__), (tryst_status)(status))

#endif
