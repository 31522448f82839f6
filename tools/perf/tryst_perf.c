/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-perf: measures latency, bandwidth, collectives and preemption. This file starts
 * the ranks, or joins those that are there, and calls what the kind measures. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <tryst/tryst.h>

#include "perf_coll.h"
#include "perf_pairs.h"
#include "perf_preempt.h"
#include "perf_preempt_coll.h"
#include "perf_rank.h"
#include "perf_sched.h"
#include "perf_server.h"
#include "tools/job.h"
#include "tools/launch/launcher.h"
#include "tools/order/order_simulate.h"
#include "tools/standard_files.h"

/* Bind this process to the processor that --cores has for it. */
static bool cores_bind(const struct perf_options *options, int local_rank)
{
    if (!options->cores_count)
        return true;
    if (local_rank < 0) {
        fputs("tryst-perf: --cores: the launcher gives no rank among those of a host; "
              "bind by the launcher\n",
              stderr);
        return false;
    }
    int core = options->cores[local_rank % options->cores_count];
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(core, &mine);
    if (sched_setaffinity(0, sizeof mine, &mine) == 0)
        return true;
    fprintf(stderr, "tryst-perf: cannot bind a rank to processor %d: %s\n", core,
            strerror(errno));
    return false;
}

/* Measure in the group, and return the exit status. */
static int group_measure(struct perf_rank *at)
{
    const struct perf_kind *kind = at->options->kind;
    int size = tryst_group_size(at->group);
    at->peer = (at->rank + size / 2) % size;
    if (kind->replays)
        return perf_sched(at);
    if (kind->coll)
        return kind->preempts ? perf_preempt_coll(at) : perf_coll(at);
    if (size % 2 == 0 && (kind->ranks_even || size == 2))
        return kind->preempts ? perf_preempt(at) : perf_pairs(at);
    fprintf(stderr,
            "tryst-perf: cannot measure %s: this job has %d rank%s, and %s takes %s; "
            "start it with tryst-run -n 2\n",
            kind->name, size, size == 1 ? "" : "s", kind->name,
            kind->ranks_even ? "an even number" : "2");
    return 1;
}

static int group_end(struct perf_rank *at)
{
    int exit_status = group_measure(at);
    tryst_group_close(at->group);
    tryst_close(at->ctx);
    return exit_status;
}

static int rank_main(void *arg, int rank)
{
    const struct perf_options *options = arg;
    struct perf_rank at = {.options = options, .rank = rank};
    const char *const settings[] = {"transport", options->transport, "sched",
                                    options->fifo ? "fifo" : NULL, NULL};
    const tryst_group_params group = {.struct_size = sizeof group};
    tryst_status joined = job_open(settings, &group, &at.ctx, &at.group);
    if (joined != TRYST_OK) {
        fprintf(stderr, "tryst-perf: cannot join the job: %s\n", tryst_last_error());
        return 1;
    }
    at.rank = tryst_group_rank(at.group);
    return group_end(&at);
}

/* Be one of the two sides without a launcher. */
static int remote_main(struct perf_options *options)
{
    struct perf_rank at = {.options = options};
    if (!cores_bind(options, 0) || !perf_server_join(options, &at))
        return 1;
    return group_end(&at);
}

/* Bind a rank to one of the processors that the tool was given, if each rank gets one:
 * two ranks that spin on one processor measure the kernel's scheduler. */
static void rank_bind(int rank, int ranks)
{
    cpu_set_t given, mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof given, &given) != 0 || CPU_COUNT(&given) < ranks)
        return;
    for (int cpu = 0, nth = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &given) && nth++ == rank)
            CPU_SET(cpu, &mine);
    (void)sched_setaffinity(0, sizeof mine, &mine);
}

static int local_main(void *arg, int rank)
{
    const struct perf_options *options = arg;
    if (!cores_bind(options, rank))
        return 1;
    if (!options->cores_count)
        rank_bind(rank, options->ranks);
    return rank_main(arg, rank);
}

/* Start the ranks, or be one. */
static int ranks_main(struct perf_options *options)
{
    int rank, size;
    tryst_launch launch = {.struct_size = sizeof launch};
    if (options->remote)
        return remote_main(options);
    int place = job_place("tryst-perf", &rank, &size);
    if (place < 0)
        return 2;
    if (place && options->cores_count)
        (void)tryst_launch_find(NULL, &launch); /* as job_place has done */
    if (place)
        return cores_bind(options, launch.local_rank) ? rank_main(options, 0) : 1;
    if (!perf_options_start_check(options))
        return 2;
    const struct launcher_params job = {.name = "tryst-perf",
                                        .ranks = options->ranks,
                                        .main_fn = local_main,
                                        .arg = options,
                                        .grace_ns = LAUNCHER_GRACE_NS,
                                        .no_prefix = true};
    return launcher_run(&job) != 0;
}

static int perf_main(int argc, char **argv)
{
    struct perf_options options;
    int status = perf_options_read(argc, argv, &options);
    if (status)
        return status < 0 ? 0 : status;
    if (!perf_options_load(&options))
        return 1;
    status =
        options.kind->simulates ? order_simulate(&options.order) : ranks_main(&options);
    order_profile_close(options.order.profile);
    return status;
}

int main(int argc, char **argv)
{
    standard_files_open();
    return standard_output_end("tryst-perf", perf_main(argc, argv), 1);
}
