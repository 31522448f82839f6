/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See graph_read.h. One table maps each format to its name, another to its reader.
 */
#include "graph_read.h"

#include <string.h>

#include "cluster_json.h"
#include "core/memory/alloc.h"
#include "core/source/source.h"
#include "graph_json.h"
#include "hwloc_xml.h"
#include "nccl_xml.h"
#include "synthetic.h"

static const char *const format_names[GRAPH_FORMATS] = {
    [GRAPH_AUTO] = "auto",         [GRAPH_JSON] = "json",
    [GRAPH_CLUSTER] = "cluster",   [GRAPH_HWLOC_XML] = "xml",
    [GRAPH_NCCL_XML] = "nccl-xml", [GRAPH_SYNTHETIC] = "synthetic",
    [GRAPH_TEXT] = "text",         [GRAPH_DOT] = "dot",
};

enum graph_format graph_format_parse(const char *text)
{
    int format = GRAPH_AUTO;
    while (format < GRAPH_FORMATS && strcmp(text, format_names[format]) != 0)
        format++;
    return (enum graph_format)format;
}

const char *graph_format_name(enum graph_format format)
{
    return format_names[format];
}

#if !TRYST_HAVE_XML
tryst_status nccl_xml_read(const struct source *source, struct graph **graph_p)
{
    (void)graph_p;
    return err_set(source->err, TRYST_E_UNSUPPORTED,
                   "cannot read %s: this build has no XML; build with libxml2-dev",
                   source->name);
}
#endif

typedef tryst_status (*read_fn)(const struct source *source, struct graph **graph_p);

static const read_fn readers[GRAPH_FORMATS] = {
    [GRAPH_JSON] = graph_json_read,     [GRAPH_CLUSTER] = cluster_json_read,
    [GRAPH_HWLOC_XML] = hwloc_xml_read, [GRAPH_NCCL_XML] = nccl_xml_read,
    [GRAPH_SYNTHETIC] = synthetic_read,
};

static bool text_begins(const char *text, size_t bytes, const char *word)
{
    size_t length = strlen(word);
    return bytes >= length && memcmp(text, word, length) == 0;
}

/* Return the offset of the first `word` at or after byte `from`; `bytes` if there is
 * none. */
static size_t text_find(const char *text, size_t bytes, size_t from, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = from; i + length <= bytes; i++)
        if (memcmp(text + i, word, length) == 0)
            return i;
    return bytes;
}

/* True if the name of the XML text's root element begins with `root`. Comments before the
 * root are skipped whole. */
static bool xml_root_is(const char *text, size_t bytes, const char *root)
{
    size_t length = strlen(root), i = text_find(text, bytes, 0, "<");
    while (i + 1 + length <= bytes && (text[i + 1] == '?' || text[i + 1] == '!')) {
        bool comment = i + 4 <= bytes && memcmp(text + i, "<!--", 4) == 0;
        i = text_find(text, bytes, i + 1, comment ? "-->" : ">");
        i = text_find(text, bytes, i, "<");
    }
    return i + 1 + length <= bytes && memcmp(text + i + 1, root, length) == 0;
}

/* Return the name of the compression that a text's first bytes show; NULL for none. */
static const char *compressed_form(const char *text, size_t bytes)
{
    static const struct form {
        const char *magic, *name;
    } forms[] = {{"\x1f\x8b", "gzip"},
                 {"BZh", "bzip2"},
                 {"\xfd"
                  "7zXZ",
                  "xz"},
                 {"\x28\xb5\x2f\xfd", "zstd"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (text_begins(text, bytes, forms[i].magic))
            return forms[i].name;
    return NULL;
}

/* Tryst writes "tryst_graph" into the first line of a dump; other writers may put other
 * members before it. */
#define DETECT_BYTES 4096

static bool json_is_dump(const char *text, size_t bytes)
{
    bytes = bytes < DETECT_BYTES ? bytes : DETECT_BYTES;
    return text_find(text, bytes, 0, "\"tryst_graph\"") < bytes;
}

static enum graph_format format_guess(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr(" \t\r\n\xef\xbb\xbf", text[i]) && text[i])
        i++;
    if (i < bytes && text[i] == '{')
        return json_is_dump(text, bytes) ? GRAPH_JSON : GRAPH_CLUSTER;
    /* no graph begins with '['; the cluster reader reports that */
    if (i < bytes && text[i] == '[')
        return GRAPH_CLUSTER;
    if (i < bytes && text[i] == '<')
        return xml_root_is(text, bytes, "topology") ? GRAPH_HWLOC_XML : GRAPH_NCCL_XML;
    return GRAPH_SYNTHETIC;
}

tryst_status graph_read(const char *text, size_t bytes, const char *name,
                        enum graph_format format, struct err *err, struct graph **graph_p)
{
    struct err why = ERR_INIT;
    struct source source = {text, bytes, name, &why};
    struct graph *graph = NULL;
    const char *compressed = compressed_form(text, bytes);
    if (compressed && format == GRAPH_AUTO)
        return err_set(err, TRYST_E_INVALID,
                       "%s:1: the file is compressed with %s: decompress it first", name,
                       compressed);
    if (format == GRAPH_AUTO)
        format = format_guess(text, bytes);
    if (format < 0 || format >= GRAPH_FORMATS || !readers[format])
        return err_set(err, TRYST_E_UNSUPPORTED,
                       "cannot read %s: this build does not read the format %s", name,
                       format_names[format]);
    tryst_status status = readers[format](&source, &graph);
    if (status == TRYST_OK)
        status = graph_seal(graph, &why);
    if (status == TRYST_OK) {
        *graph_p = graph;
        return status;
    }
    graph_close(graph);
    return err_set(err, status, "%s", why.text);
}

/* ---- from a path ------------------------------------------------------------------- */

tryst_status graph_load(const char *path, struct err *err, struct graph **graph_p)
{
    const char *name;
    char *text;
    size_t bytes;
    tryst_status status = source_load_or_words(path, err, &name, &text, &bytes);
    if (status != TRYST_OK)
        return status;
    status = graph_read(text, bytes, name, GRAPH_AUTO, err, graph_p);
    mem_free(text);
    return status;
}
