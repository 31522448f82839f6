/* SPDX-License-Identifier: Apache-2.0 */
/* Read and write profiles.
 *
 * One idea: all nodes are read before any "after", so a name may be that of a later node;
 * a table finds nodes by name meanwhile.
 * Invariant: reading what was written gives an equal profile. */
#include "profile_json.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/hash_table.h"
#include "core/source/json_reader.h"
#include "core/text/hash.h"

/* Version 1 had no origin. */
enum { PROFILE_JSON_VERSION = 2, PROFILE_JSON_OLDEST = 1 };
/* The most ranks of a job. */
enum { SIZE_MAX_RANKS = 1 << 20 };
/* The upper limits keep sums of numbers within the range of a double. */
#define SECONDS_MAX 1e9
#define BYTES_MAX   (UINT64_C(1) << 53)

struct names {
    struct tryst_profile *profile;
    struct hash_table table; /* of `nodes`, by name */
    struct hash_node *nodes; /* by number */
    uint32_t next;           /* the node that gets its predecessors next */
};

/* ---- reading ----------------------------------------------------------------------- */

/* Return the number of the node `name`; the number of nodes: there is none. */
static uint32_t name_find(const struct names *names, const char *name)
{
    const struct tryst_profile *profile = names->profile;
    hash_table_for_each (&names->table, hash_bytes(name, strlen(name)), node) {
        uint32_t number = (uint32_t)(node - names->nodes);
        if (strcmp(profile->nodes[number].name, name) == 0)
            return number;
    }
    return profile->nodes_count;
}

static tryst_status times_read(const struct source *source, const struct json *item,
                               struct profile_node *node)
{
    for (int i = 0; i < PROFILE_TIMES; i++) {
        const char *name = profile_time_name((enum profile_time)i);
        if (!json_member(item, name))
            continue;
        if (!node->is_operation)
            return reader_refuse_member(
                source, item, name,
                "\"%s\" is recorded of operations alone, which have "
                "\"bytes\"",
                name);
        tryst_status status =
            reader_number(source, item, name, 0, SECONDS_MAX, &node->times_s[i]);
        if (status != TRYST_OK)
            return status;
    }
    return TRYST_OK;
}

static tryst_status amount_read(const struct source *source, const struct json *item,
                                struct profile_node *node)
{
    bool seconds = json_member(item, "seconds"), bytes = json_member(item, "bytes");
    if (seconds == bytes)
        return reader_refuse(source, item,
                             "a node has either \"seconds\" (an action) or \"bytes\" (an "
                             "operation)%s",
                             bytes ? ", not both" : "");
    node->is_operation = bytes;
    if (bytes)
        return reader_whole(source, item, "bytes", BYTES_MAX, &node->bytes);
    return reader_number(source, item, "seconds", 0, SECONDS_MAX, &node->seconds);
}

static tryst_status node_read(const struct source *source, const struct json *item,
                              void *arg)
{
    static const char *const members[] = {"name",      "seconds", "bytes",       "after",
                                          "ready",     "matched", "first_slice", "done",
                                          "first_use", NULL};
    struct names *names = arg;
    const char *name = NULL;
    tryst_status status = reader_members(source, item, "a node", members);
    if (status == TRYST_OK)
        status = reader_string(source, item, "name", true, &name);
    if (status != TRYST_OK)
        return status;
    uint32_t number = names->profile->nodes_count;
    if (name_find(names, name) < number)
        return reader_refuse_member(source, item, "name",
                                    "the name \"%.100s\" is used twice", name);
    struct profile_node *node = profile_node_add(names->profile, name);
    if (!node)
        return source_no_memory(source);
    hash_table_add(&names->table, &names->nodes[number], hash_bytes(name, strlen(name)));
    status = amount_read(source, item, node);
    return status == TRYST_OK ? times_read(source, item, node) : status;
}

static tryst_status before_read(const struct source *source, const struct json *item,
                                void *arg)
{
    struct names *names = arg;
    const char *name = json_string_of(item);
    if (!name)
        return reader_refuse(source, item,
                             "the name of a node is needed here: a string in "
                             "quotes");
    uint32_t number = name_find(names, name);
    if (number == names->profile->nodes_count)
        return reader_refuse(source, item, "there is no node \"%.100s\"", name);
    if (!profile_after_add(names->profile, names->next, number))
        return source_no_memory(source);
    return TRYST_OK;
}

static tryst_status after_read(const struct source *source, const struct json *item,
                               void *arg)
{
    struct names *names = arg;
    tryst_status status = reader_list(source, item, "after", false, before_read, names);
    names->next++;
    return status;
}

static tryst_status version_check(const struct source *source, const struct json *root)
{
    if (json_whole_get(json_member(root, "tryst_profile"), PROFILE_JSON_OLDEST,
                       PROFILE_JSON_VERSION, &(int64_t){0}))
        return TRYST_OK;
    return reader_refuse_member(
        source, root, "tryst_profile",
        "\"tryst_profile\" must be %d or %d, the versions of this "
        "format",
        PROFILE_JSON_OLDEST, PROFILE_JSON_VERSION);
}

static tryst_status run_read(const struct source *source, const struct json *root,
                             uint64_t *run_p)
{
    static const char digits[] = "0123456789abcdef";
    const char *text;
    tryst_status status = reader_string(source, root, "run", true, &text);
    if (status != TRYST_OK)
        return status;
    if (strlen(text) != 16 || strspn(text, digits) != 16 || strspn(text, "0") == 16)
        return reader_refuse_member(source, root, "run",
                                    "\"run\" must have 16 digits, 0 to 9 and a to f, "
                                    "not all 0");
    *run_p = strtoull(text, NULL, 16);
    return TRYST_OK;
}

/* Read the origin: all of it, or no member. A merged profile has no rank. */
static tryst_status origin_read(const struct source *source, const struct json *root,
                                struct origin *origin_p)
{
    bool has_rank = json_member(root, "rank");
    uint64_t run = 0, rank = 0, size = 0;
    if (!has_rank && !json_member(root, "run") && !json_member(root, "size"))
        return TRYST_OK;
    tryst_status status = run_read(source, root, &run);
    if (status == TRYST_OK)
        status = reader_whole(source, root, "size", SIZE_MAX_RANKS, &size);
    if (status == TRYST_OK && size == 0)
        return reader_refuse_member(source, root, "size",
                                    "\"size\" must be the number of ranks, 1 to %d",
                                    SIZE_MAX_RANKS);
    if (status == TRYST_OK && has_rank)
        status = reader_whole(source, root, "rank", size - 1, &rank);
    if (status == TRYST_OK)
        *origin_p = (struct origin){run, has_rank ? (int32_t)rank : -1, (int32_t)size};
    return status;
}

static tryst_status root_read(const struct source *source, const struct json *root,
                              struct names *names)
{
    static const char *const members[] = {"tryst_profile", "run",   "rank",
                                          "size",          "nodes", NULL};
    tryst_status status = reader_members(source, root, "a profile", members);
    if (status == TRYST_OK)
        status = version_check(source, root);
    if (status == TRYST_OK)
        status = origin_read(source, root, &names->profile->origin);
    if (status != TRYST_OK)
        return status;
    status = reader_list(source, root, "nodes", true, node_read, names);
    if (status == TRYST_OK)
        status = reader_list(source, root, "nodes", true, after_read, names);
    return status;
}

/* Return a node that comes after itself, or before a node that does; the number of nodes:
 * there is none. Nodes that no node comes after are taken away, again and again (Kahn
 * 1962). `users` and `taken` [nodes] are room for the call; `users` is zero. */
static uint32_t cycle_find(const struct tryst_profile *profile, uint32_t *users,
                           uint32_t *taken)
{
    uint32_t count = 0, cycle = 0;
    for (uint32_t i = 0; i < profile->after_count; i++)
        users[profile->after[i]]++;
    for (uint32_t i = 0; i < profile->nodes_count; i++)
        if (users[i] == 0)
            taken[count++] = i;
    for (uint32_t at = 0; at < count; at++) {
        const struct profile_node *node = &profile->nodes[taken[at]];
        for (uint32_t i = 0; i < node->after_count; i++) {
            uint32_t before = profile->after[node->after_first + i];
            if (--users[before] == 0)
                taken[count++] = before;
        }
    }
    while (cycle < profile->nodes_count && users[cycle] == 0)
        cycle++;
    return cycle;
}

static tryst_status cycle_check(const struct source *source, const struct json *root,
                                const struct tryst_profile *profile)
{
    uint32_t count = profile->nodes_count;
    uint32_t *room = mem_zalloc_array(2 * (size_t)count + 1, sizeof *room);
    if (!room)
        return source_no_memory(source);
    uint32_t cycle = cycle_find(profile, room, room + count);
    mem_free(room);
    if (cycle == count)
        return TRYST_OK;
    return reader_refuse(source, json_item(json_member(root, "nodes"), cycle),
                         "\"%.100s\" comes after itself, or before a node that does",
                         profile->nodes[cycle].name);
}

tryst_status profile_json_read(const struct source *source,
                               struct tryst_profile **profile_p)
{
    struct json *root;
    tryst_status status = json_parse(source, &root);
    if (status != TRYST_OK)
        return status;
    size_t count = json_count(json_member(root, "nodes"));
    struct names names = {.profile = profile_open(),
                          .nodes = mem_zalloc_array(count, sizeof *names.nodes)};
    hash_table_init(&names.table);
    if (names.profile && names.nodes) {
        status = root_read(source, root, &names);
        if (status == TRYST_OK)
            status = cycle_check(source, root, names.profile);
    } else {
        status = source_no_memory(source);
    }
    hash_table_close(&names.table);
    mem_free(names.nodes);
    mem_free(root);
    if (status == TRYST_OK)
        *profile_p = names.profile;
    else
        profile_close(names.profile);
    return status;
}

/* ---- writing ----------------------------------------------------------------------- */

static void times_write(const struct profile_node *node, struct text *text)
{
    for (int i = 0; i < PROFILE_TIMES; i++) {
        if (node->times_s[i] < 0)
            continue;
        text_addf(text, ", \"%s\": ", profile_time_name((enum profile_time)i));
        text_add_number(text, node->times_s[i]);
    }
}

static void node_write(const struct tryst_profile *profile,
                       const struct profile_node *node, struct text *text)
{
    text_add(text, "{\"name\": ");
    text_add_json(text, node->name);
    if (node->is_operation) {
        text_addf(text, ", \"bytes\": %llu", (unsigned long long)node->bytes);
    } else {
        text_add(text, ", \"seconds\": ");
        text_add_number(text, node->seconds);
    }
    times_write(node, text);
    for (uint32_t i = 0; i < node->after_count; i++) {
        text_add(text, i ? ", " : ", \"after\": [");
        text_add_json(text, profile->nodes[profile->after[node->after_first + i]].name);
    }
    text_add(text, node->after_count > 0 ? "]}" : "}");
}

static void origin_write(const struct origin *origin, struct text *text)
{
    if (!origin->run)
        return;
    text_addf(text, "\n \"run\": \"" ORIGIN_RUN "\",", origin->run);
    if (origin->rank >= 0)
        text_addf(text, " \"rank\": %d,", origin->rank);
    text_addf(text, " \"size\": %d,", origin->size);
}

void profile_json_write(const struct tryst_profile *profile, struct text *text)
{
    text_addf(text, "{\"tryst_profile\": %d,", PROFILE_JSON_VERSION);
    origin_write(&profile->origin, text);
    text_add(text, "\n \"nodes\": [");
    for (uint32_t i = 0; i < profile->nodes_count; i++) {
        text_add(text, i ? ",\n  " : "\n  ");
        node_write(profile, &profile->nodes[i], text);
    }
    text_add(text, "]}\n");
}
