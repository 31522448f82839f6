/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order.h: the library replays (tryst/profile.h); this file replays each order
 * once, and compares. */
#include "order.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order_load.h"
#include "tools/json.h"

/* The default of tryst_profile_params.first_bucket_bytes. */
#define FIRST_BUCKET_BYTES (UINT64_C(1) << 20)
/* Two ways to compute one time differ by rounding. */
#define ROUNDING 1e-9

/* ---- contents ---------------------------------------------------------------------- */

tryst_profile_node order_node(const tryst_profile *profile, uint32_t index)
{
    tryst_profile_node node = {.struct_size = sizeof node};
    (void)tryst_profile_node_get(profile, index, &node);
    return node;
}

struct order_sums order_sum(const tryst_profile *profile)
{
    struct order_sums sums = {.actions = 0};
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++) {
        tryst_profile_node node = order_node(profile, i);
        if (node.is_operation)
            sums.operations++;
        else
            sums.actions++;
        sums.bytes += node.bytes;
        sums.actions_s += node.seconds;
    }
    return sums;
}

void order_sums_print(FILE *file, const struct order_job *job)
{
    struct order_sums sums = order_sum(job->profile);
    order_origin_json(file, job);
    fputs("\"profile\": ", file);
    tool_json_string(file, job->path);
    fprintf(file,
            ", \"actions\": %u, \"actions_seconds\": %.9g, \"operations\": %u, "
            "\"operations_bytes\": %" PRIu64,
            sums.actions, sums.actions_s, sums.operations, sums.bytes);
}

tryst_profile_params order_params(const struct order_job *job, double bytes_per_s,
                                  double latency_s)
{
    tryst_profile_params params = {.struct_size = sizeof params,
                                   .bytes_per_s = bytes_per_s,
                                   .latency_s = latency_s,
                                   .bucket_bytes = job->bucket_bytes};
    /* The first bucket is not larger than the others. */
    if (job->bucket_bytes > 0 && job->bucket_bytes < FIRST_BUCKET_BYTES)
        params.first_bucket_bytes = job->bucket_bytes;
    return params;
}

/* Join operations where each has an overhead, and replay. */
static tryst_status fused_replay(tryst_profile *profile,
                                 const tryst_profile_params *params,
                                 struct order_figures *figures)
{
    tryst_profile_params with = *params;
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    size_t nodes = tryst_profile_nodes(profile);
    uint32_t *groups = calloc(nodes + 1, sizeof *groups);
    if (!groups)
        return TRYST_E_NOMEM;
    tryst_status status =
        tryst_profile_fuse(profile, params, groups, &figures->fused_groups);
    with.order = TRYST_PROFILE_PREEMPT;
    with.groups = groups;
    if (status == TRYST_OK)
        status = tryst_profile_replay(profile, &with, &replayed);
    free(groups);
    figures->fused_s = replayed.seconds;
    return status;
}

tryst_status order_compute(tryst_profile *profile, const tryst_profile_params *params,
                           struct order_figures *figures_p)
{
    struct order_figures figures = {.possible_gain = NAN, .fused_s = -1};
    tryst_profile_params with = *params;
    with.overhead_s = 0;
    tryst_status status = tryst_profile_bound(profile, &with, &figures.optimum_s);
    with.overhead_s = params->overhead_s;
    for (int order = 0; order < ORDER_COUNT && status == TRYST_OK; order++) {
        tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
        with.order = (tryst_profile_order)order;
        status = tryst_profile_replay(profile, &with, &replayed);
        figures.seconds[order] = status == TRYST_OK ? replayed.seconds : -1;
        if (status == TRYST_E_INVALID && order == TRYST_PROFILE_BUCKETS)
            status = TRYST_OK; /* the other orders have shown that the rest is valid */
    }
    if (status == TRYST_OK && params->overhead_s > 0)
        status = fused_replay(profile, params, &figures);
    double fifo_s = figures.seconds[TRYST_PROFILE_FIFO];
    if (fifo_s > 0)
        figures.possible_gain = fmax(0, 1 - figures.optimum_s / fifo_s);
    if (status == TRYST_OK)
        *figures_p = figures;
    return status;
}

double order_gap(double seconds, double optimum_s)
{
    double gap = seconds >= 0 && optimum_s > 0 ? seconds / optimum_s - 1 : NAN;
    return fabs(gap) < ROUNDING ? 0 : gap;
}
