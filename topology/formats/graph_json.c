/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a graph from its dump in JSON, which json_write.c writes.
 *
 *     {"tryst_graph": 1,
 *      "nodes":  [{"name": "gpu0", "kind": "gpu", "parent": "machine", "os_index": 0,
 *                  "pci": "0000:1b:00.0"}],
 *      "links":  [{"from": "gpu0", "to": "nvswitch", "kind": "nvlink", "generation": 4,
 *                  "width": 18, "bytes_per_s": [450000000000, "table"]}],
 *      "routes": [{"from": "r0", "to": "r1", "via": ["sw0"]}],
 *      "skipped": [{"what": "0000:03:00.0",
 *                   "why": "a display adapter of a console is not a GPU of a rank"}]}
 *
 * One idea: members that are unknown, none or false are left out, so a file shows what is
 * known; each number has its origin beside it. "unlimited" is a bandwidth that never
 * limits. A rank's number is its position among the nodes of kind rank. An unknown member
 * is an error: it is a typing mistake.
 * Invariant: reading a dump gives an equal graph, and writing that graph gives the same
 * bytes.
 */
#include "graph_json.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/source/json_reader.h"
#include "json_write.h"

/* Read the member `name`, one of `count` words; *word_p is the word's number. */
static tryst_status word_read(const struct source *source, const struct json *object,
                              const char *name, const char *(*name_of)(int), int count,
                              int *word_p)
{
    const char *word;
    tryst_status status = reader_string(source, object, name, true, &word);
    if (status != TRYST_OK)
        return status;
    for (int i = 0; i < count; i++)
        if (strcmp(word, name_of(i)) == 0) {
            *word_p = i;
            return TRYST_OK;
        }
    return reader_refuse_member(source, object, name, "unknown %s \"%s\"", name, word);
}

static const char *node_kind_name(int kind)
{
    return graph_node_kind_name((enum graph_node_kind)kind);
}

static const char *link_kind_name(int kind)
{
    return graph_link_kind_name((enum graph_link_kind)kind);
}

static tryst_status end_read(const struct source *source, const struct json *object,
                             const char *name, bool needed, const struct graph *graph,
                             uint32_t *node_p)
{
    const char *end;
    tryst_status status = reader_string(source, object, name, needed, &end);
    if (status != TRYST_OK || !end)
        return status;
    *node_p = graph_find(graph, end);
    if (*node_p != GRAPH_NONE)
        return TRYST_OK;
    return reader_refuse_member(
        source, object, name, "unknown node \"%s\"%s", end,
        strcmp(name, "parent") == 0 ? "; a parent comes before its children" : "");
}

/* Read [value, origin]; a missing member or null is unknown. */
static tryst_status number_read(const struct source *source, const struct json *object,
                                const char *name, struct graph_number *number_p)
{
    *number_p = (struct graph_number){GRAPH_UNKNOWN, ORIGIN_NONE};
    const struct json *pair = json_member(object, name);
    if (pair && pair->kind != JSON_NULL) {
        const struct json *value = json_item(pair, 0);
        const char *word = json_string_of(value);
        const char *origin = json_string_of(json_item(pair, 1));
        bool unlimited = word && strcmp(word, "unlimited") == 0;
        if (json_count(pair) != 2 || !origin ||
            !(json_is_number(value) || json_is(value, JSON_NULL) || unlimited))
            return reader_refuse(source, pair,
                                 "\"%s\" must be [number, null or \"unlimited\", origin]",
                                 name);
        if (json_is_number(value))
            number_p->value = json_number_of(value);
        if (json_is_number(value) && !(number_p->value > 0) &&
            !(number_p->value == 0 && strcmp(name, "latency_ns") == 0))
            return reader_refuse(
                source, pair, "\"%s\" must be above 0; leave it out where unknown", name);
        if (unlimited)
            number_p->value = GRAPH_UNLIMITED;
        int i = 0;
        while (i < ORIGINS &&
               strcmp(graph_origin_name((enum graph_origin)i), origin) != 0)
            i++;
        if (i == ORIGINS)
            return reader_refuse(source, pair, "unknown origin \"%s\"", origin);
        number_p->origin = (enum graph_origin)i;
    }
    return TRYST_OK;
}

static tryst_status node_read(const struct source *source, const struct json *object,
                              void *arg)
{
    static const char *const names[] = {"name",  "kind", "parent", "os_index",
                                        "label", "pci",  "cpus",   NULL};
    struct graph *graph = arg;
    struct graph_node node = {.parent = GRAPH_NONE};
    uint64_t os_index = GRAPH_NONE;
    int kind = 0;
    tryst_status status = reader_members(source, object, "a node", names);
    if (status == TRYST_OK)
        status = reader_string(source, object, "name", true, &node.name);
    if (status == TRYST_OK)
        status = word_read(source, object, "kind", node_kind_name, NODE_KINDS, &kind);
    if (status == TRYST_OK)
        status = end_read(source, object, "parent", false, graph, &node.parent);
    if (status == TRYST_OK)
        status = reader_whole(source, object, "os_index", UINT32_MAX - 1, &os_index);
    if (status == TRYST_OK)
        status = reader_string(source, object, "label", false, &node.label);
    if (status == TRYST_OK)
        status = reader_string(source, object, "pci", false, &node.pci);
    if (status == TRYST_OK)
        status = reader_string(source, object, "cpus", false, &node.cpus);
    if (status != TRYST_OK)
        return status;
    struct err why = ERR_INIT;
    node.kind = (enum graph_node_kind)kind;
    node.os_index = (uint32_t)os_index;
    return reader_judge(source, object,
                        graph_node_add(graph, &node, &why, &(uint32_t){0}), &why);
}

static tryst_status link_read(const struct source *source, const struct json *object,
                              void *arg)
{
    static const char *const names[] = {"from",        "to",         "kind",
                                        "generation",  "width",      "down",
                                        "bytes_per_s", "latency_ns", NULL};
    struct graph *graph = arg;
    const struct json *down = json_member(object, "down");
    struct graph_link link = {.down = json_is(down, JSON_TRUE)};
    int kind = 0;
    uint64_t generation = 0, width = 0;
    tryst_status status = reader_members(source, object, "a link", names);
    if (status == TRYST_OK && down && !link.down && !json_is(down, JSON_FALSE))
        status =
            reader_refuse_member(source, object, "down", "\"down\" is true or false");
    if (status == TRYST_OK)
        status = end_read(source, object, "from", true, graph, &link.from);
    if (status == TRYST_OK)
        status = end_read(source, object, "to", true, graph, &link.to);
    if (status == TRYST_OK)
        status = word_read(source, object, "kind", link_kind_name, WIRE_KINDS, &kind);
    if (status == TRYST_OK)
        status = reader_whole(source, object, "generation", UINT16_MAX, &generation);
    if (status == TRYST_OK)
        status = reader_whole(source, object, "width", UINT16_MAX, &width);
    if (status == TRYST_OK)
        status = number_read(source, object, "bytes_per_s", &link.bytes_per_s);
    if (status == TRYST_OK)
        status = number_read(source, object, "latency_ns", &link.latency_ns);
    if (status != TRYST_OK)
        return status;
    struct err why = ERR_INIT;
    link.kind = (enum graph_link_kind)kind;
    link.generation = (uint16_t)generation;
    link.width = (uint16_t)width;
    return reader_judge(source, object,
                        graph_link_add(graph, &link, &why, &(uint32_t){0}), &why);
}

static tryst_status via_read(const struct source *source, const struct json *list,
                             const struct graph *graph, uint32_t *via)
{
    json_for_each (list, item) {
        const char *name = json_string_of(item);
        *via = name ? graph_find(graph, name) : GRAPH_NONE;
        if (*via++ == GRAPH_NONE)
            return reader_refuse(source, item, "\"via\" must list names of nodes");
    }
    return TRYST_OK;
}

static tryst_status route_read(const struct source *source, const struct json *object,
                               void *arg)
{
    static const char *const names[] = {"from", "to", "via", NULL};
    struct graph *graph = arg;
    struct graph_route route = {0};
    tryst_status status = reader_members(source, object, "a route", names);
    if (status == TRYST_OK)
        status = end_read(source, object, "from", true, graph, &route.from);
    if (status == TRYST_OK)
        status = end_read(source, object, "to", true, graph, &route.to);
    if (status != TRYST_OK)
        return status;
    const struct json *list = json_member(object, "via");
    if (!json_is(list, JSON_LIST))
        return reader_refuse_member(source, object, "via",
                                    "\"via\" must be a list of node names");
    uint32_t *via = mem_zalloc_array(json_count(list) + 1, sizeof *via);
    if (!via)
        return source_no_memory(source);
    status = via_read(source, list, graph, via);
    if (status == TRYST_OK) {
        struct err why = ERR_INIT;
        route.via = via;
        route.via_count = (uint32_t)json_count(list);
        status = reader_judge(source, object, graph_route_add(graph, &route, &why), &why);
    }
    mem_free(via);
    return status;
}

static tryst_status skip_read(const struct source *source, const struct json *object,
                              void *arg)
{
    static const char *const names[] = {"what", "why", NULL};
    struct graph *graph = arg;
    struct graph_skip skip;
    struct err why = ERR_INIT;
    tryst_status status = reader_members(source, object, "a skipped item", names);
    if (status == TRYST_OK)
        status = reader_string(source, object, "what", true, &skip.what);
    if (status == TRYST_OK)
        status = reader_string(source, object, "why", true, &skip.why);
    if (status != TRYST_OK)
        return status;
    return reader_judge(source, object, graph_skip_add(graph, &skip, &why), &why);
}

static tryst_status root_read(const struct source *source, const struct json *root,
                              struct graph *graph)
{
    static const char *const names[] = {"tryst_graph", "nodes",   "links",
                                        "routes",      "skipped", NULL};
    tryst_status status = reader_members(source, root, "a graph", names);
    if (status != TRYST_OK)
        return status;
    if (!json_whole_get(json_member(root, "tryst_graph"), GRAPH_JSON_VERSION,
                        GRAPH_JSON_VERSION, &(int64_t){0}))
        return reader_refuse_member(
            source, root, "tryst_graph",
            "\"tryst_graph\" must be %d, the version of this format", GRAPH_JSON_VERSION);
    status = reader_list(source, root, "nodes", false, node_read, graph);
    if (status == TRYST_OK)
        status = reader_list(source, root, "links", false, link_read, graph);
    if (status == TRYST_OK)
        status = reader_list(source, root, "routes", false, route_read, graph);
    if (status == TRYST_OK)
        status = reader_list(source, root, "skipped", false, skip_read, graph);
    return status;
}

tryst_status graph_json_read(const struct source *source, struct graph **graph_p)
{
    struct graph *graph = NULL;
    struct json *root;
    tryst_status status = json_parse(source, &root);
    if (status != TRYST_OK)
        return status;
    status = graph_open(&graph);
    if (status == TRYST_OK)
        status = root_read(source, root, graph);
    else
        status = source_no_memory(source);
    mem_free(root);
    if (status == TRYST_OK)
        *graph_p = graph;
    else
        graph_close(graph);
    return status;
}
