/* SPDX-License-Identifier: Apache-2.0 */
/* Error sentences in a caller's buffer, which may be absent. */
#ifndef PIPELINE_FAIL_H
#define PIPELINE_FAIL_H

#include <stdarg.h>
#include <stdio.h>
#include <tryst/types.h>

/* Write a sentence to `error` and pass `status` on: `return fail_text(…);`. */
TRYST_PRINTF(4, 5)
static inline tryst_status fail_text(tryst_status status, char *error,
                                     size_t error_capacity, const char *format, ...)
{
    if (error && error_capacity > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error, error_capacity, format, arguments);
        va_end(arguments);
    }
    return status;
}

#endif
