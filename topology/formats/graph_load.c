/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs from files; see graph_load.h. */
#include "graph_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/fd.h"
#include "graph_read.h"
#include "topology/base/text.h"

#define FILE_BYTES_MAX (1ul << 30)
#define READ_BYTES     65536u

static tryst_status file_read(FILE *file, const char *name, struct text *text,
                              struct err *err)
{
    char part[READ_BYTES];
    size_t got;
    while ((got = fread(part, 1, sizeof part, file)) > 0) {
        text_add_bytes(text, part, got);
        if (text->bytes > FILE_BYTES_MAX)
            return err_set(err, TRYST_E_INVALID, "%s is larger than 1 GiB", name);
    }
    if (ferror(file))
        return err_set(err, TRYST_E_IO, "%s cannot be read: %s", name, strerror(errno));
    if (text->failed)
        return err_set(err, TRYST_E_NOMEM, "no memory to read %s", name);
    return TRYST_OK;
}

/* "node:4 gpu:8": words, where a path was wanted and no such file is. */
static bool words_are_synthetic(const char *path)
{
    return strchr(path, ':') && !strchr(path, '/');
}

static tryst_status text_read(const char *path, const char *name, struct text *text,
                              struct err *err)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fd_file_open(path, "rbe");
    if (!file)
        return err_set(err, TRYST_E_IO, "cannot open %s: %s", name, err_reason(errno));
    tryst_status status = file_read(file, name, text, err);
    if (!standard)
        fclose(file);
    return status;
}

tryst_status graph_load(const char *path, struct err *err, struct graph **graph_p)
{
    struct text text = {0};
    const char *name = strcmp(path, "-") == 0 ? "standard input" : *path ? path : "''";
    errno = 0;
    tryst_status status = text_read(path, name, &text, err);
    if (status == TRYST_E_IO && errno == ENOENT && words_are_synthetic(path))
        status = graph_read(path, strlen(path), "synthetic", GRAPH_AUTO, err, graph_p);
    else if (status == TRYST_OK)
        status = graph_read(text.data ? text.data : "", text.bytes, name, GRAPH_AUTO, err,
                            graph_p);
    text_drop(&text);
    return status;
}
