/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the table of subcommands; see perf_kinds.h. */
#include "perf_kinds.h"

#include <stdio.h>
#include <string.h>

#include "tools/launch/launcher.h"

static double bus_all(int n)
{
    return 2.0 * (n - 1) / n;
}

static double bus_part(int n)
{
    return 1.0 * (n - 1) / n;
}

static double bus_one(int n)
{
    (void)n;
    return 1;
}

#define START_OPTIONS  "ranks", "transport", "cores"
#define ALL_OPTIONS    START_OPTIONS, "iters", "iterations", "warmup", "json"
#define PAIR_OPTIONS   ALL_OPTIONS, "sizes", "begin", "end", "factor", "memory"
#define TIME_OPTIONS   "time", "csv"
#define DATA_OPTIONS   PAIR_OPTIONS, TIME_OPTIONS, "dtype", "priority", "check", "explain"
#define URGENT_OPTIONS PAIR_OPTIONS, "background", "every", "fifo", "op"

static const char *const of_pingpong[] = {PAIR_OPTIONS, TIME_OPTIONS, "port", NULL};
static const char *const of_bandwidth[] = {PAIR_OPTIONS, TIME_OPTIONS,    "window",
                                           "port",       "bidirectional", NULL};
static const char *const of_preempt[] = {URGENT_OPTIONS, NULL};
static const char *const of_preempt_coll[] = {URGENT_OPTIONS, "dtype", NULL};
static const char *const of_allreduce[] = {DATA_OPTIONS, "op", "inplace", NULL};
static const char *const of_reduce[] = {DATA_OPTIONS, "op", "inplace", "root", NULL};
static const char *const of_broadcast[] = {DATA_OPTIONS, "root", NULL};
static const char *const of_allgather[] = {DATA_OPTIONS, "inplace", NULL};
static const char *const of_reducescatter[] = {DATA_OPTIONS, "op", "inplace", NULL};
static const char *const of_alltoall[] = {DATA_OPTIONS, NULL};
#define PROFILE_OPTIONS "profile", "simulate", "bucket", "draw", "report"
static const char *const of_sched[] = {PROFILE_OPTIONS, ALL_OPTIONS, NULL};
static const char *const of_simulate[] = {PROFILE_OPTIONS, "json", "gbit", "latency",
                                          NULL};
static const char *const of_barrier[] = {ALL_OPTIONS, TIME_OPTIONS, "priority", NULL};

#define COLL_SIZES "4:64M"
#define RANKS_ANY  .ranks_least = 1, .ranks_most = LAUNCHER_RANKS_MAX
#define RANKS_PAIR .ranks_least = 2, .ranks_most = 2
#define RANKS_EVEN .ranks_least = 2, .ranks_most = LAUNCHER_RANKS_MAX, .ranks_even = true

static const struct perf_kind kinds[] = {
    {"pingpong", of_pingpong, "8:64M", RANKS_EVEN},
    {"bandwidth", of_bandwidth, "8:64M", RANKS_EVEN},
    {"preempt", of_preempt, "4K,64K,1M", RANKS_PAIR, .preempts = true},
    {"preempt --op allreduce", of_preempt_coll, "1M", .ranks_least = 1, .ranks_most = 512,
     .coll = TRYST_COLL_ALLREDUCE, .reduces = true, .preempts = true},
    {"sched", of_sched, NULL, RANKS_ANY, .replays = true},
    {"sched --simulate", of_simulate, NULL, RANKS_ANY, .replays = true,
     .simulates = true},
    {"allreduce", of_allreduce, COLL_SIZES, RANKS_ANY, TRYST_COLL_ALLREDUCE,
     PERF_RESULT_REDUCED, .reduces = true, .has_in = true, .bus_factor = bus_all},
    {"reduce", of_reduce, COLL_SIZES, RANKS_ANY, TRYST_COLL_REDUCE, PERF_RESULT_REDUCED,
     TRYST_PLAN_REDUCE, .reduces = true, .has_in = true, .has_root = true,
     .bus_factor = bus_one},
    {"broadcast", of_broadcast, COLL_SIZES, RANKS_ANY, TRYST_COLL_BROADCAST,
     PERF_RESULT_ROOTS, TRYST_PLAN_BROADCAST, .has_root = true, .bus_factor = bus_one},
    {"allgather", of_allgather, COLL_SIZES, RANKS_ANY, TRYST_COLL_ALLGATHER,
     PERF_RESULT_GATHERED, TRYST_PLAN_ALLGATHER, .has_in = true, .out_blocks = true,
     .bus_factor = bus_part},
    {"reduce_scatter", of_reducescatter, COLL_SIZES, RANKS_ANY, TRYST_COLL_REDUCE_SCATTER,
     PERF_RESULT_REDUCED_BLOCK, TRYST_PLAN_REDUCE_SCATTER, .reduces = true,
     .has_in = true, .in_blocks = true, .bus_factor = bus_part},
    {"alltoall", of_alltoall, COLL_SIZES, RANKS_ANY, TRYST_COLL_ALLTOALL,
     PERF_RESULT_EXCHANGED, .has_in = true, .in_blocks = true, .out_blocks = true,
     .bus_factor = bus_part},
    {"barrier", of_barrier, NULL, RANKS_ANY, TRYST_COLL_BARRIER, .bus_factor = bus_one},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *perf_kinds_names(void)
{
    static char text[256];
    *text = '\0';
    for (int k = 0; k < KINDS; k++) {
        const char *before = !k ? "" : k + 1 == KINDS ? " and " : ", ";
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%s", before, kinds[k].name);
    }
    return text;
}

const char *perf_kind_name(int i)
{
    return i < KINDS ? kinds[i].name : NULL;
}

/* Compare names: "all_reduce" and "all-reduce" are "allreduce". */
static bool is_name(const char *name, const char *given)
{
    for (;; name++, given++) {
        name += strspn(name, "_-");
        given += strspn(given, "_-");
        if (*name != *given || !*name)
            return *name == *given;
    }
}

bool perf_kind_is(const struct perf_kind *kind, const char *name)
{
    return is_name(kind->name, name);
}

const struct perf_kind *perf_kind_find(const char *name)
{
    for (int k = 0; k < KINDS; k++)
        if (perf_kind_is(&kinds[k], name))
            return &kinds[k];
    return NULL;
}
