/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order.h: replays each order once, and compares. */
#include "order.h"

#include <inttypes.h>
#include <math.h>

#include "tools/json.h"

#define BUCKET_BYTES       (UINT64_C(25) << 20)
#define FIRST_BUCKET_BYTES (UINT64_C(1) << 20)
/* Two ways to compute one time differ by rounding. */
#define ROUNDING 1e-9

struct order_sums order_sum(const struct order_profile *profile)
{
    struct order_sums sums = {.actions = 0};
    for (uint32_t i = 0; i < profile->count; i++) {
        const struct order_node *node = &profile->nodes[i];
        if (node->is_operation)
            sums.operations++;
        else
            sums.actions++;
        sums.bytes += node->bytes;
        sums.actions_s += node->seconds;
    }
    return sums;
}

void order_sums_print(FILE *file, const struct order_job *job)
{
    struct order_sums sums = order_sum(job->profile);
    order_origin_json(file, job->profile);
    fputs("\"profile\": ", file);
    tool_json_string(file, job->path);
    fprintf(file,
            ", \"actions\": %u, \"actions_seconds\": %.9g, \"operations\": %u, "
            "\"operations_bytes\": %" PRIu64,
            sums.actions, sums.actions_s, sums.operations, sums.bytes);
}

struct order_params order_params(const struct order_job *job, double bytes_per_s,
                                 double latency_s)
{
    uint64_t bytes = job->bucket_bytes ? job->bucket_bytes : BUCKET_BYTES;
    return (struct order_params){
        .network = {.bytes_per_s = bytes_per_s, .latency_s = latency_s},
        .bucket_bytes = bytes,
        .first_bucket_bytes = bytes < FIRST_BUCKET_BYTES ? bytes : FIRST_BUCKET_BYTES};
}

/* Return the time of a step; below 0: not possible. */
static double order_seconds(const struct order_profile *profile,
                            const struct order_params *params, enum order order)
{
    struct order_row row = {.seconds = 0};
    double seconds = order_replay(profile, params, order, &row) ? row.seconds : -1;
    order_row_free(&row);
    return seconds;
}

struct order_figures order_compute(const struct order_profile *profile,
                                   const struct order_params *params)
{
    struct order_figures figures = {.possible_gain = NAN};
    figures.optimum_s = order_bound(profile, &params->network);
    for (int order = 0; order < ORDER_COUNT; order++)
        figures.seconds[order] = order_seconds(profile, params, (enum order)order);
    double fifo_s = figures.seconds[ORDER_FIFO];
    if (fifo_s > 0)
        figures.possible_gain = fmax(0, 1 - figures.optimum_s / fifo_s);
    return figures;
}

double order_gap(double seconds, double optimum_s)
{
    double gap = seconds >= 0 && optimum_s > 0 ? seconds / optimum_s - 1 : NAN;
    return fabs(gap) < ROUNDING ? 0 : gap;
}
