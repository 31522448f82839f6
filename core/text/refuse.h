/* SPDX-License-Identifier: Apache-2.0 */
/* Why a public call refused: one sentence for each thread, read by tryst_last_error.
 *
 * One idea: the place that refuses writes the sentence and returns the status in one expression, so no
 * refusal can go without one and no public call needs a buffer for it.
 * Invariant: the sentence names the argument, its value and what is allowed. */
#ifndef TRYST_CORE_REFUSE_H
#define TRYST_CORE_REFUSE_H

#include "core/err.h"
#include "tryst/status.h"

/* Write this thread's text and return `status`. Cold; allocates for more than 511 bytes. Keeps errno. */
__attribute__((cold, format(printf, 2, 3))) tryst_status refuse(tryst_status status,
                                                                const char *fmt, ...);

/* As refuse, with the sentence of `err`, or the status' own text where `err` has none. */
__attribute__((cold)) tryst_status refuse_err(const struct err *err, tryst_status status);

/* "cannot <call>: <name> is NULL", TRYST_E_INVALID. */
__attribute__((cold)) tryst_status refuse_null(const char *call, const char *name);

/* "cannot <call>: <name>'s struct_size is not set", TRYST_E_INVALID. */
__attribute__((cold)) tryst_status refuse_unsized(const char *call, const char *name);

/* "cannot <call>: out of memory", TRYST_E_NOMEM. */
__attribute__((cold)) tryst_status refuse_nomem(const char *call);

/* For a `status` of rendezvous_usable, TRYST_E_FORKED or TRYST_E_CONTEXT. */
__attribute__((cold)) tryst_status refuse_unusable(const char *call, tryst_status status);

#endif
