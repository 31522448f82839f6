/* SPDX-License-Identifier: Apache-2.0 */
/* See xml.h. A struct xml_node is libxml2's xmlNode under another name, so that only this
 * file includes libxml2. */
#include "xml.h"

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <limits.h>
#include <string.h>

#include "topology/base/library.h"

/* The type of a structured error handler's argument. A handler is needed: libxml2 prints
 * some errors (of encodings) that belong to no document. */
#if LIBXML_VERSION >= 21200
typedef const xmlError *error_pointer;
#else
typedef xmlErrorPtr error_pointer;
#endif

#define XML_CALLS(X)             \
    X(xmlInitParser)             \
    X(xmlNewParserCtxt)          \
    X(xmlFreeParserCtxt)         \
    X(xmlCtxtReadMemory)         \
    X(xmlCtxtGetLastError)       \
    X(xmlFreeDoc)                \
    X(xmlDocGetRootElement)      \
    X(xmlGetLineNo)              \
    X(xmlSetStructuredErrorFunc) \
    X(__xmlStructuredError)      \
    X(__xmlStructuredErrorContext)

static struct {
#define XML_MEMBER(name) __typeof__(&name) name;
    XML_CALLS(XML_MEMBER)
#undef XML_MEMBER
} calls;

#define XML_SYMBOL(name) {#name, (void **)&calls.name},
static const struct library_symbol symbols[] = {XML_CALLS(XML_SYMBOL){NULL, NULL}};
static struct library library = LIBRARY_INIT("libxml2.so.2", symbols);

/* Report why there is no document, without the line break that ends libxml2's message. */
static tryst_status refuse(const struct source *source, xmlParserCtxtPtr context)
{
    const xmlError *error = calls.xmlCtxtGetLastError(context);
    if (!error || !error->message)
        return source_refuse(source, (struct text_place){1, 1}, "this is not XML");
    if (error->code == XML_ERR_NO_MEMORY)
        return source_no_memory(source);
    struct text_place place = {error->line > 0 ? (unsigned)error->line : 1,
                               error->int2 > 0 ? (unsigned)error->int2 : 0};
    return source_refuse(source, place, "%.*s", (int)strcspn(error->message, "\n"),
                         error->message);
}

static void quiet(void *arg, error_pointer error)
{
    (void)arg;
    (void)error;
}

/* Call xmlCtxtReadMemory without output to stderr; afterwards this thread's error handler
 * is restored. */
static xmlDocPtr document_read(const struct source *source, xmlParserCtxtPtr context)
{
    xmlStructuredErrorFunc before = *calls.__xmlStructuredError();
    void *arg = *calls.__xmlStructuredErrorContext();
    calls.xmlSetStructuredErrorFunc(NULL, quiet);
    xmlDocPtr document = calls.xmlCtxtReadMemory(
        context, source->text, (int)source->bytes, NULL, NULL,
        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_BIG_LINES);
    calls.xmlSetStructuredErrorFunc(arg, before);
    return document;
}

tryst_status xml_open(const struct source *source, struct xml **xml_p)
{
    tryst_status status = library_need(&library, source->err);
    if (status != TRYST_OK)
        return status;
    if (source->bytes > INT_MAX / 2)
        return source_refuse(source, (struct text_place){1, 0},
                             "cannot read XML above 1 GiB");
    calls.xmlInitParser();
    xmlParserCtxtPtr context = calls.xmlNewParserCtxt();
    if (!context)
        return source_no_memory(source);
    xmlDocPtr document = document_read(source, context);
    if (!document || !calls.xmlDocGetRootElement(document))
        status = refuse(source, context);
    else if (document->intSubset && document->intSubset->entities)
        status = source_refuse(
            source, (struct text_place){1, 0},
            "cannot read XML that declares entities: remove its DTD's entities");
    calls.xmlFreeParserCtxt(context);
    if (status == TRYST_OK)
        *xml_p = (struct xml *)document;
    else if (document)
        calls.xmlFreeDoc(document);
    return status;
}

void xml_close(struct xml *xml)
{
    calls.xmlFreeDoc((xmlDocPtr)xml);
}

static const struct xml_node *element_from(const xmlNode *node)
{
    while (node && node->type != XML_ELEMENT_NODE)
        node = node->next;
    return (const struct xml_node *)node;
}

const struct xml_node *xml_root(const struct xml *xml)
{
    return (const struct xml_node *)calls.xmlDocGetRootElement((xmlDocPtr)xml);
}

const struct xml_node *xml_child(const struct xml_node *node)
{
    return element_from(((const xmlNode *)node)->children);
}

const struct xml_node *xml_next(const struct xml_node *node)
{
    return element_from(((const xmlNode *)node)->next);
}

const char *xml_name(const struct xml_node *node)
{
    return (const char *)((const xmlNode *)node)->name;
}

/* Return an attribute's value, which is one text node, since there are no entities. */
static const char *value_of(const xmlAttr *attribute)
{
    const xmlNode *value = attribute->children;
    return value && value->content ? (const char *)value->content : "";
}

const char *xml_attribute(const struct xml_node *node, const char *name)
{
    const xmlAttr *attribute = ((const xmlNode *)node)->properties;
    while (attribute && strcmp((const char *)attribute->name, name) != 0)
        attribute = attribute->next;
    return attribute ? value_of(attribute) : NULL;
}

struct text_place xml_place(const struct xml_node *node)
{
    long line = calls.xmlGetLineNo((const xmlNode *)node);
    return (struct text_place){line > 0 ? (unsigned)line : 1, 0};
}
