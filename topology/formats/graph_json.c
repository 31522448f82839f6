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

#include <jansson.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "json_write.h"

#define STEPS_MAX 5

struct reader {
    const struct source *source;
    struct graph *graph;
    struct json_step path[STEPS_MAX]; /* from the root to the current value */
    size_t path_count;
};

static struct text_place place_now(const struct reader *reader)
{
    return json_place(reader->source->text, reader->source->bytes, reader->path,
                      reader->path_count);
}

#define refuse(reader, ...) \
    source_refuse((reader)->source, place_now(reader), __VA_ARGS__)

/* Report an error of the graph at the current value. */
static tryst_status judge(const struct reader *reader, tryst_status status,
                          const struct err *why)
{
    if (status == TRYST_OK)
        return status;
    return source_judge(reader->source, place_now(reader), status, why);
}

static void path_push(struct reader *reader, const char *name, size_t index)
{
    reader->path[reader->path_count++] = (struct json_step){name, index};
}

/* Return the member `name` of `object`, NULL for none; until path_pop, errors are
 * reported at this member. */
static json_t *member_open(struct reader *reader, json_t *object, const char *name)
{
    path_push(reader, name, 0);
    return json_object_get(object, name);
}

static void path_pop(struct reader *reader)
{
    reader->path_count--;
}

/* Check that `object` has only members of `names`, which ends with NULL. */
static tryst_status members_check(struct reader *reader, json_t *object,
                                  const char *const *names)
{
    if (!json_is_object(object))
        return refuse(reader, "this must be an object, {…}");
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        const char *const *known = names;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (*known)
            continue;
        path_push(reader, name, 0);
        return refuse(reader, "unknown member \"%s\"; check its spelling", name);
    }
    return TRYST_OK;
}

/* Read a string; *string_p is NULL if the member is missing and not `needed`. */
static tryst_status string_read(struct reader *reader, json_t *object, const char *name,
                                bool needed, const char **string_p)
{
    json_t *value = member_open(reader, object, name);
    if (value ? !json_is_string(value) : needed) {
        reader->path_count -= !value;
        return refuse(reader, "\"%s\" must be a string", name);
    }
    *string_p = json_string_value(value);
    path_pop(reader);
    return TRYST_OK;
}

/* Read a whole number up to `max`; *number_p is unchanged where the member is missing. */
static tryst_status whole_read(struct reader *reader, json_t *object, const char *name,
                               uint32_t max, uint32_t *number_p)
{
    json_t *value = member_open(reader, object, name);
    if (value) {
        json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 0 || number > (json_int_t)max)
            return refuse(reader, "\"%s\" must be a whole number from 0 to %u", name,
                          max);
        *number_p = (uint32_t)number;
    }
    path_pop(reader);
    return TRYST_OK;
}

/* Read the member `name`, one of `count` words; *word_p is the word's number. */
static tryst_status word_read(struct reader *reader, json_t *object, const char *name,
                              const char *(*name_of)(int), int count, int *word_p)
{
    const char *word;
    tryst_status status = string_read(reader, object, name, true, &word);
    if (status != TRYST_OK)
        return status;
    for (int i = 0; i < count; i++)
        if (strcmp(word, name_of(i)) == 0) {
            *word_p = i;
            return TRYST_OK;
        }
    path_push(reader, name, 0);
    return refuse(reader, "unknown %s \"%s\"", name, word);
}

static const char *node_kind_name(int kind)
{
    return graph_node_kind_name((enum graph_node_kind)kind);
}

static const char *link_kind_name(int kind)
{
    return graph_link_kind_name((enum graph_link_kind)kind);
}

static tryst_status end_read(struct reader *reader, json_t *object, const char *name,
                             bool needed, uint32_t *node_p)
{
    const char *end;
    tryst_status status = string_read(reader, object, name, needed, &end);
    if (status != TRYST_OK || !end)
        return status;
    *node_p = graph_find(reader->graph, end);
    if (*node_p != GRAPH_NONE)
        return TRYST_OK;
    path_push(reader, name, 0);
    return refuse(reader, "unknown node \"%s\"%s", end,
                  strcmp(name, "parent") == 0 ? "; a parent comes before its children"
                                              : "");
}

/* Read [value, origin]; a missing member or null is unknown. */
static tryst_status number_read(struct reader *reader, json_t *object, const char *name,
                                struct graph_number *number_p)
{
    *number_p = (struct graph_number){GRAPH_UNKNOWN, ORIGIN_NONE};
    json_t *pair = member_open(reader, object, name);
    if (pair && !json_is_null(pair)) {
        json_t *value = json_array_get(pair, 0);
        const char *word = json_string_value(value);
        const char *origin = json_string_value(json_array_get(pair, 1));
        bool unlimited = word && strcmp(word, "unlimited") == 0;
        if (json_array_size(pair) != 2 || !origin ||
            !(json_is_number(value) || json_is_null(value) || unlimited))
            return refuse(reader,
                          "\"%s\" must be [number, null or \"unlimited\", origin]", name);
        if (json_is_number(value))
            number_p->value = json_number_value(value);
        if (json_is_number(value) && !(number_p->value > 0) &&
            !(number_p->value == 0 && strcmp(name, "latency_ns") == 0))
            return refuse(reader, "\"%s\" must be above 0; leave it out where unknown",
                          name);
        if (unlimited)
            number_p->value = GRAPH_UNLIMITED;
        int i = 0;
        while (i < ORIGINS &&
               strcmp(graph_origin_name((enum graph_origin)i), origin) != 0)
            i++;
        if (i == ORIGINS)
            return refuse(reader, "unknown origin \"%s\"", origin);
        number_p->origin = (enum graph_origin)i;
    }
    path_pop(reader);
    return TRYST_OK;
}

static tryst_status node_read(struct reader *reader, json_t *object)
{
    static const char *const names[] = {"name",  "kind", "parent", "os_index",
                                        "label", "pci",  "cpus",   NULL};
    struct graph_node node = {.parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    int kind = 0;
    tryst_status status = members_check(reader, object, names);
    if (status == TRYST_OK)
        status = string_read(reader, object, "name", true, &node.name);
    if (status == TRYST_OK)
        status = word_read(reader, object, "kind", node_kind_name, NODE_KINDS, &kind);
    if (status == TRYST_OK)
        status = end_read(reader, object, "parent", false, &node.parent);
    if (status == TRYST_OK)
        status = whole_read(reader, object, "os_index", UINT32_MAX - 1, &node.os_index);
    if (status == TRYST_OK)
        status = string_read(reader, object, "label", false, &node.label);
    if (status == TRYST_OK)
        status = string_read(reader, object, "pci", false, &node.pci);
    if (status == TRYST_OK)
        status = string_read(reader, object, "cpus", false, &node.cpus);
    if (status != TRYST_OK)
        return status;
    struct err why = ERR_INIT;
    node.kind = (enum graph_node_kind)kind;
    return judge(reader, graph_node_add(reader->graph, &node, &why, &(uint32_t){0}),
                 &why);
}

static tryst_status link_read(struct reader *reader, json_t *object)
{
    static const char *const names[] = {"from",        "to",         "kind",
                                        "generation",  "width",      "down",
                                        "bytes_per_s", "latency_ns", NULL};
    struct graph_link link = {.down = json_is_true(json_object_get(object, "down"))};
    int kind = 0;
    uint32_t generation = 0, width = 0;
    tryst_status status = members_check(reader, object, names);
    if (status == TRYST_OK)
        status = end_read(reader, object, "from", true, &link.from);
    if (status == TRYST_OK)
        status = end_read(reader, object, "to", true, &link.to);
    if (status == TRYST_OK)
        status = word_read(reader, object, "kind", link_kind_name, WIRE_KINDS, &kind);
    if (status == TRYST_OK)
        status = whole_read(reader, object, "generation", UINT16_MAX, &generation);
    if (status == TRYST_OK)
        status = whole_read(reader, object, "width", UINT16_MAX, &width);
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
    return judge(reader, graph_link_add(reader->graph, &link, &why, &(uint32_t){0}),
                 &why);
}

static tryst_status via_read(struct reader *reader, json_t *list, uint32_t *via)
{
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        path_push(reader, NULL, i);
        via[i] = name ? graph_find(reader->graph, name) : GRAPH_NONE;
        if (via[i] == GRAPH_NONE)
            return refuse(reader, "\"via\" must list names of nodes");
        path_pop(reader);
    }
    return TRYST_OK;
}

static tryst_status route_read(struct reader *reader, json_t *object)
{
    static const char *const names[] = {"from", "to", "via", NULL};
    struct graph_route route = {0};
    tryst_status status = members_check(reader, object, names);
    if (status == TRYST_OK)
        status = end_read(reader, object, "from", true, &route.from);
    if (status == TRYST_OK)
        status = end_read(reader, object, "to", true, &route.to);
    if (status != TRYST_OK)
        return status;
    json_t *list = member_open(reader, object, "via");
    if (!json_is_array(list))
        return refuse(reader, "\"via\" must be a list of node names");
    uint32_t *via = mem_zalloc_array(json_array_size(list) + 1, sizeof *via);
    if (!via)
        return source_no_memory(reader->source);
    status = via_read(reader, list, via);
    path_pop(reader);
    if (status == TRYST_OK) {
        struct err why = ERR_INIT;
        route.via = via;
        route.via_count = (uint32_t)json_array_size(list);
        status = judge(reader, graph_route_add(reader->graph, &route, &why), &why);
    }
    mem_free(via);
    return status;
}

static tryst_status skip_read(struct reader *reader, json_t *object)
{
    static const char *const names[] = {"what", "why", NULL};
    struct graph_skip skip;
    struct err why = ERR_INIT;
    tryst_status status = members_check(reader, object, names);
    if (status == TRYST_OK)
        status = string_read(reader, object, "what", true, &skip.what);
    if (status == TRYST_OK)
        status = string_read(reader, object, "why", true, &skip.why);
    if (status != TRYST_OK)
        return status;
    return judge(reader, graph_skip_add(reader->graph, &skip, &why), &why);
}

static tryst_status list_read(struct reader *reader, json_t *root, const char *name,
                              tryst_status (*item_read)(struct reader *, json_t *))
{
    json_t *list = member_open(reader, root, name), *item;
    if (list && !json_is_array(list))
        return refuse(reader, "\"%s\" must be a list", name);
    size_t i;
    json_array_foreach(list, i, item)
    {
        path_push(reader, NULL, i);
        tryst_status status = item_read(reader, item);
        if (status != TRYST_OK)
            return status;
        path_pop(reader);
    }
    path_pop(reader);
    return TRYST_OK;
}

static tryst_status root_read(struct reader *reader, json_t *root)
{
    static const char *const names[] = {"tryst_graph", "nodes",   "links",
                                        "routes",      "skipped", NULL};
    tryst_status status = members_check(reader, root, names);
    if (status != TRYST_OK)
        return status;
    json_t *version = member_open(reader, root, "tryst_graph");
    if (!json_is_integer(version) || json_integer_value(version) != GRAPH_JSON_VERSION)
        return refuse(reader, "\"tryst_graph\" must be %d, the version of this format",
                      GRAPH_JSON_VERSION);
    path_pop(reader);
    status = list_read(reader, root, "nodes", node_read);
    if (status == TRYST_OK)
        status = list_read(reader, root, "links", link_read);
    if (status == TRYST_OK)
        status = list_read(reader, root, "routes", route_read);
    if (status == TRYST_OK)
        status = list_read(reader, root, "skipped", skip_read);
    return status;
}

tryst_status graph_json_read(const struct source *source, struct graph **graph_p)
{
    json_error_t error;
    json_t *root =
        json_loadb(source->text, source->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return source_no_memory(source);
    if (!root)
        return source_refuse(
            source,
            text_place_at(source->text, source->bytes,
                          error.position > 0 ? (size_t)error.position - 1 : 0),
            "%s", error.text);
    struct reader reader = {.source = source};
    tryst_status status = graph_open(&reader.graph);
    if (status == TRYST_OK)
        status = root_read(&reader, root);
    else
        status = source_no_memory(source);
    json_decref(root);
    if (status == TRYST_OK)
        *graph_p = reader.graph;
    else
        graph_close(reader.graph);
    return status;
}
