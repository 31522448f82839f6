/* SPDX-License-Identifier: Apache-2.0 */
/* A status together with the sentence that explains it.
 *
 * One idea: the place that decides an error writes down what, where, why and what to do;
 * everybody between it and the user only passes the record on.
 * Invariant: `text` is always a terminated string; `status` is TRYST_OK until err_set.
 * Callers: open, configuration and bootstrap, where a bare status would say too little.
 */
#ifndef TRYST_CORE_ERR_H
#define TRYST_CORE_ERR_H

#include "tryst/status.h"

#define ERR_TEXT_BYTES 512

struct err {
    tryst_status status;
    char text[ERR_TEXT_BYTES];
};

/* An initialiser: `struct err err = ERR_INIT;` */
#define ERR_INIT                       \
    {                                  \
        .status = TRYST_OK, .text = "" \
    }

/* Fills `err` (NULL is allowed: then only the status travels) and returns `status`, so
 * that `return err_set(err, …)` reads as one thing. A sentence that is too long is cut,
 * and ends in "...". `fmt`'s arguments may point into err->text (to put a prefix before
 * it). Keeps errno. */
tryst_status err_set(struct err *err, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* strerror, and what to do where a limit of the process or the system is the reason. The text is
 * this thread's until its next call. */
const char *err_reason(int error);

#endif
