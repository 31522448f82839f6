/* SPDX-License-Identifier: Apache-2.0 */
/* This thread's last refusal; see refuse.h. The sentence is thread-local memory of the general model, not
 * initial-exec: 512 bytes would use up what glibc keeps for libraries that are loaded late. */
#include "core/refuse.h"

#include <stdarg.h>
#include <string.h>

#include "tryst/tryst.h"

static _Thread_local struct err last;

static tryst_status refuse_v(tryst_status status, const char *fmt, va_list args)
{
    return err_set_v(&last, status, fmt, args);
}

tryst_status refuse(tryst_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    refuse_v(status, fmt, args);
    va_end(args);
    return status;
}

tryst_status refuse_err(const struct err *err, tryst_status status)
{
    return refuse(status, "%s", err->text[0] ? err->text : tryst_status_str(status));
}

tryst_status refuse_null(const char *call, const char *name)
{
    return refuse(TRYST_E_INVALID, "cannot %s: %s is NULL", call, name);
}

tryst_status refuse_nomem(const char *call)
{
    return refuse(TRYST_E_NOMEM, "cannot %s: out of memory", call);
}

tryst_status refuse_unusable(const char *call, tryst_status status)
{
    if (status == TRYST_E_FORKED)
        return refuse(
            status,
            "cannot %s: the context belongs to the parent of this process; open "
            "one after fork",
            call);
    return refuse(status, "cannot %s: the context is closing", call);
}

tryst_status tryst_last_error_set(tryst_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refuse_v(status, format, args);
    va_end(args);
    return status;
}

const char *tryst_last_error(void)
{
    return last.text;
}
