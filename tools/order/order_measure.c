/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order_measure.h.
 *
 * Idea: settings belong to a context, so each policy gets a context of its own, with a
 * progress thread as in production. The group that the caller has opened brings the
 * others together, and the ranks share their figures over it. First all operations at
 * once give the rate and an all-reduce of one element the latency; from these all ranks
 * derive the same tails and buckets. Then each policy runs steps that follow one another
 * without a barrier. A step's time is from the end of the step before to its own; of each
 * step the slowest rank counts. */
#include "order_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>

#include "order_step.h"
#include "tools/figures.h"
#include "tools/job.h"

/* An operation that takes longer fails the measurement. */
#define WAIT_NS 600000000000ull

enum { LATENCY_ITERS = 40, LATENCY_WARMUP = 10, SETTINGS_MAX = 16 };

struct policy {
    const char *name;
    enum order order; /* its counterpart in virtual time */
    bool has_priority;
    const char *settings[SETTINGS_MAX]; /* names and values */
};

/* The windows, the posted slices and the scratch of `priority` are the largest that the
 * settings allow. */
static const struct policy policies[ORDER_POLICIES] = {
    [ORDER_POLICY_FIFO] = {"fifo", ORDER_FIFO, false, {"sched", "fifo"}},
    [ORDER_POLICY_BUCKETS] = {"buckets", ORDER_BUCKETS, false, {"sched", "fifo"}},
    [ORDER_POLICY_PRIORITY] = {"priority",
                               ORDER_PRIORITY,
                               true,
                               {"window_bytes", "1T", "rail_window_bytes", "1T",
                                "posted_slices", "1024", "scratch_bytes", "1T"}},
    [ORDER_POLICY_OURS] = {"ours", ORDER_PREEMPT, true, {NULL}},
};

struct measure {
    const struct order_job *job;
    tryst_group *group; /* of the caller */
    tryst_step *step;   /* in `group`: the ranks' figures */
    int rank, ranks;
    uint64_t steps, elements;
    float *data;
    double *samples; /* [steps], at least LATENCY_ITERS */
    struct order_params params;
};

/* The context of one policy, and what runs in it. */
struct bench {
    struct measure *all;
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *in;
    struct order_graph graph;
    int32_t *priorities; /* [nodes of the graph]; NULL: none */
    struct order_step *step;
};

const char *order_policy_name(enum order_policy policy)
{
    return policies[policy].name;
}

static tryst_status fail(const struct measure *all, const char *what, tryst_status status,
                         const char *text)
{
    fprintf(stderr, "tryst-perf: rank %d cannot %s: %s%s%s\n", all->rank, what,
            tryst_status_str(status), *text ? ": " : "", text);
    return status;
}

static tryst_status op_end(const struct measure *all, tryst_op *op, const char *what)
{
    tryst_status status = tryst_wait(op, WAIT_NS);
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    if (status != TRYST_OK) {
        tryst_op_error(op, &error);
        fail(all, what, status, error.text);
    }
    tryst_op_release(op);
    return status;
}

/* ---- over the caller's group ------------------------------------------------------- */

/* Bring the ranks of a new context together. */
static int gather(void *arg, const void *mine, void *gathered, size_t bytes)
{
    struct measure *all = arg;
    const tryst_tensor in = {.struct_size = sizeof in,
                             .data = (void *)(uintptr_t)mine,
                             .count = bytes,
                             .dtype = TRYST_DTYPE_U8};
    const tryst_tensor out = {.struct_size = sizeof out,
                              .data = gathered,
                              .count = bytes * (size_t)all->ranks,
                              .dtype = TRYST_DTYPE_U8};
    tryst_op *op;
    tryst_status status = tryst_allgather(all->step, "bootstrap", &in, &out, NULL, &op);
    if (status != TRYST_OK)
        fail(all, "bring the ranks together", status, tryst_last_error());
    else
        status = op_end(all, op, "bring the ranks together");
    return status != TRYST_OK;
}

/* Make each sample that of the slowest rank. */
static tryst_status samples_share(const struct measure *all, uint64_t count)
{
    const tryst_tensor tensor = {.struct_size = sizeof tensor,
                                 .data = all->samples,
                                 .count = count,
                                 .dtype = TRYST_DTYPE_F64};
    tryst_op *op;
    tryst_status status =
        tryst_allreduce(all->step, "samples", NULL, &tensor, TRYST_REDUCE_MAX, NULL, &op);
    return status == TRYST_OK
               ? op_end(all, op, "share the ranks' figures")
               : fail(all, "share the ranks' figures", status, tryst_last_error());
}

static double median(double *samples, uint64_t count)
{
    tool_samples_sort(samples, count);
    return (samples[count / 2] + samples[(count - 1) / 2]) / 2;
}

/* ---- a context --------------------------------------------------------------------- */

/* Open a context with `settings` (names and values), its group, and the graph's step. */
static tryst_status bench_open(struct bench *bench, const char *const *settings)
{
    struct measure *all = bench->all;
    const char *with[SETTINGS_MAX + 4] = {"progress_thread", "1", "transport",
                                          all->job->transport};
    for (int i = 0; settings && settings[i]; i++)
        with[4 + i] = settings[i];
    const tryst_group_params params = {.struct_size = sizeof params,
                                       .allgather = gather,
                                       .allgather_arg = all,
                                       .rank = all->rank,
                                       .size = all->ranks};
    tryst_status status = job_open(with, &params, &bench->ctx, &bench->group);
    if (status != TRYST_OK)
        return fail(all, "open the context of a policy", status, tryst_last_error());
    status = tryst_step_open(bench->group, 1, &bench->in);
    if (status != TRYST_OK)
        return fail(all, "open a step", status, tryst_last_error());
    status = order_step_open(bench->ctx, bench->group, &bench->graph, all->data,
                             bench->priorities, &bench->step);
    return status == TRYST_OK
               ? status
               : fail(all, "prepare the all-reduces", status, tryst_last_error());
}

/* After an error, what is under way ends with the context. */
static void bench_close(struct bench *bench, tryst_status status)
{
    tryst_op *op;
    order_step_close(bench->step);
    if (bench->in && status == TRYST_OK && tryst_step_close(bench->in, &op) == TRYST_OK)
        op_end(bench->all, op, "close the step");
    if (bench->group)
        tryst_group_close(bench->group);
    if (bench->ctx)
        tryst_close(bench->ctx);
    order_step_free(bench->step);
    order_graph_close(&bench->graph);
    free(bench->priorities);
}

static int by_end(const void *a, const void *b)
{
    const struct oracle_piece *x = a, *y = b;
    if (x->to_s != y->to_s)
        return x->to_s < y->to_s ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Take the newest step, which began at `begin_ns`, as a row. What an operation had of the
 * network is not known: here a piece begins with its submission, or where the piece that
 * ended before it ended. */
static struct order_row row_take(const struct bench *bench, const char *name,
                                 uint64_t begin_ns, uint64_t end_ns)
{
    const struct order_graph *graph = &bench->graph;
    struct order_row row = {.name = name,
                            .is_measured = true,
                            .seconds = (double)(end_ns - begin_ns) / 1e9,
                            .spans = order_zalloc(graph->count, sizeof *row.spans),
                            .pieces = order_zalloc(graph->count, sizeof *row.pieces)};
    order_step_spans(bench->step, begin_ns, row.spans);
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->nodes[i].is_operation)
            row.pieces[row.pieces_count++] = (struct oracle_piece){
                graph->nodes[i].origin, row.spans[i].ready_s, row.spans[i].end_s};
    qsort(row.pieces, row.pieces_count, sizeof *row.pieces, by_end);
    for (uint32_t i = 1; i < row.pieces_count; i++)
        row.pieces[i].from_s = fmax(row.pieces[i].from_s, row.pieces[i - 1].to_s);
    return row;
}

/* Run the graph again and again, and take the median of the slowest rank's times.
 * `row_p` NULL: take no row. */
static tryst_status steps_run(struct bench *bench, double *seconds_p, const char *name,
                              struct order_row *row_p)
{
    struct measure *all = bench->all;
    uint64_t warmup = all->job->warmup, begin_ns = tryst_now_ns(bench->ctx), end_ns = 0;
    const char *reason = "";
    tryst_status status = TRYST_OK;
    for (uint64_t i = 0; i < warmup + all->steps && status == TRYST_OK; i++) {
        status = order_step_run(bench->step, bench->in, begin_ns, &end_ns, &reason);
        if (i >= warmup)
            all->samples[i - warmup] = (double)(end_ns - begin_ns) / 1e9;
        if (status == TRYST_OK && row_p && i + 1 == warmup + all->steps)
            *row_p = row_take(bench, name, begin_ns, end_ns);
        begin_ns = end_ns;
    }
    if (status != TRYST_OK)
        return fail(all, "run a step", status, reason);
    status = samples_share(all, all->steps);
    *seconds_p = median(all->samples, all->steps);
    return status;
}

/* ---- rate and latency -------------------------------------------------------------- */

static tryst_status latency_measure(struct bench *bench, double *seconds_p)
{
    struct measure *all = bench->all;
    float one = 0;
    const tryst_tensor tensor = {
        .struct_size = sizeof tensor, .data = &one, .count = 1, .dtype = TRYST_DTYPE_F32};
    tryst_status status = TRYST_OK;
    for (int i = 0; i < LATENCY_WARMUP + LATENCY_ITERS && status == TRYST_OK; i++) {
        uint64_t begin_ns = tryst_now_ns(bench->ctx);
        tryst_op *op;
        status = tryst_allreduce(bench->in, "latency", NULL, &tensor, TRYST_REDUCE_SUM,
                                 NULL, &op);
        if (status != TRYST_OK)
            return fail(all, "measure the latency", status, tryst_last_error());
        status = op_end(all, op, "measure the latency");
        if (i >= LATENCY_WARMUP)
            all->samples[i - LATENCY_WARMUP] =
                (double)(tryst_now_ns(bench->ctx) - begin_ns) / 1e9;
    }
    if (status == TRYST_OK)
        status = samples_share(all, LATENCY_ITERS);
    *seconds_p = median(all->samples, LATENCY_ITERS);
    return status;
}

/* Read the plan's bound as a rate; NaN: none is known. */
static double certificate_rate(const struct bench *bench)
{
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_ALLREDUCE,
                                      .reduce = TRYST_REDUCE_SUM,
                                      .count = bench->all->elements,
                                      .dtype = TRYST_DTYPE_F32};
    tryst_coll_info info = {.struct_size = sizeof info};
    if (tryst_coll_estimate(bench->group, &params, &info) != TRYST_OK ||
        !(info.bound_seconds > 0))
        return NAN;
    return (double)(bench->all->elements * sizeof(float)) / info.bound_seconds;
}

/* Set all->params to the measured rate and latency, and the optima. */
static void rates_take(struct bench *bench, double all_at_once_s,
                       struct order_measured *measured)
{
    struct measure *all = bench->all;
    double bytes = (double)order_sum(all->job->profile).bytes;
    double certificate = certificate_rate(bench);
    /* In virtual time, all at once take bytes / rate + latency. What is too small for
     * that has no rate: its time is that of one operation. */
    double moving_s = fmax(all_at_once_s - measured->latency_s, all_at_once_s / 2);
    measured->bytes_per_s = bytes > 0 && moving_s > 0 ? bytes / moving_s : NAN;
    /* without bytes the rate has no effect */
    all->params = order_params(all->job, bytes > 0 ? measured->bytes_per_s : 1,
                               measured->latency_s);
    struct order_figures figures = order_compute(all->job->profile, &all->params);
    measured->optimum_s = figures.optimum_s;
    measured->possible_gain = figures.possible_gain;
    for (int i = 0; i < ORDER_POLICIES; i++) {
        double seconds = figures.seconds[policies[i].order];
        measured->policies[i].simulated_s = seconds >= 0 ? seconds : NAN;
    }
    const struct oracle_network bound = {.bytes_per_s = certificate};
    measured->certificate_s =
        isnan(certificate) ? NAN : order_bound(all->job->profile, &bound);
}

static tryst_status rates_measure(struct measure *all, struct order_measured *measured)
{
    struct bench bench = {.all = all, .graph = order_graph_bare(all->job->profile)};
    double all_at_once_s = 0;
    tryst_status status = bench_open(&bench, NULL);
    if (status == TRYST_OK)
        status = steps_run(&bench, &all_at_once_s, NULL, NULL);
    if (status == TRYST_OK)
        status = latency_measure(&bench, &measured->latency_s);
    if (status == TRYST_OK)
        rates_take(&bench, all_at_once_s, measured);
    bench_close(&bench, status);
    return status;
}

/* ---- policies ---------------------------------------------------------------------- */

/* Make the graph that the ranks run, and its priorities. */
static void graph_open(struct bench *bench, const struct policy *policy)
{
    const struct order_profile *profile = bench->all->job->profile;
    const struct order_params *params = &bench->all->params;
    if (policy->order == ORDER_BUCKETS) {
        struct order_groups buckets = order_buckets(profile, params);
        bench->graph = order_graph_open(profile, &buckets);
        order_groups_close(&buckets);
    } else {
        bench->graph = order_graph_open(profile, NULL);
    }
    if (policy->has_priority)
        bench->priorities = order_priorities(profile, &params->network);
}

static tryst_status policy_measure(struct measure *all, const struct policy *policy,
                                   const struct order_measured *measured,
                                   struct order_policy_figures *figures,
                                   struct order_row *row_p)
{
    struct bench bench = {.all = all};
    figures->step_s = figures->gap_order = figures->gap_certificate = NAN;
    if (isnan(figures->simulated_s))
        return TRYST_OK; /* no buckets */
    graph_open(&bench, policy);
    tryst_status status = bench_open(&bench, policy->settings);
    if (status == TRYST_OK)
        status = steps_run(&bench, &figures->step_s, policy->name, row_p);
    if (row_p)
        row_p->in_buckets = policy->order == ORDER_BUCKETS;
    bench_close(&bench, status);
    figures->gap_order = order_gap(figures->step_s, measured->optimum_s);
    if (!isnan(measured->certificate_s))
        figures->gap_certificate = order_gap(figures->step_s, measured->certificate_s);
    return status;
}

static tryst_status memory_get(struct measure *all)
{
    uint64_t samples = all->steps > LATENCY_ITERS ? all->steps : LATENCY_ITERS;
    for (uint32_t i = 0; i < all->job->profile->count; i++)
        all->elements += order_step_elements(all->job->profile->nodes[i].bytes);
    if (all->elements > SIZE_MAX / sizeof(float) - 1)
        return fail(all, "allocate the gradients", TRYST_E_NOMEM, "");
    all->samples = calloc(samples, sizeof *all->samples);
    all->data = malloc((all->elements + 1) * sizeof *all->data);
    if (!all->samples || !all->data)
        return fail(all, "allocate the gradients", TRYST_E_NOMEM, "");
    /* its pages exist before the clock runs */
    memset(all->data, 0, all->elements * sizeof *all->data);
    return TRYST_OK;
}

tryst_status order_measure(const struct order_job *job, tryst_group *group,
                           struct order_measured *measured_p)
{
    struct measure all = {.job = job,
                          .group = group,
                          .rank = tryst_group_rank(group),
                          .ranks = tryst_group_size(group),
                          .steps = job->steps};
    struct order_measured measured = {.latency_s = 0};
    tryst_op *op;
    tryst_status status = memory_get(&all);
    if (status == TRYST_OK) {
        status = tryst_step_open(group, 1, &all.step);
        if (status != TRYST_OK)
            fail(&all, "open a step", status, tryst_last_error());
    }
    if (status == TRYST_OK)
        status = rates_measure(&all, &measured);
    for (int i = 0; i < ORDER_POLICIES && status == TRYST_OK; i++)
        status = policy_measure(&all, &policies[i], &measured, &measured.policies[i],
                                job->draw || job->report ? &measured.rows[i] : NULL);
    if (all.step && tryst_step_close(all.step, &op) == TRYST_OK)
        op_end(&all, op, "close the step");
    free(all.samples);
    free(all.data);
    measured.network = all.params.network;
    if (status == TRYST_OK)
        *measured_p = measured;
    else
        order_measured_free(&measured);
    return status;
}

void order_measured_free(struct order_measured *measured)
{
    for (int i = 0; i < ORDER_POLICIES; i++)
        order_row_free(&measured->rows[i]);
}
