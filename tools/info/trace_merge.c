/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-info --merge-traces: joins the traces of all ranks of a run (tryst_trace_write)
 * into one document.
 *
 * Their times are on one clock already, so only the arrays of events are joined. A file
 * of any size is copied in blocks. The first line of each file has its origin, and all of
 * them are checked before anything is written.
 * Invariant: the merged document has each rank of one run once. */
#include "trace_merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line: head, the run's number, rank and size (not in the merged document's),
 * middle. Older traces have no origin: head_old. */
static const char head[] = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tryst_run\":\"";
static const char head_old[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
static const char middle[] = "},\"traceEvents\":[";
static const char tail[] = "]}";

enum { LINE_BYTES = 256, SIZE_MOST = 1 << 20, MISSING_SHOWN = 8 };

struct trace_file {
    const char *path;
    FILE *in; /* NULL: closed */
    uint64_t run;
    int32_t rank, size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const char *path,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "tryst-info: cannot merge %s: ", path);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

/* ---- the first line ---------------------------------------------------------------- */

/* Read the members of the origin. False: the line has another form. */
static bool origin_parse(const char *line, struct trace_file *file)
{
    int used = 0;
    /* NOLINTNEXTLINE(cert-err34-c): digits beyond the range fail the checks below */
    return sscanf(line, "%16" SCNx64 "\",\"rank\":%" SCNd32 ",\"size\":%" SCNd32 "%n",
                  &file->run, &file->rank, &file->size, &used) == 3 &&
           used > 0 && strcmp(line + used, middle) == 0 && file->run && file->size > 0 &&
           file->size <= SIZE_MOST && file->rank >= 0 && file->rank < file->size;
}

static bool line_check(const char *line, struct trace_file *file)
{
    if (strcmp(line, head_old) == 0)
        return refuse(file->path,
                      "the trace has no run and rank, so traces of several runs could be "
                      "mixed; write the trace again with this library, after the group "
                      "was opened (tryst_trace_write)");
    if (strncmp(line, head, sizeof head - 1) != 0)
        return refuse(file->path, "not a trace of tryst_trace_write");
    return origin_parse(line + sizeof head - 1, file) ||
           refuse(file->path, "not the trace of one rank; give the files that "
                              "tryst_trace_write wrote");
}

static void file_close(struct trace_file *file)
{
    if (file->in)
        fclose(file->in);
    file->in = NULL;
}

/* Open a trace, unless it is open, and read its first line. */
static bool file_open(struct trace_file *file)
{
    char line[LINE_BYTES] = "";
    if (file->in)
        return true;
    file->in = fopen(file->path, "re");
    if (!file->in)
        return refuse(file->path, "%s", strerror(errno));
    if (fgets(line, sizeof line, file->in))
        line[strcspn(line, "\n")] = '\0';
    return line_check(line, file);
}

/* Read the origin. A pipe stays open for its events; files close, since a job may have
 * more ranks than a process may have descriptors. */
static bool origin_read(struct trace_file *file)
{
    bool good = file_open(file);
    if (file->in && ftell(file->in) >= 0)
        file_close(file);
    return good;
}

/* ---- the files together ------------------------------------------------------------ */

/* Check that a file is of the first one's run, and of a rank that `seen` has no file
 * of. */
static bool file_check(const struct trace_file *first, const struct trace_file *file,
                       const struct trace_file **seen)
{
    if (file->run != first->run || file->size != first->size)
        return refuse(file->path,
                      "the trace is of rank %" PRId32 " of %" PRId32
                      " in another run than %s (rank %" PRId32 " of %" PRId32
                      "); give the files of one run",
                      file->rank, file->size, first->path, first->rank, first->size);
    if (seen[file->rank])
        return refuse(file->path, "the trace is of rank %" PRId32 ", and so is %s",
                      file->rank, seen[file->rank]->path);
    seen[file->rank] = file;
    return true;
}

static bool missing_check(const struct trace_file *first, const struct trace_file **seen)
{
    int32_t missing = 0;
    for (int32_t rank = 0; rank < first->size; rank++)
        if (!seen[rank] && missing++ < MISSING_SHOWN)
            fprintf(stderr, "%s %" PRId32,
                    missing == 1 ? "tryst-info: cannot merge traces: no file of rank"
                                 : ",",
                    rank);
    if (missing > MISSING_SHOWN)
        fprintf(stderr, " and %" PRId32 " more", missing - MISSING_SHOWN);
    if (missing > 0)
        fprintf(stderr, ", but %s is of a run of %" PRId32 " ranks; give those of all\n",
                first->path, first->size);
    return missing == 0;
}

/* Read the first line of each file, and check that they are all ranks of one run. */
static bool files_check(char **paths, struct trace_file *files, size_t count)
{
    const struct trace_file **seen = NULL;
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        files[i].path = paths[i];
        good = origin_read(&files[i]);
        if (good && i == 0)
            seen = calloc((size_t)files[0].size + 1, sizeof *seen);
        if (good && !seen) {
            (void)refuse(paths[i], "out of memory");
            return false;
        }
        good = good && file_check(&files[0], &files[i], seen);
    }
    good = good && seen && missing_check(&files[0], seen);
    free(seen);
    return good;
}

/* ---- the events -------------------------------------------------------------------- */

/* Copy the bytes between the first line, already read, and the tail. */
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
        return refuse(path, "%s",
                      ferror(in) ? strerror(errno)
                                 : "the file ends early; write the trace again "
                                   "(tryst_trace_write)");
    fwrite(block, 1, (size_t)(end - block), out);
    return true;
}

static bool file_merge(struct trace_file *file, FILE *out)
{
    bool good = file_open(file) && events_copy(file->in, out, file->path);
    file_close(file);
    return good;
}

int trace_merge(char **paths, FILE *out)
{
    size_t count = 0;
    while (paths[count])
        count++;
    if (count == 0)
        return 1;
    struct trace_file *files = calloc(count, sizeof *files);
    if (!files) {
        (void)refuse(paths[0], "out of memory");
        return 1;
    }
    bool good = files_check(paths, files, count);
    if (good)
        fprintf(out, "%s%016" PRIx64 "\",\"size\":%" PRId32 "%s\n", head, files[0].run,
                files[0].size, middle);
    for (size_t i = 0; i < count && good; i++) {
        if (i > 0)
            fputc(',', out);
        good = file_merge(&files[i], out);
    }
    if (good)
        fprintf(out, "%s\n", tail);
    for (size_t i = 0; i < count; i++)
        file_close(&files[i]);
    free(files);
    return good ? 0 : 1;
}
