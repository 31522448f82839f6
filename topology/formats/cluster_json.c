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

#include <jansson.h>
#include <string.h>

#include "core/memory/alloc.h"

#define STEPS_MAX 5

/* A rate or latency outside these limits is a typing mistake. The upper limits also keep
 * sums within the range of a double. */
#define GBIT_PER_S_MIN 1e-9
#define GBIT_PER_S_MAX 1e12
#define LATENCY_US_MAX 1e12

struct cluster {
    const struct source *source;
    struct graph *graph;
    struct json_step path[STEPS_MAX]; /* from the root to the current value */
    size_t path_count;
};

typedef tryst_status (*item_fn)(struct cluster *cluster, json_t *item);

/* ---- refusing ---------------------------------------------------------------------- */

static struct text_place place_now(const struct cluster *cluster)
{
    return json_place(cluster->source->text, cluster->source->bytes, cluster->path,
                      cluster->path_count);
}

#define refuse(cluster, ...) \
    source_refuse((cluster)->source, place_now(cluster), __VA_ARGS__)

/* Reject the member `name` of the current value. */
#define refuse_member(cluster, name, ...) \
    (path_push(cluster, name, 0), refuse(cluster, __VA_ARGS__))

static tryst_status judge(const struct cluster *cluster, tryst_status status,
                          const struct err *why)
{
    if (status == TRYST_OK)
        return status;
    return source_judge(cluster->source, place_now(cluster), status, why);
}

static void path_push(struct cluster *cluster, const char *name, size_t index)
{
    cluster->path[cluster->path_count++] = (struct json_step){name, index};
}

/* Check that `object` has only members of `names`, which ends with NULL; `what` names the
 * object in messages. */
static tryst_status members_check(struct cluster *cluster, json_t *object,
                                  const char *what, const char *const *names)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return refuse(cluster, "%s must be an object, {…}", what);
    json_object_foreach(object, name, value)
    {
        const char *const *known = names;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (!*known)
            return refuse_member(cluster, name, "%s has no member \"%.60s\"", what, name);
    }
    return TRYST_OK;
}

/* ---- ranks and nodes --------------------------------------------------------------- */

static tryst_status name_read(struct cluster *cluster, json_t *item,
                              enum graph_node_kind kind)
{
    const char *name = json_string_value(item);
    struct graph_node node = {
        .name = name, .kind = kind, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    struct err why = ERR_INIT;
    if (!name)
        return refuse(cluster, "a name is needed here: a string in quotes");
    uint32_t before = graph_find(cluster->graph, name);
    if (before != GRAPH_NONE && cluster->graph->nodes[before].kind != kind)
        return refuse(cluster,
                      "\"%.100s\" is both in \"ranks\" and in \"nodes\": a rank forwards "
                      "nothing; remove it from \"nodes\"",
                      name);
    return judge(cluster, graph_node_add(cluster->graph, &node, &why, NULL), &why);
}

static tryst_status rank_read(struct cluster *cluster, json_t *item)
{
    return name_read(cluster, item, NODE_RANK);
}

static tryst_status node_read(struct cluster *cluster, json_t *item)
{
    return name_read(cluster, item, NODE_SWITCH);
}

/* ---- links ------------------------------------------------------------------------- */

static tryst_status end_read(struct cluster *cluster, json_t *object, const char *member,
                             uint32_t *node_p)
{
    json_t *value = json_object_get(object, member);
    const char *name = json_string_value(value);
    if (!value)
        return refuse(cluster, "\"%s\" is missing: the name of a rank or node", member);
    if (!name)
        return refuse_member(cluster, member, "\"%s\" must be the name of a rank or node",
                             member);
    *node_p = graph_find(cluster->graph, name);
    if (*node_p != GRAPH_NONE)
        return TRYST_OK;
    return refuse_member(cluster, member,
                         "\"%.100s\" is neither in \"ranks\" nor in \"nodes\"", name);
}

/* Choose the members that name the ends: "a" and "b" (*both_p is true), or "from" and
 * "to". */
static tryst_status ends_choose(struct cluster *cluster, json_t *object, bool *both_p)
{
    bool ways = json_object_get(object, "a") || json_object_get(object, "b");
    bool way = json_object_get(object, "from") || json_object_get(object, "to");
    if (ways && way)
        return refuse(cluster,
                      "a link has either \"a\" and \"b\" (both ways) or \"from\" "
                      "and \"to\" (one way), not both");
    if (!ways && !way)
        return refuse(cluster, "a link needs its ends: \"a\" and \"b\" (both ways) or "
                               "\"from\" and \"to\" (one way)");
    *both_p = ways;
    return TRYST_OK;
}

static tryst_status number_read(struct cluster *cluster, json_t *object,
                                const char *member, double min, double max,
                                double *number_p)
{
    json_t *value = json_object_get(object, member);
    double number = json_number_value(value);
    if (!json_is_number(value))
        return refuse_member(cluster, member, "\"%s\" must be a number", member);
    if (!(number >= min && number <= max))
        return refuse_member(cluster, member,
                             "\"%s\" is %g: it must be %s, and at most %g", member,
                             number, min > 0 ? "above 0" : "0 or more", max);
    *number_p = number;
    return TRYST_OK;
}

static tryst_status link_read(struct cluster *cluster, json_t *item)
{
    static const char *const names[] = {"a",          "b",          "from", "to",
                                        "gbit_per_s", "latency_us", NULL};
    struct graph_link link = {.latency_ns = {GRAPH_UNKNOWN, ORIGIN_NONE}};
    struct err why = ERR_INIT;
    double gbit_per_s = 0, latency_us = 0;
    bool both = false;
    tryst_status status = members_check(cluster, item, "a link", names);
    if (status == TRYST_OK)
        status = ends_choose(cluster, item, &both);
    if (status == TRYST_OK)
        status = end_read(cluster, item, both ? "a" : "from", &link.from);
    if (status == TRYST_OK)
        status = end_read(cluster, item, both ? "b" : "to", &link.to);
    if (status == TRYST_OK && !json_object_get(item, "gbit_per_s"))
        return refuse(cluster, "\"gbit_per_s\" is missing: the bandwidth of the link");
    if (status == TRYST_OK)
        status = number_read(cluster, item, "gbit_per_s", GBIT_PER_S_MIN, GBIT_PER_S_MAX,
                             &gbit_per_s);
    if (status == TRYST_OK && json_object_get(item, "latency_us")) {
        status = number_read(cluster, item, "latency_us", 0, LATENCY_US_MAX, &latency_us);
        link.latency_ns = (struct graph_number){latency_us * 1e3, ORIGIN_IMPORTED};
    }
    if (status != TRYST_OK)
        return status;
    link.bytes_per_s = (struct graph_number){gbit_per_s * 1e9 / 8, ORIGIN_IMPORTED};
    if (both)
        return judge(cluster, graph_wire_add(cluster->graph, &link, &why), &why);
    return judge(cluster, graph_link_add(cluster->graph, &link, &why, NULL), &why);
}

/* ---- given routes ------------------------------------------------------------------ */

static tryst_status via_read(struct cluster *cluster, json_t *list, uint32_t *via)
{
    json_t *item;
    size_t i;
    path_push(cluster, "via", 0);
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        path_push(cluster, NULL, i);
        if (!name)
            return refuse(cluster, "a name is needed here: a string in quotes");
        via[i] = graph_find(cluster->graph, name);
        if (via[i] == GRAPH_NONE)
            return refuse(cluster, "\"%.100s\" is neither in \"ranks\" nor in \"nodes\"",
                          name);
        cluster->path_count--;
    }
    cluster->path_count--;
    return TRYST_OK;
}

static tryst_status route_read(struct cluster *cluster, json_t *item)
{
    static const char *const names[] = {"from", "to", "via", NULL};
    struct graph_route route = {0};
    struct err why = ERR_INIT;
    tryst_status status = members_check(cluster, item, "a route", names);
    if (status == TRYST_OK)
        status = end_read(cluster, item, "from", &route.from);
    if (status == TRYST_OK)
        status = end_read(cluster, item, "to", &route.to);
    if (status != TRYST_OK)
        return status;
    json_t *list = json_object_get(item, "via");
    if (!json_is_array(list))
        return refuse(cluster, "a route needs \"via\": the list of nodes between its "
                               "ends ([] where there are none)");
    uint32_t *via = mem_zalloc_array(json_array_size(list), sizeof *via);
    if (!via)
        return source_no_memory(cluster->source);
    status = via_read(cluster, list, via);
    route.via = via;
    route.via_count = (uint32_t)json_array_size(list);
    if (status == TRYST_OK)
        status = judge(cluster, graph_route_add(cluster->graph, &route, &why), &why);
    mem_free(via);
    return status;
}

/* ---- the cluster ------------------------------------------------------------------- */

static tryst_status list_read(struct cluster *cluster, json_t *root, const char *name,
                              bool needed, item_fn item_read)
{
    json_t *list = json_object_get(root, name), *item;
    tryst_status status = TRYST_OK;
    size_t i;
    if (!list)
        return needed ? refuse(cluster, "\"%s\" is missing: a list, […]", name) : status;
    path_push(cluster, name, 0);
    if (!json_is_array(list))
        return refuse(cluster, "\"%s\" must be a list, […]", name);
    if (needed && json_array_size(list) == 0 && item_read == rank_read)
        return refuse(cluster, "\"ranks\" is empty: a cluster has at least one rank");
    json_array_foreach(list, i, item)
    {
        path_push(cluster, NULL, i);
        status = item_read(cluster, item);
        if (status != TRYST_OK)
            return status;
        cluster->path_count--;
    }
    cluster->path_count--;
    return TRYST_OK;
}

static tryst_status root_read(struct cluster *cluster, json_t *root)
{
    static const char *const names[] = {"ranks", "nodes", "links", "routes", NULL};
    tryst_status status = members_check(cluster, root, "a cluster", names);
    if (status == TRYST_OK)
        status = list_read(cluster, root, "ranks", true, rank_read);
    if (status == TRYST_OK)
        status = list_read(cluster, root, "nodes", false, node_read);
    if (status == TRYST_OK)
        status = list_read(cluster, root, "links", true, link_read);
    if (status == TRYST_OK)
        status = list_read(cluster, root, "routes", false, route_read);
    return status;
}

/* Report a syntax error in jansson's words, at its line and column. */
static tryst_status syntax_refuse(const struct source *source, const json_error_t *error)
{
    struct text_place place = {error->line > 0 ? (unsigned)error->line : 1,
                               error->column > 0 ? (unsigned)error->column : 1};
    if (json_error_code(error) == json_error_out_of_memory)
        return source_no_memory(source);
    return source_refuse(source, place, "invalid JSON: %s", error->text);
}

tryst_status cluster_json_read(const struct source *source, struct graph **graph_p)
{
    json_error_t error;
    struct cluster cluster = {.source = source};
    json_t *root =
        json_loadb(source->text, source->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return syntax_refuse(source, &error);
    tryst_status status = graph_open(&cluster.graph);
    if (status == TRYST_OK)
        status = root_read(&cluster, root);
    else
        status = source_no_memory(source);
    json_decref(root);
    if (status != TRYST_OK) {
        graph_close(cluster.graph);
        return status;
    }
    *graph_p = cluster.graph;
    return TRYST_OK;
}
