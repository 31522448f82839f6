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

#include <stdio.h>
#include <string.h>

#include "collectives/plan/compiled_equal.h"
#include "collectives/plan/compiled_wire.h"
#include "core/config/config.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "planner_load.h"
#include "rendezvous/bootstrap/roster/roster.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "roster_machines.h"

/* Rank 0 may plan for a third of the bootstrap's time-out, since the other ranks wait
 * in one all-gather meanwhile. */
#define BUDGET_PART   3
#define BUDGET_NS_MAX (20 * NS_PER_S)
/* The budget for the machines of the roster, where a group must open fast: 64 ranks
 * take 0.1 s. */
#define BUDGET_MACHINES_NS (2 * NS_PER_S)
/* The bootstrap's time-out where none is given. */
#define TIMEOUT_NS    (60 * NS_PER_S)
#define HEAD_TEXT_MAX 320
/* The most bytes that a rank allocates for the plan of a head. */
#define PLAN_BYTES_MAX (1u << 30)

enum what {
    EQUAL,      /* TRYST_TOPOLOGY is unset; links between all ranks are alike */
    MACHINES,   /* TRYST_TOPOLOGY is unset; the plan is for the machines of the roster */
    TOPOLOGY,   /* the plan is for TRYST_TOPOLOGY */
    UNREADABLE, /* TRYST_TOPOLOGY cannot be read */
    NO_PLANNER, /* rank 0 cannot load the planner for TRYST_TOPOLOGY */
};

/* All ranks run equal builds (the handshake compares versions), so structs travel
 * unchanged. */
struct announce {
    uint32_t what;
    uint32_t ranks; /* of TRYST_TOPOLOGY, which rank 0 alone parses; else 0 */
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
    const struct config *config;
    struct err *err;
    struct topology_text topology;
    struct roster_machines machines;
    const struct planner_ops *planner; /* rank 0's; NULL: not loaded */
    struct graph *graph;               /* of `planner` */
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

static tryst_status equal_make(struct opening *opening, bool apart)
{
    const struct roster *roster = opening->roster;
    const struct compiled_params params = {
        .apart = apart, .one_host = roster->local_size == roster->size};
    struct compiled_plan *plan;
    tryst_status status = compiled_plan_equal((uint32_t)opening->params->size, &params,
                                              opening->err, &plan);
    if (status)
        return status;
    opening->compiled = plan;
    status = compiled_plan_encode(plan, opening->err, &opening->bytes, &opening->count);
    opening->mine = (struct announce){
        .what = EQUAL,
        .digest = status ? 0 : compiled_plan_digest(opening->bytes, opening->count)};
    return status;
}

/* Find the roster's machines or, if all links are alike, the plan for equal links. */
static tryst_status machines_find(struct opening *opening)
{
    struct roster_machines *machines = &opening->machines;
    tryst_status status = roster_machines_find(opening->roster, opening->err, machines);
    if (status)
        return status;
    if (machines->alike)
        return equal_make(opening, machines->apart);
    opening->mine =
        (struct announce){.what = MACHINES, .digest = roster_machines_digest(machines)};
    return TRYST_OK;
}

static tryst_status planner_need(struct opening *opening)
{
    return opening->planner ? TRYST_OK
                            : planner_load(opening->config, opening->params->log,
                                           opening->err, &opening->planner);
}

static tryst_status topology_read(struct opening *opening, const char *path)
{
    struct topology_text *text = &opening->topology;
    bool plans = opening->params->rank == 0;
    opening->mine.what = UNREADABLE;
    tryst_status status = topology_text_read(path, opening->err, text);
    if (status == TRYST_OK && plans && (status = planner_need(opening)) != TRYST_OK)
        opening->mine.what = NO_PLANNER;
    if (status == TRYST_OK && plans)
        status = topology_text_parse(text, opening->planner, opening->err,
                                     &opening->graph, &opening->mine.ranks);
    if (status == TRYST_OK) {
        opening->mine.what = TOPOLOGY;
        opening->mine.digest = hash_bytes(text->text, text->bytes);
    }
    return status;
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
    if (theirs->what == NO_PLANNER)
        return err_set(opening->err, TRYST_E_UNSUPPORTED,
                       "cannot plan collectives: rank %d cannot load the planner, "
                       "which comes with libtryst_topology; its own error has the reason",
                       rank);
    if (rank == 0 && zero->what == TOPOLOGY && zero->ranks != (uint32_t)size)
        return err_set(opening->err, TRYST_E_GROUP,
                       "cannot plan collectives: TRYST_TOPOLOGY of rank 0 has %u ranks, "
                       "and the group has %d; name a topology of the group's ranks, in "
                       "their order",
                       zero->ranks, size);
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

static tryst_status graph_plan(struct opening *opening)
{
    bool machines = opening->mine.what == MACHINES;
    tryst_status status = planner_need(opening);
    if (status == TRYST_OK && machines)
        status = opening->planner->graph_build(&opening->machines.cluster, opening->err,
                                               &opening->graph);
    if (status != TRYST_OK)
        return status;
    const struct planner_request request = {
        .graph = opening->graph,
        .budget_ns = budget_ns(opening),
        .within_equal = machines,
        .rates_assumed = machines && opening->machines.rates_assumed,
        .alloc = mem_alloc};
    return opening->planner->plan(&request, opening->err, &opening->bytes,
                                  &opening->count);
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
    LOG_INFO(opening->params->log, "collectives are planned for %s: %u tree%s, %s",
             names[what], plan->trees_count, plan->trees_count == 1 ? "" : "s", bound);
}

tryst_status group_plan_open(struct bootstrap *bootstrap,
                             const struct bootstrap_params *params,
                             const struct roster *roster, const struct config *config,
                             struct err *err, struct group_plan **plan_p)
{
    struct opening opening = {.bootstrap = bootstrap,
                              .params = params,
                              .roster = roster,
                              .config = config,
                              .err = err};
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
    mem_free(opening.topology.text);
    roster_machines_drop(&opening.machines);
    if (opening.graph)
        opening.planner->graph_close(opening.graph);
    return status;
}
