/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <stdarg.h>
#include <stdio.h>

tryst_status source_refuse(const struct source *source, struct text_place place,
                           const char *fmt, ...)
{
    char reason[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    if (!place.column)
        return err_set(source->err, TRYST_E_INVALID, "%s:%u: %s", source->name,
                       place.line, reason);
    return err_set(source->err, TRYST_E_INVALID, "%s:%u:%u: %s", source->name, place.line,
                   place.column, reason);
}

tryst_status source_no_memory(const struct source *source)
{
    return err_set(source->err, TRYST_E_NOMEM, "cannot read %s: out of memory",
                   source->name);
}

tryst_status source_judge(const struct source *source, struct text_place place,
                          tryst_status status, const struct err *why)
{
    if (status == TRYST_E_INVALID)
        return source_refuse(source, place, "%s", why->text);
    return status == TRYST_OK ? status : err_set(source->err, status, "%s", why->text);
}
