/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a cluster from JSON, the exchange format for planning.
 *
 *     {"ranks": ["h0","h1"], "nodes": ["sw0"],
 *      "links": [{"a":"h0","b":"sw0","gbit_per_s":0.8,"latency_us":20},
 *                {"from":"h1","to":"sw0","gbit_per_s":0.4},
 *                {"from":"sw0","to":"h1","gbit_per_s":0.2}],
 *      "routes": [{"from":"h0","to":"h1","via":["sw0"]}]}
 *
 * "a" and "b" are the ends of a link with both directions, "from" and "to" of one
 * direction. Optional: "nodes" (which forward), "routes" and "latency_us".
 *
 * One idea: each object has a table of its valid members, so a typing mistake is an error
 * and not a default.
 * Invariant: ranks are numbered in the order of "ranks"; the graph's nodes and links are
 * in the file's order.
 */
#include "cluster_json.h"

#include "core/memory/alloc.h"
#include "core/source/json_reader.h"

/* A rate or latency outside these limits is a typing mistake. The upper limits also keep
 * sums within the range of a double. */
#define GBIT_PER_S_MIN 1e-9
#define GBIT_PER_S_MAX 1e12
#define LATENCY_US_MAX 1e12

/* ---- ranks and nodes --------------------------------------------------------------- */

static tryst_status name_read(struct json_reader *reader, json_t *item,
                              struct graph *graph, enum graph_node_kind kind)
{
    const char *name = json_string_value(item);
    struct graph_node node = {
        .name = name, .kind = kind, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    struct err why = ERR_INIT;
    if (!name)
        return reader_refuse(reader, "a name is needed here: a string in quotes");
    uint32_t before = graph_find(graph, name);
    if (before != GRAPH_NONE && graph->nodes[before].kind != kind)
        return reader_refuse(
            reader,
            "\"%.100s\" is both in \"ranks\" and in \"nodes\": a rank forwards "
            "nothing; remove it from \"nodes\"",
            name);
    return reader_judge(reader, graph_node_add(graph, &node, &why, NULL), &why);
}

static tryst_status rank_read(struct json_reader *reader, json_t *item, void *arg)
{
    return name_read(reader, item, arg, NODE_RANK);
}

static tryst_status node_read(struct json_reader *reader, json_t *item, void *arg)
{
    return name_read(reader, item, arg, NODE_SWITCH);
}

/* ---- links ------------------------------------------------------------------------- */

static tryst_status end_read(struct json_reader *reader, json_t *object,
                             const char *member, const struct graph *graph,
                             uint32_t *node_p)
{
    json_t *value = json_object_get(object, member);
    const char *name = json_string_value(value);
    if (!value)
        return reader_refuse(reader, "\"%s\" is missing: the name of a rank or node",
                             member);
    if (!name)
        return reader_refuse_member(reader, member,
                                    "\"%s\" must be the name of a rank or node", member);
    *node_p = graph_find(graph, name);
    if (*node_p != GRAPH_NONE)
        return TRYST_OK;
    return reader_refuse_member(
        reader, member, "\"%.100s\" is neither in \"ranks\" nor in \"nodes\"", name);
}

/* Choose the members that name the ends: "a" and "b" (*both_p is true), or "from" and
 * "to". */
static tryst_status ends_choose(struct json_reader *reader, json_t *object, bool *both_p)
{
    bool ways = json_object_get(object, "a") || json_object_get(object, "b");
    bool way = json_object_get(object, "from") || json_object_get(object, "to");
    if (ways && way)
        return reader_refuse(reader,
                             "a link has either \"a\" and \"b\" (both ways) or \"from\" "
                             "and \"to\" (one way), not both");
    if (!ways && !way)
        return reader_refuse(reader,
                             "a link needs its ends: \"a\" and \"b\" (both ways) or "
                             "\"from\" and \"to\" (one way)");
    *both_p = ways;
    return TRYST_OK;
}

static tryst_status link_read(struct json_reader *reader, json_t *item, void *arg)
{
    static const char *const names[] = {"a",          "b",          "from", "to",
                                        "gbit_per_s", "latency_us", NULL};
    struct graph *graph = arg;
    struct graph_link link = {.latency_ns = {GRAPH_UNKNOWN, ORIGIN_NONE}};
    struct err why = ERR_INIT;
    double gbit_per_s = 0, latency_us = 0;
    bool both = false;
    tryst_status status = reader_members(reader, item, "a link", names);
    if (status == TRYST_OK)
        status = ends_choose(reader, item, &both);
    if (status == TRYST_OK)
        status = end_read(reader, item, both ? "a" : "from", graph, &link.from);
    if (status == TRYST_OK)
        status = end_read(reader, item, both ? "b" : "to", graph, &link.to);
    if (status == TRYST_OK && !json_object_get(item, "gbit_per_s"))
        return reader_refuse(reader,
                             "\"gbit_per_s\" is missing: the bandwidth of the link");
    if (status == TRYST_OK)
        status = reader_number(reader, item, "gbit_per_s", GBIT_PER_S_MIN, GBIT_PER_S_MAX,
                               &gbit_per_s);
    if (status == TRYST_OK && json_object_get(item, "latency_us")) {
        status =
            reader_number(reader, item, "latency_us", 0, LATENCY_US_MAX, &latency_us);
        link.latency_ns = (struct graph_number){latency_us * 1e3, ORIGIN_IMPORTED};
    }
    if (status != TRYST_OK)
        return status;
    link.bytes_per_s = (struct graph_number){gbit_per_s * 1e9 / 8, ORIGIN_IMPORTED};
    if (both)
        return reader_judge(reader, graph_wire_add(graph, &link, &why), &why);
    return reader_judge(reader, graph_link_add(graph, &link, &why, NULL), &why);
}

/* ---- given routes ------------------------------------------------------------------ */

static tryst_status via_read(struct json_reader *reader, json_t *list,
                             const struct graph *graph, uint32_t *via)
{
    json_t *item;
    size_t i;
    reader_enter(reader, "via", 0);
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        reader_enter(reader, NULL, i);
        if (!name)
            return reader_refuse(reader, "a name is needed here: a string in quotes");
        via[i] = graph_find(graph, name);
        if (via[i] == GRAPH_NONE)
            return reader_refuse(
                reader, "\"%.100s\" is neither in \"ranks\" nor in \"nodes\"", name);
        reader_leave(reader);
    }
    reader_leave(reader);
    return TRYST_OK;
}

static tryst_status route_read(struct json_reader *reader, json_t *item, void *arg)
{
    static const char *const names[] = {"from", "to", "via", NULL};
    struct graph *graph = arg;
    struct graph_route route = {0};
    struct err why = ERR_INIT;
    tryst_status status = reader_members(reader, item, "a route", names);
    if (status == TRYST_OK)
        status = end_read(reader, item, "from", graph, &route.from);
    if (status == TRYST_OK)
        status = end_read(reader, item, "to", graph, &route.to);
    if (status != TRYST_OK)
        return status;
    json_t *list = json_object_get(item, "via");
    if (!json_is_array(list))
        return reader_refuse(reader,
                             "a route needs \"via\": the list of nodes between its "
                             "ends ([] where there are none)");
    uint32_t *via = mem_zalloc_array(json_array_size(list), sizeof *via);
    if (!via)
        return source_no_memory(reader->source);
    status = via_read(reader, list, graph, via);
    route.via = via;
    route.via_count = (uint32_t)json_array_size(list);
    if (status == TRYST_OK)
        status = reader_judge(reader, graph_route_add(graph, &route, &why), &why);
    mem_free(via);
    return status;
}

/* ---- the cluster ------------------------------------------------------------------- */

static tryst_status root_read(struct json_reader *reader, json_t *root,
                              struct graph *graph)
{
    static const char *const names[] = {"ranks", "nodes", "links", "routes", NULL};
    tryst_status status = reader_members(reader, root, "a cluster", names);
    if (status == TRYST_OK)
        status = reader_list(reader, root, "ranks", true, rank_read, graph);
    if (status == TRYST_OK && graph->ranks_count == 0)
        return reader_refuse_member(
            reader, "ranks", "\"ranks\" is empty: a cluster has at least one rank");
    if (status == TRYST_OK)
        status = reader_list(reader, root, "nodes", false, node_read, graph);
    if (status == TRYST_OK)
        status = reader_list(reader, root, "links", true, link_read, graph);
    if (status == TRYST_OK)
        status = reader_list(reader, root, "routes", false, route_read, graph);
    return status;
}

tryst_status cluster_json_read(const struct source *source, struct graph **graph_p)
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
