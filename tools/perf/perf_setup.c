/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_setup.h. */
#include "perf_setup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json.h"

struct setup {
    int ranks, hosts;
    /* transports to other ranks: "shm", "shm and ucx"; "" for one rank */
    char transports[64];
    const char *topology;
};

static const char *host_of(const struct perf_rank *rank, int peer)
{
    tryst_peer_info info = {.struct_size = sizeof info, .host = ""};
    tryst_group_peer(rank->group, peer, &info);
    return info.host ? info.host : "";
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Count the hosts of the group; 0 without memory to count them. */
static int hosts_count(const struct perf_rank *rank, int ranks)
{
    const char **hosts = calloc((size_t)ranks, sizeof *hosts);
    int count = hosts != NULL;
    if (!hosts)
        return 0;
    for (int peer = 0; peer < ranks; peer++)
        hosts[peer] = host_of(rank, peer);
    qsort(hosts, (size_t)ranks, sizeof *hosts, by_text);
    for (int i = 1; i < ranks; i++)
        count += strcmp(hosts[i - 1], hosts[i]) != 0;
    free(hosts);
    return count;
}

static void transports_find(const struct perf_rank *rank, int ranks, char *text,
                            size_t capacity)
{
    *text = '\0';
    for (int peer = 0; peer < ranks; peer++) {
        tryst_peer_info info = {.struct_size = sizeof info, .transport = ""};
        tryst_group_peer(rank->group, peer, &info);
        size_t at = strlen(text);
        if (peer != rank->rank && *info.transport && !strstr(text, info.transport))
            snprintf(text + at, capacity - at, "%s%s", at ? " and " : "", info.transport);
    }
}

static struct setup setup_find(const struct perf_rank *rank)
{
    struct setup setup = {.ranks = tryst_group_size(rank->group),
                          .topology = getenv("TRYST_TOPOLOGY")};
    setup.hosts = hosts_count(rank, setup.ranks);
    transports_find(rank, setup.ranks, setup.transports, sizeof setup.transports);
    if (setup.topology && !*setup.topology)
        setup.topology = NULL;
    return setup;
}

static const char *memory_text(const struct perf_options *options)
{
    if (options->memory[0] == TRYST_MEMORY_CUDA)
        return "cuda";
    return options->mapped ? "mapped" : "plain";
}

static void priority_text(const tryst_op_params *params, char *text, size_t capacity)
{
    if (params->flags & TRYST_OP_BACKGROUND)
        snprintf(text, capacity, "background");
    else
        snprintf(text, capacity, "%" PRId32, params->priority);
}

void perf_setup_print(FILE *out, const struct perf_rank *rank)
{
    const struct perf_options *options = rank->options;
    const struct perf_kind *kind = options->kind;
    struct setup setup = setup_find(rank);
    char priority[32];
    fprintf(out, "# %d rank%s on %d host%s%s%s", setup.ranks, setup.ranks == 1 ? "" : "s",
            setup.hosts, setup.hosts == 1 ? "" : "s", *setup.transports ? " over " : "",
            setup.transports);
    if (kind->sizes)
        fprintf(out, "; %s%s%s, %s memory%s", tryst_dtype_name(options->dtype),
                kind->reduces ? " " : "",
                kind->reduces ? perf_reduce_name(options->reduce) : "",
                memory_text(options), options->inplace ? ", in place" : "");
    if (kind->has_root)
        fprintf(out, "; root %d", options->root);
    if (options->params.flags) {
        priority_text(&options->params, priority, sizeof priority);
        fprintf(out, "; priority %s", priority);
    }
    fprintf(
        out, "\n# trees planned for %s%s\n",
        setup.topology ? "TRYST_TOPOLOGY=" : "the ranks' machines and NICs",
        setup.topology
            ? setup.topology
            : " (TRYST_TOPOLOGY is unset); no bound is known if all machines are alike");
}

void perf_setup_json(FILE *file, const struct perf_rank *rank)
{
    const struct perf_options *options = rank->options;
    const struct perf_kind *kind = options->kind;
    struct setup setup = setup_find(rank);
    char priority[32];
    priority_text(&options->params, priority, sizeof priority);
    fprintf(file,
            "\"version\": \"%s\", \"ranks\": %d, \"hosts\": %d, \"transport\": \"%s\", ",
            tryst_version_string(), setup.ranks, setup.hosts, setup.transports);
    fprintf(file, "\"priority\": \"%s\", \"topology\": ", priority);
    tool_json_string(file, setup.topology);
    if (kind->sizes)
        fprintf(file, ", \"dtype\": \"%s\", \"memory\": \"%s\", \"in_place\": %s",
                tryst_dtype_name(options->dtype), memory_text(options),
                options->inplace ? "true" : "false");
    if (kind->reduces)
        fprintf(file, ", \"op\": \"%s\"", perf_reduce_name(options->reduce));
    if (kind->has_root)
        fprintf(file, ", \"root\": %d", options->root);
}
