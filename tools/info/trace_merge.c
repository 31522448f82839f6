/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-info --merge-traces: joins the traces of several ranks (tryst_trace_write) into
 * one document.
 *
 * Their times are on one clock already, so only the arrays of events are joined. A file
 * of any size is copied in blocks. */
#include "trace_merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
static const char tail[] = "]}";

static bool refuse(const char *path, const char *why)
{
    fprintf(stderr, "tryst-info: cannot merge %s: %s\n", path, why);
    return false;
}

/* Copy the bytes between the head, already read, and the tail. */
static bool events_copy(FILE *in, FILE *out, const char *path)
{
    char block[65536 + sizeof tail + 1];
    size_t kept = 0; /* bytes of the last block, which may hold the tail */
    size_t got;
    while ((got = fread(block + kept, 1, 65536, in)) > 0) {
        size_t bytes = kept + got;
        /* keep as many bytes as the tail and its newline have */
        kept = bytes < sizeof tail ? bytes : sizeof tail;
        fwrite(block, 1, bytes - kept, out);
        memmove(block, block + bytes - kept, kept);
    }
    block[kept] = '\0';
    char *end = strstr(block, tail);
    if (ferror(in) || !end)
        return refuse(path, ferror(in) ? strerror(errno)
                                       : "the file ends early; write the trace again "
                                         "(tryst_trace_write)");
    fwrite(block, 1, (size_t)(end - block), out);
    return true;
}

static bool file_merge(const char *path, bool first, FILE *out)
{
    char begin[sizeof head] = "";
    FILE *in = fopen(path, "re");
    if (!in)
        return refuse(path, strerror(errno));
    bool ours = fread(begin, 1, sizeof head - 1, in) == sizeof head - 1 &&
                memcmp(begin, head, sizeof head - 1) == 0;
    if (ours)
        fputs(first ? head : ",", out);
    bool good = ours ? events_copy(in, out, path)
                     : refuse(path, "not a trace of tryst_trace_write");
    fclose(in);
    return good;
}

int trace_merge(char **paths, FILE *out)
{
    for (char **path = paths; *path; path++)
        if (!file_merge(*path, path == paths, out))
            return 1;
    fprintf(out, "%s\n", tail);
    return 0;
}
