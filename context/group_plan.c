/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a group's collectives (group_plan.h).
 *
 * Invariant: every rank makes the same calls of the bootstrap in the same order, also
 * after a failure, so no rank waits for a rank that has given up. Only a rank without
 * memory leaves early: the bootstrap's close or its time-out then ends the wait of the
 * others.
 */
#include "group_plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collectives/plan/compiled_equal.h"
#include "collectives/plan/compiled_wire.h"
#include "core/config/config.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "roster_graph.h"
#include "topology/formats/graph_read.h"
#include "topology/sized/compiled_make.h"
#include "topology/sized/compiled_time.h"

/* Rank 0 may plan for a third of the bootstrap's time-out, since the other ranks wait
 * in one all-gather meanwhile. */
#define BUDGET_PART   3
#define BUDGET_NS_MAX (20 * NS_PER_S)
/* The budget for the machines of the roster, where a group must open fast: 64 ranks
 * take 0.1 s. */
#define BUDGET_MACHINES_NS (2 * NS_PER_S)
/* The bootstrap's time-out where none is given. */
#define TIMEOUT_NS (60 * NS_PER_S)
/* Groups of more than RANKS_EXACT ranks get a plan within GAP_LARGE of the optimum:
 * the last per cent would take most of the time. */
#define RANKS_EXACT   64
#define GAP_LARGE     0.01
#define HEAD_TEXT_MAX 320
/* The most bytes that a rank allocates for the plan of a head. */
#define PLAN_BYTES_MAX (1u << 30)

enum what {
    EQUAL,      /* TRYST_TOPOLOGY is unset; links between all ranks are alike */
    MACHINES,   /* TRYST_TOPOLOGY is unset; the plan is for the machines of the roster */
    TOPOLOGY,   /* the plan is for TRYST_TOPOLOGY */
    UNREADABLE, /* TRYST_TOPOLOGY cannot be read */
};

/* All ranks run equal builds (the handshake compares versions), so structs travel
 * unchanged. */
struct announce {
    uint32_t what, ranks;
    uint64_t digest;
};

struct head {
    int32_t status;
    uint32_t reserved;
    uint64_t bytes, digest;
    char text[HEAD_TEXT_MAX];
};

struct agree {
    int32_t status;
    uint32_t reserved;
    uint64_t digest;
};

struct opening {
    struct bootstrap *bootstrap;
    const struct bootstrap_params *params;
    const struct roster *roster;
    struct err *err;
    struct graph *graph; /* this rank's network; NULL: links count as equal */
    bool rates_assumed;  /* the graph's rates are assumed, not detected */
    struct announce mine;
    uint8_t *bytes; /* the encoded plan */
    size_t count;   /* length of `bytes` */
    struct compiled_plan *compiled;
};

static tryst_status no_memory(const struct opening *opening)
{
    err_set(opening->err, TRYST_E_NOMEM,
            "cannot plan collectives for %d ranks: out of memory", opening->params->size);
    return TRYST_E_NOMEM;
}

/* ---- announce ---------------------------------------------------------------------- */

static void link_hash(struct hash_stream *stream, const struct graph_link *link)
{
    const uint32_t ends[3] = {link->from, link->to, link->down};
    const double numbers[2] = {link->bytes_per_s.value, link->latency_ns.value};
    hash_stream_add(stream, ends, sizeof ends);
    hash_stream_add(stream, numbers, sizeof numbers);
}

/* Compute the digest of the graph's parts that a plan depends on: links and their
 * numbers, ranks, given routes. */
static tryst_status graph_digest(const struct graph *graph, uint64_t *digest_p)
{
    assert(graph);
    struct hash_stream *stream;
    tryst_status status = hash_stream_open(&stream);
    if (status)
        return status;
    hash_stream_add(stream, graph->ranks, graph->ranks_count * sizeof *graph->ranks);
    for (uint32_t l = 0; l < graph->links_count; l++)
        link_hash(stream, &graph->links[l]);
    for (uint32_t r = 0; r < graph->routes_count; r++) {
        const struct graph_route *route = &graph->routes[r];
        const uint32_t ends[3] = {route->from, route->to, route->via_count};
        hash_stream_add(stream, ends, sizeof ends);
        hash_stream_add(stream, route->via, route->via_count * sizeof *route->via);
    }
    *digest_p = hash_stream_digest(stream).low;
    hash_stream_close(stream);
    return TRYST_OK;
}

static tryst_status equal_make(struct opening *opening, bool apart)
{
    const struct compiled_params params = {.apart = apart};
    struct compiled_plan *plan;
    tryst_status status = compiled_plan_equal((uint32_t)opening->params->size, &params,
                                              opening->err, &plan);
    if (status)
        return status;
    opening->compiled = plan;
    status = compiled_plan_encode(plan, opening->err, &opening->bytes, &opening->count);
    opening->mine = (struct announce){
        .what = EQUAL,
        .ranks = plan->ranks_count,
        .digest = status ? 0 : compiled_plan_digest(opening->bytes, opening->count)};
    return status;
}

/* Build the graph of the roster's machines or, if all links are alike, the plan for
 * equal links. */
static tryst_status machines_find(struct opening *opening)
{
    struct roster_graph machines;
    tryst_status status = roster_graph_open(opening->roster, opening->err, &machines);
    if (status)
        return status;
    if (!machines.graph)
        return equal_make(opening, machines.apart);
    opening->graph = machines.graph;
    opening->rates_assumed = machines.rates_assumed;
    opening->mine.what = MACHINES;
    opening->mine.ranks = machines.graph->ranks_count;
    status = graph_digest(machines.graph, &opening->mine.digest);
    return status ? no_memory(opening) : TRYST_OK;
}

tryst_status group_plan_topology_load(const char *path, struct err *err,
                                      struct graph **graph_p)
{
    if (strcmp(path, "-") == 0) /* a read of standard input has no deadline */
        return err_set(
            err, TRYST_E_CONFIG,
            "cannot read TRYST_TOPOLOGY: \"-\" is standard input; name a file");
    tryst_status status = graph_load(path, err, graph_p);
    return status == TRYST_OK
               ? status
               : err_set(err, status, "cannot read TRYST_TOPOLOGY: %.400s", err->text);
}

static tryst_status topology_read(struct opening *opening, const char *path)
{
    opening->mine.what = UNREADABLE;
    tryst_status status = group_plan_topology_load(path, opening->err, &opening->graph);
    if (status)
        return status;
    status = graph_digest(opening->graph, &opening->mine.digest);
    if (status)
        return no_memory(opening);
    opening->mine.what = TOPOLOGY;
    opening->mine.ranks = opening->graph->ranks_count;
    return TRYST_OK;
}

/* Refuse an announcement that differs from rank 0's, if both or neither are of
 * TRYST_TOPOLOGY. */
static tryst_status announce_compare(const struct opening *opening,
                                     const struct announce *zero,
                                     const struct announce *theirs, int rank)
{
    bool topology = zero->what == TOPOLOGY;
    bool machines = zero->what == MACHINES || theirs->what == MACHINES;
    if (topology != (theirs->what == TOPOLOGY) ||
        (theirs->what == zero->what && theirs->digest == zero->digest))
        return TRYST_OK;
    return err_set(opening->err, TRYST_E_GROUP,
                   "cannot plan collectives: %s of ranks 0 and %d differ (digests "
                   "%016llx and %016llx); %s",
                   topology   ? "TRYST_TOPOLOGY"
                   : machines ? "the rosters"
                              : "the plans",
                   rank, (unsigned long long)zero->digest,
                   (unsigned long long)theirs->digest,
                   topology   ? "give all ranks the same file"
                   : machines ? "the all-gather must give all ranks the same bytes"
                              : "give all ranks the same build of the library");
}

/* Refuse an announcement that does not fit rank 0's or the group. */
static tryst_status announce_check(const struct opening *opening,
                                   const struct announce *all, int rank)
{
    const struct announce *zero = &all[0], *theirs = &all[rank];
    int size = opening->params->size;
    if (theirs->what == UNREADABLE)
        return err_set(opening->err, TRYST_E_CONFIG,
                       "cannot plan collectives: rank %d cannot read its TRYST_TOPOLOGY; "
                       "its own error has the reason",
                       rank);
    if (theirs->what == TOPOLOGY && theirs->ranks != (uint32_t)size)
        return err_set(opening->err, TRYST_E_GROUP,
                       "cannot plan collectives: TRYST_TOPOLOGY of rank %d has %u ranks, "
                       "and the group has %d; name a topology of the group's ranks, in "
                       "their order",
                       rank, theirs->ranks, size);
    if (theirs->what == TOPOLOGY && zero->what < TOPOLOGY)
        return err_set(
            opening->err, TRYST_E_GROUP,
            "cannot plan collectives: TRYST_TOPOLOGY is set on rank %d, but not "
            "on rank 0, which plans; set it on rank 0, or on no rank",
            rank);
    return announce_compare(opening, zero, theirs, rank);
}

/* Gather the announcements of all ranks and check them; `mine` is this rank's own
 * failure. */
static tryst_status announce(struct opening *opening, tryst_status mine,
                             struct announce *zero_p)
{
    int size = opening->params->size;
    struct announce *all = mem_alloc((size_t)size * sizeof *all);
    if (!all)
        return no_memory(opening);
    struct err why = *opening->err;
    tryst_status status = bootstrap_allgather(opening->bootstrap, &opening->mine,
                                              sizeof opening->mine, all, opening->err);
    if (mine) {
        *opening->err = why;
        status = mine;
    }
    for (int rank = 0; rank < size && status == TRYST_OK; rank++)
        status = announce_check(opening, all, rank);
    if (status == TRYST_OK)
        *zero_p = all[0];
    mem_free(all);
    return status;
}

/* ---- plan, on rank 0 --------------------------------------------------------------- */

static uint64_t budget_ns(const struct opening *opening)
{
    uint64_t timeout_ns = opening->params->timeout_ns;
    uint64_t budget = (timeout_ns ? timeout_ns : TIMEOUT_NS) / BUDGET_PART;
    uint64_t most = opening->mine.what == MACHINES ? BUDGET_MACHINES_NS : BUDGET_NS_MAX;
    return budget < most ? budget : most;
}

/* Compute the longest time allowed for each size: the time of the plan for equal
 * links. */
static tryst_status limits_find(const struct opening *opening, struct overlay *overlay,
                                double limits_s[PLAN_SIZES])
{
    static const struct compiled_params params;
    struct compiled_plan *equal;
    tryst_status status = compiled_plan_equal((uint32_t)opening->params->size, &params,
                                              opening->err, &equal);
    if (status)
        return status;
    status = compiled_plan_times(equal, overlay, 0, limits_s);
    compiled_plan_close(equal);
    return status ? no_memory(opening) : TRYST_OK;
}

static tryst_status sizes_choose(const struct opening *opening, struct overlay *overlay,
                                 const struct plan *plan, struct plan_sizes **sizes_p)
{
    double limits_s[PLAN_SIZES];
    if (opening->mine.what == TOPOLOGY)
        return plan_sizes_open(overlay, plan, 0, opening->err, sizes_p);
    tryst_status status = limits_find(opening, overlay, limits_s);
    return status ? status
                  : plan_sizes_open_within(overlay, plan, 0, limits_s, opening->err,
                                           sizes_p);
}

static tryst_status sizes_compile(struct opening *opening, struct overlay *overlay,
                                  const struct plan *plan)
{
    static const struct compiled_params params;
    struct plan_sizes *sizes;
    struct compiled_plan *compiled;
    tryst_status status = sizes_choose(opening, overlay, plan, &sizes);
    if (status)
        return status;
    const struct plan_sizes *all[] = {sizes};
    status = compiled_plan_make(overlay, all, 1, &params, opening->err, &compiled);
    plan_sizes_close(sizes);
    if (status)
        return status;
    if (opening->rates_assumed)
        compiled->flags |= COMPILED_RATES_ASSUMED;
    status =
        compiled_plan_encode(compiled, opening->err, &opening->bytes, &opening->count);
    compiled_plan_close(compiled);
    return status;
}

static tryst_status graph_plan(struct opening *opening)
{
    struct plan_params params = {.op = PLAN_ALLREDUCE,
                                 .gap_max =
                                     opening->params->size > RANKS_EXACT ? GAP_LARGE : 0,
                                 .budget_ns = budget_ns(opening)};
    struct overlay *overlay;
    struct plan *plan;
    tryst_status status = overlay_open(opening->graph, NULL, 0, opening->err, &overlay);
    if (status)
        return status;
    status = plan_open(overlay, &params, opening->err, &plan);
    if (status == TRYST_OK) {
        status = sizes_compile(opening, overlay, plan);
        plan_close(plan);
    }
    overlay_close(overlay);
    return status;
}

/* ---- spread ------------------------------------------------------------------------ */

/* Send rank 0's head to all ranks; `planned` is the status of the plan. */
static tryst_status head_spread(struct opening *opening, tryst_status planned,
                                struct head *head_p)
{
    int size = opening->params->size;
    struct head mine = {.status = (int32_t)planned};
    struct head *all = mem_alloc((size_t)size * sizeof *all);
    if (!all)
        return no_memory(opening);
    if (opening->params->rank == 0 && planned)
        snprintf(mine.text, sizeof mine.text, "%.*s", HEAD_TEXT_MAX - 1,
                 opening->err->text);
    else if (opening->params->rank == 0) {
        mine.bytes = opening->count;
        mine.digest = compiled_plan_digest(opening->bytes, opening->count);
    }
    tryst_status status =
        bootstrap_allgather(opening->bootstrap, &mine, sizeof mine, all, opening->err);
    *head_p = all[0];
    mem_free(all);
    head_p->text[sizeof head_p->text - 1] = '\0';
    if (status == TRYST_OK && head_p->status)
        status = err_set(opening->err, (tryst_status)head_p->status,
                         "cannot plan collectives: rank 0: %s", head_p->text);
    if (status == TRYST_OK && (head_p->bytes == 0 || head_p->bytes > PLAN_BYTES_MAX))
        status = err_set(opening->err, TRYST_E_GROUP,
                         "cannot plan collectives: rank 0 announces a plan of %llu bytes",
                         (unsigned long long)head_p->bytes);
    return status;
}

/* Compare the digests of the plans that the ranks have decoded; `mine` is this rank's
 * own failure. */
static tryst_status agree(struct opening *opening, tryst_status mine)
{
    int size = opening->params->size;
    struct err why = *opening->err;
    struct agree agree = {.status = (int32_t)mine,
                          .digest = compiled_plan_digest(opening->bytes, opening->count)};
    struct agree *all = mem_alloc((size_t)size * sizeof *all);
    if (!all)
        return no_memory(opening);
    tryst_status status =
        bootstrap_allgather(opening->bootstrap, &agree, sizeof agree, all, opening->err);
    if (mine) {
        *opening->err = why;
        status = mine;
    }
    for (int rank = 0; rank < size && status == TRYST_OK; rank++)
        if (all[rank].status || all[rank].digest != all[0].digest)
            status = err_set(opening->err, TRYST_E_GROUP,
                             "cannot plan collectives: rank %d %s the plan of rank 0 "
                             "(digests %016llx and %016llx)",
                             rank, all[rank].status ? "cannot decode" : "differs from",
                             (unsigned long long)all[rank].digest,
                             (unsigned long long)all[0].digest);
    mem_free(all);
    return status;
}

static tryst_status plan_spread(struct opening *opening)
{
    struct head head;
    bool first = opening->params->rank == 0;
    tryst_status status = first ? graph_plan(opening) : TRYST_OK;
    status = head_spread(opening, status, &head);
    if (status)
        return status;
    if (!first) {
        mem_free(opening->bytes); /* the plan for equal links */
        opening->count = head.bytes;
        opening->bytes = mem_zalloc(opening->count);
        if (!opening->bytes)
            return no_memory(opening);
    }
    status = bootstrap_broadcast(opening->bootstrap, opening->bytes, opening->count,
                                 opening->err);
    if (status)
        return status;
    compiled_plan_close(opening->compiled);
    opening->compiled = NULL;
    status = compiled_plan_decode(opening->bytes, opening->count, opening->err,
                                  &opening->compiled);
    return agree(opening, status);
}

static tryst_status own_plan_copy(const struct opening *opening,
                                  struct group_plan **plan_p)
{
    uint64_t digest = compiled_plan_digest(opening->bytes, opening->count);
    tryst_status status = group_plan_copy(
        opening->compiled, (uint32_t)opening->params->rank, digest, plan_p);
    if (status == TRYST_E_NOMEM)
        return no_memory(opening);
    return status == TRYST_OK
               ? status
               : err_set(opening->err, status,
                         "cannot plan collectives: the plan has no all-reduce");
}

static void plan_log(const struct opening *opening, enum what what)
{
    static const char *const names[] = {[EQUAL] = "equal links between all ranks",
                                        [MACHINES] = "the machines and NICs of the ranks",
                                        [TOPOLOGY] = "TRYST_TOPOLOGY"};
    const struct compiled_plan *plan = opening->compiled;
    char bound[64] = "rates are not known";
    if (plan->bound_bytes_per_s && !(plan->flags & COMPILED_RATES_ASSUMED))
        snprintf(bound, sizeof bound, "an all-reduce moves at most %.3g GB/s",
                 (double)plan->bound_bytes_per_s / 1e9);
    LOG_INFO(opening->params->log, "collectives are planned for %s: %u trees, %s",
             names[what], plan->trees_count, bound);
}

tryst_status group_plan_open(struct bootstrap *bootstrap,
                             const struct bootstrap_params *params,
                             const struct roster *roster, const struct config *config,
                             struct err *err, struct group_plan **plan_p)
{
    struct opening opening = {
        .bootstrap = bootstrap, .params = params, .roster = roster, .err = err};
    const char *path = config_str(config, CONFIG_TOPOLOGY);
    struct announce zero = {0};
    tryst_status status = *path ? topology_read(&opening, path) : machines_find(&opening);
    status = announce(&opening, status, &zero);
    if (status == TRYST_OK && zero.what != EQUAL)
        status = plan_spread(&opening);
    if (status == TRYST_OK)
        status = own_plan_copy(&opening, plan_p);
    if (status == TRYST_OK)
        plan_log(&opening, (enum what)zero.what);
    compiled_plan_close(opening.compiled);
    mem_free(opening.bytes);
    graph_close(opening.graph);
    return status;
}
