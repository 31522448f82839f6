/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tryst-topo --probe.
 *
 * One idea: rank 0 collects, the ranks work. Each rank sends its host's identity to rank
 * 0 once, and gets the numbers of all hosts. From then on every rank computes the same
 * rounds, runs its own flows, and sends its figures to rank 0 at the end. The library
 * fits the graph to the figures (tryst_topo_fit). The result is kept in a file named
 * after the hosts and interfaces for which it is true.
 * Invariants: runs only on request; bounded in time by --probe-seconds, and in bytes by
 * that time and the wires; no clock of one rank is compared with another rank's. */
#include "topo_probe.h"

#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/job.h"
#include "topo_flows.h"
#include "topo_tool.h"

#define FLOW_NS_MOST  UINT64_C(400000000)
#define FLOW_NS_LEAST UINT64_C(60000000)

enum { RANKS_MAX = 64, INTERFACES_MAX = 16 };

/* The identity of one rank's host, sent to rank 0. */
struct identity {
    char host[96]; /* name and network namespace: equal for ranks that share a network */
    char name[72];
    char interfaces[400]; /* "eth0 10000, eth1 25000", sorted */
};

/* The verdict of rank 0, sent to all ranks. */
struct verdict {
    int32_t hosts[RANKS_MAX];
    int32_t known; /* 1: the graph is in the cache, so nothing is measured */
};

struct probe {
    const struct probe_options *options;
    struct flows flows;
    struct identity identities[RANKS_MAX]; /* rank 0: of all ranks */
    struct verdict verdict;
    char cache[4096]; /* rank 0: path of the cache; empty: none */
    tryst_probe_flow *schedule;
    int schedule_count;
    int round;          /* the current round, from 1 */
    double *latency_ns; /* [from × size + to]; below 0: not measured on this rank */
};

static int fail(const struct probe *probe, const char *what, tryst_status status,
                const char *text)
{
    return topo_fail(TOPO_WRONG, "rank %d: %s: %s%s%s", probe->flows.rank, what,
                     tryst_status_str(status), *text ? ": " : "", text);
}

/* ---- hosts ------------------------------------------------------------------------- */

static long interface_speed(const char *name)
{
    char path[128], text[32] = "";
    snprintf(path, sizeof path, "/sys/class/net/%.64s/speed", name);
    FILE *file = fopen(path, "re");
    bool known = file && fgets(text, sizeof text, file);
    long speed = known ? strtol(text, NULL, 10) : 0;
    if (file)
        fclose(file);
    return speed > 0 ? speed : 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void interfaces_list(char *text, size_t capacity)
{
    char items[INTERFACES_MAX][48];
    size_t count = 0, used = 0;
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at && count < INTERFACES_MAX;
         at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_PACKET ||
            !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK))
            continue;
        snprintf(items[count++], sizeof items[0], "%.20s %ld", at->ifa_name,
                 interface_speed(at->ifa_name));
    }
    freeifaddrs(all);
    qsort(items, count, sizeof items[0], by_text);
    for (size_t i = 0; i < count && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "",
                                 items[i]);
}

static void identity_make(struct identity *identity)
{
    char space[64] = "";
    memset(identity, 0, sizeof *identity);
    if (gethostname(identity->name, sizeof identity->name - 1) != 0)
        strcpy(identity->name, "host");
    if (readlink("/proc/self/ns/net", space, sizeof space - 1) < 0)
        strcpy(space, "?");
    memcpy(identity->host, identity->name, sizeof identity->name);
    size_t used = strlen(identity->host);
    snprintf(identity->host + used, sizeof identity->host - used, " %.20s", space);
    interfaces_list(identity->interfaces, sizeof identity->interfaces);
}

/* Terminate a text from another process, and replace unprintable characters: they could
 * steer a terminal. */
static void text_close(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    for (; *text; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

static void identity_close(struct identity *identity)
{
    text_close(identity->host, sizeof identity->host);
    text_close(identity->name, sizeof identity->name);
    text_close(identity->interfaces, sizeof identity->interfaces);
}

/* Make names unique: a host name that several ranks share gets ":<rank>" at its end. */
static void names_make(struct identity *identities, int size)
{
    bool shared[RANKS_MAX] = {false};
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            shared[i] |= i != j && strcmp(identities[i].name, identities[j].name) == 0;
    for (int i = 0; i < size; i++)
        if (shared[i])
            snprintf(identities[i].name + strlen(identities[i].name),
                     sizeof identities[i].name - strlen(identities[i].name), ":%d", i);
}

static void hosts_number(const struct identity *identities, int size, int32_t *hosts)
{
    for (int i = 0; i < size; i++) {
        hosts[i] = i;
        for (int j = i - 1; j >= 0; j--)
            if (strcmp(identities[i].host, identities[j].host) == 0)
                hosts[i] = hosts[j];
    }
}

/* ---- the cache --------------------------------------------------------------------- */

/* Hash (FNV-1a) the names, hosts and interfaces for which the figures are true. Namespace
 * numbers are left out: each new namespace gets another one. */
static uint64_t identities_hash(const struct probe *probe)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < probe->flows.size; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s|%d|%s\n", probe->identities[i].name,
                 probe->verdict.hosts[i], probe->identities[i].interfaces);
        for (const char *c = line; *c; c++)
            hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void cache_name(struct probe *probe)
{
    const char *given = probe->options->cache, *base = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given)
        snprintf(probe->cache, sizeof probe->cache, "%s",
                 strcmp(given, "none") == 0 ? "" : given);
    else if (base && *base)
        snprintf(probe->cache, sizeof probe->cache, "%s/tryst/probe-%016" PRIx64 ".json",
                 base, identities_hash(probe));
    else if (home && *home)
        snprintf(probe->cache, sizeof probe->cache,
                 "%s/.cache/tryst/probe-%016" PRIx64 ".json", home,
                 identities_hash(probe));
}

/* True if a cached graph has exactly these ranks. */
static bool cache_fits(const struct probe *probe, const tryst_topo *topo)
{
    if (tryst_topo_ranks(topo) != probe->flows.size)
        return false;
    for (int i = 0; i < probe->flows.size; i++)
        if (strcmp(tryst_topo_rank_name(topo, i), probe->identities[i].name) != 0)
            return false;
    return true;
}

static tryst_topo *cache_get(const struct probe *probe)
{
    tryst_topo *topo = NULL;
    if (!*probe->cache || probe->options->again || access(probe->cache, F_OK) != 0)
        return NULL;
    if (tryst_topo_load(probe->cache, &topo) != TRYST_OK) {
        topo_fail(0, "cannot use the cache, measuring again: %s", tryst_last_error());
        return NULL;
    }
    if (cache_fits(probe, topo)) {
        fprintf(
            stderr,
            "tryst-topo: the graph is from the cache %s (--probe-again measures again)\n",
            probe->cache);
        return topo;
    }
    topo_fail(0, "cannot use the cache %s: it is of other ranks; measuring again",
              probe->cache);
    tryst_topo_close(topo);
    return NULL;
}

static void folders_make(const char *path)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *c = folder + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        (void)mkdir(folder, 0777); /* opening the file reports a missing folder */
        *c = '/';
    }
}

/* Write the cache whole or not at all: to another name, then rename. */
static void cache_put(const struct probe *probe, const tryst_topo *topo)
{
    char part[4200], *text = NULL;
    if (!*probe->cache)
        return;
    folders_make(probe->cache);
    snprintf(part, sizeof part, "%s.%ld", probe->cache, (long)getpid());
    if (tryst_topo_write(topo, "json", NULL, &text) != TRYST_OK)
        topo_fail(0, "cannot write the cache: %s", tryst_last_error());
    else if (topo_text_put(text, part) == TOPO_FINE && rename(part, probe->cache) != 0)
        topo_fail(0, "cannot write %s: %s", probe->cache, strerror(errno));
    tryst_text_free(text);
}

/* ---- measuring --------------------------------------------------------------------- */

static int round_end(const struct probe *probe, int begin)
{
    int end = begin;
    while (end < probe->schedule_count &&
           probe->schedule[end].round == probe->schedule[begin].round)
        end++;
    return end;
}

/* Set the time of each round's flows so that all rounds fit into --probe-seconds. */
static int time_divide(struct probe *probe)
{
    int rounds = probe->schedule[probe->schedule_count - 1].round + 1;
    double most = probe->options->seconds_max * 1e9 / rounds;
    probe->flows.flow_ns = most < (double)FLOW_NS_MOST ? (uint64_t)most : FLOW_NS_MOST;
    if (probe->flows.flow_ns >= FLOW_NS_LEAST)
        return TOPO_FINE;
    if (probe->flows.rank == 0)
        topo_fail(0,
                  "%d rounds do not fit into %g s; --probe-seconds %.0f gives each %g ms",
                  rounds, probe->options->seconds_max,
                  (double)rounds * (double)FLOW_NS_LEAST * 1e-9 + 1,
                  (double)FLOW_NS_LEAST * 1e-6);
    return TOPO_USAGE;
}

/* Measure round trips in a round in which each pair is alone, if this rank is in a
 * pair. */
static tryst_status round_ping(struct probe *probe, int begin, int end)
{
    tryst_status status = TRYST_OK;
    int size = probe->flows.size, rank = probe->flows.rank;
    uint64_t step_id = probe->flows.step_id;
    for (int f = begin; f < end && status == TRYST_OK; f++) {
        int a = probe->schedule[f].from, b = probe->schedule[f].to;
        if (a < b && (a == rank || b == rank))
            status = flows_ping(&probe->flows, a, b, &probe->latency_ns[a * size + b]);
    }
    /* the same id on all ranks, also those without a pair */
    probe->flows.step_id = step_id + 1;
    return status;
}

static void progress_print(const struct probe *probe, int done, int all)
{
    if (probe->flows.rank == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\rprobe: round %d of %d%s", done, all, done == all ? "\n" : "");
}

/* Report the round, and the two ranks of the flow, that failed. */
static int fail_measuring(const struct probe *probe, tryst_status status)
{
    const struct flows *flows = &probe->flows;
    int rounds = probe->schedule[probe->schedule_count - 1].round + 1;
    char what[128];
    if (flows->failed_from < 0)
        snprintf(what, sizeof what, "round %d of %d", probe->round, rounds);
    else
        snprintf(what, sizeof what, "round %d of %d, from rank %d to rank %d",
                 probe->round, rounds, flows->failed_from, flows->failed_to);
    return fail(probe, what, status, "");
}

/* Announce the number and the time of the rounds before they run. */
static void measuring_announce(const struct probe *probe)
{
    int rounds = probe->schedule[probe->schedule_count - 1].round + 1;
    if (probe->flows.rank == 0)
        fprintf(stderr,
                "tryst-topo: measuring %d ranks in %d rounds of %.2g s; other traffic on "
                "these "
                "wires will slow down\n",
                probe->flows.size, rounds, (double)probe->flows.flow_ns * 1e-9);
}

static tryst_status rounds_run(struct probe *probe)
{
    int size = probe->flows.size, count = probe->schedule_count;
    int rounds = probe->schedule[count - 1].round + 1;
    tryst_status status = TRYST_OK;
    for (int begin = 0, end; begin < count && status == TRYST_OK; begin = end) {
        end = round_end(probe, begin);
        probe->round = probe->schedule[begin].round + 1;
        if (begin < size * (size - 1)) /* first each pair once, apart from others */
            status = round_ping(probe, begin, end);
        if (status == TRYST_OK)
            status = flows_meet(&probe->flows);
        if (status == TRYST_OK)
            status = flows_run(&probe->flows, &probe->schedule[begin], end - begin);
        progress_print(probe, probe->round, rounds);
    }
    return status == TRYST_OK ? flows_meet(&probe->flows) : status;
}

/* Send each rank's figures to rank 0, which keeps those that the sender measured. */
static tryst_status figures_gather(struct probe *probe)
{
    int size = probe->flows.size, count = probe->schedule_count;
    size_t room = (size_t)count + (size_t)size * (size_t)size;
    double *figures = calloc(room, sizeof *figures);
    tryst_status status = figures ? TRYST_OK : TRYST_E_NOMEM;
    for (int rank = 1; rank < size && status == TRYST_OK; rank++) {
        for (int f = 0; f < count; f++)
            figures[f] = probe->schedule[f].bytes_per_s;
        memcpy(figures + count, probe->latency_ns,
               (size_t)size * (size_t)size * sizeof *figures);
        status = flows_move(&probe->flows, rank, 0, figures, room * sizeof *figures);
        for (int f = 0; f < count && probe->flows.rank == 0; f++)
            if (probe->schedule[f].to == rank)
                probe->schedule[f].bytes_per_s = figures[f];
        for (int to = 0; to < size && probe->flows.rank == 0; to++)
            if (to > rank)
                probe->latency_ns[rank * size + to] = figures[count + rank * size + to];
    }
    free(figures);
    for (int i = 0; i < size; i++) /* half a round trip is the same each way */
        for (int j = 0; j < i; j++)
            probe->latency_ns[i * size + j] = probe->latency_ns[j * size + i];
    return status;
}

static int graph_make(struct probe *probe, tryst_topo **topo_p)
{
    const char *names[RANKS_MAX];
    tryst_probe_info info = {.struct_size = sizeof info};
    for (int i = 0; i < probe->flows.size; i++)
        names[i] = probe->identities[i].name;
    tryst_status status =
        tryst_topo_fit(probe->flows.size, names, probe->schedule, probe->schedule_count,
                       probe->latency_ns, &info, topo_p);
    if (status != TRYST_OK)
        return fail(probe, "fitting a graph", status, tryst_last_error());
    fprintf(stderr, "tryst-topo: %d of %d flows match the graph (%s", info.explained,
            info.flows, info.mesh ? "a wire for each pair" : "switches");
    if (!info.mesh)
        fprintf(stderr, "; %d wires that ranks share", info.groups);
    fprintf(stderr, ")\n");
    cache_put(probe, *topo_p);
    return TOPO_FINE;
}

/* ---- a rank ------------------------------------------------------------------------ */

/* Send all identities to rank 0, and its verdict to all ranks. */
static tryst_status ranks_know(struct probe *probe, tryst_topo **topo_p)
{
    struct flows *flows = &probe->flows;
    tryst_status status = TRYST_OK;
    identity_make(&probe->identities[flows->rank]);
    for (int rank = 1; rank < flows->size && status == TRYST_OK; rank++) {
        status = flows_move(flows, rank, 0, &probe->identities[rank],
                            sizeof probe->identities[rank]);
        identity_close(&probe->identities[rank]);
    }
    if (status == TRYST_OK && flows->rank == 0) {
        hosts_number(probe->identities, flows->size, probe->verdict.hosts);
        names_make(probe->identities, flows->size);
        cache_name(probe);
        *topo_p = cache_get(probe);
        probe->verdict.known = *topo_p != NULL;
    }
    for (int rank = 1; rank < flows->size && status == TRYST_OK; rank++)
        status = flows_move(flows, 0, rank, &probe->verdict, sizeof probe->verdict);
    return status;
}

static int probe_measure(struct probe *probe, tryst_topo **topo_p)
{
    size_t pairs = (size_t)probe->flows.size * (size_t)probe->flows.size;
    tryst_status status = tryst_probe_schedule(probe->flows.size, probe->verdict.hosts,
                                               &probe->schedule, &probe->schedule_count);
    if (status != TRYST_OK)
        return fail(probe, "rounds", status, tryst_last_error());
    int result = time_divide(probe);
    if (result != TOPO_FINE)
        return result;
    probe->latency_ns = malloc(pairs * sizeof *probe->latency_ns);
    for (size_t i = 0; probe->latency_ns && i < pairs; i++)
        probe->latency_ns[i] = -1;
    if (!probe->latency_ns)
        return fail(probe, "measuring", TRYST_E_NOMEM, "");
    measuring_announce(probe);
    status = rounds_run(probe);
    if (status == TRYST_OK)
        status = figures_gather(probe);
    if (status != TRYST_OK)
        return fail_measuring(probe, status);
    return probe->flows.rank == 0 ? graph_make(probe, topo_p) : TOPO_FINE;
}

int probe_run(const struct probe_options *options, tryst_topo **topo_p)
{
    const char *const settings[] = {"transport", options->transport, NULL};
    const tryst_group_params group = {.struct_size = sizeof group};
    int result;
    struct probe *probe = calloc(1, sizeof *probe);
    *topo_p = NULL;
    if (!probe)
        return topo_fail(TOPO_WRONG, "cannot probe: out of memory");
    probe->options = options;
    probe->flows.step_id = 1;
    probe->flows.failed_from = probe->flows.failed_to = -1;
    tryst_status status =
        job_open(settings, &group, &probe->flows.ctx, &probe->flows.group);
    if (status != TRYST_OK) {
        result = fail(probe, "joining the job", status, tryst_last_error());
        free(probe);
        return result;
    }
    probe->flows.rank = tryst_group_rank(probe->flows.group);
    probe->flows.size = tryst_group_size(probe->flows.group);
    if (probe->flows.size < 2 || probe->flows.size > RANKS_MAX)
        result = topo_fail(TOPO_USAGE, "--probe takes 2 to %d ranks; this job has %d",
                           RANKS_MAX, probe->flows.size);
    else if ((status = ranks_know(probe, topo_p)) != TRYST_OK)
        result = fail(probe, "gathering the hosts at rank 0", status, "");
    else
        result = probe->verdict.known ? TOPO_FINE : probe_measure(probe, topo_p);
    tryst_probe_flows_free(probe->schedule);
    free(probe->latency_ns);
    tryst_group_close(probe->flows.group);
    tryst_close(probe->flows.ctx);
    free(probe);
    return result;
}
