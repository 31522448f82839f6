/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An XML file that hwloc wrote on another machine (lstopo x.xml).
 *
 * libxml2 reads it first: it says where it is not well formed, and its depth and words are bounded here; only then
 * does hwloc get it, written anew. Called by graph_io.
 */
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "hwloc_machine.h"
#include "source.h"
#include "text.h"
#include "xml.h"

#define DEPTH_MAX    64
#define ELEMENTS_MAX 1000000

struct check {
    const struct source *source;
    uint32_t elements_count;
};

/* Elements of hwloc 1 and 2. */
static bool word_known(const char *word)
{
    static const char *const words[] = {
        "object",  "info",          "page_type", "userdata",        "distances",
        "latency", "distances2",    "indexes",   "u64values",       "support",
        "memattr", "memattr_value", "cpukind",   "distances2hetero"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static tryst_status children_check(struct check *check, const struct xml_node *node,
                                   unsigned depth)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        const char *name = xml_name(child);
        if (!word_known(name))
            return source_refuse(check->source, xml_place(child),
                                 "hwloc has no element <%s>", name);
        if (strcmp(name, "object") == 0 && !xml_attribute(child, "type"))
            return source_refuse(check->source, xml_place(child),
                                 "an <object> without a type");
        if (depth == DEPTH_MAX || ++check->elements_count > ELEMENTS_MAX)
            return source_refuse(check->source, xml_place(child),
                                 "it goes deeper than %d, or on "
                                 "for more than %d elements: no machine does",
                                 DEPTH_MAX, ELEMENTS_MAX);
        status = children_check(check, child, depth + 1);
    }
    return status;
}

/* The element as hwloc itself writes it: its own small reader knows no comments and few escapes. */
static void node_write(const struct xml_node *node, struct text *text)
{
    const char *name, *value, *content = xml_text(node);
    text_addf(text, "<%s", xml_name(node));
    for (uint32_t i = 0; xml_attribute_at(node, i, &name, &value); i++) {
        text_addf(text, " %s=\"", name);
        text_add_xml(text, value);
        text_add(text, "\"");
    }
    if (!xml_child(node) && !*content) {
        text_add(text, "/>\n");
        return;
    }
    text_add(text, ">");
    if (xml_child(node)) {
        text_add(text, "\n");
        for (const struct xml_node *child = xml_child(node); child;
             child = xml_next(child))
            node_write(child, text);
    } else {
        text_add_xml(text, content);
    }
    text_addf(text, "</%s>\n", xml_name(node));
}

/* What hwloc will get, once every element is one of its own. */
static tryst_status text_check(const struct source *source, char **text_p)
{
    struct xml *xml;
    struct check check = {source, 0};
    tryst_status status = xml_open(source, &xml);
    if (status != TRYST_OK)
        return status;
    const struct xml_node *root = xml_root(xml);
    if (strcmp(xml_name(root), "topology") != 0)
        status = source_refuse(
            source, xml_place(root),
            "<%s> begins neither a topology of hwloc's (<topology>) nor one "
            "of NCCL's (<system>)",
            xml_name(root));
    else
        status = children_check(&check, root, 0);
    if (status == TRYST_OK) {
        struct text text = {0};
        text_add(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n");
        node_write(root, &text);
        status = text_take(&text, source->err, text_p);
    }
    xml_close(xml);
    return status;
}

static tryst_status xml_topology(const struct source *source,
                                 const struct hwloc_calls *calls,
                                 hwloc_topology_t *topology_p)
{
    char *text;
    tryst_status status = text_check(source, &text);
    if (status != TRYST_OK)
        return status;
    errno = 0;
    bool good = hwloc_topology_open(calls, text, topology_p);
    int error = errno;
    mem_free(text);
    if (good)
        return TRYST_OK;
    return source_refuse(source, (struct text_place){1, 0},
                         "it is XML, but hwloc finds no topology in it%s%s",
                         error ? ": " : "", error ? strerror(error) : "");
}

static tryst_status graph_of(const struct source *source, struct machine *machine,
                             struct graph **graph_p)
{
    static const struct machine_build build = {
        .prefix = "", .ranks = true, .network = GRAPH_NONE};
    struct err why = ERR_INIT;
    struct graph *graph;
    if (graph_open(&graph) != TRYST_OK)
        return source_no_memory(source);
    tryst_status status = machine_build(graph, machine, &build, &why);
    if (status == TRYST_OK)
        *graph_p = graph;
    else
        graph_close(graph);
    return source_judge(source, (struct text_place){1, 0}, status, &why);
}

tryst_status hwloc_xml_read(const struct source *source, struct graph **graph_p)
{
    const struct hwloc_calls *calls;
    struct machine machine = MACHINE_INIT;
    hwloc_topology_t topology;
    tryst_status status = hwloc_calls_get(source->err, &calls);
    if (status == TRYST_OK)
        status = xml_topology(source, calls, &topology);
    if (status != TRYST_OK)
        return status;
    status = hwloc_machine_read(calls, topology, ORIGIN_IMPORTED, &machine);
    calls->hwloc_topology_destroy(topology);
    status = status == TRYST_OK ? graph_of(source, &machine, graph_p)
                                : source_no_memory(source);
    machine_drop(&machine);
    return status;
}
