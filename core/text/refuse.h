/* SPDX-License-Identifier: Apache-2.0 */
/* The reason why a public call refused: one sentence for each thread, which
 * tryst_last_error returns.
 *
 * One idea: the code that refuses writes the sentence and returns the status in one
 * expression, so no refusal lacks a sentence, and no public call needs a buffer for it.
 * Invariant: the sentence names the argument, its value and what is allowed. */
#ifndef TRYST_CORE_TEXT_REFUSE_H
#define TRYST_CORE_TEXT_REFUSE_H

#include "core/text/err.h"
#include "tryst/tryst.h"

/** Write this thread's text and evaluate to `status`, which has no side effects. A macro,
 *  so that the compiler and clang-tidy see which status a refusal returns. Keeps errno. A
 *  text of more than 511 bytes is allocated; without memory it is cut. libtryst keeps
 *  the text, also for the other Tryst libraries of the process. */
#define refuse(status, ...) ((void)tryst_last_error_set((status), __VA_ARGS__), (status))
/** Refusals are cold. NOLINTNEXTLINE(readability-redundant-declaration) */
__attribute__((cold)) tryst_status tryst_last_error_set(tryst_status status,
                                                        const char *format, ...);

/** Refuse with the sentence of `err`, or the status's own text where `err` has none. */
static inline tryst_status refuse_err(const struct err *err, tryst_status status)
{
    return refuse(status, "%s", err->text[0] ? err->text : tryst_status_str(status));
}

/** Refuse with TRYST_E_INVALID: "cannot <call>: <name> is NULL". */
static inline tryst_status refuse_null(const char *call, const char *name)
{
    return refuse(TRYST_E_INVALID, "cannot %s: %s is NULL", call, name);
}

/** Refuse with TRYST_E_INVALID: "cannot <call>: <name>'s struct_size is not set". */
static inline tryst_status refuse_unsized(const char *call, const char *name)
{
    return refuse(TRYST_E_INVALID,
                  "cannot %s: %s's struct_size is not set; set it with sizeof", call,
                  name);
}

/** Refuse with TRYST_E_NOMEM: "cannot <call>: out of memory". */
static inline tryst_status refuse_nomem(const char *call)
{
    return refuse(TRYST_E_NOMEM, "cannot %s: out of memory", call);
}

/** Refuse with TRYST_E_INVALID: the priority of an operation's params lacks its flag. */
static inline tryst_status refuse_priority(int priority)
{
    return refuse(TRYST_E_INVALID,
                  "cannot submit: params->priority is %d without TRYST_OP_PRIORITY in "
                  "params->flags; set the flag, or leave the priority 0",
                  priority);
}

/** Refuse with `status`, which rendezvous_usable returned: TRYST_E_FORKED or
 *  TRYST_E_CONTEXT. */
__attribute__((cold)) void refuse_unusable_text(const char *call, tryst_status status);
static inline tryst_status refuse_unusable(const char *call, tryst_status status)
{
    refuse_unusable_text(call, status);
    return status;
}

#endif
