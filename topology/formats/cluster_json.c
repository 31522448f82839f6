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

static tryst_status name_read(const struct source *source, const struct json *item,
                              struct graph *graph, enum graph_node_kind kind)
{
    const char *name = json_string_of(item);
    struct graph_node node = {
        .name = name, .kind = kind, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    struct err why = ERR_INIT;
    if (!name)
        return reader_refuse(source, item, "a name is needed here: a string in quotes");
    uint32_t before = graph_find(graph, name);
    if (before != GRAPH_NONE && graph->nodes[before].kind != kind)
        return reader_refuse(
            source, item,
            "\"%.100s\" is both in \"ranks\" and in \"nodes\": a rank forwards "
            "nothing; remove it from \"nodes\"",
            name);
    return reader_judge(source, item, graph_node_add(graph, &node, &why, NULL), &why);
}

static tryst_status rank_read(const struct source *source, const struct json *item,
                              void *arg)
{
    return name_read(source, item, arg, NODE_RANK);
}

static tryst_status node_read(const struct source *source, const struct json *item,
                              void *arg)
{
    return name_read(source, item, arg, NODE_SWITCH);
}

/* ---- links ------------------------------------------------------------------------- */

static tryst_status end_read(const struct source *source, const struct json *object,
                             const char *member, const struct graph *graph,
                             uint32_t *node_p)
{
    const struct json *value = json_member(object, member);
    const char *name = json_string_of(value);
    if (!value)
        return reader_refuse(source, object,
                             "\"%s\" is missing: the name of a rank or node", member);
    if (!name)
        return reader_refuse_member(source, object, member,
                                    "\"%s\" must be the name of a rank or node", member);
    *node_p = graph_find(graph, name);
    if (*node_p != GRAPH_NONE)
        return TRYST_OK;
    return reader_refuse_member(source, object, member,
                                "\"%.100s\" is neither in \"ranks\" nor in \"nodes\"",
                                name);
}

/* Choose the members that name the ends: "a" and "b" (*both_p is true), or "from" and
 * "to". */
static tryst_status ends_choose(const struct source *source, const struct json *object,
                                bool *both_p)
{
    bool ways = json_member(object, "a") || json_member(object, "b");
    bool way = json_member(object, "from") || json_member(object, "to");
    if (ways && way)
        return reader_refuse(source, object,
                             "a link has either \"a\" and \"b\" (both ways) or \"from\" "
                             "and \"to\" (one way), not both");
    if (!ways && !way)
        return reader_refuse(source, object,
                             "a link needs its ends: \"a\" and \"b\" (both ways) or "
                             "\"from\" and \"to\" (one way)");
    *both_p = ways;
    return TRYST_OK;
}

static tryst_status link_read(const struct source *source, const struct json *item,
                              void *arg)
{
    static const char *const names[] = {"a",          "b",          "from", "to",
                                        "gbit_per_s", "latency_us", NULL};
    struct graph *graph = arg;
    struct graph_link link = {.latency_ns = {GRAPH_UNKNOWN, ORIGIN_NONE}};
    struct err why = ERR_INIT;
    double gbit_per_s = 0, latency_us = 0;
    bool both = false;
    tryst_status status = reader_members(source, item, "a link", names);
    if (status == TRYST_OK)
        status = ends_choose(source, item, &both);
    if (status == TRYST_OK)
        status = end_read(source, item, both ? "a" : "from", graph, &link.from);
    if (status == TRYST_OK)
        status = end_read(source, item, both ? "b" : "to", graph, &link.to);
    if (status == TRYST_OK && !json_member(item, "gbit_per_s"))
        return reader_refuse(source, item,
                             "\"gbit_per_s\" is missing: the bandwidth of the link");
    if (status == TRYST_OK)
        status = reader_number(source, item, "gbit_per_s", GBIT_PER_S_MIN, GBIT_PER_S_MAX,
                               &gbit_per_s);
    if (status == TRYST_OK && json_member(item, "latency_us")) {
        status =
            reader_number(source, item, "latency_us", 0, LATENCY_US_MAX, &latency_us);
        link.latency_ns = (struct graph_number){latency_us * 1e3, ORIGIN_IMPORTED};
    }
    if (status != TRYST_OK)
        return status;
    link.bytes_per_s = (struct graph_number){gbit_per_s * 1e9 / 8, ORIGIN_IMPORTED};
    if (both)
        return reader_judge(source, item, graph_wire_add(graph, &link, &why), &why);
    return reader_judge(source, item, graph_link_add(graph, &link, &why, NULL), &why);
}

/* ---- given routes ------------------------------------------------------------------ */

static tryst_status via_read(const struct source *source, const struct json *list,
                             const struct graph *graph, uint32_t *via)
{
    json_for_each (list, item) {
        const char *name = json_string_of(item);
        if (!name)
            return reader_refuse(source, item,
                                 "a name is needed here: a string in quotes");
        *via = graph_find(graph, name);
        if (*via++ == GRAPH_NONE)
            return reader_refuse(source, item,
                                 "\"%.100s\" is neither in \"ranks\" nor in \"nodes\"",
                                 name);
    }
    return TRYST_OK;
}

static tryst_status route_read(const struct source *source, const struct json *item,
                               void *arg)
{
    static const char *const names[] = {"from", "to", "via", NULL};
    struct graph *graph = arg;
    struct graph_route route = {0};
    struct err why = ERR_INIT;
    tryst_status status = reader_members(source, item, "a route", names);
    if (status == TRYST_OK)
        status = end_read(source, item, "from", graph, &route.from);
    if (status == TRYST_OK)
        status = end_read(source, item, "to", graph, &route.to);
    if (status != TRYST_OK)
        return status;
    const struct json *list = json_member(item, "via");
    if (!json_is(list, JSON_LIST))
        return reader_refuse(source, item,
                             "a route needs \"via\": the list of nodes between its "
                             "ends ([] where there are none)");
    uint32_t *via = mem_zalloc_array(json_count(list), sizeof *via);
    if (!via)
        return source_no_memory(source);
    status = via_read(source, list, graph, via);
    route.via = via;
    route.via_count = (uint32_t)json_count(list);
    if (status == TRYST_OK)
        status = reader_judge(source, item, graph_route_add(graph, &route, &why), &why);
    mem_free(via);
    return status;
}

/* ---- the cluster ------------------------------------------------------------------- */

static tryst_status root_read(const struct source *source, const struct json *root,
                              struct graph *graph)
{
    static const char *const names[] = {"ranks", "nodes", "links", "routes", NULL};
    tryst_status status = reader_members(source, root, "a cluster", names);
    if (status == TRYST_OK)
        status = reader_list(source, root, "ranks", true, rank_read, graph);
    if (status == TRYST_OK && graph->ranks_count == 0)
        return reader_refuse_member(
            source, root, "ranks", "\"ranks\" is empty: a cluster has at least one rank");
    if (status == TRYST_OK)
        status = reader_list(source, root, "nodes", false, node_read, graph);
    if (status == TRYST_OK)
        status = reader_list(source, root, "links", true, link_read, graph);
    if (status == TRYST_OK)
        status = reader_list(source, root, "routes", false, route_read, graph);
    return status;
}

tryst_status cluster_json_read(const struct source *source, struct graph **graph_p)
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
