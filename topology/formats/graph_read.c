/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which format a name or a text is, and who reads it: one table. See graph_read.h.
 */
#include "graph_read.h"

#include <string.h>

#include "cluster_json.h"
#include "graph_json.h"
#include "hwloc_xml.h"
#include "nccl_xml.h"
#include "source.h"
#include "synthetic.h"

static const char *const format_names[GRAPH_FORMATS] = {
    [GRAPH_AUTO] = "auto",         [GRAPH_JSON] = "json",
    [GRAPH_CLUSTER] = "cluster",   [GRAPH_HWLOC_XML] = "xml",
    [GRAPH_NCCL_XML] = "nccl-xml", [GRAPH_SYNTHETIC] = "synthetic",
    [GRAPH_TEXT] = "text",         [GRAPH_DOT] = "dot",
    [GRAPH_SVG] = "svg",
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

#if TRYST_HAVE_XML
#define XML_READ(read) read
#else
#define XML_READ(read) xml_left_out

static tryst_status xml_left_out(const struct source *source, struct graph **graph_p)
{
    (void)graph_p;
    return err_set(source->err, TRYST_E_UNSUPPORTED,
                   "%s: reading XML needs a build with libxml2-dev", source->name);
}
#endif

typedef tryst_status (*read_fn)(const struct source *source, struct graph **graph_p);

static const read_fn readers[GRAPH_FORMATS] = {
    [GRAPH_JSON] = graph_json_read,
    [GRAPH_CLUSTER] = cluster_json_read,
    [GRAPH_HWLOC_XML] = XML_READ(hwloc_xml_read),
    [GRAPH_NCCL_XML] = XML_READ(nccl_xml_read),
    [GRAPH_SYNTHETIC] = synthetic_read,
};

/* Whether `word` stands in the text before `limit` bytes. */
static bool text_has(const char *text, size_t bytes, size_t limit, const char *word)
{
    size_t length = strlen(word);
    bytes = bytes < limit ? bytes : limit;
    for (size_t i = 0; i + length <= bytes; i++)
        if (memcmp(text + i, word, length) == 0)
            return true;
    return false;
}

/* The name of an XML text's root element begins with `root`. */
static bool xml_root_is(const char *text, size_t bytes, const char *root)
{
    size_t length = strlen(root);
    for (size_t i = 0; i + 1 + length <= bytes; i++) {
        bool name = text[i] == '<' && text[i + 1] != '?' && text[i + 1] != '!';
        if (name)
            return memcmp(text + i + 1, root, length) == 0;
    }
    return false;
}

#define LOOK_BYTES \
    4096 /* our dump says what it is in its first line; other writers may sort members */

static enum graph_format format_guess(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr(" \t\r\n\xef\xbb\xbf", text[i]) && text[i])
        i++;
    if (i < bytes && text[i] == '{')
        return text_has(text, bytes, LOOK_BYTES, "\"tryst_graph\"") ? GRAPH_JSON
                                                                    : GRAPH_CLUSTER;
    if (i < bytes && text[i] == '[') /* it is none, and that reader says why */
        return GRAPH_CLUSTER;
    if (i < bytes && text[i] == '<')
        return xml_root_is(text, bytes, "system") ? GRAPH_NCCL_XML : GRAPH_HWLOC_XML;
    return GRAPH_SYNTHETIC;
}

tryst_status graph_read(const char *text, size_t bytes, const char *name,
                        enum graph_format format, struct err *err, struct graph **graph_p)
{
    struct err why = ERR_INIT;
    struct source source = {text, bytes, name, &why};
    struct graph *graph = NULL;
    if (format == GRAPH_AUTO)
        format = format_guess(text, bytes);
    if (format < 0 || format >= GRAPH_FORMATS || !readers[format])
        return err_set(err, TRYST_E_UNSUPPORTED, "%s: this build cannot read %s", name,
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
