/* SPDX-License-Identifier: Apache-2.0 */
/* A status and its sentence; see err.h. The text is formatted aside first, because
 * arguments may point into the text that it replaces. */
#include "core/text/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text/text.h"

const char *err_reason(int error)
{
    if (error == EMFILE)
        return "too many open files (raise the limit of this process, ulimit -n)";
    if (error == ENFILE)
        return "too many open files on this machine (raise fs.file-max)";
    return strerror(error);
}

tryst_status err_set(struct err *err, tryst_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    int kept = errno;
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (length < 0)
        text[0] = '\0';
    if (length >= (int)sizeof text)
        memcpy(text + text_cut(text, sizeof text - 4), "...", 4);
    memcpy(err->text, text, sizeof text);
    err->status = status;
    errno = kept;
    return status;
}
