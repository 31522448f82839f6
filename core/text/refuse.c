/* SPDX-License-Identifier: Apache-2.0 */
/* This thread's last refusal; see refuse.h.
 *
 * The sentence is in thread-local memory of the general model, not initial-exec: its 512
 * bytes would use up the space that glibc reserves for libraries that are loaded late. A
 * longer text (the grid of a pipeline program) is allocated, and freed by the next
 * refusal or at the thread's end. */
#include "core/text/refuse.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/text.h"
#include "tryst/tryst.h"

/* Longest text that is kept, with its terminator. */
enum { LONG_BYTES_MAX = 65536 };

static _Thread_local char sentence[ERR_TEXT_BYTES];
static _Thread_local char *long_text; /* owned; NULL: `sentence` counts */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t long_key; /* frees `long_text` at the thread's end */
static bool has_key;

static void key_make(void)
{
    has_key = pthread_key_create(&long_key, mem_free) == 0;
}

static void long_put(char *text)
{
    mem_free(long_text);
    long_text = text;
    (void)pthread_setspecific(long_key, text);
}

/* Keep a text that is longer than `sentence`. False without memory. */
static bool long_keep(size_t bytes, const char *fmt, va_list args)
{
    (void)pthread_once(&once, key_make);
    char *text = has_key ? mem_alloc(bytes) : NULL;
    if (!text)
        return false;
    (void)vsnprintf(text, bytes, fmt, args);
    long_put(text);
    return true;
}

/* Write the text. It is formatted aside first, since arguments may point into the text
 * that it replaces. */
static void refuse_v(const char *fmt, va_list args)
{
    int kept = errno;
    char text[ERR_TEXT_BYTES];
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(text, sizeof text, fmt, args);
    size_t bytes = length < LONG_BYTES_MAX ? (size_t)length + 1 : LONG_BYTES_MAX;
    if (length < 0)
        text[0] = '\0';
    if (length < (int)sizeof text || !long_keep(bytes, fmt, again)) {
        if (length >= (int)sizeof text)
            memcpy(text + text_cut(text, sizeof text - 4), "...", 4);
        memcpy(sentence, text, sizeof text);
        if (long_text)
            long_put(NULL);
    }
    va_end(again);
    errno = kept;
}

void refuse_unusable_text(const char *call, tryst_status status)
{
    if (status == TRYST_E_FORKED)
        (void)refuse(status,
                     "cannot %s: the context belongs to the parent of this process; open "
                     "one after fork",
                     call);
    else
        (void)refuse(status, "cannot %s: the context is closing", call);
}

tryst_status tryst_last_error_set(tryst_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refuse_v(format, args);
    va_end(args);
    return status;
}

const char *tryst_last_error(void)
{
    return long_text ? long_text : sentence;
}
