/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-info --merge-traces: the traces of several ranks (tryst_trace_write) as one document.
 *
 * Their times are on one clock already, so this only joins the arrays of events; a file is copied
 * in blocks, whatever its size. Caller: tryst_info.c. */
#include "trace_merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
static const char tail[] = "]}";

static bool refuse(const char *path, const char *why)
{
    fprintf(stderr, "tryst-info: %s: %s\n", path, why);
    return false;
}

/* Copies what stands between the head, which was read, and the tail. */
static bool events_copy(FILE *in, FILE *out, const char *path)
{
    char block[65536 + sizeof tail + 1];
    size_t kept = 0; /* bytes of the last block: the tail may be among them */
    size_t got;
    while ((got = fread(block + kept, 1, 65536, in)) > 0) {
        size_t bytes = kept + got;
        kept = bytes < sizeof tail ? bytes : sizeof tail; /* and its newline */
        fwrite(block, 1, bytes - kept, out);
        memmove(block, block + bytes - kept, kept);
    }
    block[kept] = '\0';
    char *end = strstr(block, tail);
    if (ferror(in) || !end)
        return refuse(path, "it ends early: was tryst_trace_write interrupted?");
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
                     : refuse(path, "no trace that tryst_trace_write has written");
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
