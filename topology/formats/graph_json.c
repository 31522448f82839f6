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
static tryst_status word_read(struct json_reader *reader, json_t *object,
                              const char *name, const char *(*name_of)(int), int count,
                              int *word_p)
{
    const char *word;
    tryst_status status = reader_string(reader, object, name, true, &word);
    if (status != TRYST_OK)
        return status;
    for (int i = 0; i < count; i++)
        if (strcmp(word, name_of(i)) == 0) {
            *word_p = i;
            return TRYST_OK;
        }
    reader_enter(reader, name, 0);
    return reader_refuse(reader, "unknown %s \"%s\"", name, word);
}

static const char *node_kind_name(int kind)
{
    return graph_node_kind_name((enum graph_node_kind)kind);
}

static const char *link_kind_name(int kind)
{
    return graph_link_kind_name((enum graph_link_kind)kind);
}

static tryst_status end_read(struct json_reader *reader, json_t *object, const char *name,
                             bool needed, const struct graph *graph, uint32_t *node_p)
{
    const char *end;
    tryst_status status = reader_string(reader, object, name, needed, &end);
    if (status != TRYST_OK || !end)
        return status;
    *node_p = graph_find(graph, end);
    if (*node_p != GRAPH_NONE)
        return TRYST_OK;
    reader_enter(reader, name, 0);
    return reader_refuse(
        reader, "unknown node \"%s\"%s", end,
        strcmp(name, "parent") == 0 ? "; a parent comes before its children" : "");
}

/* Read [value, origin]; a missing member or null is unknown. */
static tryst_status number_read(struct json_reader *reader, json_t *object,
                                const char *name, struct graph_number *number_p)
{
    *number_p = (struct graph_number){GRAPH_UNKNOWN, ORIGIN_NONE};
    json_t *pair = reader_enter_member(reader, object, name);
    if (pair && !json_is_null(pair)) {
        json_t *value = json_array_get(pair, 0);
        const char *word = json_string_value(value);
        const char *origin = json_string_value(json_array_get(pair, 1));
        bool unlimited = word && strcmp(word, "unlimited") == 0;
        if (json_array_size(pair) != 2 || !origin ||
            !(json_is_number(value) || json_is_null(value) || unlimited))
            return reader_refuse(
                reader, "\"%s\" must be [number, null or \"unlimited\", origin]", name);
        if (json_is_number(value))
            number_p->value = json_number_value(value);
        if (json_is_number(value) && !(number_p->value > 0) &&
            !(number_p->value == 0 && strcmp(name, "latency_ns") == 0))
            return reader_refuse(
                reader, "\"%s\" must be above 0; leave it out where unknown", name);
        if (unlimited)
            number_p->value = GRAPH_UNLIMITED;
        int i = 0;
        while (i < ORIGINS &&
               strcmp(graph_origin_name((enum graph_origin)i), origin) != 0)
            i++;
        if (i == ORIGINS)
            return reader_refuse(reader, "unknown origin \"%s\"", origin);
        number_p->origin = (enum graph_origin)i;
    }
    reader_leave(reader);
    return TRYST_OK;
}

static tryst_status node_read(struct json_reader *reader, json_t *object, void *arg)
{
    static const char *const names[] = {"name",  "kind", "parent", "os_index",
                                        "label", "pci",  "cpus",   NULL};
    struct graph *graph = arg;
    struct graph_node node = {.parent = GRAPH_NONE};
    uint64_t os_index = GRAPH_NONE;
    int kind = 0;
    tryst_status status = reader_members(reader, object, "a node", names);
    if (status == TRYST_OK)
        status = reader_string(reader, object, "name", true, &node.name);
    if (status == TRYST_OK)
        status = word_read(reader, object, "kind", node_kind_name, NODE_KINDS, &kind);
    if (status == TRYST_OK)
        status = end_read(reader, object, "parent", false, graph, &node.parent);
    if (status == TRYST_OK)
        status = reader_whole(reader, object, "os_index", UINT32_MAX - 1, &os_index);
    if (status == TRYST_OK)
        status = reader_string(reader, object, "label", false, &node.label);
    if (status == TRYST_OK)
        status = reader_string(reader, object, "pci", false, &node.pci);
    if (status == TRYST_OK)
        status = reader_string(reader, object, "cpus", false, &node.cpus);
    if (status != TRYST_OK)
        return status;
    struct err why = ERR_INIT;
    node.kind = (enum graph_node_kind)kind;
    node.os_index = (uint32_t)os_index;
    return reader_judge(reader, graph_node_add(graph, &node, &why, &(uint32_t){0}), &why);
}

static tryst_status link_read(struct json_reader *reader, json_t *object, void *arg)
{
    static const char *const names[] = {"from",        "to",         "kind",
                                        "generation",  "width",      "down",
                                        "bytes_per_s", "latency_ns", NULL};
    struct graph *graph = arg;
    struct graph_link link = {.down = json_is_true(json_object_get(object, "down"))};
    int kind = 0;
    uint64_t generation = 0, width = 0;
    tryst_status status = reader_members(reader, object, "a link", names);
    if (status == TRYST_OK)
        status = end_read(reader, object, "from", true, graph, &link.from);
    if (status == TRYST_OK)
        status = end_read(reader, object, "to", true, graph, &link.to);
    if (status == TRYST_OK)
        status = word_read(reader, object, "kind", link_kind_name, WIRE_KINDS, &kind);
    if (status == TRYST_OK)
        status = reader_whole(reader, object, "generation", UINT16_MAX, &generation);
    if (status == TRYST_OK)
        status = reader_whole(reader, object, "width", UINT16_MAX, &width);
    if (status == TRYST_OK)
        status = number_read(reader, object, "bytes_per_s", &link.bytes_per_s);
    if (status == TRYST_OK)
        status = number_read(reader, object, "latency_ns", &link.latency_ns);
    if (status != TRYST_OK)
        return status;
    struct err why = ERR_INIT;
    link.kind = (enum graph_link_kind)kind;
    link.generation = (uint16_t)generation;
    link.width = (uint16_t)width;
    return reader_judge(reader, graph_link_add(graph, &link, &why, &(uint32_t){0}), &why);
}

static tryst_status via_read(struct json_reader *reader, json_t *list,
                             const struct graph *graph, uint32_t *via)
{
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        reader_enter(reader, NULL, i);
        via[i] = name ? graph_find(graph, name) : GRAPH_NONE;
        if (via[i] == GRAPH_NONE)
            return reader_refuse(reader, "\"via\" must list names of nodes");
        reader_leave(reader);
    }
    return TRYST_OK;
}

static tryst_status route_read(struct json_reader *reader, json_t *object, void *arg)
{
    static const char *const names[] = {"from", "to", "via", NULL};
    struct graph *graph = arg;
    struct graph_route route = {0};
    tryst_status status = reader_members(reader, object, "a route", names);
    if (status == TRYST_OK)
        status = end_read(reader, object, "from", true, graph, &route.from);
    if (status == TRYST_OK)
        status = end_read(reader, object, "to", true, graph, &route.to);
    if (status != TRYST_OK)
        return status;
    json_t *list = reader_enter_member(reader, object, "via");
    if (!json_is_array(list))
        return reader_refuse(reader, "\"via\" must be a list of node names");
    uint32_t *via = mem_zalloc_array(json_array_size(list) + 1, sizeof *via);
    if (!via)
        return source_no_memory(reader->source);
    status = via_read(reader, list, graph, via);
    reader_leave(reader);
    if (status == TRYST_OK) {
        struct err why = ERR_INIT;
        route.via = via;
        route.via_count = (uint32_t)json_array_size(list);
        status = reader_judge(reader, graph_route_add(graph, &route, &why), &why);
    }
    mem_free(via);
    return status;
}

static tryst_status skip_read(struct json_reader *reader, json_t *object, void *arg)
{
    static const char *const names[] = {"what", "why", NULL};
    struct graph *graph = arg;
    struct graph_skip skip;
    struct err why = ERR_INIT;
    tryst_status status = reader_members(reader, object, "a skipped item", names);
    if (status == TRYST_OK)
        status = reader_string(reader, object, "what", true, &skip.what);
    if (status == TRYST_OK)
        status = reader_string(reader, object, "why", true, &skip.why);
    if (status != TRYST_OK)
        return status;
    return reader_judge(reader, graph_skip_add(graph, &skip, &why), &why);
}

static tryst_status root_read(struct json_reader *reader, json_t *root,
                              struct graph *graph)
{
    static const char *const names[] = {"tryst_graph", "nodes",   "links",
                                        "routes",      "skipped", NULL};
    tryst_status status = reader_members(reader, root, "a graph", names);
    if (status != TRYST_OK)
        return status;
    json_t *version = reader_enter_member(reader, root, "tryst_graph");
    if (!json_is_integer(version) || json_integer_value(version) != GRAPH_JSON_VERSION)
        return reader_refuse(reader,
                             "\"tryst_graph\" must be %d, the version of this format",
                             GRAPH_JSON_VERSION);
    reader_leave(reader);
    status = reader_list(reader, root, "nodes", false, node_read, graph);
    if (status == TRYST_OK)
        status = reader_list(reader, root, "links", false, link_read, graph);
    if (status == TRYST_OK)
        status = reader_list(reader, root, "routes", false, route_read, graph);
    if (status == TRYST_OK)
        status = reader_list(reader, root, "skipped", false, skip_read, graph);
    return status;
}

tryst_status graph_json_read(const struct source *source, struct graph **graph_p)
{
    struct json_reader reader = {.source = source};
    struct graph *graph = NULL;
    json_t *root;
    tryst_status status = reader_parse(source, &root);
    if (status != TRYST_OK)
        return status;
    status = graph_open(&graph);
    if (status == TRYST_OK)
        status = root_read(&reader, root, graph);
    else
        status = source_no_memory(source);
    json_decref(root);
    if (status == TRYST_OK)
        *graph_p = graph;
    else
        graph_close(graph);
    return status;
}
