/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)
#define READ_BYTES     65536u

/* ---- files ------------------------------------------------------------------------- */

static tryst_status file_read(FILE *file, const char *name, struct err *err,
                              char **text_p, size_t *bytes_p)
{
    char *text = NULL;
    size_t room = 0, bytes = 0, got = 1;
    while (got > 0 && bytes <= FILE_BYTES_MAX) {
        if (!mem_reserve(&text, &room, bytes + READ_BYTES, 1)) {
            mem_free(text);
            return err_set(err, TRYST_E_NOMEM, "cannot read %s: out of memory", name);
        }
        got = fread(text + bytes, 1, READ_BYTES, file);
        bytes += got;
    }
    if (got == 0 && !ferror(file)) {
        *text_p = text;
        *bytes_p = bytes;
        return TRYST_OK;
    }
    mem_free(text);
    if (got > 0)
        return err_set(err, TRYST_E_INVALID, "cannot read %s: larger than 1 GiB", name);
    return err_set(err, TRYST_E_IO, "cannot read %s: %s", name, err_reason(errno));
}

tryst_status source_load(const char *path, struct err *err, const char **name_p,
                         char **text_p, size_t *bytes_p)
{
    bool standard = strcmp(path, "-") == 0;
    *name_p = standard ? "standard input" : *path ? path : "''";
    FILE *file = standard ? stdin : fd_file_open(path, "rbe");
    if (!file)
        return err_set(err, TRYST_E_IO, "cannot open %s: %s", *name_p, err_reason(errno));
    tryst_status status = file_read(file, *name_p, err, text_p, bytes_p);
    if (!standard)
        fclose(file);
    return status;
}

tryst_status source_load_or_words(const char *path, struct err *err, const char **name_p,
                                  char **text_p, size_t *bytes_p)
{
    bool words = strchr(path, ':') && !strchr(path, '/');
    if (!words || access(path, F_OK) == 0 || errno != ENOENT)
        return source_load(path, err, name_p, text_p, bytes_p);
    char *text = mem_strdup(path);
    if (!text)
        return err_set(err, TRYST_E_NOMEM, "cannot read %s: out of memory", path);
    *name_p = "synthetic";
    *text_p = text;
    *bytes_p = strlen(text);
    return TRYST_OK;
}

/* ---- refusing ---------------------------------------------------------------------- */

struct text_place text_place_at(const char *text, size_t bytes, size_t offset)
{
    struct text_place place = {1, 1};
    for (size_t i = 0; i < bytes && i < offset; i++) {
        if (text[i] == '\n')
            place = (struct text_place){place.line + 1, 1};
        else
            place.column += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return place;
}

tryst_status source_refuse(const struct source *source, struct text_place place,
                           const char *fmt, ...)
{
    char reason[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    if (!place.column)
        return err_set(source->err, TRYST_E_INVALID, "%.200s:%u: %s", source->name,
                       place.line, reason);
    return err_set(source->err, TRYST_E_INVALID, "%.200s:%u:%u: %s", source->name,
                   place.line, place.column, reason);
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
