/* SPDX-License-Identifier: Apache-2.0 */
/* A status together with the sentence that explains it.
 *
 * One idea: the code that decides an error writes what, where, why and what to do; all
 * code between it and the user only passes the record on. Used by open, configuration and
 * bootstrap, where a bare status explains too little.
 * Invariant: `text` is always a terminated string; `status` is TRYST_OK until err_set. */
#ifndef TRYST_CORE_TEXT_ERR_H
#define TRYST_CORE_TEXT_ERR_H

#include "tryst/status.h"

#define ERR_TEXT_BYTES 512

struct err {
    tryst_status status;
    char text[ERR_TEXT_BYTES];
};

/** Initialiser: `struct err err = ERR_INIT;` */
#define ERR_INIT                       \
    {                                  \
        .status = TRYST_OK, .text = "" \
    }

/** Fill `err` (NULL: only the status is passed on) and return `status`, so that `return
 *  err_set(err, …)` is one statement. A sentence that is too long is cut and ends in
 *  "...". The arguments of `fmt` may point into err->text (to put a prefix before it).
 *  Keeps errno. */
tryst_status err_set(struct err *err, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** Return the reason of an errno: strerror's text or, for a limit of the
 *  process or the system, a text with what to do. Valid until this thread's next call. */
const char *err_reason(int error);

#endif
