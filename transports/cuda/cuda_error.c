/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, as a status and as a sentence of the calling thread.
 *
 * Idea: a row of memory functions has no context and so no log; whoever called reads the sentence
 * and puts it where its reader looks (an operation's error, a log line).
 */
#include "cuda_driver.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_MAX = 200 };
static _Thread_local char last[TEXT_MAX];

void cuda_error_write(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(last, sizeof last, format, args);
    va_end(args);
}

const char *cuda_error_text(void)
{
    return last;
}

static tryst_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS: return TRYST_OK;
    case CUDA_ERROR_NOT_READY: return TRYST_IN_PROGRESS;
    case CUDA_ERROR_OUT_OF_MEMORY: return TRYST_E_NOMEM;
    case CUDA_ERROR_NOT_SUPPORTED: return TRYST_E_UNSUPPORTED;
    case CUDA_ERROR_INVALID_VALUE: return TRYST_E_INVALID;
    default: return TRYST_E_SYSTEM;
    }
}

/* Where the driver has fallen over, its texts still answer. */
tryst_status cuda_status(CUresult result, const char *function)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
        return status_of(result);
    (void)cuda_driver.error_name(result, &name);
    (void)cuda_driver.error_string(result, &text);
    return cuda_error_set(status_of(result), "CUDA driver, %s: %s (%d): %s", function,
                          name ? name : "unknown error", (int)result, text ? text : "");
}
